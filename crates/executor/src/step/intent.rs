//! What is known of a call before it begins: its effect, the workspace, and its intent as it is stored.

use super::call_setup::{Call, CallSetup, called_off};
use super::ended::Ended;
use super::history::Base;
use super::leased_run::LeasedRun;
use super::snapshots;
use crate::tool::{Effect, ToolError};
use surety_common::domain::execution::OpenCall;
use surety_common::store::StoreError;

/// The effect that a call would have, and the workspace before the first call that could write.
pub(super) async fn intend<'r>(
    run: &'r LeasedRun,
    setup: &CallSetup,
    call: &Call,
) -> Result<(Effect, &'r Base), ToolError> {
    let base = snapshots::base(run).await?;
    Ok((setup.intend(run, call).await?, base))
}

/// The workspace before the first call that could write, for a call that is made outside this process.
pub(super) async fn base_for(run: &LeasedRun) -> Result<Result<&Base, ToolError>, Ended> {
    match snapshots::base(run).await {
        Ok(base) => Ok(Ok(base)),
        Err(error) => {
            called_off(run, &error.clone().into())?;
            Ok(Err(error))
        }
    }
}

/// A call as its intent is stored.
pub(super) fn opened(run: &LeasedRun, call: &Call, effect: &Effect) -> Result<OpenCall, Ended> {
    let effect = serde_json::to_value(effect).map_err(|error| StoreError::Corrupt {
        what: "the effect of a call".to_owned(),
        why: error.to_string(),
    })?;
    Ok(OpenCall {
        call_id: call.id,
        tool: call.tool_call.name.clone(),
        arguments_json: call.tool_call.arguments.to_compact(),
        effect,
        intended_at: run.engine.now(),
    })
}
