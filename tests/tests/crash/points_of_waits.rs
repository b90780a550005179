//! An executor that dies while an agent leases, keeps, returns or answers a wait: the agent goes on at another
//! one, no reply is lost, and none becomes two turns.

use super::points;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, call, fence, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::script::{plan, request, step, write};
use tempfile::NamedTempFile;

pub(super) const OF_WAITS: [&str; 6] = [
    "executor.before_wait_lease",
    "executor.after_wait_lease",
    "executor.before_wait_heartbeat",
    "executor.after_wait_heartbeat",
    "executor.before_wait_release",
    "executor.after_wait_release",
];
/// The statement that offers waits again whose lease has expired.
pub(super) const OF_OFFERS: [&str; 2] = ["executor.before_wait_offer", "executor.after_wait_offer"];
/// The writes of a run that an agent decides: its answers, its turns, and what they open.
const OF_ANSWERS: [&str; 2] = ["committer.before_write", "committer.after_write"];
/// More writes than one such run makes.
const MANY: usize = 40;
/// The shortest lease, so that one that was written unnoticed expires soon.
const LEASE: (&str, &str) = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1000");

async fn stage(environment: &[(&str, &str)]) -> Result<(Deployment, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let all = [&[("SURETY_TOKEN_FILE", path.as_str())], environment].concat();
    let mut deployment = Deployment::start_idle(Database::create().await?, &all).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    Ok((deployment, tokens))
}

async fn driven(deployment: &Deployment, workspace: &str) -> Result<String> {
    let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
    let driver = v1::Driver::Remote.into();
    let request = v1::CreateRunRequest { driver, ..request(&plan, workspace) };
    Ok(deployment.create_run(request).await?.id)
}

fn replies() -> [serde_json::Value; 2] {
    [call("write_file", json!({"path": "out.txt", "content": "done\n"})), next_plan()]
}

/// Starts an executor in the place of one that died, whose leases are free at once.
async fn replace(deployment: &mut Deployment) -> Result<Agent> {
    deployment.first_executor()?.wait_for_exit().await?;
    let pool = deployment.database.pool().await?;
    sqlx::query("update executor set heartbeat_at = 'epoch'").execute(&pool).await?;
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    Agent::new(deployment.first_executor()?, AGENT, "worker")
}

#[tokio::test]
async fn an_executors_death_around_any_change_of_a_lease_is_recovered_from() -> Result<()> {
    let (mut deployment, _tokens) = stage(&[LEASE]).await?;
    for point in OF_WAITS {
        let run_id = driven(&deployment, "").await?;
        deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
        let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
        match agent.work(&run_id).await {
            Err(_) => ensure!(point.contains("wait_lease"), "{point}: the lease failed"),
            Ok(work) if point.contains("heartbeat") => {
                let beat = agent.heartbeat(&[fence(&work.lease)]).await;
                ensure!(beat.is_err(), "{point} is not passed");
            }
            Ok(work) => {
                ensure!(point.contains("release"), "{point} is not passed");
                ensure!(agent.release(&work).await.is_err(), "{point} is not passed");
            }
        }
        let agent = replace(&mut deployment).await.context(point)?;
        let work = agent.work(&run_id).await.context(point)?;
        agent.take_turns(work, &replies()).await.context(point)?;
        let run = deployment.wait_for_end(&run_id).await.context(point)?;
        ensure!(run.state() == v1::RunState::Done, "{point}: {run:#?}");
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
    }
    deployment.finish().await
}

#[tokio::test]
async fn an_executors_death_around_the_return_of_an_expired_lease_is_recovered_from() -> Result<()>
{
    let (mut deployment, _tokens) = stage(&[]).await?;
    let pool = deployment.database.pool().await?;
    for point in OF_OFFERS {
        let run_id = driven(&deployment, "").await?;
        deployment.add_executor(&[]).await?;
        let lost = Agent::new(deployment.first_executor()?, AGENT, "lost")?.work(&run_id).await?;
        deployment.first_executor()?.kill().await?;
        let expiring = "update wait set lease_expires_at = now() - interval '1 hour'
                        where run_id = $1 and lease_holder is not null";
        let id: uuid::Uuid = run_id.parse()?;
        let expired = sqlx::query(expiring).bind(id).execute(&pool).await?.rows_affected();
        ensure!(expired == 1, "{point}: {expired} leases");
        deployment.executors.clear();
        deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
        let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
        ensure!(agent.work(&run_id).await.is_err(), "{point} is not passed");
        let agent = replace(&mut deployment).await.context(point)?;
        let work = agent.work(&run_id).await.context(point)?;
        let late = agent.submit(&lost, &next_plan().to_string()).await;
        ensure!(late.is_err(), "{point}: the lost lease still answers: {late:#?}");
        agent.take_turns(work, &replies()).await.context(point)?;
        let run = deployment.wait_for_end(&run_id).await.context(point)?;
        ensure!(run.state() == v1::RunState::Done, "{point}: {run:#?}");
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
    }
    pool.close().await;
    deployment.finish().await
}

