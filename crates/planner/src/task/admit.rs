//! Events become tasks.
//!
//! ```text
//!   events --one transaction--> superseded when they arrive | task rows, and older tasks that they end
//!                                                             |
//!                             after it: the runs are made, and the runs of ended tasks cancelled
//! ```
//!
//! Whatever follows the transaction is done again by the upkeep of any planner, should this one end.

use super::arrived::Arrived;
use super::conversation::{Cause, Chain, chain_of};
use super::find_agent::Origin;
use super::render::{Found, Rendered, find_any_agent, render};
use super::repeated::{Asked, Build, asked_before, event_key, failed_before, is_late, same_review};
use super::start::{Start, start_runs};
use super::{TaskType, Toolchain, end};
use crate::planner::Planner;
use std::slice;
use surety_common::crash;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::toolchain::{
    CHAIN_BOUND, EntryKind, Forge, MAX_CHAIN_DEPTH, MAX_CHAIN_TASKS, Placed, SYSTEM, Subject,
    ToolchainEvent, asks_for_same_review, commit_of, reviewer_of, supersedes,
};
use surety_common::store::{self, Admission, Inserted, NewEntry, NewTask};
use surety_common::telemetry;
use uuid::Uuid;

/// What became of the events of one delivery, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// One for each event.
    pub(crate) tasks: Vec<AdmittedTask>,
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdmittedTask {
    /// The run of its task; none where an earlier event left nothing to do.
    pub(crate) run_id: Option<Uuid>,
    /// Whether the task is new.
    pub(crate) state: AdmittedState,
    /// The agent that must act; empty where none could be found.
    pub(crate) assignee: String,
}

/// Whether an event made a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmittedState {
    /// It did.
    Created,
    /// The same event did before, maybe under another delivery id.
    Existed,
    /// An event that arrived before is later by the forge's time, and left nothing to do.
    Superseded,
    /// Agents answer one another, and their chain of tasks is at its bounds.
    ChainBound,
}

impl AdmittedState {
    /// The word for metrics and answers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Existed => "existed",
            Self::Superseded => "superseded",
            Self::ChainBound => CHAIN_BOUND,
        }
    }
}

/// Admits several deliveries in one transaction. One that cannot be admitted is alone with its failure: the others are
/// admitted without it then. Answers each delivery, in their order, as [`admit`] does.
pub(crate) async fn admit_all(
    planner: &Planner,
    arrived: &[Arrived],
) -> Vec<Result<Admitted, Fault>> {
    let fault = match store_and_start(planner, arrived).await {
        Ok(admitted) => return admitted.into_iter().map(Ok).collect(),
        Err(fault) => fault,
    };
    let is_away = fault.reason == Reason::Service(FaultCode::DatabaseUnavailable);
    if is_away || arrived.len() < 2 {
        return arrived.iter().map(|_| Err(fault.clone())).collect();
    }
    let mut each = Vec::new();
    for delivery in arrived {
        each.push(admit_one(planner, delivery).await);
    }
    each
}

/// Stores the tasks of the events of one delivery, each once, makes their runs, and ends open tasks that these events
/// left nothing to do for. `origin_key` names the delivery. A repeated call changes nothing and answers the same
/// tasks.
///
/// An event for an account without an agent, or for a role that no agent has, becomes a task of the coordinator.
///
/// # Errors
/// `database_unavailable`; then the call may be repeated. `internal` for a template that cannot be rendered.
pub(crate) async fn admit(
    planner: &Planner,
    origin_key: &str,
    events: &[ToolchainEvent],
) -> Result<Admitted, Fault> {
    let arrived = Arrived::new(planner, origin_key.to_owned(), events.to_vec()).await;
    admit_one(planner, &arrived).await
}

async fn admit_one(planner: &Planner, arrived: &Arrived) -> Result<Admitted, Fault> {
    let admitted = store_and_start(planner, slice::from_ref(arrived)).await?;
    Ok(admitted.into_iter().next().unwrap_or_default())
}

