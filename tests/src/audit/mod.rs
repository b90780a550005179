//! The auditor: checks the invariants of the database, whatever happened to the services and to the
//! database. Every test ends with it.
//!
//! ```text
//!   rows ---> run.rs     one run's journal, replayed through the machine
//!         |      `-----> steps.rs         turns, intents and receipts of each step
//!         |      `-----> calls.rs         intents, and which calls may be repeated
//!         |      `-----> observations.rs  the runner's observations before a verdict
//!         |      `-----> writes.rs        write scopes, and written files
//!         |      `-----> compare.rs       the row, the verdict and the plan against the replay
//!         |-> waits.rs   the rows of waits are those of the runs
//!         `-> leases.rs  no dead executor holds a lease
//! ```
//!
//! It recomputes the engine's counters and states from the journal. It shares these parts with the
//! engine, and cannot detect a defect in them:
//! - the machine's `decide`, for runs and for steps;
//! - the gate's `evaluate`, which evaluates the stored receipts again;
//! - the formats: the readers of rows and journal entries, canonical JSON, the digests of plans,
//!   receipts and outputs (`tests/tests/services/golden.rs` has a receipt's digest written out);
//! - globs: whether two write scopes overlap, and whether a path is in one;
//! - the annotations of the tools.

mod calls;
mod compare;
mod grants;
mod leases;
mod observations;
mod run;
mod steps;
mod waits;
mod writes;

use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use std::time::Duration;
use surety_common::domain::journal::{Entry, Event};
use surety_common::domain::plan::Plan;
use surety_common::domain::run::RunRecord;
use surety_common::store;
use uuid::Uuid;

/// How often a run that changes is read again.
const LOOKS: usize = 100;

/// The counts of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audited {
    /// Runs.
    pub runs: usize,
    /// Events of their journals.
    pub events: usize,
    /// Receipts among them.
    pub receipts: usize,
}

/// Audits every run in any table, whether its rows can be decoded or not, and the leases.
///
/// # Errors
/// The first violation, with the run's id.
pub async fn audit_all(pool: &PgPool) -> Result<Audited> {
    let mut audited = Audited::default();
    let named = "select id from run union select run_id from execution union
                 select run_id from plan order by 1";
    let run_ids: Vec<Uuid> = sqlx::query_scalar(named).fetch_all(pool).await?;
    for run_id in run_ids {
        // A run that was deleted in the meantime is in no table.
        let Some(one) =
            whole(pool, run_id).await.with_context(|| format!("the audit of run {run_id}"))?
        else {
            continue;
        };
        audited.runs += 1;
        audited.events += one.events;
        audited.receipts += one.receipts;
    }
    leases::held_by_the_known(pool).await?;
    waits::have_their_runs(pool).await?;
    waits::fenced_by_their_own(pool).await?;
    Ok(audited)
}

/// As [`audit_all`], after all work has ended: no lease is left.
///
/// # Errors
/// The first violation.
pub async fn audit_at_rest(pool: &PgPool) -> Result<Audited> {
    let audited = audit_all(pool).await?;
    leases::none_held(pool).await?;
    Ok(audited)
}

/// No lease is held by an executor that has been silent for `limit`.
///
/// # Errors
/// The leased runs.
pub async fn held_by_the_living(pool: &PgPool, limit: Duration) -> Result<()> {
    leases::held_by_the_living(pool, limit).await
}

/// No lease is held, after every executor has shut down. Runs may wait for the next one.
///
/// # Errors
/// The leased runs.
pub async fn handed_back(pool: &PgPool) -> Result<()> {
    leases::handed_back(pool).await
}

/// Audits a run that some table names; none when no table does any more.
async fn whole(pool: &PgPool, run_id: Uuid) -> Result<Option<Audited>> {
    let there = "select exists (select from run where id = $1),
                        exists (select from execution where run_id = $1),
                        exists (select from plan where run_id = $1)";
    let (run, execution, plan): (bool, bool, bool) =
        sqlx::query_as(there).bind(run_id).fetch_one(pool).await?;
    if !(run || execution || plan) {
        return Ok(None);
    }
    ensure!(run, "rows of it are left without the run");
    ensure!(execution, "the run has no execution");
    audit(pool, run_id).await.map(Some)
}

