//! A process that dies while it migrates the schema, creates partitions, or deletes runs: the next
//! process completes the work, and no kept run is lost.

use anyhow::{Context, Result, ensure};
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Instant;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE, Process, Service, wait_for_yes};
use surety_e2e::script::{noop, plan, step};
use uuid::Uuid;

pub(super) const OF_MIGRATIONS: [&str; 2] = ["store.before_migrations", "store.after_migrations"];
pub(super) const OF_SINGLE_MIGRATIONS: [&str; 1] = ["store.between_migrations"];
pub(super) const OF_PARTITIONS: [&str; 2] = ["planner.before_partition", "planner.after_partition"];
pub(super) const OF_RETENTION: [&str; 8] = [
    "planner.before_forget",
    "planner.after_forget",
    "planner.before_take_out",
    "planner.after_take_out",
    "planner.before_drop",
    "planner.after_drop",
    "planner.before_thin",
    "planner.after_thin",
];

/// Starts a service over a database, which dies at a place.
async fn dies_at(
    service: Service,
    database: &str,
    point: &str,
    further: (&str, &str),
) -> Result<()> {
    let environment = [("DATABASE_URL", database), ("SURETY_CRASH_POINT", point), further];
    let (code, said) = Process::run_to_end(service, "127.0.0.1:0", &environment)
        .await
        .with_context(|| format!("{point} is not passed"))?;
    // Whom a signal ended has no code.
    ensure!(code.is_none(), "{point}: it ended with {code:?}: {said}");
    Ok(())
}

async fn is_there(pool: &PgPool, table: &str) -> Result<bool> {
    let there = "select to_regclass($1) is not null";
    Ok(sqlx::query_scalar(there).bind(table).fetch_one(pool).await?)
}

async fn carried_out(pool: &PgPool) -> Result<i64> {
    let carried_out = "select count(*) from _sqlx_migrations where success";
    Ok(sqlx::query_scalar(carried_out).fetch_one(pool).await?)
}

async fn one_run(deployment: &Deployment) -> Result<Uuid> {
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    Ok(Uuid::parse_str(&run.id)?)
}

