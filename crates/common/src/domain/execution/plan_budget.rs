//! The budgets of a run while a model of the service plans: its reply has a reservation, as a turn has.
//!
//! ```text
//!   the wait for a plan --reserve_plan--> its reply has a part of the budget --settle_plan--> charged
//!        ^                    `--nothing is left--> waits for a budget, or budget_exceeded
//!        +--- wait_for_plan_again, after extend_budget --'
//! ```

use super::budget::Shortage;
use super::draft::Draft;
use super::{Execution, Graph, Wait};
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::run::OnBudget;
use crate::domain::stop::WaitingOn;
use uuid::Uuid;

impl Draft {
    /// Reserves what a model's reply to the run's wait for a plan may use, where the run has budgets. Where one has
    /// nothing left, the run waits for a larger one, or ends where its policy says so: until the plan is there,
    /// no other step releases anything. Changes nothing for other waits.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn reserve_plan(
        &mut self,
        graph: &Graph,
        limits: &Limits,
        on_budget: OnBudget,
    ) -> Result<(), Refusal> {
        let own = self.execution.planning().reserved;
        let found = self.execution.part_of_budgets(limits, own);
        let Some(wait) = plan_wait(&mut self.execution).filter(|_| limits.has_budget()) else {
            return Ok(());
        };
        match found {
            Ok(part) => wait.planning.get_or_insert_default().reserved = part,
            Err(shortage) if on_budget == OnBudget::Fail => {
                return self.stop(graph, shortage.ending());
            }
            Err(shortage) => ask_for_budget(wait, &shortage),
        }
        Ok(())
    }

    /// Returns from the wait for a budget to the wait for a plan, under another id. Changes nothing for other waits.
    ///
    /// # Errors
    /// As [`Draft::reserve_plan`], which follows.
    pub fn wait_for_plan_again(
        &mut self,
        graph: &Graph,
        next: Uuid,
        (limits, on_budget): (&Limits, OnBudget),
    ) -> Result<(), Refusal> {
        let short = |wait: &&mut Wait| wait.budget.is_some();
        let Some(wait) = plan_wait(&mut self.execution).filter(short) else { return Ok(()) };
        wait.id = next;
        wait.waiting_on = WaitingOn::Model;
        wait.budget = None;
        PLAN_OF_MODEL.clone_into(&mut wait.unblocks);
        let planning = wait.planning.get_or_insert_default();
        wait.question = std::mem::take(&mut planning.reason);
        self.reserve_plan(graph, limits, on_budget)
    }

    /// Charges what making a plan cost, and else what was reserved for it, because the model may have used that much.
    pub fn settle_plan(&mut self, usage: Option<(Usage, UsageSource)>) {
        let planning = plan_wait(&mut self.execution).and_then(|wait| wait.planning.as_deref_mut());
        let reserved = planning.map(|planning| std::mem::take(&mut planning.reserved));
        let (usage, source) =
            usage.unwrap_or((reserved.unwrap_or_default(), UsageSource::Reserved));
        let counters = &mut self.execution.counters;
        counters.charge(usage, source);
        counters.usage_without_turn = counters.usage_without_turn.plus(usage);
    }
}

/// What ends a wait for a plan of a model, for people.
pub const PLAN_OF_MODEL: &str = "a plan of the service's model, or a call of SubmitPlan with one";

fn ask_for_budget(wait: &mut Wait, shortage: &Shortage) {
    wait.waiting_on = WaitingOn::User;
    wait.budget = Some(shortage.reserved);
    "call ExtendBudget with more, or with stop".clone_into(&mut wait.unblocks);
    let reason = std::mem::replace(&mut wait.question, shortage.to_string());
    wait.planning.get_or_insert_default().reason = reason;
    wait.model = Some(Box::default());
}

/// The run's own wait for a plan of a model, or for the budget of one.
fn plan_wait(execution: &mut Execution) -> Option<&mut Wait> {
    execution.own_wait_mut().filter(|wait| wait.model.is_some())
}
