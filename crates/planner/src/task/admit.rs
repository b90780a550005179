//! Events become tasks.
//!
//! ```text
//!   events --one transaction--> superseded when they arrive | task rows, and older tasks that they end
//!                                                             |
//!                             after it: the runs are made, and the runs of ended tasks cancelled
//! ```
//!
//! Whatever follows the transaction is done again by the upkeep of any planner, should this one end.

use super::start::{Start, start_runs};
use super::template::unusable;
use super::{TaskType, Toolchain, end};
use crate::planner::Planner;
use chrono::TimeDelta;
use serde_json::Value;
use std::slice;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{
    ActionType, Assignee, Language, Placed, Role, Subject, TaskPayload, ToolchainEvent,
    is_superseded, supersedes,
};
use surety_common::store::{Admission, Assigned, Inserted, NewTask};
use surety_common::telemetry;
use tokio::time::timeout;
use uuid::Uuid;

/// How long a forge has to say what a delivery does not. A task does without it.
const CONTEXT_TIME: Duration = Duration::from_secs(10);
/// How long before its failure a build began at most: its pull request changed when the commit was pushed.
const LONGEST_BUILD: TimeDelta = TimeDelta::days(7);

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
}

impl AdmittedState {
    /// The word for metrics and answers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Existed => "existed",
            Self::Superseded => "superseded",
        }
    }
}

/// A delivery that is read.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    /// What names it.
    origin_key: String,
    /// What it says happened, with what the forge says of it.
    events: Vec<ToolchainEvent>,
}

impl Arrived {
    /// A delivery with these events, to which the forge adds what the delivery does not say. It is asked before a
    /// transaction begins, so that a slow forge holds no lock.
    pub(crate) async fn new(
        planner: &Planner,
        origin_key: String,
        mut events: Vec<ToolchainEvent>,
    ) -> Self {
        for event in &mut events {
            add_facts_of_forge(planner, event).await;
        }
        Self { origin_key, events }
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
}

async fn store_and_start(planner: &Planner, arrived: &[Arrived]) -> Result<Vec<Admitted>, Fault> {
    let events = || arrived.iter().flat_map(|delivery| &delivery.events);
    let mut admission = Admission::begin(&planner.pool, events().map(lock_of)).await?;
    let mut follows = Follows::default();
    let mut admitted = Vec::with_capacity(arrived.len());
    for Arrived { origin_key, events } in arrived {
        let mut tasks = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let origin = format!("{origin_key}#{index}");
            tasks.push(store(planner, &mut admission, (event, origin), &mut follows).await?);
        }
        admitted.push(Admitted { tasks });
    }
    admission.commit().await?;
    crash::point("planner.after_task_stored");
    for (event, task) in events().zip(admitted.iter().flat_map(|admitted| &admitted.tasks)) {
        telemetry::count_task_event(event.event_type.as_str(), task.state.as_str());
    }
    start_runs(planner, follows.starts).await?;
    for (run_id, by) in follows.superseded {
        end::cancel_superseded(planner, run_id, by).await?;
    }
    Ok(admitted)
}

/// What an admission of the event excludes others from: its subject, or the event where it is about none.
fn lock_of(event: &ToolchainEvent) -> String {
    let Subject { repo, number, .. } = &event.subject;
    match number {
        Some(number) => format!("{} {repo} {number}", event.source),
        None => event_key(event),
    }
}

fn event_key(event: &ToolchainEvent) -> String {
    sha256_hex(event.key.as_bytes())
}

/// Stores the task of one event.
async fn store(
    planner: &Planner,
    admission: &mut Admission,
    (event, origin): (&ToolchainEvent, String),
    follows: &mut Follows,
) -> Result<AdmittedTask, Fault> {
    let key = event_key(event);
    let existed = |run_id: Uuid, assignee: String| AdmittedTask {
        run_id: Some(run_id),
        state: AdmittedState::Existed,
        assignee,
    };
    if let Some(run_id) = admission.made_before(Toolchain.namespace(), &key).await? {
        return Ok(existed(run_id, String::new()));
    }
    let known = admission.known(event.source, &event.subject).await?;
    let placed = placed(event);
    if is_superseded(&placed, known.iter().map(|task| &task.placed)) {
        let state = AdmittedState::Superseded;
        return Ok(AdmittedTask { run_id: None, state, assignee: String::new() });
    }
    let agent = find_agent(admission, event).await?;
    let new = new_task(planner, event, (origin, key), agent)?;
    if let Inserted::Existed(run_id) = admission.insert(&new).await? {
        return Ok(existed(run_id, new.assignee));
    }
    let older = known.iter().filter(|task| task.is_open && supersedes(&placed, &task.placed));
    let older: Vec<Uuid> = older.map(|task| task.run_id).collect();
    if !older.is_empty() {
        admission.supersede(&older, new.run_id).await?;
        follows.superseded.extend(older.into_iter().map(|old| (old, new.run_id)));
    }
    follows.starts.push(Start::from(&new));
    let (run_id, state) = (Some(new.run_id), AdmittedState::Created);
    Ok(AdmittedTask { run_id, state, assignee: new.assignee })
}

/// Adds to an event the files that a pull request changes, the comments on lines of a review, or the pull request of a build
/// and its failed checks.
async fn add_facts_of_forge(planner: &Planner, event: &mut ToolchainEvent) {
    let (forge, repo) = (event.source.as_str(), event.subject.repo.clone());
    let action = event.action_type();
    let asking = async {
        if action == ActionType::ReviewRequest {
            add_changed_files(planner, event).await;
        } else if action == ActionType::CiFailure {
            add_build(planner, event).await;
        } else if event.lacks_line_comments()
            && let Some(comments) = planner.escalations.line_comments(event).await
        {
            event.set_line_comments(&comments);
        }
    };
    if timeout(CONTEXT_TIME, asking).await.is_err() {
        tracing::warn!(
            forge,
            repo,
            "planner: the forge did not say more of an event in time; the task has what the delivery says"
        );
    }
}

