//! The policies of namespaces, and what is remembered of them for a moment.

use super::StoreError;
use super::pool::within;
use super::request_outcome::{NewOutcome, store_outcome};
use crate::domain::check::{Overlay, decode_overlay, encode_overlay};
use crate::domain::json;
use crate::domain::policy::NamespacePolicy;
use chrono::{DateTime, Utc};
use hashlink::LruCache;
use sqlx::PgPool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// For how long a policy that was read counts. A change holds everywhere after this time.
const FRESH: Duration = Duration::from_secs(1);
/// Namespaces that are remembered.
const REMEMBERED: usize = 4096;

/// A policy as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The policy.
    pub policy: NamespacePolicy,
    /// From 1.
    pub version: i64,
    /// When it was set.
    pub updated_at: DateTime<Utc>,
    /// The identity that set it.
    pub updated_by: String,
}

/// A policy to be set.
#[derive(Debug, Clone, Copy)]
pub struct NewPolicy<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The policy.
    pub policy: &'a NamespacePolicy,
    /// The version it replaces, 0 for none; none replaces any.
    pub expected_version: Option<i64>,
    /// The identity that sets it.
    pub updated_by: &'a str,
    /// Now.
    pub updated_at: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
struct PolicyRow {
    version: i64,
    body: String,
    updated_at: DateTime<Utc>,
    updated_by: String,
    /// The stored forms of overlays; a row that was just written has none.
    #[sqlx(default)]
    overlays: Vec<Vec<u8>>,
}

impl PolicyRow {
    fn into_policy(self, namespace: &str) -> Result<StoredPolicy, StoreError> {
        let what = || format!("policy of namespace {namespace:?}");
        let value = json::parse_stored(&self.body)
            .map_err(|error| StoreError::corrupt(what(), error))?
            .value;
        let policy = NamespacePolicy::from_json(&value)
            .map_err(|error| StoreError::corrupt(what(), error))?;
        let overlays = self.overlays.iter().filter_map(|body| decode_overlay(body));
        let policy = policy.with_overlays(&overlays.map(Overlay::of).collect::<Vec<_>>());
        let Self { version, updated_at, updated_by, .. } = self;
        Ok(StoredPolicy { policy, version, updated_at, updated_by })
    }
}

/// The policy of a namespace; none where it was never set.
///
/// # Errors
/// [`StoreError`]
pub async fn find_policy(
    pool: &PgPool,
    namespace: &str,
) -> Result<Option<StoredPolicy>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/find_policy.sql")).bind(namespace);
    let row: Option<PolicyRow> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    row.map(|row| row.into_policy(namespace)).transpose()
}

/// The result of setting a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetPolicy {
    /// It is stored.
    Stored(Box<StoredPolicy>),
    /// The stored policy has another version than the expected one; nothing was stored.
    OtherVersion,
    /// The same call was answered concurrently; nothing was stored.
    Repeated,
}

/// Sets a policy, with its audit row and the answer of the call.
///
/// # Errors
/// [`StoreError`]
pub async fn set_policy(
    pool: &PgPool,
    new: NewPolicy<'_>,
    answer: impl FnOnce(&StoredPolicy) -> Option<NewOutcome>,
) -> Result<SetPolicy, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let row: Option<PolicyRow> = sqlx::query_as(include_str!("sql/set_policy.sql"))
            .bind(new.namespace)
            .bind(new.policy.to_json().to_compact())
            .bind(new.updated_at)
            .bind(new.updated_by)
            .bind(new.expected_version)
            .bind(Uuid::now_v7())
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(row) = row else { return Ok(SetPolicy::OtherVersion) };
        let stored = row.into_policy(new.namespace)?;
        let overlays = new.policy.overlays();
        let (digests, bodies): (Vec<&str>, Vec<Vec<u8>>) =
            overlays.into_iter().map(|(digest, files)| (digest, encode_overlay(files))).unzip();
        sqlx::query(include_str!("sql/set_overlays.sql"))
            .bind(new.namespace)
            .bind(digests)
            .bind(bodies)
            .execute(&mut *transaction)
            .await?;
        if let Some(outcome) = answer(&stored)
            && !store_outcome(&mut transaction, &outcome).await?
        {
            transaction.rollback().await?;
            return Ok(SetPolicy::Repeated);
        }
        transaction.commit().await?;
        Ok(SetPolicy::Stored(Box::new(stored)))
    })
    .await
}

/// The policies of one database's namespaces, each read at most once a second.
pub struct Policies {
    pool: PgPool,
    remembered: Mutex<LruCache<String, (Arc<NamespacePolicy>, Instant)>>,
}

impl Policies {
    /// Those of a database.
    #[must_use]
    pub fn of(pool: PgPool) -> Self {
        Self { pool, remembered: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// The policy in force, at most a second old.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn find(&self, namespace: &str) -> Result<Arc<NamespacePolicy>, StoreError> {
        let known = self.lock().get(namespace).cloned();
        if let Some((policy, read_at)) = known
            && read_at.elapsed() < FRESH
        {
            return Ok(policy);
        }
        let read_at = Instant::now();
        let found = find_policy(&self.pool, namespace).await?;
        let policy = Arc::new(found.map(|found| found.policy).unwrap_or_default());
        self.lock().insert(namespace.to_owned(), (Arc::clone(&policy), read_at));
        Ok(policy)
    }

    /// Forgets a policy that this process changed.
    pub fn forget(&self, namespace: &str) {
        self.lock().remove(namespace);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, (Arc<NamespacePolicy>, Instant)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
