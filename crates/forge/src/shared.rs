//! Calls that Gitea, Forgejo and GitHub have in common.

use crate::api::Api;
use crate::ask::{Ask, Reading};
use crate::error::{ForgeError, ForgeErrorCode};
use crate::repo::RepoName;
use crate::types::{
    ChangedFile, CheckRun, Comment, Excerpt, Issue, PullRequest, Review, ReviewComment,
};
use crate::wire::{
    RawCombined, RawComment, RawFile, RawIssue, RawJobs, RawPull, RawReview, RawRuns, RawUser,
};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::json;
use surety_common::domain::toolchain::MAX_CHANGED_FILES;

/// The most pull requests, reviews, comments on lines, comments, and checks of one call.
pub(crate) const MAX_PULLS: usize = 300;
pub(crate) const MAX_REVIEWS: usize = 500;
pub(crate) const MAX_COMMENTS: usize = 1_000;
pub(crate) const MAX_CHECKS: usize = 1_000;
/// The most bytes of a diff, and of the end of a log.
const MAX_DIFF: usize = 2 << 20;
const MAX_LOG: usize = 512 << 10;

pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub(crate) async fn current_user(api: &Api) -> Result<String, ForgeError> {
    if let Some(account) = &api.account().account {
        return Ok(account.clone());
    }
    let user: RawUser = api.json(api.get("current_user", "user")).await?;
    Ok(user.login)
}

pub(crate) async fn pull(
    api: &Api,
    repo: &RepoName,
    number: u64,
) -> Result<PullRequest, ForgeError> {
    let path = format!("repos/{repo}/pulls/{number}");
    let raw: RawPull = api.json(api.get("pull", &path)).await?;
    Ok(raw.into())
}

/// Pull requests of all states, sorted by their last change, until one is older than `since`.
pub(crate) async fn pulls_since(
    api: &Api,
    ask: Ask,
    since: DateTime<Utc>,
) -> Result<Vec<PullRequest>, ForgeError> {
    // Forges round to seconds.
    let since = since - chrono::TimeDelta::seconds(1);
    let is_new = |raw: &RawPull| raw.updated_at >= since;
    let raw = api.pages::<Vec<RawPull>>(ask, MAX_PULLS, is_new).await?;
    Ok(raw.into_iter().map(PullRequest::from).collect())
}

pub(crate) async fn changed_files(api: &Api, ask: Ask) -> Result<Vec<ChangedFile>, ForgeError> {
    let raw = api.pages::<Vec<RawFile>>(ask, MAX_CHANGED_FILES, |_| true).await?;
    Ok(raw.into_iter().map(ChangedFile::from).collect())
}

pub(crate) async fn diff(api: &Api, ask: Ask, accept: &'static str) -> Result<Excerpt, ForgeError> {
    let answer = api.send(&ask.text(accept, Reading::Start { most: MAX_DIFF })).await?;
    Ok(excerpt(&answer.body, answer.is_cut))
}

pub(crate) fn excerpt(body: &[u8], is_cut: bool) -> Excerpt {
    Excerpt { text: String::from_utf8_lossy(body).into_owned(), is_cut }
}

pub(crate) async fn reviews(api: &Api, ask: Ask) -> Result<Vec<Review>, ForgeError> {
    let raw = api.pages::<Vec<RawReview>>(ask, MAX_REVIEWS, |_| true).await?;
    Ok(raw.into_iter().map(Review::from).collect())
}

pub(crate) async fn comments(api: &Api, ask: Ask) -> Result<Vec<Comment>, ForgeError> {
    let raw = api.pages::<Vec<RawComment>>(ask, MAX_COMMENTS, |_| true).await?;
    Ok(raw.into_iter().map(Comment::from).collect())
}

pub(crate) async fn review_comments(
    api: &Api,
    ask: Ask,
    most: usize,
) -> Result<Vec<ReviewComment>, ForgeError> {
    let raw = api.pages::<Vec<RawComment>>(ask, most, |_| true).await?;
    Ok(raw.into_iter().map(ReviewComment::from).collect())
}

pub(crate) async fn add_comment(
    api: &Api,
    repo: &RepoName,
    number: u64,
    body: &str,
) -> Result<Comment, ForgeError> {
    let path = format!("repos/{repo}/issues/{number}/comments");
    let raw: RawComment = api.json(api.post("add_comment", &path, json!({"body": body}))).await?;
    Ok(raw.into())
}

pub(crate) async fn issue(api: &Api, repo: &RepoName, number: u64) -> Result<Issue, ForgeError> {
    let path = format!("repos/{repo}/issues/{number}");
    let raw: RawIssue = api.json(api.get("issue", &path)).await?;
    Ok(raw.into())
}

pub(crate) async fn issues(api: &Api, ask: Ask) -> Result<Vec<Issue>, ForgeError> {
    let raw = api.pages::<Vec<RawIssue>>(ask, MAX_REVIEWS, |_| true).await?;
    let issues = raw.into_iter().map(Issue::from);
    Ok(issues.filter(|issue| !issue.is_pull_request).collect())
}

/// The statuses of a commit: all of them, because the one that failed may be on the last page.
pub(crate) async fn statuses(
    api: &Api,
    repo: &RepoName,
    (commit, size): (&str, (&str, &str)),
) -> Result<Vec<CheckRun>, ForgeError> {
    let path = format!("repos/{repo}/commits/{commit}/status");
    let ask = api.get("statuses", &path).query(size.0, size.1);
    let raw = api.pages::<RawCombined>(ask, MAX_CHECKS, |_| true).await?;
    Ok(raw.into_iter().map(CheckRun::from).collect())
}

/// The end of the log of the first failed job of a commit. GitHub answers with a redirect to a storage; Gitea with
/// the log.
pub(crate) async fn ci_log(
    api: &Api,
    repo: &RepoName,
    (commit, size): (&str, (&str, &str)),
) -> Result<Excerpt, ForgeError> {
    let operation = "ci_log";
    let runs = api.get(operation, &format!("repos/{repo}/actions/runs")).query("head_sha", commit);
    let runs = runs.query(size.0, size.1);
    let runs = api.pages::<RawRuns>(runs, MAX_CHECKS, |_| true).await?;
    let failed = runs.iter().find(|run| run.is_failed());
    let none = || {
        let message = "the forge knows no failed job of this commit; read the check's own address";
        api.fail(ForgeErrorCode::NotFound, operation, message)
    };
    let run = failed.ok_or_else(none)?.id;
    let jobs = api.get(operation, &format!("repos/{repo}/actions/runs/{run}/jobs"));
    let jobs = jobs.query(size.0, size.1);
    let jobs = api.pages::<RawJobs>(jobs, MAX_CHECKS, |_| true).await?;
    let job = jobs.iter().find(|job| job.is_failed()).ok_or_else(none)?.id;
    let end = Reading::End { most: MAX_LOG };
    let path = format!("repos/{repo}/actions/jobs/{job}/logs");
    let asked = api.get(operation, &path).text("application/vnd.github+json, text/plain", end);
    let answer = api.send(&asked).await?;
    let answer = match answer.location {
        Some(url) => api.text_elsewhere(operation, url, end).await?,
        None => answer,
    };
    Ok(excerpt(&answer.body, answer.is_cut))
}
