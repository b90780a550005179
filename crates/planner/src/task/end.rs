//! The end of a task, and what follows from a failure.
//!
//! ```text
//!   business        a comment that mentions the assignee, and the task again
//!   system          an issue for the coordinator, and a task for it
//!   infrastructure  a task for the role infra
//!   (none of them possible, or the chain is at its bounds)  an alert: a metric and a log line
//! ```
//!
//! All of it is stored in the transaction that ends the task. What is written on a forge is an intent there; see
//! [`super::escalate`].

use super::failure_text::{comment, issue, named};
use super::template::unusable;
use super::{HandedTask, TaskType, Toolchain, find_task_type};
use crate::planner::Planner;
use serde_json::{Map, Value, json};
use surety_common::domain::execution::Graph;
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::stop::{StopReason, Terminal};
use surety_common::domain::toolchain::{
    ActionType, Assignee, CHAIN_BOUND, EntryKind, FailureClass, Forge, INFRASTRUCTURE_ROLE,
    Language, Role, SYSTEM, Subject, TaskFailure, TaskOutcome, TaskPayload, chain_has_room,
};
use surety_common::store::{
    self, Admission, Assigned, EndedTask, EscalationAction, LeftOut, NewEntry, NewEscalation,
    NewTask, StoredTask,
};
use surety_common::telemetry;
use uuid::Uuid;

/// The event and the action of a coordinator's task about a task that failed.
const TASK_FAILED: &str = "task_failed";

/// Why a task is superseded by the event of another one.
pub(super) fn later_event(by: Uuid) -> String {
    format!("the event of task {by} is later and left nothing to do")
}

/// Why a task that waited for an agent is superseded.
pub(super) fn replaced(by: Uuid) -> String {
    format!("task {by} hands it to an agent")
}

/// Why the requests that a forge withdrew are superseded.
pub(super) fn withdrawn(reason: &str) -> String {
    format!("the forge does not want it any more: {reason}")
}

/// Why a stored task is superseded.
pub(super) fn why_superseded(task: &StoredTask) -> String {
    match task.withdrawn_by.as_str() {
        "" => "a later event left nothing to do".to_owned(),
        reason => withdrawn(reason),
    }
}

/// Cancels the run of a task that a later event left nothing to do for, and says why.
///
/// # Errors
/// `database_unavailable`; the upkeep of any planner cancels it then.
pub(super) async fn cancel_superseded(
    planner: &Planner,
    run_id: Uuid,
    why: &str,
) -> Result<(), Fault> {
    let message = format!("superseded: {why}");
    planner
        .change(run_id, &planner.actor(), |record, draft| {
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            // A run that ended first stays as it is.
            draft.cancel(&graph, message.clone()).or(Ok(()))
        })
        .await
}

/// Ends a task whose run has ended, and stores what follows.
///
/// # Errors
/// `database_unavailable`; then it is tried again.
pub(super) async fn end_task(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let Some(task) = store::find_task(&planner.pool, run_id).await? else { return Ok(()) };
    let Some(terminal) = task.terminal.clone().filter(|_| task.end.is_none()) else {
        return Ok(());
    };
    let mut follow = Follow::of(planner, &task);
    let (outcome, failure) = match task.state {
        RunState::Done => (TaskOutcome::Accepted, None),
        RunState::Cancelled if task.is_superseded => (TaskOutcome::Superseded, None),
        RunState::Cancelled => (TaskOutcome::Cancelled, None),
        RunState::Failed
        | RunState::Intake
        | RunState::Planning
        | RunState::Executing
        | RunState::Verifying
        | RunState::Recovering
        | RunState::Blocked(_) => {
            let failure = failure_of(planner, &task, &terminal).await?;
            let kind = follow.kind;
            let class = kind.class_of(failure, task.business_failures.saturating_add(1));
            if kind.escalates() {
                follow.after(failure, class).await?;
            }
            (TaskOutcome::Failed, Some((failure, class)))
        }
    };
    let Follow { escalations, tasks, alert, .. } = follow;
    let entry = entry(&task, outcome, failure, planner);
    let started: Vec<_> = tasks.iter().map(super::start::Start::from).collect();
    let ended = EndedTask {
        run_id,
        chain_id: task.chain_id,
        at: planner.now(),
        outcome,
        failure,
        escalations,
        tasks,
        entry: Some(entry),
    };
    if !store::end_task(&planner.pool, &planner.keys.signing, &ended).await? {
        return Ok(());
    }
    measure(&task, &ended, outcome);
    if let Some(alert) = alert {
        raise(&task, alert);
    }
    super::start::start_runs(planner, started).await
}

/// Why the run of a task failed.
async fn failure_of(
    planner: &Planner,
    task: &StoredTask,
    terminal: &Terminal,
) -> Result<TaskFailure, Fault> {
    if terminal.stop_reason == StopReason::Aborted
        && let Some(failure) = TaskFailure::of_clone(&terminal.internal_reason)
    {
        return Ok(failure);
    }
    if terminal.stop_reason != StopReason::AcceptCheckFailed {
        return Ok(TaskFailure::of_end(terminal.stop_reason, []));
    }
    let record = planner.find(task.run_id).await?;
    let verdict = planner.verdict(&record).await?;
    let results = verdict.map(|(_, record)| record.verdict.results).unwrap_or_default();
    let failed = results.iter().filter(|result| !result.passed && !result.optional);
    let reasons = failed.map(|result| result.reason.as_str());
    Ok(TaskFailure::of_end(terminal.stop_reason, reasons))
}

