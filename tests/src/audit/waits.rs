//! Waits: the rows are those of the runs, and a lease is whole.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use surety_common::domain::journal::{Entry, Event};
use surety_common::domain::run::RunRecord;
use uuid::Uuid;

/// A row: its kind, its namespace, whether it is withheld, its lease, and whether it is answered.
type Row =
    (Uuid, String, String, bool, Option<String>, i64, Option<DateTime<Utc>>, Option<DateTime<Utc>>);

/// No wait is left without its run.
pub(super) async fn have_their_runs(pool: &PgPool) -> Result<()> {
    let lost: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select id, run_id from wait
         where not exists (select from execution where execution.run_id = wait.run_id)",
    )
    .fetch_all(pool)
    .await?;
    ensure!(lost.is_empty(), "waits are left without their runs: {lost:?}");
    Ok(())
}

/// The rows of a run are exactly its waits, and none after its end. The caller reads both in one snapshot.
pub(super) async fn of_run(pool: &PgPool, record: &RunRecord) -> Result<()> {
    let row = &record.execution;
    let rows: Vec<Row> = sqlx::query_as(
        "select wait.id, kind, wait.namespace, withheld, lease_holder, wait.lease_epoch,
                lease_expires_at, answered_at
         from wait
         join execution on execution.run_id = wait.run_id and execution.version = $2
         where wait.run_id = $1",
    )
    .bind(row.run_id)
    .bind(row.version)
    .fetch_all(pool)
    .await?;
    let version: i64 = sqlx::query_scalar("select version from execution where run_id = $1")
        .bind(row.run_id)
        .fetch_one(pool)
        .await?;
    // The run moved on between the two reads.
    if version != row.version {
        return Ok(());
    }
    let expected: BTreeMap<Uuid, (String, bool)> =
        row.kept_waits().map(|wait| (wait.id, (wait.kind.to_string(), wait.answered))).collect();
    let found: BTreeMap<Uuid, (String, bool)> = rows
        .iter()
        .map(|(id, kind, .., answered_at)| (*id, (kind.clone(), answered_at.is_some())))
        .collect();
    ensure!(found == expected, "the rows of waits are {found:?}, the run waits for {expected:?}");
    ensure!(found.is_empty() || !row.state.is_terminal(), "an ended run waits: {found:?}");
    for (id, _, namespace, withheld, holder, epoch, expires_at, _) in rows {
        ensure!(namespace == record.spec.namespace, "wait {id} is of the namespace {namespace}");
        ensure!(withheld == row.paused.is_some(), "wait {id} is withheld: {withheld}");
        ensure!(holder.is_some() == expires_at.is_some(), "the lease of wait {id} is half");
        ensure!(holder.is_none() || epoch > 0, "the lease of wait {id} is not fenced");
    }
    Ok(())
}

/// Each reply of a participant became one turn, and no turn of a step was taken under an earlier lease than the
/// one before.
pub(super) fn answered_once(events: &[Event]) -> Result<()> {
    let mut taken = BTreeSet::new();
    let mut leases: BTreeMap<(&str, u32), i64> = BTreeMap::new();
    for event in events {
        let Entry::Turn(turn) = &event.entry else { continue };
        let Some(mark) = &turn.reply else { continue };
        let place = (turn.step_id.as_str(), turn.attempt, turn.number);
        ensure!(taken.insert(place), "turn {place:?} was taken twice");
        let latest = leases.entry((&turn.step_id, turn.attempt)).or_insert(mark.lease_epoch);
        ensure!(*latest <= mark.lease_epoch, "turn {place:?} was taken under an older lease");
        *latest = mark.lease_epoch;
    }
    Ok(())
}

/// Tokens are given once: no two rows have the same.
pub(super) async fn fenced_by_their_own(pool: &PgPool) -> Result<()> {
    let twice: Option<(i64, i64)> = sqlx::query_as(
        "select lease_epoch, count(*) from wait where lease_epoch > 0
         group by lease_epoch having count(*) > 1 limit 1",
    )
    .fetch_optional(pool)
    .await
    .context("the tokens of waits")?;
    ensure!(twice.is_none(), "two waits have the same token: {twice:?}");
    Ok(())
}
