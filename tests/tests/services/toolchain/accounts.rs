//! The forge is asked about every account of an assignee: that of the registry and that of the forges file. What it cannot be
//! asked is shown.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER};
use surety_e2e::toolchain::{LOGIN, OnForge, REPO, Stage};

async fn verdict(stage: &Stage, run_id: &str) -> Result<v1::Verdict> {
    stage.deployment.run(run_id).await?.verdict.context("no verdict")
}

#[tokio::test]
async fn no_review_is_accepted_that_the_forge_was_not_asked_for() -> Result<()> {
    let on = OnForge::start_with(&[]).await?;
    // The forges file has the account of the reviewer, and the registry has none.
    on.stage.put(AGENT, &[], &["reviewer"]).await?;
    let number = on.opened("alice", "alice/list")?;
    let run_id = on.submitted("pull_request", &on.about("opened", number)?).await?;
    ensure!(on.stage.task(&run_id).await?.assignee == AGENT);
    let (accepted, failed) = on.reported(&run_id, "Reviewed src/list.rs: approved.").await?;
    ensure!(!accepted && failed.failure == "steps_ignored", "{failed:#?}");
    let refused = verdict(&on.stage, &run_id).await?;
    ensure!(refused.results.iter().any(|result| result.reason == "no_review"), "{refused:#?}");
    let again = on.stage.caused_by(&run_id, 1).await?.remove(0);
    on.double.change(|state| state.review(REPO, LOGIN, (number, "APPROVE", "Good.")));
    let (accepted, ended) = on.reported(&again.run_id, "Approved #1.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");

    // Nothing names an account of this one: it is told to the infrastructure, and is no fault of the assignee.
    on.stage.put(AGENT, &[], &[]).await?;
    on.stage.put(OTHER, &[], &["coordinator", "infra", "reviewer"]).await?;
    let number = on.opened("alice", "alice/more")?;
    let run_id = on.submitted("pull_request", &on.about("opened", number)?).await?;
    let answer = on.stage.report(OTHER, &run_id, "Reviewed src/list.rs: approved.").await?;
    let failed = on.stage.ended(&run_id).await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(!answer.accepted && why == ("account_unknown", "infrastructure"), "{failed:#?}");
    let told = on.stage.caused_by(&run_id, 1).await?.remove(0);
    ensure!(told.action_type == "infrastructure_failure", "{told:#?}");
    ensure!(told.context_json.contains("account_unknown"), "{told:#?}");

    // The coordinator acts in place of an account that no agent has: the work of that account counts.
    let number = on.opened("alice", "alice/third")?;
    let mut body = on.about("review_requested", number)?;
    body["requested_reviewer"] = json!({"login": "carol"});
    let run_id = on.submitted("pull_request", &body).await?;
    let task = on.stage.task(&run_id).await?;
    ensure!(task.assignee == OTHER && task.addressee == "account carol", "{task:#?}");
    on.double.change(|state| state.review(REPO, "carol", (number, "APPROVE", "Good.")));
    let answer = on.stage.report(OTHER, &run_id, "carol approved #3.").await?;
    ensure!(answer.accepted, "{answer:#?}");
    on.stage.deployment.finish().await
}

#[tokio::test]
async fn a_task_that_names_nothing_to_ask_the_forge_about_is_accepted_with_a_caution() -> Result<()>
{
    let on = OnForge::start_with(&[]).await?;
    let commit = "0".repeat(40);
    let at = "2026-11-02T03:04:05Z";
    let body = json!({
        "sha": commit, "state": "failure", "context": "tests", "description": "2 of 9 failed",
        "commit": {"id": commit, "author": {"username": LOGIN}, "timestamp": at},
        "created_at": at, "updated_at": at,
        "repository": {"full_name": REPO}, "sender": {"login": LOGIN}
    });
    let run_id = on.submitted("status", &body).await?;
    let (accepted, ended) = on.reported(&run_id, "Fixed src/list.rs.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");
    let verdict = verdict(&on.stage, &run_id).await?;
    let cautions: Vec<_> = verdict.cautions.iter().map(|it| it.code.as_str()).collect();
    ensure!(cautions == ["forge_not_asked"], "{verdict:#?}");
    on.stage.deployment.finish().await
}