async fn add_changed_files(planner: &Planner, event: &mut ToolchainEvent) {
    let forge = event.source.as_str();
    if let Some(files) = planner.escalations.changed_files(forge, &event.subject).await {
        event.set_changed_files(&files, planner.rules.risk());
    }
}

/// A build is that of the open pull request whose newest commit it built. Deliveries name the account that pushed, and at
/// most the number of the pull request.
async fn add_build(planner: &Planner, event: &mut ToolchainEvent) {
    let Some(commit) = event.context.get("commit_sha").and_then(Value::as_str) else { return };
    let (forge, repo, commit) =
        (event.source.as_str(), event.subject.repo.clone(), commit.to_owned());
    let place = (repo.as_str(), commit.as_str());
    let since = event.happened_at - LONGEST_BUILD;
    let (pull, failed) = tokio::join!(
        planner.escalations.pull_of_commit(forge, place, since),
        planner.escalations.failed_checks(forge, place),
    );
    let is_named = |number: u64| event.subject.number.is_none_or(|named| named == number);
    if let Some(pull) = pull.filter(|pull| is_named(pull.number)) {
        event.set_pull(pull.number, &pull.branch, pull.author);
    }
    if let Some(failed) = failed.filter(|failed| !failed.is_empty()) {
        event.set_failed_checks(&failed);
    }
}

fn placed(event: &ToolchainEvent) -> Placed {
    Placed {
        action: event.action_type(),
        subject: event.subject.clone(),
        assignee: event.assignee.clone(),
        happened_at: event.happened_at,
    }
}

/// Who acts on an event.
enum Found {
    /// The one that the event asks for.
    Asked(Assigned),
    /// The coordinator, in its place.
    Coordinator(Assigned),
    /// No agent: the registry has no coordinator.
    None,
}

async fn find_agent(admission: &mut Admission, event: &ToolchainEvent) -> Result<Found, Fault> {
    let ToolchainEvent { source, assignee, from, .. } = event;
    if let Some(agent) = admission.agent_of(*source, assignee, from).await? {
        return Ok(Found::Asked(agent));
    }
    let coordinator = Assignee::Role(Role::Coordinator);
    Ok(match admission.agent_of(*source, &coordinator, "").await? {
        Some(agent) => Found::Coordinator(agent),
        None => Found::None,
    })
}

fn new_task(
    planner: &Planner,
    event: &ToolchainEvent,
    (origin_key, event_key): (String, String),
    found: Found,
) -> Result<NewTask, Fault> {
    let rules = &planner.rules;
    let run_id = Uuid::now_v7();
    let (agent, language) = match &found {
        Found::Asked(agent) | Found::Coordinator(agent) => (agent.agent_id.clone(), agent.language),
        Found::None => (String::new(), Language::En),
    };
    let mut payload = rules.payload(event, language).map_err(unusable)?;
    let is_notice = payload.steps.is_empty();
    if !is_notice {
        match found {
            Found::Asked(_) => {}
            Found::Coordinator(_) => coordinate(&mut payload, event, language),
            Found::None => {
                telemetry::count_task_alert("agent_unknown");
                tracing::error!(
                    %run_id, addressee = %event.assignee,
                    "planner: no agent answers for the event, and no agent is a coordinator; register one with \
                     `surety agents put`, and the task is given to it"
                );
            }
        }
    }
    let instructions = rules.instructions(run_id, &payload, language).map_err(unusable)?;
    let remind_after_s = rules.remind_after_s(&payload.action_type);
    Ok(NewTask {
        run_id,
        task_type: Toolchain.name(),
        namespace: Toolchain.namespace(),
        event_key,
        origin_key,
        payload,
        instructions,
        forge: event.source.to_string(),
        subject: event.subject.clone(),
        happened_at: event.happened_at,
        addressee: event.assignee.to_string(),
        assignee: agent,
        is_notice,
        chain_id: run_id,
        caused_by: None,
        depth: 1,
        business_failures: 0,
        created_at: planner.now(),
        remind_after_s,
    })
}

/// Makes the payload one for the coordinator: it finds who acts, and sees to it that the steps are carried out.
fn coordinate(payload: &mut TaskPayload, event: &ToolchainEvent, language: Language) {
    let (name, kind) = match &event.assignee {
        Assignee::Account(login) => (login.clone(), "unknown_account"),
        Assignee::Role(role) => (role.to_string(), "unknown_role"),
    };
    payload.context.insert(kind.to_owned(), name.clone().into());
    let first = match (language, &event.assignee) {
        (Language::En, Assignee::Account(_)) => {
            format!("Register the agent of the account {name}: surety agents put.")
        }
        (Language::En, Assignee::Role(_)) => {
            format!("Give an agent the role {name}: surety agents put.")
        }
        (Language::Zh, Assignee::Account(_)) => {
            format!("登记账号 {name} 对应的 agent：surety agents put。")
        }
        (Language::Zh, Assignee::Role(_)) => {
            format!("为一个 agent 指定角色 {name}：surety agents put。")
        }
    };
    let second = match language {
        Language::En => "Carry out the following steps, or have that agent carry them out.",
        Language::Zh => "执行以下步骤，或让该 agent 执行。",
    };
    payload.steps.splice(0..0, [first, second.to_owned()]);
}