#[tokio::test]
async fn a_death_around_a_migration_leaves_the_old_schema_or_the_new() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("9000_tomorrow.sql"), "create table tomorrow (id integer)")?;
    let folder = folder.path().to_string_lossy().into_owned();
    let newer = ("SURETY_TEST_MIGRATIONS", folder.as_str());
    for (point, moved) in OF_MIGRATIONS.into_iter().zip([false, true]) {
        let database = Database::empty().await?;
        let pool = database.pool().await?;
        let url = database.url().to_owned();
        dies_at(Service::Gate, &url, point, ("SURETY_LOG", "info")).await?;
        assert_eq!(is_there(&pool, "execution").await?, moved, "{point}");
        // The next one continues from there, and dies at the next migration.
        let mut deployment = Deployment::start_idle(database, &[]).await?;
        deployment.add_executor(&[]).await?;
        one_run(&deployment).await?;
        dies_at(Service::Planner, &url, point, newer).await?;
        assert_eq!(is_there(&pool, "tomorrow").await?, moved, "{point}");
        deployment.replace_planner_with(&[newer]).await?;
        wait_for_yes(&pool, "select to_regclass('tomorrow') is not null").await?;
        one_run(&deployment).await?;
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_death_between_two_migrations_leaves_a_schema_that_the_next_one_goes_on_from()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    for (number, table) in [(9000, "tomorrow"), (9001, "day_after")] {
        let migration = format!("create table {table} (id integer)");
        std::fs::write(folder.path().join(format!("{number}_{table}.sql")), migration)?;
    }
    let folder = folder.path().to_string_lossy().into_owned();
    let newer = ("SURETY_TEST_MIGRATIONS", folder.as_str());
    for point in OF_SINGLE_MIGRATIONS {
        let database = Database::empty().await?;
        let pool = database.pool().await?;
        let url = database.url().to_owned();
        dies_at(Service::Gate, &url, point, newer).await?;
        assert_eq!(carried_out(&pool).await?, 1);
        // A process that starts on it completes the migrations before it serves.
        let mut deployment = Deployment::start_idle(database, &[]).await?;
        deployment.add_executor(&[]).await?;
        one_run(&deployment).await?;
        let ours = carried_out(&pool).await?;
        assert!(ours > 1, "nothing came behind the first");
        // Ours count as passed; it dies between the two of tomorrow.
        dies_at(Service::Planner, &url, &format!("{point}:{}", ours + 1), newer).await?;
        assert_eq!(carried_out(&pool).await?, ours + 1);
        assert!(is_there(&pool, "tomorrow").await? && !is_there(&pool, "day_after").await?);
        // The current services continue on it, and those of the newer version complete the
        // migrations.
        one_run(&deployment).await?;
        deployment.replace_planner_with(&[newer]).await?;
        wait_for_yes(&pool, "select to_regclass('day_after') is not null").await?;
        one_run(&deployment).await?;
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_death_around_a_partition_is_made_up_for_by_the_next_planner() -> Result<()> {
    for (point, moved) in OF_PARTITIONS.into_iter().zip([false, true]) {
        let database = Database::empty().await?;
        let pool = database.pool().await?;
        dies_at(Service::Planner, database.url(), point, ("SURETY_LOG", "info")).await?;
        let made = "select exists (select from pg_class where relname ~ '^journal_[0-9]{8}$')";
        let there: bool = sqlx::query_scalar(made).fetch_one(&pool).await?;
        assert_eq!(there, moved, "{point}");
        let mut deployment = Deployment::start_idle(database, &[]).await?;
        deployment.add_executor(&[]).await?;
        wait_for_yes(&pool, made).await?;
        one_run(&deployment).await?;
        let left = "select count(*) from journal_default";
        let left: i64 = sqlx::query_scalar(left).fetch_one(&pool).await?;
        assert_eq!(left, 0, "{point}: the journal went where those go that have no partition");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

/// Makes a run that has ended one that ended so many days ago. Answers its new id.
async fn age(pool: &PgPool, run_id: Uuid, days: i64) -> Result<Uuid> {
    let older = run_id.as_u128() - ((u128::try_from(days)? * 86_400_000) << 80);
    let older = Uuid::from_u128(older);
    for statement in [
        "update run set id = $2 where id = $1",
        "update plan set run_id = $2 where run_id = $1",
        "update journal set run_id = $2 where run_id = $1",
        // A run that is DONE has its verdict under its own id.
        "update verdict set run_id = $2 where run_id = $1",
        "update execution set run_id = $2, updated_at = updated_at - make_interval(days => $3)
         where run_id = $1 and $3 > 0",
    ] {
        let aging = sqlx::query(statement).bind(run_id).bind(older);
        let aging = if statement.contains("$3") { aging.bind(i32::try_from(days)?) } else { aging };
        assert!(aging.execute(pool).await?.rows_affected() > 0, "{statement}");
    }
    Ok(older)
}

/// A partition for runs of so many days ago, and nothing else.
async fn partition(pool: &PgPool, near: Uuid, days: i64) -> Result<()> {
    let at = |days: u128| Uuid::from_u128(((near.as_u128() >> 80) - days * 86_400_000) << 80);
    let days = u128::try_from(days)?;
    let (first, behind) = (at(days + 1), at(days - 1));
    let made = format!(
        "create table journal_old partition of journal for values from ('{first}') to ('{behind}')"
    );
    sqlx::query(AssertSqlSafe(made)).execute(pool).await?;
    Ok(())
}

/// Starts planners that forget until nothing is left of some runs: one that comes while the session
/// of a dead one is still there passes by.
async fn forgotten(deployment: &mut Deployment, run_ids: &[Uuid]) -> Result<()> {
    let pool = deployment.database.pool().await?;
    let left = "select (select count(*) from run where id = any($1))
                     + (select count(*) from journal where run_id = any($1))
                     + (select count(*) from pg_class where relname ~ '^(expired_|)journal_old'
                                                         or relname ~ '^expired_journal')";
    let deadline = Instant::now() + PATIENCE;
    loop {
        deployment.replace_planner_with(&[("SURETY_RETENTION_DAYS", "1")]).await?;
        for _ in 0..50 {
            let left: i64 = sqlx::query_scalar(left).bind(run_ids).fetch_one(&pool).await?;
            if left == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{left} rows are never forgotten");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_death_in_the_middle_of_forgetting_is_made_up_for_by_the_next_planner() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let url = deployment.database.url().to_owned();
    let mut kept = Vec::new();
    for point in OF_RETENTION {
        let (recent, old, oldest) =
            (one_run(&deployment).await?, one_run(&deployment).await?, one_run(&deployment).await?);
        kept.push(recent);
        partition(&pool, old, 400).await?;
        let old = [age(&pool, old, 400).await?, age(&pool, oldest, 800).await?];
        dies_at(Service::Planner, &url, point, ("SURETY_RETENTION_DAYS", "1")).await?;
        surety_e2e::audit::audit_at_rest(&pool).await.with_context(|| point.to_owned())?;
        forgotten(&mut deployment, &old).await.with_context(|| point.to_owned())?;
        for run in &kept {
            deployment.run(&run.to_string()).await.context("a run was forgotten too early")?;
        }
    }
    let audited = deployment.finish_at_rest().await?;
    assert_eq!(audited.runs, kept.len());
    Ok(())
}
