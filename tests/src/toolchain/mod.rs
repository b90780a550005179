//! Services with agents, on which events of a forge become tasks.

pub mod delivery;
mod on_forge;

pub use on_forge::{OnForge, REPO};

use crate::agent::{AGENT, Agent, OTHER, PERSON, secret, token_file};
use crate::harness::{Database, Deployment, PATIENCE};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use surety_common::domain::fault::Reason;
use surety_common::domain::toolchain::Forge;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use tempfile::NamedTempFile;
use tonic::Status;

/// The account of [`AGENT`], which writes code; [`OTHER`] is the coordinator and the infrastructure.
pub const LOGIN: &str = "bob";
/// The longest page of tasks.
const PAGE: u32 = 1000;
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Services with the two agents.
pub struct Stage {
    /// The services.
    pub deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    /// Services with the variables of every deployment.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Services with these variables beside the common ones.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_with(more: &[(&str, &str)]) -> Result<Self> {
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

    /// The calls of an identity about tasks.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub fn tasks(&self, identity: &str) -> Result<ToolchainServiceClient<ServiceChannel>> {
        let token = Token::new(&secret(identity))?;
        Ok(ToolchainServiceClient::new(channel(&self.deployment.planner.url(), Some(&token))?))
    }

    /// An identity that drives steps.
    ///
    /// # Errors
    /// No executor runs.
    pub fn agent(&self, identity: &str) -> Result<Agent> {
        let executor = self.deployment.executors.first().context("no executor")?;
        Agent::new(executor, identity, "a")
    }

    /// Stores an agent that decides its own turns.
    ///
    /// # Errors
    /// The call failed.
    pub async fn put(
        &self,
        id: &str,
        accounts: &[(&str, &str)],
        roles: &[&str],
    ) -> Result<v1::Agent> {
        self.put_driven(id, accounts, (roles, "")).await
    }

    /// As [`Stage::put`], where this decides its turns: `remote` or `model`.
    ///
    /// # Errors
    /// The call failed.
    pub async fn put_driven(
        &self,
        id: &str,
        accounts: &[(&str, &str)],
        (roles, driver): (&[&str], &str),
    ) -> Result<v1::Agent> {
        let account = |(forge, login): &(&str, &str)| v1::ForgeAccount {
            forge: (*forge).to_owned(),
            login: (*login).to_owned(),
        };
        let agent = v1::Agent {
            id: id.to_owned(),
            accounts: accounts.iter().map(account).collect(),
            roles: roles.iter().map(ToString::to_string).collect(),
            driver: driver.to_owned(),
            ..v1::Agent::default()
        };
        let request = v1::PutAgentRequest { agent: Some(agent) };
        let stored = self.tasks(PERSON)?.put_agent(request).await?.into_inner().agent;
        stored.context("no agent")
    }

    /// Makes the hook `main`, which takes deliveries of this forge that are signed with the secret
    /// [`OLD`](delivery::OLD), where the services have [`SECRETS`](delivery::SECRETS).
    ///
    /// # Errors
    /// The call failed.
    pub async fn put_hook(&self, forge: Forge) -> Result<()> {
        let of_wire = match forge {
            Forge::Gitea => v1::Forge::Gitea,
            Forge::Forgejo => v1::Forge::Forgejo,
            Forge::Github => v1::Forge::Github,
        };
        let hook = v1::Hook {
            name: "main".to_owned(),
            forge: of_wire.into(),
            secrets: vec!["old".to_owned()],
            ..v1::Hook::default()
        };
        self.tasks(PERSON)?.put_hook(v1::PutHookRequest { hook: Some(hook) }).await?;
        Ok(())
    }

    /// A delivery, once it is processed.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`], or it is not stored.
    pub async fn delivery(&self, delivery_id: &str) -> Result<v1::Delivery> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::GetDeliveryRequest { delivery_id: delivery_id.to_owned() };
            let found = self.tasks(PERSON)?.get_delivery(request).await?.into_inner().delivery;
            let found = found.context("no delivery")?;
            if found.state() != v1::DeliveryState::Stored {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "it was not processed in time: {found:#?}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Hands an event of a Gitea over.
    ///
    /// # Errors
    /// The call's.
    pub async fn submit(
        &self,
        event: &str,
        body: &Value,
    ) -> Result<v1::SubmitEventResponse, Status> {
        self.submit_of(Forge::Gitea, event, body).await
    }

    /// Hands an event of a forge over.
    ///
    /// # Errors
    /// The call's.
    pub async fn submit_of(
        &self,
        forge: Forge,
        event: &str,
        body: &Value,
    ) -> Result<v1::SubmitEventResponse, Status> {
        let request = v1::SubmitEventRequest {
            forge: forge.to_string(),
            event: event.to_owned(),
            body_json: body.to_string(),
        };
        let client = self.tasks(PERSON).map_err(|error| Status::internal(error.to_string()))?;
        Ok({ client }.submit_event(request).await?.into_inner())
    }

    /// The run of a new task: an issue that is assigned to an account.
    ///
    /// # Errors
    /// The event made no new task.
    pub async fn assigned(&self, number: u64, login: &str) -> Result<String> {
        let mut answer = self.submit("issues", &issue(number, login)).await?;
        ensure!(answer.tasks.len() == 1, "{answer:#?}");
        let task = answer.tasks.remove(0);
        ensure!(task.result == "created", "{task:#?}");
        Ok(task.run_id)
    }

    /// The task of a run.
    ///
    /// # Errors
    /// The call failed.
    pub async fn task(&self, run_id: &str) -> Result<v1::Task> {
        self.handed(run_id).await?.task.context("no task")
    }

    /// The task of a run, with its instructions.
    ///
    /// # Errors
    /// The call failed.
    pub async fn handed(&self, run_id: &str) -> Result<v1::GetTaskResponse> {
        let request = v1::GetTaskRequest { run_id: run_id.to_owned() };
        Ok(self.tasks(PERSON)?.get_task(request).await?.into_inner())
    }

    /// Submits a report in the name of an identity.
    ///
    /// # Errors
    /// The call's.
    pub async fn report(
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

    /// Submits a report as it is.
    ///
    /// # Errors
    /// The call's.
    pub async fn report_as(
        &self,
        identity: &str,
        request: v1::SubmitActionReportRequest,
    ) -> Result<v1::SubmitActionReportResponse, Status> {
        let client = self.tasks(identity).map_err(|error| Status::internal(error.to_string()))?;
        Ok({ client }.submit_action_report(request).await?.into_inner())
    }

    /// Waits until a task fulfils a condition.
    ///
    /// # Errors
    /// It did not within [`PATIENCE`].
    pub async fn wait_for(
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
                Ok(_) | Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// What the history of a task says.
    ///
    /// # Errors
    /// The call failed.
    pub async fn history(&self, run_id: &str) -> Result<Vec<String>> {
        let run_id = run_id.to_owned();
        let request = v1::ListTaskEntriesRequest { run_id, ..Default::default() };
        let listed = self.tasks(PERSON)?.list_task_entries(request).await?.into_inner();
        Ok(listed.entries.into_iter().map(|entry| entry.body).collect())
    }

    /// The task of a run, once it has ended.
    ///
    /// # Errors
    /// It did not within [`PATIENCE`].
    pub async fn ended(&self, run_id: &str) -> Result<v1::Task> {
        self.wait_for(run_id, "ended", |task| !task.outcome.is_empty()).await
    }

    /// [`AGENT`] says that it is done, and submits no report. Answers the task at its end.
    ///
    /// # Errors
    /// A call failed, or the task did not end within [`PATIENCE`].
    pub async fn done_without_a_report(&self, run_id: &str) -> Result<v1::Task> {
        let agent = self.agent(AGENT)?;
        let work = agent.work(run_id).await?;
        let done = json!({"action": "done", "goal_check": "I looked at the notice."}).to_string();
        agent.submit(&work, &done).await?;
        self.ended(run_id).await
    }

    /// All tasks that the end of a task made, once there are so many and each has its run, which is made after the
    /// task's row.
    ///
    /// # Errors
    /// There are not so many within [`PATIENCE`].
    pub async fn caused_by(&self, run_id: &str, count: usize) -> Result<Vec<v1::Task>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::ListTasksRequest { page_size: PAGE, ..Default::default() };
            let listed = self.tasks(PERSON)?.list_tasks(request).await?.into_inner().tasks;
            let mut found: Vec<_> =
                listed.into_iter().filter(|task| task.caused_by == run_id).collect();
            found.sort_by(|one, other| one.action_type.cmp(&other.action_type));
            let is_made = |task: &v1::Task| task.state() != v1::RunState::Intake;
            if found.len() >= count && found.iter().all(is_made) {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "only {found:#?} follow from {run_id}");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// An issue that is assigned to an account, as Gitea says it.
#[must_use]
pub fn issue(number: u64, login: &str) -> Value {
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
#[must_use]
pub fn pull(action: &str, number: u64, minute: u32) -> Value {
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

/// The code with which a call was refused.
///
/// # Errors
/// It was answered.
pub fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}
