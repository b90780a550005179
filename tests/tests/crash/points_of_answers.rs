//! A planner that dies around an answer of a person: the answer counts once, and its repetition says so.

use super::points_of_plans::{OF_CALLS, revive, stage};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use surety_common::wire::client::ServiceChannel;
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::agent::{AGENT, Agent, Work, next_plan};
use surety_e2e::harness::Deployment;
use surety_e2e::script::{plan, request};
use tonic::{Response, Status};

type Runs = RunServiceClient<ServiceChannel>;

/// Makes a call at a planner that dies at a point of it, and twice more at its successor.
async fn at_a_death<T>(
    deployment: &mut Deployment,
    point: &str,
    call: impl AsyncFn(Runs) -> Result<Response<T>, Status>,
) -> Result<T> {
    deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
    ensure!(call(deployment.runs()?).await.is_err(), "{point} is not passed");
    revive(deployment).await?;
    call(deployment.runs()?).await?;
    Ok(call(deployment.runs()?).await?.into_inner())
}

/// What the run waits for, once it is asked of a person.
async fn asked(deployment: &Deployment, run_id: &str) -> Result<v1::Wait> {
    let asks = |run: &v1::Run| run.blocked.is_some() || run.terminal.is_some();
    deployment.wait_for(run_id, "asking", asks).await?;
    let request = v1::ListWaitsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(request).await?.into_inner().waits;
    waits.into_iter().next().context("a wait")
}

fn writing(path: &str) -> String {
    let arguments = json!({"path": path, "content": "x"});
    json!({"action": "confirm", "tool_call": {"name": "write_file", "arguments": arguments}})
        .to_string()
}

fn resolution(wait: &v1::Wait, answer: v1::ConfirmationAnswer) -> v1::ResolveConfirmationRequest {
    v1::ResolveConfirmationRequest {
        wait_id: wait.id.clone(),
        answer: answer.into(),
        call_digest: wait.call_digest.clone(),
        request_id: wait.id.clone(),
        ..v1::ResolveConfirmationRequest::default()
    }
}

async fn receipts_of(deployment: &Deployment, run_id: &str, name: &str) -> Result<usize> {
    let request = v1::ListReceiptsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
    Ok(receipts.iter().filter(|receipt| receipt.name == name).count())
}

async fn answer_question(
    deployment: &mut Deployment,
    point: &str,
    (agent, work): (&Agent, &Work),
) -> Result<Work> {
    let run_id = work.lease.run_id.clone();
    let ask = json!({"action": "ask_user", "speak": "Which colour?"}).to_string();
    agent.submit(work, &ask).await?;
    let wait = asked(deployment, &run_id).await?;
    let answer = v1::AnswerQuestionRequest {
        wait_id: wait.id.clone(),
        answer: "green".to_owned(),
        request_id: wait.id,
        ..v1::AnswerQuestionRequest::default()
    };
    at_a_death(deployment, point, async |mut runs| runs.answer_question(answer.clone()).await)
        .await?;
    agent.work(&run_id).await
}

async fn resolve(
    deployment: &mut Deployment,
    point: &str,
    (agent, work): (&Agent, &Work),
    (answer, grant): (v1::ConfirmationAnswer, Option<v1::GrantTerms>),
) -> Result<Work> {
    let run_id = work.lease.run_id.clone();
    agent.submit(work, &writing("a.txt")).await?;
    let wait = asked(deployment, &run_id).await?;
    let said = v1::ResolveConfirmationRequest { grant, ..resolution(&wait, answer) };
    at_a_death(deployment, point, async |mut runs| runs.resolve_confirmation(said.clone()).await)
        .await?;
    agent.work(&run_id).await
}

#[tokio::test]
async fn a_planners_death_around_any_answer_of_a_person_makes_it_count_once() -> Result<()> {
    let (mut deployment, _tokens) = stage().await?;
    let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
    for point in OF_CALLS {
        let step = json!({"id": "s", "description": "write a.txt"});
        let policy =
            v1::Policy { confirm_tools: vec!["write_file".to_owned()], ..Default::default() };
        let order = v1::CreateRunRequest {
            driver: v1::Driver::Remote.into(),
            policy: Some(policy),
            ..request(&plan(&[step]), "")
        };
        let run_id = deployment.create_run(order).await?.id;
        let work = agent.work(&run_id).await?;
        let work = answer_question(&mut deployment, point, (&agent, &work)).await.context(point)?;

        let (approve, deny) = (v1::ConfirmationAnswer::Approve, v1::ConfirmationAnswer::Deny);
        let arguments = BTreeMap::from([("path".to_owned(), "*.txt".to_owned())]);
        let terms = Some(v1::GrantTerms { arguments, uses: 5, ttl: None });
        let said = (approve, terms);
        let work = resolve(&mut deployment, point, (&agent, &work), said).await.context(point)?;
        let run = deployment.run(&run_id).await?;
        let [grant] = &run.grants[..] else { anyhow::bail!("{point}: one grant: {run:#?}") };
        ensure!((grant.used, grant.uses) == (1, 5), "{point}: {grant:#?}");

        let revocation = v1::RevokeGrantRequest {
            run_id: run_id.clone(),
            grant_id: grant.id.clone(),
            request_id: format!("revoke {}", grant.id),
            ..v1::RevokeGrantRequest::default()
        };
        at_a_death(&mut deployment, point, async |mut runs| {
            runs.revoke_grant(revocation.clone()).await
        })
        .await?;
        let said = (deny, None);
        let work = resolve(&mut deployment, point, (&agent, &work), said).await.context(point)?;
        agent.submit(&work, &next_plan().to_string()).await?;
        let run = deployment.wait_for_end(&run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{point}: {run:#?}");
        for (name, count) in
            [("ask_user", 1), ("confirm_call", 2), ("revoke_grant", 1), ("write_file", 1)]
        {
            let found = receipts_of(&deployment, &run_id, name).await?;
            ensure!(found == count, "{point}: {found} receipts of {name}");
        }
    }
    deployment.finish_at_rest().await.map(drop)
}
