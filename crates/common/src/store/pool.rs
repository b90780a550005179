//! Connection pools.

use super::StoreError;
use super::hosts::Hosts;
use super::options::shard_index_of;
use crate::clock;
use backon::{BackoffBuilder, ExponentialBuilder, Retryable};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, Postgres};
use sqlx::{ConnectOptions, Connection};
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::time::timeout;

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

/// A connection of the pool that is unused for this long is closed, so that what a burst opened does not stay with one
/// process while another finds the server without a connection to give.
const IDLE: Duration = Duration::from_secs(10);
/// How often one connection is used so that it is never closed as unused. The pool looks each time [`IDLE`] has passed,
/// and at that moment one use since the last time has to be found; two would keep a second connection.
const KEEP_ONE_EVERY: Duration = Duration::from_secs(9);

/// The time limit to close the connections of a pool.
const CLOSING: Duration = Duration::from_secs(1);

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
pub(super) async fn connect_at(
    shard_index: usize,
    url: &str,
    size: PoolSize,
) -> Result<PgPool, StoreError> {
    let hosts = Hosts::read(url, shard_index)?;
    let primary = hosts.primary().await.map_err(StoreError::at_start)?;
    let mut options = PgPoolOptions::new()
        .max_connections(size.connections)
        .min_connections(1)
        .idle_timeout(IDLE)
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
    let pool = match options.connect_with(primary.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => return Err(unreached(&primary).await.into()),
        opened => opened.map_err(|error| StoreError::from(error).at_start())?,
    };
    hosts.follow(&pool);
    tokio::spawn(keep_one(pool.clone()));
    Ok(pool)
}

/// Why an address has no connection: the pool says only that it waited.
async fn unreached(address: &PgConnectOptions) -> sqlx::Error {
    let why = match timeout(SIGN_OF_LIFE, address.connect()).await {
        Ok(Err(sqlx::Error::Io(error))) => error.to_string(),
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(_)) | Err(_) => "no connection in time".to_owned(),
    };
    let place = match address.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", address.get_host(), address.get_port()),
    };
    sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, format!("{place}: {why}")))
}

/// Keeps one connection of a pool that is at rest, until the pool is closed. The pool would close it and open another one,
/// and a server without a connection to give then leaves the process with none.
async fn keep_one(pool: PgPool) {
    let closed = pool.close_event();
    tokio::pin!(closed);
    while timeout(KEEP_ONE_EVERY, &mut closed).await.is_err() {
        // Its return is its use. Without an unused one, all of them are in use.
        drop(pool.try_acquire());
    }
}

/// A connection for work outside the pool.
pub(super) enum Connected {
    /// It was opened for this work.
    New(PgConnection),
    /// The pool lends it, because the server has none to give.
    OfPool(PoolConnection<Postgres>),
}

impl Deref for Connected {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::New(connection) => connection,
            Self::OfPool(connection) => connection,
        }
    }
}

impl DerefMut for Connected {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::New(connection) => connection,
            Self::OfPool(connection) => connection,
        }
    }
}

/// Opens a connection outside the pool, with the pool's options and time limit. While the server has none to give, an
/// idle connection of the pool serves: otherwise the pools of other processes, which keep what they opened for a while,
/// could stop all that this process writes.
///
/// # Errors
/// [`StoreError::Unavailable`] when none can be had in time.
pub(super) async fn connect_beside(pool: &PgPool) -> Result<Connected, StoreError> {
    let connect = || async {
        let options = pool.connect_options();
        let opened = PgConnection::connect_with(&options).await.map_err(StoreError::from);
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(error) if error.is_out_of_connections() => {
                return pool.try_acquire().map(Connected::OfPool).ok_or(error);
            }
            Err(error) => return Err(error),
        };
        set_clock(&mut connection, shard_index_of(&options)).await?;
        Ok::<_, StoreError>(Connected::New(connection))
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

/// Closes a pool. A call that does not return its connection in time ends with the process.
pub async fn close(pool: &PgPool) {
    if timeout(CLOSING, pool.close()).await.is_err() {
        tracing::warn!(
            in_use = pool.size(),
            "store: the database connections could not be closed in time; the end of the process closes them"
        );
    }
}

/// Checks that the database answers.
///
/// # Errors
/// [`StoreError::Unavailable`] when it does not.
pub async fn ping(pool: &PgPool) -> Result<(), StoreError> {
    within(async { Ok(pool.acquire().await?.ping().await?) }).await
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
        tracing::warn!(%error, retry_in_ms = delay.as_millis(), "store: waiting for the database to read");
    })
    .await
}
