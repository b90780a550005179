//! The limits that a request sets.

use surety_common::domain::fault::Fault;
use surety_common::domain::limits::Limits;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::Problem;
use surety_common::wire::v1;

/// The limits that a request sets, and the defaults of the others.
///
/// # Errors
/// `limit_out_of_range`.
pub fn read_own_limits(asked: v1::Limits) -> Result<Limits, Problem> {
    Limits::try_from(asked).map_err(Into::into)
}

/// The limits of a run under its namespace's ceilings.
pub(super) fn read_limits(asked: v1::Limits, policy: &NamespacePolicy) -> Result<Limits, Fault> {
    let limits = Limits::try_from(asked)?;
    Ok(policy.bound(limits, |name| is_set(&asked, name))?)
}

/// Whether a request sets a limit itself.
fn is_set(limits: &v1::Limits, name: &str) -> bool {
    match name {
        "max_plan_steps" => limits.max_plan_steps.is_some(),
        "planning_retry" => limits.planning_retry.is_some(),
        "max_step_tool_calls" => limits.max_step_tool_calls.is_some(),
        "max_step_rounds" => limits.max_step_rounds.is_some(),
        "max_run_rounds" => limits.max_run_rounds.is_some(),
        "max_replans" => limits.max_replans.is_some(),
        "max_repairs" => limits.max_repairs.is_some(),
        "max_consecutive_corrections" => limits.max_consecutive_corrections.is_some(),
        "max_missing_completion" => limits.max_missing_completion.is_some(),
        "max_thinking_only" => limits.max_thinking_only.is_some(),
        "max_repeat_cycle" => limits.max_repeat_cycle.is_some(),
        "max_parallel_steps" => limits.max_parallel_steps.is_some(),
        "step_deadline" => limits.step_deadline.is_some(),
        "run_deadline" => limits.run_deadline.is_some(),
        "confirm_ttl" => limits.confirm_ttl.is_some(),
        "command_timeout" => limits.command_timeout.is_some(),
        "token_budget" => limits.token_budget.is_some(),
        "cost_budget_micros" => limits.cost_budget_micros.is_some(),
        "max_turn_tokens" => limits.max_turn_tokens.is_some(),
        "max_turn_cost_micros" => limits.max_turn_cost_micros.is_some(),
        _ => false,
    }
}
