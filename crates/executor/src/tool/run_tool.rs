//! Tools over the rows of the run. They touch no workspace: the step loop carries them out, what they change
//! in the transaction of their turn.

use super::ToolSpec;
use super::builtin::{read_output, sleep, todo};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTool {
    /// Reads a part of a stored output.
    ReadOutput,
    /// Waits for a time.
    Sleep,
    /// Makes, changes and lists todos.
    Todo,
}

impl RunTool {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::ReadOutput, Self::Sleep, Self::Todo];

    /// Its description.
    pub(super) fn spec(self) -> ToolSpec {
        match self {
            Self::ReadOutput => read_output::spec(),
            Self::Sleep => sleep::spec(),
            Self::Todo => todo::spec(),
        }
    }
}

/// The tools that a step may call whatever it expects.
pub const ALWAYS_ALLOWED: [&str; 2] = [read_output::NAME, todo::NAME];
