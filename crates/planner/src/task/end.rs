//! The end of a task, and what follows from a failure.
//!
//! All of it is stored in the transaction that ends the task. What follows says [`super::follow`]; what is written on a forge
//! is an intent there, see [`super::escalate`].

use super::follow::Follow;
use crate::planner::Planner;
use surety_common::domain::execution::Graph;
use surety_common::domain::fault::Fault;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::stop::{StopReason, Terminal};
use surety_common::domain::toolchain::{EntryKind, FailureClass, SYSTEM, TaskFailure, TaskOutcome};
use surety_common::store::{self, EndedTask, NewEntry, NewEscalation, NewTask, StoredTask};
use surety_common::telemetry;
use uuid::Uuid;

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
            let class = follow.class_of(failure);
            follow.after(failure, class).await?;
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
    count_follow_ups(&ended.escalations, &ended.tasks);
}

/// Counts what follows from a failure, once it is stored.
pub(super) fn count_follow_ups(escalations: &[NewEscalation], tasks: &[NewTask]) {
    for escalation in escalations {
        telemetry::count_escalation(escalation.action.as_str(), "noted");
    }
    for made in tasks {
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
