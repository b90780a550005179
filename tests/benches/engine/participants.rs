//! What agents outside the executor cost: open waits at rest, the latency of one turn, and turns a second.
//!
//! ```text
//!   100,000 runs wait for agents | 1,000 agents poll a namespace without runs | queries and memory
//!   one agent, one run:     submit -> the outcome of a turn without a call    | percentiles
//!   many agents, one run each:                                               | turns a second
//! ```

use crate::figures::cpu;
use crate::load;
use crate::meter::{self, Meter};
use crate::processes;
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, secret, token_file};
use surety_e2e::harness::Deployment;
use tokio::task::JoinSet;

/// Runs that wait for an agent.
const WAITING: usize = 100_000;
/// Agents that poll and are offered nothing.
const POLLING: usize = 1000;
/// Polls over one connection.
const STREAMS: usize = 50;
/// Turns of the run whose turns are timed.
const TIMED: usize = 900;
/// Agents at work side by side.
const AGENTS: usize = 64;
/// A process that just started does more than one at rest, and servers count up to ten seconds late.
const SETTLED: Duration = Duration::from_secs(12);
/// The duration of an observation.
const WATCHED: Duration = Duration::from_secs(20);
/// How long a poll waits, in seconds.
const POLL_S: i64 = 60;
/// No run has it.
const NOWHERE: &str = "nothing-here";
/// A turn that calls no tool, so that nothing but the turn is measured.
const REPLY: &str = r#"{"action":"continue","reason":"measuring"}"#;

/// Every figure of participants.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_str().context("a path")?;
    let mut environment = stand.environment();
    environment.push(("SURETY_TOKEN_FILE", path));
    let turns = turns(stand, &environment, report).await;
    turns.context("turns")?;
    at_rest(stand, &environment, report).await.context("waits at rest")
}

