//! Deliveries of forges.
//!
//! ```text
//!   DeliveryLog --store--> stored --take--> processed | ignored | refused | repeated | failed --forget--> deleted
//!   (many at once)            ^               |
//!                             +----replay-----+
//! ```

use super::StoreError;
use super::group::{self, Writer};
use super::hook::read_forge;
use super::pool::within;
use crate::crash;
use crate::domain::toolchain::{DeliveryState, Forge};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// The most bytes of bodies in one statement; a single larger one is stored alone.
const MAX_BYTES: usize = 8 << 20;
/// The deliveries deleted in one statement.
const FORGOTTEN_AT_ONCE: i64 = 1000;

/// A delivery that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// A UUIDv7.
    pub id: Uuid,
    /// The hook.
    pub hook: String,
    /// The forge.
    pub forge: Forge,
    /// The forge's own id.
    pub delivery_id: String,
    /// The event, by the forge's header.
    pub event: String,
    /// JSON of the headers, without secrets.
    pub headers: String,
    /// The body as it was signed.
    pub body: Vec<u8>,
    /// SHA-256 of the event and the body.
    pub digest: Vec<u8>,
    /// When it arrived.
    pub received_at: DateTime<Utc>,
}

struct Job {
    delivery: NewDelivery,
    answer: oneshot::Sender<Result<bool, Arc<StoreError>>>,
}

/// Stores deliveries of many connections in few statements.
#[derive(Debug, Clone)]
pub struct DeliveryLog {
    jobs: mpsc::Sender<Job>,
}

impl DeliveryLog {
    /// Starts the writer.
    pub fn start(pool: PgPool) -> Self {
        Self { jobs: group::start(LogWriter { pool }, Arc::default()) }
    }

    /// Stores a delivery. Returns whether it is new; false when its id is stored already.
    ///
    /// # Errors
    /// [`StoreError`], shared by all deliveries of the statement.
    ///
    /// # Cancel safety
    /// A cancelled call may have stored the delivery.
    pub async fn store(&self, delivery: NewDelivery) -> Result<bool, Arc<StoreError>> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| Arc::new(StoreError::ShuttingDown);
        self.jobs.send(Job { delivery, answer }).await.map_err(|_| StoreError::ShuttingDown)?;
        answered.await.map_err(gone)?
    }
}

struct LogWriter {
    pool: PgPool,
}

impl Writer for LogWriter {
    type Job = Job;

    fn is_awaited(_: &Job) -> bool {
        true
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Job>) {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some(job) = waiting.front() {
            bytes += job.delivery.body.len();
            if bytes > MAX_BYTES && !batch.is_empty() {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        let stored = store(&self.pool, batch.iter().map(|job| &job.delivery)).await;
        let stored = stored.map_err(Arc::new);
        for Job { delivery, answer } in batch {
            let is_new = stored.as_ref().map(|new| new.contains(&delivery.id)).map_err(Arc::clone);
            // The caller may have gone; its delivery is stored all the same.
            answer.send(is_new).ok();
        }
    }
}

/// Stores deliveries in one transaction, and returns the ids of the new ones.
async fn store<'a>(
    pool: &PgPool,
    deliveries: impl Iterator<Item = &'a NewDelivery>,
) -> Result<HashSet<Uuid>, StoreError> {
    let mut rows = Columns::default();
    deliveries.for_each(|delivery| rows.push(delivery));
    let storing = sqlx::query_scalar(include_str!("sql/delivery_store.sql"))
        .bind(rows.ids)
        .bind(rows.hooks)
        .bind(rows.forges)
        .bind(rows.delivery_ids)
        .bind(rows.events)
        .bind(rows.headers)
        .bind(rows.bodies)
        .bind(rows.digests)
        .bind(rows.received);
    crash::point("planner.before_delivery");
    let ids: Vec<Uuid> = within(async { Ok(storing.fetch_all(pool).await?) }).await?;
    crash::point("planner.after_delivery");
    Ok(ids.into_iter().collect())
}

#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    hooks: Vec<&'a str>,
    forges: Vec<&'a str>,
    delivery_ids: Vec<&'a str>,
    events: Vec<&'a str>,
    headers: Vec<&'a str>,
    bodies: Vec<&'a [u8]>,
    digests: Vec<&'a [u8]>,
    received: Vec<DateTime<Utc>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, delivery: &'a NewDelivery) {
        let NewDelivery { id, hook, forge, delivery_id, event, headers, body, digest, received_at } =
            delivery;
        self.ids.push(*id);
        self.hooks.push(hook);
        self.forges.push(forge.as_str());
        self.delivery_ids.push(delivery_id);
        self.events.push(event);
        self.headers.push(headers);
        self.bodies.push(body);
        self.digests.push(digest);
        self.received.push(*received_at);
    }
}

