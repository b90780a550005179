//! A push of a task never replaces work of others, and a call that is repeated after a kill finds its commit.

use super::agents::Work as Site;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, Work, call};
use surety_e2e::forge::CommitFact;
use surety_e2e::model_server::{Reply, Script};
use surety_e2e::toolchain::LOGIN;

fn write(content: &str) -> Value {
    call("write_file", json!({"path": "src/list.rs", "content": content}))
}

fn push() -> Value {
    call("forge_push", json!({"message": "Make the list quick"}))
}

/// Makes a call, and returns what the next turn is decided from.
async fn made(agent: &Agent, work: Work, call: &Value) -> Result<(Work, String)> {
    let answer = agent.submit(&work, &call.to_string()).await?;
    let observation = answer.observation.clone();
    Ok((Work { context: answer.next.context("the next turn")?, ..work }, observation))
}

async fn started() -> Result<Site> {
    let silent = |_: &_| Reply::status(500).saying("no model is asked");
    Site::start(Script::function(silent)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_others_with_the_message_of_the_run_is_not_replaced() -> Result<()> {
    let at = started().await?;
    let branch = "fix/9";
    let number = at.opened(LOGIN, branch, &[])?;
    let before = at.git.head(branch)?.context("a commit")?;
    let run_id = at.refused(number, "Be quick.").await?;
    let agent = at.stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let (work, _) = made(&agent, work, &write("fn list() { quick() }\n")).await?;
    let (work, said) = made(&agent, work, &push()).await?;
    ensure!(said.contains("pushed"), "{said}");
    // Its own commit is one to go on from.
    let (work, _) = made(&agent, work, &write("fn list() { quicker() }\n")).await?;
    let (work, said) = made(&agent, work, &push()).await?;
    ensure!(said.contains("pushed"), "{said}");
    let pushed = at.git.commits(branch)?.into_iter().next().context("a commit")?;
    ensure!(pushed.message.contains(&run_id), "{pushed:#?}");
    // A colleague amends it: another commit with the same message, and with work of the colleague.
    at.git.refer(&format!("refs/heads/{branch}"), &before)?;
    let amended =
        at.git.commit(branch, &[("src/theirs.rs", "fn theirs() {}\n")], &pushed.message)?;
    ensure!(amended != pushed.commit, "nothing was amended");
    let (work, _) = made(&agent, work, &write("fn list() { quickest() }\n")).await?;
    let (_, said) = made(&agent, work, &push()).await?;
    ensure!(said.contains("forge_refused"), "{said}");
    ensure!(at.git.head(branch)? == Some(amended), "the work of a colleague was replaced");
    at.stage.deployment.finish().await
}

/// An executor ends around its push; another one, with a clone of its own, makes the call again.
async fn pushes_once_after(point: &str) -> Result<()> {
    let mut at = started().await?;
    let branch = "fix/10";
    let number = at.opened(LOGIN, branch, &[])?;
    let before = at.git.head(branch)?.context("a commit")?;
    at.stage.deployment.first_executor()?.kill().await?;
    at.stage.deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
    let run_id = at.refused(number, "Be quick.").await?;
    let executors = &at.stage.deployment.executors;
    let agent = Agent::new(executors.last().context("an executor")?, AGENT, "driver-1")?;
    let work = agent.work(&run_id).await?;
    let (work, _) = made(&agent, work, &write("fn list() { quick() }\n")).await?;
    let lost = agent.submit(&work, &push().to_string()).await;
    ensure!(lost.is_err(), "the executor did not end: {lost:#?}");
    at.stage.deployment.add_executor(&[]).await?;
    let executors = &at.stage.deployment.executors;
    let agent = Agent::new(executors.last().context("an executor")?, AGENT, "driver-1")?;
    let work = agent.work(&run_id).await?;
    let (work, _) = made(&agent, work, &write("fn list() { quick() }\n")).await?;
    let (_, said) = made(&agent, work, &push()).await?;
    ensure!(said.contains(branch) && !said.contains("forge_refused"), "{said}");
    let of_run = |commit: &CommitFact| commit.message.contains(&run_id);
    let commits = at.git.commits(branch)?;
    ensure!(commits.iter().filter(|commit| of_run(commit)).count() == 1, "{commits:#?}");
    ensure!(commits[1].commit == before, "{commits:#?}");
    let run = at.stage.deployment.run(&run_id).await?;
    ensure!(run.state() != v1::RunState::Failed, "{run:#?}");
    at.stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_before_the_push_of_a_task_leaves_it_to_the_next() -> Result<()> {
    pushes_once_after("executor.before_branch_push:1").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_after_the_push_of_a_task_leaves_its_commit_to_be_found() -> Result<()>
{
    pushes_once_after("executor.after_branch_push:1").await
}
