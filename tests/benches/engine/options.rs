//! What is measured, and how much of it.

use clap::{Parser, ValueEnum};

/// Measures the engine and prints one table.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Which parts; none is all of them.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Runs of ten steps that one measurement of throughput carries; of several, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000])]
    runs: Vec<usize>,
    /// How often throughput, steps that wait and growth are measured; the median of all is shown,
    /// with the range.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Runs made side by side.
    #[arg(long, default_value_t = 64)]
    pub(crate) in_flight: usize,
    /// Finished steps in the database that growth is measured in.
    #[arg(long, default_value_t = 10_000_000)]
    finished_steps: usize,
    /// Waiting runs in the database that growth is measured in.
    #[arg(long, default_value_t = 100_000)]
    waiting_runs: usize,
    /// Everything once and small, in about a minute: shows that it works, and no figures.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also shows which statements and which tables cost most. It costs some speed itself.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Seconds to wait at most, before each measurement, until others leave the machine alone.
    #[arg(long, default_value_t = 0)]
    pub(crate) wait_for_quiet: u64,
    /// A setting of Postgres, `name=value`, to compare; may be repeated.
    #[arg(long)]
    pub(crate) setting: Vec<String>,
    /// One line of JSON with the figures that other engines are compared by, in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Handed over by `cargo bench`.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// One part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Steps a second, and what each cost.
    Throughput,
    /// The same of steps that change something.
    Effects,
    /// How long one run alone takes.
    Latency,
    /// Memory and queries of processes that have nothing to do.
    Idle,
    /// From a run's making to its first step's start.
    Wakeup,
    /// Throughput with 1, 2 and 4 executors.
    Executors,
    /// Throughput without and with signatures.
    Signing,
    /// Steps a second where each step waits, with ever more slots.
    WaitingSteps,
    /// Throughput beside runs that wait for people, and without them.
    People,
    /// Waits for agents at rest, and the turns of agents.
    Participants,
    /// The turns of a model beside the time of its endpoint.
    Models,
    /// The calls of tool workers.
    Workers,
    /// Deliveries of forges.
    Intake,
    /// From an executor's death until its runs continue.
    Recovery,
    /// Memory of each process for every 1,000 running runs.
    Memory,
    /// Throughput and latency in a database full of the past, beside an empty one.
    Growth,
}

impl Part {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Effects => "effects",
            Self::Latency => "latency",
            Self::Idle => "idle",
            Self::Wakeup => "wakeup",
            Self::Executors => "executors",
            Self::Signing => "signing",
            Self::WaitingSteps => "waiting-steps",
            Self::People => "people",
            Self::Participants => "participants",
            Self::Models => "models",
            Self::Workers => "workers",
            Self::Intake => "intake",
            Self::Recovery => "recovery",
            Self::Memory => "memory",
            Self::Growth => "growth",
        }
    }
}

impl Options {
    pub(crate) fn parts(&self) -> Vec<Part> {
        match self.parts.is_empty() {
            true => Part::value_variants().to_vec(),
            false => self.parts.clone(),
        }
    }

    pub(crate) fn runs(&self) -> &[usize] {
        self.small_or(&[50], &self.runs)
    }

    pub(crate) fn finished_steps(&self) -> usize {
        self.small_or(10_000, self.finished_steps)
    }

    pub(crate) fn waiting_runs(&self) -> usize {
        self.small_or(1000, self.waiting_runs)
    }

    pub(crate) fn repeat(&self) -> usize {
        self.small_or(1, self.repeat.max(1))
    }

    /// `quick` when everything is to be small, else `full`.
    pub(crate) fn small_or<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}
