//! What a forge is asked for.

use crate::error::ForgeError;
use crate::repo::RepoName;
use crate::types::{
    ChangedFile, Checks, Comment, Commit, Deployment, Excerpt, Issue, MergeMethod, NewIssue,
    NewPull, NewReview, PullRequest, Review, ReviewComment,
};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use surety_common::domain::toolchain::Forge as ForgeKind;

/// A call in progress.
pub type Asking<'a, T> = BoxFuture<'a, Result<T, ForgeError>>;

/// A forge, as one of its accounts sees it. Lists are bounded; the bound is named at each.
///
/// # Errors
/// Each call: `unreachable`, `unauthorized`, `forbidden`, `not_found`, `rate_limited`, `bad_answer`, `too_large`,
/// `credential_unreadable`; a write also `conflict` and `unprocessable`.
pub trait Forge: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Its kind.
    fn kind(&self) -> ForgeKind;

    /// The account of the credential.
    fn current_user(&self) -> Asking<'_, String>;

    /// One pull request.
    fn pull<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, PullRequest>;

    /// The pull requests that changed since a time, the newest first, at most 300.
    fn pulls_since<'a>(
        &'a self,
        repo: &'a RepoName,
        since: DateTime<Utc>,
    ) -> Asking<'a, Vec<PullRequest>>;

    /// The files that a pull request changes, at most 300.
    fn changed_files<'a>(&'a self, repo: &'a RepoName, number: u64)
    -> Asking<'a, Vec<ChangedFile>>;

    /// The unified diff of a pull request, its first 2 MiB.
    fn diff<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Excerpt>;

    /// The reviews of a pull request, at most 500.
    fn reviews<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Vec<Review>>;

    /// Submits a review.
    fn submit_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: &'a NewReview,
    ) -> Asking<'a, Review>;

    /// The comments of an issue or a pull request that were written or changed since a time, at most 1,000.
    fn comments<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        since: Option<DateTime<Utc>>,
    ) -> Asking<'a, Vec<Comment>>;

    /// The comments on lines of a pull request, at most 500.
    fn review_comments<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
    ) -> Asking<'a, Vec<ReviewComment>>;

    /// The comments on lines of one review of a pull request, by its id, at most 500.
    fn comments_of_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: u64,
    ) -> Asking<'a, Vec<ReviewComment>>;

    /// Writes a comment on an issue or a pull request.
    fn add_comment<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        body: &'a str,
    ) -> Asking<'a, Comment>;

    /// Replies to a comment on a line, by its id, with a text. Gitea and Forgejo have no such call: the reply is a comment on the pull
    /// request that names the comment.
    fn reply<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        to_comment: (u64, &'a str),
    ) -> Asking<'a, Comment>;

    /// Merges a pull request, if the named commit is still its newest one.
    fn merge<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        how: (MergeMethod, &'a str),
    ) -> Asking<'a, ()>;

    /// Opens a pull request.
    fn open_pull<'a>(&'a self, repo: &'a RepoName, pull: &'a NewPull) -> Asking<'a, PullRequest>;

    /// One issue.
    fn issue<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Issue>;

    /// The issues that an account opened, of those that changed since a time, at most 500.
    fn issues_of<'a>(
        &'a self,
        repo: &'a RepoName,
        account: &'a str,
        since: DateTime<Utc>,
    ) -> Asking<'a, Vec<Issue>>;

    /// Creates an issue.
    fn create_issue<'a>(&'a self, repo: &'a RepoName, issue: &'a NewIssue) -> Asking<'a, Issue>;

    /// The statuses and the check runs of a commit, at most 500 each.
    fn checks<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Checks>;

    /// The newest commit of a branch.
    fn branch_head<'a>(&'a self, repo: &'a RepoName, branch: &'a str) -> Asking<'a, Commit>;

    /// One commit.
    fn commit<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Commit>;

    /// The newest deployments to an environment with their states, at most 10. Gitea and Forgejo have none
    /// (`not_served`). An empty environment asks for all.
    fn deployments<'a>(
        &'a self,
        repo: &'a RepoName,
        environment: &'a str,
    ) -> Asking<'a, Vec<Deployment>>;

    /// The end of the log of the first failed job of a commit, its last 512 KiB. Forgejo serves none (`not_served`).
    fn ci_log<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Excerpt>;
}
