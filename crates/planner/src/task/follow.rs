//! What follows from a failure.
//!
//! ```text
//!   business        a comment that mentions the assignee, and the task again
//!      | the forge refuses the comment, or none is configured
//!   system          an issue for the coordinator, and a task for it
//!      | the forge refuses the issue, none is configured, or no agent is a coordinator
//!   infrastructure  a task for the role infra; at once where the forge is down
//!      | no agent has the role, or the chain is at its bounds
//!   an alert        a metric and a log line
//! ```

use super::escalation_port::{NOT_CONFIGURED, PortError, not_configured};
use super::failure_text::{comment, issue, named};
use super::template::unusable;
use super::{HandedTask, TaskType, Toolchain, find_task_type};
use crate::planner::Planner;
use serde_json::{Map, Value, json};
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{
    ActionType, Assignee, CHAIN_BOUND, FailureClass, Forge, INFRASTRUCTURE_ROLE, Language, Role,
    SYSTEM, Subject, TaskFailure, TaskPayload, chain_has_room,
};
use surety_common::store::{
    self, Admission, Assigned, EscalationAction, LeftOut, NewEscalation, NewTask, StoredTask,
};
use surety_forge::ForgeErrorCode;
use uuid::Uuid;

/// The event and the action of a coordinator's task about a task that failed.
const TASK_FAILED: &str = "task_failed";

/// The errors with which a forge refuses a single comment for good: by the rules of the repository or of the conversation.
const REFUSALS: [&str; 5] = [
    ForgeErrorCode::Forbidden.as_str(),
    ForgeErrorCode::NotFound.as_str(),
    ForgeErrorCode::Conflict.as_str(),
    ForgeErrorCode::Unprocessable.as_str(),
    ForgeErrorCode::TooLarge.as_str(),
];

/// What follows from a failed task.
pub(super) struct Follow<'p> {
    planner: &'p Planner,
    task: &'p StoredTask,
    kind: &'static dyn TaskType,
    /// Why nothing could be written on the forge; none where it could, or was not tried.
    error: Option<String>,
    /// What is written on the forge.
    pub(super) escalations: Vec<NewEscalation>,
    /// The tasks that follow.
    pub(super) tasks: Vec<NewTask>,
    /// What is raised, because nothing else follows.
    pub(super) alert: Option<&'static str>,
}

impl<'p> Follow<'p> {
    pub(super) fn of(planner: &'p Planner, task: &'p StoredTask) -> Self {
        let kind = find_task_type(&task.task_type).unwrap_or(&Toolchain);
        let (escalations, tasks) = (Vec::new(), Vec::new());
        Self { planner, task, kind, error: None, escalations, tasks, alert: None }
    }

    /// The class of the task's failure, by its type and by those before it.
    pub(super) fn class_of(&self, failure: TaskFailure) -> FailureClass {
        self.kind.class_of(failure, self.task.business_failures.saturating_add(1))
    }

    /// What follows from the end of the task; nothing for a type that does not escalate.
    pub(super) async fn after(
        &mut self,
        failure: TaskFailure,
        class: FailureClass,
    ) -> Result<(), Fault> {
        if !self.kind.escalates() {
            return Ok(());
        }
        // The task of the infrastructure makes no other, so that a broken one ends in an alert.
        if self.task.payload.action_type == ActionType::InfrastructureFailure.as_str() {
            self.alert = Some("infrastructure");
            return Ok(());
        }
        match class.of_subject(self.task.subject.number) {
            FailureClass::Business => self.business(failure).await,
            FailureClass::System => self.system(failure).await,
            FailureClass::Infrastructure => self.infrastructure(failure.as_str()).await,
        }
    }

    /// What follows where a text was given up: the class falls to the next one. A forge that is down, or that does not know
    /// the service's own credential, is a failure of the infrastructure, so no issue is tried behind a comment then.
    pub(super) async fn after_given_up(
        &mut self,
        action: EscalationAction,
        error: &PortError,
    ) -> Result<(), Fault> {
        self.error = Some(error.message.clone());
        let failure = self.task.end.and_then(|end| end.failure);
        match (action, failure) {
            (EscalationAction::Comment, Some((failure, _))) if REFUSALS.contains(&error.code) => {
                self.refused(failure, error.code).await
            }
            (EscalationAction::Comment | EscalationAction::Issue, _) => {
                self.infrastructure(error.code).await
            }
        }
    }

    /// Whether the chain takes another task.
    fn has_room(&self) -> bool {
        has_room(self.task, self.tasks.len())
    }

