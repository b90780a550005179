//! An approved call: the change that records its intent uses the approval up, so that it is made once.

use super::call::{intend, opened};
use super::call_setup::{Call, CallSetup, Done, called_off};
use super::conclude::{Stored, conclude};
use super::ended::Ended;
use super::history::Base;
use super::leased_run::LeasedRun;
use crate::tool::{Effect, ToolError};
use surety_common::crash;
use surety_common::domain::confirmation::{AfterExpiry, ApprovedCall, call_digest};
use surety_common::domain::execution::Approval;
use surety_common::domain::json;
use surety_common::domain::plan::ToolCall;
use surety_common::store::StoreError;
use uuid::Uuid;

/// Makes an approved call. Returns the steps that started because it was the last call of its step.
pub(super) async fn carry_out(
    run: &LeasedRun,
    index: usize,
    approved: &ApprovedCall,
) -> Result<Vec<usize>, Ended> {
    let arguments = json::parse(&approved.call.arguments_json).map_err(|error| {
        let what = "the arguments of an approved call".to_owned();
        StoreError::Corrupt { what, why: error.to_string() }
    })?;
    let tool_call = ToolCall { name: approved.call.tool.clone(), arguments: arguments.value };
    let call = Call { id: Uuid::now_v7(), tool_call };
    let prepared = prepare(run, index, &call).await;
    if let Err(error) = &prepared {
        called_off(run, &error.clone().into())?;
    }
    if !begin(run, index, &call, prepared.as_ref().ok()).await? {
        return Ok(Vec::new());
    }
    crash::point("executor.after_intent");
    let done = match prepared {
        Ok((setup, ..)) => setup.perform(run, call).await,
        Err(error) => Done::now(run, call, error.into()),
    };
    crash::point("executor.after_effect");
    conclude(run, index, done, Stored::Intent).await
}

type Prepared<'r> = (CallSetup, Effect, &'r Base);

async fn prepare<'r>(
    run: &'r LeasedRun,
    index: usize,
    call: &Call,
) -> Result<Prepared<'r>, ToolError> {
    let setup = CallSetup::set_up(run, index, call).await?;
    let (effect, base) = intend(run, &setup, call).await?;
    Ok((setup, effect, base))
}

/// Commits the intent, and uses the approval up. Returns false when the call may not begin.
async fn begin(
    run: &LeasedRun,
    index: usize,
    call: &Call,
    prepared: Option<&Prepared<'_>>,
) -> Result<bool, Ended> {
    let effect = prepared.map_or(&Effect::None, |(_, effect, _)| effect);
    let open = opened(run, call, effect)?;
    // Over the plan of now, so that an approval under another plan is none for this call.
    let digest = call_digest(&call.tool_call, &run.plan_digest);
    let after = AfterExpiry::of(&run.spec.policy.confirm, run.spec.driver.thinks());
    run.change_now(|draft| {
        if draft.use_approval(&run.graph, index, &digest, after)? != Approval::Used {
            return Ok(false);
        }
        if let Some((.., base)) = prepared {
            base.refer(draft);
        }
        draft.open_call(&run.graph, index, open.clone())?;
        Ok(true)
    })
    .await
}
