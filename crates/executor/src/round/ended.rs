//! The workspace at the end of a round, for the record.

use crate::tool::ToolOutcome;
use data_encoding::HEXLOWER;
use std::sync::Arc;
use surety_common::domain::manifest::{IgnoreRules, Manifest, Place, digest, encode};
use surety_common::domain::receipt::Fact;
use surety_common::domain::verification::{WORKSPACE_CHANGED, WORKSPACE_DIGEST};

/// The workspace at the end of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The paths that are not as at the start of the round, ignored ones apart, at most a few of them. What
    /// was observed is then not about one state of the workspace.
    pub moved: Vec<String>,
    /// The digest of every path that is not ignored.
    pub digest: String,
    /// The ignore rules under which the digest holds, as a later comparison reads them.
    pub rules: String,
}

impl Ended {
    pub(super) fn of(after: &Manifest, moved: Vec<String>) -> Self {
        Self { moved, digest: digest(after), rules: rules_text(&after.rules) }
    }

    /// The outcome of this observation: a failure where the workspace changed during the round. Its output
    /// has the ignore rules.
    pub fn outcome(&self) -> ToolOutcome {
        let value = self.digest.clone();
        let facts = vec![Fact::Output { key: WORKSPACE_DIGEST.to_owned(), value }];
        let output = self.rules.clone().into_bytes();
        if self.moved.is_empty() {
            return ToolOutcome::done("the workspace at the end of the round", output, facts);
        }
        let message = format!("{WORKSPACE_CHANGED}: {}", self.moved.join(", "));
        ToolOutcome { success: false, ..ToolOutcome::done(message, output, facts) }
    }
}

/// Ignore rules as text: a stored manifest without entries, in hexadecimal.
pub fn rules_text(rules: &Arc<IgnoreRules>) -> String {
    let manifest = Manifest::new(Place::default(), Arc::clone(rules), Vec::new());
    HEXLOWER.encode(&encode(&manifest))
}
