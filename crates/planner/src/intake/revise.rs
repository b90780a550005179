//! Giving a waiting run its plan, and sending a run back for another.

use super::create::{first_revision, refused, stored_entry, wait_for_plan};
use super::request::NewPlan;
use crate::Planner;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::Entry;
use surety_common::domain::machine::run::{Phase, RunState};
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;
use surety_common::store::{self, Outcome, StoreError, StoredPlan, Topic};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// The constraint that lets a revision be stored once.
const REVISION_KEY: &str = "plan_pkey";

/// Looks whether a run takes a plan now, as the revision that follows `expected_revision`.
///
/// # Errors
/// `run_terminal`, `plan_not_wanted`, `version_conflict`.
pub fn wanted(record: &RunRecord, expected_revision: u32) -> Result<(), Fault> {
    let execution = &record.execution;
    if execution.state.is_terminal() {
        return Err(ended(execution));
    }
    let revision = execution.plan_revision;
    if execution.state != RunState::Blocked(Phase::Planning) {
        let message = format!(
            "the run is {} at plan revision {revision}; it takes a plan while BLOCKED in \
             PLANNING, where RequestReplan sends it",
            execution.state.as_str()
        );
        return Err(Fault::new(FaultCode::PlanNotWanted, message));
    }
    if revision != expected_revision {
        let message = format!("the run's plan is at revision {revision}, not {expected_revision}");
        return Err(Fault::new(FaultCode::VersionConflict, message).with_field("expected_revision"));
    }
    Ok(())
}

/// Gives a run that is BLOCKED in PLANNING its plan, or the next revision of it.
///
/// # Errors
/// Those of [`wanted`]; `step_call_open` when the plan changes a step whose call is under way;
/// `version_conflict` when somebody was faster; `database_unavailable`.
pub async fn submit(planner: &Planner, record: RunRecord, new: NewPlan) -> Result<(), Fault> {
    wanted(&record, new.expected_revision)?;
    let before = record.plan.unwrap_or_default();
    keep_open_calls(&record.execution, &before, &new.plan)?;
    let now = planner.now();
    let stored = StoredPlan {
        revision: new.expected_revision + 1,
        parent_digest: record.plan_digest,
        reason: new.reason,
        ..first_revision(&new.plan, now)
    };
    let (old, graph) = (Graph::of(&before), Graph::of(&new.plan));
    let mut draft = Draft::new(record.execution, planner.actor(), now);
    draft.unblock(&old, "a plan was submitted").map_err(refused)?;
    draft.journal(Entry::Plan(stored_entry(&stored)));
    match new.expected_revision {
        0 => draft.start_plan(&graph, stored.revision),
        _ => draft.revise_plan(&old, &graph, stored.revision),
    }
    .map_err(refused)?;
    let run_id = new.run_id.to_string();
    let span = trace::plan_span("planner", &run_id, &record.spec.trace_parent);
    let span_id = trace::span_id(&span);
    let write = draft.into_write();
    match store::submit_plan(&planner.pool, &stored, &write, span_id.as_deref()).await {
        Ok(Outcome::Applied) => {
            surety_common::telemetry::observe(&write, &span);
            planner.waker.wake_now(Topic::Ready);
            planner.waker.wake(Topic::Run(new.run_id));
            Ok(())
        }
        Ok(Outcome::Lost) => Err(overtaken()),
        Err(StoreError::Constraint { constraint }) if constraint == REVISION_KEY => {
            Err(overtaken())
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a call happened can only be told beside the step it belongs to.
fn keep_open_calls(execution: &Execution, before: &Plan, new: &Plan) -> Result<(), Fault> {
    for (step, progress) in before.steps.iter().zip(&execution.steps) {
        let kept = new.steps.iter().find(|kept| kept.id == step.id);
        // Of a failed step somebody said what is to come of it.
        let is_open = progress.open_call.is_some() && progress.state != StepState::Failed;
        if is_open && kept.is_none_or(|kept| kept.script != step.script) {
            let message = format!(
                "a call of the step {:?} has no outcome yet; keep the step and its script",
                step.id
            );
            return Err(Fault::new(FaultCode::StepCallOpen, message));
        }
    }
    Ok(())
}

/// Sends a run back to planning. A run that waits for a plan already stays as it is.
///
/// # Errors
/// `field_missing` for a blank reason, `run_not_found`, `run_terminal`, `plan_not_found`,
/// `plan_not_wanted`, `replans_used_up`, `database_unavailable`.
pub async fn request_replan(
    planner: &Planner,
    run_id: Uuid,
    reason: &str,
    by: &str,
) -> Result<(), Fault> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(Problem::at(Code::FieldMissing, "reason", "a reason cannot be blank").into());
    }
    let cause = format!("{by} wants another plan: {reason}");
    planner.change(run_id, |record, draft| send_back(record, draft, &cause)).await
}

fn send_back(record: &RunRecord, draft: &mut Draft, cause: &str) -> Result<(), Fault> {
    let execution = &record.execution;
    if execution.state.is_terminal() {
        return Err(ended(execution));
    }
    let Some(plan) = &record.plan else {
        let message = "the run has no plan yet; submit one";
        return Err(Fault::new(FaultCode::PlanNotFound, message));
    };
    if execution.state == RunState::Blocked(Phase::Planning) {
        return Ok(());
    }
    let most = record.spec.limits.max_replans;
    if execution.counters.replans >= most {
        let message = format!("the run has used its {most} replans");
        return Err(Fault::new(FaultCode::ReplansUsedUp, message));
    }
    let wait = wait_for_plan(draft.now());
    draft.replan(&Graph::of(plan), wait, cause).map_err(|_| {
        let message = format!(
            "the run is {}; it can be sent back while its steps are worked on",
            execution.state.as_str()
        );
        Fault::new(FaultCode::PlanNotWanted, message)
    })
}

fn ended(execution: &Execution) -> Fault {
    let reason = execution.stop_reason().map_or("", StopReason::as_str);
    let state = execution.state.as_str();
    Fault::new(FaultCode::RunTerminal, format!("the run ended as {state} ({reason})"))
}

fn overtaken() -> Fault {
    let message = "Somebody moved the run meanwhile; read it again and retry.";
    Fault::new(FaultCode::VersionConflict, message)
}
