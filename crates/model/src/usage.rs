//! What a reply costs.

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
