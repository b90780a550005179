//! The auditor goes through all rows there are, and holds each field of a row against its journal.

use super::QUICK;
use super::forge;
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;
use surety_common::domain::journal::Entry;
use surety_common::wire::v1;
use surety_e2e::audit::{audit_all, handed_back, held_by_the_living};
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use uuid::Uuid;

/// Asserts that an audit of everything names what was forged.
async fn named(pool: &PgPool, what: &str, said: &str) {
    let found = audit_all(pool).await.err();
    let found = found.map(|error| format!("{error:#}")).unwrap_or_default();
    assert!(found.contains(said), "{what}: the auditor said {found:?}, and nothing of {said:?}");
}

/// A run that ended with these limits.
async fn ended(deployment: &Deployment, plan: &Value, max_replans: u32) -> Result<Uuid> {
    let limits = v1::Limits { max_replans: Some(max_replans), ..v1::Limits::default() };
    let request = v1::CreateRunRequest { limits: Some(limits), ..script::request(plan, "") };
    let run = deployment.create_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    Ok(Uuid::parse_str(&run.id)?)
}

async fn forged(pool: &PgPool, run_id: Uuid, statement: &str) -> Result<()> {
    let forging = sqlx::query(AssertSqlSafe(statement.to_owned())).bind(run_id);
    assert_eq!(forging.execute(pool).await?.rows_affected(), 1, "{statement}");
    Ok(())
}

#[tokio::test]
async fn the_auditor_goes_through_runs_whose_rows_do_not_read_or_are_not_there() -> Result<()> {
    for (what, said, statement) in [
        (
            "a row that cannot be decoded",
            "progress",
            "update execution set progress = '[]' where run_id = $1",
        ),
        ("a run alone", "has no execution", "delete from execution where run_id = $1"),
        ("an execution alone", "left without the run", "delete from run where id = $1"),
    ] {
        let deployment = Deployment::start().await?;
        let pool = deployment.database.pool().await?;
        for _ in 0..2 {
            ended(&deployment, &plan(&[step("only", &[], &[noop()])]), 0).await?;
        }
        let run_id = ended(&deployment, &plan(&[step("only", &[], &[noop()])]), 0).await?;
        assert_eq!(audit_all(&pool).await?.runs, 3);
        forged(&pool, run_id, statement).await?;
        named(&pool, what, said).await;
        named(&pool, what, &run_id.to_string()).await;
        deployment.database.drop().await?;
    }
    Ok(())
}

/// Journals one more change of a run, `ahead` behind its last.
async fn journal_more(pool: &PgPool, run_id: Uuid, ahead: i64) -> Result<()> {
    let added = sqlx::query(
        "insert into journal (run_id, sequence, at, actor, entries)
         select run_id, sequence + $2, at, actor,
                '[[0,\"\",{\"answer\":{\"wait_id\":\"00000000-0000-0000-0000-000000000000\",\"by\":\"x\",\"text\":\"x\"}}]]'
         from journal where run_id = $1 order by sequence desc limit 1",
    );
    assert_eq!(added.bind(run_id).bind(ahead).execute(pool).await?.rows_affected(), 1);
    Ok(())
}

