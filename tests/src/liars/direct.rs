//! What happens beside a run: calls of the API, and changes of its workspace by another process.

use super::calls;
use super::place::Place;
use crate::harness::{Deployment, wait_until};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::time::Duration;
use surety_common::wire::v1;
use tonic::{Code, Status};

/// How long a line of shell may take to succeed.
const LONGEST: Duration = Duration::from_secs(30);

/// Makes the calls, in their order. A call that is refused is an answer of the service.
pub(super) async fn make(
    deployment: &Deployment,
    place: &Place,
    created: &v1::CreateRunRequest,
    (run_id, actions): (&str, &[Value]),
) -> Result<Vec<String>> {
    let mut refused = Vec::new();
    for action in actions {
        let (name, value) = match action.as_str() {
            Some(name) => (name, &Value::Null),
            None => {
                let mut members = action.as_object().context("an action is an object")?.iter();
                let (name, value) = members.next().context("an action has a name")?;
                (name.as_str(), value)
            }
        };
        let text = value.as_str().unwrap_or_default();
        match name {
            "until" => until(deployment, place, run_id, text).await?,
            "sh" => place.must(text).await?,
            "until_sh" => {
                let holds = || async { place.sh(text).await.is_ok_and(|(held, _)| held) };
                until_held(text, holds).await?;
            }
            name => {
                let answer = call(deployment, created, run_id, (name, value)).await?;
                refused.extend(answer.err().map(|status| status.message().to_owned()));
            }
        }
    }
    Ok(refused)
}

/// Waits until a line of shell succeeds.
async fn until_held<F: Future<Output = bool>>(line: &str, holds: impl Fn() -> F) -> Result<()> {
    let deadline = tokio::time::Instant::now() + LONGEST;
    while !holds().await {
        ensure!(tokio::time::Instant::now() < deadline, "{line}: it did not succeed in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn until(deployment: &Deployment, place: &Place, run_id: &str, what: &str) -> Result<()> {
    if what == "called" {
        let has_called =
            |run: &v1::Run| run.counters.is_some_and(|counters| counters.tool_calls > 0);
        return deployment.wait_for(run_id, what, has_called).await.map(drop);
    }
    let state = match what {
        "executing" => v1::RunState::Executing,
        "verifying" => v1::RunState::Verifying,
        "blocked" => v1::RunState::Blocked,
        file => {
            let path = place.workspace().join(file);
            return wait_until(file, || path.exists()).await;
        }
    };
    let is_so = |run: &v1::Run| run.state() == state || run.terminal.is_some();
    let run = deployment.wait_for(run_id, what, is_so).await?;
    ensure!(run.state() == state, "the run ended before it was {what}");
    Ok(())
}

async fn call(
    deployment: &Deployment,
    created: &v1::CreateRunRequest,
    run_id: &str,
    (name, value): (&str, &Value),
) -> Result<Result<(), Status>> {
    let run_id = run_id.to_owned();
    let reason = value.as_str().unwrap_or_default().to_owned();
    let mut runs = deployment.runs()?;
    Ok(match name {
        "pause" => {
            let request = v1::PauseRunRequest { run_id, reason, ..Default::default() };
            runs.pause_run(request).await.map(drop)
        }
        "resume" => {
            let request = v1::ResumeRunRequest { run_id, ..Default::default() };
            runs.resume_run(request).await.map(drop)
        }
        "cancel" => {
            let request = v1::CancelRunRequest { run_id, reason, ..Default::default() };
            runs.cancel_run(request).await.map(drop)
        }
        "replan" => {
            let request = v1::RequestReplanRequest { run_id, reason, ..Default::default() };
            deployment.plans()?.request_replan(request).await.map(drop)
        }
        "submit" => {
            let plan = v1::submit_plan_request::PlanSource::PlanText(value.to_string());
            let plan_source = Some(plan);
            let request = v1::SubmitPlanRequest {
                run_id,
                expected_revision: 1,
                plan_source,
                ..Default::default()
            };
            deployment.plans()?.submit_plan(request).await.map(drop)
        }
        "evaluate" => {
            let lease_epoch = match value.as_u64() {
                Some(epoch) => epoch,
                None => {
                    let lease = deployment.run(&run_id).await?.lease;
                    lease.map(|lease| lease.epoch).unwrap_or_default()
                }
            };
            let request = v1::EvaluateRunRequest { run_id, lease_epoch };
            deployment.internal()?.evaluate_run(request).await.map(drop)
        }
        "approve" => {
            let answer = (v1::ConfirmationAnswer::Approve, reason);
            resolve(deployment, &run_id, answer, None).await?
        }
        "deny" => {
            let answer = (v1::ConfirmationAnswer::Deny, reason);
            resolve(deployment, &run_id, answer, None).await?
        }
        "four_eyes" => require_four_eyes(deployment, &run_id, created).await?,
        "create_again" => {
            let verify = calls::checks(value.as_array().map_or(&[][..], Vec::as_slice))?;
            let request = v1::CreateRunRequest { verify, ..created.clone() };
            runs.create_run(request).await.map(drop)
        }
        other => bail!("no action is named {other:?}"),
    })
}

/// Sets the policy of the run's namespace, and waits until it holds.
async fn require_four_eyes(
    deployment: &Deployment,
    run_id: &str,
    created: &v1::CreateRunRequest,
) -> Result<Result<(), Status>> {
    let policy = v1::NamespacePolicy { four_eyes: true, ..Default::default() };
    let request = v1::SetNamespacePolicyRequest {
        namespace: created.namespace.clone(),
        policy: Some(policy),
        ..Default::default()
    };
    let set = deployment.admin()?.set_namespace_policy(request).await.map(drop);
    // A policy holds from one second later on. Until then the creator is told that the digest is another one.
    let holds = || async {
        let answer = (v1::ConfirmationAnswer::Approve, String::new());
        let made = resolve(deployment, run_id, answer, Some("0".repeat(64))).await;
        made.is_ok_and(|made| made.is_err_and(|it| it.code() == Code::PermissionDenied))
    };
    until_held("the policy holds", holds).await?;
    Ok(set)
}

/// Answers what the verdict of the run is in doubt about, with the digest that was shown or with another one.
async fn resolve(
    deployment: &Deployment,
    run_id: &str,
    (answer, comment): (v1::ConfirmationAnswer, String),
    digest: Option<String>,
) -> Result<Result<(), Status>> {
    let list = v1::ListWaitsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(list).await?.into_inner().waits;
    let wait = waits.into_iter().find(|wait| wait.acceptance.is_some()).context("a doubt")?;
    let request = v1::ResolveConfirmationRequest {
        wait_id: wait.id,
        answer: answer.into(),
        call_digest: digest.unwrap_or(wait.call_digest),
        comment,
        ..Default::default()
    };
    Ok(deployment.runs()?.resolve_confirmation(request).await.map(drop))
}
