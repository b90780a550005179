//! What the forge itself is asked about a task, and what its answers mean.
//!
//! ```text
//!   payload, accounts, time of the event --ProbeQuestion::of--> question   (or why none can be asked)
//!   question + facts of the forge ------decide---------------> passed, or failed with a reason
//!                                 \-----own_part_holds-------> whether only CI or a reviewer is missing
//! ```

mod decide;
mod question;
#[cfg(test)]
mod tests;

pub use decide::{
    Finding, ProbeFacts, PullFact, ReviewFact, decide, own_part_holds, refers_to, reviewed_commit,
};
pub use question::{ProbeQuestion, Wanted, repository_of};

use super::words::words;
use std::fmt;

/// The target of the `action_report` check that the forge decides, and not the history of the task.
pub const FORGE_TARGET: &str = "forge";

words! {
    /// Why the forge does not show what a task asks for.
    ProbeReason {
        /// The pull request is not merged.
        NotMerged = "pull_request_not_merged",
        /// No commit was pushed after the event.
        NoPush = "no_new_push",
        /// A check of the newest commit fails.
        ChecksFailing = "checks_failing",
        /// The assignee submitted no review after the event.
        NoReview = "no_review",
        /// The assignee neither replied nor pushed after the event.
        NoResponse = "no_response",
        /// The assignee wrote no reply after the event.
        NoReply = "no_reply",
        /// No open or merged pull request refers to the issue.
        NoPullRequest = "no_pull_request",
        /// No deployment succeeded after the event.
        NoDeployment = "no_successful_deployment",
    }
}

words! {
    /// Why the forge is not asked.
    NotAsked {
        /// The task asks for nothing that a forge shows.
        NothingToShow = "nothing_to_show",
        /// The payload names no repository, number or branch.
        SubjectUnknown = "subject_unknown",
        /// No account of the assignee is known on the forge.
        AccountUnknown = "account_unknown",
        /// The API of this forge does not serve it.
        NotServed = "not_served",
        /// No forge with a credential is configured for the repository, or its probe is off.
        NotConfigured = "not_configured",
    }
}

words! {
    /// What an answer of the forge does.
    ProbeMode {
        /// A task that the forge does not show is refused.
        Required = "required",
        /// The answer is recorded, and refuses nothing.
        Recorded = "recorded",
        /// The forge is not asked.
        Off = "off",
    }
}

words! {
    /// The state of the checks of a commit.
    ChecksState {
        /// There are none.
        None = "none",
        /// None fails, and at least one has not ended.
        Pending = "pending",
        /// All ended and none failed.
        Passing = "passing",
        /// At least one failed.
        Failing = "failing",
    }
}
