//! A planner that dies while an agent leases, keeps, returns or submits a plan, and while a person extends a budget: the
//! agent goes on at another planner, no plan is lost or stored twice, and a budget is raised once.

use super::points_of_waits::OF_WAITS;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use surety_e2e::agent::{AGENT, Agent, PERSON, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{noop, plan, request, step};
use tempfile::NamedTempFile;
use tonic::Status;

/// Around the transaction that stores an answered call: a submitted plan, an extended budget.
pub(super) const OF_CALLS: [&str; 2] = ["planner.before_submit", "planner.after_submit"];
const BUDGET: u64 = 10;

pub(super) async fn stage() -> Result<(Deployment, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    Ok((deployment, tokens))
}

fn agent(deployment: &Deployment) -> Result<PlannerServiceClient<ServiceChannel>> {
    let channel = channel(&deployment.planner.url(), Some(&Token::new(&secret(AGENT))?))?;
    Ok(PlannerServiceClient::new(channel))
}

/// A run that waits for its first plan.
async fn unplanned(deployment: &Deployment) -> Result<String> {
    let request =
        v1::CreateRunRequest { goal: "a plan is to come".to_owned(), ..Default::default() };
    Ok(deployment.create_run(request).await?.id)
}

async fn lease(deployment: &Deployment, run_id: &str) -> Result<Option<v1::PlanLease>, Status> {
    let request = v1::LeasePlanRequest {
        planner_id: "planner".to_owned(),
        run_id: run_id.to_owned(),
        wait: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        ..v1::LeasePlanRequest::default()
    };
    let mut agent = agent(deployment).map_err(|error| Status::internal(error.to_string()))?;
    Ok(agent.lease_plan(request).await?.into_inner().lease)
}

fn fence(lease: &v1::PlanLease) -> v1::PlanFence {
    v1::PlanFence { run_id: lease.run_id.clone(), lease_epoch: lease.lease_epoch }
}

fn submission(lease: &v1::PlanLease, request_id: &str) -> v1::SubmitPlanRequest {
    let plan = plan(&[step("only", &[], &[noop()])]);
    v1::SubmitPlanRequest {
        run_id: lease.run_id.clone(),
        plan_source: Some(PlanSource::PlanText(plan.to_string())),
        lease_epoch: lease.lease_epoch,
        request_id: request_id.to_owned(),
        ..v1::SubmitPlanRequest::default()
    }
}

/// Starts a planner in the place of one that died.
pub(super) async fn revive(deployment: &mut Deployment) -> Result<()> {
    deployment.planner.wait_for_exit().await?;
    deployment.replace_planner().await
}

/// Lets the lease of the run's wait expire, as it does when its agent shows no sign of life.
async fn expire(deployment: &Deployment, run_id: &str) -> Result<()> {
    let pool = deployment.database.pool().await?;
    let expiring = "update wait set lease_expires_at = lease_expires_at - interval '1 hour'
                    where run_id = $1 and lease_holder is not null";
    sqlx::query(expiring).bind(run_id.parse::<uuid::Uuid>()?).execute(&pool).await?;
    pool.close().await;
    Ok(())
}

async fn accepted(deployment: &Deployment, run_id: &str) -> Result<()> {
    let run = deployment.wait_for_end(run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.plan_revision == 1, "the plan is stored once: {run:#?}");
    Ok(())
}

#[tokio::test]
async fn a_planners_death_around_any_change_of_a_plan_lease_is_recovered_from() -> Result<()> {
    let (mut deployment, _tokens) = stage().await?;
    for point in OF_WAITS {
        let run_id = unplanned(&deployment).await?;
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let held = match lease(&deployment, &run_id).await {
            Err(_) => {
                ensure!(point.contains("wait_lease"), "{point}: the lease failed");
                None
            }
            Ok(held) => Some(held.with_context(|| format!("{point}: no plan is offered"))?),
        };
        let mut still_held = None;
        if let Some(held) = held {
            let mut agent = agent(&deployment)?;
            if point.contains("heartbeat") {
                let planner_id = "planner".to_owned();
                let beat = v1::HeartbeatPlanRequest { planner_id, fences: vec![fence(&held)] };
                ensure!(agent.heartbeat_plan(beat).await.is_err(), "{point} is not passed");
                still_held = Some(held);
            } else {
                ensure!(point.contains("release"), "{point} is not passed");
                let reason = String::new();
                let release = v1::ReleasePlanRequest { fence: Some(fence(&held)), reason };
                ensure!(agent.release_plan(release).await.is_err(), "{point} is not passed");
            }
        }
        revive(&mut deployment).await.context(point)?;
        let held = match still_held {
            Some(held) => {
                let fences = vec![fence(&held)];
                let beat = v1::HeartbeatPlanRequest { planner_id: "planner".to_owned(), fences };
                let beat = agent(&deployment)?.heartbeat_plan(beat).await?.into_inner();
                ensure!(beat.lost.is_empty(), "{point}: the lease goes on: {beat:#?}");
                held
            }
            None => {
                expire(&deployment, &run_id).await?;
                lease(&deployment, &run_id).await?.with_context(|| format!("{point}: no lease"))?
            }
        };
        agent(&deployment)?.submit_plan(submission(&held, "")).await.context(point)?;
        accepted(&deployment, &run_id).await.context(point)?;
    }
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_planners_death_around_a_leased_plans_submission_stores_it_once() -> Result<()> {
    let (mut deployment, _tokens) = stage().await?;
    for point in OF_CALLS {
        let run_id = unplanned(&deployment).await?;
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let held = lease(&deployment, &run_id).await?.context("no plan is offered")?;
        let submission = submission(&held, point);
        let died = agent(&deployment)?.submit_plan(submission.clone()).await;
        ensure!(died.is_err(), "{point} is not passed");
        revive(&mut deployment).await.context(point)?;
        let first = agent(&deployment)?.submit_plan(submission.clone()).await.context(point)?;
        let again = agent(&deployment)?.submit_plan(submission).await.context(point)?;
        let (first, again) = (first.into_inner(), again.into_inner());
        ensure!(first.plan == again.plan, "{point}: {first:#?} {again:#?}");
        accepted(&deployment, &run_id).await.context(point)?;
    }
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_planners_death_around_an_extension_of_a_budget_raises_it_once() -> Result<()> {
    let (mut deployment, _tokens) = stage().await?;
    let executor = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
    for point in OF_CALLS {
        let run_id = short_of_budget(&deployment, &executor).await.context(point)?;
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let extension = v1::ExtendBudgetRequest {
            run_id: run_id.clone(),
            add_tokens: BUDGET,
            request_id: point.to_owned(),
            ..v1::ExtendBudgetRequest::default()
        };
        let died = deployment.runs()?.extend_budget(extension.clone()).await;
        ensure!(died.is_err(), "{point} is not passed");
        revive(&mut deployment).await.context(point)?;
        for _ in 0..2 {
            deployment.runs()?.extend_budget(extension.clone()).await.context(point)?;
        }
        let work = executor.work(&run_id).await.context(point)?;
        executor.submit(&work, &next_plan().to_string()).await.context(point)?;
        let run = deployment.wait_for_end(&run_id).await.context(point)?;
        ensure!(run.state() == v1::RunState::Done, "{point}: {run:#?}");
        let budget = run.limits.unwrap_or_default().token_budget;
        ensure!(budget == Some(2 * BUDGET), "{point}: raised to {budget:?}");
    }
    deployment.finish_at_rest().await.map(drop)
}

/// A run whose first turn used its budget up, so that it waits for a person.
async fn short_of_budget(deployment: &Deployment, agent: &Agent) -> Result<String> {
    let only =
        json!({"id": "s", "description": "look", "evidence": "none", "tools_expected": ["glob"]});
    let limits = v1::Limits { token_budget: Some(BUDGET), ..v1::Limits::default() };
    let request = v1::CreateRunRequest {
        driver: v1::Driver::Remote.into(),
        limits: Some(limits),
        ..request(&plan(&[only]), "")
    };
    let run_id = deployment.create_run(request).await?.id;
    let work = agent.work(&run_id).await?;
    let look = DecisionSource::Raw(call("glob", json!({"pattern": "*"})).to_string());
    let usage = v1::Usage { input_tokens: BUDGET, ..v1::Usage::default() };
    agent.send_with(&work, look, Some(usage)).await?;
    let short = |run: &v1::Run| {
        run.blocked.as_ref().is_some_and(|blocked| blocked.kind() == v1::WaitKind::Budget)
    };
    deployment.wait_for(&run_id, "waiting for a budget", short).await?;
    Ok(run_id)
}
