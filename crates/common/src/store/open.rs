//! Opens databases and migrates their schema.

use super::StoreError;
use super::identities::import_patiently;
use super::migrate::migrate;
use super::pool::{PoolSize, connect_at};
use super::token::TokenHash;
use crate::clock;
use crate::domain::identity::Identity;
use backon::{ExponentialBuilder, Retryable};
use sqlx::postgres::PgPool;
use std::time::Duration;

/// Opens a pool to the database with this shard index, and migrates its schema.
///
/// # Errors
/// Those of [`connect`](super::connect) and of [`migrate`].
pub async fn open(shard_index: usize, url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let pool = connect_at(shard_index, url, size).await?;
    match migrate(&pool).await {
        Ok(()) => Ok(pool),
        Err(error) => {
            // Ends the task that follows the primary, which runs until the pool is closed.
            pool.close().await;
            Err(error)
        }
    }
}

/// How a service begins: it connects, migrates the schema and stores the tokens of its file; retries while the database is
/// unavailable.
///
/// # Errors
/// Permanent errors only: an invalid address, a refused role, a schema of a newer program, a token that cannot be stored.
///
/// # Cancel safety
/// Dropping the future leaves at most finished migrations and whole tokens.
pub async fn begin(
    url: &str,
    size: PoolSize,
    tokens: &[(TokenHash, Identity)],
) -> Result<PgPool, StoreError> {
    let pool = connect_with_patience(url, size).await?;
    import_patiently(&pool, tokens).await?;
    Ok(pool)
}

/// Opens a pool and migrates the schema; retries while the database is unavailable.
async fn connect_with_patience(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let attempt = || open(clock::PRIMARY_SHARD, url, size);
    attempt
        .retry(
            ExponentialBuilder::default()
                .with_jitter()
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_secs(5))
                .without_max_times(),
        )
        .when(StoreError::is_transient)
        .notify(|error, delay| {
            tracing::warn!(%error, retry_in_ms = delay.as_millis(), "store: waiting for the database to accept connections");
        })
        .await
}
