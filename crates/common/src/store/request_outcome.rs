//! The stored answers of calls that change something: a repeated call changes nothing and gets the
//! first answer.

use super::StoreError;
use super::apply::{Chain, Change, Outcome, apply};
use super::create::store_plan;
use super::plan::StoredPlan;
use super::pool::within;
use super::signing::Signing;
use super::wait::HeldLease;
use super::wake::Topic;
use crate::crash;
use crate::domain::execution::draft::Write;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a repeated call gets the answer of the first one.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// The answers deleted in one transaction.
const FORGOTTEN_AT_ONCE: i64 = 1000;

/// The stored answer of a call.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct StoredOutcome {
    /// The call's method.
    pub method: String,
    /// Digest of the whole request.
    pub request_digest: String,
    /// The encoded response.
    pub response: Vec<u8>,
}

/// An answer, to be stored together with its change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutcome {
    /// What the call changes: the id of a run, a wait or a token, or the name of a policy.
    pub subject: String,
    /// The name of the caller's identity.
    pub identity: String,
    /// The caller's idempotency key.
    pub request_id: String,
    /// The run that the call changes, if it changes one.
    pub run_id: Option<Uuid>,
    /// The answer.
    pub stored: StoredOutcome,
    /// The time of the answer.
    pub at: DateTime<Utc>,
}

/// A change of a run, the plan revision that it stores, and the answer of its call.
#[derive(Clone, Copy, Default)]
pub struct AnsweredChange<'a> {
    /// The change; none when the call found nothing to change.
    pub write: Option<&'a Write>,
    /// The span of the call.
    pub span_id: Option<&'a str>,
    /// The plan revision that it stores.
    pub plan: Option<&'a StoredPlan>,
    /// The answer; none when the caller sent no request id.
    pub outcome: Option<&'a NewOutcome>,
    /// The lease under which it is made; it has to be held when the change is stored.
    pub lease: Option<&'a HeldLease>,
    /// Signs the change and its plan.
    pub signing: Option<&'a Signing>,
}

/// The result of storing a change with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Both are stored.
    Applied,
    /// Another writer changed the run first, or the lease ended: read again and decide again.
    Lost,
    /// The same call was answered concurrently; nothing was stored.
    Repeated,
}

/// The stored answer of a call; none when it has expired at `now`.
///
/// # Errors
/// [`StoreError`]
pub async fn find_outcome(
    pool: &PgPool,
    subject: &str,
    identity: &str,
    request_id: &str,
    now: DateTime<Utc>,
) -> Result<Option<StoredOutcome>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/find_outcome.sql"))
        .bind(subject)
        .bind(identity)
        .bind(request_id)
        .bind(now - KEPT);
    within(async { Ok(found.fetch_optional(pool).await?) }).await
}

/// Stores a change together with its plan and its answer in one transaction.
///
/// # Errors
/// [`StoreError`]; `plan_pkey` in [`StoreError::Constraint`] when the plan's revision is taken.
pub async fn apply_answered(pool: &PgPool, change: AnsweredChange<'_>) -> Result<Kept, StoreError> {
    within(store_and_apply(pool, change)).await
}

async fn store_and_apply(pool: &PgPool, change: AnsweredChange<'_>) -> Result<Kept, StoreError> {
    let AnsweredChange { write, span_id, plan, outcome, lease, signing } = change;
    let unsigned = Signing::default();
    let mut transaction = pool.begin().await?;
    if let Some(outcome) = outcome
        && !store_outcome(&mut transaction, outcome).await?
    {
        transaction.rollback().await?;
        return Ok(Kept::Repeated);
    }
    if let Some(write) = write {
        if let Some(plan) = plan {
            store_plan(&mut transaction, write.execution.run_id, plan).await?;
        }
        let moved = vec![Topic::Moved(write.execution.run_id)];
        let chain = Chain::from(Change { write, span_id }).notify_on_commit(moved);
        let chain = chain.with_plan(plan);
        let signing = signing.unwrap_or(&unsigned);
        if apply(&mut transaction, &[chain], signing).await?.first() != Some(&Outcome::Applied) {
            transaction.rollback().await?;
            return Ok(Kept::Lost);
        }
    }
    // Behind the run's row, as every change locks its rows.
    if let Some(lease) = lease
        && !still_held(&mut transaction, lease).await?
    {
        transaction.rollback().await?;
        return Ok(Kept::Lost);
    }
    crash::point("planner.before_submit");
    transaction.commit().await?;
    crash::point("planner.after_submit");
    Ok(Kept::Applied)
}

/// Whether a lease is held, and stays so until the end of the transaction.
async fn still_held(
    transaction: &mut sqlx::PgConnection,
    lease: &HeldLease,
) -> Result<bool, StoreError> {
    let HeldLease { run_id, lease_epoch, identity } = lease;
    let held: Option<Uuid> = sqlx::query_scalar(include_str!("sql/lock_lease.sql"))
        .bind(run_id)
        .bind(lease_epoch)
        .bind(identity)
        .fetch_optional(transaction)
        .await?;
    Ok(held.is_some())
}

/// Stores an answer. Returns false when the same call has an answer that has not expired.
pub(super) async fn store_outcome(
    transaction: &mut sqlx::PgConnection,
    outcome: &NewOutcome,
) -> Result<bool, StoreError> {
    let NewOutcome { subject, identity, request_id, run_id, stored, at } = outcome;
    let kept: Option<bool> = sqlx::query_scalar(include_str!("sql/store_outcome.sql"))
        .bind(subject)
        .bind(identity)
        .bind(request_id)
        .bind(run_id)
        .bind(&stored.method)
        .bind(&stored.request_digest)
        .bind(&stored.response)
        .bind(at)
        .bind(*at - KEPT)
        .fetch_optional(transaction)
        .await?;
    Ok(kept.is_some())
}

/// Deletes a batch of the answers that have expired at `now`. Returns whether there may be more.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_outcomes(pool: &PgPool, now: DateTime<Utc>) -> Result<bool, StoreError> {
    let forgetting = sqlx::query(include_str!("sql/forget_outcomes.sql"))
        .bind(now - KEPT)
        .bind(FORGOTTEN_AT_ONCE);
    let forgotten = within(async { Ok(forgetting.execute(pool).await?) }).await?;
    Ok(i64::try_from(forgotten.rows_affected()).is_ok_and(|rows| rows >= FORGOTTEN_AT_ONCE))
}
