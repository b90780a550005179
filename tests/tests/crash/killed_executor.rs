//! An executor that is killed during a step: another continues, and no call is repeated without
//! permission.

use super::QUICK;
use anyhow::{Context, Result};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, plan, scoped, shell, step, write};

fn receipts(events: &[v1::Event]) -> Vec<&v1::EvidenceReceipt> {
    let receipts = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Receipt(receipt)) => Some(receipt),
        _ => None,
    });
    receipts.collect()
}

fn intents(events: &[v1::Event]) -> Vec<&v1::Intent> {
    let intents = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Intent(intent)) => Some(intent),
        _ => None,
    });
    intents.collect()
}

/// A run of one command, whose executor is killed while the command waits, and a second executor.
async fn killed_in_a_command(trail: &Trail, repeatable: &[&str]) -> Result<(Deployment, v1::Run)> {
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let steps = [
        step("before", &[], &[shell(&trail.mark("before"))]),
        step("middle", &["before"], &[shell(&trail.mark_and_wait("middle"))]),
        step("after", &["middle"], &[shell(&trail.mark("after"))]),
    ];
    let request = v1::CreateRunRequest {
        policy: Some(v1::Policy {
            repeatable_commands: repeatable.iter().map(|line| (*line).to_owned()).collect(),
            ..v1::Policy::default()
        }),
        ..script::request(&plan(&steps), "")
    };
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("middle") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    Ok((deployment, run))
}

#[tokio::test]
async fn a_command_that_was_declared_repeatable_is_run_again_under_the_same_call_id() -> Result<()>
{
    let trail = Trail::new()?;
    let (deployment, run) = killed_in_a_command(&trail, &["sh -c"]).await?;
    wait_until("the command was run again", || trail.marks("middle") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let marks = ["before", "middle", "after"].map(|name| trail.marks(name));
    assert_eq!(marks, [1, 2, 1]);
    let events = deployment.events(&run.id).await?;
    let (intents, receipts) = (intents(&events), receipts(&events));
    assert_eq!(intents.len(), 3, "the repetition is no new intent");
    let of = |step: &str| receipts.iter().find(|receipt| receipt.step_id == step);
    let key = &intents[1].call_id;
    assert_eq!(of("middle").map(|receipt| &receipt.call_id), Some(key));
    assert_eq!(trail.keys("middle"), [key.as_str(); 2], "the command can tell that it is repeated");
    deployment.finish().await
}

#[tokio::test]
async fn a_call_in_whose_middle_three_executors_died_waits_for_an_operator() -> Result<()> {
    let trail = Trail::new()?;
    let (mut deployment, run) = killed_in_a_command(&trail, &["sh -c"]).await?;
    for begun in [2, 3] {
        wait_until("the command was run again", || trail.marks("middle") == begun).await?;
        deployment.executors.last_mut().context("an executor")?.kill().await?;
        deployment.add_executor(&[]).await?;
    }
    let is_blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    let held = deployment.wait_for(&run.id, "blocked", is_blocked).await?;
    let blocked = held.blocked.context("a blocked run says what it waits for")?;
    assert_eq!(blocked.waiting_on(), v1::WaitingOn::Operator);
    for said in ["poison", "3 executors died", "run_command", "step middle", "ResumeRun"] {
        assert!(blocked.unblocks.contains(said), "no {said} in {}", blocked.unblocks);
    }
    assert_eq!(trail.marks("middle"), 3, "a fourth executor ran the call");
    trail.let_go()?;
    deployment.command_line(&["resume", &run.id]).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["before", "middle", "after"].map(|name| trail.marks(name)), [1, 4, 1]);
    deployment.finish().await
}

#[tokio::test]
async fn a_command_that_must_not_be_repeated_is_asked_about_and_an_answer_lets_it_be() -> Result<()>
{
    let trail = Trail::new()?;
    let (deployment, run) = killed_in_a_command(&trail, &[]).await?;
    let blocked = deployment.question(&run.id).await?;
    assert_eq!(blocked.waiting_on(), v1::WaitingOn::User);
    for said in ["middle", "run_command", "may have happened", "repeat", "fail"] {
        assert!(blocked.question.contains(said), "no {said} in {}", blocked.question);
    }
    assert_eq!(trail.marks("middle"), 1, "it was repeated without being asked about");
    trail.let_go()?;
    deployment.answer(&blocked.wait_id, "repeat").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["before", "middle", "after"].map(|name| trail.marks(name)), [1, 2, 1]);
    deployment.finish().await
}

