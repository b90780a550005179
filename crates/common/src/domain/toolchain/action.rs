//! What happened on a forge, and what it asks for.

use super::words::words;
use std::fmt;

words! {
    /// What happened.
    EventType {
        /// A review approved a pull request.
        ReviewApproved = "review_approved",
        /// A review asked for changes.
        ChangesRequested = "changes_requested",
        /// A review was requested, or a pull request was opened.
        ReviewRequested = "review_requested",
        /// Commits were pushed to a pull request.
        CommitsPushed = "commits_pushed",
        /// A review or a pull request got a comment.
        ReviewComment = "review_comment",
        /// A build or its tests failed.
        CiFailed = "ci_failed",
        /// An issue was assigned.
        IssueAssigned = "issue_assigned",
        /// A deployment failed.
        DeploymentFailed = "deployment_failed",
        /// A comment, an issue or a pull request mentions an account.
        Mention = "mention",
        /// A pull request was merged.
        PullRequestMerged = "pull_request_merged",
        /// Surety could not reach a forge, or its own verification erred.
        InfrastructureFailure = "infrastructure_failure",
    }
}

words! {
    /// What the event asks for: it selects the steps, the hint and the counters.
    ActionType {
        /// Act on the result of a review.
        ReviewResult = "review_result",
        /// Review a pull request.
        ReviewRequest = "review_request",
        /// Review the new commits of a pull request.
        ReviewUpdated = "review_updated",
        /// Respond to a comment.
        ReviewComment = "review_comment",
        /// Make the build pass.
        CiFailure = "ci_failure",
        /// Resolve an issue.
        IssueAssigned = "issue_assigned",
        /// Deploy again.
        DeployFailure = "deploy_failure",
        /// Respond to a mention.
        Mention = "mention",
        /// Nothing: a notice.
        ReviewMerged = "review_merged",
        /// Restore the infrastructure.
        InfrastructureFailure = "infrastructure_failure",
    }
}

impl EventType {
    /// What it asks for.
    pub const fn action(self) -> ActionType {
        match self {
            Self::ReviewApproved | Self::ChangesRequested => ActionType::ReviewResult,
            Self::ReviewRequested => ActionType::ReviewRequest,
            Self::CommitsPushed => ActionType::ReviewUpdated,
            Self::ReviewComment => ActionType::ReviewComment,
            Self::CiFailed => ActionType::CiFailure,
            Self::IssueAssigned => ActionType::IssueAssigned,
            Self::DeploymentFailed => ActionType::DeployFailure,
            Self::Mention => ActionType::Mention,
            Self::PullRequestMerged => ActionType::ReviewMerged,
            Self::InfrastructureFailure => ActionType::InfrastructureFailure,
        }
    }
}
