//! Creates a run from a request.

use super::request::RunRequest;
use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, encode_overlay};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Execution, Graph, Wait, plan_unblocks};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::fork::ForkedFrom;
use surety_common::domain::journal::{Entry, PlanStored};
use surety_common::domain::json::Value;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunEvent;
use surety_common::domain::model::ModelReply;
use surety_common::domain::plan::Plan;
use surety_common::domain::run::{DriverKind, OnBusy, Policy, RunRecord, RunSpec, WorkspaceLock};
use surety_common::domain::stop::WaitingOn;
use surety_common::domain::workspace::{Reserved, Unfit, check_within, check_workspace};
use surety_common::store::{self, Created, Holder, HostPath, NewRun, StoredPlan};
use surety_common::telemetry::trace;
use tracing::Span;
use uuid::Uuid;

/// Why the first revision of a plan is stored.
const FIRST_REASON: &str = "submitted with the run";
/// The same of a plan whose only step is the goal.
const GOAL_REASON: &str = "the goal is the only step";
/// What the driver of such a run is told before its first turn.
const SET_UP_TODOS: &str = "This run has no plan: the goal is your only step. Begin by writing down what you will do, \
     as a list of todos with the tool todo, and keep it up to date.";

/// The run of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The request created this run.
    Made(Box<RunRecord>),
    /// An earlier identical request created this run.
    Existed(Uuid),
}

/// Creates a run, once per request id. With a plan it is ready to be executed; without one it is
/// BLOCKED until a model or a caller submits a plan.
///
/// # Errors
/// `request_id_conflict` when a different request used the same id; `workspace_refused`,
/// `workspace_busy`; `database_unavailable`.
pub async fn create(planner: &Planner, request: Box<RunRequest>) -> Result<Accepted, Fault> {
    Box::pin(check_folder(planner, &request)).await?;
    let NewRow { new, plan, span } = new_row(planner, *request)?;
    match planner.creator.create(Arc::clone(&new), trace::span_id(&span)).await? {
        Created::New => {
            surety_common::telemetry::observe(&new.write, &span);
            Ok(Accepted::Made(made(&new, plan)))
        }
        Created::Before(run_id) => Ok(Accepted::Existed(run_id)),
        Created::Conflict(run_id) => Err(conflict(&new.spec.request_id, run_id)),
    }
}

/// A run that is to be stored, and the span in which it is made.
struct NewRow {
    new: Arc<NewRun>,
    plan: Option<Arc<Plan>>,
    span: Span,
}

/// The row of a request. Not a part of the async function, whose future would have room for each value in it.
fn new_row(planner: &Planner, request: RunRequest) -> Result<NewRow, Fault> {
    let now = planner.now();
    let id = Uuid::now_v7();
    let (span, trace_parent) =
        trace::start_run("planner", &id.to_string(), request.caller_trace.as_deref());
    let request_digest = request.request_digest.clone();
    let without_plan = request.without_plan;
    let mut wait = wait_for_plan(now, request.driver, 0);
    let checks = Plan { verify: request.checks.clone(), ..Plan::default() };
    if !checks.verify.is_empty() {
        let listed = checks.verify.iter().map(AcceptCheck::to_json).collect();
        wait.planning.get_or_insert_default().checks = Value::Array(listed).to_compact();
    }
    let submitter = request.submitter.clone();
    let counters = request.counters.clone();
    let (spec, plan, priority) = spec(request, id, trace_parent.to_string(), now);
    let reason = reason(spec.forked_from.as_deref(), without_plan);
    let stored = plan.as_ref().map(|plan| StoredPlan { reason, ..first_revision(plan, now) });
    let first_plan = plan.as_ref().zip(stored.as_ref());
    let mut execution = first_execution(&spec, now);
    (execution.priority, execution.counters) = (priority, counters);
    let draft = Draft::new(execution, planner.actor_for(&submitter), now);
    let fork = spec.forked_from.as_deref();
    let mut draft = first_moves(draft, first_plan.ok_or(wait), fork).map_err(refused)?;
    let (graph, on_budget) = (Graph::default(), spec.policy.on_budget);
    draft.reserve_plan(&graph, &spec.limits, on_budget).map_err(refused)?;
    if without_plan {
        draft.remind(0, SET_UP_TODOS).map_err(refused)?;
    }
    let write = draft.into_write();
    let artifacts = overlays(plan.as_ref().unwrap_or(&checks));
    let new = Arc::new(NewRun {
        spec,
        submitter,
        request_digest,
        plan: stored,
        task: None,
        artifacts,
        write,
    });
    Ok(NewRow { new, plan: plan.map(Arc::new), span })
}

