//! Planners that end between a task's row and what follows from it.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::toolchain::{LOGIN, Stage, issue};
use tonic::Code;

/// A planner that ends at a point, in place of the running one.
async fn planner_that_ends_at(stage: &mut Stage, point: &str) -> Result<()> {
    stage.deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await
}

#[tokio::test]
async fn a_planner_that_ends_leaves_no_task_and_no_follow_up_out_and_makes_none_twice() -> Result<()>
{
    let mut stage = Stage::start().await?;
    planner_that_ends_at(&mut stage, "planner.after_task_stored:1").await?;
    let lost = stage.submit("issues", &issue(41, LOGIN)).await;
    ensure!(lost.is_err(), "the planner did not end: {lost:#?}");
    stage.deployment.replace_planner().await?;
    let again = stage.submit("issues", &issue(41, LOGIN)).await?;
    ensure!(again.tasks[0].result == "existed", "{again:#?}");
    let run_id = again.tasks[0].run_id.clone();
    // The upkeep of the new planner makes the run, and an agent can take it.
    let made = |task: &v1::Task| task.state() != v1::RunState::Intake;
    stage.wait_for(&run_id, "made", made).await?;
    let agent = stage.agent(AGENT)?;
    let mut run_id = run_id;
    for point in ["planner.before_task_end:1", "planner.after_task_end:1"] {
        let work = agent.work(&run_id).await?;
        planner_that_ends_at(&mut stage, point).await?;
        let done = json!({"action": "done", "goal_check": "done"}).to_string();
        agent.submit(&work, &done).await?;
        stage.deployment.planner.wait_for_exit().await?;
        stage.deployment.replace_planner().await?;
        stage.ended(&run_id).await?;
        // The task again, and that nothing can be written: to the coordinator and to the infrastructure.
        let caused = stage.caused_by(&run_id, 3).await?;
        ensure!(caused.len() == 3, "{point}: {caused:#?}");
        let next = caused.iter().find(|task| task.action_type == "issue_assigned");
        run_id.clone_from(&next.context("the task again")?.run_id);
    }
    let request = v1::ListTasksRequest { page_size: 2, ..Default::default() };
    let page = stage.tasks(PERSON)?.list_tasks(request.clone()).await?.into_inner();
    ensure!(page.tasks.len() == 2 && !page.next_page_token.is_empty(), "{page:#?}");
    let next = v1::ListTasksRequest { page_token: page.next_page_token, ..request };
    let rest = stage.tasks(PERSON)?.list_tasks(next).await?.into_inner();
    ensure!(!rest.tasks.is_empty() && rest.tasks[0].run_id < page.tasks[1].run_id, "{rest:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_planner_that_ends_behind_a_withdrawal_leaves_the_end_of_its_task_to_the_next_one()
-> Result<()> {
    let mut stage = Stage::start().await?;
    let made = stage.submit("issues", &issue(42, LOGIN)).await?;
    let run_id = made.tasks[0].run_id.clone();
    planner_that_ends_at(&mut stage, "planner.after_withdrawal:1").await?;
    let mut taken = issue(42, LOGIN);
    taken["action"] = json!("unassigned");
    taken["issue"]["assignees"] = json!([]);
    taken["issue"]["updated_at"] = json!("2026-11-02T04:04:05Z");
    let lost = stage.submit("issues", &taken).await;
    ensure!(lost.is_err(), "the planner did not end: {lost:#?}");
    stage.deployment.replace_planner().await?;
    let is_over = |task: &v1::Task| task.state() == v1::RunState::Cancelled;
    stage.wait_for(&run_id, "cancelled", is_over).await?;
    // What is withdrawn a second time changes nothing, and a late request makes no task.
    let again = stage.submit("issues", &taken).await?;
    ensure!(again.tasks.is_empty(), "{again:#?}");
    let late = stage.submit("issues", &issue(42, LOGIN)).await?;
    ensure!(late.tasks.iter().all(|task| task.result != "created"), "{late:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_planner_that_ends_while_it_gives_or_reminds_leaves_the_rest_to_the_next_one()
-> Result<()> {
    let mut stage = Stage::start().await?;
    let gone = v1::DeleteAgentRequest { id: OTHER.to_owned() };
    stage.tasks(PERSON)?.delete_agent(gone).await?;
    let waiting = stage.assigned(43, "dora").await?;
    planner_that_ends_at(&mut stage, "planner.after_assignment:1").await?;
    // The task is given beside the call that stores the agent, so the planner may end before it answers.
    if let Err(error) = stage.put(OTHER, &[("gitea", "dora")], &[]).await {
        let code = error.downcast_ref::<tonic::Status>().map(tonic::Status::code);
        ensure!(matches!(code, Some(Code::Unknown | Code::Unavailable)), "{error:?}");
    }
    stage.deployment.planner.wait_for_exit().await?;
    stage.deployment.replace_planner().await?;
    let replaced = stage.ended(&waiting).await?;
    ensure!(replaced.outcome == "superseded", "{replaced:#?}");
    let given = stage.caused_by(&waiting, 1).await?;
    let [given] = given.as_slice() else { anyhow::bail!("{given:#?}") };
    ensure!(given.assignee == OTHER, "{given:#?}");
    // Until its run is made no clock runs, and making it starts the clock anew.
    stage.wait_for(&given.run_id, "at work", |task| task.remind_at.is_some()).await?;

    planner_that_ends_at(&mut stage, "planner.before_reminder:1").await?;
    let pool = stage.deployment.database.pool().await?;
    let due = "update task set remind_at = created_at where run_id::text = $1";
    sqlx::query(due).bind(&given.run_id).execute(&pool).await?;
    stage.deployment.planner.wait_for_exit().await?;
    stage.deployment.replace_planner().await?;
    stage.wait_for(&given.run_id, "reminded", |task| task.reminders == 1).await?;
    let request = v1::ListTaskEntriesRequest { run_id: given.run_id.clone(), ..Default::default() };
    let entries = stage.tasks(PERSON)?.list_task_entries(request).await?.into_inner().entries;
    let reminders = entries.iter().filter(|entry| entry.body.contains("Reminder")).count();
    ensure!(reminders == 1, "{entries:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_planner_that_ends_while_it_notes_what_an_agent_waits_for_loses_neither_half()
-> Result<()> {
    let mut stage = Stage::start().await?;
    let run_id = stage.assigned(44, LOGIN).await?;
    stage.wait_for(&run_id, "at work", |task| task.remind_at.is_some()).await?;
    let note = v1::AddTaskEntryRequest {
        run_id: run_id.clone(),
        request_id: "pushed".to_owned(),
        kind: "note".to_owned(),
        body: "Pushed.".to_owned(),
        waiting_for: "CI".to_owned(),
        ..Default::default()
    };
    planner_that_ends_at(&mut stage, "planner.before_entry_waits:1").await?;
    let lost = stage.tasks(AGENT)?.add_task_entry(note.clone()).await;
    ensure!(lost.is_err(), "the planner did not end: {lost:#?}");
    stage.deployment.replace_planner().await?;
    let request = v1::ListTaskEntriesRequest { run_id: run_id.clone(), ..Default::default() };
    let entries =
        stage.tasks(PERSON)?.list_task_entries(request.clone()).await?.into_inner().entries;
    ensure!(entries.is_empty(), "half of it was stored: {entries:#?}");
    for _ in 0..2 {
        stage.tasks(AGENT)?.add_task_entry(note.clone()).await?;
    }
    let held = stage.task(&run_id).await?;
    ensure!(held.waiting_for == "CI" && held.remind_at.is_none(), "{held:#?}");
    let entries = stage.tasks(PERSON)?.list_task_entries(request).await?.into_inner().entries;
    ensure!(entries.len() == 1, "{entries:#?}");
    stage.deployment.finish().await
}