fn entry(
    task: &StoredTask,
    outcome: TaskOutcome,
    failure: Option<(TaskFailure, FailureClass)>,
    planner: &Planner,
) -> NewEntry {
    let why = match failure {
        Some((failure, class)) => Some(format!(": {failure} ({class})")),
        None if outcome == TaskOutcome::Superseded && !task.withdrawn_by.is_empty() => {
            Some(format!(": {}", task.withdrawn_by))
        }
        None => None,
    };
    NewEntry {
        run_id: task.run_id,
        kind: EntryKind::System,
        author: SYSTEM.to_owned(),
        body: format!("The task ended as {outcome}{}.", why.unwrap_or_default()),
        links: Vec::new(),
        attachment: String::new(),
        at: planner.now(),
    }
}

fn measure(task: &StoredTask, ended: &EndedTask, outcome: TaskOutcome) {
    let class = ended.failure.map_or("", |(_, class)| class.as_str());
    telemetry::count_task_end(
        &task.payload.event_type,
        &task.payload.action_type,
        outcome.as_str(),
        class,
    );
    if let (Some(started_at), Some(reported_at)) = (task.started_at, task.reported_at) {
        let time = (reported_at - started_at).to_std().unwrap_or_default();
        telemetry::record_time_to_report(&task.payload.action_type, time);
    }
    for escalation in &ended.escalations {
        telemetry::count_escalation(escalation.action.as_str(), "noted");
    }
    for made in &ended.tasks {
        telemetry::count_task_event(&made.payload.event_type, "created");
    }
}

/// Says that nothing else follows from a failure.
pub(super) fn raise(task: &StoredTask, alert: &'static str) {
    telemetry::count_task_alert(alert);
    tracing::error!(
        run_id = %task.run_id, chain_id = %task.chain_id, assignee = task.assignee, alert,
        action_type = task.payload.action_type,
        "planner: a task failed and nothing more is done about it; look at `surety task show`"
    );
}

/// What follows from a failed task.
struct Follow<'p> {
    planner: &'p Planner,
    task: &'p StoredTask,
    kind: &'static dyn TaskType,
    escalations: Vec<NewEscalation>,
    tasks: Vec<NewTask>,
    alert: Option<&'static str>,
}

impl<'p> Follow<'p> {
    fn of(planner: &'p Planner, task: &'p StoredTask) -> Self {
        let kind = find_task_type(&task.task_type).unwrap_or(&Toolchain);
        Self { planner, task, kind, escalations: Vec::new(), tasks: Vec::new(), alert: None }
    }

    async fn after(&mut self, failure: TaskFailure, class: FailureClass) -> Result<(), Fault> {
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
        self.write(EscalationAction::Comment, account, (String::new(), body)).await
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
        let payload = failed_payload(self.task, failure, language);
        let task = self.own(payload, ("coordinator", Role::Coordinator), Some(coordinator))?;
        let account = self.account_of(&task.assignee).await?;
        let text = issue(language, self.task, failure);
        self.tasks.push(task);
        if self.task.subject.repo.is_empty() {
            return Ok(());
        }
        self.write(EscalationAction::Issue, account, text).await
    }

    async fn infrastructure(&mut self, why: &str) -> Result<(), Fault> {
        if !self.has_room() {
            self.alert = Some(CHAIN_BOUND);
            return Ok(());
        }
        match infrastructure_task(self.planner, self.task, why).await? {
            Some(task) => self.tasks.push(task),
            None => self.alert = Some("no_infra"),
        }
        Ok(())
    }

    /// Notes what is to be written on the forge. Without a client for the forge it cannot be, which is a failure of
    /// the infrastructure.
    async fn write(
        &mut self,
        action: EscalationAction,
        account: String,
        (title, body): (String, String),
    ) -> Result<(), Fault> {
        if !self.planner.escalations.reaches(&self.task.forge, &self.task.subject.repo) {
            return self.infrastructure("forge_not_configured").await;
        }
        self.escalations.push(NewEscalation {
            action,
            forge: self.task.forge.clone(),
            subject: self.task.subject.clone(),
            account,
            title,
            body,
        });
        Ok(())
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
pub(super) fn has_room(task: &StoredTask, added: usize) -> bool {
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
    why: &str,
) -> Result<Option<NewTask>, Fault> {
    let Some(infra) = agent_with(planner, task, INFRASTRUCTURE_ROLE).await? else {
        return Ok(None);
    };
    let facts = (failed_context(task, why), task.payload.source.clone());
    let payload = TaskPayload::of_infrastructure(infra.language, facts);
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
fn failed_payload(task: &StoredTask, failure: TaskFailure, language: Language) -> TaskPayload {
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
        context: failed_context(task, failure.as_str()),
        source: task.payload.source.clone(),
    }
}

const fn report_step(language: Language) -> &'static str {
    match language {
        Language::En => "Submit the action report.",
        Language::Zh => "提交行动报告（action report）。",
    }
}

fn failed_context(task: &StoredTask, why: &str) -> Map<String, Value> {
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
