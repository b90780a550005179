//! What processes cost that have nothing to do.

use crate::load;
use crate::meter::{self, Meter};
use crate::processes;
use crate::recovery;
use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::Result;
use std::time::Duration;
use surety_e2e::harness::{Database, Deployment, Process, Service};

/// A process that just started does more than one at rest, and servers count up to ten seconds late.
const SETTLED: Duration = Duration::from_secs(12);
/// Runs whose step runs.
const RUNNING: usize = 1000;
/// The duration of the observation.
const WATCHED: Duration = Duration::from_secs(20);

/// Queries a second at rest by process, by starting one after the other; memory at the end.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let database = stand.database().await?;
    let environment = stand.environment();
    let gate = Process::start(Service::Gate, &database, &environment).await?;
    let with_gate = rate(stand, &database).await?;
    let planner = Process::start(Service::Planner, &database, &environment).await?;
    let with_planner = rate(stand, &database).await?;
    let mut deployment = Deployment::of(database, planner, gate)?;
    deployment.add_executor(&environment).await?;
    let meter = Meter::start(stand, &deployment).await?;
    let with_executor = rate(stand, &deployment.database).await?;
    let usage = meter.read(&deployment).await?;

    let rates = [
        ("acceptgate", with_gate),
        ("planner", with_planner - with_gate),
        ("executor", with_executor - with_planner),
    ];
    let pids = [deployment.gate.pid()?, deployment.planner.pid()?, deployment.executors[0].pid()?];
    for ((name, rate), pid) in rates.into_iter().zip(pids) {
        let row =
            Row::new(format!("{name} at rest, queries/s"), format!("**{:.1}**", rate.max(0.0)))
                .beside("target under 2");
        report.add(row.foreign(usage.foreign_cores));
        let memory = processes::resident_mib(pid.as_raw())?;
        let row = Row::new(format!("{name} at rest, MiB resident"), format!("**{memory:.1}**"))
            .beside("target 30 MB");
        report.add(row);
    }
    deployment.database.drop().await
}

/// What each process takes more with so many runs whose steps run.
pub(crate) async fn measure_memory(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let runs = stand.options.small_or(50, RUNNING);
    let slots = runs.to_string();
    let mut environment = stand.environment();
    environment
        .extend([("SURETY_EXECUTOR_SLOTS", slots.as_str()), ("SURETY_DRAIN_TIMEOUT_MS", "0")]);
    let mut deployment = stand.deploy().await?;
    deployment.add_executor(&environment).await?;
    let executor = deployment.first_executor()?.pid()?.as_raw();
    let pids = [deployment.planner.pid()?.as_raw(), executor, deployment.gate.pid()?.as_raw()];
    let resident = || pids.into_iter().map(processes::resident_mib).collect::<Result<Vec<f64>>>();
    load::create(&deployment, &load::empty(), 20, 4).await?;
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(1), SETTLED)).await;
    let before = resident()?;
    let sleeping = load::sleep(recovery::SLEEP_S);
    load::create(&deployment, &sleeping, runs, stand.options.in_flight).await?;
    recovery::until(runs, || async { processes::commands(executor) }).await?;
    let _left_behind = recovery::Groups(processes::children(executor)?);
    let after = resident()?;
    for ((name, before), after) in
        ["planner", "executor", "acceptgate"].into_iter().zip(before).zip(after)
    {
        let thousands = f64::from(u32::try_from(runs)?) / 1000.0;
        let what = format!("{name}, MiB for every 1,000 runs whose command runs");
        let row = Row::new(what, format!("**{:.1}**", (after - before) / thousands))
            .beside(format!("{before:.1} with none, {after:.1} with {runs}"));
        report.add(row);
    }
    deployment.database.drop().await
}

async fn rate(stand: &Stand<'_>, database: &Database) -> Result<f64> {
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(2), SETTLED)).await;
    let watched = stand.options.small_or(Duration::from_secs(4), WATCHED);
    let before = meter::transactions(stand, database.name()).await?;
    tokio::time::sleep(watched).await;
    let after = meter::transactions(stand, database.name()).await?;
    Ok(f64::from(u32::try_from(after - before)?) / watched.as_secs_f64())
}
