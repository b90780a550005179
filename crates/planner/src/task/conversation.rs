//! Texts by which agents answer one another: their tasks are of one chain, which ends at its bounds.

use super::find_agent::{Origin, find_agent};
use crate::planner::Planner;
use chrono::TimeDelta;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{ActionType, Assignee, ToolchainEvent, chain_has_room};
use surety_common::store::{Admission, KnownTask, NewTask};
use uuid::Uuid;

/// How long after the end of its task a text of an agent may be written and still belong to it, and how far the clocks of
/// the forge and of the database may differ.
const JUST_ENDED: TimeDelta = TimeDelta::minutes(10);

/// The chain of an event.
pub(super) enum Chain {
    /// A chain of its own.
    Own,
    /// It follows from a task.
    After(Cause),
    /// It would follow from this task, whose chain is at its bounds.
    Full(Cause),
}

/// The task in which the text of an event was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cause {
    /// Its run.
    pub(super) run_id: Uuid,
    /// Its chain, and its place there.
    pub(super) chain: (Uuid, u32),
}

impl Cause {
    /// Makes a task one that follows from it.
    pub(super) fn precedes(self, task: &mut NewTask) {
        let (chain_id, depth) = self.chain;
        task.chain_id = chain_id;
        task.caused_by = Some(self.run_id);
        task.depth = depth.saturating_add(1);
    }
}

/// The chain of an event: a text that an agent wrote while it worked on a task about the same subject follows from that
/// task. Of a comment for the author of a pull request only an answer does, so that a review with many comments on lines
/// asks for a response to each.
pub(super) async fn chain_of(
    planner: &Planner,
    admission: &mut Admission,
    event: &ToolchainEvent,
    known: &[KnownTask],
) -> Result<Chain, Fault> {
    let is_cause = |action: ActionType| match event.action_type() {
        ActionType::Mention => true,
        ActionType::ReviewComment => {
            matches!(action, ActionType::Mention | ActionType::ReviewComment)
        }
        ActionType::ReviewResult
        | ActionType::ReviewRequest
        | ActionType::ReviewUpdated
        | ActionType::CiFailure
        | ActionType::IssueAssigned
        | ActionType::DeployFailure
        | ActionType::ReviewMerged
        | ActionType::InfrastructureFailure => false,
    };
    let causes: Vec<&KnownTask> = known
        .iter()
        .filter(|task| {
            let began = task.created_at - JUST_ENDED;
            let until = task.ended_at.map(|at| at + JUST_ENDED);
            is_cause(task.placed.action)
                && began <= event.happened_at
                && until.is_none_or(|until| event.happened_at <= until)
        })
        .collect();
    if causes.is_empty() {
        return Ok(Chain::Own);
    }
    let account = Assignee::Account(event.from.clone());
    let Some(writer) = find_agent(planner, admission, Origin::of(event), &account).await? else {
        return Ok(Chain::Own);
    };
    let of_writer = causes.into_iter().filter(|task| task.assignee == writer.agent_id);
    // The deepest one, so that answers never begin again at the first task of a chain.
    let Some(cause) = of_writer.max_by_key(|task| (task.chain.1, task.run_id)) else {
        return Ok(Chain::Own);
    };
    let (chain_id, depth) = cause.chain;
    let cause = Cause { run_id: cause.run_id, chain: cause.chain };
    let tasks = admission.chain_tasks(chain_id).await?;
    Ok(if chain_has_room(depth, tasks) { Chain::After(cause) } else { Chain::Full(cause) })
}