#[tokio::test]
async fn a_persons_word_that_a_call_happened_is_recorded_as_that_and_proves_no_check() -> Result<()>
{
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let line = trail.mark_and_wait("only");
    let mut order = script::request(&plan(&[step("only", &[], &[shell(&line)])]), "");
    order.policy = Some(v1::Policy {
        verify_commands: v1::VerifyCommands::ReceiptsOnly.into(),
        ..v1::Policy::default()
    });
    order.limits = Some(v1::Limits { max_repairs: Some(0), ..v1::Limits::default() });
    order.verify = vec![v1::AcceptCheck {
        kind: "command_success".to_owned(),
        target: "sh -c".to_owned(),
        ..v1::AcceptCheck::default()
    }];
    let run = deployment.create_run(order).await?;
    wait_until("the command began", || trail.marks("only") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    let blocked = deployment.question(&run.id).await?;
    let waits = deployment.command_line(&["waits"]).await?;
    assert!(waits.contains(&blocked.wait_id) && waits.contains("happened"), "{waits}");
    let answered = deployment.command_line(&["answer", &blocked.wait_id, "happened"]).await?;
    assert!(answered.contains(&run.id), "{answered}");
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(trail.marks("only"), 1, "it was called again");
    assert_eq!(run.steps[0].state(), v1::StepState::Done, "the step goes on: {run:#?}");
    assert_eq!(run.state(), v1::RunState::Failed, "a word is no command that succeeded");
    let events = deployment.events(&run.id).await?;
    let receipts = receipts(&events);
    // The answer as it was given, and what follows from it for the call.
    let words: Vec<_> = receipts.iter().filter(|receipt| receipt.step_id == "only").collect();
    assert_eq!(words.len(), 2, "{words:#?}");
    let said = |word: &&v1::EvidenceReceipt| word.source() == v1::EvidenceSource::UserReply;
    assert!(words.iter().all(|word| said(word) && word.success), "{words:#?}");
    let of_call = words.iter().find(|word| word.facts.is_empty()).context("the call's receipt")?;
    assert!(of_call.summary.contains("happened"), "{of_call:#?}");
    trail.let_go()?;
    deployment.finish().await
}

#[tokio::test]
async fn the_answer_fail_ends_the_run_and_no_retry_calls_again() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let plan = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("only"))])]);
    let run = deployment.create(&plan, "").await?;
    assert!(run.limits.as_ref().is_some_and(|limits| limits.max_replans() > 0), "{run:#?}");
    wait_until("the command began", || trail.marks("only") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    let blocked = deployment.question(&run.id).await?;
    deployment.answer(&blocked.wait_id, "fail").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let terminal = run.terminal.clone().unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::MaxReplansReached, "{run:#?}");
    assert!(terminal.user_message.contains("it is unknown"), "{}", terminal.user_message);
    assert_eq!(trail.marks("only"), 1, "it was called again after the answer fail");
    deployment.finish().await
}

#[tokio::test]
async fn one_answer_allows_one_repetition_only() -> Result<()> {
    let trail = Trail::new()?;
    let (mut deployment, run) = killed_in_a_command(&trail, &[]).await?;
    let first = deployment.question(&run.id).await?;
    deployment.answer(&first.wait_id, "repeat").await?;
    wait_until("the command was repeated", || trail.marks("middle") == 2).await?;
    deployment.executors.last_mut().context("an executor")?.kill().await?;
    deployment.add_executor(&[]).await?;
    let second = deployment.question(&run.id).await?;
    assert_ne!(first.wait_id, second.wait_id);
    assert_eq!(trail.marks("middle"), 2, "an answer that was used up was used again");
    trail.let_go()?;
    deployment.answer(&second.wait_id, "repeat").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn two_steps_that_were_cut_off_together_are_asked_about_one_after_the_other() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let steps = [
        scoped(step("left", &[], &[shell(&trail.mark_and_wait("left"))]), &["left/**"]),
        scoped(step("right", &[], &[shell(&trail.mark_and_wait("right"))]), &["right/**"]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("both began", || trail.marks("left") + trail.marks("right") == 2).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    trail.let_go()?;
    let first = deployment.question(&run.id).await?;
    deployment.answer(&first.wait_id, "repeat").await?;
    let other = |run: &v1::Run| {
        run.blocked.as_ref().is_some_and(|blocked| blocked.wait_id != first.wait_id)
    };
    let asked = deployment.wait_for(&run.id, "blocked on the other", other).await?;
    let second = asked.blocked.context("a blocked run says what it waits for")?;
    deployment.answer(&second.wait_id, "repeat").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["left", "right"].map(|name| trail.marks(name)), [2, 2]);
    deployment.finish().await
}

/// A run that writes a file under an executor that dies at a named point, and its end under another.
async fn dies_at(point: &str) -> Result<(Deployment, v1::Run, tempfile::TempDir)> {
    let workspace = tempfile::tempdir()?;
    let database = surety_e2e::harness::Database::create().await?;
    let mut deployment = Deployment::start_idle(database, &QUICK).await?;
    deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
    let plan = json!({
        "title": "A note",
        "steps": [step("write", &[], &[write("note.txt", "hello\n")])],
        "verify": [{"kind": "workspace_change"}, {"kind": "file_exists", "target": "note.txt"}]
    });
    let run = deployment.create(&plan, &workspace.path().to_string_lossy()).await?;
    deployment.first_executor()?.wait_for_exit().await?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    Ok((deployment, run, workspace))
}

#[tokio::test]
async fn a_write_that_had_happened_is_seen_and_not_made_again() -> Result<()> {
    let (deployment, run, workspace) = dies_at("executor.after_effect").await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(std::fs::read_to_string(workspace.path().join("note.txt"))?, "hello\n");
    let events = deployment.events(&run.id).await?;
    let receipts = receipts(&events);
    let write = receipts.iter().find(|receipt| receipt.step_id == "write").context("a receipt")?;
    assert!(write.summary.contains("had happened"), "{write:#?}");
    assert_eq!(Some(&write.call_id), intents(&events).first().map(|intent| &intent.call_id));
    deployment.finish().await
}

#[tokio::test]
async fn a_write_that_had_not_happened_is_made_once() -> Result<()> {
    let (deployment, run, workspace) = dies_at("executor.after_intent").await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(std::fs::read_to_string(workspace.path().join("note.txt"))?, "hello\n");
    let events = deployment.events(&run.id).await?;
    let receipts = receipts(&events);
    let write = receipts.iter().find(|receipt| receipt.step_id == "write").context("a receipt")?;
    assert!(write.summary.contains("created"), "{write:#?}");
    assert_eq!(intents(&events).len(), 2, "one of the step, one of the runner's own tests");
    deployment.finish().await
}
