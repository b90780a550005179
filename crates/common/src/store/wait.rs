//! The table of waits: who supplies an answer, under which lease.
//!
//! ```text
//!   apply (opens, answers, closes)      a change of the run, in its transaction
//!   lease, extend, release, expire      of a participant: the run's row stays as it is
//! ```

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::group::{self, Writer};
use super::options::PLAN_FOR_VALUES;
use super::pool::within;
use crate::crash;
use crate::domain::execution::wait_rows::WaitKind;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::types::Json;
use sqlx::{Connection, PgPool};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// The most namespaces that one scan lists.
const MAX_NAMESPACES: i64 = 20_000;

/// An offered wait.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct OfferedWait {
    /// The wait.
    pub(super) id: Uuid,
    /// The namespace of its run.
    pub(super) namespace: String,
}

/// An offered wait of a run that a participant names.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct OfferedRunWait {
    /// The wait.
    pub(super) id: Uuid,
    /// Its run.
    pub(super) run_id: Uuid,
    /// The namespace of its run.
    pub(super) namespace: String,
    /// The labels of its run.
    #[sqlx(json)]
    pub(super) labels: BTreeMap<String, String>,
}

impl OfferedRunWait {
    pub(super) fn to_offered(&self) -> OfferedWait {
        OfferedWait { id: self.id, namespace: self.namespace.clone() }
    }
}

/// An offered wait of a task.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OfferedTaskWait {
    /// The wait.
    pub id: Uuid,
    /// Its run.
    pub run_id: Uuid,
    /// The namespace of its run.
    pub namespace: String,
    /// The agent that must act.
    pub assignee: String,
    /// The labels of its run.
    #[sqlx(json)]
    pub labels: BTreeMap<String, String>,
}

/// An agent that asks for decisions of its tasks, and the labels that their runs must carry.
pub(super) type AskingAssignee = (String, BTreeMap<String, String>);

/// A wait that is to be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOrder {
    /// The wait.
    pub wait_id: Uuid,
    /// The participant: the name of its identity, a space, and its own name.
    pub holder: String,
    /// How long a sign of life of the participant extends the lease, in milliseconds.
    pub lease_ms: i32,
}

/// The lease of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct WaitLease {
    /// The wait.
    #[sqlx(rename = "id")]
    pub wait_id: Uuid,
    /// The run that waits.
    pub run_id: Uuid,
    /// The fencing token.
    pub lease_epoch: i64,
    /// When it ends without a sign of life.
    #[sqlx(rename = "lease_expires_at")]
    pub expires_at: DateTime<Utc>,
    /// When the time of its step is over; none for a wait that the step's clock does not end.
    pub step_until: Option<DateTime<Utc>>,
}

/// A lease as a participant names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldLease {
    /// The run.
    pub run_id: Uuid,
    /// The fencing token.
    pub lease_epoch: i64,
    /// The name of the identity under which it was taken.
    pub identity: String,
}

/// The stored state of a lease that a participant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredLease {
    /// The wait.
    pub wait_id: Uuid,
    /// When it ends without a sign of life.
    pub expires_at: DateTime<Utc>,
    /// Whether the wait is answered, and the answer not carried out yet.
    pub answered: bool,
    /// For how long no participant had leased the wait, with the time since an expiry.
    pub unleased: TimeDelta,
}

/// The namespaces with offered waits of a kind. Waits whose lease has expired at `now` are offered again.
///
/// # Errors
/// [`StoreError`]
pub async fn offered_namespaces(
    dedicated: &mut DedicatedConnection,
    kind: WaitKind,
    now: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let listed = sqlx::query_scalar(include_str!("sql/offered_namespaces.sql"))
        .bind(kind.as_str())
        .bind(now)
        .bind(MAX_NAMESPACES);
    crash::point("executor.before_wait_offer");
    let listed = dedicated.ask(async |connection| listed.fetch_all(connection).await).await;
    crash::point("executor.after_wait_offer");
    listed
}

const OFFERED: &str =
    concat!(include_str!("sql/offered_waits.sql"), include_str!("sql/offered_waits_end.sql"));
const OFFERED_WITH_LABELS: &str = concat!(
    include_str!("sql/offered_waits.sql"),
    include_str!("sql/offered_waits_labels.sql"),
    include_str!("sql/offered_waits_end.sql")
);

/// At most `most` offered waits of each namespace, the most urgent first, of runs that carry all of the labels. Of a namespace
/// that [`offered_namespaces`] has listed.
///
/// # Errors
/// [`StoreError`]
pub(super) async fn offered_waits(
    dedicated: &mut DedicatedConnection,
    kind: WaitKind,
    namespaces: &[String],
    (labels, most): (&BTreeMap<String, String>, i64),
) -> Result<Vec<OfferedWait>, StoreError> {
    if labels.is_empty() {
        let listed = sqlx::query_as(OFFERED).bind(kind.as_str()).bind(namespaces).bind(most);
        return dedicated.ask(async |connection| listed.fetch_all(connection).await).await;
    }
    let listed = sqlx::query_as(OFFERED_WITH_LABELS)
        .bind(kind.as_str())
        .bind(namespaces)
        .bind(most)
        .bind(Json(labels));
    // Rare labels are found by their index, common ones by urgency.
    let asked = dedicated.ask(async |connection| {
        let mut transaction = connection.begin_with(PLAN_FOR_VALUES).await?;
        let offered = listed.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(offered)
    });
    asked.await
}

