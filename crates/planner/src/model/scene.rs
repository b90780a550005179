//! What a model is asked to plan from: the rows of a run, as a conversation.

use super::prompt::{PlanScene, messages};
use crate::intake::{attempts_left, checks_to_add};
use crate::planner::Planner;
use surety_common::config::Prompt;
use surety_common::domain::fault::Fault;
use surety_common::domain::messages::Message;
use surety_common::domain::run::RunRecord;
use surety_common::store;

/// The conversation in which a model plans; none while no executor has stored its tools, since a plan would name none.
///
/// # Errors
/// `database_unavailable`, `internal` for fixed checks that do not read.
pub(super) async fn conversation(
    planner: &Planner,
    record: &RunRecord,
    prompt: &Prompt,
) -> Result<Option<Vec<Message>>, Fault> {
    let RunRecord { spec, execution, plan, .. } = record;
    let tools = store::plan_tools(&planner.pool, &spec.namespace, planner.now()).await?;
    if tools.iter().all(|tool| tool.from_outside) {
        return Ok(None);
    }
    let planning = execution.planning();
    let fixed = checks_to_add(planner, record).await?;
    let reason = execution.own_wait().map_or("", |wait| wait.question.as_str());
    Ok(Some(messages(&PlanScene {
        prompt: &prompt.text,
        goal: &spec.goal,
        limits: &spec.limits,
        plan: plan.as_deref().map(|plan| (plan, execution.step_states().collect())),
        fixed: &fixed,
        cause: planning.cause,
        reason,
        refused: planning.refused.as_ref(),
        attempts_left: attempts_left(execution, &spec.limits),
        tools: &tools,
    })))
}
