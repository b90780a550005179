//! Claiming runs: leases, takeovers and releases.

use super::StoreError;
use super::apply::{Outcome, apply};
use super::committer::Commit;
use super::dedicated_connection::DedicatedConnection;
use super::execution::to_letter;
use super::executor::{Owner, RunLease};
use super::pool::within;
use super::queues::{MAX_QUEUES, Queues, Scan};
use super::signing::Signing;
use super::unread::{self, Unread};
use crate::crash;
use crate::domain::run::RunRecord;
use crate::domain::step::StepState;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use sqlx::{PgPool, Postgres, Transaction};
use std::collections::HashMap;
use uuid::Uuid;

/// Runs that are locked for this process until the transaction ends.
pub struct Claimed {
    transaction: Transaction<'static, Postgres>,
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// The runs whose rows cannot be decoded.
    pub unread: Vec<Unread>,
}

impl Claimed {
    /// Writes the decisions about the runs and releases the locks.
    ///
    /// # Errors
    /// [`StoreError`]: none of the changes is stored or, after a broken connection, the outcome is
    /// unknown. The next heartbeat finds a lease that was stored unnoticed: see [`forgotten`].
    pub async fn commit(
        mut self,
        commits: &[Commit],
        signing: &Signing,
    ) -> Result<Vec<Outcome>, StoreError> {
        let changes: Vec<_> = commits.iter().map(|commit| commit.change().into()).collect();
        if changes.is_empty() {
            within(async { Ok(self.transaction.rollback().await?) }).await?;
            return Ok(Vec::new());
        }
        within(async {
            let outcomes = apply(&mut self.transaction, &changes, signing).await?;
            self.transaction.commit().await?;
            Ok(outcomes)
        })
        .await
    }
}

/// What an executor can claim.
#[derive(Debug, Clone, Copy)]
pub struct Want<'a> {
    /// The current time.
    pub now: DateTime<Utc>,
    /// The executor's id.
    pub owner: Uuid,
    /// Its free slots.
    pub slots: usize,
    /// The runs that it holds, by namespace, including those that released their slot while they
    /// wait.
    pub held: &'a HashMap<String, usize>,
    /// Runs that it must not claim.
    pub except: &'a [Uuid],
}

/// The result of a claim.
#[derive(Debug)]
pub struct Leased {
    /// The runs, as they are under the lease.
    pub runs: Vec<RunRecord>,
    /// Leased runs whose rows cannot be decoded; [`let_go`] returns these leases.
    pub unread: Vec<Unread>,
    /// Whether to claim again as soon as a slot is free.
    pub more: bool,
    /// Whether to call [`find_queues`] once the runs are started.
    pub scan: Scan,
}

/// Leases waiting runs from the known queues in one statement. Namespaces that hold the fewest of
/// this executor's slots come first. Within a namespace, priority and then age decide, but every
/// eighth slot goes by age alone. Lists the queues first when none is known.
///
/// # Errors
/// [`StoreError`]. The next heartbeat finds a lease that was stored unnoticed: see [`forgotten`].
pub async fn claim(
    dedicated: &mut DedicatedConnection,
    queues: &mut Queues,
    want: Want<'_>,
) -> Result<Leased, StoreError> {
    let Want { now, owner, slots, held, except } = want;
    if queues.is_empty() {
        find_queues(dedicated, queues, owner, now).await?;
    }
    if queues.is_empty() {
        let (runs, unread) = (Vec::new(), Vec::new());
        return Ok(Leased { runs, unread, more: false, scan: Scan::Fresh });
    }
    let ask = queues.ask(now, slots, held);
    crash::point("executor.before_claim");
    let claiming = sqlx::query(include_str!("sql/claim.sql"))
        .bind(now)
        .bind(i64::try_from(slots).unwrap_or(i64::MAX))
        .bind(owner)
        .bind(&ask.namespace)
        .bind(&ask.priority)
        .bind(&ask.since)
        .bind(&ask.most)
        .bind(&ask.held)
        .bind(&ask.turn)
        .bind(except);
    let rows = dedicated.ask(async |connection| claiming.fetch_all(connection).await).await?;
    let (runs, unread) = unread::sort(&rows)?;
    let more = queues.learn(now, slots, &ask, runs.iter().map(|run| &run.execution));
    let scan = queues.standing(now, runs.len() < slots);
    Ok(Leased { runs, unread, more, scan })
}

