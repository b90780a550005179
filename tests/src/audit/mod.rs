//! The auditor: what must be so in the database, whatever was done to the services and to the
//! database itself. Used at the end of every test.
//!
//! ```text
//!   rows ---> run.rs     one run's journal, replayed through the machine
//!         |      `-----> steps.rs     turns, intents and receipts of each step
//!         |      `-----> calls.rs     what was begun before, and what may be done again
//!         |      `-----> looks.rs     what was looked at before a verdict
//!         |      `-----> writes.rs    what steps may write, and wrote
//!         |      `-----> compare.rs   the row, the verdict and the plan held against the replay
//!         `-> leases.rs  nobody dead holds anything
//! ```
//!
//! What the engine counts and remembers, it counts again from the journal. It shares with the
//! engine what both have to agree on, and a defect in one of these it cannot see by itself:
//! - the machine's `decide`, for runs and for steps, as the law that both obey;
//! - the gate's `evaluate`, which judges the stored receipts once more;
//! - the forms: the readers of rows and of journal entries, canonical JSON, the digests of plans,
//!   receipts and outputs (a receipt's digest is written out in `tests/tests/golden.rs`);
//! - globs: whether two write scopes meet, and whether a path lies in one;
//! - the annotations of the tools.

mod calls;
mod compare;
mod leases;
mod observations;
mod run;
mod steps;
mod writes;

use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use std::time::Duration;
use surety_common::domain::journal::{Entry, Event};
use surety_common::domain::plan::Plan;
use surety_common::domain::run::RunRecord;
use surety_common::store;
use uuid::Uuid;

/// How often a run is read again that moves while it is read.
const LOOKS: usize = 100;

/// What an audit went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audited {
    /// Runs.
    pub runs: usize,
    /// Events of their journals.
    pub events: usize,
    /// Receipts among them.
    pub receipts: usize,
}

/// Audits every run of a database, and its leases. The runs are those that any table names, whether
/// their rows read or not.
///
/// # Errors
/// The first thing that does not fit, with the run's id.
pub async fn audit_all(pool: &PgPool) -> Result<Audited> {
    let mut audited = Audited::default();
    let named = "select id from run union select run_id from execution union
                 select run_id from plan order by 1";
    let run_ids: Vec<Uuid> = sqlx::query_scalar(named).fetch_all(pool).await?;
    for run_id in run_ids {
        // One that was forgotten meanwhile is in no table.
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
    Ok(audited)
}

/// As [`audit_all`], after everything has ended: nobody holds anything any more.
///
/// # Errors
/// The first thing that does not fit.
pub async fn audit_at_rest(pool: &PgPool) -> Result<Audited> {
    let audited = audit_all(pool).await?;
    leases::none_held(pool).await?;
    Ok(audited)
}

/// No lease is held by an executor that was silent for `limit`.
///
/// # Errors
/// The runs that are.
pub async fn held_by_the_living(pool: &PgPool, limit: Duration) -> Result<()> {
    leases::held_by_the_living(pool, limit).await
}

/// Nobody holds a lease, where every executor left in peace. Work may wait for the next one.
///
/// # Errors
/// The runs that are leased.
pub async fn handed_back(pool: &PgPool) -> Result<()> {
    leases::handed_back(pool).await
}

/// A run that the tables name has all its rows, and they fit. None when it is in no table any more.
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

/// Audits one run: the journal is numbered without gaps from 1, every move in it is one the machine
/// makes and together they lead to the stored states; no step starts before what it depends on or
/// beside too many others, and none is finished twice in one attempt; only the holder of a step
/// writes about it; every effect was written down before its receipt and has one outcome at most;
/// the chain of receipts and every output hold; the counters are the journal's; and what is
/// accepted is accepted again by the gate's own rule over the stored receipts.
///
/// # Errors
/// The first thing that does not fit.
pub async fn audit(pool: &PgPool, run_id: Uuid) -> Result<Audited> {
    let Read { record, events, writers } = read(pool, run_id).await?;
    let mut replay = run::Replay::of(&record, revisions(pool, &record).await?)?;
    for (expected, event) in (1..).zip(&events) {
        ensure!(event.sequence == expected, "event {} stands at {expected}", event.sequence);
        replay.take(event, writer(&writers, expected)).with_context(|| format!("{event:?}"))?;
    }
    compare::compare(&replay, &record, events.len())?;
    outputs(pool, &events).await?;
    let receipts = replay.receipts.len();
    Ok(Audited { runs: 1, events: events.len(), receipts })
}

/// A run and its whole journal, as they were at one moment.
struct Read {
    record: RunRecord,
    events: Vec<Event>,
    /// Who wrote each committed change, by the number of its last entry.
    writers: Vec<(i64, String)>,
}

/// Reads all rows of a run. Nothing is left out: a row that did not move meanwhile was written
/// together with all that its journal holds.
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

/// Every output is there in whole, and is what its digest says.
async fn outputs(pool: &PgPool, events: &[Event]) -> Result<()> {
    let outputs = events.iter().filter_map(|event| match &event.entry {
        Entry::Output(output) => Some(output),
        Entry::Transition(_)
        | Entry::Plan(_)
        | Entry::Turn(_)
        | Entry::Intent(_)
        | Entry::Receipt(_)
        | Entry::Verdict(_)
        | Entry::Answer(_) => None,
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