async fn deploy(stand: &Stand<'_>, environment: &[(&str, &str)]) -> Result<Deployment> {
    let mut deployment = Deployment::start_idle(stand.database().await?, environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(environment).await?;
    Ok(deployment)
}

/// One step that an agent decides, with as many turns as a step may have.
fn driven() -> v1::CreateRunRequest {
    let driver = v1::Driver::Remote.into();
    let limits = v1::Limits {
        max_step_rounds: Some(1000),
        max_run_rounds: Some(100_000),
        ..v1::Limits::default()
    };
    v1::CreateRunRequest { driver, limits: Some(limits), ..load::empty() }
}

async fn turns(stand: &Stand<'_>, environment: &[(&str, &str)], report: &mut Report) -> Result<()> {
    meter::wait_for_quiet(stand).await?;
    let deployment = deploy(stand, environment).await?;
    let url = deployment.executors.first().context("an executor")?.url();
    let agent = Agent::at(&url, AGENT, "agent-0")?;
    load::create(&deployment, &driven(), 1, 1).await?;
    let work = agent.lease("", 30).await?.context("no step was offered")?;
    let meter = Meter::start_amid_work(stand, &deployment).await?;
    let mut took = take_turns(&agent, work, stand.options.small_or(20, TIMED)).await?;
    let foreign = meter.read(&deployment).await?.foreign_cores;
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let figure = format!("**{:.2}** / {:.2} / {:.2}", ms(at(50)), ms(at(95)), ms(at(99)));
    let row = Row::new("an agent's turn, submit to outcome, p50 / p95 / p99 ms", figure);
    report.add(row.beside("target under 8 (p50)").foreign(foreign));

    let agents = stand.options.small_or(8, AGENTS);
    load::create(&deployment, &driven(), agents, stand.options.in_flight).await?;
    let mut leased = Vec::new();
    for number in 0..agents {
        let agent = Agent::at(&url, AGENT, &format!("agent-{}", number + 1))?;
        let work = agent.lease("", 30).await?.context("no step was offered")?;
        leased.push((agent, work));
    }
    let each = stand.options.small_or(10, TIMED);
    let meter = Meter::start_amid_work(stand, &deployment).await?;
    let begun = Instant::now();
    let mut working = JoinSet::new();
    for (agent, work) in leased {
        working.spawn(async move { take_turns(&agent, work, each).await });
    }
    let mut taken = 0;
    while let Some(took) = working.join_next().await {
        taken += took??.len();
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let usage = meter.read(&deployment).await?;
    let turns = whole(taken);
    let row =
        Row::new(format!("turns/s of {agents} agents"), format!("**{:.0}**", turns / elapsed))
            .beside("target 2,000 on two cores")
            .foreign(usage.foreign_cores);
    report.add(row);
    report
        .add(Row::new("  CPU ms per turn", cpu(&usage.spent, turns)).foreign(usage.foreign_cores));
    deployment.database.drop().await
}

/// Takes turns of one step, one after the other. Returns how long each took.
async fn take_turns(agent: &Agent, mut work: Work, turns: usize) -> Result<Vec<Duration>> {
    let mut took = Vec::with_capacity(turns);
    for _ in 0..turns {
        let begun = Instant::now();
        let answer = agent.submit(&work, REPLY).await?;
        took.push(begun.elapsed());
        ensure!(answer.outcome() == v1::TurnOutcome::Applied, "{answer:?}");
        work.context = answer.next.context("the lease goes on")?;
    }
    Ok(took)
}

async fn at_rest(
    stand: &Stand<'_>,
    environment: &[(&str, &str)],
    report: &mut Report,
) -> Result<()> {
    let deployment = deploy(stand, environment).await?;
    let url = deployment.executors.first().context("an executor")?.url();
    let pids = [
        ("planner", deployment.planner.pid()?.as_raw()),
        ("executor", deployment.executors.first().context("an executor")?.pid()?.as_raw()),
        ("acceptgate", deployment.gate.pid()?.as_raw()),
    ];
    let waiting = stand.options.small_or(500, WAITING);
    // The first runs fill the caches that every process has.
    let warm = waiting / 10;
    load::create(&deployment, &driven(), warm, stand.options.in_flight).await?;
    until_waiting(&deployment, warm).await?;
    let resident = |pid: i32| processes::resident_mib(pid);
    let before = pids.map(|(_, pid)| resident(pid));
    load::create(&deployment, &driven(), waiting - warm, stand.options.in_flight).await?;
    until_waiting(&deployment, waiting).await?;
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(1), SETTLED)).await;
    for ((name, pid), before) in pids.into_iter().zip(before) {
        let (before, after) = (before?, resident(pid)?);
        let what = format!("{name}, MiB resident with {waiting} waits");
        report.add(
            Row::new(what, format!("**{after:.1}**")).beside(format!("{before:.1} with {warm}")),
        );
    }

    let polling = stand.options.small_or(50, POLLING);
    let polls = poll(&url, polling)?;
    let meter = Meter::start_amid_work(stand, &deployment).await?;
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(2), SETTLED)).await;
    let watched = stand.options.small_or(Duration::from_secs(4), WATCHED);
    let first = meter::transactions(stand, deployment.database.name()).await?;
    tokio::time::sleep(watched).await;
    let last = meter::transactions(stand, deployment.database.name()).await?;
    let usage = meter.read(&deployment).await?;
    ensure!(polls.len() == polling, "a poll ended");
    let rate = f64::from(u32::try_from(last - first)?) / watched.as_secs_f64();
    let what = format!("{waiting} waits, {polling} agents that poll: queries/s of all processes");
    report.add(
        Row::new(what, format!("**{rate:.1}**"))
            .beside("target under 10")
            .foreign(usage.foreign_cores),
    );
    drop(polls);
    deployment.database.drop().await
}

/// Agents that ask for work where there is none, again and again.
fn poll(url: &str, count: usize) -> Result<JoinSet<()>> {
    let mut polls = JoinSet::new();
    let mut client = None;
    for number in 0..count {
        if number % STREAMS == 0 {
            let channel = channel(url, Some(&Token::new(&secret(AGENT))?))?;
            client = Some(ExecutorServiceClient::new(channel));
        }
        let mut client = client.clone().context("a client")?;
        polls.spawn(async move {
            loop {
                let request = v1::LeaseStepRequest {
                    driver_id: format!("poll-{number}"),
                    namespace: NOWHERE.to_owned(),
                    wait: Some(prost_types::Duration { seconds: POLL_S, nanos: 0 }),
                    ..v1::LeaseStepRequest::default()
                };
                if let Err(status) = client.lease_step(request).await {
                    eprintln!("  a poll failed: {}", status.message());
                    return;
                }
            }
        });
    }
    Ok(polls)
}

/// Until so many runs wait for an agent.
async fn until_waiting(deployment: &Deployment, count: usize) -> Result<()> {
    let rows = deployment.database.pool().await?;
    let wanted = i64::try_from(count)?;
    let begun = Instant::now();
    loop {
        let open: i64 = sqlx::query_scalar("select count(*) from wait where kind = 'decision'")
            .fetch_one(&rows)
            .await?;
        if open >= wanted {
            rows.close().await;
            return Ok(());
        }
        ensure!(begun.elapsed() < Duration::from_secs(600), "{open} of {wanted} runs wait");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