/// What follows the transaction of an admission.
#[derive(Default)]
struct Follows {
    starts: Vec<Start>,
    /// The tasks that are left nothing to do, and the task whose event did.
    superseded: Vec<(Uuid, Uuid)>,
    /// The tasks whose chains take no other one, and what their histories say.
    full: Vec<NewEntry>,
}

async fn store_and_start(planner: &Planner, arrived: &[Arrived]) -> Result<Vec<Admitted>, Fault> {
    let events = arrived.iter().flat_map(|delivery| &delivery.events);
    let mut admission = Admission::begin(&planner.pool, events.flat_map(locks_of)).await?;
    let mut follows = Follows::default();
    let mut admitted = Vec::with_capacity(arrived.len());
    let mut counted = Vec::new();
    for delivery in arrived {
        let events = delivery.events(planner, &mut admission).await?;
        let mut tasks = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let origin = format!("{}#{index}", delivery.origin_key);
            let task = store_task(planner, &mut admission, (event, origin), &mut follows).await?;
            counted.push((event.event_type, task.state));
            tasks.push(task);
        }
        admitted.push(Admitted { tasks });
    }
    admission.commit().await?;
    crash::point("planner.after_task_stored");
    for (event, state) in counted {
        telemetry::count_task_event(event.as_str(), state.as_str());
    }
    start_runs(planner, follows.starts).await?;
    for (run_id, by) in follows.superseded {
        end::cancel_superseded(planner, run_id, &end::later_event(by)).await?;
    }
    for entry in follows.full {
        telemetry::count_task_alert(CHAIN_BOUND);
        tracing::error!(
            run_id = %entry.run_id, why = entry.body,
            "planner: agents answer one another, and their chain of tasks is at its bounds: a text makes no task; read \
             the chain with `surety task show`"
        );
        store::add_entry(&planner.pool, &planner.keys.signing, &entry, |_| None).await?;
    }
    Ok(admitted)
}

/// What an admission of the event excludes others from: its subject, or the event where it is about none, and the commit of
/// a failed build.
fn locks_of(event: &ToolchainEvent) -> impl Iterator<Item = String> {
    let subject = subject_lock(event.source, &event.subject).unwrap_or_else(|| event_key(event));
    let (forge, repo) = (event.source, &event.subject.repo);
    // Without the server: some deliveries of a build do not name it.
    let commit = event.failed_commit().map(|commit| format!("{forge} {repo} commit {commit}"));
    commit.into_iter().chain([subject])
}

/// What changes of the tasks about a subject exclude others from; none where it has no number.
pub(super) fn subject_lock(forge: Forge, subject: &Subject) -> Option<String> {
    let Subject { repo, number, .. } = subject;
    number.map(|number| format!("{forge} {repo} {number}"))
}

