//! Denied calls, and those that no approver answered in time.

use super::{APPROVE, DENY, Stage, answer, code, confirming, shown, writing};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::agent::{Work, call};
use surety_e2e::script::{plan, step, write};

const DAY_S: i64 = 24 * 3600;

#[tokio::test]
async fn an_agent_sees_why_its_call_was_denied_and_stop_ends_the_run() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["write_file"]), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &writing("confirm", "one")).await?;
    let wait = stage.asked(&run).await?;
    let denial = v1::ResolveConfirmationRequest {
        comment: "not that file".to_owned(),
        ..answer(&wait, DENY)
    };
    stage.deployment.runs()?.resolve_confirmation(denial).await?;
    let work = agent.work(&run.id).await?;
    let seen = shown(&work.context);
    ensure!(seen.contains("alice denied the call of write_file"), "{seen}");
    ensure!(seen.contains("not that file"), "{seen}");
    // It thinks on: a read needs no confirmation, and asks for the next write.
    let read = call("list_dir", json!({})).to_string();
    let read = agent.submit(&work, &read).await?;
    ensure!(read.outcome() == v1::TurnOutcome::Applied, "{read:#?}");
    let work = Work { context: read.next.context("a next turn")?, ..work };
    agent.submit(&work, &writing("confirm", "two")).await?;
    let wait = stage.asked(&run).await?;
    let arguments = ["deny", &wait.id, "--digest", &wait.call_digest, "--stop"];
    let said = stage.deployment.command_line(&arguments).await?;
    ensure!(said.contains("denied; run"), "{said}");
    let run = stage.ended(&run, v1::StopReason::ConfirmationDenied).await?;
    let terminal = run.terminal.clone().context("an end")?;
    ensure!(terminal.user_message.contains("alice denied the call of write_file"), "{terminal:#?}");
    let receipts = stage.receipts(&run).await?;
    ensure!(receipts.iter().all(|it| it.name != "write_file"), "{receipts:#?}");
    ensure!(stage.said(&run).await?.iter().all(|it| !it.success));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_denial_fails_the_step_of_a_script_or_ends_the_run_by_its_policy() -> Result<()> {
    let stage = Stage::new().await?;
    let plan = plan(&[step("only", &[], &[write("a.txt", "a")])]);
    let stopping =
        v1::Policy { on_denied: v1::OnDenied::Stop.into(), ..confirming(&["write_file"]) };
    for (policy, reason) in [
        (confirming(&["write_file"]), v1::StopReason::MaxReplansReached),
        (stopping, v1::StopReason::ConfirmationDenied),
    ] {
        let run = stage.scripted(&plan, policy, DAY_S).await?;
        let wait = stage.asked(&run).await?;
        stage.resolve(&wait, DENY).await?;
        let run = stage.ended(&run, reason).await?;
        ensure!(stage.receipts(&run).await?.len() == 1, "the denial alone");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_confirmation_that_expires_ends_its_run_or_counts_as_denied() -> Result<()> {
    let stage = Stage::new().await?;
    let agent = stage.agent()?;
    let run = stage.driven(confirming(&["write_file"]), 1).await?;
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &writing("confirm", "one")).await?;
    let wait = stage.asked(&run).await?;
    stage.ended(&run, v1::StopReason::ConfirmationExpired).await?;
    let late = stage.deployment.runs()?.resolve_confirmation(answer(&wait, APPROVE)).await;
    ensure!(["wait_closed", "wait_not_found"].contains(&code(late)?.as_str()));

    let lasting =
        v1::Policy { on_expired: v1::OnExpired::Continue.into(), ..confirming(&["write_file"]) };
    let run = stage.driven(lasting.clone(), 1).await?;
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &writing("confirm", "one")).await?;
    let work = agent.work(&run.id).await?;
    let seen = shown(&work.context);
    ensure!(seen.contains("no approver answered by"), "{seen}");
    let abort = json!({"action": "abort", "abort": {"user_message": "no person is here"}});
    agent.submit(&work, &abort.to_string()).await?;
    stage.ended(&run, v1::StopReason::Aborted).await?;

    let plan = plan(&[step("only", &[], &[write("a.txt", "a")])]);
    let run = stage.scripted(&plan, lasting, 1).await?;
    stage.ended(&run, v1::StopReason::MaxReplansReached).await?;
    stage.deployment.finish().await
}
