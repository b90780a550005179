//! Whether runs that wait for people slow others down: the rate of runs beside 10,000 that wait for an approval, and without
//! them, alternating.
//!
//! ```text
//!   (10,000 runs wait for an approval) -> 1,000 runs are made and end | steps a second
//! ```

use crate::figures::{middle, middle_cpu, most_foreign, spread};
use crate::load;
use crate::meter::{self, Meter, Usage};
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Result, ensure};
use chrono::{DateTime, Utc};
use std::time::{Duration, Instant};
use surety_e2e::harness::Deployment;

/// Runs that wait for people.
const WAITING: usize = 10_000;
/// Runs that end meanwhile.
const OTHERS: usize = 1000;
/// How often the waiting runs are counted.
const LOOK: Duration = Duration::from_millis(100);
/// How long they may take to wait.
const PATIENCE: Duration = Duration::from_secs(600);

struct Sample {
    steps: f64,
    steps_per_second: f64,
    usage: Usage,
}

/// Both, one after the other, and again; and the ratio of each pair.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let waiting = stand.options.small_or(100, WAITING);
    let mut both = [(0, Vec::new()), (waiting, Vec::new())];
    for _ in 0..stand.options.repeat() {
        for (waiting, samples) in &mut both {
            let sample = sample(stand, *waiting).await?;
            eprintln!(
                "  {waiting} runs wait for people: {:.0} steps/s, foreign {:.2}",
                sample.steps_per_second, sample.usage.foreign_cores
            );
            samples.push(sample);
        }
    }
    let [(_, without), (_, beside)] = &both;
    let pairs = without.iter().zip(beside);
    let ratios: Vec<f64> =
        pairs.map(|(without, beside)| beside.steps_per_second / without.steps_per_second).collect();
    let runs = stand.options.small_or(50, OTHERS);
    for (waiting, samples) in &both {
        let foreign = most_foreign(samples, |sample| &sample.usage);
        let what =
            format!("{runs} runs x {} steps while {waiting} wait for people: steps/s", load::STEPS);
        let row = Row::new(what, spread(samples, 0, |sample| sample.steps_per_second));
        let row = match waiting {
            0 => row,
            _ => row.beside(format!(
                "x{:.2} of the rate without them; target 0.9",
                middle(&ratios, |it| *it)
            )),
        };
        report.add(row.foreign(foreign));
        let cost = middle_cpu(samples, |sample| (&sample.usage.spent, sample.steps));
        report.add(Row::new("  CPU ms per step", cost).foreign(foreign));
    }
    Ok(())
}

async fn sample(stand: &Stand<'_>, waiting: usize) -> Result<Sample> {
    meter::wait_for_quiet(stand).await?;
    let deployment = stand.deploy_with(1).await?;
    let rows = deployment.database.pool().await?;
    load::create(&deployment, &load::confirmed(), waiting, stand.options.in_flight).await?;
    until_waiting(&deployment, waiting).await?;

    let runs = stand.options.small_or(50, OTHERS);
    let meter = Meter::start(stand, &deployment).await?;
    let begun = Utc::now();
    load::create(&deployment, &load::chain(), runs, stand.options.in_flight).await?;
    load::wait_for_all(&rows, begun).await?;
    let usage = meter.read(&deployment).await?;
    let (_, last) = load::worked(&rows, begun).await?;
    rows.close().await;
    deployment.database.drop().await?;
    let steps = whole(runs * load::STEPS);
    Ok(Sample { steps, steps_per_second: steps / seconds(begun, last), usage })
}

fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap_or_default().as_secs_f64()
}

/// Until so many runs wait for an approval, and hold no lease.
async fn until_waiting(deployment: &Deployment, count: usize) -> Result<()> {
    let rows = deployment.database.pool().await?;
    let wanted = i64::try_from(count)?;
    let begun = Instant::now();
    loop {
        let blocked =
            "select count(*) from execution where state = 'BLOCKED' and lease_owner is null";
        let blocked: i64 = sqlx::query_scalar(blocked).fetch_one(&rows).await?;
        if blocked >= wanted {
            rows.close().await;
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{blocked} of {wanted} runs wait");
        tokio::time::sleep(LOOK).await;
    }
}
