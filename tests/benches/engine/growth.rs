//! Whether stored runs make new work more expensive: the same work in an empty database and in one
//! full of finished and waiting runs. The two alternate, so that changes of the machine affect
//! both.

use crate::figures::{middle, middle_cpu, most_foreign, spread};
use crate::latency;
use crate::load;
use crate::meter::Usage;
use crate::past;
use crate::processes;
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::{self, Arrival, Sample, Signatures, Work};
use anyhow::{Context, Result};
use surety_e2e::harness::Database;

/// One of the two databases, and its measurements so far.
struct Side {
    name: &'static str,
    database: Database,
    samples: Vec<Sample>,
    alone: Vec<Alone>,
}

/// One measurement of single runs.
struct Alone {
    steps: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// MiB resident of planner, executor and gate afterwards.
    memory: [f64; 3],
    usage: Usage,
}

/// Measures throughput in both databases, then latency in both, and repeats.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let (steps, waiting) = (stand.options.finished_steps(), stand.options.waiting_runs());
    let mut empty = Side::of("empty", stand).await?;
    let mut full = Side::of("full", stand).await?;
    let bytes = past::fill(stand, &full.database, steps / load::STEPS, waiting).await?;
    report.add(Row::new(
        format!("a database of {steps} finished steps and {waiting} waiting runs, GiB"),
        format!("{:.1}", bytes / f64::from(1 << 30)),
    ));
    // Not counted: the first one finds tables without statistics, and cold files.
    for side in [&empty, &full] {
        side.alone(stand).await?;
    }
    for _ in 0..stand.options.repeat() {
        for side in [&mut empty, &mut full] {
            side.samples.push(side.sample(stand).await?);
        }
        for side in [&mut empty, &mut full] {
            side.alone.push(side.alone(stand).await?);
        }
    }
    compare(report, &empty, &full, waiting);
    if stand.options.profile {
        for side in [&empty, &full] {
            let deployed = Database::at(side.database.url())?;
            throughput::sample_on(stand, deployed, work(stand), Some(report)).await?;
        }
    }
    empty.database.drop().await?;
    full.database.drop().await
}

/// Runs that all wait first, for one executor.
fn work(stand: &Stand<'_>) -> Work {
    let runs = throughput::compared(stand.options);
    Work {
        arrival: Arrival::Waiting,
        executors: 1,
        runs,
        writes: false,
        signatures: Signatures::Absent,
    }
}

impl Side {
    async fn of(name: &'static str, stand: &Stand<'_>) -> Result<Self> {
        let database = stand.database().await?;
        Ok(Self { name, database, samples: Vec::new(), alone: Vec::new() })
    }

    /// A turn of throughput, by processes of its own.
    async fn sample(&self, stand: &Stand<'_>) -> Result<Sample> {
        past::rest(&self.database).await?;
        let database = Database::at(self.database.url())?;
        let sample = throughput::sample_on(stand, database, work(stand), None).await?;
        eprintln!(
            "  {}: {:.0} steps/s, foreign {:.2}",
            self.name, sample.steps_per_second, sample.usage.foreign_cores
        );
        Ok(sample)
    }

    /// A turn of runs that are alone, by processes of its own.
    async fn alone(&self, stand: &Stand<'_>) -> Result<Alone> {
        past::rest(&self.database).await?;
        let deployment = stand.deploy_on(Database::at(self.database.url())?, 1).await?;
        let (times, usage) = latency::lone_runs(stand, &deployment, &load::chain()).await?;
        let resident = |pid: nix::unistd::Pid| processes::resident_mib(pid.as_raw());
        let memory = [
            resident(deployment.planner.pid()?)?,
            resident(deployment.executors.first().context("no executor runs")?.pid()?)?,
            resident(deployment.gate.pid()?)?,
        ];
        let (p50_ms, p99_ms) = (times.percentile_ms(50), times.percentile_ms(99));
        eprintln!("  {}: {}, foreign {:.2}", self.name, times.shown(), usage.foreign_cores);
        let steps = throughput::whole(times.count() * load::STEPS);
        Ok(Alone { steps, p50_ms, p99_ms, memory, usage })
    }
}

fn compare(report: &mut Report, empty: &Side, full: &Side, waiting: usize) {
    compare_throughput(report, empty, full);
    compare_latency(report, empty, full);
    let names = ["planner", "executor", "acceptgate"];
    for (index, name) in names.into_iter().enumerate() {
        let memory = |side: &Side| spread(&side.alone, 1, |turn| turn.memory[index]);
        report.add(
            Row::new(format!("{name} with {waiting} waiting runs, MiB resident"), memory(full))
                .beside(format!("{} without", memory(empty))),
        );
    }
}

fn compare_throughput(report: &mut Report, empty: &Side, full: &Side) {
    let speed = |sample: &Sample| sample.steps_per_second;
    let share = 100.0 * middle(&full.samples, speed) / middle(&empty.samples, speed);
    // Both of a pair were measured within a minute, so their ratios vary less than their values.
    let pairs: Vec<f64> = full
        .samples
        .iter()
        .zip(&empty.samples)
        .map(|(full, empty)| 100.0 * speed(full) / speed(empty))
        .collect();
    let by_turn = spread(&pairs, 0, |&pair| pair);
    for side in [empty, full] {
        let foreign = most_foreign(&side.samples, |sample| &sample.usage);
        let what = format!("steps/s in the {} database, turn about", side.name);
        let beside = match side.name == full.name {
            true => format!("{share:.0} % of the empty one, by turns {by_turn} %; target 95 %"),
            false => String::new(),
        };
        report.add(Row::new(what, spread(&side.samples, 0, speed)).beside(beside).foreign(foreign));
        let cost = middle_cpu(&side.samples, |sample| (&sample.usage.spent, sample.steps));
        let what = format!("  CPU ms per step in the {} one", side.name);
        report.add(Row::new(what, cost).foreign(foreign));
    }
}

fn compare_latency(report: &mut Report, empty: &Side, full: &Side) {
    let p50 = |turn: &Alone| turn.p50_ms;
    let p99 = |turn: &Alone| turn.p99_ms;
    let share = 100.0 * middle(&empty.alone, p50) / middle(&full.alone, p50);
    for side in [empty, full] {
        let foreign = most_foreign(&side.alone, |turn| &turn.usage);
        let what = format!("one run of 10 steps in the {} one, turn about, ms", side.name);
        let shown =
            format!("p50 {}, p99 {}", spread(&side.alone, 1, p50), spread(&side.alone, 1, p99));
        let beside = match side.name == full.name {
            true => format!("p50 of the empty one is {share:.0} % of this; target 95 %"),
            false => String::new(),
        };
        report.add(Row::new(what, shown).beside(beside).foreign(foreign));
        let cost = middle_cpu(&side.alone, |turn| (&turn.usage.spent, turn.steps));
        let what = format!("  CPU ms per step in the {} one, alone", side.name);
        report.add(Row::new(what, cost).foreign(foreign));
    }
}
