//! `surety webhooks put|hooks|list|show|replay|remove`

use super::{Shell, row};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Instant;
use surety_e2e::agent::{AGENT, PERSON};
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::delivery::{Answer, OLD, SECRETS, Sent, exchange, new_id};
use surety_e2e::toolchain::{LOGIN, Stage, issue};

const UNKNOWN: &str = "0199c0de-0000-7000-8000-000000000000";

/// Waits until the command shows a delivery that fulfils a condition.
async fn wait_for(person: &Shell, id: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = person.json(&["webhooks", "show", id]).await?;
        if fits(&shown["delivery"]) {
            return Ok(shown);
        }
        ensure!(Instant::now() < deadline, "not in time: {shown}");
    }
}

#[tokio::test]
async fn hooks_and_their_deliveries_are_managed_by_commands() -> Result<()> {
    let stage = Stage::start_with(&SECRETS).await?;
    let person = Shell::of(&stage, PERSON)?;
    let put = ["webhooks", "put", "main", "--forge", "gitea", "--secret", "old"];
    ensure!(person.text(&put).await? == "deliveries are taken at /webhooks/gitea/main\n");
    let both = [&put[..], &["--secret", "new"]].concat();
    let hook = person.json(&both).await?;
    ensure!(hook["forge"] == "gitea" && hook["secrets"][1] == "new", "{hook}");
    let hooks = person.text(&["webhooks", "hooks"]).await?;
    let shown = row(&hooks, "main")?;
    ensure!(shown[1..3] == ["/webhooks/gitea/main", "old,new"], "{hooks}");
    ensure!(shown.last().is_some_and(|by| by == PERSON) && !hooks.contains(OLD), "{hooks}");

    let address = stage.deployment.planner.address().to_owned();
    let body = issue(21, LOGIN).to_string();
    let sent = async |event: &str, body: &[u8]| -> Result<Answer> {
        exchange(&address, &Sent::gitea(&new_id(), event, body, OLD).to_bytes()).await
    };
    let (task, star) = (sent("issues", body.as_bytes()).await?, sent("star", b"{}").await?);
    let id = |answer: &Answer| {
        answer.body["delivery"].as_str().map(str::to_owned).with_context(|| format!("{answer:?}"))
    };
    let (task, star) = (id(&task)?, id(&star)?);
    let processed = wait_for(&person, &task, |it| it["state"] == "processed").await?;
    wait_for(&person, &star, |it| it["state"] == "ignored").await?;
    let run_id = processed["delivery"]["run_ids"][0].as_str().context("no task")?.to_owned();
    ensure!(stage.task(&run_id).await?.assignee == AGENT);

    let listed = person.text(&["webhooks", "list"]).await?;
    let shown = row(&listed, &task)?;
    ensure!(shown[1..3] == ["main", "issues"], "{listed}");
    ensure!(shown[shown.len() - 2..] == ["processed", "1"], "{listed}");
    let shown = row(&listed, &star)?;
    ensure!(shown[shown.len() - 3..] == ["ignored", "event_unknown", "0"], "{listed}");
    let ignored =
        person.json(&["webhooks", "list", "--state", "ignored", "--hook", "main"]).await?;
    ensure!(ignored.as_array().is_some_and(|all| all.len() == 1), "{ignored}");
    ensure!(ignored[0]["id"] == star.as_str(), "{ignored}");
    let none = person.json(&["webhooks", "list", "--hook", "other"]).await?;
    ensure!(none == Value::Array(Vec::new()), "{none}");

    let shown = person.text(&["webhooks", "show", &task]).await?;
    for part in [
        format!("delivery {task} of hook main (issues, {} bytes)\nstate: processed", body.len()),
        format!("task: {run_id}\n"),
        "The list is slow".to_owned(),
    ] {
        ensure!(shown.contains(&part), "{part:?} is not in {shown}");
    }
    for hidden in ["signature", "of-the-forge", OLD] {
        ensure!(!shown.contains(hidden) && !processed.to_string().contains(hidden), "{shown}");
    }

    person.text(&["webhooks", "replay", &task]).await?;
    let again = |it: &Value| it["replays"] == 1 && it["state"] == "processed";
    let again = wait_for(&person, &task, again).await?;
    ensure!(again["delivery"]["run_ids"] == processed["delivery"]["run_ids"], "{again}");
    let tasks = person.json(&["task", "list"]).await?;
    ensure!(tasks.as_array().is_some_and(|all| all.len() == 1), "{tasks}");

    refuses(&stage, &person).await?;
    let said = person.text(&["webhooks", "remove", "main"]).await?;
    ensure!(said == "hook main is deleted; deliveries are refused\n", "{said}");
    person.refuses(&["webhooks", "remove", "main"], "hook_not_found").await?;
    let refused = sent("star", b"{}").await?;
    ensure!(refused.code() == (404, "hook_not_found"), "{refused:?}");
    // Its deliveries stay.
    ensure!(row(&person.text(&["webhooks", "list"]).await?, &star).is_ok());
    stage.deployment.finish().await
}

async fn refuses(stage: &Stage, person: &Shell) -> Result<()> {
    let put = ["webhooks", "put", "bad", "--forge", "gitea", "--secret"];
    person.refuses(&[&put[..], &["none"]].concat(), "hook_secret_unknown").await?;
    let elsewhere = ["webhooks", "put", "bad", "--forge", "gitlab", "--secret", "old"];
    person.refuses(&elsewhere, "usage").await?;
    for command in ["show", "replay"] {
        person.refuses(&["webhooks", command, UNKNOWN], "delivery_not_found").await?;
        person.refuses(&["webhooks", command, "last"], "invalid_id").await?;
    }
    person.refuses(&["webhooks", "list", "--state", "lost"], "usage").await?;
    let agent = Shell::of(stage, AGENT)?;
    for words in [vec!["webhooks", "list"], vec!["webhooks", "hooks"]] {
        agent.refuses(&words, "permission_denied").await?;
    }
    agent.refuses(&["webhooks", "remove", "main"], "permission_denied").await
}
