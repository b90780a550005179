//! Clients that continue whatever happens. Each creates a run, pauses, cancels or replans some of
//! them, waits for the end, checks the effects of the run, and creates the next.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sqlx::PgPool;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use surety_e2e::harness::{self, Deployment, token};
use surety_e2e::script::{self, Trail, noop, plan, scoped, shell, step, write};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a run may take with everything that is done to it.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Checks of a run's start before it is changed.
const MEDDLING_LOOKS: usize = 40;

/// Clients at work.
pub(super) struct Traffic {
    stop: CancellationToken,
    clients: JoinSet<Result<usize>>,
}

impl Traffic {
    /// Starts clients of a deployment's planner.
    pub(super) fn start(deployment: &Deployment, clients: usize) -> Self {
        let stop = CancellationToken::new();
        let url = deployment.planner.url();
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let client = Client { url: url.clone(), name: format!("client-{client}") };
            tasks.spawn(client.run(stop.clone()));
        }
        Self { stop, clients: tasks }
    }

    /// Waits until `more` runs have ended than before. What ends a client is the error.
    pub(super) async fn goes_on(&mut self, pool: &PgPool, more: i64) -> Result<()> {
        let ended = async || -> Result<i64> {
            // Before the first service came there is no schema.
            let there = "select to_regclass('execution') is not null";
            if !sqlx::query_scalar(there).fetch_one(pool).await? {
                return Ok(0);
            }
            let count = "select count(*) from execution where terminal is not null";
            Ok(sqlx::query_scalar(count).fetch_one(pool).await?)
        };
        let before = ended().await?;
        let deadline = Instant::now() + harness::PATIENCE;
        while ended().await? < before + more {
            if let Some(client) = self.clients.try_join_next() {
                client??;
                anyhow::bail!("a client ended before it was told to");
            }
            if Instant::now() > deadline {
                let open = "select coalesce(string_agg(to_jsonb(execution)::text, E'\\n'), 'none') \
                            from execution where terminal is null";
                let open: String = sqlx::query_scalar(open).fetch_one(pool).await?;
                anyhow::bail!("no run ended any more; open runs:\n{open}");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Lets every client end its run, and says how many ended.
    pub(super) async fn end(mut self) -> Result<usize> {
        self.stop.cancel();
        let mut runs = 0;
        while let Some(ended) = self.clients.join_next().await {
            runs += ended??;
        }
        Ok(runs)
    }
}

struct Client {
    url: String,
    name: String,
}

impl Client {
    async fn run(self, stop: CancellationToken) -> Result<usize> {
        let mut runs = 0;
        while !stop.is_cancelled() {
            let order = Order::nth(runs)?;
            let named = format!("{}-{runs}", self.name);
            self.one(&named, &order).await.with_context(|| named.clone())?;
            runs += 1;
        }
        Ok(runs)
    }

    async fn one(&self, request_id: &str, order: &Order) -> Result<()> {
        let request =
            v1::CreateRunRequest { request_id: request_id.to_owned(), ..order.request.clone() };
        let deadline = Instant::now() + PATIENCE;
        let run_id = loop {
            match self.client()?.create_run(request.clone()).await {
                Ok(made) => break made.into_inner().run.context("no run")?.id,
                Err(status) => passing(&status, deadline)?,
            }
            tokio::time::sleep(LOOK).await;
        };
        let cancelled = self.meddle(&run_id, order, deadline).await?;
        let (run, repeats) = self.end_of(&run_id, deadline).await?;
        let expected = if cancelled { v1::RunState::Cancelled } else { v1::RunState::Done };
        ensure!(run.state() == expected, "{run:#?}");
        order.look(run.state(), repeats)
    }

    /// Does what the order says to a run that has begun. Answers whether it was cancelled.
    async fn meddle(&self, run_id: &str, order: &Order, deadline: Instant) -> Result<bool> {
        let (run_id, reason) = (run_id.to_owned(), "a client meddles".to_owned());
        // In its midst where that comes soon. It may wait for an answer before it has run anything.
        for _ in 0..MEDDLING_LOOKS {
            if order.meddling == Meddling::Nothing || order.trail.marks("ran") > 0 {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        loop {
            let (run_id, reason) = (run_id.clone(), reason.clone());
            let said = match order.meddling {
                Meddling::Nothing => return Ok(false),
                Meddling::Pause => {
                    let request = v1::PauseRunRequest { run_id, reason, ..Default::default() };
                    self.client()?.pause_run(request).await.map(|_| false)
                }
                Meddling::Cancel => {
                    let request = v1::CancelRunRequest { run_id, reason, ..Default::default() };
                    let said = self.client()?.cancel_run(request).await;
                    said.map(|it| it.into_inner().run.unwrap_or_default().state())
                        .map(|state| state == v1::RunState::Cancelled)
                }
                Meddling::Replan => {
                    let request = v1::RequestReplanRequest { run_id, reason, ..Default::default() };
                    self.plans()?.request_replan(request).await.map(|_| false)
                }
            };
            match said {
                Ok(cancelled) => return Ok(cancelled),
                // Its steps were over before, or it was.
                Err(status) if is(&status, &["run_terminal", "plan_not_wanted"]) => {
                    return Ok(false);
                }
                Err(status) => passing(&status, deadline)?,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits for a run's end, and gives what it waits for. Answers how many repetitions it allowed.
    async fn end_of(&self, run_id: &str, deadline: Instant) -> Result<(v1::Run, usize)> {
        let mut answered = HashSet::new();
        loop {
            let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: 0 };
            match self.client()?.get_run(request).await {
                Ok(found) => {
                    let run = found.into_inner().run.context("no run")?;
                    if run.terminal.is_some() {
                        return Ok((run, answered.len()));
                    }
                    if let Some(blocked) = &run.blocked {
                        if blocked.waiting_on() == v1::WaitingOn::User {
                            // The answer may have arrived or not.
                            answered.insert(blocked.wait_id.clone());
                        }
                        self.unblock(&run, blocked, deadline).await?;
                    }
                    ensure!(Instant::now() < deadline, "it did not end: {run:#?}");
                }
                Err(status) => passing(&status, deadline)?,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives a run what it waits for. What an earlier call gave, whose own answer was lost on the way,
    /// is not wanted any more.
    async fn unblock(&self, run: &v1::Run, blocked: &v1::Blocked, deadline: Instant) -> Result<()> {
        let said = match blocked.waiting_on() {
            v1::WaitingOn::User => {
                let (wait_id, answer) = (blocked.wait_id.clone(), "repeat".to_owned());
                let request = v1::AnswerQuestionRequest { wait_id, answer, ..Default::default() };
                self.client()?.answer_question(request).await.map(drop)
            }
            v1::WaitingOn::Operator => {
                let request = v1::ResumeRunRequest {
                    run_id: run.id.clone(),
                    reason: String::new(),
                    ..Default::default()
                };
                self.client()?.resume_run(request).await.map(drop)
            }
            v1::WaitingOn::Model => {
                let more = json!({"id": "more", "description": "one more", "evidence": "none",
                                  "script": [noop()]});
                let patch = json!({"reason": "there is more to do", "add_steps": [more]});
                let request = v1::SubmitPlanRequest {
                    run_id: run.id.clone(),
                    expected_revision: 1,
                    plan_source: Some(PlanSource::PatchText(patch.to_string())),
                    reason: String::new(),
                    ..Default::default()
                };
                self.plans()?.submit_plan(request).await.map(drop)
            }
            v1::WaitingOn::Unspecified
            | v1::WaitingOn::Approver
            | v1::WaitingOn::Worker
            | v1::WaitingOn::Timer
            | v1::WaitingOn::Workspace
            | v1::WaitingOn::Driver => {
                anyhow::bail!("the traffic has no answer for what the run waits for: {run:#?}")
            }
        };
        let given = ["wait_not_found", "wait_closed", "plan_not_wanted", "run_terminal"];
        match said {
            Err(status) if is(&status, &given) => Ok(()),
            Err(status) => passing(&status, deadline),
            Ok(()) => Ok(()),
        }
    }

    fn plans(&self) -> Result<PlannerServiceClient<ServiceChannel>> {
        Ok(PlannerServiceClient::new(channel(&self.url, Some(&token()?))?))
    }

    fn client(&self) -> Result<RunServiceClient<ServiceChannel>> {
        Ok(RunServiceClient::new(channel(&self.url, Some(&token()?))?))
    }
}

/// Whether the service refused for one of these reasons.
pub(super) fn is(status: &tonic::Status, reasons: &[&str]) -> bool {
    reasons.contains(&from_status(status).reason.as_str())
}

/// A failure that a client has to expect while services come and go: the service says that it cannot
/// now, or that a race was lost, or the way to it broke. Anything else is a defect.
pub(super) fn passing(status: &tonic::Status, deadline: Instant) -> Result<()> {
    use tonic::Code::{Aborted, Cancelled, Unavailable, Unknown};
    // Every status of ours says why.
    let from_service = !status.details().is_empty();
    let expected = match from_service {
        true => matches!(status.code(), Unavailable | Aborted),
        false => matches!(status.code(), Unavailable | Unknown | Cancelled),
    };
    ensure!(expected, "{status:?}");
    ensure!(Instant::now() < deadline, "{status:?}");
    Ok(())
}

/// What a client does to its own run besides waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meddling {
    Nothing,
    Pause,
    Cancel,
    Replan,
}

/// One run's order, and what must be there after it.
struct Order {
    request: v1::CreateRunRequest,
    trail: Arc<Trail>,
    workspace: TempDir,
    commands: usize,
    /// Whether its commands may be run again without asking.
    repeatable: bool,
    writes: bool,
    meddling: Meddling,
}

impl Order {
    /// The shapes alternate: a chain, a diamond of commands, files with checks, and commands that
    /// must not be repeated without asking. Of the last kind one run is paused, one is cancelled,
    /// and one is replanned.
    fn nth(number: usize) -> Result<Self> {
        let trail = Arc::new(Trail::new()?);
        let workspace = tempfile::tempdir()?;
        let marks = |commands| {
            let marks: Vec<Value> = (0..commands).map(|_| shell(&trail.mark("ran"))).collect();
            chain(&marks)
        };
        let shape = number % 7;
        let (plan, commands, repeatable) = match shape {
            0 => (chain(&[noop(), noop(), noop(), noop()]), 0, true),
            1 => (diamond(&trail), 4, true),
            2 => (files(), 0, true),
            3 => (marks(3), 3, false),
            _ => (marks(8), 8, shape == 6),
        };
        let meddling = match shape {
            4 => Meddling::Pause,
            5 => Meddling::Cancel,
            6 => Meddling::Replan,
            _ => Meddling::Nothing,
        };
        let mut request = script::request(&plan, &workspace.path().to_string_lossy());
        if repeatable {
            request = script::repeatable(request);
        }
        let writes = shape == 2;
        Ok(Self { request, trail, workspace, commands, repeatable, writes, meddling })
    }

    /// Every command ran, and none more often than it was allowed to.
    fn look(&self, end: v1::RunState, repeats: usize) -> Result<()> {
        let ran = self.trail.marks("ran");
        ensure!(self.repeatable || ran <= self.commands + repeats, "{ran} ran, {repeats} again");
        if end != v1::RunState::Done {
            return Ok(());
        }
        ensure!(ran >= self.commands, "{ran} of {} commands ran", self.commands);
        if self.writes {
            let found = std::fs::read_to_string(self.path().join("a.txt"))?;
            ensure!(found == "two\n", "the file holds {found:?}");
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        self.workspace.path()
    }
}

fn chain(calls: &[Value]) -> Value {
    let steps: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, call)| {
            let before = at.checked_sub(1).map(|before| format!("s{before}"));
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            step(&format!("s{at}"), &before, std::slice::from_ref(call))
        })
        .collect();
    plan(&steps)
}

fn diamond(trail: &Trail) -> Value {
    let call = || [shell(&trail.mark("ran"))];
    plan(&[
        step("first", &[], &call()),
        scoped(step("left", &["first"], &call()), &["left/**"]),
        scoped(step("right", &["first"], &call()), &["right/**"]),
        step("last", &["left", "right"], &call()),
    ])
}

fn files() -> Value {
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let edit = json!({"name": "edit_file", "arguments": edit});
    let steps = [
        step("write", &[], &[write("a.txt", "one\n"), edit]),
        step("more", &["write"], &[write("b.txt", "b\n")]),
    ];
    json!({"title": "Files", "steps": steps, "verify": [
        {"kind": "content_contains", "target": "a.txt", "params": {"contains": "two"}},
        {"kind": "file_exists", "target": "b.txt"},
        {"kind": "workspace_change"}
    ]})
}