    async fn business(&mut self, failure: TaskFailure) -> Result<(), Fault> {
        if !self.has_room() {
            self.alert = Some(CHAIN_BOUND);
            return Ok(());
        }
        let language = language_of(self.planner, &self.task.assignee).await?;
        let mut again = self.again("again");
        again.business_failures = self.task.business_failures.saturating_add(1);
        let handed = HandedTask { run_id: again.run_id, payload: &again.payload, language };
        again.instructions =
            self.planner.rules.instructions(self.kind, &handed).map_err(unusable)?;
        let account = self.account_of_assignee().await?;
        let body = comment(language, failure, again.run_id);
        self.tasks.push(again);
        if !self.reaches_forge() {
            self.error = Some(self.not_configured());
            return self.refused(failure, NOT_CONFIGURED).await;
        }
        self.write(EscalationAction::Comment, account, (String::new(), body));
        Ok(())
    }

    /// What follows where no comment can be written. A coordinator is not told of its own task, which it has again already.
    async fn refused(&mut self, failure: TaskFailure, why: &str) -> Result<(), Fault> {
        match self.task.payload.action_type == TASK_FAILED {
            true => self.infrastructure(why).await,
            false => self.system(failure).await,
        }
    }

    async fn system(&mut self, failure: TaskFailure) -> Result<(), Fault> {
        if !self.has_room() {
            self.alert = Some(CHAIN_BOUND);
            return Ok(());
        }
        let Some(coordinator) = self.agent_with(Role::Coordinator).await? else {
            return self.infrastructure("no_coordinator").await;
        };
        let language = coordinator.language;
        let context = self.context(failure.as_str());
        let payload = failed_payload(self.task, context, language);
        let task = self.own(payload, ("coordinator", Role::Coordinator), Some(coordinator))?;
        let account = self.account_of(&task.assignee).await?;
        let text = issue(language, self.task, failure);
        self.tasks.push(task);
        if self.task.subject.repo.is_empty() {
            return Ok(());
        }
        if !self.reaches_forge() {
            self.error = Some(self.not_configured());
            return self.infrastructure(NOT_CONFIGURED).await;
        }
        self.write(EscalationAction::Issue, account, text);
        Ok(())
    }

    async fn infrastructure(&mut self, why: &str) -> Result<(), Fault> {
        if !self.has_room() {
            self.alert = Some(CHAIN_BOUND);
            return Ok(());
        }
        let context = self.context(why);
        match infrastructure_task(self.planner, self.task, context).await? {
            Some(task) => self.tasks.push(task),
            None => self.alert = Some("no_infra"),
        }
        Ok(())
    }

    /// What a task is told of the failed one.
    fn context(&self, why: &str) -> Map<String, Value> {
        let mut context = failed_context(self.task, why);
        if let Some(error) = &self.error {
            context.insert("error".to_owned(), json!(error));
        }
        context
    }

    fn reaches_forge(&self) -> bool {
        self.planner.escalations.reaches(&self.task.forge, &self.task.subject.repo)
    }

    fn not_configured(&self) -> String {
        not_configured(&self.task.forge, &self.task.subject.repo)
    }

    /// Notes what is to be written on the forge.
    fn write(
        &mut self,
        action: EscalationAction,
        account: String,
        (title, body): (String, String),
    ) {
        self.escalations.push(NewEscalation {
            action,
            forge: self.task.forge.clone(),
            subject: self.task.subject.clone(),
            account,
            title,
            body,
        });
    }

    /// The same task, for the same agent.
    fn again(&self, kind: &str) -> NewTask {
        let key = sha256_hex(format!("{kind}|{}", self.task.run_id).as_bytes());
        NewTask::follow_up(self.task, Uuid::now_v7(), key, self.planner.now())
    }

    fn own(
        &self,
        payload: TaskPayload,
        (kind, role): (&str, Role),
        agent: Option<Assigned>,
    ) -> Result<NewTask, Fault> {
        own_task(self.planner, (self.task, kind), (payload, role), agent)
    }

    async fn agent_with(&self, role: Role) -> Result<Option<Assigned>, Fault> {
        agent_with(self.planner, self.task, role).await
    }

    /// The account of the assignee on the task's forge: of several, the one that the event asked.
    async fn account_of_assignee(&self) -> Result<String, Fault> {
        let (_, account) = store::account_of_task(&self.planner.pool, self.task).await?;
        match account.as_str() {
            "" => self.account_of(&self.task.assignee).await,
            _ => Ok(account),
        }
    }

    /// The account of an agent on the task's forge; empty where it has none.
    async fn account_of(&self, agent_id: &str) -> Result<String, Fault> {
        let agent = store::find_agent(&self.planner.pool, agent_id).await?;
        let accounts = agent.map(|agent| agent.accounts).unwrap_or_default();
        let own = accounts.into_iter().find(|(forge, _)| forge.as_str() == self.task.forge);
        let (forge, repo) = (&self.task.forge, &self.task.subject.repo);
        let of_file = || self.planner.escalations.account_of_agent(forge, repo, agent_id);
        Ok(own.map(|(_, login)| login).or_else(of_file).unwrap_or_default())
    }
}

