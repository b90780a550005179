//! The run of a task.

use super::{TaskType, Toolchain, find_task_type};
use crate::intake::{first_execution, first_moves, first_revision};
use crate::planner::Planner;
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, CheckKind, Match, Overlay, Owner};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Evidence, Plan, PlanStep};
use surety_common::domain::repository::{Repository, read_repository};
use surety_common::domain::run::{DriverKind, Policy, RunSpec, VerifyCommands};
use surety_common::domain::toolchain::{
    ANY_LONG_COMMENT, ANY_OUTPUT, Agent, AgentDriver, Compatibility, FORGE_TARGET, ProbeMode,
    workspace_revision,
};
use surety_common::store::{self, Created, JudgedColumns, NewRun, NewTask, StoredTask};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// The only step of a task.
const STEP: &str = "act";
/// The identity that makes the runs of tasks.
const SUBMITTER: &str = "planner";
/// The deadline of a task, and of its step, in seconds: 14 days.
const DEADLINE_S: u64 = 14 * 24 * 3600;
/// The most turns and calls of an agent that works on a task.
const MAX_TURNS: u32 = 1000;
const MAX_CALLS: u32 = 500;

/// A task whose run is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    run_id: Uuid,
    namespace: String,
    task_type: String,
    action_type: String,
    /// The forge and the repository that it is about; empty for none.
    place: (String, String),
    title: String,
    instructions: String,
    /// Whether no agent is woken: the gate accepts it at once.
    is_notice: bool,
    /// The agent that must act; empty while there is none.
    assignee: String,
    /// What of the repository its workspace is a clone of; none for a task that changes no code.
    revision: Option<String>,
    /// The columns that feed a verdict.
    judged: JudgedColumns,
}

impl From<&NewTask> for Start {
    fn from(task: &NewTask) -> Self {
        Self {
            run_id: task.run_id,
            namespace: task.namespace.clone(),
            task_type: task.task_type.clone(),
            action_type: task.payload.action_type.clone(),
            place: (task.forge.clone(), task.subject.repo.clone()),
            title: title(&task.payload.event_type, &task.subject.repo, task.subject.number),
            instructions: task.instructions.clone(),
            is_notice: task.is_notice,
            assignee: task.assignee.clone(),
            revision: workspace_revision(&task.payload, &task.subject),
            judged: task.judged(),
        }
    }
}

impl From<&StoredTask> for Start {
    fn from(task: &StoredTask) -> Self {
        Self {
            run_id: task.run_id,
            namespace: task.namespace.clone(),
            task_type: task.task_type.clone(),
            action_type: task.payload.action_type.clone(),
            place: (task.forge.clone(), task.subject.repo.clone()),
            title: title(&task.payload.event_type, &task.subject.repo, task.subject.number),
            instructions: task.instructions.clone(),
            is_notice: task.is_notice,
            assignee: task.assignee.clone(),
            revision: workspace_revision(&task.payload, &task.subject),
            judged: task.judged.clone(),
        }
    }
}

/// A short name for people.
fn title(event_type: &str, repo: &str, number: Option<u64>) -> String {
    match (repo, number) {
        ("", _) => event_type.to_owned(),
        (repo, None) => format!("{event_type} in {repo}"),
        (repo, Some(number)) => format!("{event_type} in {repo}#{number}"),
    }
}

