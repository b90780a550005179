//! What is left of the limits before a turn.

use surety_common::domain::execution::{Execution, StepProgress};
use surety_common::domain::limits::Limits;

/// What is left of the limits before a turn. The clock is no part of it: a turn that is submitted again has the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Turns of this attempt at the step.
    pub rounds: u32,
    /// Tool calls of this attempt at the step.
    pub tool_calls: u32,
    /// Turns of the run.
    pub run_rounds: u32,
    /// Decisions in a row that may still be refused; the last of them ends the run.
    pub corrections: u32,
    /// Tokens of the run's budget that no turn has used; none without a budget.
    pub tokens: Option<u64>,
    /// Cost of the run's budget that no turn has used; none without a budget.
    pub cost_micros: Option<u64>,
    /// Repairs after a refused verdict.
    pub repairs: u32,
    /// Retries and replans after a failed step.
    pub replans: u32,
}

impl Left {
    /// What is left to a step.
    pub fn of(execution: &Execution, progress: &StepProgress, limits: &Limits) -> Self {
        let counters = &execution.counters;
        let budgets = execution.limits_of(limits);
        let of_budget = |total: Option<u64>, used| total.map(|total| total.saturating_sub(used));
        Self {
            rounds: limits.max_step_rounds.saturating_sub(progress.rounds),
            tool_calls: limits.max_step_tool_calls.saturating_sub(progress.tool_calls),
            run_rounds: limits.max_run_rounds.saturating_sub(counters.rounds),
            corrections: limits.max_consecutive_corrections.saturating_sub(progress.corrections),
            tokens: of_budget(budgets.token_budget, counters.usage.tokens),
            cost_micros: of_budget(budgets.cost_budget_micros, counters.usage.cost_micros),
            repairs: limits.max_repairs.saturating_sub(counters.repairs),
            replans: limits.max_replans.saturating_sub(counters.replans),
        }
    }

    /// In words, for the driver. The limits that are not near are left out.
    pub fn text(&self) -> String {
        let Self { rounds, tool_calls, run_rounds, corrections, .. } = *self;
        let mut said =
            vec![format!("Left in this attempt: {rounds} turns, {tool_calls} tool calls.")];
        if run_rounds < rounds {
            said.push(format!("Left in the whole run: {run_rounds} turns."));
        }
        if corrections == 1 {
            said.push("One more refused decision ends the run.".to_owned());
        }
        let budgets = [("token", self.tokens), ("cost", self.cost_micros)];
        for (name, left) in budgets {
            said.extend(left.map(|left| format!("Left of the run's {name} budget: {left}.")));
        }
        said.join(" ")
    }
}
