//! Cases whose steps an agent decides over the API: what it replies turn by turn, and what it, a worker and a
//! person do beside that.

use super::base::Base;
use super::calls;
use super::case::Case;
use super::place::Place;
use crate::agent::{AGENT, Agent, OTHER, SECOND_ROLE, WORKER, Work, secret};
use crate::harness::Deployment;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use tonic::Status;
use uuid::Uuid;

/// How long an agent waits for the next turn of its run, which may have ended.
const NEXT_TURN_S: i64 = 2;

/// The agent of one case.
pub(super) struct Driven<'a> {
    deployment: &'a Deployment,
    place: &'a Place,
    run_id: &'a str,
    base: Base,
    agent: Agent,
    /// The turn that it decides next; none without a lease.
    work: Option<Work>,
    /// The turn that it decided last.
    last: Option<Work>,
    /// Why calls were refused, and decisions corrected.
    refused: Vec<String>,
}

/// Makes the agent's replies, and what happens beside them, in their order. Answers why calls were refused.
pub(super) async fn make(
    deployment: &Deployment,
    place: &Place,
    case: &Case,
    run_id: &str,
) -> Result<Vec<String>> {
    let executor = deployment.executors.first().context("no executor runs")?;
    let agent = Agent::new(executor, AGENT, "agent-1")?;
    let (base, work, last, refused) = (Base::of(&case.base)?, None, None, Vec::new());
    let mut driven = Driven { deployment, place, run_id, base, agent, work, last, refused };
    for action in &case.agent {
        driven.act(action).await.with_context(|| action.to_string())?;
    }
    Ok(driven.refused)
}

