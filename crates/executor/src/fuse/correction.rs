//! Limits consecutive refused decisions.

use serde::{Deserialize, Serialize};
use surety_common::domain::limits::Limits;

/// The refused decisions since the last accepted one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrections {
    /// Refusals since the last accepted action.
    pub in_a_row: u32,
}

/// The consequence of a refused decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRefusal {
    /// A correction is sent.
    Correct,
    /// The run stops with `max_consecutive_corrections`.
    Stop,
}

impl Corrections {
    /// Counts a refused decision, whether its text or a validation failed.
    pub fn refuse(&mut self, limits: &Limits) -> AfterRefusal {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row >= limits.max_consecutive_corrections {
            AfterRefusal::Stop
        } else {
            AfterRefusal::Correct
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_refusal_in_a_row_stops_without_a_third_correction() {
        let mut fuse = Corrections::default();
        let seen: Vec<AfterRefusal> = (0..3).map(|_| fuse.refuse(&Limits::default())).collect();
        use AfterRefusal::{Correct, Stop};
        assert_eq!(seen, [Correct, Correct, Stop]);
    }
}
