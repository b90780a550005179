//! Outputs too large for the journal, by the digest of their content.

use super::StoreError;
use super::pool::{pauses, within_at_most};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::time::Duration;
use uuid::Uuid;

/// How long one may take to be stored or read, whatever its length.
const ANSWER: Duration = Duration::from_secs(10);
/// And for each mebibyte: far more than any disk that works at all.
const ANSWER_PER_MIB: Duration = Duration::from_secs(1);

/// A large output. The same content is stored once.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    /// Hex SHA-256 of the body.
    pub digest: &'a str,
    /// The whole content.
    pub body: &'a [u8],
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// How long one of so many bytes may take on its way.
pub(super) fn patience(bytes: u64) -> Duration {
    let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    ANSWER.saturating_add(ANSWER_PER_MIB.saturating_mul(mebibytes))
}

/// Stores an artifact unless it is there, and that the run may refer to it; again and again while
/// the database is away or has no room. Whoever refers to it does so after: one that nothing refers
/// to is only space.
///
/// # Errors
/// Whatever waiting cannot mend.
///
/// # Cancel safety
/// Dropping the future leaves at most what nothing refers to.
pub async fn keep(pool: &PgPool, run_id: Uuid, artifact: Artifact<'_>) -> Result<(), StoreError> {
    let mut pauses = pauses();
    let patience = patience(u64::try_from(artifact.body.len()).unwrap_or(u64::MAX));
    loop {
        match within_at_most(patience, store(pool, run_id, artifact)).await {
            Err(error) if error.is_transient() => {
                let bytes = artifact.body.len();
                tracing::warn!(%run_id, %error, bytes, "waiting for room for an output");
                tokio::time::sleep(pauses.next().unwrap_or(ANSWER)).await;
            }
            known => return known,
        }
    }
}

async fn store(pool: &PgPool, run_id: Uuid, artifact: Artifact<'_>) -> Result<(), StoreError> {
    let bytes = i64::try_from(artifact.body.len())
        .map_err(|error| StoreError::corrupt("an artifact's length", error))?;
    sqlx::query(include_str!("sql/store_artifact.sql"))
        .bind(artifact.digest)
        .bind(bytes)
        .bind(artifact.body)
        .bind(artifact.created_at)
        .bind(run_id)
        .execute(pool)
        .await?;
    Ok(())
}
