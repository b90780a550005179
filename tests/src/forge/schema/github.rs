//! The answers of GitHub.

use super::Shape::{Flag, List, Nullable, Object, Text, Time, Unused, Whole, Word};
use super::{Shape, has, may};

/// `simple-user`
const USER: Shape = Object(&[
    has("id", Whole),
    has("login", Text),
    has("type", Text),
    has("avatar_url", Text),
    may("email", Nullable(&Text)),
]);

/// `label`, and the objects among the labels of an issue.
const LABEL: Shape = Object(&[has("id", Whole), has("name", Text), has("color", Text)]);

/// `repository`
const REPOSITORY: Shape = Object(&[
    has("id", Whole),
    has("name", Text),
    has("full_name", Text),
    has("owner", USER),
    has("private", Flag),
    has("html_url", Text),
    has("default_branch", Text),
]);

const BRANCH_OF_PULL: Shape = Object(&[
    has("label", Text),
    has("ref", Text),
    has("sha", Text),
    has("repo", Nullable(&REPOSITORY)),
]);

const STATE: Shape = Word(&["open", "closed"]);

/// `pull-request-simple`, of lists.
const PULL_IN_LIST: Shape = Object(&[
    has("id", Whole),
    has("number", Whole),
    has("user", Nullable(&USER)),
    has("title", Text),
    has("body", Nullable(&Text)),
    has("labels", List(&LABEL)),
    has("milestone", Unused),
    has("assignee", Nullable(&USER)),
    may("assignees", Nullable(&List(&USER))),
    may("requested_reviewers", Nullable(&List(&USER))),
    has("state", STATE),
    may("draft", Flag),
    has("merged_at", Nullable(&Time)),
    has("merge_commit_sha", Nullable(&Text)),
    has("base", BRANCH_OF_PULL),
    has("head", BRANCH_OF_PULL),
    has("created_at", Time),
    has("updated_at", Time),
    has("closed_at", Nullable(&Time)),
    has("html_url", Text),
]);

/// `pull-request`
const PULL: Shape = Object(&[
    has("id", Whole),
    has("number", Whole),
    has("user", USER),
    has("title", Text),
    has("body", Nullable(&Text)),
    has("labels", List(&LABEL)),
    has("milestone", Unused),
    has("assignee", Nullable(&USER)),
    may("assignees", Nullable(&List(&USER))),
    may("requested_reviewers", Nullable(&List(&USER))),
    has("state", STATE),
    may("draft", Flag),
    has("mergeable", Nullable(&Flag)),
    has("merged", Flag),
    has("merged_at", Nullable(&Time)),
    has("merge_commit_sha", Nullable(&Text)),
    has("merged_by", Nullable(&USER)),
    has("base", BRANCH_OF_PULL),
    has("head", BRANCH_OF_PULL),
    has("created_at", Time),
    has("updated_at", Time),
    has("closed_at", Nullable(&Time)),
    has("html_url", Text),
]);

/// `diff-entry`
const FILE: Shape = Object(&[
    has("sha", Nullable(&Text)),
    has("filename", Text),
    has(
        "status",
        Word(&["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"]),
    ),
    has("additions", Whole),
    has("deletions", Whole),
    has("changes", Whole),
]);

/// `pull-request-review`
const REVIEW: Shape = Object(&[
    has("id", Whole),
    has("user", Nullable(&USER)),
    has("state", Text),
    has("body", Text),
    has("commit_id", Nullable(&Text)),
    may("submitted_at", Time),
    has("html_url", Text),
]);

/// `issue-comment`
const COMMENT: Shape = Object(&[
    has("id", Whole),
    has("user", Nullable(&USER)),
    may("body", Text),
    has("created_at", Time),
    has("updated_at", Time),
    has("html_url", Text),
]);

/// `pull-request-review-comment`
const REVIEW_COMMENT: Shape = Object(&[
    has("id", Whole),
    has("user", USER),
    has("body", Text),
    has("path", Text),
    may("line", Whole),
    may("position", Whole),
    may("in_reply_to_id", Whole),
    has("pull_request_review_id", Nullable(&Whole)),
    has("created_at", Time),
    has("updated_at", Time),
    has("html_url", Text),
]);

const PULL_OF_ISSUE: Shape = Object(&[
    may("merged_at", Nullable(&Time)),
    has("html_url", Nullable(&Text)),
    has("url", Nullable(&Text)),
    has("diff_url", Nullable(&Text)),
    has("patch_url", Nullable(&Text)),
]);

/// `issue`
const ISSUE: Shape = Object(&[
    has("id", Whole),
    has("number", Whole),
    has("user", Nullable(&USER)),
    has("title", Text),
    may("body", Nullable(&Text)),
    has("labels", List(&LABEL)),
    has("milestone", Unused),
    has("assignee", Nullable(&USER)),
    may("assignees", Nullable(&List(&USER))),
    has("state", Text),
    has("comments", Whole),
    has("created_at", Time),
    has("updated_at", Time),
    has("closed_at", Nullable(&Time)),
    may("pull_request", PULL_OF_ISSUE),
    has("html_url", Text),
]);

