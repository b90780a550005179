//! Writes that happen once, whatever is lost in between.
//!
//! ```text
//!   look for the mark in what the account itself wrote --found--> the earlier one
//!                          | not found
//!                          v
//!   write --lost answer--> look again --found--> it was written
//!                                     `--------> the error; a later call looks first
//! ```
//!
//! The mark is a hidden HTML comment with an id ([`marker`]): that of the run, or of the tool's call. Marks of other
//! accounts do not count, because every account can copy one.

use crate::error::{ForgeError, ForgeErrorCode};
use crate::forge::Forge;
use crate::repo::RepoName;
use crate::types::{
    Comment, Issue, MergeMethod, NewIssue, NewPull, NewReview, PullRequest, PullState, Review,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use surety_common::domain::toolchain::marker;
use uuid::Uuid;

/// How much the clocks of a forge and of this process may differ.
const SKEW: TimeDelta = TimeDelta::hours(1);

/// What makes a write one among others: the mark, and since when it can be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    marker: String,
    since: DateTime<Utc>,
}

impl Marked {
    /// The mark of a run, or of a call of a tool, that began at a time.
    #[must_use]
    pub fn of(id: Uuid, began_at: DateTime<Utc>) -> Self {
        Self::with(marker(id), began_at)
    }

    /// A mark that is known already. A text that has it does not get it again.
    #[must_use]
    pub fn with(marker: String, began_at: DateTime<Utc>) -> Self {
        Self { marker, since: began_at - SKEW }
    }

    /// A text with the mark at its end.
    fn mark(&self, body: &str) -> String {
        if body.contains(&self.marker) {
            return body.to_owned();
        }
        format!("{body}\n\n{}", self.marker)
    }

    fn is_on(&self, author: &str, account: &str, text: &str) -> bool {
        author.eq_ignore_ascii_case(account) && text.contains(&self.marker)
    }
}

/// What was written, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// It.
    pub value: T,
    /// Whether this call wrote it, and no earlier one.
    pub is_new: bool,
}

/// Looks, writes, and looks again where the answer was lost.
async fn once<'a, T>(
    look: impl Fn() -> BoxFuture<'a, Result<Option<T>, ForgeError>> + Send,
    write: BoxFuture<'a, Result<T, ForgeError>>,
) -> Result<Written<T>, ForgeError> {
    if let Some(value) = look().await? {
        return Ok(Written { value, is_new: false });
    }
    let error = match write.await {
        Ok(value) => return Ok(Written { value, is_new: true }),
        Err(error) => error,
    };
    // A conflict may be that of a write whose answer was lost earlier.
    let may_be_written = error.is_unsure
        || matches!(error.code, ForgeErrorCode::Conflict | ForgeErrorCode::Unprocessable);
    if may_be_written && let Ok(Some(value)) = look().await {
        return Ok(Written { value, is_new: true });
    }
    Err(error)
}

/// Writes a comment on an issue or a pull request, unless the account's own comment with the mark is there.
///
/// # Errors
/// Those of [`Forge`]. After one the comment may be there; the same call finds it.
pub async fn comment_once(
    forge: &dyn Forge,
    repo: &RepoName,
    number: u64,
    (marked, body): (&Marked, &str),
) -> Result<Written<Comment>, ForgeError> {
    let account = forge.current_user().await?;
    let account = account.as_str();
    let body = marked.mark(body);
    let look = || -> BoxFuture<'_, Result<Option<Comment>, ForgeError>> {
        Box::pin(async move {
            let comments = forge.comments(repo, number, Some(marked.since)).await?;
            let is_it = |it: &Comment| marked.is_on(&it.author, account, &it.body);
            Ok(comments.into_iter().find(is_it))
        })
    };
    once(look, forge.add_comment(repo, number, &body)).await
}

/// Replies to a comment on a line, unless the account's own reply with the mark is there.
///
/// # Errors
/// As [`comment_once`].
pub async fn reply_once(
    forge: &dyn Forge,
    repo: &RepoName,
    (number, comment): (u64, u64),
    (marked, body): (&Marked, &str),
) -> Result<Written<Comment>, ForgeError> {
    let account = forge.current_user().await?;
    let account = account.as_str();
    let body = marked.mark(body);
    let look = || -> BoxFuture<'_, Result<Option<Comment>, ForgeError>> {
        Box::pin(async move {
            let is_it = |it: &Comment| marked.is_on(&it.author, account, &it.body);
            let comments = forge.comments(repo, number, Some(marked.since)).await?;
            if let Some(found) = comments.into_iter().find(is_it) {
                return Ok(Some(found));
            }
            let on_lines = forge.review_comments(repo, number).await?;
            Ok(on_lines.into_iter().map(|it| it.comment).find(is_it))
        })
    };
    once(look, forge.reply(repo, number, (comment, &body))).await
}

