//! The auditor: what must be so in the database, whatever was done to the services and to the
//! database itself. Used at the end of every test.
//!
//! ```text
//!   rows ---> run.rs     one run's journal, replayed through the machine
//!         |      `-----> steps.rs     turns, intents and receipts of each step
//!         |      `-----> compare.rs   the row, the verdict and the plan held against the replay
//!         `-> leases.rs  nobody dead holds anything
//! ```
//!
//! It shares the machine's `decide` with the engine, as the law that both obey, and else nothing:
//! what the engine counts, it counts again.

mod compare;
mod leases;
mod run;
mod steps;
mod writes;

use anyhow::{Context, Result};
use sqlx::PgPool;
use surety_common::domain::journal::{Entry, Event};
use surety_common::domain::plan::Plan;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, RunFilter};
use uuid::Uuid;

/// Runs read in one look.
const PAGE: i64 = 500;

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

/// Audits every run of a database, and its leases.
///
/// # Errors
/// The first thing that does not fit, with the run's id.
pub async fn audit_all(pool: &PgPool) -> Result<Audited> {
    let mut audited = Audited::default();
    let mut filter = RunFilter { limit: PAGE, ..RunFilter::default() };
    loop {
        let page = store::list_runs(pool, &filter).await?;
        for record in page.runs {
            let run_id = record.spec.id;
            let one =
                audit(pool, run_id).await.with_context(|| format!("the audit of run {run_id}"))?;
            audited.runs += 1;
            audited.events += one.events;
            audited.receipts += one.receipts;
        }
        filter.before = page.next;
        if filter.before.is_none() {
            break;
        }
    }
    leases::held_by_the_known(pool).await?;
    none_without_its_run(pool).await?;
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
    // The row first: the journal only grows, and what came after the row is left out.
    let record = store::find_run(pool, run_id).await?.context("there is no such run")?;
    let mut events = store::events(pool, run_id, 1, i64::MAX).await?;
    events.retain(|event| event.sequence <= record.execution.sequence);
    let writers = writers(pool, run_id).await?;
    let mut replay = run::Replay::of(&record, revisions(pool, &record).await?);
    for (expected, event) in (1..).zip(&events) {
        anyhow::ensure!(
            event.sequence == expected,
            "event {} stands at {expected}",
            event.sequence
        );
        replay.take(event, writer(&writers, expected)).with_context(|| format!("{event:?}"))?;
    }
    compare::compare(&replay, &record, events.len())?;
    outputs(pool, &events).await?;
    let receipts = replay.receipts.len();
    Ok(Audited { runs: 1, events: events.len(), receipts })
}

/// No plan and no execution is there without the run it belongs to.
async fn none_without_its_run(pool: &PgPool) -> Result<()> {
    let strays: Vec<Uuid> = sqlx::query_scalar(
        "select run_id from (select run_id from execution union select run_id from plan) as row
         where not exists (select from run where run.id = row.run_id)",
    )
    .fetch_all(pool)
    .await?;
    anyhow::ensure!(strays.is_empty(), "rows of {strays:?} are left without their runs");
    Ok(())
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

/// Who wrote each committed change, by the number of its last entry.
async fn writers(pool: &PgPool, run_id: Uuid) -> Result<Vec<(i64, String)>> {
    let rows = "select sequence, actor from journal where run_id = $1 order by sequence";
    Ok(sqlx::query_as(rows).bind(run_id).fetch_all(pool).await?)
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
        anyhow::ensure!(whole, "the output of call {} is another", output.call_id);
    }
    Ok(())
}
