//! Clocks that are wrong by hours, and jump. One process compares times that another wrote by the
//! database's clock, and the failure detector uses no clock that can be set.

use super::beating::{beats_on, owner};
use super::{QUICK, skip};
use anyhow::{Context, Result};
use sqlx::AssertSqlSafe;
use std::path::PathBuf;
use surety_common::wire::v1;
use surety_e2e::audit::audit_all;
use surety_e2e::harness::{Database, Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};

/// The library that gives a process another time of day.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    places.into_iter().find(|path| path.exists())
}

/// A clock that can be set while processes read it.
struct Wrong {
    library: String,
    file: tempfile::NamedTempFile,
}

impl Wrong {
    fn by(hours: i32) -> Result<Option<Self>> {
        let Some(library) = library() else { return Ok(None) };
        let wrong = Self {
            library: library.to_string_lossy().into_owned(),
            file: tempfile::NamedTempFile::new()?,
        };
        wrong.jump_to(hours)?;
        Ok(Some(wrong))
    }

    fn jump_to(&self, hours: i32) -> Result<()> {
        Ok(std::fs::write(self.file.path(), format!("{hours:+}h\n"))?)
    }

    fn environment(&self) -> [(&str, &str); 5] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", self.file.path().to_str().unwrap_or_default()),
            ("FAKETIME_NO_CACHE", "1"),
            // Time that passes is not the time of day.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}

#[tokio::test]
async fn executors_whose_clocks_are_wrong_neither_lose_nor_steal_nor_hold_work() -> Result<()> {
    let (Some(late), Some(early)) = (Wrong::by(-1)?, Wrong::by(1)?) else {
        skip("clocks that are wrong", "libfaketime is not installed (apt-get install faketime)");
        return Ok(());
    };
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    deployment.replace_planner_with(&early.environment()).await?;
    deployment.add_executor(&late.environment()).await?;
    deployment.add_executor(&early.environment()).await?;
    deployment.add_executor(&[]).await?;
    let mut runs = Vec::new();
    for number in 0..9 {
        let mark = || [shell(&trail.mark("ran")), shell(&trail.mark("ran"))];
        let steps = [step("a", &[], &mark()), step("b", &["a"], &mark())];
        runs.push(deployment.create(&plan(&steps), "").await?);
        if number == 4 {
            late.jump_to(3)?;
            early.jump_to(-3)?;
        }
    }
    for run in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("ran"), 36, "an executor took over from a running one");
    deployment.finish_at_rest().await.map(drop)
}

/// What is kept for days is kept by the database's days.
#[tokio::test]
async fn a_planner_whose_clock_is_a_year_ahead_forgets_nothing_and_makes_no_partitions_for_then()
-> Result<()> {
    let Some(far) = Wrong::by(400 * 24)? else {
        skip("a clock that is a year ahead", "libfaketime is not installed");
        return Ok(());
    };
    let mut deployment = Deployment::start().await?;
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    deployment.wait_for_end(&run.id).await?;
    let mut environment = far.environment().to_vec();
    environment.push(("SURETY_RETENTION_DAYS", "1"));
    deployment.replace_planner_with(&environment).await?;
    // A planner creates partitions before it serves, and then deletes expired runs.
    let again = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    deployment.wait_for_end(&again.id).await?;
    deployment.run(&run.id).await.context("it was forgotten")?;
    let pool = deployment.database.pool().await?;
    let (made, then): (i64, i64) = sqlx::query_as(
        "select count(*), count(*) filter (where relname > 'journal_'
            || to_char(clock_timestamp() + interval '200 days', 'YYYYMMDD'))
         from pg_class where relname ~ '^journal_[0-9]{8}$'",
    )
    .fetch_one(&pool)
    .await?;
    assert!(made > 0 && then == 0, "{then} of {made} partitions are for a year later");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn an_executor_that_dies_with_its_clock_ahead_is_missed_as_soon_as_any_other() -> Result<()> {
    let Some(early) = Wrong::by(1)? else {
        skip("a clock that is ahead", "libfaketime is not installed (apt-get install faketime)");
        return Ok(());
    };
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    deployment.add_executor(&early.environment()).await?;
    let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let request = script::repeatable(script::request(&waits, ""));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    // Its heart beats on, by whichever clock.
    let executor = deployment.executors.first_mut().context("an executor")?;
    early.jump_to(5)?;
    executor.kill().await?;
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    wait_until("another took it up", || trail.marks("began") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

/// Sets the clock of a database, for connections that are made from now on.
async fn set_clock(database: &Database, hours: i32) -> Result<()> {
    let pool = database.pool().await?;
    let name = database.name();
    for statement in [
        // Found before the function that it replaces.
        format!(
            "create function clock_timestamp() returns timestamptz language sql volatile as
             $$ select pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
        ),
        format!("alter database {name} set search_path = public, pg_catalog"),
    ] {
        sqlx::query(AssertSqlSafe(statement)).execute(&pool).await?;
    }
    Ok(())
}

/// A process goes by the old time while another, that came later, goes by the new one.
async fn survives_a_step_of_the_database(hours: i32) -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let request = script::repeatable(script::request(&waits, ""));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let first = owner(&deployment, &run.id).await?;
    set_clock(&deployment.database, hours).await?;
    deployment.add_executor(&[]).await?;
    beats_on(&deployment.database.pool().await?, first, 4).await?;
    assert_eq!(owner(&deployment, &run.id).await?, first, "a living executor lost its run");
    assert_eq!(trail.marks("began"), 1);
    deployment.executors.remove(0).kill().await?;
    wait_until("another took it up", || trail.marks("began") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    // The times of the dead executor are in the future for a process with the new time.
    drop(deployment.executors.drain(..));
    audit_all(&deployment.database.pool().await?).await.map(drop)
}

#[tokio::test]
async fn a_database_whose_clock_is_set_forward_makes_no_executor_appear_dead() -> Result<()> {
    survives_a_step_of_the_database(1).await
}

#[tokio::test]
async fn a_database_whose_clock_is_set_back_hides_no_death() -> Result<()> {
    survives_a_step_of_the_database(-1).await
}
