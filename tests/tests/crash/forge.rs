//! Journals that are rewritten as a forger would.

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use surety_common::domain::journal::{
    Actor, Entry, PlanStored, Recorded, StoredRow, Transition, Turn, VerdictRecord, Wanted,
    read_changes, write_changes,
};
use surety_common::domain::receipt::EvidenceReceipt;
use uuid::Uuid;

/// What was committed together.
pub(super) struct Row {
    sequence: i64,
    at: DateTime<Utc>,
    pub(super) actor: Actor,
    pub(super) entries: Vec<Entry>,
}

/// A change of a journal.
pub(super) type Forge = fn(&mut Vec<Row>) -> Result<()>;

/// Reads a run's journal, lets it be changed, and puts it back.
pub(super) async fn rewrite(pool: &PgPool, run_id: Uuid, change: Forge) -> Result<()> {
    let read = "select sequence, at, actor, entries from journal where run_id = $1
                order by sequence";
    let found: Vec<(i64, DateTime<Utc>, String, String)> =
        sqlx::query_as(read).bind(run_id).fetch_all(pool).await?;
    let mut rows = Vec::new();
    for (sequence, at, actor, text) in found {
        let row = StoredRow { sequence, at, actor: &actor, text: &text };
        let entries = read_changes(row, Wanted::Everything)?.into_iter().map(|event| event.entry);
        rows.push(Row { sequence, at, entries: entries.collect(), actor: Actor(actor.into()) });
    }
    change(&mut rows)?;
    sqlx::query("delete from journal where run_id = $1").bind(run_id).execute(pool).await?;
    for row in rows {
        let change = Recorded { at: row.at, span_id: None, entries: &row.entries };
        sqlx::query(
            "insert into journal (run_id, sequence, at, actor, entries)
             values ($1, $2, $3, $4, $5)",
        )
        .bind(run_id)
        .bind(row.sequence)
        .bind(row.at)
        .bind(&*row.actor.0)
        .bind(write_changes(&[change], &row.actor, row.at))
        .execute(pool)
        .await?;
    }
    Ok(())
}

/// The first entry that is wanted.
pub(super) fn entry(rows: &mut [Row], wanted: impl Fn(&Entry) -> bool) -> Result<&mut Entry> {
    let mut entries = rows.iter_mut().flat_map(|row| &mut row.entries);
    entries.find(|entry| wanted(entry)).context("no such entry")
}

/// The first move that is wanted.
pub(super) fn transition(
    rows: &mut [Row],
    wanted: impl Fn(&Transition) -> bool,
) -> Result<&mut Transition> {
    let is = |entry: &Entry| matches!(entry, Entry::Transition(moved) if wanted(moved));
    let Entry::Transition(moved) = entry(rows, is)? else { bail!("another entry") };
    Ok(moved)
}

/// The first plan.
pub(super) fn plan(rows: &mut [Row]) -> Result<&mut PlanStored> {
    let Entry::Plan(plan) = entry(rows, |entry| matches!(entry, Entry::Plan(_)))? else {
        bail!("another entry")
    };
    Ok(plan)
}

/// The first turn.
pub(super) fn turn(rows: &mut [Row]) -> Result<&mut Turn> {
    let Entry::Turn(turn) = entry(rows, |entry| matches!(entry, Entry::Turn(_)))? else {
        bail!("another entry")
    };
    Ok(turn)
}

/// A receipt by its place, from 0.
pub(super) fn receipt(rows: &mut [Row], place: u64) -> Result<&mut EvidenceReceipt> {
    let is = |entry: &Entry| matches!(entry, Entry::Receipt(found) if found.seq == place + 1);
    let Entry::Receipt(receipt) = entry(rows, is)? else { bail!("another entry") };
    Ok(receipt)
}

/// The first verdict.
pub(super) fn verdict(rows: &mut [Row]) -> Result<&mut VerdictRecord> {
    let Entry::Verdict(verdict) = entry(rows, |entry| matches!(entry, Entry::Verdict(_)))? else {
        bail!("another entry")
    };
    Ok(verdict)
}
