//! Shared code of the peers in Rust; its protocol with the caller is that of measure.mjs.
//!
//!     surety-peer-PEER throughput | latency [--runs N] [--in-flight N]

use std::collections::HashMap;
use std::io::stdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const STEPS: u32 = 10;
const LONE_RUNS: usize = 100;
const WARM_UP: usize = 100;

/// Where Postgres says that a run has ended.
pub const ENDED: &str = "ended";

/// What a step is given.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    pub run: u64,
    /// Steps that are not done yet, this one included.
    pub left: u32,
}

/// Statements that make Postgres notify when the last step of a run is stored as done, which the
/// libraries do not report: `state` of a row of `table` becomes `done`, and `work` of `new` is its
/// `Work`.
pub fn telling_ends(table: &str, (state, done): (&str, &str), work: &str) -> String {
    format!(
        "create function tell_end() returns trigger language plpgsql as $$ begin
           perform pg_notify('{ENDED}', ({work}) ->> 'run');
           return null;
         end $$;
         create trigger tell_end after update on {table} for each row
           when (new.{state} = '{done}' and old.{state} <> '{done}' and ({work}) ->> 'left' = '1')
           execute function tell_end()"
    )
}

/// The runs that have not ended, each with the one who waits for it.
#[derive(Clone, Default)]
pub struct Runs(Arc<Mutex<(u64, HashMap<u64, oneshot::Sender<()>>)>>);

impl Runs {
    /// The first step of a new run of so many, and when the run has ended.
    pub fn begin(&self, steps: u32) -> (Work, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (made, waiting) = &mut *guard;
        *made += 1;
        waiting.insert(*made, sender);
        // The smallest run that such a library has is one step.
        (Work { run: *made, left: steps.max(1) }, receiver)
    }

    pub fn end(&self, run: &str) -> Result<()> {
        let run = run.parse()?;
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = guard.1.remove(&run).with_context(|| format!("run {run} ended twice"))?;
        // The receiver is dropped when another run has failed.
        let _ = sender.send(());
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Throughput,
    Latency,
}

/// The options of the command line.
pub struct Asked {
    pub mode: Mode,
    runs: usize,
    in_flight: Option<usize>,
}

impl Asked {
    pub fn read() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let mode = match words.next().as_deref() {
            Some("throughput") => Mode::Throughput,
            Some("latency") => Mode::Latency,
            other => bail!("measure throughput or latency, not {other:?}"),
        };
        let mut asked = Self { mode, runs: 1000, in_flight: None };
        while let Some(name) = words.next() {
            let number = words.next().with_context(|| format!("{name} of what?"))?.parse()?;
            match name.as_str() {
                "--runs" => asked.runs = number,
                "--in-flight" => asked.in_flight = Some(number),
                _ => bail!("no such option: {name}"),
            }
        }
        Ok(asked)
    }
}

/// The version of a package in the text of a Cargo.lock.
pub fn version_of(name: &str, lock: &'static str) -> Result<&'static str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).context("lock")?;
    Ok(rest.split_once('"').context("lock")?.0)
}

/// Calls `carry(steps)` for every run, `in_flight` at a time unless the command line says otherwise;
/// it returns when that run has ended.
pub async fn measure(
    (peer, version): (&str, &str),
    asked: &Asked,
    in_flight: usize,
    carry: impl AsyncFn(u32) -> Result<()>,
) -> Result<()> {
    let in_flight = asked.in_flight.unwrap_or(in_flight);
    let warm = WARM_UP.min(asked.runs);
    match asked.mode {
        Mode::Throughput => together(warm, in_flight, &carry).await?,
        Mode::Latency => one_by_one(warm, STEPS, &carry).await.map(drop)?,
    }
    println!("{}", json!({"ready": true}));
    stdin().read_line(&mut String::new())?;
    let figures = match asked.mode {
        Mode::Throughput => throughput(asked.runs, in_flight, &carry).await?,
        Mode::Latency => latency(LONE_RUNS.min(asked.runs), &carry).await?,
    };
    let mut result = json!({"peer": peer, "version": version, "steps": STEPS});
    if let (Value::Object(all), Value::Object(figures)) = (&mut result, figures) {
        all.extend(figures);
    }
    println!("{result}");
    stdin().read_line(&mut String::new())?;
    Ok(())
}

async fn throughput(
    runs: usize,
    in_flight: usize,
    carry: &impl AsyncFn(u32) -> Result<()>,
) -> Result<Value> {
    let began = Instant::now();
    together(runs, in_flight, carry).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({
        "mode": "throughput",
        "runs": runs,
        "in_flight": in_flight,
        "seconds": seconds,
        "steps_per_second": runs as f64 * f64::from(STEPS) / seconds,
    }))
}

async fn latency(rounds: usize, carry: &impl AsyncFn(u32) -> Result<()>) -> Result<Value> {
    let began = Instant::now();
    let ten = one_by_one(rounds, STEPS, carry).await?;
    let empty = one_by_one(rounds, 0, carry).await?;
    Ok(json!({
        "mode": "latency",
        "runs": 2 * rounds,
        "seconds": began.elapsed().as_secs_f64(),
        "p50_ms": percentile(&ten, 50),
        "p99_ms": percentile(&ten, 99),
        "empty_p50_ms": percentile(&empty, 50),
        "empty_p99_ms": percentile(&empty, 99),
    }))
}

async fn together(
    runs: usize,
    in_flight: usize,
    carry: &impl AsyncFn(u32) -> Result<()>,
) -> Result<()> {
    let left = Mutex::new(0..runs);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = async || -> Result<()> {
        while next().is_some() {
            carry(STEPS).await?;
        }
        Ok(())
    };
    try_join_all((0..in_flight.min(runs)).map(|_| worker())).await.map(drop)
}

async fn one_by_one(
    runs: usize,
    steps: u32,
    carry: &impl AsyncFn(u32) -> Result<()>,
) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let began = Instant::now();
        carry(steps).await?;
        times.push(1000.0 * began.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}
