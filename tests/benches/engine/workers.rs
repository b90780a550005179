//! What calls of tool workers cost: the time of one, and calls a second.
//!
//! ```text
//!   one run, one worker:    result -> stored, receipt, next step -> the next call | percentiles
//!   many runs, some workers:                                                      | calls a second
//! ```

use crate::figures::cpu;
use crate::load;
use crate::meter::{self, Meter};
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_e2e::agent::{PERSON, WORKER, secret, token_file};
use surety_e2e::harness::Deployment;
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The tool that the workers serve.
const TOOL: &str = "measured";
/// Runs after one another whose calls are timed.
const TIMED: usize = 40;
/// Runs side by side.
const RUNS: usize = 1000;
/// The workers that serve them, and the calls that each takes at a time.
const WORKERS: usize = 4;
const PARALLEL: u32 = 100;

/// Every figure of tool workers.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    meter::wait_for_quiet(stand).await?;
    let tokens = token_file()?;
    let path = tokens.path().to_str().context("a path")?;
    let mut environment = stand.environment();
    environment.push(("SURETY_TOKEN_FILE", path));
    let mut deployment = Deployment::start_idle(stand.database().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&environment).await?;
    let reads = v1::ToolAnnotations { read_only: Some(true), ..v1::ToolAnnotations::default() };
    let entry = v1::ToolWorkerPolicy { annotations: Some(reads), ..entry(TOOL, WORKER) };
    admit(&deployment, &[entry]).await?;
    one_by_one(stand, &deployment, report).await.context("calls one by one")?;
    together(stand, &deployment, report).await.context("calls together")?;
    deployment.database.drop().await
}

async fn one_by_one(stand: &Stand<'_>, deployment: &Deployment, report: &mut Report) -> Result<()> {
    let mut worker = connect(deployment, "alone").await?;
    let meter = Meter::start_amid_work(stand, deployment).await?;
    let mut took = Vec::new();
    for _ in 0..stand.options.small_or(2, TIMED) {
        load::create(deployment, &load::calling(TOOL), 1, 1).await?;
        let mut answered: Option<Instant> = None;
        for _ in 0..load::STEPS {
            let call = loop {
                if let Some(call) = called(&mut worker).await? {
                    break call;
                }
            };
            took.extend(answered.map(|at| at.elapsed()));
            answered = Some(Instant::now());
            worker.answer(result(&call, "")).await?;
        }
    }
    let foreign = meter.read(deployment).await?.foreign_cores;
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let figure = format!("**{:.2}** / {:.2} / {:.2}", ms(at(50)), ms(at(95)), ms(at(99)));
    let row = Row::new("a worker's call, result to the next call, p50 / p95 / p99 ms", figure);
    report.add(row.beside("target under 8 (p50)").foreign(foreign));
    Ok(())
}

async fn together(stand: &Stand<'_>, deployment: &Deployment, report: &mut Report) -> Result<()> {
    let runs = stand.options.small_or(20, RUNS);
    let (reports, mut stored) = mpsc::channel(1024);
    let mut working = JoinSet::new();
    for number in 0..WORKERS {
        let worker = connect(deployment, &format!("worker-{number}")).await?;
        working.spawn(serve(worker, reports.clone()));
    }
    drop(reports);
    let meter = Meter::start_amid_work(stand, deployment).await?;
    let begun = Instant::now();
    load::create(deployment, &load::calling(TOOL), runs, stand.options.in_flight).await?;
    let wanted = runs * load::STEPS;
    for _ in 0..wanted {
        if stored.recv().await.is_none() {
            let ended = working.join_next().await.context("a worker")?;
            bail!("the workers ended: {ended:?}");
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let usage = meter.read(deployment).await?;
    let calls = whole(wanted);
    let what = format!("calls/s of {WORKERS} workers, {runs} runs of {} calls", load::STEPS);
    report.add(
        Row::new(what, format!("**{:.0}**", calls / elapsed))
            .beside("target 1,000 on two cores")
            .foreign(usage.foreign_cores),
    );
    report
        .add(Row::new("  CPU ms per call", cpu(&usage.spent, calls)).foreign(usage.foreign_cores));
    Ok(())
}

async fn connect(deployment: &Deployment, worker_id: &str) -> Result<Worker> {
    let executor = deployment.executors.first().context("an executor")?;
    let announce = v1::Announce { max_parallel: PARALLEL, ..announce(worker_id, &[tool(TOOL)]) };
    Ok(Worker::connect(executor, WORKER, announce).await?)
}

/// Answers calls, and tells of each result that is stored.
async fn serve(mut worker: Worker, reports: mpsc::Sender<()>) -> Result<()> {
    loop {
        match called(&mut worker).await? {
            Some(call) => worker.answer(result(&call, "")).await?,
            None => reports.send(()).await?,
        }
    }
}

/// The next call; none for a result that was stored.
async fn called(worker: &mut Worker) -> Result<Option<v1::ToolInvocation>> {
    match worker.next().await? {
        Message::Invocation(call) => Ok(Some(call)),
        Message::Stored(_) => Ok(None),
        other @ (Message::Announced(_)
        | Message::Cancel(_)
        | Message::Refused(_)
        | Message::Draining(_)) => bail!("{other:?}"),
    }
}
