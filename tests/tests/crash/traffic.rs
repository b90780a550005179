//! Clients that go on whatever happens: each makes a run, waits for its end, looks at what it left,
//! and makes the next.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{self, Trail, noop, plan, scoped, shell, step, write};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a run may take with everything that is done to it.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(50);

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
        let run = self.end_of(&run_id, deadline).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        order.look()
    }

    /// Waits for a run's end, and answers what it asks.
    async fn end_of(&self, run_id: &str, deadline: Instant) -> Result<v1::Run> {
        loop {
            let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: 0 };
            match self.client()?.get_run(request).await {
                Ok(found) => {
                    let run = found.into_inner().run.context("no run")?;
                    if run.terminal.is_some() {
                        return Ok(run);
                    }
                    if let Some(blocked) = &run.blocked {
                        self.answer(blocked, deadline).await?;
                    }
                    ensure!(Instant::now() < deadline, "it did not end: {run:#?}");
                }
                Err(status) => passing(&status, deadline)?,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn answer(&self, blocked: &v1::Blocked, deadline: Instant) -> Result<()> {
        let request = v1::AnswerQuestionRequest {
            wait_id: blocked.wait_id.clone(),
            answer: "repeat".to_owned(),
        };
        match self.client()?.answer_question(request).await {
            // Answered by an earlier call, whose own answer was lost on the way.
            Err(status) if matches!(status.code(), tonic::Code::NotFound) => Ok(()),
            Err(status) => passing(&status, deadline),
            Ok(_) => Ok(()),
        }
    }

    fn client(&self) -> Result<RunServiceClient<ServiceChannel>> {
        Ok(RunServiceClient::new(channel(&self.url, None)?))
    }
}

/// A failure that a client has to expect while services come and go; anything else is a defect.
fn passing(status: &tonic::Status, deadline: Instant) -> Result<()> {
    use tonic::Code::{
        Aborted, Cancelled, DeadlineExceeded, FailedPrecondition, Unavailable, Unknown,
    };
    let expected = matches!(
        status.code(),
        Unavailable | Aborted | Cancelled | DeadlineExceeded | Unknown | FailedPrecondition
    );
    ensure!(expected, "{status:?}");
    ensure!(Instant::now() < deadline, "{status:?}");
    Ok(())
}

/// One run's order, and what must be there after it.
struct Order {
    request: v1::CreateRunRequest,
    trail: Arc<Trail>,
    workspace: TempDir,
    commands: usize,
    writes: bool,
}

impl Order {
    /// Shapes come in turn: a chain, a diamond of commands, files with checks, commands that must
    /// not be repeated unasked.
    fn nth(number: usize) -> Result<Self> {
        let trail = Arc::new(Trail::new()?);
        let workspace = tempfile::tempdir()?;
        let (plan, commands, repeatable) = match number % 4 {
            0 => (chain(&[noop(), noop(), noop(), noop()]), 0, true),
            1 => (diamond(&trail), 4, true),
            2 => (files(), 0, true),
            _ => {
                let marks: Vec<Value> = (0..3).map(|_| shell(&trail.mark("ran"))).collect();
                (chain(&marks), 3, false)
            }
        };
        let mut request = script::request(&plan, &workspace.path().to_string_lossy());
        if repeatable {
            request = script::repeatable(request);
        }
        Ok(Self { request, trail, workspace, commands, writes: number % 4 == 2 })
    }

    fn look(&self) -> Result<()> {
        let ran = self.trail.marks("ran");
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
