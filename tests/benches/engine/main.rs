//! The benchmark of the engine: three services as processes built to be shipped over a private, durable
//! Postgres, and one table of what they did.
//!
//! ```text
//!   stand      Postgres, a fresh database and fresh processes for each measurement
//!     |
//!   part ----> throughput | latency | idle | wake-up | executors | signing | waiting steps | people | participants |
//!     |        models | workers | intake | recovery | memory | growth
//!     |           load (runs are made and awaited)   meter (CPU, WAL, commits, foreign load)
//!     v
//!   report     one table: figure, what it is held against, load of others meanwhile
//! ```
//!
//! It measures and asserts no time. A run that does not end accepted is an error, as its figure
//! would be one of something else.

mod figures;
mod growth;
mod intake;
mod latency;
mod load;
mod machine;
mod meter;
mod models;
mod options;
mod participants;
mod past;
mod peers;
mod people;
mod processes;
mod profile;
mod recovery;
mod report;
mod rest;
mod stand;
mod throughput;
mod waiting;
mod workers;

use anyhow::Result;
use clap::Parser;
use options::{Options, Part};
use report::{Report, Row};
use stand::Stand;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::parse();
    let mut terminated = signal(SignalKind::terminate())?;
    if options.bench {
        end_with_cargo()?;
    }
    tokio::select! {
        measured = measure(&options) => measured,
        // Returning drops every process; dying here would leave them behind.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted")
        }
        _ = terminated.recv() => anyhow::bail!("terminated"),
    }
}

/// A signal to `make` or to `cargo bench` ends them and does not reach us, who would measure on.
#[cfg(target_os = "linux")]
fn end_with_cargo() -> Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?)
}

#[cfg(not(target_os = "linux"))]
fn end_with_cargo() -> Result<()> {
    Ok(())
}

async fn measure(options: &Options) -> Result<()> {
    let stand = Stand::start(options).await?;
    let mut report = Report::new(machine::describe(&stand).await?);
    for part in options.parts() {
        eprintln!("measuring: {}", part.name());
        let disk = format!("before {}: the disk keeps 8 KiB in, ms", part.name());
        report.add(
            Row::new(disk, format!("{:.2}", machine::sync_ms()?))
                .beside("0.13 when the peers were measured"),
        );
        let memory = "  a load past the cores' own caches takes, ns";
        report.add(Row::new(memory, format!("{:.0}", machine::load_ns())));
        match part {
            Part::Throughput => throughput::measure(&stand, &mut report).await?,
            Part::Effects => throughput::measure_effects(&stand, &mut report).await?,
            Part::Latency => latency::measure_lone_runs(&stand, &mut report).await?,
            Part::Idle => rest::measure(&stand, &mut report).await?,
            Part::Wakeup => latency::measure_wake_up(&stand, &mut report).await?,
            Part::Executors => throughput::measure_executors(&stand, &mut report).await?,
            Part::Signing => throughput::measure_signing(&stand, &mut report).await?,
            Part::WaitingSteps => waiting::measure(&stand, &mut report).await?,
            Part::People => people::measure(&stand, &mut report).await?,
            Part::Participants => participants::measure(&stand, &mut report).await?,
            Part::Models => models::measure(&stand, &mut report).await?,
            Part::Workers => workers::measure(&stand, &mut report).await?,
            Part::Intake => intake::measure(&stand, &mut report).await?,
            Part::Recovery => recovery::measure(&stand, &mut report).await?,
            Part::Memory => rest::measure_memory(&stand, &mut report).await?,
            Part::Growth => growth::measure(&stand, &mut report).await?,
        }
    }
    match options.json {
        true => println!("{}", report.json()),
        false => print!("{report}"),
    }
    stand.stop().await
}
