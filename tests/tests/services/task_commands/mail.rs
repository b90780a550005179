//! `surety mail send|inbox|read|reply`

use super::{Shell, row};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Instant;
use surety_e2e::agent::{AGENT, FOREIGN, OTHER, PERSON};
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::Stage;

const UNKNOWN: &str = "0199c0de-0000-7000-8000-000000000000";

/// The message of an agent's inbox with a subject.
async fn received(shell: &Shell, subject: &str) -> Result<Value> {
    let inbox = shell.json(&["mail", "inbox"]).await?;
    let mut found = inbox.as_array().into_iter().flatten();
    let found = found.find(|mail| mail["subject"] == subject);
    found.cloned().with_context(|| format!("no {subject:?} in {inbox}"))
}

#[tokio::test]
async fn messages_are_sent_read_and_answered_by_commands() -> Result<()> {
    let stage = Stage::start().await?;
    let (agent, other) = (Shell::of(&stage, AGENT)?, Shell::of(&stage, OTHER)?);
    let send = [
        "mail",
        "send",
        OTHER,
        "--subject",
        "Which port?",
        "--body",
        "Line one.\nLine \u{1b}two.",
        "--request",
        "--answer-within",
        "2h",
        "--request-id",
        "m1",
    ];
    let said = agent.text(&send).await?;
    let asked = said.split_whitespace().nth(1).context(said.clone())?.to_owned();
    ensure!(said == format!("message {asked} is sent to {OTHER}\n"), "{said}");
    ensure!(agent.json(&send).await?["id"] == asked.as_str(), "a repetition was sent again");
    let told = agent.json(&["mail", "send", OTHER, "--subject", "The build moved"]).await?;
    ensure!(told["kind"] == "inform" && told["state"] == "open", "{told}");

    let inbox = other.text(&["mail", "inbox", "--unread"]).await?;
    let shown = row(&inbox, &asked)?;
    ensure!(shown[1..5] == [AGENT, "request", "Which", "port?"], "{inbox}");
    ensure!(shown[shown.len() - 2..] == ["-", "open"] && inbox.contains("FROM"), "{inbox}");
    let first = other.json(&["mail", "inbox", "--limit", "1"]).await?;
    ensure!(first.as_array().is_some_and(|all| all.len() == 1), "{first}");
    ensure!(first[0]["id"] == told["id"] && first[0]["body"] == "", "the newest is first: {first}");

    let read = other.text(&["mail", "read", &asked]).await?;
    for part in [
        format!("request {asked} from {AGENT} to {OTHER}, ").as_str(),
        "subject: Which port?\nstate: open, deadline ",
        "> Line one.\n> Line \\u{1b}two.\n",
    ] {
        ensure!(read.contains(part), "{part:?} is not in {read}");
    }
    let id = told["id"].as_str().context("no id")?;
    let read = other.json(&["mail", "read", id]).await?;
    ensure!(read["mail"]["state"] == "accepted" && read["mail"]["read_at"].is_string(), "{read}");
    ensure!(other.json(&["mail", "inbox", "--unread"]).await? == Value::Array(Vec::new()));

    let said = other.text(&["mail", "reply", &asked, "7401", "--request-id", "a1"]).await?;
    ensure!(said.starts_with("answer "), "{said}");
    ensure!(said.ends_with(&format!(" is sent; {asked} is accepted\n")), "{said}");
    other.refuses(&["mail", "reply", &asked, "7402"], "wait_closed").await?;
    let answer = received(&agent, "Re: Which port?").await?;
    let answer = answer["id"].as_str().context("no id")?;
    let thread = agent.json(&["mail", "read", answer]).await?;
    ensure!(thread["mail"]["in_reply_to"] == asked.as_str(), "{thread}");
    ensure!(thread["thread"].as_array().is_some_and(|all| all.len() == 2), "{thread}");
    let sent = agent.text(&["mail", "inbox", "--sent", "--state", "accepted"]).await?;
    ensure!(row(&sent, &asked)?[1] == OTHER && sent.contains(" TO "), "{sent}");
    // An operator looks at the inbox of an agent.
    let person = Shell::of(&stage, PERSON)?;
    let looked = person.text(&["mail", "inbox", "--agent", OTHER]).await?;
    ensure!(row(&looked, &asked)?.contains(&"accepted".to_owned()), "{looked}");
    refuses(&stage, (&agent, &other), &asked).await?;
    dead_letter(&agent).await?;
    stage.deployment.finish().await
}

async fn refuses(stage: &Stage, (agent, other): (&Shell, &Shell), asked: &str) -> Result<()> {
    let long = "x".repeat(201);
    for (words, code) in [
        (vec!["mail", "send", OTHER, "--subject", " "], "field_missing"),
        (vec!["mail", "send", OTHER, "--subject", &long], "too_large"),
        (vec!["mail", "send", "", "--subject", "x"], "field_missing"),
        (vec!["mail", "send", OTHER, "--subject", "x", "--answer-within", "2h"], "usage"),
        (vec!["mail", "send", OTHER, "--subject", "x", "--thread", UNKNOWN], "task_not_found"),
        (
            vec!["mail", "send", OTHER, "--subject", "y", "--request-id", "m1"],
            "request_id_conflict",
        ),
        (vec!["mail", "read", UNKNOWN], "task_not_found"),
        (vec!["mail", "read", "last"], "invalid_id"),
        (vec!["mail", "reply", asked, "to itself"], "task_not_found"),
        (vec!["mail", "inbox", "--agent", OTHER], "permission_denied"),
        (vec!["mail", "inbox", "--state", "lost"], "usage"),
    ] {
        agent.refuses(&words, code).await?;
    }
    other.refuses(&["mail", "reply", asked, " "], "field_missing").await?;
    let foreign = Shell::of(stage, FOREIGN)?;
    foreign.refuses(&["mail", "read", asked], "namespace_not_found").await
}

/// A request without an answer fails, and the sender is told.
async fn dead_letter(agent: &Shell) -> Result<()> {
    let send = ["mail", "send", "away", "--subject", "Quick?", "--request"];
    let late = agent.json(&[&send[..], &["--answer-within", "1s"]].concat()).await?;
    let id = late["id"].as_str().context("no id")?;
    let deadline = Instant::now() + PATIENCE;
    let failed = loop {
        let failed = agent.text(&["mail", "inbox", "--sent", "--state", "failed"]).await?;
        match row(&failed, id) {
            Ok(row) => break row,
            Err(error) => ensure!(Instant::now() < deadline, "{error}"),
        }
    };
    ensure!(failed[failed.len() - 2..] == ["failed:", "unanswered"], "{failed:?}");
    let told = received(agent, "Re: Quick?").await?;
    ensure!(told["from"] == "system", "{told}");
    let told = told["id"].as_str().context("no id")?;
    let read = agent.text(&["mail", "read", told]).await?;
    ensure!(read.contains("> away did not answer"), "{read}");
    agent.refuses(&["mail", "reply", told, "thanks"], "failed_precondition").await
}