/// Makes the run of a stored task, if a planner that ended left it unmade.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn ensure_started(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    match store::find_task(&planner.pool, run_id).await? {
        Some(task) if task.started_at.is_none() => {
            start_runs(planner, vec![Start::from(&task)]).await
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes the runs of tasks, each once, and starts their clocks.
///
/// # Errors
/// `database_unavailable`; the upkeep of any planner makes those that are missing.
pub(super) async fn start_runs(planner: &Planner, starts: Vec<Start>) -> Result<(), Fault> {
    if starts.is_empty() {
        return Ok(());
    }
    let run_ids: Vec<Uuid> = starts.iter().map(|start| start.run_id).collect();
    let agents = agents_of(planner, &starts).await?;
    let agent = |start: &Start| agents.iter().find(|agent| agent.id == start.assignee);
    try_join_all(starts.iter().map(|start| make_run(planner, start, agent(start)))).await?;
    Ok(store::start_tasks(&planner.pool, &run_ids, planner.now()).await?)
}

/// The registered assignees of tasks that may be driven by the model, or have a clone.
async fn agents_of(planner: &Planner, starts: &[Start]) -> Result<Vec<Agent>, Fault> {
    let acted_on = starts.iter().filter(|start| {
        start.task_type == Toolchain.name() && !start.is_notice && !start.assignee.is_empty()
    });
    let ids: BTreeSet<&str> = acted_on.map(|start| start.assignee.as_str()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<&str> = ids.into_iter().collect();
    Ok(store::find_agents(&planner.pool, &ids).await?)
}

/// The repository whose clone is the workspace: none for a task that changes no code, without an address for clones, and
/// for an assignee whose credential is nowhere, because its work could not be pushed.
fn repository(planner: &Planner, start: &Start, agent: Option<&Agent>) -> Option<Repository> {
    let revision = start.revision.as_deref()?;
    let (forge, repo) = &start.place;
    let source = planner.escalations.clone_source(forge, repo, &start.assignee)?;
    let of_registry = || agent.map(|agent| agent.credential.clone());
    let secret = match source.takes_credential {
        false => String::new(),
        true => source.secret.or_else(of_registry).filter(|secret| !secret.is_empty())?,
    };
    match read_repository("repository", (&source.url, revision, "")) {
        Ok(repository) => Some(Repository { secret, ..repository }),
        Err(problem) => {
            let run_id = start.run_id;
            tracing::warn!(%run_id, %problem, "planner: the task gets no clone: its branch cannot be named");
            None
        }
    }
}

const fn driver(start: &Start, agent: Option<&Agent>) -> DriverKind {
    match agent {
        _ if start.is_notice => DriverKind::Script,
        Some(Agent { driver: AgentDriver::Model, .. }) => DriverKind::Model,
        Some(_) | None => DriverKind::Remote,
    }
}

async fn make_run(planner: &Planner, start: &Start, agent: Option<&Agent>) -> Result<(), Fault> {
    let now = planner.now();
    let (span, trace_parent) = trace::start_run("planner", &start.run_id.to_string(), None);
    let (forge, repo) = &start.place;
    let probe = planner.escalations.probe_mode(forge, repo);
    let plan = normal(&plan(start, planner.rules.compatibility(), probe))?;
    let spec = RunSpec {
        id: start.run_id,
        namespace: start.namespace.clone(),
        request_id: String::new(),
        goal: start.title.clone(),
        driver: driver(start, agent),
        workspace: String::new(),
        repository: repository(planner, start, agent),
        limits: limits(),
        policy: Policy { verify_commands: VerifyCommands::ReceiptsOnly, ..Policy::default() },
        labels: BTreeMap::from([
            ("task_type".to_owned(), start.task_type.clone()),
            ("action_type".to_owned(), start.action_type.clone()),
        ]),
        forked_from: None,
        trace_parent: trace_parent.to_string(),
        created_at: now,
    };
    let stored = first_revision(&plan, now);
    let draft = Draft::new(first_execution(&spec, now), planner.actor(), now);
    let draft = first_moves(draft, Ok((&plan, &stored)), None).map_err(|refusal| {
        let message = format!("the first transition of a task was refused: {refusal}");
        Fault::new(FaultCode::Internal, message)
    })?;
    let new = Arc::new(NewRun {
        spec,
        submitter: SUBMITTER.to_owned(),
        request_digest: String::new(),
        plan: Some(stored),
        // No run is made of a task that was given to an agent since: that needs a run.
        task: Some(start.judged.signed(None)),
        artifacts: Vec::new(),
        write: draft.into_write(),
    });
    let made = planner.creator.create(Arc::clone(&new), trace::span_id(&span)).await?;
    if made == Created::New {
        surety_common::telemetry::observe(&new.write, &span);
    }
    Ok(())
}

/// The plan is the operator's: no participant can change its check, because the run takes no other plan.
fn plan(start: &Start, compatibility: Compatibility, probe: ProbeMode) -> Plan {
    let step = PlanStep {
        id: STEP.to_owned(),
        // A stored plan is read trimmed, and its digest is that of what is read.
        description: start.instructions.trim().to_owned(),
        done_when: "The action report is submitted.".to_owned(),
        evidence: Evidence::None,
        ..PlanStep::default()
    };
    let switches = [
        (ANY_OUTPUT, compatibility.any_output),
        (ANY_LONG_COMMENT, compatibility.any_long_comment),
    ];
    // The report of a message is that it was read, or its answer: no other text stands for it.
    let has_switches = start.task_type == Toolchain.name();
    let on = switches.into_iter().filter(|(_, is_on)| has_switches && *is_on);
    let kinds = find_task_type(&start.task_type).map_or(&[][..], |kind| kind.checks());
    let check = |kind: &CheckKind| AcceptCheck {
        id: String::new(),
        kind: kind.clone(),
        target: String::new(),
        r#match: Match::default(),
        required: true,
        params: on.clone().map(|(name, _)| (name.to_owned(), "true".to_owned())).collect(),
        owner: Owner::Operator,
        overlay: Overlay::default(),
    };
    // A notice asks for nothing that a forge could show.
    let asks_forge = probe != ProbeMode::Off && !start.is_notice;
    let of_forge = asks_forge.then(|| AcceptCheck {
        id: "forge_state".to_owned(),
        target: FORGE_TARGET.to_owned(),
        required: probe == ProbeMode::Required,
        params: BTreeMap::new(),
        ..check(&CheckKind::ActionReport)
    });
    let verify = kinds.iter().map(check).chain(of_forge).collect();
    Plan { title: start.title.clone(), steps: vec![step], verify, ..Plan::default() }
}

/// The plan as it is read from its row, whose digest is that of what is stored.
fn normal(plan: &Plan) -> Result<Plan, Fault> {
    Plan::from_json(&plan.to_json()).map_err(|problem| {
        Fault::new(
            FaultCode::Internal,
            format!("the plan of a task was refused: {}", problem.message),
        )
    })
}

/// A refused report ends the run: what follows is a task of its own, and no repair of this one.
fn limits() -> Limits {
    Limits {
        // A clone has one writer.
        max_parallel_steps: 1,
        max_replans: 0,
        max_repairs: 0,
        max_step_rounds: MAX_TURNS,
        max_run_rounds: MAX_TURNS,
        max_step_tool_calls: MAX_CALLS,
        step_deadline_s: DEADLINE_S,
        run_deadline_s: DEADLINE_S,
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    #[test]
    fn the_digest_of_a_tasks_plan_is_that_of_its_row() {
        let start = Start {
            run_id: Uuid::nil(),
            namespace: "_mail".to_owned(),
            task_type: "mail".to_owned(),
            action_type: "inform".to_owned(),
            place: Default::default(),
            title: " mail ".to_owned(),
            instructions: "Read it.\n".to_owned(),
            is_notice: false,
            assignee: String::new(),
            revision: None,
            judged: JudgedColumns {
                action_type: "inform".to_owned(),
                addressee: String::new(),
                assignee: String::new(),
                forge: String::new(),
                happened_at: DateTime::UNIX_EPOCH,
                payload: String::new(),
            },
        };
        let plan = normal(&plan(&start, Compatibility::default(), ProbeMode::Required)).unwrap();
        assert_eq!(normal(&plan).unwrap().digest(), plan.digest());
    }

    #[test]
    fn the_limits_of_a_task_are_in_their_ranges() {
        limits().validate().unwrap();
    }
}
