//! The leases of plans on the wire.

use crate::intake::leases::Ask;
use crate::intake::{attempts_left, checks_to_add};
use crate::planner::Planner;
use crate::runs;
use std::time::Duration;
use surety_common::domain::check::Owner;
use surety_common::domain::decision::Usage;
use surety_common::domain::fault::Fault;
use surety_common::domain::planning::ReplanCause;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Extended, HeldLease, PlanTool, Scope, WaitLease};
use surety_common::wire::caller::Caller;
use surety_common::wire::selection::Selection;
use surety_common::wire::v1;
use surety_common::wire::value::{id, patience, timestamp};
use uuid::Uuid;

/// The longest wait of one call for a plan.
const LONGEST_POLL: Duration = Duration::from_secs(60);
/// The wait of a call that names none.
const POLL: Duration = Duration::from_secs(30);
/// The longest name of a planning agent, in bytes.
const MAX_PLANNER_ID: usize = 200;
/// The most leases of one heartbeat.
const MAX_FENCES: usize = 1000;

/// What a planning agent asks for.
///
/// # Errors
/// `field_missing`, `too_large`, `type_mismatch`, `invalid_id`, `namespace_not_found`.
pub(super) fn ask(caller: &Caller, request: v1::LeasePlanRequest) -> Result<Ask, Fault> {
    let v1::LeasePlanRequest { planner_id, namespace, run_id, wait, namespaces, labels } = request;
    let run_id = match run_id.as_str() {
        "" => None,
        text => Some(id("run_id", text)?),
    };
    let Selection { namespaces, labels } = Selection::read(caller, namespace, namespaces, labels)?;
    let patience = match wait {
        None => POLL,
        Some(wait) => patience("wait", wait)?.min(LONGEST_POLL),
    };
    let holder = (caller.name().to_owned(), named(&planner_id)?);
    let scope = Scope { reached: caller.reached(), namespaces, run_id, labels };
    Ok(Ask { holder, scope, patience })
}

/// The name of a planning agent.
fn named(planner_id: &str) -> Result<String, Problem> {
    let name = planner_id.trim();
    let problem = |code, message: &str| Err(Problem::at(code, "planner_id", message));
    if name.is_empty() {
        return problem(Code::FieldMissing, "is missing; set it");
    }
    if name.len() > MAX_PLANNER_ID {
        return problem(Code::TooLarge, "is longer than 200 bytes; shorten it");
    }
    if name.contains(char::is_control) {
        return problem(Code::TypeMismatch, "contains a control character; use letters and digits");
    }
    Ok(name.to_owned())
}

/// Refuses to wait for the plan of a run that ended.
///
/// # Errors
/// `run_not_found`, `run_terminal`, `database_unavailable`.
pub(super) async fn may_be_planned(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let record = store::find_run(&planner.pool, run_id).await?;
    let record = record.ok_or_else(|| runs::not_found(run_id))?;
    if record.execution.state.is_terminal() {
        return Err(runs::terminal(&record));
    }
    Ok(())
}

/// Checks the size of a heartbeat.
///
/// # Errors
/// `field_missing`, `limit_out_of_range`.
pub(super) fn few(planner_id: &str, fences: &[v1::PlanFence]) -> Result<(), Problem> {
    named(planner_id)?;
    if fences.len() > MAX_FENCES {
        let message = format!("names {} leases; at most {MAX_FENCES} at a time", fences.len());
        return Err(Problem::at(Code::LimitOutOfRange, "fences", message));
    }
    Ok(())
}

/// The lease that a caller names.
///
/// # Errors
/// `invalid_id`
pub(super) fn held(caller: &Caller, fence: &v1::PlanFence) -> Result<HeldLease, Fault> {
    Ok(HeldLease {
        run_id: id("fence.run_id", &fence.run_id)?,
        lease_epoch: i64::try_from(fence.lease_epoch).unwrap_or(i64::MAX),
        identity: caller.name().to_owned(),
    })
}