/// Submits a review, unless the account's own review with the mark is there.
///
/// # Errors
/// As [`comment_once`].
pub async fn review_once(
    forge: &dyn Forge,
    repo: &RepoName,
    number: u64,
    (marked, review): (&Marked, &NewReview),
) -> Result<Written<Review>, ForgeError> {
    let account = forge.current_user().await?;
    let account = account.as_str();
    let review = NewReview { body: marked.mark(&review.body), ..review.clone() };
    let look = || -> BoxFuture<'_, Result<Option<Review>, ForgeError>> {
        Box::pin(async move {
            let reviews = forge.reviews(repo, number).await?;
            let is_it = |it: &Review| marked.is_on(&it.author, account, &it.body);
            Ok(reviews.into_iter().find(is_it))
        })
    };
    once(look, forge.submit_review(repo, number, &review)).await
}

/// Creates an issue, unless the account's own issue with the mark is there.
///
/// # Errors
/// As [`comment_once`].
pub async fn issue_once(
    forge: &dyn Forge,
    repo: &RepoName,
    (marked, issue): (&Marked, &NewIssue),
) -> Result<Written<Issue>, ForgeError> {
    let account = forge.current_user().await?;
    let account = account.as_str();
    let issue = NewIssue { body: marked.mark(&issue.body), ..issue.clone() };
    let look = || -> BoxFuture<'_, Result<Option<Issue>, ForgeError>> {
        Box::pin(async move {
            let issues = forge.issues_of(repo, account, marked.since).await?;
            let is_it = |it: &Issue| marked.is_on(&it.author, account, &it.body);
            Ok(issues.into_iter().find(is_it))
        })
    };
    once(look, forge.create_issue(repo, &issue)).await
}

/// Opens a pull request, unless the account's own pull request with the mark is there, or an open one of the same
/// branches.
///
/// # Errors
/// As [`comment_once`].
pub async fn open_pull_once(
    forge: &dyn Forge,
    repo: &RepoName,
    (marked, pull): (&Marked, &NewPull),
) -> Result<Written<PullRequest>, ForgeError> {
    let account = forge.current_user().await?;
    let account = account.as_str();
    let marked_pull = NewPull { body: marked.mark(&pull.body), ..pull.clone() };
    let look = || -> BoxFuture<'_, Result<Option<PullRequest>, ForgeError>> {
        Box::pin(async move {
            let pulls = forge.pulls_since(repo, marked.since).await?;
            let is_it = |it: &PullRequest| {
                let same = it.head_branch == pull.head && it.base_branch == pull.base;
                let is_open =
                    it.state == PullState::Open && it.author.eq_ignore_ascii_case(account);
                (same && is_open) || marked.is_on(&it.author, account, &it.body)
            };
            Ok(pulls.into_iter().find(is_it))
        })
    };
    once(look, forge.open_pull(repo, &marked_pull)).await
}

/// Merges a pull request, unless it is merged.
///
/// # Errors
/// As [`comment_once`]. `conflict` also where the pull request is closed.
pub async fn merge_once(
    forge: &dyn Forge,
    repo: &RepoName,
    number: u64,
    method: MergeMethod,
) -> Result<Written<PullRequest>, ForgeError> {
    let merged = |pull: &PullRequest| pull.state == PullState::Merged;
    let before = forge.pull(repo, number).await?;
    if merged(&before) {
        return Ok(Written { value: before, is_new: false });
    }
    if before.state == PullState::Closed {
        let message = "the pull request is closed and not merged; open another";
        let code = ForgeErrorCode::Conflict;
        return Err(ForgeError::new(code, forge.name(), "merge", message));
    }
    let sent = forge.merge(repo, number, (method, &before.head_commit)).await;
    let after = forge.pull(repo, number).await;
    match (sent, after) {
        (_, Ok(after)) if merged(&after) => Ok(Written { value: after, is_new: true }),
        (Err(error), _) | (Ok(()), Err(error)) => Err(error),
        (Ok(()), Ok(_)) => {
            let message =
                "the forge accepted the merge and does not show it yet; read the pull request";
            let error = ForgeError::new(ForgeErrorCode::BadAnswer, forge.name(), "merge", message);
            Err(error.unsure(true))
        }
    }
}
