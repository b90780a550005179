//! The forge itself decides: it is asked what a task led to, it gets one comment for a failure, and agents act on it by
//! their own accounts.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_e2e::agent::{AGENT, OTHER, call};
use surety_e2e::forge::Failure;
use surety_e2e::harness::wait_until;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};

#[tokio::test]
async fn a_review_is_answered_by_a_push_a_claim_gets_one_comment_and_an_outage_blames_no_agent()
-> Result<()> {
    let on = OnForge::start().await?;
    let number = on.opened(LOGIN, "fix/9-list")?;
    on.double
        .change(|state| state.review(REPO, "alice", (number, "REQUEST_CHANGES", "Add a test.")));
    let run_id = on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await?;

    // The agent claims a push that did not happen. The answer to the comment is lost after it was written.
    on.double.fail("add_comment", Failure::CutAfterWrite, (0, 1));
    let (accepted, failed) =
        on.reported(&run_id, "Changed src/list.rs, pushed, CI passed.").await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(!accepted && why == ("steps_ignored", "business"), "{failed:#?}");
    let verdict = on.stage.deployment.run(&run_id).await?.verdict.context("no verdict")?;
    ensure!(verdict.results.iter().any(|result| result.reason == "no_new_push"), "{verdict:#?}");
    let caused = on.stage.caused_by(&run_id, 1).await?;
    let [again] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
    let commented = || on.comments(number).into_iter().filter(|it| it.author == "surety");
    wait_until("commented", || commented().count() > 0).await?;
    let comment = commented().next().context("a comment")?;
    ensure!(comment.body.contains(&format!("@{LOGIN}")), "{comment:#?}");
    ensure!(comment.body.contains(&format!("<!-- surety:run={run_id} -->")), "{comment:#?}");

    // The push that the review asked for.
    on.git.commit("fix/9-list", &[("tests/list.rs", "#[test]\n")], "Test the list")?;
    let (accepted, ended) = on.reported(&again.run_id, "Pushed tests/list.rs.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");
    ensure!(commented().count() == 1, "{:#?}", on.comments(number));

    // While the forge is down, the verification errs, and not the agent.
    let newer = on.about("reviewed", number)?;
    on.double.change(|state| state.review(REPO, "alice", (number, "REQUEST_CHANGES", "More.")));
    let down = on.submitted("pull_request_rejected", &newer).await?;
    on.double.fail("*", Failure::Status(503), (0, 10_000));
    let (accepted, failed) = on.reported(&down, "Pushed src/list.rs.").await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(!accepted && why == ("forge_api_unreachable", "infrastructure"), "{failed:#?}");
    let caused = on.stage.caused_by(&down, 1).await?;
    let [infra] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
    ensure!(infra.action_type == "infrastructure_failure" && infra.assignee == OTHER, "{infra:#?}");
    let metrics = on.stage.deployment.gate.get("/metrics").await?;
    let counted = r#"surety_forge_calls_total{forge="main",operation="pull",result="unreachable"}"#;
    ensure!(metrics.contains(counted), "{metrics}");
    on.stage.deployment.finish().await
}

#[tokio::test]
async fn a_reviewer_works_with_the_forge_tools_by_its_own_account() -> Result<()> {
    let on = OnForge::start().await?;
    on.stage.put(AGENT, &[("gitea", LOGIN)], &["developer", "reviewer"]).await?;
    let number = on.opened("alice", "alice/list")?;
    let mut body = on.about("opened", number)?;
    body["sender"]["login"] = json!("alice");
    let run_id = on.submitted("pull_request", &body).await?;
    let task = on.stage.task(&run_id).await?;
    ensure!(task.action_type == "review_request" && task.assignee == AGENT, "{task:#?}");
    let context: Value = serde_json::from_str(&task.context_json)?;
    ensure!(context["changed_files"] == json!(["src/list.rs"]), "{context:#}");

    let agent = on.stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let review = json!({"event": "REQUEST_CHANGES", "body": "Do not be slow."});
    let replies = [
        call("forge_get", json!({"what": "diff"})),
        call("forge_review", review),
        call("forge_comment", json!({"body": "See the review."})),
    ];
    let last = agent.take_turns(work, &replies).await?;
    let shown = format!("{last:?}");
    ensure!(shown.contains("forge_comment") || shown.contains("comment on"), "{shown}");
    let reviews = on.double.change(|state| state.repo(REPO).map(|repo| repo.reviews.clone()));
    let reviews = reviews.context("the repository")?;
    let [review] = reviews.as_slice() else { anyhow::bail!("{reviews:#?}") };
    ensure!(
        (review.author.as_str(), review.event.as_str()) == (LOGIN, "REQUEST_CHANGES"),
        "{review:#?}"
    );
    ensure!(on.comments(number).iter().all(|it| it.author == LOGIN), "{:#?}", on.comments(number));
    let (accepted, ended) = on.reported(&run_id, "Reviewed #1: changes requested.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");

    // No credential is in what the run stored or said.
    let journal = on.stage.deployment.events(&run_id).await?;
    for login in [LOGIN, "surety"] {
        let token = on.double.token(login).context("a token")?;
        ensure!(
            !format!("{journal:?} {shown} {ended:?}").contains(&token),
            "a credential is shown"
        );
    }
    on.stage.deployment.finish().await
}
