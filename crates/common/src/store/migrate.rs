//! Schema migrations.

use super::StoreError;
use super::pool::within;
use super::roles::may_change_schema;
use crate::crash;
use sqlx::Connection;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use std::cmp::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a second connection checks that the migration's session is active. A migration may
/// take hours, so its own answer has no time limit.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How long the session may be seen inactive before the connection counts as broken.
const INACTIVE_AFTER: Duration = Duration::from_secs(20);

/// A session that waits for a lock is active. One that is idle, or that the server ended, is not.
const IS_ACTIVE: &str = "select exists (select from pg_stat_activity where pid = $1 and coalesce(state, '') not like 'idle%')";

/// Migrates the schema. When several processes call it at once, one migrates and the others wait.
///
/// # Errors
/// [`StoreError::NewerSchema`] when the database has a migration that this program does not know.
/// [`StoreError::Migration`] when a migration in the database differs from this program's under the
/// same number.
/// [`StoreError::Unavailable`] when the connection broke. The database then rolls the current
/// migration back, unless only its last answer was lost.
pub async fn migrate(pool: &PgPool) -> Result<(), StoreError> {
    let migrator = with_migrations_of_tests(sqlx::migrate!("./migrations")).await?;
    if !may_change_schema(pool).await? {
        return is_migrated(pool, &migrator).await;
    }
    let options = pool.connect_options();
    let opening = async { Ok(PgConnection::connect_with(&options).await?) };
    let mut connection = within(opening).await?;
    let asking = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection);
    let session: i32 = within(async { Ok(asking.await?) }).await?;
    crash::point("store.before_migrations");
    let done = tokio::select! {
        done = carry_out(&migrator, &mut connection) => understood(&migrator, done),
        () = session_lost(&options, session) => Err(sqlx::Error::PoolTimedOut.into()),
    };
    if done.is_ok() {
        crash::point("store.after_migrations");
        within(async { Ok(connection.close().await?) }).await?;
    }
    done
}

/// The role of one service changes no schema: its owner has migrated it before.
async fn is_migrated(pool: &PgPool, migrator: &Migrator) -> Result<(), StoreError> {
    let found = schema_version(pool).await?;
    let known = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    match found.cmp(&known) {
        Ordering::Less => Err(StoreError::OlderSchema { found, known }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(StoreError::NewerSchema { found, known }),
    }
}

/// Each migration is one transaction with its entry in the migrations table. After a crash between
/// two of them the next process continues. They run one by one so that a test can crash there.
async fn carry_out(migrator: &Migrator, connection: &mut PgConnection) -> Result<(), MigrateError> {
    for (place, migration) in migrator.iter().enumerate() {
        if place > 0 {
            crash::point("store.between_migrations");
        }
        migrator.run_direct(Some(migration.version), connection, false).await?;
    }
    Ok(())
}

/// The version of the database's schema: the last migration that was carried out.
///
/// # Errors
/// [`StoreError`]
pub async fn schema_version(pool: &PgPool) -> Result<i64, StoreError> {
    let asking = sqlx::query_scalar("select max(version) from _sqlx_migrations where success");
    let version: Option<i64> = within(async { Ok(asking.fetch_one(pool).await?) }).await?;
    Ok(version.unwrap_or_default())
}

fn understood(migrator: &Migrator, done: Result<(), MigrateError>) -> Result<(), StoreError> {
    let known = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    match done {
        Ok(()) => Ok(()),
        Err(MigrateError::Execute(source)) => Err(source.into()),
        Err(MigrateError::ExecuteMigration(source, version)) => {
            tracing::warn!(version, "store: a migration failed; it is rolled back");
            Err(source.into())
        }
        Err(MigrateError::VersionMissing(found)) if found > known => {
            Err(StoreError::NewerSchema { found, known })
        }
        Err(error) => Err(error.into()),
    }
}

/// Resolves once the session has been seen inactive for too long.
async fn session_lost(options: &PgConnectOptions, session: i32) {
    let mut seen_at = Instant::now();
    while seen_at.elapsed() < INACTIVE_AFTER {
        sleep(CHECK_EVERY).await;
        match within(is_at_work(options, session)).await {
            Ok(true) => seen_at = Instant::now(),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "store: the migration's session could not be checked")
            }
        }
    }
}

async fn is_at_work(options: &PgConnectOptions, session: i32) -> Result<bool, StoreError> {
    let mut connection = PgConnection::connect_with(options).await?;
    let at_work = sqlx::query_scalar(IS_ACTIVE).bind(session).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(at_work)
}

/// In debug builds, adds the migrations in the folder `SURETY_TEST_MIGRATIONS`, so that a test can
/// simulate a newer program.
#[cfg(debug_assertions)]
async fn with_migrations_of_tests(ours: Migrator) -> Result<Migrator, StoreError> {
    let Some(folder) = std::env::var_os("SURETY_TEST_MIGRATIONS") else { return Ok(ours) };
    let more = Migrator::new(std::path::Path::new(&folder)).await?;
    Ok(Migrator::with_migrations(ours.iter().chain(more.iter()).cloned().collect()))
}

/// A release knows its own migrations only.
#[cfg(not(debug_assertions))]
async fn with_migrations_of_tests(ours: Migrator) -> Result<Migrator, StoreError> {
    Ok(ours)
}
