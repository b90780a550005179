//! Connecting.

use super::StoreError;
use super::hosts::Hosts;
use super::migrate::migrate;
use crate::clock;
use backon::{BackoffBuilder, ExponentialBuilder, Retryable};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use std::time::Duration;
use tokio::time::timeout;

/// Every statement of ours finds its rows by an index. Left to itself the planner of the database
/// scans whole tables while they are young and were never analysed, and thinks each statement over
/// again at every call.
const PINNED_PLANS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// What the server does about a client that the network cut off: without these it would keep its
/// session, and the rows that session has locked, for hours. Nothing of ours leaves a transaction
/// open for long.
const CUT_OFF: [(&str, &str); 5] = [
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "2"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "30000"),
];

/// What our connections are called in the database.
const NAME: &str = "surety";

/// How long an answer of the database may take before its connection counts as cut. A connection
/// that the network dropped in silence answers never, and the kernel gives it up after a quarter of
/// an hour.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// The same for work that nobody waits for and that may honestly take its time.
const WORK: Duration = Duration::from_mins(5);
/// The same for a question that costs the database nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// A connection that was used so recently is taken to be there still: should it not be, the
/// statement says so, and is tried again like after any other loss.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// How many connections a pool may open, and how patient its calls are. What loops keep for
/// themselves is beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Connections of the pool at most.
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

/// Opens a pool. Of several addresses (`postgres://role@one,two/name`) it leads to the one that can
/// be written to, and to another when that one takes its place.
///
/// # Errors
/// [`StoreError::Unavailable`] while no connection can be made; [`StoreError::Refused`] when the
/// address does not read or the database refuses this role.
pub async fn connect(url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    connect_at(clock::PRIMARY_SHARD, url, size).await
}

/// As [`connect`], to one of several databases of the process, with the clock of its place.
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
        // One whose statement was given up is asked without a bound by the pool itself, which
        // would hold its place until the kernel gives it up.
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

/// An address as every connection of ours to the database at `place` uses it.
pub(super) fn prepared(options: PgConnectOptions, shard_index: usize) -> PgConnectOptions {
    let name = match shard_index {
        clock::PRIMARY_SHARD => NAME.to_owned(),
        shard_index => format!("{NAME}-{shard_index}"),
    };
    options.application_name(&name).options(PINNED_PLANS).options(CUT_OFF)
}

/// The place that [`prepared`] wrote into an address.
fn shard_index_of(options: &PgConnectOptions) -> usize {
    let shard_index = options.get_application_name().and_then(|name| name.strip_prefix(NAME));
    let shard_index = shard_index.and_then(|shard_index| shard_index.strip_prefix('-'));
    shard_index.and_then(|shard_index| shard_index.parse().ok()).unwrap_or(clock::PRIMARY_SHARD)
}

/// A connection beside the pool, made as the pool makes its own and as patiently, but without a place
/// among those who wait for one of the pool's.
///
/// # Errors
/// [`StoreError::Unavailable`] when none can be made in time.
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

/// Waits for an answer of the database, but not for ever.
///
/// # Errors
/// What the answer says; [`StoreError::Unavailable`] when none comes, and then it is not known
/// whether the statement took effect.
pub(super) async fn within<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_at_most(ANSWER, answer).await
}

/// As [`within`], for what nobody waits for.
///
/// # Errors
/// Those of [`within`].
pub(super) async fn within_work<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_at_most(WORK, answer).await
}

/// As [`within`], for an answer that may take so long.
///
/// # Errors
/// Those of [`within`].
pub(super) async fn within_at_most<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, answer).await.map_err(|_| StoreError::from(sqlx::Error::PoolTimedOut))?
}

/// Asks the database for a sign of life.
///
/// # Errors
/// [`StoreError::Unavailable`] when it gives none.
pub async fn ping(pool: &PgPool) -> Result<(), StoreError> {
    within(async { Ok(pool.acquire().await?.ping().await?) }).await
}

/// Opens a pool to the database at `place` of the process and brings the schema up to date.
///
/// # Errors
/// Those of [`connect`] and of [`migrate`].
pub async fn open(shard_index: usize, url: &str, size: PoolSize) -> Result<PgPool, StoreError> {
    let pool = connect_at(shard_index, url, size).await?;
    match migrate(&pool).await {
        Ok(()) => Ok(pool),
        Err(error) => {
            // What looks where the primary is would go on for ever.
            pool.close().await;
            Err(error)
        }
    }
}

/// Opens a pool and brings the schema up to date, waiting for as long as the database is away.
///
/// # Errors
/// Whatever waiting cannot mend: a wrong address, a refused role, a schema of a newer program.
///
/// # Cancel safety
/// Dropping the future leaves at most a finished migration behind.
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
            tracing::warn!(%error, retry_in_ms = delay.as_millis(), "waiting for the database");
        })
        .await
}

/// Between two tries of what is tried until the database is back.
fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times()
}

/// The pauses between such tries.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    backoff().build()
}

/// Reads, again and again while the database is away.
///
/// # Errors
/// Whatever waiting cannot mend.
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
