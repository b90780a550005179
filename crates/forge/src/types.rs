//! What forges say, in one form for all of them. Texts are the forge's: data, never instructions.

use chrono::{DateTime, Utc};
use serde::Serialize;
use surety_common::domain::toolchain::{ChecksState, PullFact, ReviewFact};

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PullState {
    /// It is open.
    Open,
    /// It was merged.
    Merged,
    /// It was closed and not merged.
    Closed,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its state.
    pub state: PullState,
    /// The account that opened it.
    pub author: String,
    /// The newest commit of its branch, in hexadecimal.
    pub head_commit: String,
    /// Its branch.
    pub head_branch: String,
    /// The repository of its branch, as owner/name: another one for a fork; none where it is gone.
    pub head_repo: Option<String>,
    /// The branch that it changes.
    pub base_branch: String,
    /// When it was merged.
    pub merged_at: Option<DateTime<Utc>>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// Its address.
    pub address: String,
}

impl PullRequest {
    /// What a question about an issue needs of it.
    #[must_use]
    pub fn fact(&self) -> PullFact {
        PullFact {
            text: format!("{}\n{}", self.title, self.body),
            branch: self.head_branch.clone(),
            is_alive: self.state != PullState::Closed,
        }
    }
}

/// A file that a pull request changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// How it changed, as the forge names it: added, modified, removed, renamed.
    pub status: String,
    /// Added lines.
    pub additions: u64,
    /// Removed lines.
    pub deletions: u64,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    /// The text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Whether the text has more.
    pub is_cut: bool,
}

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// It approves.
    Approved,
    /// It asks for changes.
    ChangesRequested,
    /// It has comments only.
    Commented,
    /// It was dismissed after it had a result.
    Dismissed,
    /// It was not submitted yet, or it only asks for a review.
    Pending,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Its number on the forge.
    pub id: u64,
    /// The account that wrote it.
    pub author: String,
    /// Its result.
    pub state: ReviewState,
    /// Its text.
    pub body: String,
    /// The commit that it is about; empty where the forge names none.
    pub commit: String,
    /// When it was submitted; none for one that was not.
    pub submitted_at: Option<DateTime<Utc>>,
    /// Its address.
    pub address: String,
}

impl Review {
    /// What a question needs of it; none before it is submitted.
    #[must_use]
    pub fn fact(&self) -> Option<ReviewFact> {
        let is_submitted = self.state != ReviewState::Pending;
        Some(ReviewFact {
            author: self.author.clone(),
            at: self.submitted_at.filter(|_| is_submitted)?,
            commit: self.commit.clone(),
            is_result: self.state != ReviewState::Commented,
            asks_for_changes: self.state == ReviewState::ChangesRequested,
        })
    }
}

/// What a submitted review says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewEvent {
    /// It approves.
    Approve,
    /// It asks for changes.
    RequestChanges,
    /// It comments.
    Comment,
}

impl ReviewEvent {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Approve, Self::RequestChanges, Self::Comment];

    /// The word in steps and arguments.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::RequestChanges => "REQUEST_CHANGES",
            Self::Comment => "COMMENT",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

/// A review to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReview {
    /// The result.
    pub event: ReviewEvent,
    /// The text; not blank, except for an approval.
    pub body: String,
    /// The commit that was reviewed; none for the newest.
    pub commit: Option<String>,
}

/// A comment on an issue or a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comment {
    /// Its number on the forge.
    pub id: u64,
    /// The account that wrote it.
    pub author: String,
    /// Its text.
    pub body: String,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// Its address.
    pub address: String,
}

/// A comment on a line of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReviewComment {
    /// The comment.
    #[serde(flatten)]
    pub comment: Comment,
    /// The file.
    pub path: String,
    /// The line, where the forge names it.
    pub line: Option<u64>,
    /// The comment that it replies to.
    pub reply_to: Option<u64>,
    /// The review that it belongs to.
    pub review: Option<u64>,
}

/// How a pull request is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMethod {
    /// By a merge commit.
    Merge,
    /// By one commit with all changes.
    Squash,
    /// By its commits upon the base.
    Rebase,
}

impl MergeMethod {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Merge, Self::Squash, Self::Rebase];

    /// The word in arguments, and of both APIs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

/// A pull request to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPull {
    /// Its title; not blank.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its branch.
    pub head: String,
    /// The branch that it changes.
    pub base: String,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Whether it is open.
    pub is_open: bool,
    /// The account that opened it.
    pub author: String,
    /// The accounts that it is assigned to.
    pub assignees: Vec<String>,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// Whether it is a pull request.
    pub is_pull_request: bool,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Its address.
    pub address: String,
}

/// An issue to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    /// Its title; not blank.
    pub title: String,
    /// Its text.
    pub body: String,
    /// The accounts that it is assigned to.
    pub assignees: Vec<String>,
    /// The names of its labels. One that the repository lacks is left out by Gitea and Forgejo, and made by GitHub.
    pub labels: Vec<String>,
}

/// The checks of a commit: statuses, and check runs of GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// All together.
    #[serde(serialize_with = "as_word")]
    pub state: ChecksState,
    /// Each of them.
    pub runs: Vec<CheckRun>,
}

/// A status or a check run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Its state.
    #[serde(serialize_with = "as_word")]
    pub state: ChecksState,
    /// What it says.
    pub description: String,
    /// Its address.
    pub address: String,
}

fn as_word<S: serde::Serializer>(state: &ChecksState, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.as_str())
}

impl Checks {
    /// The state of all of these together.
    #[must_use]
    pub fn of(runs: Vec<CheckRun>) -> Self {
        let has = |state: ChecksState| runs.iter().any(|run| run.state == state);
        let state = if has(ChecksState::Failing) {
            ChecksState::Failing
        } else if has(ChecksState::Pending) {
            ChecksState::Pending
        } else if runs.is_empty() {
            ChecksState::None
        } else {
            ChecksState::Passing
        };
        Self { state, runs }
    }
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Commit {
    /// It in hexadecimal.
    pub commit: String,
    /// Its message.
    pub message: String,
    /// The date of its committer, which the committer's machine chose.
    pub committed_at: DateTime<Utc>,
}

/// A deployment with its newest state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deployment {
    /// Its number on the forge.
    pub id: u64,
    /// The commit.
    pub commit: String,
    /// The environment.
    pub environment: String,
    /// The newest state, as the forge names it; empty before there is one.
    pub state: String,
    /// When it got that state.
    pub state_at: DateTime<Utc>,
}