/// Drives a run whose executor dies at some write. Answers whether it died.
async fn drive(deployment: &mut Deployment, run_id: &str) -> Result<bool> {
    let mut agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
    let mut died = false;
    let mut work: Option<Work> = None;
    for reply in replies() {
        loop {
            let at = match work.clone() {
                Some(at) => at,
                None => match agent.work(run_id).await {
                    Ok(at) => at,
                    Err(_) if !died => {
                        died = true;
                        agent = replace(deployment).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            match agent.submit(&at, &reply.to_string()).await {
                Ok(answer) => {
                    ensure!(answer.correction.is_empty(), "{answer:#?}");
                    work = answer.next.map(|context| Work { context, ..at });
                    break;
                }
                // The same turn again, at another executor.
                Err(_) if !died => {
                    died = true;
                    agent = replace(deployment).await?;
                    work = Some(at);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if !died && points::died(deployment, run_id).await? {
        died = true;
        replace(deployment).await?;
    }
    Ok(died)
}

#[tokio::test]
async fn an_executors_death_at_any_write_of_an_agents_run_loses_and_repeats_no_turn() -> Result<()>
{
    for point in OF_ANSWERS {
        let (mut deployment, _tokens) = stage(&[]).await?;
        let mut deaths = 0;
        for passing in 1..MANY {
            let folder = tempfile::tempdir()?;
            let run_id = driven(&deployment, &folder.path().to_string_lossy()).await?;
            let named = format!("{point}:{passing}");
            deployment.add_executor(&[("SURETY_CRASH_POINT", &named)]).await?;
            let died = drive(&mut deployment, &run_id).await.context(named.clone())?;
            let run = deployment.wait_for_end(&run_id).await.context(named.clone())?;
            ensure!(run.state() == v1::RunState::Done, "{named}: {run:#?}");
            let turns = run.counters.map(|counters| counters.rounds);
            ensure!(turns == Some(2), "{named}: {turns:?} turns of two replies");
            deployment.first_executor()?.kill().await?;
            deployment.executors.clear();
            if !died {
                break;
            }
            deaths += 1;
        }
        // Each answer, the intent of the write, and the ends of both turns.
        ensure!(deaths >= 5, "{point}: {deaths}");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

/// The writes of a run with a confirmed call, and the moments around the call itself.
const OF_CONFIRMED: [&str; 4] = [
    "committer.before_write",
    "committer.after_write",
    "executor.after_intent",
    "executor.after_effect",
];

/// Approves what a run asks for, while its executor dies at some point. Answers whether it died, and how often it was
/// asked.
async fn confirm(deployment: &mut Deployment, run_id: &str) -> Result<(bool, usize)> {
    let (mut died, mut asked) = (false, 0);
    let deadline = Instant::now() + PATIENCE;
    loop {
        ensure!(Instant::now() < deadline, "the run does not end");
        if !died && deployment.first_executor()?.has_ended()? {
            died = true;
            replace(deployment).await?;
        }
        let run = deployment.run(run_id).await?;
        if run.terminal.is_some() {
            return Ok((died, asked));
        }
        let Some(blocked) = run.blocked else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let request =
            v1::ListWaitsRequest { run_id: run_id.to_owned(), ..v1::ListWaitsRequest::default() };
        let waits = deployment.runs()?.list_waits(request).await?.into_inner().waits;
        let wait = waits.into_iter().find(|wait| wait.id == blocked.wait_id).context("a wait")?;
        let answer = v1::ResolveConfirmationRequest {
            wait_id: wait.id,
            answer: v1::ConfirmationAnswer::Approve.into(),
            call_digest: wait.call_digest,
            ..v1::ResolveConfirmationRequest::default()
        };
        deployment.runs()?.resolve_confirmation(answer).await?;
        asked += 1;
    }
}

#[tokio::test]
async fn an_executors_death_around_an_approved_call_loses_and_repeats_no_approval() -> Result<()> {
    for point in OF_CONFIRMED {
        let (mut deployment, _tokens) = stage(&[]).await?;
        let mut deaths = 0;
        for passing in 1..MANY {
            let steps = [step("only", &[], &[write("a.txt", "a\n")])];
            let policy = v1::Policy {
                confirm_tools: vec!["write_file".to_owned()],
                ..v1::Policy::default()
            };
            let order = v1::CreateRunRequest { policy: Some(policy), ..request(&plan(&steps), "") };
            let run = deployment.create_run(order).await?;
            let named = format!("{point}:{passing}");
            deployment.add_executor(&[("SURETY_CRASH_POINT", &named)]).await?;
            let (died, asked) = confirm(&mut deployment, &run.id).await.context(named.clone())?;
            ensure!(asked == 1, "{named}: asked {asked} times");
            let run = deployment.run(&run.id).await?;
            ensure!(run.state() == v1::RunState::Done, "{named}: {run:#?}");
            let calls = run.counters.map(|counters| (counters.tool_calls, counters.rounds));
            ensure!(calls == Some((1, 2)), "{named}: {calls:?} calls and turns");
            deployment.first_executor()?.kill().await?;
            deployment.executors.clear();
            if !died {
                break;
            }
            deaths += 1;
        }
        ensure!(deaths >= 1, "{point}: {deaths}");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}
