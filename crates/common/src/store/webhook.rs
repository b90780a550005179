//! Deliveries of webhooks.
//!
//! ```text
//!   wait opens ----------------------note--> due --take--> sent --end--> done --forget--> deleted
//!   run is created --note--> watched --note--> due (it ended)   ^
//!                                               +--- end with a time: again
//! ```
//!
//! Events are read from the rows of waits and runs. No change of a run writes anything here, so that runs cost
//! the same with and without webhooks.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

/// How far back events are looked for again. A change is stored within seconds of the time that it names.
const OVERLAP: TimeDelta = TimeDelta::seconds(60);
/// A plan that no agent has leased for so long is told of: a person may submit it. Shorter than [`OVERLAP`], in which
/// such a wait is looked at again.
const UNLEASED: TimeDelta = TimeDelta::seconds(30);
/// The watched runs of one page.
const PAGE: i64 = 2000;
/// How long a delivery that ended is kept, so that its event is not noted again.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// The deliveries deleted in one statement.
const FORGOTTEN_AT_ONCE: i64 = 5000;

/// What a webhook is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedEvents {
    /// The webhook.
    pub name: String,
    /// Its namespaces; empty for all.
    pub namespaces: Vec<String>,
    /// Whether it is told of waits of people, and of plans that no agent makes.
    pub waits: bool,
    /// Whether it is told of the ends of runs.
    pub runs: bool,
}

/// A delivery that a planner took.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Delivery {
    /// The webhook.
    pub webhook: String,
    /// `wait.opened` or `run.ended`.
    pub event: String,
    /// The wait or the run.
    pub subject: Uuid,
    /// The run.
    pub run_id: Uuid,
    /// When the event was noted.
    pub noted_at: DateTime<Utc>,
    /// How often it was taken, with this time.
    pub attempts: i32,
}

/// Notes new events, and looks at a page of watched runs after `after`. Returns the page's last run; none at
/// the end.
///
/// # Errors
/// [`StoreError`]
pub async fn note_events(
    pool: &PgPool,
    wanted: &[WantedEvents],
    now: DateTime<Utc>,
    after: Uuid,
) -> Result<Option<Uuid>, StoreError> {
    let names: Vec<&str> = wanted.iter().map(|hook| hook.name.as_str()).collect();
    let namespaces: Vec<String> = wanted
        .iter()
        .map(|hook| match hook.namespaces.as_slice() {
            [] => "*".to_owned(),
            some => some.join(","),
        })
        .collect();
    let waits: Vec<bool> = wanted.iter().map(|hook| hook.waits).collect();
    let runs: Vec<bool> = wanted.iter().map(|hook| hook.runs).collect();
    let overlap = PgInterval {
        months: 0,
        days: 0,
        microseconds: OVERLAP.num_microseconds().unwrap_or(i64::MAX),
    };
    let noted = sqlx::query_scalar(include_str!("sql/webhook_note.sql"))
        .bind(names)
        .bind(namespaces)
        .bind(waits)
        .bind(runs)
        .bind(now)
        .bind(overlap)
        .bind(after)
        .bind(PAGE)
        .bind(now - UNLEASED);
    within(async { Ok(noted.fetch_one(pool).await?) }).await
}

/// Which of these webhooks have a delivery that is due.
///
/// # Errors
/// [`StoreError`]
pub async fn due_webhooks(
    pool: &PgPool,
    names: &[String],
    now: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let due = sqlx::query_scalar(include_str!("sql/webhook_due.sql")).bind(names).bind(now);
    within(async { Ok(due.fetch_all(pool).await?) }).await
}

/// Takes at most `limit` due deliveries of a webhook. No other planner takes them until `until`.
///
/// # Errors
/// [`StoreError`]
pub async fn take_deliveries(
    pool: &PgPool,
    webhook: &str,
    (now, until): (DateTime<Utc>, DateTime<Utc>),
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let taken = sqlx::query_as(include_str!("sql/webhook_take.sql"))
        .bind(webhook)
        .bind(now)
        .bind(until)
        .bind(limit);
    within(async { Ok(taken.fetch_all(pool).await?) }).await
}

/// Ends a delivery, or has it sent again at a time.
///
/// # Errors
/// [`StoreError`]
pub async fn end_delivery(
    pool: &PgPool,
    delivery: &Delivery,
    again_at: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let ended = sqlx::query(include_str!("sql/webhook_done.sql"))
        .bind(&delivery.webhook)
        .bind(&delivery.event)
        .bind(delivery.subject)
        .bind(again_at);
    within(async { Ok(ended.execute(pool).await?) }).await.map(drop)
}

/// Deletes deliveries that ended a day ago, some thousand at a time.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_deliveries(pool: &PgPool, now: DateTime<Utc>) -> Result<(), StoreError> {
    let forgotten = sqlx::query(include_str!("sql/webhook_forget.sql"))
        .bind(now - KEPT)
        .bind(FORGOTTEN_AT_ONCE);
    within(async { Ok(forgotten.execute(pool).await?) }).await.map(drop)
}
