//! What a reply costs.

use surety_common::domain::decision::Usage;

/// Counted tokens. What an endpoint does not report is an upper bound, and `is_estimate` says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Tokens of the reply, thinking included.
    pub output: u64,
    /// Tokens of the prompt that the endpoint had cached.
    pub cached_input: u64,
    /// Whether the endpoint reported nothing and these are upper bounds.
    pub is_estimate: bool,
}

impl TokenUsage {
    /// What a run is charged with, beside the cost in millionths.
    pub(crate) const fn charged(self, cost_micros: u64) -> Usage {
        Usage { tokens: self.input.saturating_add(self.output), cost_micros }
    }
}
