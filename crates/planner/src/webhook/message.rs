//! What a webhook is told.

use chrono::SecondsFormat;
use serde_json::{Value, json};
use surety_common::domain::run::RunRecord;
use surety_common::store::Delivery;

/// The text of a delivery; none where its wait was answered meanwhile, is the pause that a person asked for, or where
/// its run has not ended.
pub(super) fn of(delivery: &Delivery, run: &RunRecord) -> Option<String> {
    let data = match delivery.event.as_str() {
        "wait.opened" => wait(delivery, run)?,
        "run.ended" => end(run)?,
        _ => return None,
    };
    let message = json!({
        "type": delivery.event,
        "timestamp": delivery.noted_at.to_rfc3339_opts(SecondsFormat::Millis, true),
        "data": data,
    });
    Some(message.to_string())
}

fn wait(delivery: &Delivery, run: &RunRecord) -> Option<Value> {
    let is_pause = run.execution.paused.iter().any(|paused| paused.wait.id == delivery.subject);
    let wait = run.execution.waits().find(|wait| wait.id == delivery.subject && !is_pause)?;
    let steps = run.plan.as_deref().map(|plan| plan.steps.as_slice()).unwrap_or_default();
    let step = wait.step_index.and_then(|index| steps.get(index));
    Some(json!({
        "run_id": run.spec.id,
        "namespace": run.spec.namespace,
        "goal": run.spec.goal,
        "wait_id": wait.id,
        "kind": wait.kind().as_str(),
        "waiting_on": wait.waiting_on.as_str(),
        "step_id": step.map(|step| step.id.as_str()),
        "question": wait.question,
        "choices": wait.choices,
        "question_digest": wait.digest_of_question(),
        "unblocks": wait.unblocks,
    }))
}

fn end(run: &RunRecord) -> Option<Value> {
    let terminal = run.execution.terminal.as_ref()?;
    Some(json!({
        "run_id": run.spec.id,
        "namespace": run.spec.namespace,
        "goal": run.spec.goal,
        "state": run.execution.state.as_str(),
        "stop_reason": terminal.stop_reason.as_str(),
        "user_message": terminal.user_message,
    }))
}
