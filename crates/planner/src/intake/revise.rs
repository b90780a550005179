//! Stores a plan for a waiting run, and returns a run to planning.

use super::create::{first_revision, overlays, refused, stored_entry, wait_for_plan};
use super::leases;
use super::request::NewPlan;
use crate::call::{Call, Changed};
use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Execution, Graph, Wait};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::Entry;
use surety_common::domain::machine::run::{Phase, RunState};
use surety_common::domain::plan::Plan;
use surety_common::domain::planning::{PlanApproval, Planning, ReplanCause};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::store::{self, Artifact, StoreError, StoredPlan, Topic};
use surety_common::wire::v1;
use uuid::Uuid;

/// The constraint that makes a revision unique.
const REVISION_KEY: &str = "plan_pkey";

/// Checks that a run accepts a plan now, as the revision after `expected_revision`.
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
            "the run is {} at plan revision {revision}; it accepts a plan only while BLOCKED in \
             PLANNING; RequestReplan returns it there",
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

/// Stores the plan, or its next revision, of a run that is BLOCKED in PLANNING.
///
/// # Errors
/// Those of [`wanted`]; `step_call_open` when the plan changes a step with a running call;
/// `version_conflict` when another writer changed the run first; `database_unavailable`.
pub(crate) async fn submit(
    planner: &Planner,
    call: &Call,
    record: RunRecord,
    new: NewPlan,
    respond: impl FnOnce(v1::Run) -> v1::SubmitPlanResponse,
) -> Result<v1::SubmitPlanResponse, Fault> {
    wanted(&record, new.expected_revision)?;
    call.expects(&record)?;
    let before = record.plan.clone().unwrap_or_default();
    keep_open_calls(&record.execution, &before, &new.plan)?;
    leases::held(planner, &record, call.by(), new.lease_epoch).await?;
    let now = planner.now();
    // Before the plan that names them: a crash in between leaves content that nothing refers to.
    for (digest, body) in overlays(&new.plan) {
        let artifact = Artifact { digest: &digest, body: &body, created_at: now };
        store::keep(&planner.pool, new.run_id, artifact).await?;
    }
    let stored = StoredPlan {
        revision: new.expected_revision + 1,
        parent_digest: record.plan_digest.clone(),
        reason: new.reason,
        ..first_revision(&new.plan, now)
    };
    let (old, graph) = (Graph::of(&before), Graph::of(&new.plan));
    let mut draft = Draft::new(record.execution.clone(), planner.actor_for(call.by()), now);
    if new.lease_epoch != 0 {
        draft.answer_under(new.lease_epoch, call.by()).map_err(refused)?;
    }
    draft.settle_plan(new.usage, new.lease_epoch != 0);
    draft.unblock(&old, "a plan was submitted").map_err(refused)?;
    draft.journal(Entry::Plan(stored_entry(&stored, new.model.as_ref())));
    draft.attribute_steps((&before, &new.plan), new.of_driver);
    match new.expected_revision {
        0 => draft.start_plan(&graph, stored.revision),
        _ => draft.revise_plan(&old, &graph, stored.revision),
    }
    .map_err(refused)?;
    // What a person submits is approved by that.
    if new.of_driver && record.spec.policy.approve_plan {
        let wait = approval(&record, (&new.plan, &stored), (call.by(), now));
        draft.ask_for_plan(&graph, wait).map_err(refused)?;
    }
    let write = draft.into_write();
    let planned = RunRecord {
        plan: Some(Arc::new(new.plan)),
        plan_digest: stored.digest.clone(),
        ..record.clone()
    };
    let response = respond(planner.after(&planned, Some(&write)).await?);
    let changed = Changed { write: Some(write), plan: Some(stored), response };
    match planner.keep(call, &record, changed).await {
        Ok(Some(response)) => {
            planner.waker.wake_now(Topic::Ready);
            planner.waker.wake(Topic::Run(new.run_id));
            Ok(response)
        }
        // The same call may have been the one that was first.
        Ok(None) => planner.answered_before(call).await?.ok_or_else(overtaken),
        Err(StoreError::Constraint { constraint }) if constraint == REVISION_KEY => {
            Err(overtaken())
        }
        Err(error) => Err(error.into()),
    }
}