#[tokio::test]
async fn the_auditor_names_what_the_journal_holds_beyond_the_row() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let run_id = ended(&deployment, &plan(&[step("only", &[], &[noop()])]), 0).await?;
    audit_all(&pool).await?;
    journal_more(&pool, run_id, 1).await?;
    named(&pool, "behind the end", "after the end").await;
    sqlx::query("delete from journal where run_id = $1").bind(run_id).execute(&pool).await?;
    deployment.database.drop().await?;
    for (ahead, said) in [(1, "events of"), (5, "stands at")] {
        let deployment =
            Deployment::start_idle(surety_e2e::harness::Database::create().await?, &[]).await?;
        let pool = deployment.database.pool().await?;
        let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
        audit_all(&pool).await?;
        journal_more(&pool, Uuid::parse_str(&run.id)?, ahead).await?;
        named(&pool, "behind a row that has not ended", said).await;
        deployment.database.drop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_auditor_names_what_a_step_is_wrongly_said_to_have_used_up() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let steps = [step("good", &[], &[noop()]), step("bad", &["good"], &[noop(), shell("exit 3")])];
    let run_id = ended(&deployment, &plan(&steps), 0).await?;
    audit_all(&pool).await?;
    let read = "select progress::text from execution where run_id = $1";
    let whole: String = sqlx::query_scalar(read).bind(run_id).fetch_one(&pool).await?;
    let written = "update execution set progress = $2::json where run_id = $1";
    for place in ["0", "1"] {
        for field in ["rounds", "tool_calls", "proofs", "corrections", "script_position"] {
            let mut progress: Value = serde_json::from_str(&whole)?;
            // A finished step is stored in a short form, without what it used up.
            if let Some(finished) = progress["finished"].as_array_mut() {
                finished.retain(|step| step[0].as_u64() != place.parse().ok());
            }
            progress["steps"][place]["attempt"] = 1.into();
            progress["steps"][place][field] = 77.into();
            sqlx::query(written).bind(run_id).bind(progress.to_string()).execute(&pool).await?;
            named(&pool, field, "the row has Used").await;
        }
    }
    let mut progress: Value = serde_json::from_str(&whole)?;
    progress["observed"] = true.into();
    sqlx::query(written).bind(run_id).bind(progress.to_string()).execute(&pool).await?;
    named(&pool, "observed", "was never verified").await;
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_tells_a_replan_from_a_repair() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let run_id = ended(&deployment, &plan(&[step("only", &[], &[shell("exit 3")])]), 1).await?;
    audit_all(&pool).await?;
    let swapped = "update execution
                   set progress = (progress::jsonb - 'replans' || '{\"repairs\": 1}')::json
                   where run_id = $1";
    forged(&pool, run_id, swapped).await?;
    named(&pool, "a replan as a repair", "0 replans in the row, 1").await;
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_names_a_call_that_is_repeated_without_permission() -> Result<()> {
    for (answer, said) in [("fail", "the answer was fail"), ("perhaps", "without permission")] {
        let trail = Trail::new()?;
        let mut deployment = Deployment::start_with(&QUICK).await?;
        let pool = deployment.database.pool().await?;
        let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
        let run = deployment.create(&waits, "").await?;
        wait_until("the command began", || trail.marks("began") == 1).await?;
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
        deployment.add_executor(&[]).await?;
        trail.let_go()?;
        let question = deployment.question(&run.id).await?;
        deployment.answer(&question.wait_id, "repeat").await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
        audit_all(&pool).await?;
        let change: forge::Forge = match answer {
            "fail" => |rows| answered(rows, "fail"),
            _ => |rows| answered(rows, "perhaps"),
        };
        forge::rewrite(&pool, Uuid::parse_str(&run.id)?, change).await?;
        named(&pool, answer, said).await;
        deployment.database.drop().await?;
    }
    Ok(())
}

fn answered(rows: &mut [forge::Row], text: &str) -> Result<()> {
    let is = |entry: &Entry| matches!(entry, Entry::Answer(_));
    let Entry::Answer(answer) = forge::entry(rows, is)? else { bail!("another entry") };
    text.clone_into(&mut answer.text);
    Ok(())
}

#[tokio::test]
async fn the_auditor_names_leases_of_dead_executors_and_of_those_that_shut_down() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let trail = Trail::new()?;
    let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let run = deployment.create(&waits, "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let limit = Duration::from_secs(10);
    held_by_the_living(&pool, limit).await?;
    // Frozen, so that it does not say that it lives.
    deployment.executors.first().context("an executor")?.signal(Signal::SIGSTOP)?;
    let silent = "update executor set heartbeat_at = heartbeat_at - interval '1 hour'";
    sqlx::query(silent).execute(&pool).await?;
    audit_all(&pool).await?;
    let found = held_by_the_living(&pool, limit).await.err().context("it went unseen")?.to_string();
    assert!(found.contains(&run.id) && found.contains("held by dead executors"), "{found}");
    let found = handed_back(&pool).await.err().context("it went unseen")?.to_string();
    assert!(found.contains(&run.id) && found.contains("kept leases"), "{found}");
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_holds_the_rows_of_waits_against_their_runs() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let policy =
        v1::Policy { confirm_tools: vec!["write_file".to_owned()], ..v1::Policy::default() };
    let asking = plan(&[step("only", &[], &[script::write("a.txt", "a")])]);
    let request = v1::CreateRunRequest { policy: Some(policy), ..script::request(&asking, "") };
    let run = deployment.create_run(request).await?;
    deployment.wait_for(&run.id, "asking", |run| run.blocked.is_some()).await?;
    let run_id = Uuid::parse_str(&run.id)?;
    audit_all(&pool).await?;
    let copy = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld)
                select gen_random_uuid(), RUN, kind, namespace, priority, opened_at, withheld
                from wait where run_id = $1";
    let (of_none, second) =
        (copy.replace("RUN", "gen_random_uuid()"), copy.replace("RUN", "run_id"));
    for (what, said, statement) in [
        ("a wait without its run", "are left without their runs", of_none.as_str()),
        ("a second wait", "the rows of waits are", &second),
        ("no wait", "the rows of waits are", "delete from wait where run_id = $1"),
        (
            "an answer",
            "the rows of waits are",
            "update wait set answered_at = now() where run_id = $1",
        ),
        ("a withheld wait", "is withheld", "update wait set withheld = true where run_id = $1"),
        (
            "a wait of another namespace",
            "is of the namespace",
            "update wait set namespace = 'other' where run_id = $1",
        ),
    ] {
        sqlx::query("create table kept as select * from wait").execute(&pool).await?;
        forged(&pool, run_id, statement).await?;
        named(&pool, what, said).await;
        for restoring in
            ["delete from wait", "insert into wait select * from kept", "drop table kept"]
        {
            sqlx::query(restoring).execute(&pool).await?;
        }
        audit_all(&pool).await?;
    }
    deployment.database.drop().await
}
