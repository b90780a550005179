//! The participants of a storm: agents, tool workers, and the client of a person. They are killed at random moments, while
//! runs that need all of them go on.
//!
//! ```text
//!   a run: the agent calls a worker's tool --> asks a person --> writes a file --> ends its step
//! ```

use super::traffic::{LOOK, PATIENCE, is, passing};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::agent::{AGENT, Agent, WORKER, call, next_plan, token_file};
use surety_e2e::harness::{Deployment, TOKEN, token};
use surety_e2e::script::{plan, request};
use surety_e2e::worker::{Worker, admit_in, announce, entry, result, tool};
use tempfile::NamedTempFile;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// The namespace of the runs that participants work on.
const NAMESPACE: &str = "crowd";
/// The tool of the workers. It may be repeated, so that a lost worker's call is.
const TOOL: &str = "translate";
/// How many of each participate, and how many clients make runs for them.
const AGENTS: usize = 3;
const WORKERS: usize = 2;
const SUBMITTERS: usize = 2;
/// What participants and services are started with: short leases, so that what a killed one held is soon offered again.
pub(super) const LEASES: [(&str, &str); 2] =
    [("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1000"), ("SURETY_EXECUTOR_WORKER_LEASE_MS", "1500")];

/// Participants that can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Agents,
    Workers,
    People,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Agents, Self::Workers, Self::People];
}

/// Where services listen. Executors come and go.
#[derive(Clone)]
struct Addresses {
    planner: String,
    executors: Arc<Mutex<Vec<String>>>,
}

impl Addresses {
    fn executor(&self, nth: usize) -> Option<String> {
        let executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.get(nth.checked_rem(executors.len())?).cloned()
    }

    fn runs(&self) -> Result<RunServiceClient<ServiceChannel>> {
        Ok(RunServiceClient::new(channel(&self.planner, Some(&token()?))?))
    }
}

/// The participants at work.
pub(super) struct Crowd {
    addresses: Addresses,
    agents: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    people: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    submitters: JoinSet<Result<usize>>,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for kind in Kind::ALL {
            self.abort(kind);
        }
    }
}

impl Crowd {
    /// A token file for the participants and for all others that a storm has.
    pub(super) fn tokens() -> Result<NamedTempFile> {
        use std::io::Write;
        let mut file = token_file()?;
        writeln!(file, "{TOKEN} e2e viewer,submitter,operator,approver *")?;
        Ok(file)
    }

    /// Lets the workers serve their tool, and starts everyone.
    pub(super) async fn start(deployment: &Deployment) -> Result<Self> {
        let idempotent = v1::ToolAnnotations { idempotent: Some(true), ..Default::default() };
        let tool = v1::ToolWorkerPolicy { annotations: Some(idempotent), ..entry(TOOL, WORKER) };
        admit_in(deployment, NAMESPACE, &[tool]).await?;
        let (planner, executors) = (deployment.planner.url(), Arc::default());
        let addresses = Addresses { planner, executors };
        let stop = CancellationToken::new();
        let mut submitters = JoinSet::new();
        for submitter in 0..SUBMITTERS {
            submitters.spawn(submit(addresses.clone(), submitter, stop.clone()));
        }
        let (agents, workers, people) = (Vec::new(), Vec::new(), Vec::new());
        let mut crowd = Self { addresses, agents, workers, people, stop, submitters };
        crowd.learn(deployment);
        for kind in Kind::ALL {
            crowd.replace(kind);
        }
        Ok(crowd)
    }

    /// Takes note of where executors listen now.
    pub(super) fn learn(&self, deployment: &Deployment) {
        let urls = deployment.executors.iter().map(|executor| executor.url()).collect();
        *self.addresses.executors.lock().unwrap_or_else(PoisonError::into_inner) = urls;
    }

    /// Kills participants in the middle of what they do, and starts others in their place.
    pub(super) fn replace(&mut self, kind: Kind) {
        self.abort(kind);
        let addresses = || self.addresses.clone();
        match kind {
            Kind::Agents => {
                self.agents =
                    (0..AGENTS).map(|nth| tokio::spawn(decide(addresses(), nth))).collect();
            }
            Kind::Workers => {
                self.workers =
                    (0..WORKERS).map(|nth| tokio::spawn(serve(addresses(), nth))).collect();
            }
            Kind::People => self.people = vec![tokio::spawn(answer(addresses()))],
        }
    }

    fn abort(&mut self, kind: Kind) {
        let killed = match kind {
            Kind::Agents => &mut self.agents,
            Kind::Workers => &mut self.workers,
            Kind::People => &mut self.people,
        };
        killed.drain(..).for_each(|participant| participant.abort());
    }

