//! Executors die, freeze and leave; others go on in a clone of their own.

use super::origin::Origin;
use super::{Hosts, LOG, line, on, three_steps};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::{Duration, Instant};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{PATIENCE, wait_until};
use surety_e2e::script::{Trail, step};

/// More passings of a point than such a run has.
const MANY: usize = 20;

/// Waits until the first executor died, or the run ended without that.
async fn died(hosts: &mut Hosts, run_id: &str) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if hosts.deployment.first_executor()?.has_ended()? {
            return Ok(true);
        }
        if hosts.deployment.run(run_id).await?.terminal.is_some() {
            return Ok(false);
        }
        ensure!(Instant::now() < deadline, "neither died nor ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether the run is accepted with each step's work once, on the commit that its verdict names.
fn ensure_whole(origin: &Origin, run: &v1::Run) -> Result<()> {
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let verdict = run.verdict.as_ref().context("a verdict")?;
    let outcome = verdict.repository.as_ref().context("the verdict names no commit")?;
    let reference = format!("refs/surety/runs/{}", run.id);
    ensure!(outcome.r#ref == reference, "{outcome:?}");
    ensure!(origin.reference(&reference).as_deref() == Some(&outcome.commit), "{outcome:?}");
    ensure!(
        origin.file(&outcome.commit, "log.txt")? == LOG,
        "{:?}",
        origin.file(&outcome.commit, "log.txt")
    );
    ensure!(origin.file(&outcome.commit, "README.md")? == "new\n", "the edit is there");
    let subjects = ["one", "two", "three"].map(|step| format!("surety: {step}: accepted"));
    ensure!(
        origin.subjects(&outcome.commit)? == subjects,
        "{:?}",
        origin.subjects(&outcome.commit)
    );
    ensure!(outcome.base_commit == origin.git(&["rev-parse", "main"])?.trim(), "{outcome:?}");
    let changed: Vec<_> = outcome.changed.iter().map(|file| file.path.as_str()).collect();
    ensure!(changed == ["README.md", "log.txt"] && outcome.files_changed == 2, "{outcome:?}");
    ensure!((outcome.insertions, outcome.deletions) == (5, 1), "{outcome:?}");
    let work = origin.reference(&format!("refs/surety/work/{}", run.id));
    ensure!(work.is_none(), "unfinished work stays: {work:?}");
    Ok(())
}

/// Kills one executor at the first, second, ... passing of a point. Another one, which shares no folder with it,
/// finishes the run. Answers how many died.
async fn executors_die_at(point: &str) -> Result<usize> {
    for passing in 1..MANY {
        let origin = Origin::new()?;
        let mut hosts = Hosts::start(&origin.prefix()).await?;
        let run = hosts.deployment.create_run(on(&origin.url(), "main", &three_steps())).await?;
        let named = format!("{point}:{passing}");
        hosts.add(&[("SURETY_CRASH_POINT", &named)]).await?;
        let has_died = died(&mut hosts, &run.id).await?;
        if has_died {
            hosts.add(&[]).await?;
        }
        let run = hosts.deployment.wait_for_end(&run.id).await?;
        ensure_whole(&origin, &run).with_context(|| named.clone())?;
        hosts.deployment.finish().await?;
        if !has_died {
            return Ok(passing - 1);
        }
    }
    anyhow::bail!("a run passes {point} {MANY} times")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_before_a_push_loses_no_step_and_repeats_none() -> Result<()> {
    // Once for each step; the end of the verification has nothing left to push.
    assert_eq!(executors_die_at("executor.before_git_push").await?, 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_after_a_push_loses_no_step_and_repeats_none() -> Result<()> {
    assert_eq!(executors_die_at("executor.after_git_push").await?, 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_in_the_middle_of_a_call_loses_no_step_and_repeats_none() -> Result<()>
{
    // Five calls of the steps, and none of the checks: their intents are no calls of a step.
    assert_eq!(executors_die_at("executor.after_effect").await?, 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_dies_once_the_commit_is_known_leaves_it_to_the_next() -> Result<()> {
    assert_eq!(executors_die_at("executor.after_repository_begins").await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_late_push_of_an_executor_that_was_taken_over_moves_nothing() -> Result<()> {
    let origin = Origin::new()?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    let run = hosts.deployment.create_run(on(&origin.url(), "main", &three_steps())).await?;
    hosts.add(&[("SURETY_FREEZE_POINT", "executor.before_git_push:2")]).await?;
    let reference = format!("refs/surety/runs/{}", run.id);
    let one = |origin: &Origin| origin.subjects(&reference).is_ok_and(|all| all.len() == 1);
    wait_until("the first step is pushed", || one(&origin)).await?;
    hosts.add(&[]).await?;
    let run = hosts.deployment.wait_for_end(&run.id).await?;
    ensure_whole(&origin, &run)?;
    hosts.deployment.first_executor()?.signal(Signal::SIGCONT)?;
    // It removes its clone once it has learnt that the lease is lost, which is after its push.
    wait_until("the clones are removed", || hosts.clones() == 0).await?;
    ensure_whole(&origin, &run)?;
    hosts.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_an_executor_took_with_it_runs_again_on_the_files_before_it() -> Result<()> {
    let origin = Origin::new()?;
    let trail = Trail::new()?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    let waits = format!("echo two >> log.txt; {}", trail.mark_and_wait("two"));
    let steps = [
        step("one", &[], &[line("echo one >> log.txt")]),
        step("two", &["one"], &[line("echo begun >> log.txt"), line(&waits)]),
    ];
    let plan = json!({"title": "Two steps", "steps": steps, "verify": [
        {"kind": "command_success", "target": "grep -q two log.txt", "owner": "user"}]});
    let run = hosts.deployment.create_run(on(&origin.url(), "v1", &plan)).await?;
    hosts.add(&[]).await?;
    wait_until("the command began", || trail.marks("two") == 1).await?;
    hosts.deployment.first_executor()?.kill().await?;
    hosts.add(&[]).await?;
    wait_until("the command began again", || trail.marks("two") == 2).await?;
    trail.let_go()?;
    let run = hosts.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let attempts: Vec<_> = run.steps.iter().map(|step| step.attempt).collect();
    ensure!(attempts == [1, 2], "only the lost step begins anew: {attempts:?}");
    let commit = run.verdict.and_then(|it| it.repository).context("a commit")?.commit;
    assert_eq!(origin.file(&commit, "log.txt")?, "one\nbegun\ntwo\n");
    hosts.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_goes_on_turn_by_turn_on_another_host() -> Result<()> {
    let origin = Origin::new()?;
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [&super::QUICK[..], &[("SURETY_TOKEN_FILE", path.as_str())]].concat();
    let database = surety_e2e::harness::Database::create().await?;
    let mut deployment =
        surety_e2e::harness::Deployment::start_idle(database, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let mut hosts = Hosts { deployment, folders: Vec::new(), allowed: origin.prefix() };
    hosts.add(&[]).await?;
    let plan = json!({"title": "One step", "steps": [{"id": "s", "description": "Write"}], "verify": [
        {"kind": "content_contains", "target": "a.txt", "params": {"contains": "one"}, "owner": "user"}]});
    let request =
        v1::CreateRunRequest { driver: v1::Driver::Remote.into(), ..on(&origin.url(), "", &plan) };
    let run = hosts.deployment.create_run(request).await?;
    let agent = Agent::new(&hosts.deployment.executors[0], AGENT, "d")?;
    let work = agent.work(&run.id).await?;
    ensure!(work.context.workspace.is_empty(), "an agent is told no folder of one host");
    let write = call("write_file", json!({"path": "a.txt", "content": "one\n"}));
    let answer = agent.submit(&work, &write.to_string()).await?;
    let work = Work { lease: work.lease, context: answer.next.context("the next turn")? };
    let reference = format!("refs/surety/work/{}", run.id);
    wait_until("the turn's work is pushed", || origin.reference(&reference).is_some()).await?;
    hosts.deployment.first_executor()?.kill().await?;
    hosts.add(&[]).await?;
    let agent = Agent::new(&hosts.deployment.executors[1], AGENT, "d")?;
    let next =
        call("edit_file", json!({"path": "a.txt", "old_text": "one", "new_text": "one and two"}));
    agent.take_turns(work, &[next, next_plan()]).await?;
    let run = hosts.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.steps[0].attempt == 1, "the step went on: {run:#?}");
    let commit = run.verdict.and_then(|it| it.repository).context("a commit")?.commit;
    assert_eq!(origin.file(&commit, "a.txt")?, "one and two\n");
    assert_eq!(origin.subjects(&commit)?, ["surety: s: accepted"]);
    ensure!(origin.reference(&reference).is_none(), "unfinished work stays");
    hosts.deployment.finish().await
}
