//! Forks: the request of a run that begins at a step of an earlier one.
//!
//! ```text
//!   earlier run --plan, driver, labels, priority--> the same
//!               --limits, policy-----------------> the same, under what the namespace asks by now
//!               --checks-------------------------> the same with their owners, and those of the namespace
//!               --drivers, steps of drivers----> the same
//!               --todos, grants, added budgets---> none
//! ```

use super::create::{Accepted, create, made_before};
use super::request::RunRequest;
use crate::planner::Planner;
use std::path::Path;
use surety_common::domain::check::{AcceptCheck, Overlay, Owner, decode_overlay};
use surety_common::domain::execution::{Counters, Graph, inherited_steps};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::fork::ForkedFrom;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::Plan;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::repository::run_ref;
use surety_common::domain::run::{RunRecord, WorkspaceLock};
use surety_common::domain::verification::{Sight, check_verifications};
use surety_common::store;
use uuid::Uuid;

/// What a caller asks of a fork.
#[derive(Debug, Clone)]
pub(crate) struct Fork {
    /// The name of the identity that asks.
    pub(crate) submitter: String,
    /// Whose hidden checks of the earlier run the caller sees whole.
    pub(crate) sight: Sight,
    /// The caller's id for the request; may be empty.
    pub(crate) request_id: String,
    /// Digest of the whole request.
    pub(crate) request_digest: String,
    /// The step to begin with.
    pub(crate) step_id: String,
    /// The folder to work in; empty for that of the earlier run.
    pub(crate) workspace: String,
    /// The caller's W3C trace context, if the call is traced.
    pub(crate) caller_trace: Option<String>,
}

/// Creates a run from a step of an earlier one, once per request id. The earlier one is in the source's database, the
/// new one in that of its namespace.
///
/// # Errors
/// Those of a request for one: `run_active`, `plan_not_found`, `step_not_found`, `fork_steps_open`, `workspace_busy`,
/// `field_missing`, `plan_too_long`, `policy_exceeded`, `verify_tool_unknown`, `permission_denied`; those of
/// [`create`].
pub(crate) async fn fork(
    (source, planner): (&Planner, &Planner),
    run_id: Uuid,
    fork: Fork,
) -> Result<Accepted, Fault> {
    let record = source.find(run_id).await?;
    let named = (fork.request_id.as_str(), fork.request_digest.as_str());
    // The earlier run may have moved on since the same call made the fork.
    if let Some(before) = made_before(planner, &record.spec.namespace, named).await? {
        return Ok(Accepted::Existed(before));
    }
    let policy = planner.policies.find(&record.spec.namespace).await?;
    let mut request = Box::new(request_of(record, fork, &policy)?);
    for check in request.plan.iter_mut().flat_map(all_checks_mut) {
        check.overlay = whole(source, &check.overlay).await?;
    }
    create(planner, request).await
}

fn all_checks_mut(plan: &mut Plan) -> impl Iterator<Item = &mut AcceptCheck> {
    let of_steps = plan.steps.iter_mut().flat_map(|step| step.verify.iter_mut());
    of_steps.chain(plan.verify.iter_mut())
}

/// An overlay with its files: a stored plan names them by their digest alone.
async fn whole(source: &Planner, overlay: &Overlay) -> Result<Overlay, Fault> {
    if overlay.is_none() || overlay.files().is_some() {
        return Ok(overlay.clone());
    }
    let body = store::artifact_body(&source.pool, overlay.digest()).await?;
    let files = body.as_deref().and_then(decode_overlay).ok_or_else(|| {
        let message = "the files of a hidden check of the earlier run are not kept any more";
        Fault::new(FaultCode::ArtifactNotFound, message)
    })?;
    Ok(Overlay::of(files))
}

/// The request for a fork of a run, under the policy of its namespace.
///
/// # Errors
/// As [`fork`].
fn request_of(
    record: RunRecord,
    fork: Fork,
    namespace: &NamespacePolicy,
) -> Result<RunRequest, Fault> {
    check_at_rest(&record)?;
    let plan = record.plan.as_deref().ok_or_else(|| {
        Fault::new(FaultCode::PlanNotFound, "the run has no plan, so it has no step to begin with")
    })?;
    check_hidden(plan, fork.sight)?;
    let forked_from = inherit(&record, plan, &fork.step_id)?;
    let workspace = workspace_of(&record, &forked_from, fork.workspace)?;
    let limits = namespace.bound(record.spec.limits, |_| false)?;
    check_length(plan, &limits)?;
    let policy = namespace.admit(record.spec.policy, None)?;
    let plan = Plan { verify: namespace.with_checks(plan.verify.clone()), ..plan.clone() };
    check_verifications(&plan, &policy)?;
    namespace.admit_checks(&plan, &policy)?;
    Ok(RunRequest {
        namespace: record.spec.namespace,
        submitter: fork.submitter,
        request_id: fork.request_id,
        request_digest: fork.request_digest,
        goal: record.spec.goal,
        repository: record.spec.repository.filter(|_| workspace.is_empty()),
        plan: Some(plan),
        checks: Vec::new(),
        without_plan: false,
        limits,
        workspace,
        policy,
        driver: record.spec.driver,
        labels: record.spec.labels,
        priority: record.execution.priority,
        counters: Counters {
            drivers: record.execution.counters.drivers,
            planned_steps: record.execution.counters.planned_steps,
            ..Counters::default()
        },
        forked_from: Some(Box::new(forked_from)),
        caller_trace: fork.caller_trace,
    })
}