    /// Lets every run come to its end, and says how many there were.
    pub(super) async fn end(mut self) -> Result<usize> {
        self.stop.cancel();
        let mut runs = 0;
        while let Some(ended) = self.submitters.join_next().await {
            runs += ended??;
        }
        Ok(runs)
    }
}

/// Makes runs, one after the other, and checks the end of each.
async fn submit(addresses: Addresses, submitter: usize, stop: CancellationToken) -> Result<usize> {
    let mut runs = 0;
    while !stop.is_cancelled() {
        let named = format!("crowd-{submitter}-{runs}");
        one(&addresses, &named).await.with_context(|| named.clone())?;
        runs += 1;
    }
    Ok(runs)
}

async fn one(addresses: &Addresses, request_id: &str) -> Result<()> {
    let steps = [json!({"id": "s", "description": "translate, ask and write"})];
    let request = v1::CreateRunRequest {
        namespace: NAMESPACE.to_owned(),
        request_id: request_id.to_owned(),
        driver: v1::Driver::Remote.into(),
        ..request(&plan(&steps), "")
    };
    let deadline = Instant::now() + PATIENCE;
    let run_id = loop {
        match addresses.runs()?.create_run(request.clone()).await {
            Ok(made) => break made.into_inner().run.context("no run")?.id,
            Err(status) => passing(&status, deadline)?,
        }
        tokio::time::sleep(LOOK).await;
    };
    loop {
        let request = v1::GetRunRequest { run_id: run_id.clone(), view: 0 };
        match addresses.runs()?.get_run(request).await {
            Ok(found) => {
                let run = found.into_inner().run.context("no run")?;
                ensure!(Instant::now() < deadline, "it did not end: {run:#?}");
                if run.terminal.is_some() {
                    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
                    let calls = run.counters.unwrap_or_default().tool_calls;
                    ensure!(calls == 2, "each call has one outcome: {run:#?}");
                    return Ok(());
                }
            }
            Err(status) => passing(&status, deadline)?,
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What an agent replies in a turn.
fn reply(turn: u32) -> serde_json::Value {
    match turn {
        1 => call(TOOL, json!({"text": "a word"})),
        2 => json!({"action": "ask_user", "speak": "May I go on?"}),
        3 => call("write_file", json!({"path": "a.txt", "content": "written\n"})),
        _ => next_plan(),
    }
}

/// Leases steps and decides them, at any executor that answers.
async fn decide(addresses: Addresses, first: usize) {
    let driver_id = format!("agent-{first}");
    for nth in first.. {
        let url = addresses.executor(nth).unwrap_or_default();
        let Ok(agent) = Agent::at(&url, AGENT, &driver_id) else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let Ok(Some(mut work)) = agent.lease_in(NAMESPACE, 1).await else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        // After an error any agent leases the step again, and decides the same turn.
        loop {
            match agent.submit(&work, &reply(work.context.turn).to_string()).await {
                Ok(answer) if answer.outcome() == v1::TurnOutcome::Pending => {}
                Ok(v1::SubmitDecisionResponse { next: Some(context), .. }) => {
                    work.context = context
                }
                Ok(_) | Err(_) => break,
            }
        }
    }
}

/// Serves the tool, at any executor that answers.
async fn serve(addresses: Addresses, first: usize) {
    let worker_id = format!("worker-{first}");
    for nth in first.. {
        let url = addresses.executor(nth).unwrap_or_default();
        let announce = v1::Announce {
            namespaces: vec![NAMESPACE.to_owned()],
            ..announce(&worker_id, &[tool(TOOL)])
        };
        let Ok(mut worker) = Worker::connect_at(&url, WORKER, announce).await else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        while let Ok(message) = worker.next().await {
            let Message::Invocation(call) = message else { continue };
            // A call that is lost or refused is offered again.
            if worker.store(result(&call, "ein Wort")).await.is_err() {
                break;
            }
        }
    }
}

/// Answers what the runs ask, as the client of a person does.
async fn answer(addresses: Addresses) {
    loop {
        let listed = v1::ListWaitsRequest {
            namespace: NAMESPACE.to_owned(),
            waiting_on: vec![v1::WaitingOn::User.into()],
            ..v1::ListWaitsRequest::default()
        };
        let Ok(mut runs) = addresses.runs() else { return };
        let waits = runs.list_waits(listed).await.map(|it| it.into_inner().waits);
        for wait in waits.unwrap_or_default() {
            // Of an interrupted call the answer allows a repetition; of a question any text is one.
            let answer = "repeat".to_owned();
            let wait_id = wait.id.clone();
            let request = v1::AnswerQuestionRequest { wait_id, answer, ..Default::default() };
            match runs.answer_question(request).await {
                Err(status) if !is(&status, &["wait_not_found", "wait_closed", "run_terminal"]) => {
                    break;
                }
                Ok(_) | Err(_) => {}
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