fn made(new: &NewRun, plan: Option<Arc<Plan>>) -> Box<RunRecord> {
    Box::new(RunRecord {
        spec: new.spec.clone(),
        execution: Execution::clone(&new.write.execution),
        plan,
        plan_digest: new.plan.as_ref().map(|plan| plan.digest.clone()).unwrap_or_default(),
    })
}

/// Why the first revision is stored.
fn reason(fork: Option<&ForkedFrom>, without_plan: bool) -> String {
    match fork {
        Some(fork) => format!("forked from run {} at step {}", fork.run_id, fork.step_id),
        None if without_plan => GOAL_REASON.to_owned(),
        None => FIRST_REASON.to_owned(),
    }
}

/// The refusal of a request id that made a run from another request.
fn conflict(request_id: &str, run_id: Uuid) -> Fault {
    let message = format!(
        "request_id {request_id:?} created run {run_id} from other content or for another caller; use a new request_id"
    );
    Fault::new(FaultCode::RequestIdConflict, message).with_field("request_id")
}

/// The run that an identical request made before.
///
/// # Errors
/// `request_id_conflict`, `database_unavailable`.
pub(super) async fn made_before(
    planner: &Planner,
    namespace: &str,
    (request_id, request_digest): (&str, &str),
) -> Result<Option<Uuid>, Fault> {
    if request_id.is_empty() {
        return Ok(None);
    }
    match store::find_request(&planner.pool, namespace, request_id).await? {
        Some((run_id, digest)) if digest == request_digest => Ok(Some(run_id)),
        Some((run_id, _)) => Err(conflict(request_id, run_id)),
        None => Ok(None),
    }
}

/// The content of the overlays that came with a plan, by their digests.
pub(super) fn overlays(plan: &Plan) -> Vec<(String, Vec<u8>)> {
    let files = |check: &AcceptCheck| {
        let files = check.overlay.files()?;
        Some((check.overlay.digest().to_owned(), encode_overlay(files)))
    };
    plan.all_checks().filter_map(files).collect()
}

/// Refuses a folder that no run may work in, and one that is in use where the policy says so. The
/// executor judges the folder again on its own machine.
async fn check_folder(planner: &Planner, request: &RunRequest) -> Result<(), Fault> {
    if request.workspace.is_empty() {
        return Ok(());
    }
    let named = PathBuf::from(&request.workspace);
    let resolving = named.clone();
    let real = tokio::task::spawn_blocking(move || resolving.canonicalize()).await;
    let real = real.ok().and_then(Result::ok);
    for path in [Some(&named), real.as_ref()].into_iter().flatten() {
        check_workspace(path, &Reserved::default()).map_err(unfit)?;
    }
    let folder = real.as_deref().unwrap_or(&named);
    check_within(folder, &request.policy.workspace_roots).map_err(unfit)?;
    let Policy { workspace_lock, on_busy, .. } = request.policy;
    if on_busy == OnBusy::Wait || workspace_lock == WorkspaceLock::Shared {
        return Ok(());
    }
    let folder = HostPath::new(&planner.host_label, folder);
    let Some(Holder { run_id, path }) = store::workspace_holder(&planner.pool, &folder).await?
    else {
        return Ok(());
    };
    if is_repeated(planner, request, run_id).await? {
        return Ok(());
    }
    let message = format!(
        "run {run_id} works in {path}; create the run after its end, or with on_busy: wait"
    );
    Err(Fault::new(FaultCode::WorkspaceBusy, message).with_field("workspace"))
}