/// `simple-commit-status`
const STATUS: Shape = Object(&[
    has("id", Whole),
    has("state", Text),
    has("context", Text),
    has("description", Nullable(&Text)),
    has("target_url", Nullable(&Text)),
    has("created_at", Time),
    has("updated_at", Time),
]);

/// `combined-commit-status`
const COMBINED: Shape = Object(&[
    has("state", Text),
    has("sha", Text),
    has("total_count", Whole),
    has("statuses", List(&STATUS)),
]);

const CONCLUSION: Shape = Word(&[
    "success",
    "failure",
    "neutral",
    "cancelled",
    "skipped",
    "timed_out",
    "action_required",
]);

const OUTPUT: Shape = Object(&[
    has("title", Nullable(&Text)),
    has("summary", Nullable(&Text)),
    has("text", Nullable(&Text)),
]);

/// `check-run`
const CHECK_RUN: Shape = Object(&[
    has("id", Whole),
    has("name", Text),
    has("head_sha", Text),
    has("status", Word(&["queued", "in_progress", "completed", "waiting", "requested", "pending"])),
    has("conclusion", Nullable(&CONCLUSION)),
    has("html_url", Nullable(&Text)),
    has("started_at", Nullable(&Time)),
    has("completed_at", Nullable(&Time)),
    has("output", OUTPUT),
]);

const CHECK_RUNS: Shape = Object(&[has("total_count", Whole), has("check_runs", List(&CHECK_RUN))]);

/// `git-user`
const PERSON: Shape = Object(&[may("name", Text), may("email", Text), may("date", Text)]);

const OF_GIT: Shape = Object(&[
    has("message", Text),
    has("author", Nullable(&PERSON)),
    has("committer", Nullable(&PERSON)),
]);

/// `commit`
const COMMIT: Shape = Object(&[
    has("sha", Text),
    has("url", Text),
    has("html_url", Text),
    has("commit", OF_GIT),
    has("author", Nullable(&USER)),
    has("committer", Nullable(&USER)),
    has("parents", Unused),
]);

/// `branch-with-protection`
const BRANCH: Shape = Object(&[has("name", Text), has("commit", COMMIT), has("protected", Flag)]);

/// `workflow-run`
const RUN: Shape = Object(&[
    has("id", Whole),
    may("name", Nullable(&Text)),
    has("display_title", Text),
    has("head_sha", Text),
    has("status", Nullable(&Text)),
    has("conclusion", Nullable(&Text)),
]);

/// `job`
const JOB: Shape = Object(&[
    has("id", Whole),
    has("run_id", Whole),
    has("name", Text),
    has("head_sha", Text),
    has("status", Word(&["queued", "in_progress", "completed", "waiting", "requested", "pending"])),
    has("conclusion", Nullable(&CONCLUSION)),
]);

const RUNS: Shape = Object(&[has("total_count", Whole), has("workflow_runs", List(&RUN))]);

const JOBS: Shape = Object(&[has("total_count", Whole), has("jobs", List(&JOB))]);

/// `deployment`
const DEPLOYMENT: Shape = Object(&[
    has("id", Whole),
    has("sha", Text),
    has("ref", Text),
    has("task", Text),
    has("environment", Text),
    has("created_at", Time),
    has("updated_at", Time),
]);

/// `deployment-status`
const DEPLOYMENT_STATUS: Shape = Object(&[
    has("id", Whole),
    has(
        "state",
        Word(&["error", "failure", "inactive", "pending", "success", "queued", "in_progress"]),
    ),
    has("description", Text),
    has("created_at", Time),
    has("updated_at", Time),
]);

/// `pull-request-merge-result`
const MERGED: Shape = Object(&[has("sha", Text), has("merged", Flag), has("message", Text)]);

/// The schema of a route's answer; none where the answer is no JSON.
pub(super) fn of(route: &str) -> Option<&'static Shape> {
    Some(match route {
        "current_user" => &USER,
        "pull" | "open_pull" => &PULL,
        "pulls_since" => &List(&PULL_IN_LIST),
        "changed_files" => &List(&FILE),
        "submit_review" => &REVIEW,
        "reviews" => &List(&REVIEW),
        "merge" => &MERGED,
        "reply" => &REVIEW_COMMENT,
        "review_comments" => &List(&REVIEW_COMMENT),
        "issue" | "create_issue" => &ISSUE,
        "issues_of" => &List(&ISSUE),
        "add_comment" => &COMMENT,
        "comments" => &List(&COMMENT),
        "labels" => &List(&LABEL),
        "statuses" => &COMBINED,
        "check_runs" => &CHECK_RUNS,
        "commit" => &COMMIT,
        "commits_since" => &List(&COMMIT),
        "branch_head" => &BRANCH,
        "ci_runs" => &RUNS,
        "ci_jobs" => &JOBS,
        "deployments" => &List(&DEPLOYMENT),
        "deployment_statuses" => &List(&DEPLOYMENT_STATUS),
        _ => return None,
    })
}
