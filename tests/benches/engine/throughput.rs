//! Steps a second, and what each cost.

use crate::figures::{cpu, middle, middle_cpu, most_foreign, spread};
use crate::latency;
use crate::load;
use crate::meter::{self, Meter, Usage};
use crate::peers::{self, POSTGRES_ALONE_UNBATCHED};
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::{options::Options, profile};
use anyhow::Result;
use chrono::{DateTime, Utc};
use std::time::Duration;
use surety_e2e::harness::{Database, Deployment};

/// Unmeasured runs before the measurement.
const WARM_UP: usize = 50;
/// Runs at least where one measurement is laid beside another: some seconds of work, beside which
/// the start of a process is small.
const COMPARED: usize = 6_000;
/// The longest time until the server counts the last statements of an idle process.
const COUNTED_WITHIN: Duration = Duration::from_secs(11);

/// How the work comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Executors are there, and runs are made as fast as the API takes them.
    Made,
    /// All runs are there before the first executor starts.
    Waiting,
}

/// What is measured once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) arrival: Arrival,
    pub(crate) executors: usize,
    pub(crate) runs: usize,
    /// Whether each step writes a file, instead of doing nothing.
    pub(crate) writes: bool,
    /// What the services do with signatures.
    pub(crate) signatures: Signatures,
}

/// What the services do with signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signatures {
    /// They have no keys.
    Absent,
    /// They sign what they store, and check nothing.
    Made,
    /// They sign, and the gate checks the rows of each run before its verdict, as in `surety up`.
    Checked,
    /// The same, and each has a role of the database, as in Compose.
    WithRoles,
}

impl Signatures {
    const ALL: [Self; 4] = [Self::Absent, Self::Made, Self::Checked, Self::WithRoles];

    const fn shown(self) -> &'static str {
        match self {
            Self::Absent => "without signatures",
            Self::Made => "signed",
            Self::Checked => "signed and checked",
            Self::WithRoles => "signed and checked, with three roles",
        }
    }
}

/// One measurement.
pub(crate) struct Sample {
    pub(crate) steps: f64,
    pub(crate) steps_per_second: f64,
    /// Runs that the API took a second.
    made_per_second: f64,
    pub(crate) usage: Usage,
    transactions: Option<i64>,
}

/// Both arrivals of each number of runs, with one executor.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    for &runs in stand.options.runs() {
        for arrival in [Arrival::Made, Arrival::Waiting] {
            let work =
                Work { arrival, executors: 1, runs, writes: false, signatures: Signatures::Absent };
            let samples = repeated(stand, report, work).await?;
            add(report, work, &samples);
            if arrival == Arrival::Made {
                compare(report, &samples);
            }
        }
    }
    Ok(())
}

/// Steps that change something, with one executor.
pub(crate) async fn measure_effects(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let runs = stand.options.runs().first().copied().unwrap_or(1);
    let work = Work {
        arrival: Arrival::Made,
        executors: 1,
        runs,
        writes: true,
        signatures: Signatures::Absent,
    };
    let samples = repeated(stand, report, work).await?;
    add(report, work, &samples);
    let deployment = stand.deploy_with(1).await?;
    let (times, usage) = latency::lone_runs(stand, &deployment, &load::writing()).await?;
    let row = Row::new("  one run of 10 such steps alone, ms", times.shown());
    report.add(row.foreign(usage.foreign_cores));
    deployment.database.drop().await
}