impl Driven<'_> {
    async fn act(&mut self, action: &Value) -> Result<()> {
        if let Some(texts) = calls::replies(&self.base, action)? {
            for text in texts {
                self.reply(&text).await?;
            }
            return Ok(());
        }
        let named = action.as_object().and_then(|members| members.iter().next());
        let (name, value) =
            named.map_or(("", &Value::Null), |(name, value)| (name.as_str(), value));
        let text = value.as_str().unwrap_or_default();
        match name {
            "outside" => self.place.must(text).await,
            "answer" => {
                let question = self.deployment.question(self.run_id).await?;
                self.deployment.answer(&question.wait_id, text).await
            }
            "grant" => self.grant(value).await,
            "report" => self.report(WORKER, value).await,
            "report_as_driver" => self.report(AGENT, value).await,
            "replay" => self.replay(text).await,
            "as_other" => self.as_other(text).await,
            "agent_answers" => self.agent_answers(text).await,
            "agent_approves" => self.agent_approves(text).await,
            "second_role_answers" => self.second_role_answers(text).await,
            "second_role_approves" => self.second_role_approves(text).await,
            "agent_plans" => self.plans(value, AGENT).await,
            "second_role_plans" => self.plans(value, SECOND_ROLE).await,
            "agent_cancels" => self.agent_cancels().await,
            _ => bail!("nothing reads as {action}"),
        }
    }

    /// Submits a reply to the next turn. Without one, as after the end of the run, nothing is said.
    async fn reply(&mut self, text: &str) -> Result<()> {
        let work = match self.work.take() {
            Some(work) => Some(work),
            None => self.agent.lease(self.run_id, NEXT_TURN_S).await.ok().flatten(),
        };
        let Some(work) = work else {
            self.refused.push("no turn was offered".to_owned());
            return Ok(());
        };
        match self.agent.submit(&work, text).await {
            Ok(answer) => {
                self.refused.extend(Some(answer.correction).filter(|said| !said.is_empty()));
                self.work = answer.next.map(|context| Work { context, ..work.clone() });
            }
            Err(status) => self.refuse(status),
        }
        self.last = Some(work);
        Ok(())
    }

    fn refuse(&mut self, status: Status) {
        self.refused.push(status.message().to_owned());
    }

    fn note<T>(&mut self, answer: Result<T, Status>) -> Result<()> {
        answer.map(drop).map_err(|status| self.refuse(status)).unwrap_or_default();
        Ok(())
    }

    /// Submits the last turn once more, with another text.
    async fn replay(&mut self, text: &str) -> Result<()> {
        let last = self.last.clone().context("no turn was decided yet")?;
        let answer = self.agent.submit(&last, text).await;
        self.note(answer)
    }

    /// Another driver submits under the lease of this one.
    async fn as_other(&mut self, text: &str) -> Result<()> {
        let executor = self.deployment.executors.first().context("no executor runs")?;
        let other = Agent::new(executor, OTHER, "agent-2")?;
        let work = self.work.clone().or_else(|| self.last.clone()).context("no lease yet")?;
        let answer = other.submit(&work, text).await;
        self.note(answer)
    }

    /// A report about the first step that the plan still works on.
    async fn report(&mut self, identity: &str, said: &Value) -> Result<()> {
        let executor = self.deployment.executors.first().context("no executor runs")?;
        let channel = channel(&executor.url(), Some(&Token::new(&secret(identity))?))?;
        let step = |run: &v1::Run| {
            let open = [v1::StepState::Ready, v1::StepState::Running, v1::StepState::Waiting];
            run.steps.iter().position(|step| open.contains(&step.state()))
        };
        let has_step = |run: &v1::Run| step(run).is_some();
        let run = self.deployment.wait_for(self.run_id, "a step under way", has_step).await?;
        let place = step(&run).context("a step under way")?;
        let step_id = run.steps.get(place).map(|step| step.id.clone()).unwrap_or_default();
        let (run_id, lease_epoch) = (self.run_id.to_owned(), 0);
        let request = v1::RecordReceiptRequest {
            fence: Some(v1::StepFence { run_id, step_id, lease_epoch }),
            receipt: Some(receipt(said, i64::try_from(place)?)?),
            request_id: Uuid::now_v7().to_string(),
        };
        let answer = ExecutorServiceClient::new(channel).record_receipt(request).await;
        self.note(answer)
    }

    /// A channel to the planner that shows the token of an identity.
    fn planner(&self, identity: &str) -> Result<ServiceChannel> {
        let token = Token::new(&secret(identity))?;
        Ok(channel(&self.deployment.planner.url(), Some(&token))?)
    }

    async fn wait_id(&self) -> Result<String> {
        Ok(self.deployment.question(self.run_id).await?.wait_id)
    }

    /// A person approves the call that waits, and grants more of them.
    async fn grant(&self, said: &Value) -> Result<()> {
        let run_id = self.run_id.to_owned();
        self.wait_id().await?;
        let list = v1::ListWaitsRequest { run_id, ..Default::default() };
        let waits = self.deployment.runs()?.list_waits(list).await?.into_inner().waits;
        let wait = waits.into_iter().find(|wait| wait.tool_call.is_some()).context("a call")?;
        let uses = said["uses"].as_u64().and_then(|uses| u32::try_from(uses).ok());
        let named = said["arguments"].as_object().into_iter().flatten();
        let glob = |glob: &Value| glob.as_str().unwrap_or_default().to_owned();
        let arguments = named.map(|(name, pattern)| (name.clone(), glob(pattern))).collect();
        let grant = v1::GrantTerms { arguments, uses: uses.unwrap_or(1), ttl: None };
        let request = v1::ResolveConfirmationRequest {
            wait_id: wait.id,
            answer: v1::ConfirmationAnswer::Approve.into(),
            call_digest: wait.call_digest,
            grant: Some(grant),
            ..Default::default()
        };
        self.deployment.runs()?.resolve_confirmation(request).await?;
        Ok(())
    }

    async fn agent_answers(&mut self, text: &str) -> Result<()> {
        let (wait_id, answer) = (self.wait_id().await?, text.to_owned());
        let request = v1::AnswerQuestionRequest { wait_id, answer, ..Default::default() };
        let answer = RunServiceClient::new(self.planner(AGENT)?).answer_question(request).await;
        self.note(answer)
    }

    async fn agent_approves(&mut self, comment: &str) -> Result<()> {
        let request = v1::ResolveConfirmationRequest {
            wait_id: self.wait_id().await?,
            answer: v1::ConfirmationAnswer::Approve.into(),
            comment: comment.to_owned(),
            ..Default::default()
        };
        let answer =
            RunServiceClient::new(self.planner(AGENT)?).resolve_confirmation(request).await;
        self.note(answer)
    }

    async fn second_role_answers(&mut self, text: &str) -> Result<()> {
        let (wait_id, answer) = (self.wait_id().await?, text.to_owned());
        let request = v1::AnswerQuestionRequest { wait_id, answer, ..Default::default() };
        let answer =
            RunServiceClient::new(self.planner(SECOND_ROLE)?).answer_question(request).await;
        self.note(answer)
    }

    async fn second_role_approves(&mut self, comment: &str) -> Result<()> {
        let run_id = self.run_id.to_owned();
        self.wait_id().await?;
        let list = v1::ListWaitsRequest { run_id, ..Default::default() };
        let waits = self.deployment.runs()?.list_waits(list).await?.into_inner().waits;
        let mut waits = waits.into_iter();
        let wait = waits.find(|wait| !wait.call_digest.is_empty()).context("a confirmation")?;
        let request = v1::ResolveConfirmationRequest {
            wait_id: wait.id,
            answer: v1::ConfirmationAnswer::Approve.into(),
            call_digest: wait.call_digest,
            comment: comment.to_owned(),
            ..Default::default()
        };
        let answer =
            RunServiceClient::new(self.planner(SECOND_ROLE)?).resolve_confirmation(request).await;
        self.note(answer)
    }

    /// Leases the plan as the agent, and submits one with the token of an identity.
    async fn plans(&mut self, plan: &Value, submitter: &str) -> Result<()> {
        use v1::submit_plan_request::PlanSource;
        let source = match plan["type"].as_str() {
            Some("PlanPatch") => PlanSource::PatchText(plan.to_string()),
            _ => PlanSource::PlanText(plan.to_string()),
        };
        let mut plans = PlannerServiceClient::new(self.planner(AGENT)?);
        let lease = v1::LeasePlanRequest {
            planner_id: "agent".to_owned(),
            run_id: self.run_id.to_owned(),
            wait: Some(prost_types::Duration { seconds: NEXT_TURN_S, nanos: 0 }),
            ..Default::default()
        };
        let lease_epoch = match plans.lease_plan(lease).await {
            Ok(leased) => leased.into_inner().lease.map_or(0, |lease| lease.lease_epoch),
            Err(status) => return self.note::<()>(Err(status)),
        };
        let request = v1::SubmitPlanRequest {
            run_id: self.run_id.to_owned(),
            expected_revision: 1,
            plan_source: Some(source),
            lease_epoch,
            ..Default::default()
        };
        let mut plans = PlannerServiceClient::new(self.planner(submitter)?);
        let answer = plans.submit_plan(request).await;
        self.note(answer)
    }

    async fn agent_cancels(&mut self) -> Result<()> {
        let run_id = self.run_id.to_owned();
        let request = v1::CancelRunRequest { run_id, ..Default::default() };
        let answer = RunServiceClient::new(self.planner(AGENT)?).cancel_run(request).await;
        self.note(answer)
    }
}

