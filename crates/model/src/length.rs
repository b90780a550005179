//! How long requests may be.

/// How long a request for a model may be, as far as its answers show: tokens of the prompt, as they are counted here, and
/// of the reply together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// It was too long.
    pub refused: u64,
    /// The longest that was taken since; 0 before one was.
    pub taken: u64,
}
