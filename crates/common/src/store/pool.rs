//! Connecting, and bringing the schema up to date.

use super::StoreError;
use backon::{ExponentialBuilder, Retryable};
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::str::FromStr;
use std::time::Duration;

/// Every statement of ours finds its rows by an index. Left to itself the planner of the database
/// scans whole tables while they are young and were never analysed, and thinks each statement over
/// again at every call.
const PINNED_PLANS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// How many connections a process may open, and how patient its calls are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Connections at most.
    pub connections: u32,
    /// How long a call waits for a free one before it counts the database as away.
    pub acquire_timeout: Duration,
}

#[cfg(feature = "config")]
impl PoolSize {
    /// What the common settings say.
    pub fn of(common: &crate::config::CommonConfig) -> Self {
        Self {
            connections: common.database_pool_size,
            acquire_timeout: common.database_acquire_timeout(),
        }
    }
}

/// Opens a pool.
///
/// # Errors
/// [`StoreError::Unavailable`] while no connection can be made; [`StoreError::Refused`] when the
/// address does not read or the database refuses this role.
pub async fn connect(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let options = PgConnectOptions::from_str(url)?.application_name("surety").options(PINNED_PLANS);
    Ok(PgPoolOptions::new()
        .max_connections(size.connections)
        .acquire_timeout(size.acquire_timeout)
        .connect_with(options)
        .await?)
}

/// Opens a pool and brings the schema up to date, waiting for as long as the database is away.
///
/// # Errors
/// Whatever waiting cannot mend: a wrong address, a refused role, a schema of a newer program.
///
/// # Cancel safety
/// Dropping the future leaves at most a finished migration behind.
pub async fn connect_with_patience(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let attempt = || async {
        let pool = connect(url, size).await?;
        migrate(&pool).await?;
        Ok(pool)
    };
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
            tracing::warn!(%error, retry_in_ms = delay.as_millis(), "waiting for the database");
        })
        .await
}

/// Reads, again and again while the database is away.
///
/// # Errors
/// Whatever waiting cannot mend.
pub async fn patiently<T, F>(read: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    read.retry(
        ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(Duration::from_millis(20))
            .with_max_delay(Duration::from_secs(2))
            .without_max_times(),
    )
    .when(StoreError::is_transient)
    .notify(|error, delay| {
        tracing::warn!(%error, retry_in_ms = delay.as_millis(), "waiting for the database to read");
    })
    .await
}

/// Brings the schema up to date. Several processes may do so at once: one does, the others wait.
///
/// # Errors
/// [`StoreError::NewerSchema`] when the database holds a migration this program does not know,
/// [`StoreError::Migration`] when it holds another one under a number that this program knows.
pub async fn migrate(pool: &PgPool) -> Result<(), StoreError> {
    let migrator = sqlx::migrate!("./migrations");
    let known = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    match migrator.run(pool).await {
        Ok(()) => Ok(()),
        Err(MigrateError::Execute(source)) => Err(source.into()),
        Err(MigrateError::VersionMissing(found)) if found > known => {
            Err(StoreError::NewerSchema { found, known })
        }
        Err(error) => Err(error.into()),
    }
}
