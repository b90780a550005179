//! Answers as forges write them: the fields that Gitea, Forgejo and GitHub share, and those that one of them has.

use crate::api::Page;
use crate::types::{
    ChangedFile, CheckRun, Comment, Commit, Issue, PullRequest, PullState, Review, ReviewComment,
    ReviewState,
};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use surety_common::domain::toolchain::ChecksState;

/// An account; a deleted one is null.
#[derive(Debug, Deserialize)]
pub(crate) struct RawUser {
    pub(crate) login: String,
}

fn login(user: Option<RawUser>) -> String {
    user.map(|user| user.login).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawRef {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// Null once a fork was deleted.
    repo: Option<RawRefRepo>,
}

#[derive(Debug, Deserialize)]
struct RawRefRepo {
    full_name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawPull {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    user: Option<RawUser>,
    head: RawRef,
    base: RawRef,
    merged_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
    html_url: String,
}

impl From<RawPull> for PullRequest {
    fn from(raw: RawPull) -> Self {
        let state = match (raw.merged_at, raw.state.as_str()) {
            (Some(_), _) => PullState::Merged,
            (None, "open") => PullState::Open,
            (None, _) => PullState::Closed,
        };
        Self {
            number: raw.number,
            title: raw.title,
            body: raw.body.unwrap_or_default(),
            state,
            author: login(raw.user),
            head_commit: raw.head.sha,
            head_branch: raw.head.branch,
            head_repo: raw.head.repo.map(|repo| repo.full_name),
            base_branch: raw.base.branch,
            merged_at: raw.merged_at,
            created_at: raw.created_at,
            updated_at: raw.updated_at,
            address: raw.html_url,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawFile {
    filename: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    additions: u64,
    #[serde(default)]
    deletions: u64,
}

impl From<RawFile> for ChangedFile {
    fn from(raw: RawFile) -> Self {
        let RawFile { filename: path, status, additions, deletions } = raw;
        Self { path, status, additions, deletions }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawReview {
    pub(crate) id: u64,
    user: Option<RawUser>,
    state: String,
    body: Option<String>,
    commit_id: Option<String>,
    submitted_at: Option<DateTime<Utc>>,
    #[serde(default)]
    dismissed: bool,
    html_url: Option<String>,
}

impl From<RawReview> for Review {
    fn from(raw: RawReview) -> Self {
        let state = match raw.state.as_str() {
            "DISMISSED" => ReviewState::Dismissed,
            "APPROVED" | "CHANGES_REQUESTED" | "REQUEST_CHANGES" if raw.dismissed => {
                ReviewState::Dismissed
            }
            "APPROVED" => ReviewState::Approved,
            "CHANGES_REQUESTED" | "REQUEST_CHANGES" => ReviewState::ChangesRequested,
            "COMMENTED" | "COMMENT" => ReviewState::Commented,
            // `PENDING`, and `REQUEST_REVIEW` of Gitea, which is no review.
            _ => ReviewState::Pending,
        };
        Self {
            id: raw.id,
            author: login(raw.user),
            state,
            body: raw.body.unwrap_or_default(),
            commit: raw.commit_id.unwrap_or_default(),
            submitted_at: raw.submitted_at,
            address: raw.html_url.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawComment {
    id: u64,
    user: Option<RawUser>,
    body: Option<String>,
    created_at: DateTime<Utc>,
    html_url: Option<String>,
    path: Option<String>,
    line: Option<u64>,
    position: Option<u64>,
    in_reply_to_id: Option<u64>,
    pull_request_review_id: Option<u64>,
}

impl From<RawComment> for Comment {
    fn from(raw: RawComment) -> Self {
        Self {
            id: raw.id,
            author: login(raw.user),
            body: raw.body.unwrap_or_default(),
            created_at: raw.created_at,
            address: raw.html_url.unwrap_or_default(),
        }
    }
}

impl From<RawComment> for ReviewComment {
    fn from(mut raw: RawComment) -> Self {
        let (path, reply_to) = (raw.path.take().unwrap_or_default(), raw.in_reply_to_id);
        // The line is `line` of GitHub and `position` of Gitea, where that is a line of the file.
        let line = raw.line.or(raw.position).filter(|line| *line > 0);
        let review = raw.pull_request_review_id;
        Self { comment: raw.into(), path, line, reply_to, review }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawLabel {
    pub(crate) id: u64,
    pub(crate) name: String,
}

/// A label of an issue: GitHub describes its name alone, too, and a label without one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawIssueLabel {
    Name(String),
    Label { name: Option<String> },
}

impl RawIssueLabel {
    fn name(self) -> Option<String> {
        match self {
            Self::Name(name) => Some(name),
            Self::Label { name } => name,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawIssue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    user: Option<RawUser>,
    assignees: Option<Vec<RawUser>>,
    labels: Option<Vec<RawIssueLabel>>,
    pull_request: Option<serde::de::IgnoredAny>,
    created_at: DateTime<Utc>,
    html_url: String,
}

impl From<RawIssue> for Issue {
    fn from(raw: RawIssue) -> Self {
        let assignees = raw.assignees.unwrap_or_default();
        let labels = raw.labels.unwrap_or_default();
        Self {
            number: raw.number,
            title: raw.title,
            body: raw.body.unwrap_or_default(),
            is_open: raw.state == "open",
            author: login(raw.user),
            assignees: assignees.into_iter().map(|user| user.login).collect(),
            labels: labels.into_iter().filter_map(RawIssueLabel::name).collect(),
            is_pull_request: raw.pull_request.is_some(),
            created_at: raw.created_at,
            address: raw.html_url,
        }
    }
}

/// A status of a commit: its state is `status` of Gitea and `state` of GitHub.
#[derive(Debug, Deserialize)]
pub(crate) struct RawStatus {
    context: Option<String>,
    #[serde(alias = "status")]
    state: String,
    description: Option<String>,
    target_url: Option<String>,
}

impl From<RawStatus> for CheckRun {
    fn from(raw: RawStatus) -> Self {
        let state = match raw.state.as_str() {
            "success" | "skipped" | "warning" => ChecksState::Passing,
            "pending" | "" => ChecksState::Pending,
            _ => ChecksState::Failing,
        };
        Self {
            name: raw.context.unwrap_or_default(),
            state,
            description: raw.description.unwrap_or_default(),
            address: raw.target_url.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawCombined {
    statuses: Option<Vec<RawStatus>>,
    total_count: Option<usize>,
}

/// A commit with the date of its committer. GitHub's description lets the committer be null, and its date be missing:
/// then the author's date stands for it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawDatedCommit")]
pub(crate) struct RawCommit(Commit);

#[derive(Debug, Deserialize)]
struct RawDatedCommit {
    sha: String,
    commit: RawCommitText,
}

#[derive(Debug, Deserialize)]
struct RawCommitText {
    message: String,
    author: Option<RawPerson>,
    committer: Option<RawPerson>,
}

#[derive(Debug, Deserialize)]
struct RawPerson {
    date: Option<DateTime<Utc>>,
}

impl TryFrom<RawDatedCommit> for RawCommit {
    type Error = &'static str;

    fn try_from(raw: RawDatedCommit) -> Result<Self, Self::Error> {
        let RawCommitText { message, author, committer } = raw.commit;
        let date = |person: Option<RawPerson>| person.and_then(|it| it.date);
        let committed_at = date(committer).or_else(|| date(author)).ok_or("no date of a commit")?;
        Ok(Self(Commit { commit: raw.sha, message, committed_at }))
    }
}

impl From<RawCommit> for Commit {
    fn from(raw: RawCommit) -> Self {
        raw.0
    }
}

/// The runs of a commit, and the jobs of a run; Gitea has the same calls as GitHub.
#[derive(Debug, Deserialize)]
pub(crate) struct RawRuns {
    /// Null to Gitea where there are none.
    workflow_runs: Option<Vec<RawRun>>,
    total_count: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawJobs {
    jobs: Option<Vec<RawRun>>,
    total_count: Option<usize>,
}

/// The members of an answer that says how many there are.
macro_rules! page {
    ($page:ty, $member:ty, $field:ident) => {
        impl Page for $page {
            type Member = $member;

            fn total(&self) -> Option<usize> {
                self.total_count
            }

            fn members(self) -> Vec<$member> {
                self.$field.unwrap_or_default()
            }
        }
    };
}

page!(RawCombined, RawStatus, statuses);
page!(RawRuns, RawRun, workflow_runs);
page!(RawJobs, RawRun, jobs);

#[derive(Debug, Deserialize)]
pub(crate) struct RawRun {
    pub(crate) id: u64,
    #[serde(default)]
    pub(crate) conclusion: Option<String>,
}

impl RawRun {
    pub(crate) fn is_failed(&self) -> bool {
        matches!(
            self.conclusion.as_deref(),
            Some("failure" | "timed_out" | "startup_failure" | "cancelled")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_result_of_a_review_is_read_in_both_spellings() {
        for (state, dismissed, expected) in [
            ("APPROVED", false, ReviewState::Approved),
            ("CHANGES_REQUESTED", false, ReviewState::ChangesRequested),
            ("REQUEST_CHANGES", false, ReviewState::ChangesRequested),
            ("REQUEST_CHANGES", true, ReviewState::Dismissed),
            ("COMMENT", false, ReviewState::Commented),
            ("COMMENTED", false, ReviewState::Commented),
            ("REQUEST_REVIEW", false, ReviewState::Pending),
            ("PENDING", false, ReviewState::Pending),
        ] {
            let raw = json!({"id": 1, "user": null, "state": state, "body": null, "commit_id": null,
                "submitted_at": "2026-01-02T03:04:05Z", "dismissed": dismissed});
            let raw: RawReview = serde_json::from_value(raw).expect("a review");
            let review = Review::from(raw);
            assert_eq!(review.state, expected, "{state}");
            assert_eq!(review.fact().is_none(), expected == ReviewState::Pending);
        }
    }

    #[test]
    fn a_commit_without_a_committer_has_the_date_of_its_author() {
        let read = |author: Value, committer: Value| {
            let text = json!({"message": "x", "author": author, "committer": committer});
            let raw = json!({"sha": "0a", "commit": text});
            serde_json::from_value::<RawCommit>(raw).map(|raw| Commit::from(raw).committed_at)
        };
        let (early, late) = ("2026-01-02T03:04:05Z", "2026-01-03T03:04:05Z");
        let date = |text: &str| json!({"name": "x", "date": text});
        let expected = |text: &str| text.parse::<DateTime<Utc>>().expect("a time");
        assert_eq!(read(date(early), date(late)).expect("a commit"), expected(late));
        assert_eq!(read(date(early), Value::Null).expect("a commit"), expected(early));
        assert_eq!(read(date(early), json!({})).expect("a commit"), expected(early));
        assert!(read(Value::Null, Value::Null).is_err());
    }

    #[test]
    fn a_pull_request_names_the_repository_of_its_branch_unless_that_is_gone() {
        for (repo, expected) in [
            (json!({"full_name": "team/app"}), Some("team/app")),
            (json!({"full_name": "dora/app"}), Some("dora/app")),
            (Value::Null, None),
        ] {
            let of = |repo: Value| json!({"ref": "main", "sha": "0a", "repo": repo});
            let raw = json!({"number": 7, "title": "x", "body": null, "state": "open", "user": null,
                "head": of(repo), "base": of(json!({"full_name": "team/app"})), "merged_at": null,
                "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
                "html_url": "https://forge.example/7"});
            let raw: RawPull = serde_json::from_value(raw).expect("a pull request");
            assert_eq!(PullRequest::from(raw).head_repo.as_deref(), expected);
        }
    }

    #[test]
    fn a_label_of_an_issue_is_an_object_or_its_name() {
        let raw = json!({"number": 7, "title": "x", "body": null, "state": "open", "user": null, "assignees": [],
            "labels": ["bug", {"id": 4, "name": "surety"}, {"id": 5}], "created_at": "2026-01-02T03:04:05Z",
            "html_url": "https://forge.example/7"});
        let raw: RawIssue = serde_json::from_value(raw).expect("an issue");
        assert_eq!(Issue::from(raw).labels, ["bug", "surety"]);
    }

    #[test]
    fn a_status_is_read_in_both_spellings_and_an_unknown_word_fails() {
        for (raw, expected) in [
            (json!({"context": "a", "status": "success"}), ChecksState::Passing),
            (json!({"context": "a", "state": "pending"}), ChecksState::Pending),
            (json!({"context": "a", "state": "error"}), ChecksState::Failing),
            (json!({"context": "a", "status": "failure"}), ChecksState::Failing),
            (json!({"context": "a", "status": "exploded"}), ChecksState::Failing),
        ] {
            let raw: RawStatus = serde_json::from_value(raw).expect("a status");
            assert_eq!(CheckRun::from(raw).state, expected);
        }
    }
}
