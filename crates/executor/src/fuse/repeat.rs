//! Repeat cycles: the same calls with the same results for the same subgoal, turn after turn.
//!
//! ```text
//!   limit 3   s s s s s          s t s t s t s t
//!             1 2 3 4 5          1 2 3 4 5 6 7 8
//!                   | stop                 |   stop
//!                   remind                 remind
//! ```
//!
//! The detector does not estimate progress: reads, searches, tests and writes count alike.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use surety_common::domain::json::{Value, sha256_hex};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::problem::Problem;

/// The message for the driver at [`Repeat::Remind`], marked as no user input.
pub const REMINDER: &str = "Reminder, no user input. Your last turns made the same calls with the \
    same results. Do something else, or use next_plan, done or abort; one more repeat stops the \
    work.";

/// The longest cycle that is detected, in turns.
const MAX_PERIOD: usize = 3;

/// One turn as three hexadecimal digests. An empty one is unknown, and a turn with an unknown part
/// equals no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// From [`call_signature`].
    pub call: String,
    /// From [`result_fingerprint`].
    pub result: String,
    /// From [`subgoal_fingerprint`].
    pub subgoal: String,
}

/// The result after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// No cycle repeats too often.
    Ok,
    /// The driver gets a reminder before the next turn.
    Remind,
    /// The turns were repeated after the reminder: stop with `repeat_cycle`.
    Terminate,
}

/// The detector's state, stored with the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatCycle {
    limit: u32,
    /// The latest turns, the latest last.
    recent: VecDeque<Turn>,
    /// For each period from 1 on, how many consecutive turns equalled the one a period before.
    streaks: [u32; MAX_PERIOD],
    terminated: bool,
}

impl RepeatCycle {
    /// A detector that reminds after `limit` repeats, 1..20.
    ///
    /// # Errors
    /// `limit_out_of_range` when the limit is outside its range.
    pub fn new(limit: u32) -> Result<Self, Problem> {
        Limits { max_repeat_cycle: limit, ..Limits::default() }.validate()?;
        Ok(Self { limit, recent: VecDeque::new(), streaks: [0; MAX_PERIOD], terminated: false })
    }

    /// Counts a turn without a finished call, which equals no other turn.
    pub fn record_other(&mut self) {
        let unknown = Turn { call: String::new(), result: String::new(), subgoal: String::new() };
        self.record(unknown);
    }

    /// Counts one finished turn.
    pub fn record(&mut self, turn: Turn) -> Repeat {
        let mut loudest = Repeat::Ok;
        for (shorter, streak) in self.streaks.iter_mut().enumerate() {
            let before = self.recent.iter().rev().nth(shorter);
            if before != Some(&turn) || !turn.is_known() {
                *streak = 0;
                continue;
            }
            *streak = streak.saturating_add(1);
            match judge(*streak, shorter, self.limit) {
                Repeat::Ok => {}
                Repeat::Remind if loudest == Repeat::Terminate => {}
                louder @ (Repeat::Remind | Repeat::Terminate) => loudest = louder,
            }
        }
        self.recent.push_back(turn);
        if self.recent.len() > MAX_PERIOD {
            self.recent.pop_front();
        }
        self.terminated |= loudest == Repeat::Terminate;
        loudest
    }

    /// Whether the limit is reached.
    pub const fn is_terminated(&self) -> bool {
        self.terminated
    }

    /// How many consecutive turns equalled the one before.
    #[cfg(test)]
    pub fn streak(&self) -> u32 {
        self.streaks.first().copied().unwrap_or_default()
    }
}

/// For a single turn the limit counts its repetitions. A longer cycle is only visible after two
/// passes, so the limit counts the passes.
fn judge(streak: u32, shorter: usize, limit: u32) -> Repeat {
    let period = u32::try_from(shorter + 1).unwrap_or(u32::MAX);
    let repeats = if period == 1 { limit } else { limit.saturating_sub(1).max(1) };
    let remind_at = repeats.saturating_mul(period);
    if streak >= remind_at.saturating_add(period) {
        Repeat::Terminate
    } else if streak == remind_at {
        Repeat::Remind
    } else {
        Repeat::Ok
    }
}

impl Turn {
    fn is_known(&self) -> bool {
        [&self.call, &self.result, &self.subgoal].iter().all(|part| !part.is_empty())
    }
}

/// Digest of a turn's calls in order: names and arguments as canonical JSON. Empty without a call.
pub fn call_signature<'a>(calls: impl IntoIterator<Item = &'a ToolCall>) -> String {
    let call = |call: &ToolCall| {
        let arguments = Value::String(call.arguments.to_canonical());
        Value::Array(vec![Value::String(call.name.clone()), arguments])
    };
    let calls: Vec<Value> = calls.into_iter().map(call).collect();
    if calls.is_empty() {
        return String::new();
    }
    Value::Array(calls).digest()
}

/// Digest of the whole result, however long; empty for an empty one.
pub fn result_fingerprint(result: &str) -> String {
    if result.is_empty() {
        return String::new();
    }
    sha256_hex(result.as_bytes())
}

/// Digest of the driver's subgoal: the step, and the ids of the open todos in any order; empty when
/// the step is unknown.
pub fn subgoal_fingerprint(step_id: &str, open_todos: &[&str]) -> String {
    if step_id.is_empty() {
        return String::new();
    }
    let mut todos = open_todos.to_vec();
    todos.sort_unstable();
    let parts = std::iter::once(step_id).chain(todos);
    let parts = parts.map(|part| Value::String(part.to_owned())).collect();
    Value::Array(parts).digest()
}

#[cfg(test)]
mod tests;
