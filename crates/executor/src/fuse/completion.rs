//! Limits replies without a decision, with reminders of the completion signal.

use serde::{Deserialize, Serialize};
use surety_common::domain::limits::Limits;

/// Consecutive replies without a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCompletion {
    /// Replies with text and no decision since the last tool call.
    pub text_only: u32,
    /// Replies that contain only thinking since the last tool call.
    pub thinking_only: u32,
}

/// The consequence of a reply without a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reminder {
    /// The driver is reminded.
    Normal,
    /// The driver is reminded for the last time.
    FinalWarning,
    /// The run stops with `missing_completion_signal`.
    Stop,
}

impl Reminder {
    /// The reminder, marked as no user input; empty when the run stops.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Normal => {
                "Reminder, no user input. Your last reply held no decision. Answer with one JSON \
                 object that names an action; next_plan or done say that you are finished."
            }
            Self::FinalWarning => {
                "Final warning, no user input. One more reply without a decision stops the run. \
                 Answer with one JSON object that names an action."
            }
            Self::Stop => "",
        }
    }
}

impl MissingCompletion {
    /// Counts a reply with text and no decision.
    pub fn count_text(&mut self, limits: &Limits) -> Reminder {
        self.text_only = self.text_only.saturating_add(1);
        reminder(self.text_only, limits.max_missing_completion)
    }

    /// Counts a reply that contains only thinking, which has a limit of its own.
    pub fn count_thinking(&mut self, limits: &Limits) -> Reminder {
        self.thinking_only = self.thinking_only.saturating_add(1);
        reminder(self.thinking_only, limits.max_thinking_only)
    }
}

fn reminder(count: u32, limit: u32) -> Reminder {
    match limit.saturating_sub(count) {
        0 => Reminder::Stop,
        1 => Reminder::FinalWarning,
        _ => Reminder::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(missing: u32, thinking: u32) -> Limits {
        Limits { max_missing_completion: missing, max_thinking_only: thinking, ..Limits::default() }
    }

    #[test]
    fn the_last_reminder_is_a_final_warning_and_then_the_run_stops() {
        use Reminder::{FinalWarning, Normal, Stop};
        let mut fuse = MissingCompletion::default();
        let seen: Vec<Reminder> = (0..6).map(|_| fuse.count_text(&limits(6, 6))).collect();
        assert_eq!(seen, [Normal, Normal, Normal, Normal, FinalWarning, Stop]);
    }

    #[test]
    fn with_a_limit_of_one_the_first_silence_stops() {
        let mut fuse = MissingCompletion::default();
        assert_eq!(fuse.count_text(&limits(1, 2)), Reminder::Stop);
    }

    #[test]
    fn thinking_is_counted_apart_from_talk() {
        let mut fuse = MissingCompletion::default();
        fuse.count_text(&limits(2, 2));
        assert_eq!(fuse.count_thinking(&limits(2, 2)), Reminder::FinalWarning);
        assert_eq!(fuse.count_thinking(&limits(2, 2)), Reminder::Stop);
        assert_eq!(fuse.text_only, 1);
    }
}