/// The answer to a heartbeat so far.
#[derive(Default)]
pub(super) struct Beats(pub(super) v1::HeartbeatPlanResponse);

impl Beats {
    /// Adds what became of a lease.
    pub(super) fn add(&mut self, fence: v1::PlanFence, extended: Option<Extended>) {
        let Some(Extended { expires_at, withheld }) = extended else {
            self.0.lost.push(fence);
            return;
        };
        let at = timestamp(expires_at);
        let earlier = self.0.expires_at.map(|at| (at.seconds, at.nanos));
        if earlier.is_none_or(|earlier| (at.seconds, at.nanos) < earlier) {
            self.0.expires_at = Some(at);
        }
        if withheld {
            self.0.stopping.push(fence);
        }
    }
}

/// A lease, with what the plan is made from.
///
/// # Errors
/// `database_unavailable`, `internal` for fixed checks that do not read.
pub(super) async fn leased(
    planner: &Planner,
    lease: WaitLease,
    record: &RunRecord,
) -> Result<v1::LeasePlanResponse, Fault> {
    let RunRecord { spec, execution, plan, plan_digest } = record;
    let tools = store::plan_tools(&planner.pool, &spec.namespace, planner.now()).await?;
    let added = checks_to_add(planner, record).await?;
    let in_plan = plan.iter().flat_map(|plan| &plan.verify);
    let kept = in_plan.filter(|check| check.owner != Owner::Plan).cloned();
    let shown = added.into_iter().chain(kept).filter(|check| !check.is_hidden());
    let statuses = plan.iter().flat_map(|plan| &plan.steps).zip(execution.step_states());
    let statuses = statuses.map(|(step, state)| v1::StepStatus {
        step_id: step.id.clone(),
        state: v1::StepState::from(state).into(),
    });
    let reason = execution.own_wait().map(|wait| wait.question.clone()).unwrap_or_default();
    let planning = execution.planning();
    let Usage { tokens, cost_micros } = planning.reserved;
    let context = v1::PlanContext {
        goal: spec.goal.clone(),
        limits: Some(spec.limits.clone().into()),
        plan: plan.as_deref().map(|plan| v1::Plan {
            revision: execution.plan_revision,
            digest: plan_digest.clone(),
            ..plan.clone().into()
        }),
        statuses: statuses.collect(),
        reason,
        expected_revision: execution.plan_revision,
        replans_left: spec.limits.max_replans.saturating_sub(execution.counters.replans),
        correction: planning.refused.map(|refused| v1::Problem {
            code: refused.code,
            field: (!refused.field.is_empty()).then_some(refused.field),
            message: refused.message,
        }),
        attempts_left: attempts_left(execution, &spec.limits),
        cause: match planning.cause {
            ReplanCause::FirstPlan => v1::ReplanCause::Unspecified,
            ReplanCause::StepFailed => v1::ReplanCause::StepFailed,
            ReplanCause::Requested => v1::ReplanCause::Requested,
            ReplanCause::EnvironmentChanged => v1::ReplanCause::EnvironmentChanged,
        }
        .into(),
        turn_tokens: spec.limits.token_budget.map(|_| tokens),
        turn_cost_micros: spec.limits.cost_budget_micros.map(|_| cost_micros),
        checks: shown.map(Into::into).collect(),
        tools: tools.into_iter().map(tool).collect(),
    };
    let lease = v1::PlanLease {
        run_id: lease.run_id.to_string(),
        lease_epoch: u64::try_from(lease.lease_epoch).unwrap_or_default(),
        expires_at: Some(timestamp(lease.expires_at)),
        traceparent: spec.trace_parent.clone(),
    };
    Ok(v1::LeasePlanResponse { lease: Some(lease), context: Some(context) })
}

fn tool(tool: PlanTool) -> v1::PlanTool {
    let PlanTool { tool: name, description, schema: input_schema_json, from_outside } = tool;
    v1::PlanTool { name, description, input_schema_json, from_outside }
}
