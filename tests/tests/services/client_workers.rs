//! Tool workers of the packages for other languages, over an executor that stops while their calls are open.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::tool_service_client::ToolServiceClient;
use surety_e2e::agent::{PERSON, WORKER, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE, Process, wait_until};
use surety_e2e::relay::Relay;
use surety_e2e::script::{plan, step};
use surety_e2e::skips;
use surety_e2e::worker::{admit, entry};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// What the script ends with where the language is not installed.
const ABSENT: i32 = 77;
/// The tool of the workers.
const TOOL: &str = "note";
/// Runs with one open call each.
const RUNS: usize = 3;
/// The first use of a package fetches and builds it.
const BUILD: Duration = Duration::from_secs(600);

#[tokio::test]
async fn calls_of_a_python_worker_outlive_their_executor_and_happen_once() -> Result<()> {
    outlives("python-program").await
}

#[tokio::test]
async fn calls_of_a_typescript_worker_outlive_their_executor_and_happen_once() -> Result<()> {
    outlives("typescript-program").await
}

async fn outlives(program: &str) -> Result<()> {
    let tokens = token_file()?;
    let known = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", known.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    admit(&deployment, &[entry(TOOL, WORKER)]).await?;
    let mut first = deployment.executors.remove(0);
    let relay = Relay::start(first.address()).await?;
    let folder = tempfile::tempdir()?;
    let mut worker = spawn(program, &relay, tokens.path(), folder.path())?;

    if !serves(&mut worker, &first).await? {
        skips::note(&format!("client {program}"), "the language is not installed")?;
        return deployment.finish().await;
    }
    let mut runs = Vec::new();
    for at in 0..RUNS {
        let call = serde_json::json!({"name": TOOL, "arguments": {"text": format!("call {at}")}});
        runs.push(deployment.create(&plan(&[step("s", &[], &[call])]), "").await?.id);
    }
    let began = folder.path().join("began");
    wait_until("the calls began", || lines(&began).len() == RUNS).await?;
    relay.lead_to(deployment.first_executor()?.address());
    ensure!(first.stop().await?.success(), "the executor failed: {:#?}", first.log());
    std::fs::write(folder.path().join("go"), "")?;
    for run_id in &runs {
        let run = deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    }
    let mut effects = lines(&began);
    effects.sort_unstable();
    let expected: Vec<_> = (0..RUNS).map(|at| format!("call {at}")).collect();
    ensure!(effects == expected, "each call has its effect once: {effects:#?}");
    let id = worker.id().context("the worker has ended")?;
    kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
    let status = timeout(PATIENCE, worker.wait()).await.context("the worker does not end")??;
    ensure!(status.success(), "the worker failed: {status}");
    deployment.finish().await
}

/// Waits until the worker serves its tool. False where its language is not installed.
async fn serves(worker: &mut Child, executor: &Process) -> Result<bool> {
    let channel = channel(&executor.url(), Some(&Token::new(&secret(PERSON))?))?;
    let mut tools = ToolServiceClient::new(channel);
    let request = || v1::ListToolsRequest { namespace: "default".to_owned(), ..Default::default() };
    let listed = async {
        loop {
            match worker.try_wait()? {
                Some(status) if status.code() == Some(ABSENT) => return Ok(false),
                Some(status) => bail!("the worker ended: {status}"),
                None => {}
            }
            let listed = tools.list_tools(request()).await?.into_inner().tools;
            if listed.iter().any(|tool| tool.name == TOOL) {
                return Ok(true);
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(BUILD, listed).await.context("the worker does not connect")?
}

/// Starts the worker. It is its own process, without the script that prepares its package.
fn spawn(program: &str, relay: &Relay, token: &Path, folder: &Path) -> Result<Child> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(root.join("scripts/clients.sh"));
    command
        .args([program, "open_worker"])
        .arg(folder)
        .env("SURETY_EXECUTOR_URL", relay.url())
        .env("SURETY_TOKEN_FILE", token)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    Ok(command.spawn()?)
}

fn lines(path: &Path) -> Vec<String> {
    // The file is there once a call began.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
