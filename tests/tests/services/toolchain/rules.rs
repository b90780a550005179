//! The file with the operator's rules, as a planner takes it, on events that are delivered to it.

use super::clock::set_clock;
use super::issues::all_tasks;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, PERSON};
use surety_e2e::forge::ForgeDouble;
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::delivery::SECRETS;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO, reason};

const RULES: &str = r#"
templates_dir = "templates"
report_any_long_comment = true

[reminder_hours]
default = 9
issue_assigned = 100

[retention_days]
toolchain = 1

[risk]
high = ["src/**"]

[steps.issue_assigned]
en = ["Write the code of {{ context.repo }}.", "Push it."]

[[added_steps]]
action_type = "issue_assigned"
repo = "team/*"
context = { labels = "bug" }
en = "Run the integration tests: make integration."
"#;

const HOUR_S: i64 = 3600;

/// The number of a new issue of the account of the agent.
fn issue(on: &OnForge, labels: &[&str]) -> Result<u64> {
    let labels = labels.iter().map(ToString::to_string).collect();
    let assigned = (vec![LOGIN.to_owned()], labels);
    let texts = ("The list is slow", "It takes a minute.");
    let opened = on.double.change(|state| state.open_issue(REPO, "alice", texts, assigned));
    opened.context("an issue")
}

async fn task_of(on: &OnForge, number: u64) -> Result<v1::Task> {
    let found = all_tasks(on).await?.into_iter().find(|task| task.number == Some(number));
    found.context("no task")
}

/// The hours after its creation at which a task is handed again.
fn hours(task: &v1::Task) -> Result<i64> {
    let seconds = |at: Option<prost_types::Timestamp>| at.map(|at| at.seconds);
    let remind_at = seconds(task.remind_at).context("it is never handed again")?;
    // Its clock begins when its run is made, within the hour.
    Ok((remind_at - seconds(task.created_at).context("no time")?) / HOUR_S)
}

/// Waits until a task is deleted.
async fn is_forgotten(on: &OnForge, run_id: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = v1::GetTaskRequest { run_id: run_id.to_owned() };
        let answer = on.stage.tasks(PERSON)?.get_task(request).await;
        if answer.is_err() {
            let code = reason(answer)?;
            ensure!(code == "task_not_found", "{code}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the task is kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_rules_of_the_operator_hold_for_what_a_forge_delivers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rules.toml");
    fs::create_dir_all(folder.path().join("templates/en"))?;
    fs::write(&file, RULES)?;
    let hint = "Our own hint of {{ action_type }}.";
    fs::write(folder.path().join("templates/en/hint.j2"), hint)?;
    fs::write(folder.path().join("templates/en/checklist.j2"), "Our checklist: is it short?")?;
    let file = file.to_string_lossy().into_owned();
    let environment = [&SECRETS[..], &[("SURETY_TOOLCHAIN_FILE", file.as_str())]].concat();
    // What the forge shows decides nothing here.
    let double = ForgeDouble::start().await?;
    let mut on = OnForge::start_on(double, "probe = \"off\"", &environment).await?;
    on.connect(Forge::Gitea).await?;
    let (bug, other) = (issue(&on, &["bug"])?, issue(&on, &["docs"])?);
    let pull = on.opened("alice", "alice/list")?;
    on.processed(5).await?;

    let task = task_of(&on, bug).await?;
    let handed = on.stage.handed(&task.run_id).await?.instructions;
    ensure!(handed.starts_with("Our own hint of issue_assigned.\n"), "{handed}");
    let steps = "Steps:\n1. Write the code of team/app.\n2. Push it.\n3. Run the integration tests: make \
                 integration.\n4. Submit the action report.\n";
    ensure!(handed.contains(steps), "{handed}");
    ensure!(hours(&task)? == 100, "{task:#?}");
    ensure!(task_of(&on, other).await?.steps.len() == 3, "a step of another label");
    let review = task_of(&on, pull).await?;
    let context: serde_json::Value = serde_json::from_str(&review.context_json)?;
    ensure!(context["risk_level"] == "high", "{context:#}");
    ensure!(hours(&review)? == 9, "{review:#?}");
    let handed = on.stage.handed(&review.run_id).await?.instructions;
    ensure!(handed.contains("Our checklist: is it short?"), "{handed}");

    // A long comment is the report.
    let note = v1::AddTaskEntryRequest {
        run_id: task.run_id.clone(),
        body: "The list is sorted once now.".to_owned(),
        ..v1::AddTaskEntryRequest::default()
    };
    on.stage.tasks(AGENT)?.add_task_entry(note).await?;
    let ended = on.stage.done_without_a_report(&task.run_id).await?;
    ensure!(ended.outcome == "accepted", "{ended:#?}");
    // Two days later it is deleted, and what is open is kept.
    set_clock(&mut on.stage, 48).await?;
    is_forgotten(&on, &task.run_id).await?;
    ensure!(task_of(&on, other).await?.outcome.is_empty(), "an open task ended");
    on.stage.deployment.finish().await
}
