//! A plan of a participant that a person approves before its first step.
//!
//! ```text
//!   plan_accepted --ask_for_plan--> BLOCKED on an approver, with the plan's digest
//!                                      |--approved--> EXECUTING
//!                                      |--denied----> plan_rejected
//!                                      +--expired---> confirmation_expired
//! ```

use super::draft::{Draft, Ending};
use super::{Graph, Wait};
use crate::domain::confirmation::{AnsweredAt, plan_receipt};
use crate::domain::journal::{Actor, Answer, Entry};
use crate::domain::machine::Refusal;
use crate::domain::stop::StopReason;
use std::sync::Arc;
use uuid::Uuid;

/// A person's answer about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanAnswer<'a> {
    /// The identity.
    pub by: &'a str,
    /// Whether it approves.
    pub approved: bool,
    /// A comment; may be empty.
    pub comment: &'a str,
}

impl Draft {
    /// Blocks a run on the approval of the plan that it just began, where it still has steps to do.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn ask_for_plan(&mut self, graph: &Graph, wait: Wait) -> Result<(), Refusal> {
        match self.execution.state.phase() {
            Some(_) => self.block(graph, wait),
            // It is paused or has ended: a plan without a step that can start, for example.
            None => Ok(()),
        }
    }

    /// Records a person's answer about the plan, and ends the wait.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when the run does not wait for this answer.
    pub fn resolve_plan(
        &mut self,
        graph: &Graph,
        wait_id: Uuid,
        answer: PlanAnswer<'_>,
    ) -> Result<(), Refusal> {
        let own = self.execution.own_wait().filter(|wait| wait.id == wait_id);
        let asked =
            own.and_then(|wait| wait.plan_approval.as_deref()).ok_or(Refusal::Meaningless)?;
        let digest = asked.digest.clone();
        let PlanAnswer { by, approved, comment } = answer;
        let word = if approved { "approve" } else { "deny" };
        let text = match comment {
            "" => word.to_owned(),
            comment => format!("{word}: {comment}"),
        };
        self.journal(Entry::Answer(Answer {
            wait_id,
            by: Actor(Arc::from(by)),
            text: text.clone(),
        }));
        let answered = AnsweredAt {
            step_index: graph.len(),
            step_id: "",
            plan_revision: self.execution.plan_revision,
            wait_id,
            at: self.now,
        };
        self.receipt(plan_receipt((by, approved, comment), &digest, answered));
        if !approved {
            let end = Ending {
                stop_reason: StopReason::PlanRejected,
                user_message: format!("{by} rejected the plan ({text})"),
                internal_reason: "policy.approve_plan".to_owned(),
            };
            return self.stop(graph, end);
        }
        match &mut self.execution.paused {
            Some(paused) => {
                paused.behind = None;
                self.show_wait();
                Ok(())
            }
            None => self.unblock(graph, "the plan was approved"),
        }
    }

    /// Ends a run whose plan was not approved in time.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn expire_plan(&mut self, graph: &Graph) -> Result<(), Refusal> {
        let asked = self.execution.own_wait().and_then(|wait| wait.plan_approval.as_deref());
        let Some(expires_at) = asked.map(|asked| asked.expires_at).filter(|at| *at <= self.now)
        else {
            return Ok(());
        };
        let at = expires_at.to_rfc3339();
        let end = Ending {
            stop_reason: StopReason::ConfirmationExpired,
            user_message: format!("The plan was not approved by {at}."),
            internal_reason: "confirm_ttl is over".to_owned(),
        };
        self.stop(graph, end)
    }
}
