//! People answer: they confirm tool calls, and answer the questions of agents.

mod confirmed;
mod denied;
mod goals;
mod grants;
mod live;
mod policies;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::agent::{AGENT, Agent, secret};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

const APPROVE: v1::ConfirmationAnswer = v1::ConfirmationAnswer::Approve;
const DENY: v1::ConfirmationAnswer = v1::ConfirmationAnswer::Deny;

/// Who is there, with roles.
const IDENTITIES: [(&str, &str); 5] = [
    ("alice", "viewer,submitter,operator,approver"),
    ("bob", "viewer,approver"),
    ("carol", "viewer,submitter,operator"),
    (AGENT, "driver"),
    ("engine", "service"),
];

/// Services with these identities, of which `alice` creates the runs.
struct Stage {
    deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn new() -> Result<Self> {
        let mut tokens = NamedTempFile::new()?;
        std::fs::set_permissions(tokens.path(), std::fs::Permissions::from_mode(0o600))?;
        for (name, roles) in IDENTITIES {
            writeln!(tokens, "{} {name} {roles} *", secret(name))?;
        }
        // The same name with another role: who drives a run does not approve its calls by another token.
        writeln!(tokens, "{} {AGENT} viewer,approver *", secret("other-token"))?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [("SURETY_TOKEN_FILE", path.as_str())];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret("alice"))?);
        deployment.add_executor(&[]).await?;
        Ok(Self { deployment, _tokens: tokens })
    }

    fn agent(&self) -> Result<Agent> {
        let executor = self.deployment.executors.first().context("an executor")?;
        Agent::new(executor, AGENT, "worker")
    }

    /// The runs as another identity sees them.
    fn runs_of(&self, token: &str) -> Result<RunServiceClient<ServiceChannel>> {
        let token = Token::new(&secret(token))?;
        Ok(RunServiceClient::new(channel(&self.deployment.planner.url(), Some(&token))?))
    }

    /// A run of one step that an agent decides.
    async fn driven(&self, policy: v1::Policy, ttl_s: i64) -> Result<v1::Run> {
        let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
        let request = v1::CreateRunRequest {
            driver: v1::Driver::Remote.into(),
            policy: Some(policy),
            limits: Some(limits(ttl_s)),
            ..request(&plan, "")
        };
        self.deployment.create_run(request).await
    }

    /// A run of scripts.
    async fn scripted(&self, plan: &Value, policy: v1::Policy, ttl_s: i64) -> Result<v1::Run> {
        let request = v1::CreateRunRequest {
            policy: Some(policy),
            limits: Some(limits(ttl_s)),
            ..request(plan, "")
        };
        self.deployment.create_run(request).await
    }

    /// The wait of a run for a confirmation or an answer, once it is BLOCKED on that.
    async fn asked(&self, run: &v1::Run) -> Result<v1::Wait> {
        let at_rest = |run: &v1::Run| run.blocked.is_some() || run.terminal.is_some();
        self.deployment.wait_for(&run.id, "asking", at_rest).await?;
        self.waits(run).await?.into_iter().next().context("a wait")
    }

    async fn waits(&self, run: &v1::Run) -> Result<Vec<v1::Wait>> {
        let request = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
        Ok(self.deployment.runs()?.list_waits(request).await?.into_inner().waits)
    }

    async fn resolve(&self, wait: &v1::Wait, given: v1::ConfirmationAnswer) -> Result<v1::Run> {
        let answered = self.deployment.runs()?.resolve_confirmation(answer(wait, given)).await?;
        answered.into_inner().run.context("a run")
    }

    async fn receipts(&self, run: &v1::Run) -> Result<Vec<v1::EvidenceReceipt>> {
        let request = v1::ListReceiptsRequest {
            run_id: run.id.clone(),
            page_size: 100,
            ..Default::default()
        };
        Ok(self.deployment.runs()?.list_receipts(request).await?.into_inner().receipts)
    }

    /// The receipts of what people said.
    async fn said(&self, run: &v1::Run) -> Result<Vec<v1::EvidenceReceipt>> {
        let mut receipts = self.receipts(run).await?;
        receipts.retain(|it| {
            matches!(it.source(), v1::EvidenceSource::Approval | v1::EvidenceSource::UserReply)
        });
        Ok(receipts)
    }

    async fn ended(&self, run: &v1::Run, reason: v1::StopReason) -> Result<v1::Run> {
        let run = self.deployment.wait_for_end(&run.id).await?;
        let found = run.terminal.as_ref().map(v1::Terminal::stop_reason);
        ensure!(found == Some(reason), "{run:#?}");
        Ok(run)
    }
}

fn limits(ttl_s: i64) -> v1::Limits {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    v1::Limits { confirm_ttl: seconds(ttl_s), max_replans: Some(0), ..v1::Limits::default() }
}

fn answer(wait: &v1::Wait, answer: v1::ConfirmationAnswer) -> v1::ResolveConfirmationRequest {
    v1::ResolveConfirmationRequest {
        wait_id: wait.id.clone(),
        answer: answer.into(),
        call_digest: wait.call_digest.clone(),
        ..Default::default()
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    Ok(from_status(&answer.err().context("it was answered")?).reason.as_str().to_ascii_lowercase())
}

/// A policy that confirms these tools.
fn confirming(tools: &[&str]) -> v1::Policy {
    let confirm_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    v1::Policy { confirm_tools, ..v1::Policy::default() }
}

/// A reply with a call to `write_file`.
fn writing(action: &str, content: &str) -> String {
    let arguments = json!({"path": "out.txt", "content": content});
    json!({"action": action, "tool_call": {"name": "write_file", "arguments": arguments}})
        .to_string()
}

/// What an agent is shown.
fn shown(context: &v1::StepContext) -> String {
    let texts: Vec<_> = context.messages.iter().map(|message| message.text.as_str()).collect();
    texts.join("\n")
}
