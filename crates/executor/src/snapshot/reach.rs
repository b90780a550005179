//! What a snapshot reads, and when it stops.

use crate::tool::ToolError;

/// How far a snapshot goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every path; of ignored ones what the operating system says about them.
    Everything,
    /// Paths that are not ignored.
    NotIgnored,
}

/// Asks whether a snapshot may go on.
pub type Check<'a> = &'a (dyn Fn() -> Result<(), ToolError> + Sync);