/// The same work with more executors, turn about.
pub(crate) async fn measure_executors(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let runs = compared(stand.options);
    let mut all = [1, 2, 4].map(|executors| (executors, Vec::new()));
    for _ in 0..stand.options.repeat() {
        for (executors, samples) in &mut all {
            let work = Work {
                arrival: Arrival::Waiting,
                executors: *executors,
                runs,
                writes: false,
                signatures: Signatures::Absent,
            };
            samples.push(sample(stand, work, None).await?);
        }
    }
    let alone = middle(&all[0].1, |sample| sample.steps_per_second);
    for (executors, samples) in &all {
        let foreign = most_foreign(samples, |sample| &sample.usage);
        let speed = middle(samples, |sample| sample.steps_per_second);
        let what = format!("{executors} executor(s), {runs} runs waiting, steps/s");
        let row = Row::new(what, spread(samples, 0, |sample| sample.steps_per_second))
            .beside(format!("x{} of one executor; target 0.9", peers::short(speed / alone)))
            .foreign(foreign);
        report.add(row);
        let commits = |sample: &Sample| sample.usage.writing_commits.map_or(f64::NAN, signed);
        let commits = middle(samples, |sample| commits(sample) / sample.steps);
        report.add(Row::new("  writing commits per step", format!("{commits:.3}")));
        let cost = middle_cpu(samples, |sample| (&sample.usage.spent, sample.steps));
        report.add(Row::new("  CPU ms per step", cost).foreign(foreign));
        let deployment = stand.deploy_with(*executors).await?;
        let (times, usage) = latency::lone_runs(stand, &deployment, &load::chain()).await?;
        let row = Row::new("  one run of 10 steps alone, ms", times.shown());
        report.add(row.foreign(usage.foreign_cores));
        deployment.database.drop().await?;
    }
    Ok(())
}

/// The same work without signatures, with them, with a gate that checks them, and with roles of the database, turn about,
/// and the ratios of each round: of steps that do nothing, and of steps that write a file.
pub(crate) async fn measure_signing(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    compare_signing(stand, report, (compared(stand.options), false)).await?;
    let runs = stand.options.runs().first().copied().unwrap_or(1);
    compare_signing(stand, report, (runs, true)).await
}

async fn compare_signing(
    stand: &Stand<'_>,
    report: &mut Report,
    (runs, writes): (usize, bool),
) -> Result<()> {
    let mut all = Signatures::ALL.map(|signatures| (signatures, Vec::new()));
    for _ in 0..stand.options.repeat() {
        for (signatures, samples) in &mut all {
            let signatures = *signatures;
            let work = Work { arrival: Arrival::Made, executors: 1, runs, writes, signatures };
            samples.push(sample(stand, work, None).await?);
        }
        // Another case comes first in the next round: the place in a round counts for more than a signature.
        all.rotate_left(1);
    }
    all.rotate_right(stand.options.repeat() % Signatures::ALL.len());
    let steps = if writes { " x 10 steps that write a file" } else { "" };
    for (signatures, samples) in &all {
        let foreign = most_foreign(samples, |sample| &sample.usage);
        let row = Row::new(
            format!("{runs} runs{steps} {}, steps/s", signatures.shown()),
            spread(samples, 0, |sample| sample.steps_per_second),
        );
        report.add(row.foreign(foreign));
        let cost = middle_cpu(samples, |sample| (&sample.usage.spent, sample.steps));
        report.add(Row::new("  CPU ms per step", cost).foreign(foreign));
    }
    let [(_, without), signed @ ..] = &all;
    for (signatures, samples) in signed {
        let pairs = without.iter().zip(samples);
        let ratios: Vec<f64> =
            pairs.map(|(without, with)| with.steps_per_second / without.steps_per_second).collect();
        let what = format!("  {} to unsigned, each round", signatures.shown());
        // The target is for the signatures alone.
        let is_aimed_at = !writes && matches!(signatures, Signatures::Made);
        let target = if is_aimed_at { "target 0.97" } else { "" };
        report.add(Row::new(what, spread(&ratios, 3, |ratio| *ratio)).beside(target));
    }
    Ok(())
}

/// How many runs are made where one measurement is laid beside another.
pub(crate) fn compared(options: &Options) -> usize {
    options.small_or(options.runs().first().copied().unwrap_or(1), COMPARED)
}