/// Stores the task of one event.
async fn store_task(
    planner: &Planner,
    admission: &mut Admission,
    (event, origin): (&ToolchainEvent, String),
    follows: &mut Follows,
) -> Result<AdmittedTask, Fault> {
    let without = |state| AdmittedTask { run_id: None, state, assignee: String::new() };
    let existed = |run_id: Uuid, assignee: String| AdmittedTask {
        run_id: Some(run_id),
        state: AdmittedState::Existed,
        assignee,
    };
    let replaced = match failed_before(planner, admission, event).await? {
        Build::Known(run_id, assignee) => return Ok(existed(run_id, assignee)),
        Build::Replaces(run_id) => Some(run_id),
        Build::Other => None,
    };
    let known = admission.known(event.source, &event.subject).await?;
    let withdrawals = admission.withdrawals(event.source, &event.subject).await?;
    let placed = placed(event);
    let key = match asked_before(admission, (event, &placed), (&known, &withdrawals)).await? {
        Asked::Before(run_id, assignee) => return Ok(existed(run_id, assignee)),
        Asked::Now(key) => key,
    };
    let is_withdrawn = withdrawals.iter().any(|withdrawal| withdrawal.covers_late(&placed));
    if is_withdrawn || is_late(planner, admission, (event, &placed), &known).await? {
        return Ok(without(AdmittedState::Superseded));
    }
    let chain = chain_of(planner, admission, event, &known).await?;
    if let Chain::Full(cause) = chain {
        follows.full.push(bound_reached(planner, event, cause));
        return Ok(without(AdmittedState::ChainBound));
    }
    let asked = (Origin::of(event), &event.assignee);
    let found = find_any_agent(planner, admission, asked).await?;
    if let Some(task) = same_review(admission, &known, (&placed, &found)).await? {
        admission.ask_again(&[task.run_id], event.happened_at).await?;
        return Ok(existed(task.run_id, task.assignee.clone()));
    }
    let mut new = new_task(planner, event, (origin, key), &found)?;
    if let Chain::After(cause) = chain {
        cause.precedes(&mut new);
    }
    if let Inserted::Existed(run_id) = admission.insert(&new).await? {
        return Ok(existed(run_id, new.assignee));
    }
    // A named account without an agent takes no review from the role.
    let is_asked = matches!(found, Found::Asked(_));
    let ends =
        |it: &Placed| supersedes(&placed, it) && (is_asked || !asks_for_same_review(&placed, it));
    let older = known.iter().filter(|task| task.is_open && ends(&task.placed));
    let older: Vec<Uuid> = older.map(|task| task.run_id).chain(replaced).collect();
    if !older.is_empty() {
        admission.supersede(&older, new.run_id).await?;
        follows.superseded.extend(older.into_iter().map(|old| (old, new.run_id)));
    }
    follows.starts.push(Start::from(&new));
    let (run_id, state) = (Some(new.run_id), AdmittedState::Created);
    Ok(AdmittedTask { run_id, state, assignee: new.assignee })
}

/// Says that no task was made of a text by which agents answer one another.
fn bound_reached(planner: &Planner, event: &ToolchainEvent, cause: Cause) -> NewEntry {
    NewEntry {
        run_id: cause.run_id,
        kind: EntryKind::System,
        author: SYSTEM.to_owned(),
        body: format!(
            "No task was made of the {} for {}: {CHAIN_BOUND}. A chain has at most {MAX_CHAIN_DEPTH} tasks in a row and \
             {MAX_CHAIN_TASKS} in all.",
            event.event_type, event.assignee
        ),
        links: Vec::new(),
        attachment: String::new(),
        at: planner.now(),
    }
}

fn placed(event: &ToolchainEvent) -> Placed {
    Placed {
        action: event.action_type(),
        subject: event.subject.clone(),
        assignee: event.assignee.clone(),
        reviewer: reviewer_of(event.action_type(), &event.context).to_owned(),
        commit: commit_of(event.action_type(), &event.context).to_owned(),
        happened_at: event.happened_at,
    }
}

fn new_task(
    planner: &Planner,
    event: &ToolchainEvent,
    (origin_key, event_key): (String, String),
    found: &Found,
) -> Result<NewTask, Fault> {
    let run_id = Uuid::now_v7();
    let Rendered { assignee, payload, instructions } = render(planner, (run_id, event), found)?;
    let is_notice = payload.steps.is_empty();
    if matches!(found, Found::None) && !is_notice {
        telemetry::count_task_alert("agent_unknown");
        tracing::error!(
            %run_id, addressee = %event.assignee,
            "planner: no agent answers for the event, and no agent is a coordinator; register one with \
             `surety agents put`, and the task is given to it"
        );
    }
    let remind_after_s = planner.rules.remind_after_s(&payload.action_type);
    Ok(NewTask {
        run_id,
        task_type: Toolchain.name().to_owned(),
        namespace: Toolchain.namespace().to_owned(),
        event_key,
        origin_key,
        payload,
        instructions,
        forge: event.source.to_string(),
        subject: event.subject.clone(),
        happened_at: event.happened_at,
        addressee: event.assignee.to_string(),
        assignee,
        is_notice,
        chain_id: run_id,
        caused_by: None,
        depth: 1,
        business_failures: 0,
        created_at: planner.now(),
        remind_after_s,
    })
}
