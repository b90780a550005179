//! Events of forges become tasks, and tasks end by reports, failures, later events or the clock.

mod accounts;
mod canary;
mod clock;
mod deaths;
mod ends;
mod failures;
mod forge;
mod github;
mod issues;
mod lines;
mod lost;
mod rules;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::agent::{AGENT, Agent, OTHER, PERSON, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use tempfile::NamedTempFile;
use tonic::Status;

/// The account of [`AGENT`], which writes code; [`OTHER`] is the coordinator and the infrastructure.
pub(crate) const LOGIN: &str = "bob";
/// How long a lease is waited for that must not come.
const NONE_IN_S: i64 = 1;

/// Services with the two agents.
pub(crate) struct Stage {
    pub(crate) deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Services with these variables beside the common ones.
    pub(crate) async fn start_with(more: &[(&str, &str)]) -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [&[("SURETY_TOKEN_FILE", path.as_str())], more].concat();
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let stage = Self { deployment, _tokens: tokens };
        stage.put(AGENT, &[("gitea", LOGIN)], &[]).await?;
        stage.put(OTHER, &[], &["coordinator", "infra"]).await?;
        Ok(stage)
    }

    pub(crate) fn tasks(&self, identity: &str) -> Result<ToolchainServiceClient<ServiceChannel>> {
        let token = Token::new(&secret(identity))?;
        Ok(ToolchainServiceClient::new(channel(&self.deployment.planner.url(), Some(&token))?))
    }

    pub(crate) fn agent(&self, identity: &str) -> Result<Agent> {
        let executor = self.deployment.executors.first().context("no executor")?;
        Agent::new(executor, identity, "a")
    }

    pub(crate) async fn put(
        &self,
        id: &str,
        accounts: &[(&str, &str)],
        roles: &[&str],
    ) -> Result<v1::Agent> {
        let account = |(forge, login): &(&str, &str)| v1::ForgeAccount {
            forge: (*forge).to_owned(),
            login: (*login).to_owned(),
        };
        let agent = v1::Agent {
            id: id.to_owned(),
            accounts: accounts.iter().map(account).collect(),
            roles: roles.iter().map(ToString::to_string).collect(),
            ..v1::Agent::default()
        };
        let request = v1::PutAgentRequest { agent: Some(agent) };
        let stored = self.tasks(PERSON)?.put_agent(request).await?.into_inner().agent;
        stored.context("no agent")
    }

    pub(crate) async fn submit(
        &self,
        event: &str,
        body: &Value,
    ) -> Result<v1::SubmitEventResponse, Status> {
        let request = v1::SubmitEventRequest {
            forge: "gitea".to_owned(),
            event: event.to_owned(),
            body_json: body.to_string(),
        };
        let client = self.tasks(PERSON).map_err(|error| Status::internal(error.to_string()))?;
        Ok({ client }.submit_event(request).await?.into_inner())
    }

    /// The run of a new task: an issue that is assigned to an account.
    pub(crate) async fn assigned(&self, number: u64, login: &str) -> Result<String> {
        let mut answer = self.submit("issues", &issue(number, login)).await?;
        ensure!(answer.tasks.len() == 1, "{answer:#?}");
        let task = answer.tasks.remove(0);
        ensure!(task.result == "created", "{task:#?}");
        Ok(task.run_id)
    }

    pub(crate) async fn task(&self, run_id: &str) -> Result<v1::Task> {
        self.handed(run_id).await?.task.context("no task")
    }

    pub(crate) async fn handed(&self, run_id: &str) -> Result<v1::GetTaskResponse> {
        let request = v1::GetTaskRequest { run_id: run_id.to_owned() };
        Ok(self.tasks(PERSON)?.get_task(request).await?.into_inner())
    }

    pub(crate) async fn report(
        &self,
        identity: &str,
        run_id: &str,
        report: &str,
    ) -> Result<v1::SubmitActionReportResponse, Status> {
        let request = v1::SubmitActionReportRequest {
            run_id: run_id.to_owned(),
            report: report.to_owned(),
            ..v1::SubmitActionReportRequest::default()
        };
        self.report_as(identity, request).await
    }

    pub(crate) async fn report_as(
        &self,
        identity: &str,
        request: v1::SubmitActionReportRequest,
    ) -> Result<v1::SubmitActionReportResponse, Status> {
        let client = self.tasks(identity).map_err(|error| Status::internal(error.to_string()))?;
        Ok({ client }.submit_action_report(request).await?.into_inner())
    }

    /// Waits until a task fulfils a condition.
    pub(crate) async fn wait_for(
        &self,
        run_id: &str,
        what: &str,
        condition: impl Fn(&v1::Task) -> bool,
    ) -> Result<v1::Task> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.task(run_id).await {
                Ok(task) if condition(&task) => return Ok(task),
                other if Instant::now() > deadline => {
                    anyhow::bail!("the task did not become {what} in time: {other:#?}")
                }
                Ok(_) | Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    }

    /// What the history of a task says.
    pub(crate) async fn history(&self, run_id: &str) -> Result<Vec<String>> {
        let run_id = run_id.to_owned();
        let request = v1::ListTaskEntriesRequest { run_id, ..Default::default() };
        let listed = self.tasks(PERSON)?.list_task_entries(request).await?.into_inner();
        Ok(listed.entries.into_iter().map(|entry| entry.body).collect())
    }

    pub(crate) async fn ended(&self, run_id: &str) -> Result<v1::Task> {
        self.wait_for(run_id, "ended", |task| !task.outcome.is_empty()).await
    }

    /// All tasks that the end of a task made, once there are so many and each has its run, which is made after the
    /// task's row.
    pub(crate) async fn caused_by(&self, run_id: &str, count: usize) -> Result<Vec<v1::Task>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::ListTasksRequest { page_size: 1000, ..Default::default() };
            let listed = self.tasks(PERSON)?.list_tasks(request).await?.into_inner().tasks;
            let mut found: Vec<_> =
                listed.into_iter().filter(|task| task.caused_by == run_id).collect();
            found.sort_by(|one, other| one.action_type.cmp(&other.action_type));
            let is_made = |task: &v1::Task| task.state() != v1::RunState::Intake;
            if found.len() >= count && found.iter().all(is_made) {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "only {found:#?} follow from {run_id}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

/// An issue that is assigned to an account, as Gitea says it.
pub(crate) fn issue(number: u64, login: &str) -> Value {
    json!({
        "action": "assigned",
        "issue": {
            "number": number, "title": "The list is slow", "body": "It takes a minute.",
            "labels": [{"name": "bug"}], "updated_at": "2026-11-02T03:04:05Z",
            "assignees": [{"login": login}]
        },
        "repository": {"full_name": "team/app"},
        "sender": {"login": "alice"}
    })
}

/// A pull request of [`LOGIN`] at a minute of an hour.
pub(crate) fn pull(action: &str, number: u64, minute: u32) -> Value {
    let at = format!("2026-11-02T03:{minute:02}:05Z");
    json!({
        "action": action,
        "pull_request": {
            "number": number, "title": "Speed the list up", "user": {"login": LOGIN},
            "head": {"ref": "fix/7-list", "sha": "0123456789012345678901234567890123456789"},
            "base": {"ref": "main"}, "updated_at": at, "merged_at": at,
            "merged": action == "closed", "merged_by": {"login": "alice"},
            "requested_reviewers": []
        },
        "review": {"type": "pull_request_review_rejected", "content": "Add a test."},
        "repository": {"full_name": "team/app"},
        "sender": {"login": "alice"}
    })
}

pub(crate) fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}
