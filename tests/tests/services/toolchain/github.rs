//! GitHub: a signed delivery over HTTP becomes a task whose calls are GitHub's, and GitHub itself decides about it. The
//! counters show each of it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1::{self, DeliveryState};
use surety_e2e::agent::{AGENT, call};
use surety_e2e::forge::{Delivered, ForgeDouble, PullState, State};
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::delivery::{SECRETS, Sent, exchange, new_id};
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};

/// What the forge leaves of its limit after each call.
const LEFT: f64 = 4999.0;

/// Opens a pull request of alice whose reviewer is [`LOGIN`], and returns its number.
fn asks_for_review(on: &OnForge, branch: &str) -> Result<u64> {
    let changed = [("src/list.rs", "fn list() { slow() }\n")];
    let commit = on.git.commit(branch, &changed, &format!("List of {branch}"))?;
    let reviewers = vec![LOGIN.to_owned()];
    let pull = PullState { reviewers, ..State::pull_of("alice", branch, &commit) };
    on.double.change(|state| state.open_pull(REPO, pull)).context("a pull request")
}

/// The one delivery of the request for the review of a pull request, once it is processed.
async fn requested(on: &OnForge, number: u64) -> Result<(Delivered, v1::Delivery)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sent = on.double.deliveries().into_iter().find(|one| {
            let body: Value = serde_json::from_str(&one.body).unwrap_or_default();
            one.event == "pull_request" && body["action"] == "opened" && body["number"] == number
        });
        if let Some(sent) = sent {
            let mut found = on.processed(1).await?.into_iter();
            let stored = found.find(|one| one.forge_delivery_id == sent.id);
            return Ok((sent, stored.context("the delivery is not stored under its id")?));
        }
        ensure!(Instant::now() < deadline, "no delivery of {number}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The same delivery again is none, by its id and by its content.
async fn repeats(on: &OnForge, first: &Delivered) -> Result<()> {
    let address = on.stage.deployment.planner.address();
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(first.headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let body = first.body.clone().into_bytes();
    let again = Sent { path: "/webhooks/github/main", headers, body };
    let answer = exchange(address, &again.to_bytes()).await?;
    ensure!(answer.status == 202 && answer.body["state"] == "repeated", "{answer:?}");
    let other = new_id();
    let renamed = again.with("x-github-delivery", &other);
    let answer = exchange(address, &renamed.to_bytes()).await?;
    ensure!(answer.status == 202 && answer.body["state"] == "stored", "{answer:?}");
    let found = on.processed(2).await?;
    let found = found.iter().find(|one| one.forge_delivery_id == other).context("no row")?;
    let end = (found.state(), found.reason.as_str());
    ensure!(end == (DeliveryState::Repeated, "same_content"), "{found:#?}");
    Ok(())
}

/// The value of a series that has these labels; none where there is none.
fn value(metrics: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |line: &str| {
        labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
    };
    let mut of_name = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    of_name.find(|line| has(line))?.rsplit(' ').next()?.parse().ok()
}

/// A series by its name and labels, with its value.
type Series<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

/// Waits until the series have their values.
async fn counted(on: &OnForge, wanted: &[Series<'_>]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = on.stage.deployment.planner.get("/metrics").await?;
        let wrong = wanted
            .iter()
            .find(|(name, labels, expected)| value(&metrics, name, labels) != Some(*expected));
        let Some(wrong) = wrong else { return Ok(()) };
        ensure!(Instant::now() < deadline, "{wrong:?} is not in\n{metrics}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// After the accepted task another one ends without a report.
async fn one_fails_and_each_is_counted(on: &OnForge) -> Result<()> {
    let number = asks_for_review(on, "alice/more")?;
    let (_, stored) = requested(on, number).await?;
    let ignored = stored.run_ids.first().context("a task")?;
    let failed = on.stage.done_without_a_report(ignored).await?;
    ensure!(failed.failure_class == "business", "{failed:#?}");
    let again = on.stage.caused_by(ignored, 1).await?;
    let [again] = again.as_slice() else { anyhow::bail!("{again:#?}") };
    ensure!(again.state() == v1::RunState::Executing, "{again:#?}");
    let kind = [("event_type", "review_requested"), ("action_type", "review_request")];
    let ended = |outcome: &'static str, class: &'static str| {
        [kind[0], kind[1], ("outcome", outcome), ("class", class)]
    };
    counted(
        on,
        &[
            // Two deliveries and what follows from a failure.
            ("surety_task_events_total", &[kind[0], ("result", "created")], 3.0),
            ("surety_tasks_ended_total", &ended("accepted", ""), 1.0),
            ("surety_tasks_ended_total", &ended("failed", "business"), 1.0),
            ("surety_task_report_seconds_count", &[kind[1]], 1.0),
            (
                "surety_tasks_open",
                &[("task_type", "toolchain"), kind[0], kind[1], ("state", "EXECUTING")],
                1.0,
            ),
            ("surety_task_escalations_total", &[("action", "comment"), ("result", "noted")], 1.0),
            ("surety_task_escalations_total", &[("action", "comment"), ("result", "done")], 1.0),
            ("surety_deliveries_total", &[("forge", "github"), ("result", "repeated")], 1.0),
            (
                "surety_forge_calls_total",
                &[("forge", "main"), ("operation", "changed_files"), ("result", "ok")],
                2.0,
            ),
            ("surety_forge_rate_limit_left", &[("forge", "main")], LEFT),
        ],
    )
    .await?;
    ensure!(on.comments(number).iter().any(|it| it.author == "surety"), "no comment");
    Ok(())
}

#[tokio::test]
async fn a_delivery_of_github_becomes_an_accepted_task_and_the_counters_show_it() -> Result<()> {
    let double = ForgeDouble::start().await?;
    let on = OnForge::start_as(Forge::Github, double, "", &SECRETS).await?;
    on.connect(Forge::Github).await?;
    let number = asks_for_review(&on, "alice/list")?;
    let (sent, stored) = requested(&on, number).await?;
    let shown = (stored.forge(), stored.event.as_str(), stored.state());
    ensure!(shown == (v1::Forge::Github, "pull_request", DeliveryState::Processed), "{stored:#?}");
    let [run_id] = stored.run_ids.as_slice() else { anyhow::bail!("{stored:#?}") };
    repeats(&on, &sent).await?;

    let handed = on.stage.handed(run_id).await?;
    for part in [
        format!("GET /repos/{REPO}/pulls/{number}, Accept: application/vnd.github.diff"),
        format!("POST /repos/{REPO}/pulls/{number}/reviews, event=APPROVE|REQUEST_CHANGES"),
        format!("Address: https://forge.example/{REPO}/pull/{number}"),
        "Checklist of the review:\n- ".to_owned(),
    ] {
        ensure!(handed.instructions.contains(&part), "{part} is not in\n{}", handed.instructions);
    }
    let task = handed.task.context("no task")?;
    let asks = (task.action_type.as_str(), task.assignee.as_str(), task.source.as_str());
    ensure!(asks == ("review_request", AGENT, "github"), "{task:#?}");
    let agent = on.stage.agent(AGENT)?;
    let work = agent.work(run_id).await?;
    let replies = [
        call("forge_get", json!({"what": "diff"})),
        call("forge_review", json!({"event": "APPROVE", "body": "It is short."})),
    ];
    agent.take_turns(work, &replies).await?;
    let (accepted, ended) = on.reported(run_id, "Read the diff; approved the review.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");
    let verdict = on.stage.deployment.run(run_id).await?.verdict.context("no verdict")?;
    let asked = verdict.results.iter().find(|result| result.name == "forge_state");
    ensure!(asked.is_some_and(|result| result.passed), "{verdict:#?}");
    one_fails_and_each_is_counted(&on).await?;
    on.stage.deployment.finish().await
}
