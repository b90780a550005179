//! The limits that a run copies at its creation.

use crate::domain::problem::{Code, Problem};
use serde::{Deserialize, Serialize};

/// Seconds in 30 days, the longest deadline.
const THIRTY_DAYS_S: u64 = 30 * 24 * 3600;

/// The limits of one run. [`Limits::validate`] checks the ranges wherever limits are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Steps a plan may have, 1..200.
    pub max_plan_steps: u32,
    /// Retries of planning, 0..5.
    pub planning_retry: u32,
    /// Tool calls in one attempt at a step, 1..500.
    pub max_step_tool_calls: u32,
    /// Turns in one attempt at a step, 1..1,000.
    pub max_step_rounds: u32,
    /// Turns in a run, 1..100,000.
    pub max_run_rounds: u32,
    /// How often a failed step may be replanned or retried, 0..10.
    pub max_replans: u32,
    /// How often a refused verdict may be repaired, 0..10.
    pub max_repairs: u32,
    /// Consecutive refused decisions before the run stops, 1..10.
    pub max_consecutive_corrections: u32,
    /// Replies without a decision before the run stops, 1..20.
    pub max_missing_completion: u32,
    /// Replies that contain only thinking before the run stops, 1..20.
    pub max_thinking_only: u32,
    /// Repetitions of one cycle before a reminder, 1..20.
    pub max_repeat_cycle: u32,
    /// Steps that may run concurrently, 1..64.
    pub max_parallel_steps: u32,
    /// The time limit of one attempt at a step in seconds, 1..30 days.
    pub step_deadline_s: u64,
    /// The time limit of the run in seconds, 1..30 days.
    pub run_deadline_s: u64,
    /// Tokens that the run may use; none is unlimited.
    pub token_budget: Option<u64>,
    /// The cost limit of the run in millionths of the billing currency; none is unlimited.
    pub cost_budget_micros: Option<u64>,
    /// How long a confirmation stays open in seconds, 1..30 days.
    pub confirm_ttl_s: u64,
    /// The most time of a command of a step in seconds, 1..3,600, whatever the call asks for; none leaves it to
    /// the executor and the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_s: Option<u64>,
    /// Tokens that are reserved for each turn; none divides the budget by the parallel steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turn_tokens: Option<u64>,
    /// The cost that is reserved for each turn in millionths of the billing currency; none divides the
    /// budget by the parallel steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turn_cost_micros: Option<u64>,
}

/// The values of `command_timeout`, in seconds.
const COMMAND_TIMEOUT_S: (u64, u64) = (1, 3600);

/// The limits that may be none, which is no bound.
const OPTIONAL: [&str; 4] =
    ["token_budget", "cost_budget_micros", "max_turn_tokens", "max_turn_cost_micros"];

/// A limit's value and the values that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRange {
    /// The limit's name.
    pub name: &'static str,
    /// What it is; 0 for a default of no bound.
    pub value: u64,
    /// The least that it may be.
    pub low: u64,
    /// The most that it may be.
    pub high: u64,
    /// Whether it counts seconds.
    pub is_duration: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_plan_steps: 12,
            planning_retry: 1,
            max_step_tool_calls: 24,
            max_step_rounds: 60,
            max_run_rounds: 500,
            max_replans: 2,
            max_repairs: 3,
            max_consecutive_corrections: 3,
            max_missing_completion: 6,
            max_thinking_only: 6,
            max_repeat_cycle: 3,
            max_parallel_steps: 4,
            step_deadline_s: 3600,
            run_deadline_s: 24 * 3600,
            token_budget: None,
            cost_budget_micros: None,
            confirm_ttl_s: 24 * 3600,
            command_timeout_s: None,
            max_turn_tokens: None,
            max_turn_cost_micros: None,
        }
    }
}

/// One limit of many, by its name.
#[derive(Debug)]
pub enum LimitMut<'a> {
    /// A count.
    Count(&'a mut u32),
    /// Seconds.
    Seconds(&'a mut u64),
    /// A budget or a bound, which may be none.
    Budget(&'a mut Option<u64>),
}

impl LimitMut<'_> {
    /// Its value; none is no bound.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(u64::from(**count)),
            Self::Seconds(seconds) => Some(**seconds),
            Self::Budget(budget) => **budget,
        }
    }

    /// Gives it another value.
    pub fn set(&mut self, value: u64) {
        match self {
            Self::Count(count) => **count = u32::try_from(value).unwrap_or(u32::MAX),
            Self::Seconds(seconds) => **seconds = value,
            Self::Budget(budget) => **budget = Some(value),
        }
    }
}

impl Limits {
    /// The lowest and the highest value of a limit; none for a name that is no limit.
    #[must_use]
    pub fn range_of(name: &str) -> Option<(u64, u64)> {
        if OPTIONAL.contains(&name) {
            return Some((1, u64::MAX));
        }
        if name == "command_timeout" {
            return Some(COMMAND_TIMEOUT_S);
        }
        let limits = Self::default();
        let mut ranges = limits.ranges().into_iter();
        ranges.find(|(limit, ..)| *limit == name).map(|(_, _, low, high)| (low, high))
    }