/// Audits one run. The journal is numbered without gaps from 1, and the machine allows its
/// transitions, which lead to the stored states. Steps start after their dependencies and within
/// the parallel limit, and only the holder of a step writes about it. Every effect has an earlier
/// intent and at most one outcome. The chain of receipts, the outputs and the counters are
/// consistent, and the gate accepts an accepted run again.
///
/// # Errors
/// The first violation.
pub async fn audit(pool: &PgPool, run_id: Uuid) -> Result<Audited> {
    let Read { record, events, writers } = read(pool, run_id).await?;
    let policy = store::find_policy(pool, &record.spec.namespace).await?;
    let worker_tools = policy.map(|stored| stored.policy.tool_workers).unwrap_or_default();
    let calls = calls::Calls::of(&record, worker_tools)?;
    let mut replay = run::Replay::of(&record, revisions(pool, &record).await?, calls);
    for (expected, event) in (1..).zip(&events) {
        ensure!(event.sequence == expected, "event {} stands at {expected}", event.sequence);
        replay.take(event, writer(&writers, expected)).with_context(|| format!("{event:?}"))?;
    }
    compare::compare(&replay, &record, events.len())?;
    outputs(pool, &events).await?;
    waits::of_run(pool, &record).await?;
    waits::answered_once(&events)?;
    let receipts = replay.receipts.len();
    Ok(Audited { runs: 1, events: events.len(), receipts })
}

/// A run and its whole journal, from one snapshot.
struct Read {
    record: RunRecord,
    events: Vec<Event>,
    /// The actor of each commit, by the number of its last entry.
    writers: Vec<(i64, String)>,
}

/// Reads all rows of a run, again until the row did not change in between.
async fn read(pool: &PgPool, run_id: Uuid) -> Result<Read> {
    let find = async || store::find_run(pool, run_id).await?.context("there is no such run");
    let mut record = find().await?;
    for _ in 0..LOOKS {
        let events = store::events(pool, run_id, 1, i64::MAX).await?;
        let writers = "select sequence, actor from journal where run_id = $1 order by sequence";
        let writers = sqlx::query_as(writers).bind(run_id).fetch_all(pool).await?;
        let plans = "select coalesce(max(revision), 0) from plan where run_id = $1";
        let plans: i32 = sqlx::query_scalar(plans).bind(run_id).fetch_one(pool).await?;
        let after = find().await?;
        if after.execution.version == record.execution.version {
            let known = record.execution.plan_revision;
            ensure!(u32::try_from(plans)? == known, "plan {plans} is stored, {known} is known");
            return Ok(Read { record, events, writers });
        }
        record = after;
    }
    anyhow::bail!("it moved whenever it was read")
}

async fn revisions(pool: &PgPool, record: &RunRecord) -> Result<Vec<Plan>> {
    let run_id = record.spec.id;
    let mut plans = Vec::new();
    for revision in 1..=record.execution.plan_revision {
        let stored = store::find_plan(pool, run_id, revision).await?;
        plans.push(store::plan_of(&stored.context("a revision of the plan is gone")?, run_id)?);
    }
    Ok(plans)
}

fn writer(writers: &[(i64, String)], sequence: i64) -> &str {
    let row = writers.partition_point(|(last, _)| *last < sequence);
    writers.get(row).map_or("", |(_, actor)| actor)
}

/// Every output is complete and matches its digest.
async fn outputs(pool: &PgPool, events: &[Event]) -> Result<()> {
    let outputs = events.iter().filter_map(|event| {
        let Entry::Output(output) = &event.entry else { return None };
        Some(output)
    });
    for output in outputs {
        let stored = "select body from artifact where digest = $1";
        let body: Vec<u8> = match &output.text {
            Some(text) => text.as_bytes().to_vec(),
            None => sqlx::query_scalar(stored)
                .bind(&output.digest)
                .fetch_optional(pool)
                .await?
                .with_context(|| format!("the output of call {} is not there", output.call_id))?,
        };
        let digest = surety_common::domain::json::sha256_hex(&body);
        let whole = digest == output.digest && usize::try_from(output.bytes)? == body.len();
        ensure!(whole, "the output of call {} is another", output.call_id);
    }
    Ok(())
}