/// A receipt as a case writes it: `command`, `wrote` a path, or `verified` by a tool.
fn receipt(said: &Value, place: i64) -> Result<v1::EvidenceReceipt> {
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let facts = facts(said)?;
    if facts.is_empty() {
        bail!("no fact reads as {said}");
    }
    let source = match said["source"].as_str() {
        Some("probe") => v1::EvidenceSource::Probe,
        Some("write_receipt") => v1::EvidenceSource::WriteReceipt,
        Some(_) | None => v1::EvidenceSource::ToolObservation,
    };
    Ok(v1::EvidenceReceipt {
        step_index: Some(place),
        source: source.into(),
        name: said["name"].as_str().unwrap_or("remote_check").to_owned(),
        success: true,
        summary: "it passed".to_owned(),
        facts: facts.into_iter().map(|fact| v1::Fact { fact: Some(fact) }).collect(),
        check_id: text("check_id"),
        round: said["round"]
            .as_u64()
            .and_then(|round| u32::try_from(round).ok())
            .unwrap_or_default(),
        ..Default::default()
    })
}

/// Facts as a case writes them.
pub(super) fn facts(said: &Value) -> Result<Vec<v1::fact::Fact>> {
    use v1::fact::Fact as Kind;
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let mut facts = Vec::new();
    if said["command"].is_string() {
        let command = Some(v1::fact::command::Command::CommandLine(text("command")));
        facts.push(Kind::Command(v1::fact::Command { command, ..Default::default() }));
    }
    if said["wrote"].is_string() {
        let after_digest = Some("a".repeat(64));
        let written =
            v1::fact::FileWritten { path: text("wrote"), before_digest: None, after_digest };
        facts.push(Kind::FileWritten(written));
    }
    if said["verified"].is_string() {
        let (tool, scope, passed) = (text("verified"), String::new(), true);
        facts.push(Kind::Verification(v1::fact::Verification { tool, scope, passed }));
    }
    if said["contains"].is_string() {
        let (path, contains) = (text("in"), text("contains"));
        facts.push(Kind::Content(v1::fact::Content { path, contains, found: true }));
    }
    if said["output_key"].is_string() {
        let (key, value) = (text("output_key"), "another".to_owned());
        facts.push(Kind::Output(v1::fact::Output { key, value }));
    }
    Ok(facts)
}
