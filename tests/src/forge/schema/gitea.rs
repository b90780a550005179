//! The answers of Gitea and Forgejo. Every field is always there; those that are pointers or lists to Gitea can be
//! null.

use super::Shape::{Flag, List, Nullable, Object, Text, Time, Unused, Whole, Word};
use super::{Shape, has, may};

/// `User`
const USER: Shape = Object(&[
    has("id", Whole),
    has("login", Text),
    has("full_name", Text),
    has("email", Text),
    has("avatar_url", Text),
]);

/// `Label`
const LABEL: Shape = Object(&[has("id", Whole), has("name", Text), has("color", Text)]);

/// `Repository`
const REPOSITORY: Shape = Object(&[
    has("id", Whole),
    has("name", Text),
    has("full_name", Text),
    has("owner", Nullable(&USER)),
    has("private", Flag),
    has("html_url", Text),
    has("default_branch", Text),
]);

/// `PRBranchInfo`
const BRANCH_OF_PULL: Shape = Object(&[
    has("label", Text),
    has("ref", Text),
    has("sha", Text),
    has("repo", Nullable(&REPOSITORY)),
]);

/// `StateType`
const STATE: Shape = Word(&["open", "closed"]);

/// `PullRequest`
const PULL: Shape = Object(&[
    has("id", Whole),
    has("number", Whole),
    has("user", Nullable(&USER)),
    has("title", Text),
    has("body", Text),
    has("labels", Nullable(&List(&LABEL))),
    has("milestone", Unused),
    has("assignee", Nullable(&USER)),
    has("assignees", Nullable(&List(&USER))),
    has("requested_reviewers", Nullable(&List(&USER))),
    has("state", STATE),
    has("draft", Flag),
    has("mergeable", Flag),
    has("merged", Flag),
    has("merged_at", Nullable(&Time)),
    has("merge_commit_sha", Nullable(&Text)),
    has("merged_by", Nullable(&USER)),
    has("base", Nullable(&BRANCH_OF_PULL)),
    has("head", Nullable(&BRANCH_OF_PULL)),
    has("created_at", Nullable(&Time)),
    has("updated_at", Nullable(&Time)),
    has("closed_at", Nullable(&Time)),
    has("html_url", Text),
]);

/// `ChangedFile`
const FILE: Shape = Object(&[
    has("filename", Text),
    has("status", Text),
    has("additions", Whole),
    has("deletions", Whole),
    has("changes", Whole),
]);

/// `PullReview`
const REVIEW: Shape = Object(&[
    has("id", Whole),
    has("user", Nullable(&USER)),
    has(
        "state",
        Word(&["APPROVED", "PENDING", "COMMENT", "REQUEST_CHANGES", "REQUEST_REVIEW", ""]),
    ),
    has("body", Text),
    has("commit_id", Text),
    has("stale", Flag),
    has("official", Flag),
    has("dismissed", Flag),
    has("submitted_at", Time),
    has("html_url", Text),
]);

/// `Comment`
const COMMENT: Shape = Object(&[
    has("id", Whole),
    has("user", Nullable(&USER)),
    has("body", Text),
    has("created_at", Time),
    has("updated_at", Time),
    has("html_url", Text),
]);

/// `PullReviewComment`
const REVIEW_COMMENT: Shape = Object(&[
    has("id", Whole),
    has("user", Nullable(&USER)),
    has("body", Text),
    has("path", Text),
    has("position", Whole),
    has("pull_request_review_id", Whole),
    has("created_at", Time),
    has("updated_at", Time),
    has("html_url", Text),
]);

/// `PullRequestMeta`
const PULL_OF_ISSUE: Shape = Object(&[has("merged", Flag), has("merged_at", Nullable(&Time))]);