/// Returns leases of `me` on runs whose rows cannot be decoded.
///
/// # Errors
/// [`StoreError`]. The next heartbeat finds a lease that was not returned: see [`forgotten`].
pub async fn let_go(
    pool: &PgPool,
    me: Uuid,
    run_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let given = sqlx::query(include_str!("sql/let_go.sql"))
        .bind(me)
        .bind(run_ids)
        .bind(now)
        .bind(to_letter(StepState::Running).to_string());
    crash::point("executor.before_let_go");
    within(async { Ok(given.execute(pool).await.map(drop)?) }).await?;
    crash::point("executor.after_let_go");
    Ok(())
}

/// Lists queues that hold waiting runs which the executor `owner` may claim. Returns whether to claim again, which a
/// newly found queue requires.
///
/// # Errors
/// [`StoreError`]
pub async fn find_queues(
    dedicated: &mut DedicatedConnection,
    queues: &mut Queues,
    owner: Uuid,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let (namespace, priority) = queues.behind();
    let listing = sqlx::query_as(include_str!("sql/queues.sql"))
        .bind(namespace)
        .bind(priority)
        .bind(i32::try_from(MAX_QUEUES).unwrap_or(i32::MAX))
        .bind(owner);
    let listed: Vec<(String, i16)> =
        dedicated.ask(async |connection| listing.fetch_all(connection).await).await?;
    Ok(queues.list(now, listed))
}

/// Locks up to `limit` runs of the executors in `silent` that have sent no heartbeat since, except
/// those in `except` and those on folders of another host than that of `me`.
///
/// # Errors
/// [`StoreError`]
pub async fn orphans(
    pool: &PgPool,
    me: Uuid,
    silent: &[Owner],
    limit: i64,
    except: &[Uuid],
) -> Result<Claimed, StoreError> {
    let (ids, heartbeats): (Vec<Uuid>, Vec<Option<DateTime<Utc>>>) =
        silent.iter().map(|owner| (owner.id, owner.heartbeat_at)).unzip();
    let held = sqlx::query_scalar(include_str!("sql/orphans.sql"));
    lock(pool, held.bind(ids).bind(heartbeats).bind(limit).bind(except).bind(me)).await
}

/// Locks the runs of those `leases` that `me` still holds. A process uses it for leases that it
/// does not know of because the answer to its claim was lost.
///
/// # Errors
/// [`StoreError`]
pub async fn forgotten(
    pool: &PgPool,
    me: Uuid,
    leases: &[RunLease],
) -> Result<Claimed, StoreError> {
    let (run_ids, epochs): (Vec<Uuid>, Vec<i64>) =
        leases.iter().map(|lease| (lease.run_id, lease.lease_epoch)).unzip();
    let dedicated = sqlx::query_scalar(include_str!("sql/forgotten.sql"));
    lock(pool, dedicated.bind(me).bind(run_ids).bind(epochs)).await
}

/// Locks all runs that `me` has leased. A process that shuts down uses it once it works on none of
/// them.
///
/// # Errors
/// [`StoreError`]
pub async fn left_over(pool: &PgPool, me: Uuid) -> Result<Claimed, StoreError> {
    lock(pool, sqlx::query_scalar(include_str!("sql/left_over.sql")).bind(me)).await
}

/// Loads the runs whose ids a locking statement returns.
async fn lock(
    pool: &PgPool,
    choosing: QueryScalar<'_, Postgres, Uuid, PgArguments>,
) -> Result<Claimed, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let ids = choosing.fetch_all(&mut *transaction).await?;
        let (runs, unread) = load(&mut transaction, &ids).await?;
        Ok(Claimed { transaction, runs, unread })
    })
    .await
}

async fn load(
    transaction: &mut Transaction<'static, Postgres>,
    ids: &[Uuid],
) -> Result<(Vec<RunRecord>, Vec<Unread>), StoreError> {
    if ids.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let rows =
        sqlx::query(include_str!("sql/load.sql")).bind(ids).fetch_all(&mut **transaction).await?;
    unread::sort(&rows)
}