/// The offered waits of these runs, the most urgent first.
///
/// # Errors
/// [`StoreError`]
pub(super) async fn offered_run_waits(
    dedicated: &mut DedicatedConnection,
    kind: WaitKind,
    namespaces: &[String],
    (run_ids, now): (&[Uuid], DateTime<Utc>),
) -> Result<Vec<OfferedRunWait>, StoreError> {
    let listed = sqlx::query_as(include_str!("sql/offered_run_waits.sql"))
        .bind(kind.as_str())
        .bind(run_ids)
        .bind(namespaces)
        .bind(now);
    dedicated.ask(async |connection| listed.fetch_all(connection).await).await
}

/// At most `most` offered decisions of the tasks of each assignee whose runs carry the labels that it names, and those of
/// `run_ids`, the most urgent first.
///
/// # Errors
/// [`StoreError`]
pub async fn offered_task_waits(
    dedicated: &mut DedicatedConnection,
    namespaces: &[String],
    (assignees, run_ids): (&[AskingAssignee], &[Uuid]),
    (most, now): (i64, DateTime<Utc>),
) -> Result<Vec<OfferedTaskWait>, StoreError> {
    let (assignees, labels): (Vec<&str>, Vec<Json<_>>) =
        assignees.iter().map(|(name, labels)| (name.as_str(), Json(labels))).unzip();
    let listed = sqlx::query_as(include_str!("sql/offered_task_waits.sql"))
        .bind(assignees)
        .bind(namespaces)
        .bind(most)
        .bind(now)
        .bind(run_ids)
        .bind(labels);
    dedicated.ask(async |connection| listed.fetch_all(connection).await).await
}

/// Leases waits, except those that were leased or ended in the meantime.
///
/// # Errors
/// [`StoreError`]. A lease that was stored unnoticed expires.
pub async fn lease_waits(
    dedicated: &mut DedicatedConnection,
    orders: &[LeaseOrder],
    now: DateTime<Utc>,
) -> Result<Vec<WaitLease>, StoreError> {
    let ids: Vec<Uuid> = orders.iter().map(|order| order.wait_id).collect();
    let holders: Vec<&str> = orders.iter().map(|order| order.holder.as_str()).collect();
    let times: Vec<i32> = orders.iter().map(|order| order.lease_ms).collect();
    let leasing = sqlx::query_as(include_str!("sql/lease_waits.sql"))
        .bind(ids)
        .bind(holders)
        .bind(times)
        .bind(now);
    crash::point("executor.before_wait_lease");
    let leased = dedicated.ask(async |connection| leasing.fetch_all(connection).await).await?;
    crash::point("executor.after_wait_lease");
    Ok(leased)
}

/// Leases one wait, as [`lease_waits`] does; none where it was leased or ended in the meantime.
///
/// # Errors
/// [`StoreError`]. A lease that was stored unnoticed expires.
pub async fn lease_wait(
    pool: &PgPool,
    order: &LeaseOrder,
    now: DateTime<Utc>,
) -> Result<Option<WaitLease>, StoreError> {
    let leasing = sqlx::query_as(include_str!("sql/lease_waits.sql"))
        .bind([order.wait_id])
        .bind([order.holder.as_str()])
        .bind([order.lease_ms])
        .bind(now);
    within(async { Ok(leasing.fetch_optional(pool).await?) }).await
}

/// The lease of a participant, if it still holds it at `now`: until it is leased again, one that has expired is held.
///
/// # Errors
/// [`StoreError`]
pub async fn find_lease(
    pool: &PgPool,
    lease: &HeldLease,
    now: DateTime<Utc>,
) -> Result<Option<StoredLease>, StoreError> {
    let HeldLease { run_id, lease_epoch, identity } = lease;
    let found = sqlx::query_as(include_str!("sql/find_lease.sql"))
        .bind(run_id)
        .bind(lease_epoch)
        .bind(identity)
        .bind(now);
    let row: Option<(Uuid, DateTime<Utc>, bool, i64)> =
        within(async { Ok(found.fetch_optional(pool).await?) }).await?;
    Ok(row.map(|(wait_id, expires_at, answered, free_ms)| {
        let unleased = TimeDelta::milliseconds(free_ms);
        StoredLease { wait_id, expires_at, answered, unleased }
    }))
}

/// Whether a participant with this identity has leased a decision or a plan of a run.
///
/// # Errors
/// [`StoreError`]
pub async fn holds_decision(
    pool: &PgPool,
    run_id: Uuid,
    identity: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar(include_str!("sql/holds_decision.sql"))
        .bind(run_id)
        .bind(identity)
        .bind(now);
    within(async { Ok(found.fetch_one(pool).await?) }).await
}

