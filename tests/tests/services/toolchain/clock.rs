//! The clock of the report, by the database's time.

use anyhow::{Result, ensure};
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::toolchain::{LOGIN, Stage, reason};

/// Sets the database's clock on, for the processes that come after it.
pub(super) async fn set_clock(stage: &mut Stage, hours: i32) -> Result<()> {
    let database = &stage.deployment.database;
    let name = database.name();
    let pool = database.pool().await?;
    for statement in [
        // Found before the function that it replaces.
        format!(
            "create or replace function clock_timestamp() returns timestamptz language sql volatile as
             $$ select pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
        ),
        format!("alter database {name} set search_path = public, pg_catalog"),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await?;
    }
    stage.deployment.replace_planner().await
}

#[tokio::test]
async fn a_task_is_handed_again_twice_and_then_fails_unless_its_assignee_waits_for_others()
-> Result<()> {
    let mut stage = Stage::start().await?;
    let silent = stage.assigned(31, LOGIN).await?;
    let waits = stage.assigned(32, LOGIN).await?;
    // No agent answers for this one, and none is a coordinator: nothing is counted before it is handed to one.
    let gone = v1::DeleteAgentRequest { id: OTHER.to_owned() };
    stage.tasks(PERSON)?.delete_agent(gone).await?;
    let without = stage.assigned(33, "dora").await?;
    stage.put(OTHER, &[], &[]).await?;
    let work = stage.agent(AGENT)?.work(&silent).await?;
    let note = |identity: &str, waiting_for: &str| v1::AddTaskEntryRequest {
        run_id: waits.clone(),
        body: format!("Pushed; {identity} waits."),
        waiting_for: waiting_for.to_owned(),
        ..v1::AddTaskEntryRequest::default()
    };
    let denied = reason(stage.tasks(OTHER)?.add_task_entry(note(OTHER, "CI")).await)?;
    ensure!(denied == "permission_denied", "{denied}");
    stage.tasks(AGENT)?.add_task_entry(note(AGENT, "CI")).await?;
    let held = stage.task(&waits).await?;
    ensure!(held.waiting_for == "CI" && held.remind_at.is_none(), "{held:#?}");
    for reminders in 1..=2 {
        set_clock(&mut stage, i32::try_from(5 * reminders)?).await?;
        stage.wait_for(&silent, "reminded", |task| task.reminders == reminders).await?;
        let handed = stage.handed(&silent).await?;
        let first = format!("Reminder {reminders} of 2");
        ensure!(handed.instructions.starts_with(&first), "{handed:#?}");
        // The agent that leases it again is handed the same, as its step and in its conversation.
        let again = stage.agent(AGENT)?.work(&silent).await?;
        let step = again.context.step.unwrap_or_default();
        ensure!(step.description == handed.instructions.trim(), "{step:#?}");
        let told = again.context.messages.iter().any(|message| message.text.contains(&first));
        ensure!(told, "{:#?}", again.context.messages);
        // Each planner counts its own.
        let metrics = stage.deployment.planner.get("/metrics").await?;
        let counted = r#"surety_task_reminders_total{action_type="issue_assigned"} 1"#;
        ensure!(metrics.contains(counted), "{metrics}");
    }
    // The silent holder of the lease lost it, so that the task was offered again.
    let lost = stage.agent(AGENT)?.submit(&work, r#"{"action":"done","goal_check":"x"}"#).await;
    ensure!(reason(lost)? == "lease_lost");
    let waited = stage.task(&without).await?;
    ensure!(waited.reminders == 0 && waited.outcome.is_empty(), "{waited:#?}");
    stage.put(OTHER, &[("gitea", "dora")], &["coordinator", "infra"]).await?;
    let given = stage.caused_by(&without, 1).await?;
    ensure!(given[0].assignee == OTHER && given[0].reminders == 0, "{given:#?}");
    set_clock(&mut stage, 15).await?;
    let failed = stage.ended(&silent).await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(why == ("deadline_exceeded", "system"), "{failed:#?}");
    let caused = stage.caused_by(&silent, 1).await?;
    ensure!(caused.iter().any(|task| task.action_type == "task_failed"), "{caused:#?}");
    let held = stage.task(&waits).await?;
    ensure!(held.reminders == 0 && held.outcome.is_empty(), "the clock stood still: {held:#?}");
    stage.tasks(AGENT)?.add_task_entry(note(AGENT, "")).await?;
    let held = stage.task(&waits).await?;
    ensure!(held.remind_at.is_some() && held.waiting_for.is_empty(), "{held:#?}");
    let answer = stage.report(AGENT, &waits, "CI run 5 passed.").await?;
    ensure!(answer.accepted, "{answer:#?}");
    stage.deployment.finish().await
}
