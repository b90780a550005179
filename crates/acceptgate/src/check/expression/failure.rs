//! Reasons why an expression does not hold.

/// Why an expression does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is false.
    False,
    /// It does not parse, is too long, calls an unknown function, or fails on these facts.
    Invalid,
    /// Its result is neither true nor false.
    NotBool,
    /// It used too much processor time, or could cost too much to be evaluated.
    Timeout,
}

impl Failure {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::False => "expression_false",
            Self::Invalid => "expression_invalid",
            Self::NotBool => "expression_not_bool",
            Self::Timeout => "expression_timeout",
        }
    }
}
