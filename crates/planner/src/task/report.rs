//! The report of a task: stored first, then it ends the step.
//!
//! ```text
//!   SubmitActionReport --one transaction--> entry, the answer of the call, the end of the clock
//!                                             |
//!         the step waits for a decision? --> `done` on its wait, as SubmitDecision would --> the gate decides
//!         for an answer of a person? ------> the question ends without one; then it waits for a decision
//!         not yet -------------------------> the upkeep does it once the step waits
//! ```

use crate::planner::Planner;
use chrono::TimeDelta;
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Graph, SuppliedReply};
use surety_common::domain::fault::Fault;
use surety_common::domain::journal::Actor;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Commit, LeaseOrder, Outcome, StoredTask, Topic};
use surety_common::telemetry::trace;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// How long the lease of an assignee lasts that only reports, in milliseconds.
const LEASE_MS: i32 = 60_000;
/// How long a report is followed before the caller is told that it is not decided yet.
const FOLLOWED: Duration = Duration::from_secs(20);
/// How often the rows are read without a wake-up.
const POLL: Duration = Duration::from_millis(500);
/// The decision that a report stands for.
const DONE: &str = r#"{"action":"done","goal_check":"The action report is submitted.","speak":"The action report is submitted."}"#;

/// Why a question ends without an answer.
const REPORTED: &str = "the action report was submitted";

/// Ends the step of a task whose report is stored, if it waits for a decision or for an answer of a person. Returns whether it did.
///
/// # Errors
/// `database_unavailable`.
pub(super) async fn supply(planner: &Planner, run_id: Uuid) -> Result<bool, Fault> {
    let Some(task) = store::find_task(&planner.pool, run_id).await? else { return Ok(false) };
    if task.reported_at.is_none() || task.state.is_terminal() {
        return Ok(false);
    }
    let Some(wait) = store::decision_wait(&planner.pool, run_id).await? else {
        return withdraw_question(planner, &task).await;
    };
    let lease_epoch = match wait.is_leased {
        // The participant that holds the wait decides no more: the report counts.
        true => wait.lease_epoch,
        false => {
            let holder = format!("{} report", task.assignee);
            let order = LeaseOrder { wait_id: wait.id, holder, lease_ms: LEASE_MS };
            match store::lease_wait(&planner.pool, &order, planner.now()).await? {
                Some(lease) => lease.lease_epoch,
                None => return Ok(false),
            }
        }
    };
    let reply = SuppliedReply {
        wait_id: wait.id,
        lease_epoch,
        text: DONE.to_owned(),
        usage: Some(Usage::default()),
        trace_parent: String::new(),
        by: task.assignee.clone(),
        model: None,
    };
    answer(planner, &task, reply).await
}

/// Answers the wait by the same change as a submitted decision. False where another writer was first.
async fn answer(planner: &Planner, task: &StoredTask, reply: SuppliedReply) -> Result<bool, Fault> {
    // Before the run is read: an entry that comes meanwhile is one more than is bound.
    let history = store::task_history(&planner.pool, task.run_id).await?;
    let record = planner.find(task.run_id).await?;
    let applied = change(planner, task, &record, |draft, graph| {
        draft.supply_reply(graph, reply, TimeDelta::zero())?;
        history.into_iter().for_each(|history| draft.take_history(history));
        Ok(())
    });
    let applied = applied.await?;
    if applied && task.remind_at.is_some() {
        store::end_clock(&planner.pool, task.run_id).await?;
    }
    Ok(applied)
}

/// Ends the question or the confirmation that the step waits for: the report ends the step whatever a person answers. Its
/// next wait is that for the decision. False where it waits for something else, and where another writer was first.
async fn withdraw_question(planner: &Planner, task: &StoredTask) -> Result<bool, Fault> {
    // A task is listed a moment before its run is made.
    let Some(record) = store::find_run(&planner.pool, task.run_id).await? else {
        return Ok(false);
    };
    let asked = record.execution.waits().find(|wait| wait.asks_about_step());
    let Some(index) = asked.and_then(|wait| wait.step_index) else { return Ok(false) };
    change(planner, task, &record, |draft, graph| draft.withdraw_question(graph, index, REPORTED))
        .await
}

/// Changes the run in the name of the assignee. False where it is refused, and where another writer was first.
async fn change(
    planner: &Planner,
    task: &StoredTask,
    record: &RunRecord,
    change: impl FnOnce(&mut Draft, &Graph) -> Result<(), Refusal>,
) -> Result<bool, Fault> {
    let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
    let topic = match record.execution.lease_owner {
        None => Topic::Ready,
        Some(_) => Topic::Moved(task.run_id),
    };
    let by = Actor(format!("driver/{}", task.assignee).into());
    let mut draft = Draft::new(record.execution.clone(), by, planner.now());
    if change(&mut draft, &graph).is_err() {
        return Ok(false);
    }
    let span = trace::plan_span("planner", &task.run_id.to_string(), &record.spec.trace_parent);
    let span_id = trace::span_id(&span);
    let commit = Commit::new(draft.into_write(), span, span_id).notify_on_commit(topic);
    let applied = planner.committer.commit(commit).await? == Outcome::Applied;
    if applied {
        planner.waker.wake_now(topic);
    }
    Ok(applied)
}

/// Why a reported task has not ended yet.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn why_open(planner: &Planner, task: &StoredTask) -> Result<String, Fault> {
    let execution = planner.find(task.run_id).await?.execution;
    Ok(match execution.waits().next() {
        Some(wait) if matches!(execution.state, RunState::Blocked(_)) => format!(
            "The report is stored; the run is blocked until this is done: {}.",
            wait.unblocks
        ),
        Some(_) | None => "The report is stored; the gate has not decided yet.".to_owned(),
    })
}

/// Ends the step of a reported task, and follows the task until it has ended or it takes too long.
///
/// # Errors
/// `task_not_found`, `database_unavailable`.
pub(crate) async fn follow(planner: &Planner, run_id: Uuid) -> Result<StoredTask, Fault> {
    let mut topics = planner.wakeups.subscribe();
    let deadline = Instant::now() + FOLLOWED;
    loop {
        supply(planner, run_id).await?;
        let found = store::find_task(&planner.pool, run_id).await?;
        let task = found.ok_or_else(|| super::not_found(run_id))?;
        if task.terminal.is_some() || Instant::now() >= deadline {
            return Ok(task);
        }
        let woken = timeout(POLL, async {
            loop {
                match topics.recv().await {
                    Ok(Topic::Run(id) | Topic::Waits(id) | Topic::Moved(id)) if id == run_id => {
                        return;
                    }
                    Ok(Topic::Everything) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        });
        // Without a wake-up the rows are read again.
        drop(woken.await);
    }
}