/// A run that is worked on would change what its fork begins with.
fn check_at_rest(record: &RunRecord) -> Result<(), Fault> {
    let state = record.execution.state;
    if state.is_terminal() || matches!(state, RunState::Blocked(_)) {
        return Ok(());
    }
    let message = format!(
        "the run is {}; pause or cancel it, or wait until it has ended, then fork it",
        state.as_str()
    );
    Err(Fault::new(FaultCode::RunActive, message).with_field("run_id"))
}

/// The submitter of a run sees the hidden checks of its user, so only who sees them may become the submitter of a run
/// that has them.
fn check_hidden(plan: &Plan, sight: Sight) -> Result<(), Fault> {
    let mut hidden = plan.all_checks().filter(|check| check.is_hidden());
    if hidden.any(|check| check.owner == Owner::User && !sight.covers(check.owner)) {
        let message =
            "the run has hidden checks of its user; only that user and operators may fork it";
        return Err(Fault::new(FaultCode::PermissionDenied, message));
    }
    Ok(())
}

/// What the fork has from the run.
fn inherit(record: &RunRecord, plan: &Plan, step_id: &str) -> Result<ForkedFrom, Fault> {
    let RunRecord { spec, execution, plan_digest, .. } = record;
    let graph = Graph::of(plan);
    let from = graph.place(step_id).ok_or_else(|| {
        let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
        let message = format!(
            "the plan of the run has no step {step_id:?}; its steps are {}",
            ids.join(", ")
        );
        Fault::new(FaultCode::StepNotFound, message).with_field("from_step")
    })?;
    let ids = |steps: Vec<usize>| {
        steps.into_iter().map(|index| graph.id(index).to_owned()).collect::<Vec<_>>()
    };
    let states: Vec<_> = execution.step_states().collect();
    let steps = inherited_steps(&graph, from, &states).map_err(|open| {
        let open: Vec<_> = open
            .into_iter()
            .map(|index| {
                let state = states.get(index).copied().unwrap_or_default();
                format!("{} ({})", graph.id(index), state.as_str())
            })
            .collect();
        let message = format!(
            "step {step_id} depends on steps that are not done in run {}: {}; begin with one of them",
            spec.id,
            open.join(", ")
        );
        Fault::new(FaultCode::ForkStepsOpen, message).with_field("from_step")
    })?;
    let counters = &execution.counters;
    Ok(ForkedFrom {
        run_id: spec.id,
        step_id: step_id.to_owned(),
        plan_revision: execution.plan_revision,
        plan_digest: plan_digest.clone(),
        receipts: counters.receipts,
        last_receipt_digest: counters.last_receipt_digest.clone(),
        steps: ids(steps),
        wrote: counters.wrote || spec.wrote_before(),
    })
}

/// The folder of the fork. A run that has not ended keeps its own.
fn workspace_of(record: &RunRecord, fork: &ForkedFrom, asked: String) -> Result<String, Fault> {
    let RunRecord { spec, execution, .. } = record;
    let workspace = if asked.is_empty() { spec.workspace.clone() } else { asked };
    if workspace.is_empty() && !fork.steps.is_empty() {
        let message = match &spec.repository {
            Some(repository) => format!(
                "the run worked in a clone of {}; name a folder with a checkout of its ref {}, or begin with the first \
                 step, which clones the repository anew",
                repository.url,
                run_ref(spec.id)
            ),
            None => "the run worked in a folder that its executor made; name a folder that has what the done steps \
                     left, or begin with the first step"
                .to_owned(),
        };
        return Err(Problem::at(Code::FieldMissing, "workspace", message).into());
    }
    let (old, new) = (Path::new(&spec.workspace), Path::new(&workspace));
    let meet = !spec.workspace.is_empty() && (old.starts_with(new) || new.starts_with(old));
    let exclusive = spec.policy.workspace_lock == WorkspaceLock::Exclusive;
    if meet && exclusive && !execution.state.is_terminal() {
        let message = format!(
            "run {} is {} and keeps its folder {} until it ends; cancel it, or name another workspace",
            spec.id,
            execution.state.as_str(),
            spec.workspace
        );
        return Err(Fault::new(FaultCode::WorkspaceBusy, message).with_field("workspace"));
    }
    Ok(workspace)
}

/// The namespace may have lowered its ceiling since.
fn check_length(plan: &Plan, limits: &Limits) -> Result<(), Fault> {
    let most = usize::try_from(limits.max_plan_steps).unwrap_or(usize::MAX);
    if plan.steps.len() <= most {
        return Ok(());
    }
    let message = format!("the plan has {} steps; {most} are allowed by now", plan.steps.len());
    Err(Problem::at(Code::PlanTooLong, "steps", message).into())
}
