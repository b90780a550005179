//! Errors of the stored form.

/// Stored text of another format than this module's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a journal entry cannot be parsed: {0}")]
pub struct StoredError(pub String);

impl StoredError {
    pub(in crate::domain::journal) fn at(self, sequence: i64) -> Self {
        Self(format!("at {sequence}: {}", self.0))
    }
}