/// `Issue`
const ISSUE: Shape = Object(&[
    has("id", Whole),
    has("number", Whole),
    has("user", Nullable(&USER)),
    has("title", Text),
    has("body", Text),
    has("labels", Nullable(&List(&LABEL))),
    has("milestone", Unused),
    has("assignee", Nullable(&USER)),
    has("assignees", Nullable(&List(&USER))),
    has("state", STATE),
    has("comments", Whole),
    has("created_at", Time),
    has("updated_at", Time),
    has("closed_at", Nullable(&Time)),
    has("pull_request", Nullable(&PULL_OF_ISSUE)),
    has("html_url", Text),
]);

/// `CommitStatusState`
const BUILD: Shape = Word(&["pending", "success", "error", "failure", "warning", "skipped"]);

/// `CommitStatus`
const STATUS: Shape = Object(&[
    has("id", Whole),
    has("status", BUILD),
    has("context", Text),
    has("description", Text),
    has("target_url", Text),
    has("created_at", Time),
    has("updated_at", Time),
]);

/// `CombinedStatus`
const COMBINED: Shape = Object(&[
    has("state", BUILD),
    has("sha", Text),
    has("total_count", Whole),
    has("statuses", Nullable(&List(&STATUS))),
]);

/// `CommitUser`
const PERSON: Shape = Object(&[has("name", Text), has("email", Text), has("date", Text)]);

/// `RepoCommit`
const OF_GIT: Shape = Object(&[
    has("message", Text),
    has("author", Nullable(&PERSON)),
    has("committer", Nullable(&PERSON)),
]);

/// `Commit`
const COMMIT: Shape = Object(&[
    has("sha", Text),
    has("url", Text),
    has("html_url", Text),
    has("commit", Nullable(&OF_GIT)),
    has("author", Nullable(&USER)),
    has("committer", Nullable(&USER)),
    has("parents", Unused),
]);

/// `PayloadUser`
const PAYLOAD_USER: Shape = Object(&[has("name", Text), has("email", Text), has("username", Text)]);

/// `PayloadCommit`
const HEAD: Shape = Object(&[
    has("id", Text),
    has("message", Text),
    has("url", Text),
    has("author", Nullable(&PAYLOAD_USER)),
    has("timestamp", Time),
]);

/// `Branch`
const BRANCH: Shape =
    Object(&[has("name", Text), has("commit", Nullable(&HEAD)), has("protected", Flag)]);

/// `ActionWorkflowRun`
const RUN: Shape = Object(&[
    has("id", Whole),
    has("display_title", Text),
    has("head_sha", Text),
    has("status", Text),
    may("conclusion", Text),
]);

/// `ActionWorkflowJob`
const JOB: Shape = Object(&[
    has("id", Whole),
    has("run_id", Whole),
    has("name", Text),
    has("head_sha", Text),
    has("status", Text),
    may("conclusion", Text),
]);

/// `ActionWorkflowRunsResponse`
const RUNS: Shape = Object(&[has("total_count", Whole), has("workflow_runs", List(&RUN))]);

/// `ActionWorkflowJobsResponse`
const JOBS: Shape = Object(&[has("total_count", Whole), has("jobs", List(&JOB))]);

/// The schema of a route's answer; none where the answer is no JSON.
pub(super) fn of(route: &str) -> Option<&'static Shape> {
    Some(match route {
        "current_user" => &USER,
        "pull" | "open_pull" => &PULL,
        "pulls_since" => &List(&PULL),
        "changed_files" => &List(&FILE),
        "submit_review" => &REVIEW,
        "reviews" => &List(&REVIEW),
        "review_comments" => &List(&REVIEW_COMMENT),
        "issue" | "create_issue" => &ISSUE,
        "issues_of" => &List(&ISSUE),
        "add_comment" => &COMMENT,
        "comments" => &List(&COMMENT),
        "labels" => &List(&LABEL),
        "statuses" => &COMBINED,
        "commit" => &COMMIT,
        "commits_since" => &List(&COMMIT),
        "branch_head" => &BRANCH,
        "ci_runs" => &RUNS,
        "ci_jobs" => &JOBS,
        _ => return None,
    })
}