async fn repeated(stand: &Stand<'_>, report: &mut Report, work: Work) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for round in 0..stand.options.repeat() {
        let shown = stand.options.profile && round == 0;
        samples.push(sample(stand, work, shown.then_some(&mut *report)).await?);
    }
    samples.sort_by(|a, b| a.steps_per_second.total_cmp(&b.steps_per_second));
    Ok(samples)
}

async fn sample(stand: &Stand<'_>, work: Work, profiled: Option<&mut Report>) -> Result<Sample> {
    let database = stand.database().await?;
    let sample = sample_on(stand, Database::at(database.url())?, work, profiled).await?;
    database.drop().await?;
    let Work { arrival, executors, runs, .. } = work;
    eprintln!(
        "  {arrival:?}, {runs} runs, {executors} executor(s): {:.0} steps/s, foreign {:.2}",
        sample.steps_per_second, sample.usage.foreign_cores
    );
    Ok(sample)
}

/// Measures in a database that was made elsewhere, and that stays.
pub(crate) async fn sample_on(
    stand: &Stand<'_>,
    database: Database,
    work: Work,
    profiled: Option<&mut Report>,
) -> Result<Sample> {
    let Work { arrival, executors, runs, .. } = work;
    let warming = Utc::now();
    let set = environment(stand, work);
    let mut deployment = match work.signatures {
        Signatures::WithRoles => stand.deploy_with_roles(database, executors, &set).await?,
        Signatures::Absent | Signatures::Made | Signatures::Checked => {
            stand.deploy_as(database, executors, &set).await?
        }
    };
    let rows = deployment.database.pool().await?;
    let in_flight = stand.options.in_flight;
    load::create(&deployment, &load::chain(), WARM_UP, in_flight).await?;
    load::wait_for_all(&rows, warming).await?;
    if arrival == Arrival::Waiting {
        for mut executor in deployment.executors.drain(..) {
            executor.stop().await?;
        }
    }
    tokio::time::sleep(stand.options.small_or(Duration::ZERO, COUNTED_WITHIN)).await;
    let database = deployment.database.name().to_owned();
    let before = meter::transactions(stand, &database).await?;
    if profiled.is_some() {
        profile::reset(stand).await?;
    }

    let meter = Meter::start(stand, &deployment).await?;
    let (begun, made) = carry(stand, work, &mut deployment).await?;
    load::wait_for_all(&rows, begun).await?;
    let usage = meter.read(&deployment).await?;
    let (first, last) = load::worked(&rows, begun).await?;
    if let Some(report) = profiled {
        report.note(profile::shown(stand, &rows, meter.log_start(), arrival.name()).await?);
    }
    rows.close().await;
    stop(&mut deployment).await?;
    let after = meter::transactions(stand, &database).await?;

    let from = match arrival {
        Arrival::Made => begun,
        Arrival::Waiting => first,
    };
    let runs = whole(runs);
    let steps = runs * whole(load::STEPS);
    Ok(Sample {
        steps,
        steps_per_second: steps / seconds(from, last),
        made_per_second: runs / seconds(begun, made),
        usage,
        transactions: (!stand.options.quick).then_some(after - before),
    })
}

fn environment<'a>(stand: &'a Stand<'_>, work: Work) -> Vec<(&'a str, &'a str)> {
    match work.signatures {
        Signatures::Absent => stand.environment(),
        Signatures::Made => stand.signing_environment(),
        Signatures::Checked | Signatures::WithRoles => stand.checking_environment(),
    }
}

/// Creates the runs; returns when the first was requested and when the last was accepted.
async fn carry(
    stand: &Stand<'_>,
    work: Work,
    deployment: &mut Deployment,
) -> Result<(DateTime<Utc>, DateTime<Utc>)> {
    let Work { arrival, executors, runs, .. } = work;
    let begun = Utc::now();
    let order = if work.writes { load::writing() } else { load::chain() };
    load::create(deployment, &order, runs, stand.options.in_flight).await?;
    let made = Utc::now();
    if arrival == Arrival::Waiting {
        for _ in 0..executors {
            deployment.add_executor(&environment(stand, work)).await?;
        }
    }
    Ok((begun, made))
}

