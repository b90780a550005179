//! The budgets of a run while a model of the service or an agent plans: its reply has a reservation, as a turn has.
//!
//! ```text
//!   the wait for a plan --reserve_plan--> its reply has a part of the budget --settle_plan--> charged
//!        ^                    `--nothing is left--> waits for a budget, or budget_exceeded
//!        +--- wait_for_plan_again, after extend_budget --'
//! ```

use super::budget::Shortage;
use super::draft::Draft;
use super::wait_rows::WaitKind;
use super::{Execution, Graph, Wait};
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::run::OnBudget;
use crate::domain::stop::WaitingOn;
use uuid::Uuid;

impl Draft {
    /// Reserves what the reply to the run's wait for a plan may use, where the run has budgets. Where one has
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
        let revision = self.execution.plan_revision;
        let Some(wait) = plan_wait(&mut self.execution).filter(short) else { return Ok(()) };
        wait.id = next;
        wait.waiting_on = WaitingOn::Model;
        wait.budget = None;
        plan_unblocks(wait.model.is_some(), revision).clone_into(&mut wait.unblocks);
        let planning = wait.planning.get_or_insert_default();
        wait.question = std::mem::take(&mut planning.reason);
        self.reserve_plan(graph, limits, on_budget)
    }

    /// Charges what making a plan cost. Where that is not said, charges what was reserved for it if a model of the
    /// service or the agent under a lease (`is_leased`) may have used that much, else nothing.
    pub fn settle_plan(&mut self, usage: Option<(Usage, UsageSource)>, is_leased: bool) {
        let wait = plan_wait(&mut self.execution);
        let may_have_used = is_leased || wait.as_ref().is_some_and(|wait| wait.model.is_some());
        let planning = wait.and_then(|wait| wait.planning.as_deref_mut());
        let reserved = planning.map(|planning| std::mem::take(&mut planning.reserved));
        let assumed = reserved.filter(|_| may_have_used).unwrap_or_default();
        let (usage, source) = usage.unwrap_or((assumed, UsageSource::Reserved));
        let counters = &mut self.execution.counters;
        counters.charge(usage, source);
        counters.usage_without_turn = counters.usage_without_turn.plus(usage);
    }
}

/// What ends a wait for a plan, for people: of a model of the service or of an agent, while the run's plan has this
/// revision.
pub const fn plan_unblocks(of_model: bool, revision: u32) -> &'static str {
    match (of_model, revision) {
        (true, _) => "a plan of the service's model, or a call of SubmitPlan with one",
        (false, 0) => "call SubmitPlan with a plan for the goal",
        (false, _) => "call SubmitPlan with a patch of the plan",
    }
}

pub(super) fn ask_for_budget(wait: &mut Wait, shortage: &Shortage) {
    wait.waiting_on = WaitingOn::User;
    wait.budget = Some(shortage.reserved);
    "call ExtendBudget with more, or with stop".clone_into(&mut wait.unblocks);
    let reason = std::mem::replace(&mut wait.question, shortage.to_string());
    wait.planning.get_or_insert_default().reason = reason;
    wait.model = wait.model.take().map(|_| Box::default());
}

/// The run's own wait for a plan, or for the budget of one.
fn plan_wait(execution: &mut Execution) -> Option<&mut Wait> {
    // The wait of a step for a budget belongs to the step.
    execution.own_wait_mut().filter(|wait| {
        matches!(wait.kind(), WaitKind::Plan | WaitKind::ModelPlan | WaitKind::Budget)
    })
}
