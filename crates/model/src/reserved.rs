//! What a run's budgets have reserved for one reply.

use surety_common::domain::decision::Usage;

/// What the budgets of a run have reserved for a prompt and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Of the budget of tokens; none without one.
    pub tokens: Option<u64>,
    /// Of the budget of cost, in millionths; none without one.
    pub cost_micros: Option<u64>,
    /// Whether the budgets have nothing more for it.
    pub is_most: bool,
}

impl Reserved {
    /// With all that the budgets have for it.
    #[must_use]
    pub fn raised(self, part: Usage) -> Self {
        Self {
            tokens: self.tokens.map(|_| part.tokens),
            cost_micros: self.cost_micros.map(|_| part.cost_micros),
            is_most: true,
        }
    }

    /// Without what was used of it, which no more is reserved for.
    pub(crate) fn without(self, used: Usage) -> Self {
        if used.is_zero() {
            return self;
        }
        Self {
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(used.tokens)),
            cost_micros: self.cost_micros.map(|micros| micros.saturating_sub(used.cost_micros)),
            is_most: true,
        }
    }
}
