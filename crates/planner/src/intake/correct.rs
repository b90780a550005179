//! What follows when the plan of a planning agent is refused: a correction, and after the last one the end.
//!
//! ```text
//!   refused --a correction is left--> the wait goes on with the error, the lease has ended
//!           --none is left----------> plan_parse_failed, or replan_parse_failed after an earlier plan
//! ```
//!
//! Only submissions under a lease count. A person's is answered, and changes nothing.

use super::create::refused;
use super::leases;
use super::revise::overtaken;
use crate::call::Call;
use crate::planner::Planner;
use surety_common::domain::decision::{Usage, UsageSource};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::planning::RefusedPlan;
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::domain::stop::StopReason;
use surety_common::store::{Commit, Outcome, Topic};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// How a refused replan is corrected: once.
const REPLAN_CORRECTIONS: u32 = 1;

/// How many plans of an agent may be refused, this one included, before the run ends.
#[must_use]
pub fn attempts_left(execution: &Execution, limits: &Limits) -> u32 {
    let corrections = match execution.plan_revision {
        0 => limits.planning_retry,
        _ => REPLAN_CORRECTIONS,
    };
    corrections.saturating_add(1).saturating_sub(execution.planning().refusals).max(1)
}

/// Records that the plan of an agent was refused under its lease. Answers the error for the agent.
///
/// # Errors
/// `lease_lost`, `version_conflict`, `database_unavailable`.
pub(crate) async fn refuse(
    planner: &Planner,
    call: &Call,
    record: &RunRecord,
    (lease_epoch, usage): (i64, Option<(Usage, UsageSource)>),
    fault: Fault,
) -> Result<Fault, Fault> {
    call.expects(record)?;
    leases::held(planner, record, call.by(), lease_epoch).await?;
    let Some(code) = counted(fault.reason) else { return Ok(fault) };
    let run_id = record.spec.id;
    let actor = planner.actor_for(call.by());
    let mut draft = Draft::new(record.execution.clone(), actor, planner.now());
    draft.answer_under(lease_epoch, call.by()).map_err(refused)?;
    draft.settle_plan(usage, true);
    let message = refuse_in(&mut draft, record, call.by(), code, &fault).map_err(refused)?;
    let span = trace::plan_span("planner", &run_id.to_string(), &record.spec.trace_parent);
    let span_id = trace::span_id(&span);
    let commit =
        Commit::new(draft.into_write(), span, span_id).notify_on_commit(Topic::Moved(run_id));
    match planner.committer.commit(commit).await? {
        Outcome::Applied => Ok(Fault { message, ..fault }),
        Outcome::Lost => Err(overtaken()),
    }
}

/// The code under which a refused plan counts: what is wrong with it, or that it is a patch before there is a plan. Another
/// error says nothing of the plan.
pub(crate) fn counted(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Input(code) => Some(code.as_str()),
        Reason::Service(FaultCode::PlanNotFound) => Some(FaultCode::PlanNotFound.as_str()),
        Reason::Service(_) => None,
    }
}

/// Gives the wait back with the error while attempts are left, else ends the run. Answers the text for the agent.
///
/// # Errors
/// [`Refusal`] unless the run waits for a plan.
pub(crate) fn refuse_in(
    draft: &mut Draft,
    record: &RunRecord,
    by: &str,
    code: &str,
    fault: &Fault,
) -> Result<String, Refusal> {
    let said = format!("{code}: {}", fault.message);
    let RunSpec { limits, policy, .. } = &record.spec;
    let left = attempts_left(&record.execution, limits) - 1;
    let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
    if left == 0 {
        let end = ending(record.plan.is_some(), &said);
        let message = format!("{}; the run ended as {}", fault.message, end.stop_reason.as_str());
        draft.stop(&graph, end)?;
        return Ok(message);
    }
    let refusal = RefusedPlan {
        code: code.to_owned(),
        field: fault.field.clone().unwrap_or_default(),
        message: fault.message.clone(),
    };
    let cause = format!("the plan of {by} was refused, {said}");
    draft.refuse_plan(Uuid::now_v7(), refusal, cause)?;
    draft.reserve_plan(&graph, limits, policy.on_budget)?;
    let advice = "lease the plan again and submit a corrected one";
    Ok(format!("{}; {advice}, refusals before the run ends: {left}", fault.message))
}

fn ending(had_plan: bool, said: &str) -> Ending {
    let (stop_reason, user_message) = match had_plan {
        true => (
            StopReason::ReplanParseFailed,
            format!("No valid patch of the plan was submitted. The last one was refused, {said}"),
        ),
        false => (
            StopReason::PlanParseFailed,
            format!("No valid plan was submitted. The last one was refused, {said}"),
        ),
    };
    Ending { stop_reason, user_message, internal_reason: String::new() }
}