/// The wait for the approval of a plan.
fn approval(
    record: &RunRecord,
    (plan, stored): (&Plan, &StoredPlan),
    (by, now): (&str, DateTime<Utc>),
) -> Wait {
    let ttl = i64::try_from(record.spec.limits.confirm_ttl_s).unwrap_or(i64::MAX);
    let expires_at = TimeDelta::try_seconds(ttl).and_then(|ttl| now.checked_add_signed(ttl));
    let StoredPlan { revision, digest, .. } = stored;
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    let question = format!(
        "Is revision {revision} of the plan approved? {}: {} steps ({})",
        plan.title,
        steps.len(),
        steps.join(", ")
    );
    let id = Uuid::now_v7();
    let unblocks = format!(
        "an approver, or the creator of the run unless the namespace asks for four eyes, calls \
         ResolveConfirmation; `surety approve {id}` shows the plan"
    );
    let asked = PlanApproval {
        digest: digest.clone(),
        expires_at: expires_at.unwrap_or(DateTime::<Utc>::MAX_UTC),
        asked_by: by.to_owned(),
    };
    Wait {
        question,
        plan_approval: Some(Box::new(asked)),
        ..Wait::new(id, WaitingOn::Approver, now, unblocks)
    }
}

/// The outcome of an open call can only be determined together with its step, so the step must
/// stay.
fn keep_open_calls(execution: &Execution, before: &Plan, new: &Plan) -> Result<(), Fault> {
    for (step, progress) in before.steps.iter().zip(&execution.steps) {
        let kept = new.steps.iter().find(|kept| kept.id == step.id);
        // For a failed step, an operator has already decided about the call.
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

/// Returns a run to planning. A run that already waits for a plan does not change.
///
/// # Errors
/// `field_missing` for a blank reason, `run_not_found`, `run_terminal`, `plan_not_found`,
/// `plan_not_wanted`, `replans_used_up`, `database_unavailable`.
pub(crate) async fn request_replan(
    planner: &Planner,
    run_id: Uuid,
    call: &Call,
    (cause, reason): (ReplanCause, &str),
) -> Result<v1::Run, Fault> {
    if reason.is_empty() {
        return Err(Problem::at(
            Code::FieldMissing,
            "reason",
            "the reason is blank; state what is wrong with the plan",
        )
        .into());
    }
    let text = match cause {
        ReplanCause::EnvironmentChanged => {
            format!("{} says that the environment changed: {reason}", call.by())
        }
        ReplanCause::FirstPlan | ReplanCause::StepFailed | ReplanCause::Requested => {
            format!("{} requested another plan: {reason}", call.by())
        }
    };
    planner.change_once(run_id, call, |record, draft| send_back(record, draft, cause, &text)).await
}

fn send_back(
    record: &RunRecord,
    draft: &mut Draft,
    cause: ReplanCause,
    text: &str,
) -> Result<(), Fault> {
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
    let planning = Some(Box::new(Planning { cause, ..Planning::default() }));
    let wait = Wait {
        question: text.to_owned(),
        planning,
        ..wait_for_plan(draft.now(), record.spec.driver, execution.plan_revision)
    };
    let graph = Graph::of(plan);
    draft.replan(&graph, wait, text.to_owned()).map_err(|_| {
        let message = format!(
            "the run is {}; it can return to planning only while its steps are being executed",
            execution.state.as_str()
        );
        Fault::new(FaultCode::PlanNotWanted, message)
    })?;
    let RunSpec { limits, policy, .. } = &record.spec;
    draft.reserve_plan(&graph, limits, policy.on_budget).map_err(refused)
}

fn ended(execution: &Execution) -> Fault {
    let reason = execution.stop_reason().map_or("", StopReason::as_str);
    let state = execution.state.as_str();
    Fault::new(FaultCode::RunTerminal, format!("the run ended as {state} ({reason})"))
}

pub(super) fn overtaken() -> Fault {
    let message = "Another caller changed the run; read it again and retry.";
    Fault::new(FaultCode::VersionConflict, message)
}
