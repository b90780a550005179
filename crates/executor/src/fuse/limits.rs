//! The limits of turns, tool calls, a step's time and the run's: the only place that decides when one is
//! reached and what ends then.
//!
//! ```text
//!   before a driver is asked  -> reached(limits, used, Next::Turn)
//!   before a call is accepted -> reached(limits, used, Next::Call)   the safety validation
//! ```

use chrono::{DateTime, Utc};
use std::fmt;
use surety_common::domain::execution::Execution;
use surety_common::domain::limits::Limits;
use surety_common::domain::stop::StopReason;

/// The usage before the next turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Turns of the run.
    pub run_rounds: u32,
    /// Turns of this attempt at the step.
    pub step_rounds: u32,
    /// Tool calls of this attempt at the step.
    pub step_tool_calls: u32,
    /// Whole seconds since the start of this attempt at the step.
    pub step_age_s: u64,
    /// Whether the run's deadline passed.
    pub run_is_late: bool,
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A turn, whatever its decision.
    Turn,
    /// A turn with a tool call.
    Call,
}

/// What ends when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// This attempt at the step: the step fails.
    Step,
    /// The run: it stops with this reason.
    Run(StopReason),
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The limit's name.
    pub name: &'static str,
    /// Its value in the limit's own unit.
    pub limit: u64,
    /// What it ends.
    pub ends: Ends,
}

impl Used {
    /// The usage of an attempt at a step and of its run at `now`.
    pub fn of(execution: &Execution, index: usize, now: DateTime<Utc>) -> Self {
        let run_rounds = execution.counters.rounds;
        let run_is_late = execution.deadline_at.is_some_and(|deadline| deadline <= now);
        let Some(step) = execution.steps.get(index) else {
            return Self { run_rounds, run_is_late, ..Self::default() };
        };
        let age = step.started_at.map(|started_at| (now - started_at).num_seconds());
        Self {
            run_rounds,
            step_rounds: step.rounds,
            step_tool_calls: step.tool_calls,
            step_age_s: age.and_then(|age| u64::try_from(age).ok()).unwrap_or_default(),
            run_is_late,
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) is reached", self.name, self.limit)
    }
}

/// The limit that forbids the next action; none when it is allowed. A limit of the run comes before
/// those of the step, because a retry of the step would not help.
pub fn reached(limits: &Limits, used: &Used, next: Next) -> Option<Reached> {
    let (run_rounds, step_rounds) = (limits.max_run_rounds.into(), limits.max_step_rounds.into());
    let calls = limits.max_step_tool_calls.into();
    let deadline = limits.run_deadline_s;
    // What is left of it is in the row, which knows the pauses that were given back.
    let late = if used.run_is_late { deadline } else { 0 };
    let of_turn = [
        (Ends::Run(StopReason::DeadlineExceeded), "run_deadline_s", late, deadline),
        (
            Ends::Run(StopReason::MaxRoundsReached),
            "max_run_rounds",
            used.run_rounds.into(),
            run_rounds,
        ),
        (Ends::Step, "max_step_rounds", used.step_rounds.into(), step_rounds),
        (Ends::Step, "step_deadline_s", used.step_age_s, limits.step_deadline_s),
    ];
    let of_call = (Ends::Step, "max_step_tool_calls", used.step_tool_calls.into(), calls);
    let mut limits = of_turn.into_iter().chain((next == Next::Call).then_some(of_call));
    let (ends, name, _, limit) =
        limits.find(|(_, _, used, limit): &(_, _, u64, _)| used >= limit)?;
    Some(Reached { name, limit, ends })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use surety_common::domain::execution::StepProgress;
    use uuid::Uuid;

    fn used(run_rounds: u32, step_rounds: u32, step_tool_calls: u32, step_age_s: u64) -> Used {
        Used { run_rounds, step_rounds, step_tool_calls, step_age_s, run_is_late: false }
    }

    #[test]
    fn each_limit_lets_its_last_turn_or_call_happen_and_forbids_the_next() {
        let limits = Limits::default();
        let (step, run) = (Some(Ends::Step), Some(Ends::Run(StopReason::MaxRoundsReached)));
        let late = |used| Used { run_is_late: true, ..used };
        for (used, next, name, ends) in [
            (used(0, 0, 0, 0), Next::Call, "", None),
            (used(499, 59, 23, 3599), Next::Call, "", None),
            (used(500, 0, 0, 0), Next::Turn, "max_run_rounds", run),
            (used(0, 60, 0, 0), Next::Turn, "max_step_rounds", step),
            (used(0, 0, 0, 3600), Next::Turn, "step_deadline_s", step),
            // The driver may still end the step.
            (used(0, 0, 24, 0), Next::Turn, "", None),
            (used(0, 0, 24, 0), Next::Call, "max_step_tool_calls", step),
            (used(500, 60, 24, 3600), Next::Call, "max_run_rounds", run),
            (used(0, 60, 24, 3600), Next::Call, "max_step_rounds", step),
            (
                late(used(0, 0, 0, 0)),
                Next::Turn,
                "run_deadline_s",
                Some(Ends::Run(StopReason::DeadlineExceeded)),
            ),
        ] {
            let found = reached(&limits, &used, next);
            assert_eq!(found.map(|found| found.ends), ends, "{used:?} {next:?}");
            assert_eq!(found.map_or("", |found| found.name), name, "{used:?} {next:?}");
        }
    }

    #[test]
    fn a_reached_limit_is_named_with_its_value() {
        let found = reached(&Limits::default(), &used(0, 0, 24, 0), Next::Call).unwrap();
        assert_eq!(found.to_string(), "max_step_tool_calls (24) is reached");
    }

    #[test]
    fn what_an_attempt_used_up_is_read_from_the_row() {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        let mut row = Execution::new(Uuid::nil(), "rows".to_owned(), now, now);
        row.counters.rounds = 7;
        assert!(Used::of(&row, 0, now).run_is_late, "the deadline is now");
        row.deadline_at = Some(now + chrono::TimeDelta::hours(1));
        assert_eq!(Used::of(&row, 0, now), used(7, 0, 0, 0));
        row.steps = vec![Arc::new(StepProgress {
            rounds: 5,
            tool_calls: 3,
            started_at: Some(now),
            ..StepProgress::default()
        })];
        let later = now + chrono::TimeDelta::milliseconds(2_900);
        assert_eq!(Used::of(&row, 0, later), used(7, 5, 3, 2));
        assert_eq!(Used::of(&row, 0, now - chrono::TimeDelta::seconds(9)), used(7, 5, 3, 0));
    }
}
