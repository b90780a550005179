//! The client of GitHub.

use crate::api::{Api, Page};
use crate::error::ForgeError;
use crate::forge::{Asking, Forge};
use crate::repo::RepoName;
use crate::shared;
use crate::types::{
    ChangedFile, CheckRun, Checks, Comment, Commit, Deployment, Excerpt, Issue, MergeMethod,
    NewIssue, NewPull, NewReview, PullRequest, Review, ReviewComment,
};
use crate::wire::{RawComment, RawCommit, RawIssue, RawPull, RawReview};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::toolchain::{ChecksState, Forge as ForgeKind};

/// The name of the number of members of a page, and the most that GitHub gives.
const PER_PAGE: (&str, &str) = ("per_page", "100");
/// The most deployments whose states are read.
const MAX_DEPLOYMENTS: usize = 10;
const DIFF: &str = "application/vnd.github.diff";

/// GitHub, and GitHub Enterprise Server.
pub(crate) struct Github {
    api: Api,
}

impl Github {
    pub(crate) const fn new(api: Api) -> Self {
        Self { api }
    }

    async fn check_runs(&self, repo: &RepoName, commit: &str) -> Result<Vec<CheckRun>, ForgeError> {
        let path = format!("repos/{repo}/commits/{commit}/check-runs");
        let ask = self.api.get("check_runs", &path).query(PER_PAGE.0, PER_PAGE.1);
        let raw = self.api.pages::<RawCheckRuns>(ask, shared::MAX_CHECKS, |_| true).await?;
        Ok(raw.into_iter().map(CheckRun::from).collect())
    }

    async fn deployed(
        &self,
        repo: &RepoName,
        environment: &str,
    ) -> Result<Vec<Deployment>, ForgeError> {
        let path = format!("repos/{repo}/deployments");
        let mut ask = self.api.get("deployments", &path).query(PER_PAGE.0, "10");
        if !environment.is_empty() {
            ask = ask.query("environment", environment);
        }
        let raw = self.api.pages::<Vec<RawDeployment>>(ask, MAX_DEPLOYMENTS, |_| true).await?;
        let mut all = Vec::new();
        for deployment in raw {
            let statuses = format!("{path}/{}/statuses", deployment.id);
            let ask = self.api.get("deployment_statuses", &statuses).query(PER_PAGE.0, "1");
            let newest = self.api.pages::<Vec<RawDeploymentStatus>>(ask, 1, |_| true).await?;
            let newest = newest.into_iter().next();
            let (state, state_at) = newest
                .map_or((String::new(), deployment.created_at), |it| (it.state, it.created_at));
            let RawDeployment { id, sha: commit, environment, .. } = deployment;
            all.push(Deployment { id, commit, environment, state, state_at });
        }
        Ok(all)
    }
}

#[derive(Deserialize)]
struct RawCheckRuns {
    total_count: Option<usize>,
    check_runs: Vec<RawCheckRun>,
}

impl Page for RawCheckRuns {
    type Member = RawCheckRun;

    fn total(&self) -> Option<usize> {
        self.total_count
    }

    fn members(self) -> Vec<RawCheckRun> {
        self.check_runs
    }
}

#[derive(Deserialize)]
struct RawCheckRun {
    name: String,
    status: String,
    conclusion: Option<String>,
    html_url: Option<String>,
    output: Option<RawOutput>,
}

#[derive(Deserialize)]
struct RawOutput {
    title: Option<String>,
}

impl From<RawCheckRun> for CheckRun {
    fn from(raw: RawCheckRun) -> Self {
        let state = match (raw.status.as_str(), raw.conclusion.as_deref()) {
            ("completed", Some("success" | "neutral" | "skipped")) => ChecksState::Passing,
            ("completed", _) => ChecksState::Failing,
            _ => ChecksState::Pending,
        };
        Self {
            name: raw.name,
            state,
            description: raw.output.and_then(|output| output.title).unwrap_or_default(),
            address: raw.html_url.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct RawDeployment {
    id: u64,
    sha: String,
    environment: String,
    created_at: DateTime<Utc>,
}

#[derive(Deserialize)]
struct RawDeploymentStatus {
    state: String,
    created_at: DateTime<Utc>,
}

impl Forge for Github {
    fn name(&self) -> &str {
        &self.api.account().forge
    }

    fn kind(&self) -> ForgeKind {
        ForgeKind::Github
    }

    fn current_user(&self) -> Asking<'_, String> {
        Box::pin(shared::current_user(&self.api))
    }

    fn pull<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, PullRequest> {
        Box::pin(shared::pull(&self.api, repo, number))
    }

    fn pulls_since<'a>(
        &'a self,
        repo: &'a RepoName,
        since: DateTime<Utc>,
    ) -> Asking<'a, Vec<PullRequest>> {
        let ask = self.api.get("pulls_since", &format!("repos/{repo}/pulls"));
        let ask = ask.query("state", "all").query("sort", "updated").query("direction", "desc");
        Box::pin(shared::pulls_since(&self.api, ask.query(PER_PAGE.0, PER_PAGE.1), since))
    }

