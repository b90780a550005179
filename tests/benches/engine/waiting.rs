//! Whether a step that waits costs no more than its slot: steps a second of runs whose every call
//! waits, with ever more slots, in one executor and in several.
//!
//! ```text
//!   all runs made -> executors start -> the first runs end | looked at | the rest ends
//! ```

use crate::figures::{middle, middle_cpu, most_foreign, spread};
use crate::load;
use crate::meter::{self, Meter, Usage};
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Result, ensure};
use chrono::Utc;
use sqlx::PgPool;
use std::time::{Duration, Instant};

/// How long each call waits.
const WAIT: Duration = Duration::from_millis(100);
/// Slots of all executors together. The last would do 5,120 steps a second.
const SLOTS: [usize; 4] = [64, 128, 256, 512];
const EXECUTORS: [usize; 2] = [1, 4];
/// Runs for each slot, one after the other: about ten seconds of work at best, of which the first
/// second and the rest at the end are not measured.
const WAVES: usize = 10;
/// The duration of the measurement.
const WATCHED: Duration = Duration::from_secs(5);
/// How often the end of the first runs is polled.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);

/// What was seen of one number of slots, in so many executors.
struct Series {
    executors: usize,
    slots: usize,
    samples: Vec<Sample>,
}

struct Sample {
    steps: f64,
    steps_per_second: f64,
    usage: Usage,
}

/// Every number of slots in every number of executors, one after the other, and again.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let slots = stand.options.small_or(&[16][..], &SLOTS);
    let mut all: Vec<Series> = EXECUTORS
        .into_iter()
        .flat_map(|executors| {
            slots.iter().map(move |&slots| Series { executors, slots, samples: Vec::new() })
        })
        .collect();
    for _ in 0..stand.options.repeat() {
        for series in &mut all {
            let sample = sample(stand, series.executors, series.slots).await?;
            eprintln!(
                "  {} executor(s), {} slots: {:.0} steps/s, foreign {:.2}",
                series.executors, series.slots, sample.steps_per_second, sample.usage.foreign_cores
            );
            series.samples.push(sample);
        }
    }
    for series in &all {
        add(report, series);
    }
    Ok(())
}

async fn sample(stand: &Stand<'_>, executors: usize, slots: usize) -> Result<Sample> {
    meter::wait_for_quiet(stand).await?;
    let mut deployment = stand.deploy().await?;
    let rows = deployment.database.pool().await?;
    let begun = Utc::now();
    let runs = slots * stand.options.small_or(3, WAVES);
    load::create(&deployment, &load::waiting(WAIT), runs, stand.options.in_flight).await?;
    let each = (slots / executors).to_string();
    let mut environment = stand.environment();
    environment.push(("SURETY_EXECUTOR_SLOTS", &each));
    for _ in 0..executors {
        deployment.add_executor(&environment).await?;
    }
    until_first_runs_end(&rows, slots).await?;

    let meter = Meter::start_amid_work(stand, &deployment).await?;
    let (before, from) = (steps_done(&rows).await?, Instant::now());
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(1), WATCHED)).await;
    let (after, elapsed) = (steps_done(&rows).await?, from.elapsed());
    let usage = meter.read(&deployment).await?;

    load::wait_for_all(&rows, begun).await?;
    rows.close().await;
    deployment.database.drop().await?;
    let steps = f64::from(u32::try_from(after - before)?);
    Ok(Sample { steps, steps_per_second: steps / elapsed.as_secs_f64(), usage })
}

/// By then as many steps are done as the slots hold runs of.
async fn until_first_runs_end(rows: &PgPool, slots: usize) -> Result<()> {
    let wanted = i64::try_from(slots * load::STEPS)?;
    let begun = Instant::now();
    while steps_done(rows).await? < wanted {
        ensure!(begun.elapsed() < PATIENCE, "fewer than {wanted} steps were done");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// As the rows say it, so that only what is stored counts.
async fn steps_done(rows: &PgPool) -> Result<i64> {
    Ok(sqlx::query_scalar(
        "select coalesce(sum(length(step_states) - length(replace(step_states, 'd', ''))), 0)::bigint
         from execution",
    )
    .fetch_one(rows)
    .await?)
}

fn add(report: &mut Report, series: &Series) {
    let Series { executors, slots, samples } = series;
    let ideal = whole(*slots) / WAIT.as_secs_f64();
    let speed = |sample: &Sample| sample.steps_per_second;
    let foreign = most_foreign(samples, |sample| &sample.usage);
    let what = format!("steps that wait 100 ms, {slots} slots in {executors} executor(s): steps/s");
    let row = Row::new(what, spread(samples, 0, speed))
        .beside(format!(
            "{:.0} % of {ideal:.0}, which the slots allow; target: in proportion up to 5,000",
            100.0 * middle(samples, speed) / ideal
        ))
        .foreign(foreign);
    report.add(row);
    let cost = middle_cpu(samples, |sample| (&sample.usage.spent, sample.steps));
    report.add(Row::new("  CPU ms per step", cost).foreign(foreign));
}
