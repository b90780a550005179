//! Creates the journal's partitions in advance, and deletes expired runs.
//!
//! ```text
//!   every 10 min:  create the next partitions
//!                  delete expired tasks of the types with a retention of their own
//!                  delete the rows of expired runs, a few hundred runs at a time
//!                  drop partitions without runs
//!                  delete single journals in partitions that still hold a waiting run
//! ```
//!
//! Every planner runs this loop; a lock lets one planner at a time delete runs.

use crate::planner::Planner;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::store::{self, Retention, StoreError};
use uuid::Uuid;

/// The interval of the loop. Retention is counted in days.
const INTERVAL: Duration = Duration::from_mins(10);
/// The runs deleted in one transaction.
const BATCH: i64 = 200;
/// The pause between two transactions, as a multiple of the last one's duration: the loop uses at
/// most a fifth of one processor.
const REST: u32 = 4;

/// Runs the loop until the process shuts down.
pub(crate) async fn run(planner: Arc<Planner>, retention: Retention) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = planner.now();
        prepare(&planner.pool, now, retention).await;
        forget_answers(&planner, now).await;
        let of_tasks = planner.rules.retentions(retention);
        if let Err(error) = forget_expired(&planner.pool, now, (retention, &of_tasks)).await {
            tracing::warn!(%error, database = planner.whose, "retention: expired runs could not be deleted; the next attempt is in 10 minutes");
        }
    }
}

/// Deletes the stored answers of calls that are older than the guarantee for a repeated call.
async fn forget_answers(planner: &Planner, now: DateTime<Utc>) {
    loop {
        match store::forget_outcomes(&planner.pool, now).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let database = &planner.whose;
                tracing::warn!(%error, database, "planner: old answers of calls were not deleted");
                return;
            }
        }
    }
}

/// Creates the next partitions. Runs without a partition go to the default one.
pub(crate) async fn prepare(pool: &PgPool, now: DateTime<Utc>, retention: Retention) {
    match store::prepare_partitions(pool, now, retention.partition_width()).await {
        Ok(true) => {}
        Ok(false) => tracing::info!(
            "retention: the journal was locked, so a new partition is left to the next attempt"
        ),
        Err(error) => {
            tracing::warn!(%error, "retention: the journal's partitions could not be created; the next attempt is in 10 minutes")
        }
    }
}

/// Deletes the runs that expired by now, and the tasks of namespaces that have a retention of their own.
///
/// # Errors
/// [`StoreError`]; runs deleted until then stay deleted.
///
/// # Cancel safety
/// Every step is a separate transaction.
async fn forget_expired(
    pool: &PgPool,
    now: DateTime<Utc>,
    (of_runs, of_tasks): (Retention, &[(&str, Retention)]),
) -> Result<(), StoreError> {
    for (namespace, retention) in of_tasks {
        if let Some(before) = retention.before(now) {
            forget_tasks(pool, namespace, before).await?;
        }
    }
    let Some(before) = of_runs.before(now) else { return Ok(()) };
    let apart: Vec<&str> = of_tasks.iter().map(|(namespace, _)| *namespace).collect();
    forget(pool, before, &apart).await
}

/// Deletes the tasks of a namespace whose runs ended before `before`.
async fn forget_tasks(
    pool: &PgPool,
    namespace: &str,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (mut after, mut tasks) = (Uuid::nil(), 0);
    loop {
        let begun = Instant::now();
        let place = (after, BATCH);
        let Some(forgotten) = store::forget_tasks(pool, namespace, before, place).await? else {
            break;
        };
        (after, tasks) = (forgotten.last, tasks + forgotten.runs);
        tokio::time::sleep(begun.elapsed() * REST).await;
    }
    if tasks > 0 {
        tracing::info!(tasks, namespace, %before, "retention: expired tasks were deleted");
    }
    Ok(())
}

/// Deletes all runs that ended before `before`, without those of the namespaces `kept`.
async fn forget(pool: &PgPool, before: DateTime<Utc>, kept: &[&str]) -> Result<(), StoreError> {
    let (mut after, mut runs) = (Uuid::nil(), 0);
    loop {
        let begun = Instant::now();
        let place = (after, BATCH);
        let Some(forgotten) = store::forget_runs(pool, before, kept, place).await? else { break };
        (after, runs) = (forgotten.last, runs + forgotten.runs);
        tokio::time::sleep(begun.elapsed() * REST).await;
    }
    store::forget_anchors(pool, before).await?;
    let partitions = store::drop_partitions(pool, before).await?;
    for partition in store::partitions_to_thin(pool, before).await? {
        thin(pool, &partition, before).await?;
    }
    if runs > 0 || partitions > 0 {
        tracing::info!(runs, partitions, %before, "retention: expired runs were deleted");
    }
    Ok(())
}

/// Deletes the journals of deleted runs from a partition that is kept.
async fn thin(pool: &PgPool, partition: &str, before: DateTime<Utc>) -> Result<(), StoreError> {
    let mut after = Uuid::nil();
    loop {
        let begun = Instant::now();
        match store::forget_journals(pool, partition, before, (after, BATCH)).await? {
            Some(last) => after = last,
            None => return Ok(()),
        }
        tokio::time::sleep(begun.elapsed() * REST).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    /// Runs that ended a year ago, one for each of a thousand seconds, and one that waits.
    const OLD: &str = "
        with made as (
            insert into run (id, namespace, request_id, request_digest, goal, driver, workspace,
                             limits, policy, labels, trace_parent, created_at)
            select (lpad(to_hex((extract(epoch from $1::timestamptz)::bigint + n) * 1000), 12, '0')
                    || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
                   'test', '', '', '', 'script', '', '{}', '{}', '{}', '', $1
            from generate_series(1, 1000) as n
            returning id
        ),
        given as (
            insert into verdict (run_id, sequence, plan_revision, accepted, decided_at)
            select id, 1, 1, true, $1 from made
        ),
        executing as (
            insert into execution (run_id, namespace, state, version, sequence, priority,
                                   lease_epoch, plan_revision, step_states, progress, terminal,
                                   deadline_at, updated_at)
            select id, 'test', case when waits then 'EXECUTING' else 'DONE' end, 1, 1, 0, 0, 1, '',
                   '{}', case when waits then null else '{}'::json end,
                   case when waits then now() end, $1
            from made, lateral (select id = (select id from made limit 1) as waits) as state
        )
        insert into journal (run_id, sequence, at, actor, entries)
        select id, 1, $1, 'test', '[]' from made";

    #[sqlx::test(migrations = "../common/migrations")]
    async fn a_planner_deletes_all_expired_runs_and_no_others(pool: PgPool) {
        let now = Utc::now();
        let made_at = now - TimeDelta::days(365);
        prepare(&pool, made_at, Retention::Days(90)).await;
        sqlx::query(OLD).bind(made_at).execute(&pool).await.unwrap();
        prepare(&pool, now, Retention::Days(90)).await;
        forget_expired(&pool, now, (Retention::Days(90), &[])).await.unwrap();
        for table in ["run", "execution", "journal"] {
            let statement = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
            let rows: i64 = sqlx::query_scalar(statement).fetch_one(&pool).await.unwrap();
            assert_eq!(rows, 1, "{table}");
        }
    }
}