    fn changed_files<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
    ) -> Asking<'a, Vec<ChangedFile>> {
        let path = format!("repos/{repo}/pulls/{number}/files");
        let ask = self.api.get("changed_files", &path).query(PER_PAGE.0, PER_PAGE.1);
        Box::pin(shared::changed_files(&self.api, ask))
    }

    fn diff<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Excerpt> {
        let ask = self.api.get("diff", &format!("repos/{repo}/pulls/{number}"));
        Box::pin(shared::diff(&self.api, ask, DIFF))
    }

    fn reviews<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Vec<Review>> {
        let path = format!("repos/{repo}/pulls/{number}/reviews");
        let ask = self.api.get("reviews", &path).query(PER_PAGE.0, PER_PAGE.1);
        Box::pin(shared::reviews(&self.api, ask))
    }

    fn submit_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: &'a NewReview,
    ) -> Asking<'a, Review> {
        Box::pin(async move {
            let mut body = json!({"event": review.event.as_str(), "body": review.body});
            if let Some(commit) = &review.commit {
                body["commit_id"] = json!(commit);
            }
            let path = format!("repos/{repo}/pulls/{number}/reviews");
            let raw: RawReview = self.api.json(self.api.post("submit_review", &path, body)).await?;
            Ok(raw.into())
        })
    }

    fn comments<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        since: Option<DateTime<Utc>>,
    ) -> Asking<'a, Vec<Comment>> {
        let path = format!("repos/{repo}/issues/{number}/comments");
        let mut ask = self.api.get("comments", &path).query(PER_PAGE.0, PER_PAGE.1);
        if let Some(since) = since {
            ask = ask.query("since", &shared::time(since));
        }
        Box::pin(shared::comments(&self.api, ask))
    }

    fn review_comments<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
    ) -> Asking<'a, Vec<ReviewComment>> {
        let path = format!("repos/{repo}/pulls/{number}/comments");
        let ask = self.api.get("review_comments", &path).query(PER_PAGE.0, PER_PAGE.1);
        Box::pin(shared::review_comments(&self.api, ask, shared::MAX_REVIEWS))
    }

    fn comments_of_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: u64,
    ) -> Asking<'a, Vec<ReviewComment>> {
        Box::pin(async move {
            let mut all = self.review_comments(repo, number).await?;
            all.retain(|comment| comment.review == Some(review));
            Ok(all)
        })
    }

    fn add_comment<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        body: &'a str,
    ) -> Asking<'a, Comment> {
        Box::pin(shared::add_comment(&self.api, repo, number, body))
    }

    fn reply<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        (comment, body): (u64, &'a str),
    ) -> Asking<'a, Comment> {
        Box::pin(async move {
            let path = format!("repos/{repo}/pulls/{number}/comments/{comment}/replies");
            let ask = self.api.post("reply", &path, json!({"body": body}));
            let raw: RawComment = self.api.json(ask).await?;
            Ok(raw.into())
        })
    }

    fn merge<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        (method, head): (MergeMethod, &'a str),
    ) -> Asking<'a, ()> {
        Box::pin(async move {
            let body = json!({"merge_method": method.as_str(), "sha": head});
            let path = format!("repos/{repo}/pulls/{number}/merge");
            self.api.send(&self.api.put("merge", &path, body)).await.map(drop)
        })
    }

    fn open_pull<'a>(&'a self, repo: &'a RepoName, pull: &'a NewPull) -> Asking<'a, PullRequest> {
        Box::pin(async move {
            let NewPull { title, body, head, base } = pull;
            let body = json!({"title": title, "body": body, "head": head, "base": base});
            let ask = self.api.post("open_pull", &format!("repos/{repo}/pulls"), body);
            let raw: RawPull = self.api.json(ask).await?;
            Ok(raw.into())
        })
    }

    fn issue<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Issue> {
        Box::pin(shared::issue(&self.api, repo, number))
    }

    fn issues_of<'a>(
        &'a self,
        repo: &'a RepoName,
        account: &'a str,
        since: DateTime<Utc>,
    ) -> Asking<'a, Vec<Issue>> {
        let ask = self.api.get("issues_of", &format!("repos/{repo}/issues"));
        let ask = ask.query("state", "all").query("creator", account);
        let ask = ask.query("since", &shared::time(since)).query(PER_PAGE.0, PER_PAGE.1);
        Box::pin(shared::issues(&self.api, ask))
    }

    fn create_issue<'a>(&'a self, repo: &'a RepoName, issue: &'a NewIssue) -> Asking<'a, Issue> {
        Box::pin(async move {
            let NewIssue { title, body, assignees, labels } = issue;
            let body =
                json!({"title": title, "body": body, "assignees": assignees, "labels": labels});
            let ask = self.api.post("create_issue", &format!("repos/{repo}/issues"), body);
            let raw: RawIssue = self.api.json(ask).await?;
            Ok(raw.into())
        })
    }

    fn checks<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Checks> {
        Box::pin(async move {
            let mut all = shared::statuses(&self.api, repo, (commit, PER_PAGE)).await?;
            all.extend(self.check_runs(repo, commit).await?);
            Ok(Checks::of(all))
        })
    }

    fn branch_head<'a>(&'a self, repo: &'a RepoName, branch: &'a str) -> Asking<'a, Commit> {
        Box::pin(async move {
            let path = format!("repos/{repo}/branches/{branch}");
            let raw: RawBranch = self.api.json(self.api.get("branch_head", &path)).await?;
            Ok(raw.commit.into())
        })
    }

    fn commit<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Commit> {
        Box::pin(async move {
            let path = format!("repos/{repo}/commits/{commit}");
            let raw: RawCommit = self.api.json(self.api.get("commit", &path)).await?;
            Ok(raw.into())
        })
    }

    fn deployments<'a>(
        &'a self,
        repo: &'a RepoName,
        environment: &'a str,
    ) -> Asking<'a, Vec<Deployment>> {
        Box::pin(self.deployed(repo, environment))
    }

    fn ci_log<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Excerpt> {
        Box::pin(shared::ci_log(&self.api, repo, (commit, PER_PAGE)))
    }
}

#[derive(Deserialize)]
struct RawBranch {
    commit: RawCommit,
}