    /// The limit with this name.
    pub fn value_mut(&mut self, name: &str) -> Option<LimitMut<'_>> {
        use LimitMut::{Budget, Count, Seconds};
        Some(match name {
            "max_plan_steps" => Count(&mut self.max_plan_steps),
            "planning_retry" => Count(&mut self.planning_retry),
            "max_step_tool_calls" => Count(&mut self.max_step_tool_calls),
            "max_step_rounds" => Count(&mut self.max_step_rounds),
            "max_run_rounds" => Count(&mut self.max_run_rounds),
            "max_replans" => Count(&mut self.max_replans),
            "max_repairs" => Count(&mut self.max_repairs),
            "max_consecutive_corrections" => Count(&mut self.max_consecutive_corrections),
            "max_missing_completion" => Count(&mut self.max_missing_completion),
            "max_thinking_only" => Count(&mut self.max_thinking_only),
            "max_repeat_cycle" => Count(&mut self.max_repeat_cycle),
            "max_parallel_steps" => Count(&mut self.max_parallel_steps),
            "step_deadline" => Seconds(&mut self.step_deadline_s),
            "run_deadline" => Seconds(&mut self.run_deadline_s),
            "confirm_ttl" => Seconds(&mut self.confirm_ttl_s),
            "command_timeout" => Budget(&mut self.command_timeout_s),
            "token_budget" => Budget(&mut self.token_budget),
            "cost_budget_micros" => Budget(&mut self.cost_budget_micros),
            "max_turn_tokens" => Budget(&mut self.max_turn_tokens),
            "max_turn_cost_micros" => Budget(&mut self.max_turn_cost_micros),
            _ => return None,
        })
    }

    /// Checks every limit against its range.
    ///
    /// # Errors
    /// `limit_out_of_range` with the name of the first limit that is outside.
    pub fn validate(&self) -> Result<(), Problem> {
        let (low, high) = COMMAND_TIMEOUT_S;
        if let Some(value) = self.command_timeout_s.filter(|value| !(low..=high).contains(value)) {
            let message =
                format!("{value} s is outside {low}..{high} s; choose a value in this range");
            return Err(Problem::at(Code::LimitOutOfRange, "limits.command_timeout", message));
        }
        for (field, value, low, high) in self.ranges() {
            let unit = if high == THIRTY_DAYS_S { " s" } else { "" };
            if value < low || value > high {
                return Err(Problem::at(
                    Code::LimitOutOfRange,
                    format!("limits.{field}"),
                    format!(
                        "{value}{unit} is outside {low}..{high}{unit}; choose a value in this range"
                    ),
                ));
            }
        }
        let mut limits = self.clone();
        for name in OPTIONAL {
            if limits.value_mut(name).and_then(|limit| limit.get()) == Some(0) {
                let message = "0 lets no turn begin; leave it out for no bound".to_owned();
                return Err(Problem::at(Code::LimitOutOfRange, format!("limits.{name}"), message));
            }
        }
        Ok(())
    }

    /// Whether tokens or cost are bounded.
    #[must_use]
    pub const fn has_budget(&self) -> bool {
        self.token_budget.is_some() || self.cost_budget_micros.is_some()
    }

    /// The limits, each with its value here and its range.
    pub fn in_force(&self) -> impl Iterator<Item = LimitRange> {
        let optional = OPTIONAL.map(|name| (name, 0, 1, u64::MAX));
        self.ranges().into_iter().chain(optional).map(|(name, value, low, high)| {
            let is_duration = high == THIRTY_DAYS_S;
            LimitRange { name, value, low, high, is_duration }
        })
    }

    fn ranges(&self) -> [(&'static str, u64, u64, u64); 15] {
        [
            ("max_plan_steps", self.max_plan_steps.into(), 1, 200),
            ("planning_retry", self.planning_retry.into(), 0, 5),
            ("max_step_tool_calls", self.max_step_tool_calls.into(), 1, 500),
            ("max_step_rounds", self.max_step_rounds.into(), 1, 1000),
            ("max_run_rounds", self.max_run_rounds.into(), 1, 100_000),
            ("max_replans", self.max_replans.into(), 0, 10),
            ("max_repairs", self.max_repairs.into(), 0, 10),
            ("max_consecutive_corrections", self.max_consecutive_corrections.into(), 1, 10),
            ("max_missing_completion", self.max_missing_completion.into(), 1, 20),
            ("max_thinking_only", self.max_thinking_only.into(), 1, 20),
            ("max_repeat_cycle", self.max_repeat_cycle.into(), 1, 20),
            ("max_parallel_steps", self.max_parallel_steps.into(), 1, 64),
            ("step_deadline", self.step_deadline_s, 1, THIRTY_DAYS_S),
            ("run_deadline", self.run_deadline_s, 1, THIRTY_DAYS_S),
            ("confirm_ttl", self.confirm_ttl_s, 1, THIRTY_DAYS_S),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_inside_their_ranges() {
        assert_eq!(Limits::default().validate(), Ok(()));
    }

    #[test]
    fn every_limit_with_a_range_is_found_by_its_name() {
        for (name, value, low, high) in Limits::default().ranges() {
            assert_eq!(Limits::range_of(name), Some((low, high)));
            let mut limits = Limits::default();
            let mut found = limits.value_mut(name).unwrap();
            assert_eq!(found.get(), Some(value), "{name}");
            found.set(low);
            assert_eq!(found.get(), Some(low), "{name}");
        }
        assert!(Limits::range_of("max_fun").is_none());
    }

    #[test]
    fn a_limit_outside_its_range_is_named() {
        let limits = Limits { max_repeat_cycle: 0, ..Limits::default() };
        let problem = limits.validate().unwrap_err();
        assert_eq!(problem.code, Code::LimitOutOfRange);
        assert_eq!(problem.field.as_deref(), Some("limits.max_repeat_cycle"));
    }
}
