//! Limits: absent ones have their defaults.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use crate::domain::limits::Limits;

impl TryFrom<v1::Limits> for Limits {
    type Error = MessageError;

    fn try_from(limits: v1::Limits) -> Result<Self, Self::Error> {
        let v1::Limits {
            max_plan_steps,
            planning_retry,
            max_step_tool_calls,
            max_step_rounds,
            max_run_rounds,
            max_replans,
            max_repairs,
            max_consecutive_corrections,
            max_missing_completion,
            max_thinking_only,
            max_repeat_cycle,
            max_parallel_steps,
            step_deadline_s,
            run_deadline_s,
            token_budget,
            cost_budget_micros,
            confirm_ttl_s,
        } = limits;
        let default = Self::default();
        let limits = Self {
            max_plan_steps: max_plan_steps.unwrap_or(default.max_plan_steps),
            planning_retry: planning_retry.unwrap_or(default.planning_retry),
            max_step_tool_calls: max_step_tool_calls.unwrap_or(default.max_step_tool_calls),
            max_step_rounds: max_step_rounds.unwrap_or(default.max_step_rounds),
            max_run_rounds: max_run_rounds.unwrap_or(default.max_run_rounds),
            max_replans: max_replans.unwrap_or(default.max_replans),
            max_repairs: max_repairs.unwrap_or(default.max_repairs),
            max_consecutive_corrections: max_consecutive_corrections
                .unwrap_or(default.max_consecutive_corrections),
            max_missing_completion: max_missing_completion
                .unwrap_or(default.max_missing_completion),
            max_thinking_only: max_thinking_only.unwrap_or(default.max_thinking_only),
            max_repeat_cycle: max_repeat_cycle.unwrap_or(default.max_repeat_cycle),
            max_parallel_steps: max_parallel_steps.unwrap_or(default.max_parallel_steps),
            step_deadline_s: step_deadline_s.unwrap_or(default.step_deadline_s),
            run_deadline_s: run_deadline_s.unwrap_or(default.run_deadline_s),
            token_budget: token_budget.or(default.token_budget),
            cost_budget_micros: cost_budget_micros.or(default.cost_budget_micros),
            confirm_ttl_s: confirm_ttl_s.unwrap_or(default.confirm_ttl_s),
        };
        match limits.validate() {
            Ok(()) => Ok(limits),
            // The domain already names the whole path, `limits.` included.
            Err(problem) => {
                let path = problem.field.clone().unwrap_or_default();
                Err(MessageError::at(path, Kind::Domain(problem)))
            }
        }
    }
}

impl From<Limits> for v1::Limits {
    fn from(limits: Limits) -> Self {
        let Limits {
            max_plan_steps,
            planning_retry,
            max_step_tool_calls,
            max_step_rounds,
            max_run_rounds,
            max_replans,
            max_repairs,
            max_consecutive_corrections,
            max_missing_completion,
            max_thinking_only,
            max_repeat_cycle,
            max_parallel_steps,
            step_deadline_s,
            run_deadline_s,
            token_budget,
            cost_budget_micros,
            confirm_ttl_s,
        } = limits;
        Self {
            max_plan_steps: Some(max_plan_steps),
            planning_retry: Some(planning_retry),
            max_step_tool_calls: Some(max_step_tool_calls),
            max_step_rounds: Some(max_step_rounds),
            max_run_rounds: Some(max_run_rounds),
            max_replans: Some(max_replans),
            max_repairs: Some(max_repairs),
            max_consecutive_corrections: Some(max_consecutive_corrections),
            max_missing_completion: Some(max_missing_completion),
            max_thinking_only: Some(max_thinking_only),
            max_repeat_cycle: Some(max_repeat_cycle),
            max_parallel_steps: Some(max_parallel_steps),
            step_deadline_s: Some(step_deadline_s),
            run_deadline_s: Some(run_deadline_s),
            token_budget,
            cost_budget_micros,
            confirm_ttl_s: Some(confirm_ttl_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::problem::{Code, Problem};

    #[test]
    fn absent_limits_have_their_defaults() {
        assert_eq!(Limits::try_from(v1::Limits::default()), Ok(Limits::default()));
    }

    #[test]
    fn a_limit_outside_its_range_is_refused_by_name() {
        let limits = v1::Limits { max_plan_steps: Some(201), ..v1::Limits::default() };
        let problem = Problem::from(Limits::try_from(limits).unwrap_err());
        assert_eq!(problem.code, Code::LimitOutOfRange);
        assert_eq!(problem.field.as_deref(), Some("limits.max_plan_steps"));
    }
}