/// Ends the processes, so that the server counts the last of what they did.
async fn stop(deployment: &mut Deployment) -> Result<()> {
    for executor in &mut deployment.executors {
        executor.stop().await?;
    }
    deployment.planner.stop().await?;
    deployment.gate.stop().await?;
    Ok(())
}

impl Arrival {
    const fn name(self) -> &'static str {
        match self {
            Self::Made => "runs made while worked on",
            Self::Waiting => "runs all waiting first",
        }
    }
}

fn add(report: &mut Report, work: Work, samples: &[Sample]) {
    let middle = median(samples);
    let foreign = middle.usage.foreign_cores;
    let what = if work.writes { "steps that write a file" } else { "steps" };
    let name = format!("{} runs x {} {what}, {}", work.runs, load::STEPS, work.arrival.name());
    let speed = middle.steps_per_second;
    let row = Row::new(format!("{name}: steps/s"), spread(samples, 0, |one| one.steps_per_second));
    let beside = format!(
        "target 14,000; {}; Postgres alone, a commit a step, x{}",
        peers::ratios(speed, |peer| peer.steps_per_second),
        peers::short(speed / POSTGRES_ALONE_UNBATCHED)
    );
    // The targets, and what the peers were measured with, are steps that do nothing.
    let target = |text| if work.writes { "" } else { text };
    report.add(row.beside(target(&beside)).foreign(foreign));
    report.add(
        Row::new("  runs made/s", spread(samples, 0, |one| one.made_per_second)).foreign(foreign),
    );
    let per_step = |count: i64| signed(count) / middle.steps;
    report.add(
        Row::new("  writing commits per step", commits(&middle.usage, middle.steps))
            .beside(target("target 0.05 under load; DBOS 1.20")),
    );
    report.add(
        Row::new("  transactions per step, reads too", shown(middle.transactions.map(per_step), 2))
            .beside(target("DBOS 4.2")),
    );
    report.add(
        Row::new("  WAL bytes per step", format!("{:.0}", per_step(middle.usage.wal_bytes)))
            .beside(target("target 1,100; DBOS 848")),
    );
    report.add(
        Row::new("  CPU ms per step (= s per 1,000)", cpu(&middle.usage.spent, middle.steps))
            .beside(target("target 0.13; Restate 0.26, DBOS 1.21, LangGraph 2.13, all with client"))
            .foreign(foreign),
    );
}

/// Keeps what the middle one did, for the comparison with engines that are given work as it comes.
fn compare(report: &mut Report, samples: &[Sample]) {
    let middle = median(samples);
    let usage = &middle.usage;
    let commits = usage.writing_commits.map_or(f64::NAN, signed);
    let cpu = usage.spent.total().as_secs_f64() * 1000.0;
    let store = usage.spent.postgres.as_secs_f64() * 1000.0;
    report.compare("steps_per_second", middle.steps_per_second);
    report.compare("cpu_ms_per_step", cpu / middle.steps);
    report.compare("store_cpu_ms_per_step", store / middle.steps);
    report.compare("writing_commits_per_step", commits / middle.steps);
    report.compare("log_bytes_per_step", signed(usage.wal_bytes) / middle.steps);
    report.compare("foreign_cores", usage.foreign_cores);
}

/// The middle one of samples in order of speed; of two, the slower.
fn median(samples: &[Sample]) -> &Sample {
    &samples[(samples.len() - 1) / 2]
}

/// Writing commits a step.
pub(crate) fn commits(usage: &Usage, steps: f64) -> String {
    shown(usage.writing_commits.map(|count| signed(count) / steps), 3)
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.digits$}"))
}

fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap_or_default().as_secs_f64()
}

/// A count as a number to divide by; counts here are far below where this loses digits.
pub(crate) fn whole(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn signed(count: i64) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from)
}
