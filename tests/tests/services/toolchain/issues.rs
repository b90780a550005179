//! The issue for the coordinator: opened once, for the account of the coordinator, and no event of it becomes a task.

use super::failures::no_mail;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::forge::{Failure, IssueState};
use surety_e2e::harness::{PATIENCE, wait_until};
use surety_e2e::toolchain::delivery::SECRETS;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};

/// The account of the coordinator.
const LEAD: &str = "lead";

pub(super) async fn all_tasks(on: &OnForge) -> Result<Vec<v1::Task>> {
    let request = v1::ListTasksRequest { page_size: 1000, ..Default::default() };
    Ok(on.stage.tasks(PERSON)?.list_tasks(request).await?.into_inner().tasks)
}

#[tokio::test]
async fn the_third_failure_opens_one_issue_for_the_coordinators_account() -> Result<()> {
    let on = OnForge::start_with(&SECRETS).await?;
    on.double.account(LEAD)?;
    on.stage.put(OTHER, &[("gitea", LEAD)], &["coordinator", "infra"]).await?;
    on.connect(Forge::Gitea).await?;
    let number = on.double.change(|state| {
        let texts = ("The list is slow", "It takes a minute.");
        state.open_issue(REPO, "alice", texts, (vec![LOGIN.to_owned()], Vec::new()))
    });
    let number = number.context("an issue")?;
    on.processed(2).await?;
    let first = all_tasks(&on).await?;
    let [first] = first.as_slice() else { anyhow::bail!("{first:#?}") };
    ensure!(first.assignee == AGENT && first.number == Some(number), "{first:#?}");

    // The answer to the issue is lost after the forge opened it.
    on.double.fail("create_issue", Failure::CutAfterWrite, (0, 1));
    let mut run_id = first.run_id.clone();
    for _ in 0..2 {
        on.stage.done_without_a_report(&run_id).await?;
        let caused = on.stage.caused_by(&run_id, 1).await?;
        let [again] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
        run_id.clone_from(&again.run_id);
    }
    let third = on.stage.done_without_a_report(&run_id).await?;
    ensure!(third.failure_class == "system", "{third:#?}");
    let opened = || -> Vec<IssueState> {
        on.double.change(|state| {
            let issues = state.repo(REPO).map(|repo| repo.issues.clone()).unwrap_or_default();
            issues.into_values().filter(|issue| issue.author == "surety").collect()
        })
    };
    wait_until("an issue", || !opened().is_empty()).await?;
    // The issue of alice and its assignment, two comments, the issue of the service and its assignment.
    let deliveries = on.processed(6).await?;
    let reasons = |reason: &str| deliveries.iter().filter(|one| one.reason == reason).count();
    let counts = (deliveries.len(), reasons("no_mention"), reasons("own_comment"));
    ensure!(counts == (6, 1, 4), "{deliveries:#?}");

    let pool = on.stage.deployment.database.pool().await?;
    let receipt = "select address from escalation where action = 'issue' and state = 'done'";
    let deadline = Instant::now() + PATIENCE;
    let address = loop {
        let found: Option<String> = sqlx::query_scalar(receipt).fetch_optional(&pool).await?;
        match found {
            Some(address) => break address,
            None => ensure!(Instant::now() < deadline, "no receipt in time"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let issues = opened();
    let [issue] = issues.as_slice() else { anyhow::bail!("{issues:#?}") };
    ensure!(issue.assignees == [LEAD], "{issue:#?}");
    ensure!(issue.title == "Task issue_assigned failed: no_action", "{issue:#?}");
    for part in
        [format!("`{run_id}`"), format!("{REPO}#{number}"), format!("<!-- surety:run={run_id} -->")]
    {
        ensure!(issue.body.contains(&part), "{part} is not in {issue:#?}");
    }
    ensure!(address.contains("/issues/"), "{address}");
    let comments = on.comments(number);
    let marked = |comment: &surety_e2e::forge::CommentState| {
        comment.author == "surety" && comment.body.starts_with(&format!("@{LOGIN} "))
    };
    ensure!(comments.len() == 2 && comments.iter().all(marked), "{comments:#?}");
    // Three attempts and the coordinator's: the service's own texts became none.
    let tasks = all_tasks(&on).await?;
    ensure!(tasks.len() == 4, "{tasks:#?}");
    let coordinator = tasks.iter().find(|task| task.action_type == "task_failed");
    ensure!(coordinator.is_some_and(|task| task.assignee == OTHER), "{tasks:#?}");
    // The history of the failed task has the address, too.
    let said = on.stage.history(&run_id).await?;
    ensure!(said.last() == Some(&format!("The issue was opened: {address}")), "{said:#?}");
    pool.close().await;
    no_mail(&on.stage).await?;
    on.stage.deployment.finish().await
}
