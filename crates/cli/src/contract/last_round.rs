//! The last round of a contract, for an agent whose client gave up the call before the answer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::now;
use crate::verify::VerdictFile;

/// A round that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRound {
    /// When it ended, RFC 3339.
    pub at: String,
    /// What it came to, as the agent may read it.
    pub verdict: VerdictFile,
    /// Where the verdict was written; none for a round without one.
    pub file: Option<PathBuf>,
}

impl LastRound {
    /// A round that ended now.
    #[must_use]
    pub fn of(verdict: &VerdictFile, file: Option<&Path>) -> Self {
        Self {
            at: now(),
            verdict: verdict.clone().for_participant(),
            file: file.map(Path::to_owned),
        }
    }
}
