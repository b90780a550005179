//! Comments on lines alone, as Gitea and Forgejo deliver them: one review without a text.

use super::issues::all_tasks;
use anyhow::{Context, Result, ensure};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1::{self, DeliveryState};
use surety_e2e::agent::AGENT;
use surety_e2e::forge::ForgeDouble;
use surety_e2e::toolchain::delivery::SECRETS;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};

#[tokio::test]
async fn comments_on_lines_alone_are_a_task_that_ends_with_a_reply() -> Result<()> {
    let double = ForgeDouble::start().await?;
    let on = OnForge::start_as(Forge::Forgejo, double, "", &SECRETS).await?;
    on.connect(Forge::Forgejo).await?;
    let number = on.opened(LOGIN, "fix/9-list")?;
    let lines = [("src/list.rs", 1, "Why slow?"), ("src/list.rs", 2, "And here?")];
    on.double.change(|state| state.review_lines(REPO, "alice", (number, "COMMENT", ""), &lines));
    let deliveries = on.processed(2).await?;
    let review = deliveries.iter().find(|one| one.event == "pull_request_comment");
    let review = review.context("no delivery of the review")?;
    let end = (review.forge(), review.state());
    ensure!(end == (v1::Forge::Forgejo, DeliveryState::Processed), "{review:#?}");
    let tasks = all_tasks(&on).await?;
    let task = tasks.iter().find(|task| task.action_type == "review_comment");
    let task = task.context("no task of the comments")?;
    ensure!(task.assignee == AGENT && review.run_ids == [task.run_id.clone()], "{task:#?}");
    let handed = on.stage.handed(&task.run_id).await?;
    for text in ["Why slow?", "And here?"] {
        ensure!(handed.instructions.contains(&format!("\n> {text}")), "{}", handed.instructions);
    }
    ensure!(handed.instructions.contains("src/list.rs, line 2:"), "{}", handed.instructions);
    let reply = (number, "It sorts the list.");
    on.double.change(|state| state.comment(REPO, LOGIN, reply)).context("a comment")?;
    let (accepted, ended) = on.reported(&task.run_id, "Replied on the pull request.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");
    on.stage.deployment.finish().await
}
