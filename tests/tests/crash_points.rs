//! An executor that dies at each place of a run where something was or was not yet written: its
//! successor finishes the run, every effect is there, and the journal stays lawful.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::script::{self, Trail, shell, step, write};

/// More changes than one such run makes.
const MANY: usize = 40;

fn order(trail: &Trail, mark: &str, workspace: &str) -> v1::CreateRunRequest {
    let look = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let edit = json!({"name": "edit_file", "arguments": edit});
    let steps = [
        step("write", &[], &[write("a.txt", "one\n"), edit]),
        step("command", &["write"], &[shell(&trail.mark(mark))]),
        step("look", &["write"], &[look]),
    ];
    let plan = json!({"title": "Three steps", "steps": steps, "verify": [
        {"kind": "command_success", "target": "grep two a.txt"},
        {"kind": "content_contains", "target": "a.txt", "params": {"contains": "two"}},
        {"kind": "workspace_change"}
    ]});
    v1::CreateRunRequest {
        policy: Some(v1::Policy {
            repeatable_commands: vec!["sh".to_owned()],
            ..v1::Policy::default()
        }),
        ..script::request(&plan, workspace)
    }
}

/// Waits until the first executor died, or the run ended without that.
async fn died(deployment: &mut Deployment, run_id: &str) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if deployment.first_executor()?.has_ended()? {
            return Ok(true);
        }
        if deployment.run(run_id).await?.terminal.is_some() {
            return Ok(false);
        }
        ensure!(Instant::now() < deadline, "neither died nor ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets executors die at the first, second, ... passing of a point, until a run passes it less
/// often than that. Answers how many died.
async fn die_at_each_passing_of(point: &str) -> Result<usize> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let pool = deployment.database.pool().await?;
    let trail = Trail::new()?;
    for passing in 1..MANY {
        let workspace = tempfile::tempdir()?;
        let mark = format!("m{passing}");
        let order = order(&trail, &mark, &workspace.path().to_string_lossy());
        let run = deployment.create_run(order).await?;
        let named = format!("{point}:{passing}");
        deployment.add_executor(&[("SURETY_CRASH_POINT", &named)]).await?;
        if !died(&mut deployment, &run.id).await? {
            deployment.finish().await?;
            return Ok(passing - 1);
        }
        // As if its heartbeat's age limit had passed.
        sqlx::query("update executor set heartbeat_at = 'epoch'").execute(&pool).await?;
        deployment.executors.clear();
        deployment.add_executor(&[]).await?;
        let run = deployment.wait_for_end(&run.id).await.context(named.clone())?;
        assert_eq!(run.state(), v1::RunState::Done, "{named}: {run:#?}");
        assert_eq!(std::fs::read_to_string(workspace.path().join("a.txt"))?, "two\n", "{named}");
        let marks = trail.marks(&mark);
        assert!((1..=2).contains(&marks), "{named}: the command ran {marks} times");
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
    }
    anyhow::bail!("a run passed {point} {MANY} times")
}

#[tokio::test]
async fn a_death_before_any_write_is_recovered_from() -> Result<()> {
    let deaths = die_at_each_passing_of("committer.before_write").await?;
    assert!(deaths >= 8, "{deaths}");
    Ok(())
}

#[tokio::test]
async fn a_death_after_any_write_is_recovered_from() -> Result<()> {
    let deaths = die_at_each_passing_of("committer.after_write").await?;
    assert!(deaths >= 8, "{deaths}");
    Ok(())
}

#[tokio::test]
async fn a_death_around_any_effect_or_claim_is_recovered_from() -> Result<()> {
    for point in ["executor.after_intent", "executor.after_effect", "executor.after_claim"] {
        let deaths = die_at_each_passing_of(point).await?;
        assert!(deaths >= 1, "{point}: {deaths}");
    }
    Ok(())
}
