//! `surety task list|show|report|note|submit`, and attachments of entries.

use super::{Shell, row};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::toolchain::{LOGIN, Stage, issue, pull};
use tempfile::NamedTempFile;

const UNKNOWN: &str = "0199c0de-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_task_is_submitted_listed_shown_and_reported_by_commands() -> Result<()> {
    let stage = Stage::start().await?;
    let (person, agent) = (Shell::of(&stage, PERSON)?, Shell::of(&stage, AGENT)?);
    let mut file = NamedTempFile::new()?;
    file.write_all(issue(7, LOGIN).to_string().as_bytes())?;
    let file = file.path().to_string_lossy().into_owned();
    let submit = ["task", "submit", "--forge", "gitea", "--event", "issues", file.as_str()];
    let said = person.text(&submit).await?;
    let run_id = said.split_whitespace().next().context("no task")?.to_owned();
    ensure!(said == format!("{run_id} created {AGENT}\n"), "{said}");
    let again = person.json(&submit).await?;
    ensure!(again["tasks"][0]["result"] == "existed", "{again}");
    ensure!(again["tasks"][0]["run_id"] == run_id.as_str(), "{again}");
    let starred = ["task", "submit", "--forge", "gitea", "--event", "star", file.as_str()];
    ensure!(person.text(&starred).await? == "ignored: event_unknown\n");
    agent.refuses(&submit, "permission_denied").await?;

    let listed = agent.text(&["task", "list", "--open"]).await?;
    let shown = row(&listed, &run_id)?;
    ensure!(shown[1..4] == ["issue_assigned", "team/app#7", AGENT], "{listed}");
    let of_other = agent.json(&["task", "list", "--assignee", OTHER]).await?;
    ensure!(of_other == Value::Array(Vec::new()), "{of_other}");
    let all = agent.json(&["task", "list", "--type", "toolchain", "--limit", "1000"]).await?;
    ensure!(all.as_array().is_some_and(|all| all.len() == 1), "{all}");
    ensure!(all[0]["run_id"] == run_id.as_str() && all[0]["number"] == 7, "{all}");

    let shown = agent.text(&["task", "show", &run_id]).await?;
    for part in [
        format!("task {run_id} (issue_assigned)\n").as_str(),
        "  about     team/app#7\n",
        format!("  assignee  {AGENT}\n").as_str(),
        "  reminder  ",
        "You received an event that needs action",
        format!("surety task report {run_id} ").as_str(),
    ] {
        ensure!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let shown = agent.json(&["task", "show", &run_id]).await?;
    ensure!(shown["task"]["task"]["action_type"] == "issue_assigned", "{shown}");
    let handed = stage.handed(&run_id).await?.instructions;
    ensure!(shown["task"]["instructions"] == handed.as_str(), "{shown}");

    let other = Shell::of(&stage, OTHER)?;
    other.refuses(&["task", "report", &run_id, "I did it."], "permission_denied").await?;
    agent.refuses(&["task", "report", &run_id, " "], "field_missing").await?;
    agent.refuses(&["task", "report", UNKNOWN, "I did it."], "task_not_found").await?;
    agent.refuses(&["task", "show", UNKNOWN], "task_not_found").await?;
    agent.refuses(&["task", "list", "--type", "unknown"], "type_mismatch").await?;
    agent.refuses(&["task", "list", "--limit", "0"], "usage").await?;
    let report = "Changed src/list.rs; CI run 12 passed; opened #8.";
    let reported = ["task", "report", &run_id, report, "--request-id", "r1"];
    ensure!(agent.text(&reported).await? == "accepted\n");
    // A repetition of the call answers as the first one did.
    let repeated = agent.json(&reported).await?;
    ensure!(repeated["accepted"] == true && repeated["task"]["state"] == "DONE", "{repeated}");
    agent.refuses(&["task", "report", &run_id, "Once more."], "run_terminal").await?;
    stage.ended(&run_id).await?;
    let listed = agent.text(&["task", "list"]).await?;
    ensure!(row(&listed, &run_id)?.contains(&"accepted".to_owned()), "{listed}");
    let shown = agent.text(&["task", "show", &run_id]).await?;
    for part in [
        format!("action_report by {AGENT}\n  {report}\n").as_str(),
        "system by system\n  The task ended as accepted.\n",
        "  state     accepted\n",
    ] {
        ensure!(shown.contains(part), "{part:?} is not in {shown}");
    }
    ensure!(agent.json(&["task", "list", "--open"]).await? == Value::Array(Vec::new()));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_report_that_is_not_accepted_ends_with_its_own_exit_code_and_reason() -> Result<()> {
    let stage = Stage::start().await?;
    let person = Shell::of(&stage, PERSON)?;
    let run_id = stage.assigned(8, LOGIN).await?;
    // An operator reports for the wrong author.
    let words = ["task", "report", &run_id, "Opened #9.", "--author", OTHER];
    let ended = person.run(&words).await?;
    ensure!(ended.code == Some(2), "{ended:#?}");
    ensure!(ended.out.contains("report_author_mismatch"), "{ended:#?}");
    stage.ended(&run_id).await?;
    let shown = person.text(&["task", "show", &run_id]).await?;
    let state = "  state     failed: report_author_mismatch (business)\n";
    ensure!(shown.contains(state), "{shown}");
    // The task that follows says from which one.
    let again = stage.caused_by(&run_id, 1).await?;
    let again = again.iter().find(|task| task.action_type == "issue_assigned");
    let again = again.context("no task follows")?.run_id.clone();
    let shown = person.text(&["task", "show", &again]).await?;
    ensure!(shown.contains(&format!("  follows   {run_id} (chain {run_id}, task 2)\n")), "{shown}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_attachment_is_stored_whole_and_shown_by_the_command_and_the_api() -> Result<()> {
    let stage = Stage::start().await?;
    let (person, agent) = (Shell::of(&stage, PERSON)?, Shell::of(&stage, AGENT)?);
    let review = stage.submit("pull_request_rejected", &pull("reviewed", 9, 1)).await?;
    let run_id = review.tasks[0].run_id.clone();
    // Long, of several lines, in two languages, with what a terminal would obey.
    let plan = format!("# Plan 计划\n\n1. {}\n2. Test \u{1b}[2J it.", "slow ".repeat(10_000));
    let plan = plan.trim_end();
    let link = "https://forge.example/team/app/pulls/9";
    let words = [
        "task",
        "note",
        &run_id,
        plan,
        "--kind",
        "review",
        "--attachment",
        "fix-plan.md",
        "--link",
        link,
        "--request-id",
        "n1",
    ];
    let said = agent.text(&words).await?;
    let sequence = said.trim().strip_prefix("entry ").context(said.clone())?.to_owned();
    ensure!(agent.text(&words).await? == said, "a repetition is another entry");
    agent.text(&["task", "note", &run_id, "I look at it."]).await?;

    let request = v1::ListTaskEntriesRequest { run_id: run_id.clone(), ..Default::default() };
    let entries = stage.tasks(OTHER)?.list_task_entries(request).await?.into_inner().entries;
    let [output, note] = entries.as_slice() else { anyhow::bail!("{entries:#?}") };
    ensure!(output.body == plan && output.attachment == "fix-plan.md", "{output:#?}");
    ensure!((output.kind.as_str(), output.author.as_str()) == ("review", AGENT), "{output:#?}");
    ensure!(output.links == [link] && output.sequence.to_string() == sequence, "{output:#?}");
    ensure!(note.attachment.is_empty() && note.kind == "note", "{note:#?}");
    let shown = person.json(&["task", "show", &run_id]).await?;
    ensure!(shown["entries"][0]["attachment"] == "fix-plan.md", "{shown}");
    ensure!(shown["entries"][0]["body"] == plan, "{shown}");
    let shown = person.text(&["task", "show", &run_id]).await?;
    for part in [
        format!("review by {AGENT} [fix-plan.md]\n  # Plan 计划\n").as_str(),
        "  2. Test \\u{1b}[2J it.\n",
        format!("  {link}\n").as_str(),
    ] {
        ensure!(shown.contains(part), "{part:?} is not in {shown}");
    }

    for (more, code) in [
        (["--attachment", "two\nlines"], "type_mismatch"),
        (["--attachment", "x".repeat(201).as_str()], "too_large"),
        (["--kind", "status"], "entry_kind_unknown"),
    ] {
        let words = [&["task", "note", run_id.as_str(), "x"][..], &more].concat();
        agent.refuses(&words, code).await?;
    }
    let conflict = ["task", "note", &run_id, "Another text.", "--request-id", "n1"];
    agent.refuses(&conflict, "request_id_conflict").await?;
    // An output is no report.
    ensure!(stage.task(&run_id).await?.outcome.is_empty());
    stage.deployment.finish().await
}
