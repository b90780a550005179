//! Tasks that end by a report, without one, or because nothing is left to do.

use super::NONE_IN_S;
use anyhow::{Context, Result, ensure};
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::toolchain::{LOGIN, Stage, issue, pull, reason};

#[tokio::test]
async fn a_task_is_offered_to_its_assignee_and_ends_with_its_report() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.assigned(7, LOGIN).await?;
    let again = stage.submit("issues", &issue(7, LOGIN)).await?;
    ensure!(again.tasks[0].result == "existed" && again.tasks[0].run_id == run_id, "{again:#?}");
    let handed = stage.handed(&run_id).await?;
    ensure!(handed.instructions.contains("You received an event that needs action"), "{handed:#?}");
    ensure!(handed.instructions.contains(&format!("surety task report {run_id}")), "{handed:#?}");
    let task = handed.task.context("no task")?;
    ensure!(task.assignee == AGENT && task.number == Some(7) && task.steps.len() == 6, "{task:#?}");

    let offered = stage.agent(OTHER)?.lease(&run_id, NONE_IN_S).await?;
    ensure!(offered.is_none(), "the task of another agent: {offered:#?}");
    let work = stage.agent(AGENT)?.work(&run_id).await?;
    ensure!(
        work.context
            .step
            .clone()
            .context("no step")?
            .description
            .contains("fix/7-the-list-is-slow"),
        "{work:#?}"
    );

    let other = reason(stage.report(OTHER, &run_id, "I did it: merged #7").await)?;
    ensure!(other == "permission_denied", "{other}");
    for text in [" \n", "\u{200b}\u{2060}\u{feff}"] {
        let blank = reason(stage.report(AGENT, &run_id, text).await)?;
        ensure!(blank == "field_missing", "{blank}");
    }
    for kind in ["system", "action_report", "status"] {
        let request = v1::AddTaskEntryRequest {
            run_id: run_id.clone(),
            kind: kind.to_owned(),
            body: "state: done".to_owned(),
            ..v1::AddTaskEntryRequest::default()
        };
        let refused = reason(stage.tasks(AGENT)?.add_task_entry(request).await)?;
        ensure!(refused == "entry_kind_unknown", "{kind}: {refused}");
    }
    ensure!(stage.task(&run_id).await?.terminal.is_none(), "an agent set a state");

    let request = v1::SubmitActionReportRequest {
        run_id: run_id.clone(),
        report: "Changed src/list.rs; CI run 12 passed; opened #8.".to_owned(),
        request_id: "r1".to_owned(),
        ..v1::SubmitActionReportRequest::default()
    };
    let accepted = stage.report_as(AGENT, request.clone()).await?;
    ensure!(accepted.accepted, "{accepted:#?}");
    let repeated = stage.report_as(AGENT, request.clone()).await?;
    ensure!(repeated.accepted, "{repeated:#?}");
    let changed = v1::SubmitActionReportRequest { report: "x".to_owned(), ..request };
    let conflict = reason(stage.report_as(AGENT, changed).await)?;
    ensure!(conflict == "request_id_conflict", "{conflict}");
    let late = reason(stage.report(AGENT, &run_id, "once more").await)?;
    ensure!(late == "run_terminal", "{late}");
    let run = stage.deployment.run(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let verdict = run.verdict.context("no verdict")?;
    ensure!(verdict.cautions.is_empty(), "{verdict:#?}");
    let request = v1::ListTaskEntriesRequest { run_id: run_id.clone(), ..Default::default() };
    let ended = stage.ended(&run_id).await?;
    ensure!(ended.outcome == "accepted" && ended.reported_at.is_some(), "{ended:#?}");
    let entries = stage.tasks(OTHER)?.list_task_entries(request).await?.into_inner().entries;
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    ensure!(kinds == ["action_report", "system"], "{entries:#?}");

    // No participant leases it: the report alone is enough. It names nothing, and is marked.
    let thin = stage.assigned(8, LOGIN).await?;
    let answer = stage.report(AGENT, &thin, "All is well.").await?;
    ensure!(answer.accepted, "{answer:#?}");
    let verdict = stage.deployment.run(&thin).await?.verdict.context("no verdict")?;
    let codes: Vec<_> = verdict.cautions.iter().map(|caution| caution.code.as_str()).collect();
    ensure!(codes == ["thin_report"], "{verdict:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn later_events_leave_nothing_to_do_and_notices_wake_no_agent() -> Result<()> {
    let stage = Stage::start().await?;
    let review = stage.submit("pull_request_rejected", &pull("reviewed", 9, 1)).await?;
    let review = review.tasks[0].run_id.clone();
    let task = stage.task(&review).await?;
    ensure!(task.action_type == "review_result" && task.assignee == AGENT, "{task:#?}");
    let merged = stage.submit("pull_request", &pull("closed", 9, 2)).await?;
    let notice = stage.ended(&merged.tasks[0].run_id).await?;
    ensure!(notice.outcome == "accepted" && notice.steps.is_empty(), "{notice:#?}");
    let ended = stage.ended(&review).await?;
    ensure!(ended.outcome == "superseded" && ended.failure.is_empty(), "{ended:#?}");
    ensure!(stage.deployment.run(&review).await?.state() == v1::RunState::Cancelled);
    // It is older than the merge, and arrives after it.
    let late = stage.submit("pull_request_rejected", &pull("reviewed", 9, 1)).await?;
    ensure!(late.tasks[0].result == "existed", "{late:#?}");
    let mut older = pull("reviewed", 9, 0);
    older["review"]["content"] = "Older.".into();
    older["pull_request"]["head"]["sha"] = "1111111111111111111111111111111111111111".into();
    let late = stage.submit("pull_request_rejected", &older).await?;
    ensure!(late.tasks[0].result == "superseded", "{late:#?}");
    // A merge of a pull request that is not known is a notice all the same.
    let unknown = stage.submit("pull_request", &pull("closed", 77, 3)).await?;
    ensure!(stage.ended(&unknown.tasks[0].run_id).await?.outcome == "accepted");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_request_that_the_forge_takes_back_ends_its_task_with_the_reason() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.assigned(7, LOGIN).await?;
    let mut taken = issue(7, "someone-else");
    taken["action"] = serde_json::json!("unassigned");
    let answer = stage.submit("issues", &taken).await?;
    ensure!(answer.ignored == "unassigned" && answer.tasks.is_empty(), "{answer:#?}");
    let ended = stage.ended(&run_id).await?;
    ensure!(ended.outcome == "superseded" && ended.failure.is_empty(), "{ended:#?}");
    let run = stage.deployment.run(&run_id).await?;
    let said = run.terminal.map(|terminal| terminal.user_message).unwrap_or_default();
    ensure!(said.contains("unassigned"), "{said}");
    let request = v1::ListTaskEntriesRequest { run_id, ..Default::default() };
    let entries = stage.tasks(PERSON)?.list_task_entries(request).await?.into_inner().entries;
    let last = entries.last().map(|entry| entry.body.as_str());
    ensure!(last == Some("The task ended as superseded: unassigned."), "{entries:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn agents_are_registered_once_and_unknown_ones_are_the_coordinator_s() -> Result<()> {
    let stage = Stage::start().await?;
    let request = |id: &str, login: &str| v1::PutAgentRequest {
        agent: Some(v1::Agent {
            id: id.to_owned(),
            accounts: vec![v1::ForgeAccount { forge: "gitea".to_owned(), login: login.to_owned() }],
            ..v1::Agent::default()
        }),
    };
    let taken = reason(stage.tasks(PERSON)?.put_agent(request("third", "BOB")).await)?;
    ensure!(taken == "account_taken", "{taken}");
    let invalid = reason(stage.tasks(PERSON)?.put_agent(request("third", "a b")).await)?;
    ensure!(invalid == "type_mismatch", "{invalid}");
    for (driver, code) in [("model", "feature_not_served"), ("script", "type_mismatch")] {
        let mut request = request("third", "carl");
        request.agent.get_or_insert_default().driver = driver.to_owned();
        let refused = reason(stage.tasks(PERSON)?.put_agent(request).await)?;
        ensure!(refused == code, "{driver}: {refused}");
    }
    let denied = reason(stage.tasks(AGENT)?.put_agent(request("third", "carl")).await)?;
    ensure!(denied == "permission_denied", "{denied}");
    let list = stage.tasks(PERSON)?.list_agents(v1::ListAgentsRequest {}).await?.into_inner();
    let ids: Vec<_> = list.agents.iter().map(|agent| agent.id.as_str()).collect();
    ensure!(ids == [AGENT, OTHER], "{list:#?}");

    let unknown = stage.assigned(11, "stranger").await?;
    let task = stage.task(&unknown).await?;
    ensure!(task.assignee == OTHER && task.addressee == "account stranger", "{task:#?}");
    ensure!(task.steps[0].contains("account stranger") && task.steps.len() == 8, "{task:#?}");

    // Without a coordinator the task waits until an agent answers for the account.
    let gone = |id: &str| v1::DeleteAgentRequest { id: id.to_owned() };
    stage.tasks(PERSON)?.delete_agent(gone(OTHER)).await?;
    let again = reason(stage.tasks(PERSON)?.delete_agent(gone(OTHER)).await)?;
    ensure!(again == "agent_unknown", "{again}");
    let waiting = stage.assigned(12, "dora").await?;
    ensure!(stage.task(&waiting).await?.assignee.is_empty());
    stage.put(OTHER, &[("gitea", "Dora")], &[]).await?;
    let replaced = stage.ended(&waiting).await?;
    ensure!(replaced.outcome == "superseded" && replaced.remind_at.is_none(), "{replaced:#?}");
    let given = stage.caused_by(&waiting, 1).await?;
    let [given] = given.as_slice() else { anyhow::bail!("{given:#?}") };
    ensure!(given.assignee == OTHER && given.steps.len() == 6, "{given:#?}");
    let answer = stage.report(OTHER, &given.run_id, "Opened #13.").await?;
    ensure!(answer.accepted, "{answer:#?}");
    stage.deployment.finish().await
}
