//! How many tests a command ran.

/// The tests of one command, as its runner reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that ran, whatever their result.
    pub ran: u64,
    /// Tests that ran and failed.
    pub failed: u64,
    /// Tests that were skipped.
    pub skipped: u64,
    /// Tests that the runner announced, and that it then neither ran nor skipped.
    pub missing: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            ran: self.ran.saturating_add(other.ran),
            failed: self.failed.saturating_add(other.failed),
            skipped: self.skipped.saturating_add(other.skipped),
            missing: self.missing.saturating_add(other.missing),
        }
    }
}