fn unfit(unfit: Unfit) -> Fault {
    Fault::new(FaultCode::WorkspaceRefused, unfit.to_string()).with_field("workspace")
}

/// Whether the same request made that run before.
async fn is_repeated(planner: &Planner, request: &RunRequest, run_id: Uuid) -> Result<bool, Fault> {
    let made = store::find_run(&planner.pool, run_id).await?;
    Ok(!request.request_id.is_empty()
        && made.is_some_and(|made| {
            made.spec.request_id == request.request_id && made.spec.namespace == request.namespace
        }))
}

fn spec(
    request: RunRequest,
    id: Uuid,
    trace_parent: String,
    now: DateTime<Utc>,
) -> (RunSpec, Option<Plan>, i16) {
    let spec = RunSpec {
        id,
        namespace: request.namespace,
        request_id: request.request_id,
        goal: request.goal,
        driver: request.driver,
        workspace: request.workspace,
        repository: request.repository,
        limits: request.limits,
        policy: request.policy,
        labels: request.labels,
        forked_from: request.forked_from,
        trace_parent,
        created_at: now,
    };
    (spec, request.plan, request.priority)
}

pub(crate) fn first_revision(plan: &Plan, now: DateTime<Utc>) -> StoredPlan {
    let stored = plan.to_json();
    StoredPlan {
        revision: 1,
        digest: stored.digest(),
        parent_digest: String::new(),
        reason: FIRST_REASON.to_owned(),
        body: stored.to_compact(),
        created_at: now,
    }
}

/// The row of a new run.
pub(crate) fn first_execution(spec: &RunSpec, now: DateTime<Utc>) -> Execution {
    let seconds = i64::try_from(spec.limits.run_deadline_s).unwrap_or(i64::MAX);
    let deadline = now + TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::MAX);
    Execution::new(spec.id, spec.namespace.clone(), deadline, now)
}

/// Starts the plan that came with the run, or waits for one.
///
/// # Errors
/// [`Refusal`] never for a new run.
pub(crate) fn first_moves(
    mut draft: Draft,
    plan: Result<(&Plan, &StoredPlan), Wait>,
    fork: Option<&ForkedFrom>,
) -> Result<Draft, Refusal> {
    match plan {
        Ok((plan, stored)) => {
            draft.run_event(RunEvent::PlanningStarted, "a plan was submitted with the run")?;
            draft.journal(Entry::Plan(stored_entry(stored, None)));
            let graph = Graph::of(plan);
            match fork {
                Some(fork) => draft.start_fork(&graph, stored.revision, fork)?,
                None => draft.start_plan(&graph, stored.revision)?,
            }
        }
        Err(wait) => {
            draft.run_event(RunEvent::PlanningStarted, "a plan is required")?;
            draft.block(&Graph::default(), wait)?;
        }
    }
    Ok(draft)
}

/// The wait for a plan after this revision. What the first one came to is stored once there is something to store.
pub(crate) fn wait_for_plan(now: DateTime<Utc>, driver: DriverKind, revision: u32) -> Wait {
    let of_model = driver == DriverKind::Model;
    let unblocks = plan_unblocks(of_model, revision);
    let wait = Wait::new(Uuid::now_v7(), WaitingOn::Model, now, unblocks.to_owned());
    Wait { model: of_model.then(Box::default), ..wait }
}

pub(super) fn stored_entry(plan: &StoredPlan, model: Option<&ModelReply>) -> PlanStored {
    PlanStored {
        revision: plan.revision,
        digest: plan.digest.clone(),
        parent_digest: plan.parent_digest.clone(),
        reason: plan.reason.clone(),
        model: model.cloned().map(Box::new),
    }
}

pub(super) fn refused(refusal: Refusal) -> Fault {
    Fault::new(FaultCode::Internal, format!("the run's first transition was refused: {refusal}"))
}