/// Ends the lease of a participant at `now`, so that its wait is offered again. Returns false when the participant did not
/// hold it any more.
///
/// # Errors
/// [`StoreError`]
pub async fn release_wait(
    pool: &PgPool,
    lease: &HeldLease,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    release_until(pool, lease, (now, None)).await
}

/// As [`release_wait`], for a model whose endpoint does not answer: the wait is offered again at `retry_at`.
///
/// # Errors
/// [`StoreError`]
pub async fn release_until(
    pool: &PgPool,
    lease: &HeldLease,
    (now, retry_at): (DateTime<Utc>, Option<DateTime<Utc>>),
) -> Result<bool, StoreError> {
    let HeldLease { run_id, lease_epoch, identity } = lease;
    let releasing = sqlx::query_scalar(include_str!("sql/release_wait.sql"))
        .bind(run_id)
        .bind(lease_epoch)
        .bind(identity)
        .bind(now)
        .bind(retry_at);
    crash::point("executor.before_wait_release");
    let released: Option<Uuid> =
        within(async { Ok(releasing.fetch_optional(pool).await?) }).await?;
    crash::point("executor.after_wait_release");
    Ok(released.is_some())
}

/// A lease that was extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// When it ends without a further sign of life.
    pub expires_at: DateTime<Utc>,
    /// Whether its run is paused.
    pub withheld: bool,
}

/// The process's single writer of the heartbeats of participants: those that arrive together are one statement.
/// Clones share it.
#[derive(Clone)]
pub struct WaitHeartbeats {
    jobs: mpsc::Sender<Heartbeat>,
}

struct Heartbeat {
    leases: Vec<HeldLease>,
    now: DateTime<Utc>,
    reply: oneshot::Sender<Vec<Option<Extended>>>,
}

impl WaitHeartbeats {
    /// Starts the writer on a dedicated connection.
    pub fn start(pool: PgPool) -> Self {
        let beats = Beats { dedicated: DedicatedConnection::new(pool) };
        Self { jobs: group::start(beats, Arc::default()) }
    }

    /// Extends leases. Answers for each of them what it is now; none for a lost one.
    ///
    /// # Errors
    /// [`StoreError`]; then the leases may or may not be extended.
    pub async fn extend(
        &self,
        leases: Vec<HeldLease>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Option<Extended>>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Heartbeat { leases, now, reply };
        self.jobs.send(job).await.map_err(|_| StoreError::ShuttingDown)?;
        answer.await.map_err(|_| StoreError::Unavailable { client: sqlx::Error::WorkerCrashed })
    }
}

struct Beats {
    dedicated: DedicatedConnection,
}

impl Writer for Beats {
    type Job = Heartbeat;

    fn is_awaited(_: &Heartbeat) -> bool {
        true
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Heartbeat>) {
        let beats: Vec<Heartbeat> =
            waiting.drain(..).filter(|beat| !beat.reply.is_closed()).collect();
        let extended = match self.extend(&beats).await {
            Ok(extended) => extended,
            Err(error) => {
                // The callers get an error, because their answers are dropped with the batch.
                tracing::warn!(%error, beats = beats.len(), "waits: heartbeats of participants could not be stored");
                return;
            }
        };
        for Heartbeat { leases, reply, .. } in beats {
            let now = leases.iter();
            let now = now.map(|lease| extended.get(&(lease.run_id, lease.lease_epoch)).copied());
            // A caller that dropped its receiver needs no answer.
            drop(reply.send(now.collect()));
        }
    }
}

impl Beats {
    async fn extend(
        &mut self,
        beats: &[Heartbeat],
    ) -> Result<HashMap<(Uuid, i64), Extended>, StoreError> {
        let Some(now) = beats.iter().map(|beat| beat.now).max() else { return Ok(HashMap::new()) };
        let leases = || beats.iter().flat_map(|beat| &beat.leases);
        let run_ids: Vec<Uuid> = leases().map(|lease| lease.run_id).collect();
        let epochs: Vec<i64> = leases().map(|lease| lease.lease_epoch).collect();
        let identities: Vec<String> = leases().map(|lease| lease.identity.clone()).collect();
        let extending = sqlx::query_as(include_str!("sql/extend_waits.sql"))
            .bind(run_ids)
            .bind(epochs)
            .bind(identities)
            .bind(now);
        crash::point("executor.before_wait_heartbeat");
        let rows: Vec<(Uuid, i64, bool, DateTime<Utc>)> =
            self.dedicated.ask(async |connection| extending.fetch_all(connection).await).await?;
        crash::point("executor.after_wait_heartbeat");
        Ok(rows
            .into_iter()
            .map(|(run_id, epoch, withheld, expires_at)| {
                ((run_id, epoch), Extended { expires_at, withheld })
            })
            .collect())
    }
}
