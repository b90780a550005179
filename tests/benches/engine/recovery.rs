//! From the death of an executor until all its runs continue.

use crate::load;
use crate::meter::Meter;
use crate::processes;
use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_e2e::harness::Deployment;

/// Steps that run when their executor dies.
const RUNS: usize = 1000;
/// Longer than the benchmark takes, in seconds.
pub(crate) const SLEEP_S: u32 = 600;
/// How often the progress of the recovery is polled.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// Kills the executor that holds all runs while another one is idle.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let runs = stand.options.small_or(50, RUNS);
    let slots = runs.to_string();
    let mut environment = stand.environment();
    environment.extend([
        ("SURETY_EXECUTOR_SLOTS", slots.as_str()),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "500"),
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_DRAIN_TIMEOUT_MS", "0"),
    ]);
    let mut deployment = stand.deploy().await?;
    deployment.add_executor(&environment).await?;
    let rows = deployment.database.pool().await?;
    load::create(&deployment, &load::sleep(SLEEP_S), runs, stand.options.in_flight).await?;
    let first = deployment.executors[0].pid()?.as_raw();
    until(runs, || async { processes::commands(first) }).await?;
    deployment.add_executor(&environment).await?;
    let second = deployment.executors[1].pid()?.as_raw();

    // A killed executor cannot end them, and they would outlive the benchmark.
    let _left_behind = Groups(processes::children(first)?);
    let meter = Meter::start(stand, &deployment).await?;
    let begun = Instant::now();
    deployment.executors[0].kill().await?;
    until(runs, || taken_over(&rows)).await?;
    let taken_over = begun.elapsed();
    until(runs, || async { processes::commands(second) }).await?;
    let called_again = begun.elapsed();
    deployment.executors.remove(0);
    let usage = meter.read(&deployment).await;

    let what = format!("recovery of {runs} running steps, heartbeat limit 2 s: taken over, s");
    let row = Row::new(what, format!("**{:.2}**", taken_over.as_secs_f64())).beside("target 3");
    let foreign = usage.map(|usage| usage.foreign_cores).ok();
    report.add(Row { foreign, ..row });
    let row =
        Row::new("  their commands run again, s", format!("**{:.2}**", called_again.as_secs_f64()));
    report.add(Row { foreign, ..row });
    rows.close().await;
    end(&mut deployment).await?;
    deployment.database.drop().await
}

/// Runs with their second lease and a running step.
async fn taken_over(rows: &PgPool) -> Result<usize> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from execution where lease_epoch > 1 and step_states = 'u'",
    )
    .fetch_one(rows)
    .await?;
    Ok(usize::try_from(count)?)
}

pub(crate) async fn until<F: Future<Output = Result<usize>>>(
    wanted: usize,
    count: impl Fn() -> F,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let found = count().await?;
        if found >= wanted {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{found} of {wanted} came so far");
        tokio::time::sleep(LOOK).await;
    }
}

async fn end(deployment: &mut Deployment) -> Result<()> {
    let executor = deployment.executors.first_mut().context("no executor is left")?;
    let _left_behind = Groups(processes::children(executor.pid()?.as_raw())?);
    executor.stop().await?;
    Ok(())
}

/// Process groups that are killed with the value's end.
pub(crate) struct Groups(pub(crate) Vec<i32>);

impl Drop for Groups {
    fn drop(&mut self) {
        for &group in &self.0 {
            if let Err(error) = killpg(Pid::from_raw(group), Signal::SIGKILL)
                && error != Errno::ESRCH
            {
                eprintln!("process group {group} was left behind: {error}");
            }
        }
    }
}
