//! What is too large for the journal, keyed by the digest of its content: outputs, and manifests of
//! workspaces.

use super::StoreError;
use super::pool::{pauses, within_at_most};
use crate::domain::json::sha256_hex;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::time::Duration;
use uuid::Uuid;

/// Base time limit to store or read an artifact.
const ANSWER: Duration = Duration::from_secs(10);
/// Additional time limit per mebibyte, far above what a working disk needs.
const ANSWER_PER_MIB: Duration = Duration::from_secs(1);

/// Time limit to read an artifact of unknown length: that of one gibibyte, which exceeds any row.
const LARGEST: Duration = Duration::from_secs(1034);

/// A large output. Equal content is stored once.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    /// The SHA-256 of the body, in hexadecimal.
    pub digest: &'a str,
    /// The whole content.
    pub body: &'a [u8],
    /// The creation time.
    pub created_at: DateTime<Utc>,
}

/// The time limit for an artifact of this size.
pub(super) fn patience(bytes: u64) -> Duration {
    let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    ANSWER.saturating_add(ANSWER_PER_MIB.saturating_mul(mebibytes))
}

/// Stores an artifact unless it exists, and records that the run refers to it. Retries while the
/// database is unavailable or its disk is full. Callers write the reference afterwards, so a crash
/// leaves at most an unreferenced artifact.
///
/// # Errors
/// Permanent errors only.
///
/// # Cancel safety
/// Dropping the future leaves at most an unreferenced artifact.
pub async fn keep(pool: &PgPool, run_id: Uuid, artifact: Artifact<'_>) -> Result<(), StoreError> {
    let mut pauses = pauses();
    let patience = patience(u64::try_from(artifact.body.len()).unwrap_or(u64::MAX));
    loop {
        match within_at_most(patience, store(pool, run_id, artifact)).await {
            Err(error) if error.is_transient() => {
                let bytes = artifact.body.len();
                tracing::warn!(%run_id, %error, bytes, "store: waiting for disk space in the database to store an output");
                tokio::time::sleep(pauses.next().unwrap_or(ANSWER)).await;
            }
            known => return known,
        }
    }
}

/// The content with a digest; none when it is not kept.
///
/// # Errors
/// [`StoreError`]
pub async fn artifact_body(pool: &PgPool, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let found = sqlx::query_scalar(include_str!("sql/find_artifact.sql")).bind(digest);
    let body: Option<Vec<u8>> =
        within_at_most(LARGEST, async { Ok(found.fetch_optional(pool).await?) }).await?;
    compared(digest, body)
}

/// The content, where it has the digest by which receipts name it.
pub(super) fn compared(digest: &str, body: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
    match body {
        Some(body) if sha256_hex(&body) != digest => Err(other_content(digest)),
        body => Ok(body),
    }
}

/// Other content under a digest was put there later.
pub(super) fn other_content(digest: &str) -> StoreError {
    StoreError::corrupt(format!("artifact {digest}"), "its body has another digest")
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
