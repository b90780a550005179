//! The duration of a single run on an idle system, and the delay before it starts.

use crate::load::{self, Followed};
use crate::meter::{Meter, Usage};
use crate::peers;
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput;
use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use std::time::Duration;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::transition::Subject;
use surety_e2e::harness::Deployment;

/// Unmeasured runs before the measurement.
const WARM_UP: usize = 20;
/// Runs that are measured beside other work.
const ROUNDS: usize = 200;
/// Single runs that are measured: one commit in some thousand waits long for the disk, and the
/// percentiles of fewer runs would depend on it.
const LONE_ROUNDS: usize = 1000;
/// Pauses before a wake-up is measured: long enough for every process to be idle, and no multiples
/// of a poll interval.
const PAUSES_MS: [u64; 5] = [53, 117, 191, 83, 149];

/// A run of ten steps alone, and one of none.
pub(crate) async fn measure_lone_runs(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let deployment = stand.deploy_with(1).await?;
    for (name, order) in [("one run of 10 steps", load::chain()), ("an empty run", load::empty())] {
        let mut client = deployment.runs()?;
        for _ in 0..stand.options.small_or(2, WARM_UP) {
            load::follow(&mut client, order.clone()).await?;
        }
        let rounds = stand.options.small_or(20, LONE_ROUNDS);
        let meter = Meter::start(stand, &deployment).await?;
        let (mut seen, mut journalled) = (Times::default(), Times::default());
        for _ in 0..rounds {
            let followed = load::follow(&mut client, order.clone()).await?;
            seen.add(followed.seen_after);
            journalled.add(between(created_at(&followed)?, ended_at(&followed)?));
        }
        let usage = meter.read(&deployment).await?;
        let ten = order == load::chain();
        let prefix = if ten { "" } else { "empty_" };
        report.compare(&format!("{prefix}p50_ms"), seen.percentile_ms(50));
        report.compare(&format!("{prefix}p99_ms"), seen.percentile_ms(99));
        let row = Row::new(format!("{name}, until its watcher sees the end, ms"), seen.shown())
            .beside(if ten { beside_ten(&seen) } else { beside_empty(&seen) })
            .foreign(usage.foreign_cores);
        report.add(row);
        let row = Row::new("  of that, made until ended by the journal, ms", journalled.shown())
            .foreign(usage.foreign_cores);
        report.add(row);
        let steps = throughput::whole(if ten { rounds * load::STEPS } else { rounds });
        let row = Row::new(
            "  writing commits per step, wake-ups included",
            throughput::commits(&usage, steps),
        );
        report.add(if ten { row.beside("target 1.1 alone") } else { row });
    }
    deployment.database.drop().await
}

/// The duration of single runs as their watcher sees it, and the cost of all of them.
pub(crate) async fn lone_runs(
    stand: &Stand<'_>,
    deployment: &Deployment,
    order: &v1::CreateRunRequest,
) -> Result<(Times, Usage)> {
    let mut client = deployment.runs()?;
    for _ in 0..stand.options.small_or(2, WARM_UP) {
        load::follow(&mut client, order.clone()).await?;
    }
    let meter = Meter::start(stand, deployment).await?;
    let mut seen = Times::default();
    for _ in 0..stand.options.small_or(20, ROUNDS) {
        seen.add(load::follow(&mut client, order.clone()).await?.seen_after);
    }
    Ok((seen, meter.read(deployment).await?))
}

/// From a plan's arrival until its first step runs.
pub(crate) async fn measure_wake_up(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let deployment = stand.deploy_with(1).await?;
    let mut client = deployment.runs()?;
    load::follow(&mut client, load::empty()).await?;
    let meter = Meter::start(stand, &deployment).await?;
    let (mut answered, mut made) = (Times::default(), Times::default());
    for pause in PAUSES_MS.into_iter().cycle().take(stand.options.small_or(20, ROUNDS)) {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let followed = load::follow(&mut client, load::empty()).await?;
        let running_at = running_at(&followed)?;
        answered.add(between(followed.answered_at, running_at));
        made.add(between(created_at(&followed)?, running_at));
    }
    let usage = meter.read(&deployment).await?;
    let row = Row::new("wake-up: a run made until its first step runs, ms", made.shown())
        .beside("target p50 5, p99 30")
        .foreign(usage.foreign_cores);
    report.add(row);
    let row = Row::new("  CreateRun answered until the first step runs, ms", answered.shown())
        .foreign(usage.foreign_cores);
    report.add(row);
    deployment.database.drop().await
}

/// Measured times.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that so many in a hundred do not exceed, milliseconds.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort();
        let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }

    pub(crate) fn shown(&self) -> String {
        format!("p50 **{:.1}**, p99 **{:.1}**", self.percentile_ms(50), self.percentile_ms(99))
    }
}

fn beside_ten(seen: &Times) -> String {
    format!(
        "target p50 6, p99 12; p50: {}; p99: {}",
        peers::ratios(seen.percentile_ms(50), |peer| peer.run_p50_ms),
        peers::ratios(seen.percentile_ms(99), |peer| peer.run_p99_ms)
    )
}

fn beside_empty(seen: &Times) -> String {
    let p50 = seen.percentile_ms(50);
    format!(
        "target p50 2; p50: DBOS x{}, Restate x{}",
        peers::short(p50 / peers::DBOS_EMPTY_P50_MS),
        peers::short(p50 / peers::RESTATE_EMPTY_P50_MS)
    )
}

/// Zero when the order is reversed: the step can run before the caller has its answer.
fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    (to - from).to_std().unwrap_or_default()
}

fn created_at(followed: &Followed) -> Result<DateTime<Utc>> {
    load::instant(followed.run.created_at.as_ref())
}

fn ended_at(followed: &Followed) -> Result<DateTime<Utc>> {
    load::instant(followed.events.last().and_then(|event| event.at.as_ref()))
}

fn running_at(followed: &Followed) -> Result<DateTime<Utc>> {
    let running = |event: &&v1::Event| match &event.kind {
        Some(Kind::Transition(transition)) => {
            matches!(transition.subject, Some(Subject::StepId(_)))
                && transition.step_to() == v1::StepState::Running
        }
        Some(_) | None => false,
    };
    let event = followed.events.iter().find(running).context("no step was started")?;
    load::instant(event.at.as_ref())
}
