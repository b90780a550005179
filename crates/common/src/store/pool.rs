//! Connection pools.

use super::StoreError;
use super::hosts::Hosts;
use super::migrate::migrate;
use crate::clock;
use backon::{BackoffBuilder, ExponentialBuilder, Retryable};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use std::time::Duration;
use tokio::time::timeout;

/// Every statement finds its rows by an index. By default the database's planner scans whole tables
/// that are small or were never analysed, and plans each statement again at every call.
const PINNED_PLANS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Lets the server end the session of a client that the network disconnected. Otherwise that
/// session and its row locks would last for hours. No transaction here stays open for long.
const CUT_OFF: [(&str, &str); 5] = [
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "2"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "30000"),
];

/// The application name of these connections.
const NAME: &str = "surety";

/// How long the database may take to answer before the connection counts as broken. The kernel
/// detects a dropped connection only after a quarter of an hour.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// The same for background work that may take long.
const WORK: Duration = Duration::from_mins(5);
/// The same for a ping.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// A connection used within this time is not pinged. If it is broken, the next statement fails and
/// is retried.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// The size of a pool and the time limit to acquire a connection. Dedicated connections are not
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// The most connections in the pool.
    pub connections: u32,
    /// How long a call waits for a free connection before it reports the database as unavailable.
    pub acquire_timeout: Duration,
}

#[cfg(feature = "config")]
impl PoolSize {
    /// The size in the common settings.
    pub fn of(common: &crate::config::CommonConfig) -> Self {
        Self {
            connections: common.database_pool_size,
            acquire_timeout: common.database_acquire_timeout(),
        }
    }
}

/// Opens a pool. With several addresses (`postgres://role@one,two/name`) it connects to the one
/// that accepts writes, and follows a failover.
///
/// # Errors
/// [`StoreError::Unavailable`] while no connection can be opened; [`StoreError::Refused`] when the
/// address cannot be parsed or the database refuses the role.
pub async fn connect(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    connect_at(clock::PRIMARY_SHARD, url, size).await
}

/// As [`connect`], to one of several databases of the process, with the clock of that shard.
async fn connect_at(shard_index: usize, url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let hosts = Hosts::read(url, shard_index)?;
    let primary = hosts.primary().await?;
    let mut options = PgPoolOptions::new()
        .max_connections(size.connections)
        .acquire_timeout(size.acquire_timeout)
        .after_connect(move |connection, _| Box::pin(set_clock(connection, shard_index)))
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for >= FRESH {
                    alive(connection).await?;
                }
                Ok(true)
            })
        });
    if primary.get_socket().is_none() {
        // The pool pings a returned connection without a time limit. One whose statement was
        // abandoned would occupy a slot until the kernel detects it.
        options = options.after_release(|connection, _| {
            Box::pin(async move {
                alive(connection).await?;
                Ok(true)
            })
        });
    }
    let pool = options.connect_with(primary).await?;
    hosts.follow(&pool);
    Ok(pool)
}

/// The options of every connection to the database with this shard index.
pub(super) fn prepared(options: PgConnectOptions, shard_index: usize) -> PgConnectOptions {
    let name = match shard_index {
        clock::PRIMARY_SHARD => NAME.to_owned(),
        shard_index => format!("{NAME}-{shard_index}"),
    };
    options.application_name(&name).options(PINNED_PLANS).options(CUT_OFF)
}

/// The shard index that [`prepared`] wrote into the options.
fn shard_index_of(options: &PgConnectOptions) -> usize {
    let shard_index = options.get_application_name().and_then(|name| name.strip_prefix(NAME));
    let shard_index = shard_index.and_then(|shard_index| shard_index.strip_prefix('-'));
    shard_index.and_then(|shard_index| shard_index.parse().ok()).unwrap_or(clock::PRIMARY_SHARD)
}

/// Opens a connection outside the pool, with the pool's options and time limit.
///
/// # Errors
/// [`StoreError::Unavailable`] when none can be opened in time.
pub(super) async fn connect_beside(pool: &PgPool) -> Result<PgConnection, StoreError> {
    let connect = || async {
        let options = pool.connect_options();
        let mut connection = PgConnection::connect_with(&options).await?;
        set_clock(&mut connection, shard_index_of(&options)).await?;
        Ok::<_, StoreError>(connection)
    };
    let connecting = async { connect.retry(backoff()).when(StoreError::is_transient).await };
    within_at_most(pool.options().get_acquire_timeout(), connecting).await
}

async fn set_clock(connection: &mut PgConnection, shard_index: usize) -> Result<(), sqlx::Error> {
    let time = sqlx::query_scalar("select clock_timestamp()").fetch_one(connection).await?;
    clock::set(shard_index, time);
    Ok(())
}

pub(super) async fn alive(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    timeout(SIGN_OF_LIFE, connection.ping()).await.map_err(|_| sqlx::Error::PoolTimedOut)?
}

/// Waits for an answer of the database, with a time limit.
///
/// # Errors
/// The error in the answer; [`StoreError::Unavailable`] when none comes in time, and then it is
/// unknown whether the statement took effect.
pub(super) async fn within<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_at_most(ANSWER, answer).await
}

/// As [`within`], with the time limit of background work.
///
/// # Errors
/// Those of [`within`].
pub(super) async fn within_work<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_at_most(WORK, answer).await
}

/// As [`within`], with the given time limit.
///
/// # Errors
/// Those of [`within`].
pub(super) async fn within_at_most<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, answer).await.map_err(|_| StoreError::from(sqlx::Error::PoolTimedOut))?
}

/// Checks that the database answers.
///
/// # Errors
/// [`StoreError::Unavailable`] when it does not.
pub async fn ping(pool: &PgPool) -> Result<(), StoreError> {
    within(async { Ok(pool.acquire().await?.ping().await?) }).await
}

/// Opens a pool to the database with this shard index, and migrates its schema.
///
/// # Errors
/// Those of [`connect`] and of [`migrate`].
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

/// Opens a pool and migrates the schema; retries while the database is unavailable.
///
/// # Errors
/// Permanent errors only: an invalid address, a refused role, a schema of a newer program.
///
/// # Cancel safety
/// Dropping the future leaves at most finished migrations.
pub async fn connect_with_patience(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
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
            tracing::warn!(%error, retry_in_ms = delay.as_millis(), "waiting for the database to accept connections");
        })
        .await
}

/// The pauses between retries while the database is unavailable.
fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times()
}

/// The pauses as an iterator.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    backoff().build()
}

/// Reads, and retries while the database is unavailable.
///
/// # Errors
/// Permanent errors only.
pub async fn patiently<T, F>(read: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    read.retry(backoff())
    .when(StoreError::is_transient)
    .notify(|error, delay| {
        tracing::warn!(%error, retry_in_ms = delay.as_millis(), "waiting for the database to read");
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_of_a_pool_knows_the_place_of_its_database() {
        for shard_index in [clock::PRIMARY_SHARD, 1, 12] {
            let options: PgConnectOptions = "postgres://h/d?application_name=x".parse().unwrap();
            assert_eq!(shard_index_of(&prepared(options, shard_index)), shard_index);
        }
        assert_eq!(shard_index_of(&PgConnectOptions::new()), clock::PRIMARY_SHARD);
    }
}
