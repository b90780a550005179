//! A call that a person approved, by itself or by a grant: the change that records its intent uses the approval or one
//! use of the grant up, so that it is made once.

use super::call_setup::{Call, CallSetup, Done, called_off};
use super::ended::Ended;
use super::history::Base;
use super::intent::{intend, opened};
use super::judge::Passed;
use super::leased_run::LeasedRun;
use super::open_call::end_call_or_ask;
use super::{outcome, recorded, worker_calls};
use crate::fuse::limits::Next;
use crate::tool::{Effect, ToolError};
use surety_common::crash;
use surety_common::domain::confirmation::{AfterExpiry, ApprovedCall, call_digest};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Approval, Wait};
use surety_common::domain::json;
use surety_common::domain::machine::Refusal;
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
    // Over the plan of now, so that an approval under another plan is none for this call.
    let digest = call_digest(&tool_call, &run.plan_digest);
    if digest == approved.call.digest && !recorded::is_approved(run, index, approved).await? {
        return Ok(Vec::new());
    }
    let after = AfterExpiry::of(&run.spec.policy.confirm, run.spec.driver.thinks());
    make(run, index, tool_call, |draft, open| {
        if draft.use_approval(&run.graph, index, &digest, after)? == Approval::Used {
            open(draft)?;
            return Ok(true);
        }
        Ok(false)
    })
    .await
}

/// Makes the call of a decision under a grant, as part of its turn; where no grant covers it any more by then, the step
/// waits for its confirmation, `wait`. Returns the steps that started because it was the last call of its step.
pub(super) async fn carry_out_granted(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (tool_call, wait): (&ToolCall, &Wait),
) -> Result<Vec<usize>, Ended> {
    let shown = wait.confirmation.as_deref().ok_or(Refusal::Meaningless)?;
    let receipt_id = Uuid::now_v7();
    make(run, index, tool_call.clone(), |draft, open| {
        let begun = outcome::turn(draft, run, index, Next::Call, |draft| {
            outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)?;
            if draft.use_grant(&run.graph, index, shown, receipt_id)? {
                open(draft)?;
                return Ok(true);
            }
            draft.pause_step(&run.graph, index, wait.clone())?;
            Ok(false)
        })?;
        Ok(begun.unwrap_or_default())
    })
    .await
}

/// Makes a call that needs a confirmation. `begin` is the change that records its intent, by what it is given; it
/// returns false when the call may not begin.
async fn make(
    run: &LeasedRun,
    index: usize,
    tool_call: ToolCall,
    begin: impl FnOnce(&mut Draft, &dyn Fn(&mut Draft) -> Result<(), Refusal>) -> Result<bool, Refusal>,
) -> Result<Vec<usize>, Ended> {
    let call = Call { id: Uuid::now_v7(), tool_call };
    let tools = run.tools_with(Some(&call.tool_call.name)).await;
    let prepared = match tools.worker_tool(&call.tool_call.name) {
        None => prepare(run, index, &call).await,
        Some(tool) => match worker_calls::prepare(run, index, tool, &call).await? {
            Err(error) => Err(error),
            Ok(begun) => {
                run.change_now(|draft| begin(draft, &|draft| begun.begin(draft, run))).await?;
                return Ok(Vec::new());
            }
        },
    };
    if let Err(error) = &prepared {
        called_off(run, &error.clone().into())?;
    }
    let effect = prepared.as_ref().map_or(&Effect::None, |(_, effect, _)| effect);
    let open = opened(run, &call, effect)?;
    let intent = |draft: &mut Draft| {
        if let Ok((.., base)) = &prepared {
            base.refer(draft);
        }
        draft.open_call(&run.graph, index, open.clone())
    };
    if !run.change_now(|draft| begin(draft, &intent)).await? {
        return Ok(Vec::new());
    }
    crash::point("executor.after_intent");
    let done = match prepared {
        Ok((setup, ..)) => setup.perform(run, call).await,
        Err(error) => Done::now(run, call, error.into()),
    };
    crash::point("executor.after_effect");
    end_call_or_ask(run, index, done).await
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
