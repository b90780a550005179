//! A planner that dies around a change that its scan makes: what was due is done once, by its successor.

use super::points_of_plans::revive;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, WORKER, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request, step, write};
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};
use tempfile::NamedTempFile;

/// The change of one run by the scan, whatever its cause.
pub(super) const OF_MOVES: [&str; 2] = ["planner.before_move", "planner.after_move"];
/// The tool of the worker that is lost.
const TOOL: &str = "translate";

async fn stage(point: &str) -> Result<(Deployment, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let short = ("SURETY_EXECUTOR_WORKER_LEASE_MS", "1500");
    let environment = [("SURETY_TOKEN_FILE", path.as_str()), short];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let idempotent = v1::ToolAnnotations { idempotent: Some(true), ..Default::default() };
    let annotations = Some(idempotent);
    admit(&deployment, &[v1::ToolWorkerPolicy { annotations, ..entry(TOOL, WORKER) }]).await?;
    deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
    Ok((deployment, tokens))
}

const fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// A run that an agent decides.
async fn driven(deployment: &Deployment, limits: v1::Limits, workspace: &str) -> Result<String> {
    let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
    let limits = Some(v1::Limits { max_replans: Some(0), ..limits });
    let driver = v1::Driver::Remote.into();
    let request = v1::CreateRunRequest { driver, limits, ..request(&plan, workspace) };
    Ok(deployment.create_run(request).await?.id)
}

async fn ended(deployment: &Deployment, run_id: &str, reason: v1::StopReason) -> Result<()> {
    let run = deployment.wait_for_end(run_id).await?;
    let found = run.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(found == Some(reason), "{run:#?}");
    Ok(())
}

#[tokio::test]
async fn a_planners_death_around_the_expiry_of_a_confirmation_records_it_once() -> Result<()> {
    for point in OF_MOVES {
        let (mut deployment, _tokens) = stage(point).await?;
        let policy = v1::Policy {
            confirm_tools: vec!["write_file".to_owned()],
            on_expired: v1::OnExpired::Continue.into(),
            ..v1::Policy::default()
        };
        let limits =
            v1::Limits { confirm_ttl: seconds(1), max_replans: Some(0), ..v1::Limits::default() };
        let steps = [step("only", &[], &[write("a.txt", "a")])];
        let order = v1::CreateRunRequest {
            policy: Some(policy),
            limits: Some(limits),
            ..request(&plan(&steps), "")
        };
        let run_id = deployment.create_run(order).await?.id;
        revive(&mut deployment).await.context(point)?;
        ended(&deployment, &run_id, v1::StopReason::MaxReplansReached).await.context(point)?;
        let request = v1::ListReceiptsRequest { run_id, ..Default::default() };
        let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
        ensure!(receipts.len() == 1, "{point}: the denial by the clock alone: {receipts:#?}");
        deployment.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_planners_death_around_a_passed_deadline_of_a_run_or_a_step_ends_it_once() -> Result<()> {
    let run = v1::Limits { run_deadline: seconds(2), ..v1::Limits::default() };
    let step = v1::Limits { step_deadline: seconds(2), ..v1::Limits::default() };
    for (limits, reason) in [
        (run, v1::StopReason::DeadlineExceeded),
        // The attempt fails, and there is no other.
        (step, v1::StopReason::MaxReplansReached),
    ] {
        for point in OF_MOVES {
            let (mut deployment, _tokens) = stage(point).await?;
            let run_id = driven(&deployment, limits, "").await?;
            if limits.step_deadline.is_some() {
                // Without a lease the clock of the step stands.
                let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
                agent.work(&run_id).await.context(point)?;
            }
            revive(&mut deployment).await.context(point)?;
            ended(&deployment, &run_id, reason).await.context(point)?;
            deployment.finish().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_planners_death_around_the_start_in_a_free_folder_is_recovered_from() -> Result<()> {
    for point in OF_MOVES {
        let (mut deployment, _tokens) = stage(point).await?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_string_lossy();
        let holder = driven(&deployment, v1::Limits::default(), &path).await?;
        let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
        let work = agent.work(&holder).await?;
        let steps = [step("only", &[], &[write("second.txt", "a")])];
        let second = deployment.create_run(request(&plan(&steps), &path)).await?.id;
        let blocked = |run: &v1::Run| run.blocked.is_some();
        deployment.wait_for(&second, "blocked", blocked).await?;
        let written = call("write_file", json!({"path": "out.txt", "content": "done\n"}));
        agent.take_turns(work, &[written, next_plan()]).await?;
        revive(&mut deployment).await.context(point)?;
        for run_id in [&holder, &second] {
            ended(&deployment, run_id, v1::StopReason::Accepted).await.context(point)?;
        }
        deployment.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_planners_death_around_the_loss_of_a_worker_offers_its_call_once_more() -> Result<()> {
    for point in OF_MOVES {
        let (mut deployment, _tokens) = stage(point).await?;
        let announced = |name: &str| announce(name, &[tool(TOOL)]);
        let executor = deployment.first_executor()?;
        let mut first = Worker::connect(executor, WORKER, announced("w1")).await?;
        let calls = [json!({"name": TOOL, "arguments": {"text": "x"}})];
        let run_id = deployment.create(&plan(&[step("s", &[], &calls)]), "").await?.id;
        let lost = first.call().await?;
        drop(first);
        revive(&mut deployment).await.context(point)?;
        let executor = deployment.first_executor()?;
        let mut second = Worker::connect(executor, WORKER, announced("w2")).await?;
        let again = second.call().await?;
        ensure!(again.idempotency_key == lost.idempotency_key, "{point}: {again:#?}");
        ensure!(again.attempt == 2, "{point}: {again:#?}");
        second.store(result(&again, "ok")).await?;
        ended(&deployment, &run_id, v1::StopReason::Accepted).await.context(point)?;
        deployment.finish().await?;
    }
    Ok(())
}