/// A delivery that a planner took to process it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenDelivery {
    /// Its id.
    pub id: Uuid,
    /// The hook.
    pub hook: String,
    /// The forge.
    pub forge: Forge,
    /// The event, by the forge's header.
    pub event: String,
    /// JSON of the headers.
    pub headers: String,
    /// The body.
    pub body: Vec<u8>,
    /// How often it was taken, with this time.
    pub attempts: i32,
    /// How often an operator had it processed again.
    pub replays: i32,
    /// The first delivery of the hook with this content.
    pub repeats: Option<Uuid>,
}

#[derive(sqlx::FromRow)]
struct TakenRow {
    id: Uuid,
    hook: String,
    forge: String,
    event: String,
    headers: String,
    body: Vec<u8>,
    attempts: i32,
    replays: i32,
    repeats: Option<Uuid>,
}

/// Takes at most `limit` due deliveries. No other planner takes them until `until`.
///
/// # Errors
/// [`StoreError`]
pub async fn take_forge_deliveries(
    pool: &PgPool,
    (now, until): (DateTime<Utc>, DateTime<Utc>),
    limit: i64,
) -> Result<Vec<TakenDelivery>, StoreError> {
    let taking =
        sqlx::query_as(include_str!("sql/delivery_take.sql")).bind(now).bind(until).bind(limit);
    let rows: Vec<TakenRow> = within(async { Ok(taking.fetch_all(pool).await?) }).await?;
    let read = |row: TakenRow| {
        let TakenRow { id, hook, forge, event, headers, body, attempts, replays, repeats } = row;
        let forge = read_forge(&forge, || format!("delivery {id}"))?;
        Ok(TakenDelivery { id, hook, forge, event, headers, body, attempts, replays, repeats })
    };
    rows.into_iter().map(read).collect()
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryEnd {
    /// The delivery.
    pub id: Uuid,
    /// The forge that sent it.
    pub forge: Forge,
    /// The attempt, as it was taken.
    pub attempts: i32,
    /// Its state; `Stored` has it processed again at `again_at`.
    pub state: DeliveryState,
    /// Why, as a code; empty for tasks.
    pub reason: String,
    /// What is wrong, in a sentence; empty where nothing is.
    pub problem: String,
    /// The tasks that it made.
    pub tasks: Vec<Uuid>,
    /// The time of the next attempt.
    pub again_at: Option<DateTime<Utc>>,
}

/// Stores what came of deliveries, in one statement.
///
/// # Errors
/// [`StoreError`]
pub async fn end_forge_deliveries(
    pool: &PgPool,
    ended: &[DeliveryEnd],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let tasks =
        |end: &DeliveryEnd| end.tasks.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
    let ending = sqlx::query(include_str!("sql/delivery_end.sql"))
        .bind(ended.iter().map(|end| end.id).collect::<Vec<_>>())
        .bind(ended.iter().map(|end| end.attempts).collect::<Vec<_>>())
        .bind(ended.iter().map(|end| end.state.as_str()).collect::<Vec<_>>())
        .bind(ended.iter().map(|end| end.reason.as_str()).collect::<Vec<_>>())
        .bind(ended.iter().map(|end| end.problem.as_str()).collect::<Vec<_>>())
        .bind(ended.iter().map(tasks).collect::<Vec<_>>())
        .bind(ended.iter().map(|end| end.again_at).collect::<Vec<_>>())
        .bind(now);
    crash::point("planner.before_processed");
    within(async { Ok(ending.execute(pool).await?) }).await?;
    crash::point("planner.after_processed");
    Ok(())
}

/// A stored delivery, without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// Its id.
    pub id: Uuid,
    /// The hook.
    pub hook: String,
    /// The forge.
    pub forge: Forge,
    /// The forge's own id.
    pub delivery_id: String,
    /// The event, by the forge's header.
    pub event: String,
    /// When it arrived.
    pub received_at: DateTime<Utc>,
    /// What became of it.
    pub state: DeliveryState,
    /// Why, as a code.
    pub reason: String,
    /// What is wrong, in a sentence.
    pub problem: String,
    /// The tasks that it made.
    pub tasks: Vec<Uuid>,
    /// How often it was processed since it arrived, or since its last replay.
    pub attempts: i32,
    /// How often an operator had it processed again.
    pub replays: i32,
    /// When it was processed.
    pub processed_at: Option<DateTime<Utc>>,
    /// The size of its body.
    pub bytes: i32,
}

