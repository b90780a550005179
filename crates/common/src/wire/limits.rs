//! Limits: absent ones have their defaults. Durations are whole seconds.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{seconds, whole_seconds};
use crate::domain::limits::Limits;
use prost_types::Duration;

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
            step_deadline,
            run_deadline,
            token_budget,
            cost_budget_micros,
            confirm_ttl,
            command_timeout,
            max_turn_tokens,
            max_turn_cost_micros,
        } = limits;
        let seconds_of = |field: &str, given: Option<Duration>, default: u64| {
            given.map_or(Ok(default), |given| seconds(&format!("limits.{field}"), given))
        };
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
            step_deadline_s: seconds_of("step_deadline", step_deadline, default.step_deadline_s)?,
            run_deadline_s: seconds_of("run_deadline", run_deadline, default.run_deadline_s)?,
            token_budget: token_budget.or(default.token_budget),
            cost_budget_micros: cost_budget_micros.or(default.cost_budget_micros),
            confirm_ttl_s: seconds_of("confirm_ttl", confirm_ttl, default.confirm_ttl_s)?,
            command_timeout_s: command_timeout
                .map(|given| seconds("limits.command_timeout", given))
                .transpose()?,
            max_turn_tokens,
            max_turn_cost_micros,
        };
        match limits.validate() {
            Ok(()) => Ok(limits),
            // The domain already reports the whole path, including `limits.`.
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
            command_timeout_s,
            max_turn_tokens,
            max_turn_cost_micros,
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
            step_deadline: Some(whole_seconds(step_deadline_s)),
            run_deadline: Some(whole_seconds(run_deadline_s)),
            token_budget,
            cost_budget_micros,
            confirm_ttl: Some(whole_seconds(confirm_ttl_s)),
            command_timeout: command_timeout_s.map(whole_seconds),
            max_turn_tokens,
            max_turn_cost_micros,
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

    #[test]
    fn a_deadline_is_a_whole_number_of_seconds_in_its_range() {
        let deadline = |seconds, nanos| v1::Limits {
            step_deadline: Some(Duration { seconds, nanos }),
            ..v1::Limits::default()
        };
        assert_eq!(Limits::try_from(deadline(2, 0)).unwrap().step_deadline_s, 2);
        for (seconds, nanos, code) in [
            (0, 0, Code::LimitOutOfRange),
            (-1, 0, Code::LimitOutOfRange),
            (1, 500_000_000, Code::TypeMismatch),
        ] {
            let problem = Problem::from(Limits::try_from(deadline(seconds, nanos)).unwrap_err());
            assert_eq!(
                (problem.code, problem.field.as_deref()),
                (code, Some("limits.step_deadline"))
            );
        }
    }
}
