//! What a confirmation asks.

use surety_common::domain::acceptance::{Acceptance, Difference};
use surety_common::domain::confirmation::call_digest;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::plan::{Plan, ToolCall};
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::failure::{Code, Failure};
use crate::report;

/// The whole of what a confirmation asks, as text: a call, a plan or a difference. It is known to be what the digest
/// of the wait is over.
///
/// # Errors
/// The service's error; `internal` where it is not.
pub async fn asked(connection: &Connection, wait: &v1::Wait) -> Result<String, Failure> {
    if let Some(call) = wait.tool_call.clone() {
        is_call(connection, wait, call).await?;
        let four_eyes = four_eyes(connection, &wait.namespace).await;
        return Ok(report::call(wait, four_eyes));
    }
    if let Some(accepting) = &wait.acceptance {
        let difference = difference(connection, wait, accepting).await?;
        let four_eyes = four_eyes(connection, &wait.namespace).await;
        return Ok(report::acceptance(wait, &difference, four_eyes));
    }
    let plan = plan(connection, wait).await?;
    let four_eyes = four_eyes(connection, &wait.namespace).await;
    Ok(report::plan_to_approve(wait, &plan, four_eyes))
}

/// Refuses a call that is not the one that the digest of the wait is over.
async fn is_call(
    connection: &Connection,
    wait: &v1::Wait,
    call: v1::ToolCall,
) -> Result<(), Failure> {
    let answer = connection.run(&wait.run_id, v1::RunView::Basic).await;
    let answer = answer.map_err(|status| connection.failure(&status))?;
    let plan_digest = answer.run.unwrap_or_default().plan_digest;
    let digest = ToolCall::try_from(call).map(|call| call_digest(&call, &plan_digest));
    if digest.ok().as_ref() == Some(&wait.call_digest) {
        return Ok(());
    }
    let message = "the call is not the one that the digest of the wait is over";
    Err(Failure::new(Code::Internal, message, "Do not answer; list the waits again."))
}

/// The whole plan.
async fn plan(connection: &Connection, wait: &v1::Wait) -> Result<String, Failure> {
    let request = v1::GetPlanRequest { run_id: wait.run_id.clone(), revision: 0 };
    let answer = connection.plans().get_plan(bounded(request)).await;
    let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
    let found = Plan::try_from(answer.plan.unwrap_or_default()).ok();
    match found.filter(|plan| plan.digest() == wait.call_digest) {
        Some(plan) => Ok(plan.to_json().to_compact()),
        None => {
            let message = "the plan is not the one that the digest of the wait is over";
            Err(Failure::new(Code::Internal, message, "Do not answer; list the waits again."))
        }
    }
}

/// The whole difference.
async fn difference(
    connection: &Connection,
    wait: &v1::Wait,
    accepting: &v1::Acceptance,
) -> Result<String, Failure> {
    let request = v1::GetOutputRequest {
        run_id: wait.run_id.clone(),
        call_id: accepting.difference_call_id.clone(),
        ..Default::default()
    };
    let failure = |status: tonic::Status| connection.failure(&status);
    let answer = connection.runs().get_output(bounded(request)).await.map_err(failure)?;
    let mut parts = answer.into_inner();
    let mut text = Vec::new();
    while let Some(part) = parts.message().await.map_err(failure)? {
        text.extend(part.data);
    }
    let difference = Difference {
        workspace: accepting.workspace_digest.clone(),
        digest: sha256_hex(&text),
        ..Difference::default()
    };
    let cautions = accepting.cautions.iter().cloned().map(Into::into).collect();
    if Acceptance::new(difference, cautions).digest != wait.call_digest {
        let message = "the difference is not the one that the digest of the wait is over";
        return Err(Failure::new(Code::Internal, message, "Do not answer; report this."));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether another person than the creator has to answer; none when that is not known.
async fn four_eyes(connection: &Connection, namespace: &str) -> Option<bool> {
    let request = v1::GetNamespacePolicyRequest { namespace: namespace.to_owned() };
    let answer = connection.admin().get_namespace_policy(bounded(request)).await.ok()?;
    Some(answer.into_inner().policy.unwrap_or_default().four_eyes)
}