#[derive(sqlx::FromRow)]
struct StoredRow {
    id: Uuid,
    hook: String,
    forge: String,
    delivery_id: String,
    event: String,
    received_at: DateTime<Utc>,
    state: String,
    reason: String,
    problem: String,
    tasks: Vec<Uuid>,
    attempts: i32,
    replays: i32,
    processed_at: Option<DateTime<Utc>>,
    bytes: i32,
}

impl StoredRow {
    fn into_delivery(self) -> Result<StoredDelivery, StoreError> {
        let Self {
            id,
            hook,
            forge,
            delivery_id,
            event,
            received_at,
            state,
            reason,
            problem,
            tasks,
            attempts,
            replays,
            processed_at,
            bytes,
        } = self;
        let what = || format!("delivery {id}");
        let forge = read_forge(&forge, what)?;
        let state = DeliveryState::from_text(&state)
            .ok_or_else(|| StoreError::corrupt(what(), format!("{state} is no state")))?;
        Ok(StoredDelivery {
            id,
            hook,
            forge,
            delivery_id,
            event,
            received_at,
            state,
            reason,
            problem,
            tasks,
            attempts,
            replays,
            processed_at,
            bytes,
        })
    }
}

/// Which deliveries are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Of this hook; empty for all.
    pub hook: String,
    /// In these states; empty for all.
    pub states: Vec<DeliveryState>,
    /// Before this one.
    pub before: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// A page of deliveries, the newest first.
///
/// # Errors
/// [`StoreError`]
pub async fn list_forge_deliveries(
    pool: &PgPool,
    filter: &DeliveryFilter,
) -> Result<Vec<StoredDelivery>, StoreError> {
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let listing = sqlx::query_as(include_str!("sql/delivery_list.sql"))
        .bind(&filter.hook)
        .bind(states)
        .bind(filter.before)
        .bind(filter.limit);
    let rows: Vec<StoredRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(StoredRow::into_delivery).collect()
}

/// A delivery with the JSON of its headers and its body.
pub type WholeDelivery = (StoredDelivery, String, Vec<u8>);

#[derive(sqlx::FromRow)]
struct WholeRow {
    #[sqlx(flatten)]
    stored: StoredRow,
    headers: String,
    body: Vec<u8>,
}

/// One delivery, whole.
///
/// # Errors
/// [`StoreError`]
pub async fn find_forge_delivery(
    pool: &PgPool,
    id: Uuid,
) -> Result<Option<WholeDelivery>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/delivery_find.sql")).bind(id);
    let row: Option<WholeRow> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    row.map(|row| Ok((row.stored.into_delivery()?, row.headers, row.body))).transpose()
}

/// Has a delivery processed again; none when there is none.
///
/// # Errors
/// [`StoreError`]
pub async fn replay_forge_delivery(
    pool: &PgPool,
    id: Uuid,
    now: DateTime<Utc>,
) -> Result<Option<StoredDelivery>, StoreError> {
    let replaying = sqlx::query_as(include_str!("sql/delivery_replay.sql")).bind(id).bind(now);
    let row: Option<StoredRow> =
        within(async { Ok(replaying.fetch_optional(pool).await?) }).await?;
    row.map(StoredRow::into_delivery).transpose()
}

/// Deletes some deliveries that ended and arrived before `before`. Returns how many.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_forge_deliveries(
    pool: &PgPool,
    before: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let forgetting =
        sqlx::query(include_str!("sql/delivery_forget.sql")).bind(before).bind(FORGOTTEN_AT_ONCE);
    let done = within(async { Ok(forgetting.execute(pool).await?) }).await?;
    Ok(done.rows_affected())
}

/// How many deliveries wait to be processed, counted up to 100,000.
///
/// # Errors
/// [`StoreError`]
pub async fn delivery_backlog(pool: &PgPool) -> Result<i64, StoreError> {
    let counting = sqlx::query_scalar(include_str!("sql/delivery_backlog.sql"));
    within(async { Ok(counting.fetch_one(pool).await?) }).await
}