/// The language of an agent; English where it is not registered.
pub(super) async fn language_of(planner: &Planner, agent: &str) -> Result<Language, Fault> {
    let agent = store::find_agent(&planner.pool, agent).await?;
    Ok(agent.map_or(Language::En, |agent| agent.language))
}

/// Whether the chain of a task takes another one behind it, with those that are added.
fn has_room(task: &StoredTask, added: usize) -> bool {
    let added = u32::try_from(added).unwrap_or(u32::MAX);
    chain_has_room(task.depth, task.chain_tasks.saturating_add(added))
}

async fn agent_with(
    planner: &Planner,
    task: &StoredTask,
    role: Role,
) -> Result<Option<Assigned>, Fault> {
    let forge = Forge::from_text(&task.forge).unwrap_or(Forge::Gitea);
    let mut reading = Admission::begin(&planner.pool, []).await?;
    Ok(reading.agent_of(forge, &Assignee::Role(role), &LeftOut::default()).await?)
}

/// The task for the infrastructure; none where no agent has the role infra. It is accepted without a report.
pub(super) async fn infrastructure_task(
    planner: &Planner,
    task: &StoredTask,
    context: Map<String, Value>,
) -> Result<Option<NewTask>, Fault> {
    let Some(infra) = agent_with(planner, task, INFRASTRUCTURE_ROLE).await? else {
        return Ok(None);
    };
    let payload =
        TaskPayload::of_infrastructure(infra.language, (context, task.payload.source.clone()));
    own_task(planner, (task, "infrastructure"), (payload, INFRASTRUCTURE_ROLE), Some(infra))
        .map(Some)
}

fn own_task(
    planner: &Planner,
    (failed, kind): (&StoredTask, &str),
    (payload, role): (TaskPayload, Role),
    agent: Option<Assigned>,
) -> Result<NewTask, Fault> {
    let run_id = Uuid::now_v7();
    let (assignee, language) =
        agent.map_or((String::new(), Language::En), |agent| (agent.agent_id, agent.language));
    let handed = HandedTask { run_id, payload: &payload, language };
    let instructions = planner.rules.instructions(&Toolchain, &handed).map_err(unusable)?;
    let key = sha256_hex(format!("{kind}|{}", failed.run_id).as_bytes());
    let now = planner.now();
    let base = NewTask::follow_up(failed, run_id, key, now);
    let remind_after_s = planner.rules.remind_after_s(&payload.action_type);
    Ok(NewTask {
        task_type: Toolchain.name().to_owned(),
        namespace: Toolchain.namespace().to_owned(),
        payload,
        instructions,
        addressee: Assignee::Role(role).to_string(),
        assignee,
        happened_at: now,
        remind_after_s,
        ..base
    })
}

/// What a coordinator is told of a task that failed.
fn failed_payload(
    task: &StoredTask,
    context: Map<String, Value>,
    language: Language,
) -> TaskPayload {
    let steps = match language {
        Language::En => [
            "Find out why the task failed: surety task show, with its run.".to_owned(),
            format!(
                "See to it that the steps of the task are carried out by {} or by another agent.",
                named(&task.assignee, "its assignee")
            ),
        ],
        Language::Zh => [
            "查明该任务失败的原因：surety task show，参数为其 run。".to_owned(),
            format!("确保该任务的步骤由 {} 或其他 agent 执行。", named(&task.assignee, "其负责人")),
        ],
    };
    TaskPayload {
        event_type: TASK_FAILED.to_owned(),
        action_type: TASK_FAILED.to_owned(),
        steps: steps.into_iter().chain([report_step(language).to_owned()]).collect(),
        from: SYSTEM.to_owned(),
        context,
        source: task.payload.source.clone(),
    }
}

const fn report_step(language: Language) -> &'static str {
    match language {
        Language::En => "Submit the action report.",
        Language::Zh => "提交行动报告（action report）。",
    }
}

/// What a task is told of the failed one, without an error of the forge.
pub(super) fn failed_context(task: &StoredTask, why: &str) -> Map<String, Value> {
    let Subject { repo, number, is_pull_request, server: _ } = &task.subject;
    let fields = json!({
        "failed_run": task.run_id.to_string(),
        "failed_event": task.payload.event_type,
        "failed_action": task.payload.action_type,
        "assignee": task.assignee,
        "reason": why,
        "repo": repo,
        "number": number,
        "is_pull_request": is_pull_request,
    });
    match fields {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}
