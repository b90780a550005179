//! The folder that the views of a round are made in.

use crate::scratch::ScratchFolder;
use crate::tool::ToolError;
use std::path::{Path, PathBuf};
use surety_common::domain::check::Owner;
use surety_common::domain::receipt::Inputs;

/// What the names of these folders begin with.
const PREFIX: &str = "view-";

/// The folder of one round's views, which goes away with the round.
#[derive(Debug)]
pub(super) struct ViewFolder(ScratchFolder);

impl ViewFolder {
    /// Makes a folder that an account of a workspace can pass.
    pub(super) fn make(scratch: &Path) -> Result<Self, ToolError> {
        let made = ScratchFolder::make(scratch, PREFIX);
        made.map(Self).map_err(|error| ToolError::io(scratch.display(), &error))
    }

    pub(super) fn class(&self, owner: Owner) -> PathBuf {
        self.join(owner.as_str())
    }

    /// What the lines that prepare views wrote: with the workspace of the round, or with that of the start.
    pub(super) fn prepared(&self, inputs: Inputs) -> PathBuf {
        self.join(if inputs.is_at_start() { "prepare_at_start" } else { "prepare" })
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Removes the folders of rounds whose process was killed. Answers how many. It blocks.
pub fn sweep_views(scratch: &Path) -> usize {
    crate::scratch::sweep(scratch, PREFIX)
}
