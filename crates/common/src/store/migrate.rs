//! Bringing the schema up to date.

use super::StoreError;
use super::pool::within;
use crate::crash;
use sqlx::Connection;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A migration may take hours, so its answer is waited for without a bound. Instead a second
/// connection looks so often whether the first one's session is still at work.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// For how long no look may find it at work before the connection counts as cut.
const SILENCE: Duration = Duration::from_secs(20);

/// A session that waits for a lock is at work too. One that waits for us, while we wait for it, is
/// not, and one that the server gave up is not there.
const AT_WORK: &str = "select exists (select from pg_stat_activity where pid = $1 and coalesce(state, '') not like 'idle%')";

/// Brings the schema up to date. Several processes may do so at once: one does, the others wait.
///
/// # Errors
/// [`StoreError::NewerSchema`] when the database holds a migration this program does not know,
/// [`StoreError::Migration`] when it holds another one under a number that this program knows,
/// [`StoreError::Unavailable`] when the connection was cut meanwhile: then a migration under way is
/// taken back by the database, unless only its last answer was lost.
pub async fn migrate(pool: &PgPool) -> Result<(), StoreError> {
    let migrator = with_migrations_of_tests(sqlx::migrate!("./migrations")).await?;
    let options = pool.connect_options();
    let opening = async { Ok(PgConnection::connect_with(&options).await?) };
    let mut connection = within(opening).await?;
    let asking = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection);
    let session: i32 = within(async { Ok(asking.await?) }).await?;
    crash::point("store.before_migrations");
    let done = tokio::select! {
        done = carry_out(&migrator, &mut connection) => understood(&migrator, done),
        () = silence(&options, session) => Err(sqlx::Error::PoolTimedOut.into()),
    };
    if done.is_ok() {
        crash::point("store.after_migrations");
        within(async { Ok(connection.close().await?) }).await?;
    }
    done
}

/// Each migration is a transaction with the note that it was carried out, so whoever dies between two
/// leaves a schema that the next one goes on from. They are asked for one by one, so that a test can
/// die there.
async fn carry_out(migrator: &Migrator, connection: &mut PgConnection) -> Result<(), MigrateError> {
    for (place, migration) in migrator.iter().enumerate() {
        if place > 0 {
            crash::point("store.between_migrations");
        }
        migrator.run_direct(Some(migration.version), connection, false).await?;
    }
    Ok(())
}

fn understood(migrator: &Migrator, done: Result<(), MigrateError>) -> Result<(), StoreError> {
    let known = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    match done {
        Ok(()) => Ok(()),
        Err(MigrateError::Execute(source)) => Err(source.into()),
        Err(MigrateError::ExecuteMigration(source, version)) => {
            tracing::warn!(version, "a migration was not carried out");
            Err(source.into())
        }
        Err(MigrateError::VersionMissing(found)) if found > known => {
            Err(StoreError::NewerSchema { found, known })
        }
        Err(error) => Err(error.into()),
    }
}

/// Resolves once a session was not seen at work for too long.
async fn silence(options: &PgConnectOptions, session: i32) {
    let mut seen_at = Instant::now();
    while seen_at.elapsed() < SILENCE {
        sleep(LOOK_EVERY).await;
        match within(is_at_work(options, session)).await {
            Ok(true) => seen_at = Instant::now(),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "the migration could not be looked at"),
        }
    }
}

async fn is_at_work(options: &PgConnectOptions, session: i32) -> Result<bool, StoreError> {
    let mut connection = PgConnection::connect_with(options).await?;
    let at_work = sqlx::query_scalar(AT_WORK).bind(session).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(at_work)
}

/// In debug builds, the migrations of the folder that `SURETY_TEST_MIGRATIONS` names besides ours:
/// how a test makes the program of tomorrow.
#[cfg(debug_assertions)]
async fn with_migrations_of_tests(ours: Migrator) -> Result<Migrator, StoreError> {
    let Some(folder) = std::env::var_os("SURETY_TEST_MIGRATIONS") else { return Ok(ours) };
    let more = Migrator::new(std::path::Path::new(&folder)).await?;
    Ok(Migrator::with_migrations(ours.iter().chain(more.iter()).cloned().collect()))
}

/// Nothing: a release knows its own migrations only.
#[cfg(not(debug_assertions))]
async fn with_migrations_of_tests(ours: Migrator) -> Result<Migrator, StoreError> {
    Ok(ours)
}
