//! Signs what a service stores: one signature for the rows of a group commit, and one for each statement about a
//! verdict. Both take tens of microseconds, so they are made where the rows are.

use super::StoreError;
use super::plan::StoredPlan;
use super::pool::within;
use crate::clock;
use crate::domain::journal::{Entry, VerdictRecord};
use crate::domain::json::sha256;
use crate::domain::signature::{
    CommitLine, EntryLine, EntrySignature, KeyId, PlanColumns, PublicKey, RowLeaves, RowSignature,
    SecretKey, Service, SignedColumns, SignedVerdict, StateChange, instant,
};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::sync::Arc;
use uuid::Uuid;

/// The key that a service signs with now. It changes when the key is rotated.
pub trait CurrentKey: Send + Sync {
    /// The key.
    fn current(&self) -> Arc<SecretKey>;

    /// The key that was current at a time, as far as this process knows. What states its own time is signed with it, also
    /// where it is stored only after a rotation.
    fn at(&self, time: DateTime<Utc>) -> Arc<SecretKey>;
}

/// Signs what one service stores. Without a key rows are stored unsigned. Clones share the key.
#[derive(Clone, Default)]
pub struct Signing(Option<(Service, Arc<dyn CurrentKey>)>);

/// A row before it is signed.
pub(super) struct RowToSign<'a> {
    pub(super) run_id: Uuid,
    pub(super) sequence: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) actor: &'a str,
    pub(super) text: &'a str,
    pub(super) entries: Vec<&'a Entry>,
    pub(super) columns: SignedColumns,
    /// What the row makes of the run's mutable row.
    pub(super) change: StateChange,
}

impl RowToSign<'_> {
    /// A row without entries is not stored, and has no leaves.
    fn leaves(self) -> RowLeaves {
        let Self { run_id, sequence, at, actor, text, entries, columns, change } = self;
        if text.is_empty() {
            return RowLeaves::default();
        }
        let verdicts = entries.iter().filter(|entry| matches!(entry, Entry::Verdict(_))).count();
        let is_answer =
            |entry: &&&Entry| matches!(entry, Entry::Answer(answer) if answer.is_of_a_person());
        let answers = entries.iter().filter(is_answer).count();
        let line = CommitLine {
            sequence,
            entries: u32::try_from(entries.len()).unwrap_or(u32::MAX),
            at,
            actor: actor.to_owned(),
            entries_digest: sha256(&[text.as_bytes()]),
            verdicts: u32::try_from(verdicts).unwrap_or(u32::MAX),
            answers: u32::try_from(answers).unwrap_or(u32::MAX),
            change: Some(change),
        };
        let receipts = entries.into_iter().filter_map(|entry| match entry {
            Entry::Receipt(receipt) => Some(&**receipt),
            Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Turn(_)
            | Entry::Intent(_)
            | Entry::Output(_)
            | Entry::Verdict(_)
            | Entry::Answer(_)
            | Entry::Forked(_) => None,
        });
        let mut buffer = Uuid::encode_buffer();
        RowLeaves::of(run_id.hyphenated().encode_lower(&mut buffer), receipts, columns, &line)
    }
}

impl Signing {
    /// Signs with the key of a service.
    pub fn of(service: Service, key: Arc<dyn CurrentKey>) -> Self {
        Self(Some((service, key)))
    }

    /// Whether rows are signed.
    pub(super) const fn has_key(&self) -> bool {
        self.0.is_some()
    }

    /// Signs rows that are committed together; the column of each.
    pub(super) fn rows(&self, rows: Vec<RowToSign<'_>>) -> Vec<Option<Vec<u8>>> {
        let Some((_, key)) = &self.0 else { return rows.iter().map(|_| None).collect() };
        let leaves = rows.into_iter().map(RowToSign::leaves).collect();
        let signed = RowSignature::sign(&key.current(), clock::now(), leaves);
        signed.into_iter().map(|signature| signature.map(|it| it.to_bytes())).collect()
    }

    /// Signs an entry in the history of a run's task.
    pub(super) fn entry(&self, run_id: &str, line: &EntryLine) -> Option<EntrySignature> {
        let (_, key) = self.0.as_ref()?;
        Some(EntrySignature::sign(&key.current(), run_id, line, clock::now()))
    }

    /// Signs a verdict with the key of the time when it was reached: the key's id, and the signatures one after the other.
    pub(super) fn verdict(
        &self,
        run_id: Uuid,
        at: DateTime<Utc>,
        record: &VerdictRecord,
    ) -> Option<(KeyId, Vec<u8>)> {
        let (_, key) = self.0.as_ref()?;
        let key = key.at(at);
        let signatures = SignedVerdict::sign(&key, &run_id.to_string(), at, record);
        Some((key.id(), signatures.concat()))
    }

    /// The public half of the present key; none without one.
    pub fn public(&self) -> Option<PublicKey> {
        self.0.as_ref().map(|(_, key)| key.current().public())
    }

    /// Registers the present key in the table of keys, so that an operator can find and pin it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn register(&self, pool: &PgPool) -> Result<(), StoreError> {
        let Some((service, key)) = &self.0 else { return Ok(()) };
        let key = key.current().public();
        let registering = sqlx::query(include_str!("sql/register_key.sql"))
            .bind(key.id().0)
            .bind(service.as_str())
            .bind(key.to_bytes())
            .bind(clock::now());
        within(async { Ok(registering.execute(pool).await?) }).await.map(drop)
    }

    /// Ends the registration of a key that this service signed with before, at a time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn end_registration(
        &self,
        pool: &PgPool,
        key: PublicKey,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let Some((service, _)) = &self.0 else { return Ok(()) };
        let ending = sqlx::query(include_str!("sql/end_key.sql"))
            .bind(key.id().0)
            .bind(service.as_str())
            .bind(at);
        within(async { Ok(ending.execute(pool).await?) }).await.map(drop)
    }
}

/// A key that a service registered. That it stands in the database is no reason to trust it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredKey {
    /// The service.
    pub service: Service,
    /// The public key.
    pub key: PublicKey,
    /// When it was registered.
    pub valid_from: DateTime<Utc>,
    /// When it ends, because its service signs with another one; none while it is in use.
    pub valid_until: Option<DateTime<Utc>>,
}

#[derive(sqlx::FromRow)]
struct RegisteredRow {
    service: String,
    public_key: Vec<u8>,
    valid_from: DateTime<Utc>,
    valid_until: Option<DateTime<Utc>>,
}

/// The registered keys, by service and age.
///
/// # Errors
/// [`StoreError`]
pub async fn registered_keys(pool: &PgPool) -> Result<Vec<RegisteredKey>, StoreError> {
    let listing = sqlx::query_as(include_str!("sql/list_keys.sql"));
    let rows: Vec<RegisteredRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    let read = rows.into_iter().map(|row| {
        let RegisteredRow { service, public_key, valid_from, valid_until } = row;
        let known = Service::from_text(&service);
        let service = known.ok_or_else(|| StoreError::corrupt("signing_key.service", service))?;
        let key = PublicKey::from_bytes(&public_key)
            .ok_or_else(|| StoreError::corrupt("signing_key.public_key", "not 32 bytes"))?;
        Ok(RegisteredKey { service, key, valid_from, valid_until })
    });
    read.collect()
}

/// The columns of a plan revision as they are signed.
pub(super) fn plan_columns(plan: &StoredPlan) -> PlanColumns {
    let StoredPlan { revision, digest, parent_digest, reason, body, created_at } = plan;
    let created_at = instant(*created_at);
    PlanColumns::of(*revision, [body, &created_at, digest, parent_digest, reason])
}
