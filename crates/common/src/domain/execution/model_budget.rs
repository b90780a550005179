//! The budgets of a reply of the service's own model, whose prompt is known before the call.
//!
//! ```text
//!   the lease of a wait --what is reserved is too little--> reserve_for_reply --more is left--> the call
//!                                                             |--too little--> waits for a budget, or budget_exceeded
//!                                                             `--a turn may not have so much--> budget_exceeded
//! ```

use super::Graph;
use super::budget::{ReplyNeed, Shortage, Unmet};
use super::draft::{Draft, Ending};
use super::model::{reserved_mut, wait_mut};
use super::plan_budget::ask_for_budget;
use super::wait_rows::AnsweredWait;
use crate::domain::decision::Usage;
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::RunEvent;
use crate::domain::run::OnBudget;
use crate::domain::stop::{StopReason, WaitingOn};
use uuid::Uuid;

impl Draft {
    /// Reserves what the reply to a leased wait of a model needs, and answers it. Where a budget has too little left
    /// for it, no call is to be made: the wait becomes one for a budget under the id `next`, or the run ends.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no wait of a model has this id.
    pub fn reserve_for_reply(
        &mut self,
        graph: &Graph,
        (limits, on_budget): (&Limits, OnBudget),
        (wait_id, lease_epoch, next): (Uuid, i64, Uuid),
        need: ReplyNeed,
    ) -> Result<Option<Usage>, Refusal> {
        let own = *reserved_mut(&mut self.execution, wait_id).ok_or(Refusal::Meaningless)?;
        let found = self.execution.part_for_reply(limits, own, need);
        if let Some(reserved) = reserved_mut(&mut self.execution, wait_id) {
            // Without a call there is nothing to charge.
            *reserved = found.unwrap_or_default();
        }
        let unmet = match found {
            Ok(part) => return Ok(Some(part)),
            Err(unmet) => unmet,
        };
        self.answered = Some(AnsweredWait { id: wait_id, lease_epoch });
        match unmet {
            Unmet::Turn { budget, turn, needed } => {
                self.stop(graph, turn_too_small(budget, turn, needed))?;
            }
            Unmet::Budget(shortage) if on_budget == OnBudget::Fail && shortage.is_final() => {
                self.stop(graph, shortage.ending())?;
            }
            Unmet::Budget(shortage) => self.wait_for_budget(graph, (wait_id, next), &shortage)?,
        }
        Ok(None)
    }

    fn wait_for_budget(
        &mut self,
        graph: &Graph,
        (wait_id, next): (Uuid, Uuid),
        shortage: &Shortage,
    ) -> Result<(), Refusal> {
        let now = self.now;
        let wait = wait_mut(&mut self.execution, wait_id).ok_or(Refusal::Meaningless)?;
        wait.id = next;
        if wait.step_index.is_some() {
            let is_away = wait.model.as_deref().is_some_and(|model| model.away.is_some());
            // The time of a wait for an endpoint does not count for the step's deadline either.
            wait.since = if is_away { wait.since } else { now };
            wait.waiting_on = WaitingOn::User;
            wait.budget = Some(shortage.reserved);
            wait.question = shortage.to_string();
            "call ExtendBudget with more, or with stop".clone_into(&mut wait.unblocks);
            wait.model = None;
        } else {
            ask_for_budget(wait, shortage);
        }
        self.run_event(RunEvent::BudgetShort, shortage.to_string())?;
        self.show_wait();
        self.settle(graph)
    }
}

fn turn_too_small(budget: &str, turn: u64, needed: u64) -> Ending {
    let limit = match budget {
        "token_budget" => "max_turn_tokens",
        _ => "max_turn_cost_micros",
    };
    Ending {
        stop_reason: StopReason::BudgetExceeded,
        user_message: format!(
            "The run ended because {limit} is {turn} and the next reply of the model needs {needed}. Start it again \
             with a larger {limit}, or without one."
        ),
        internal_reason: format!("{limit} is {turn}"),
    }
}
