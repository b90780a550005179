//! The client of Gitea and Forgejo.

use crate::api::Api;
use crate::error::{ForgeError, ForgeErrorCode};
use crate::forge::{Asking, Forge};
use crate::repo::RepoName;
use crate::shared;
use crate::types::{
    ChangedFile, Checks, Comment, Commit, Deployment, Excerpt, Issue, MergeMethod, NewIssue,
    NewPull, NewReview, PullRequest, Review, ReviewComment, ReviewEvent,
};
use crate::wire::{RawCommit, RawIssue, RawLabel, RawPull, RawReview};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::toolchain::Forge as ForgeKind;

/// The name of the number of members of a page, and the most that Gitea gives by default.
const LIMIT: (&str, &str) = ("limit", "50");
/// The most labels of a repository that are looked through.
const MAX_LABELS: usize = 500;
/// The most reviews whose comments are read.
const MAX_COMMENTED: usize = 50;

/// Gitea and Forgejo.
pub(crate) struct Gitea {
    api: Api,
}

impl Gitea {
    pub(crate) const fn new(api: Api) -> Self {
        Self { api }
    }

    /// The numbers of the labels with these names: the API takes no names.
    async fn labels(&self, repo: &RepoName, names: &[String]) -> Result<Vec<u64>, ForgeError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let ask = self.api.get("labels", &format!("repos/{repo}/labels")).query(LIMIT.0, LIMIT.1);
        let known = self.api.pages::<Vec<RawLabel>>(ask, MAX_LABELS, |_| true).await?;
        let is_named = |label: &&RawLabel| names.contains(&label.name);
        Ok(known.iter().filter(is_named).map(|label| label.id).collect())
    }

    async fn create(&self, repo: &RepoName, issue: &NewIssue) -> Result<Issue, ForgeError> {
        let NewIssue { title, body, assignees, labels } = issue;
        let labels = self.labels(repo, labels).await?;
        let body = json!({"title": title, "body": body, "assignees": assignees, "labels": labels});
        let ask = self.api.post("create_issue", &format!("repos/{repo}/issues"), body);
        let raw: RawIssue = self.api.json(ask).await?;
        Ok(raw.into())
    }

    async fn comments_of_reviews(
        &self,
        repo: &RepoName,
        number: u64,
    ) -> Result<Vec<ReviewComment>, ForgeError> {
        let path = format!("repos/{repo}/pulls/{number}/reviews");
        let ask = self.api.get("reviews", &path).query(LIMIT.0, LIMIT.1);
        let reviews = self.api.pages::<Vec<RawReview>>(ask, shared::MAX_REVIEWS, |_| true).await?;
        let mut all = Vec::new();
        for review in reviews.iter().rev().take(MAX_COMMENTED) {
            let room = shared::MAX_REVIEWS.saturating_sub(all.len());
            all.extend(self.comments_of(repo, (number, review.id), room).await?);
        }
        all.sort_by_key(|comment| comment.comment.id);
        Ok(all)
    }

    async fn comments_of(
        &self,
        repo: &RepoName,
        (number, review): (u64, u64),
        most: usize,
    ) -> Result<Vec<ReviewComment>, ForgeError> {
        let path = format!("repos/{repo}/pulls/{number}/reviews/{review}/comments");
        shared::review_comments(&self.api, self.api.get("review_comments", &path), most).await
    }

    fn not_served<T>(&self, operation: &'static str, what: &str) -> Result<T, ForgeError> {
        let kind = self.kind();
        let message = format!("the API of {kind} has no {what}; look at its pages");
        Err(self.api.fail(ForgeErrorCode::NotServed, operation, message))
    }
}

/// The head of a branch, as Gitea writes it.
#[derive(Deserialize)]
struct RawBranch {
    commit: RawHead,
}

#[derive(Deserialize)]
struct RawHead {
    id: String,
    message: String,
    timestamp: DateTime<Utc>,
}

impl Forge for Gitea {
    fn name(&self) -> &str {
        &self.api.account().forge
    }

    fn kind(&self) -> ForgeKind {
        self.api.account().kind
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
        let ask = ask.query("state", "all").query("sort", "recentupdate").query(LIMIT.0, LIMIT.1);
        Box::pin(shared::pulls_since(&self.api, ask, since))
    }

    fn changed_files<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
    ) -> Asking<'a, Vec<ChangedFile>> {
        let path = format!("repos/{repo}/pulls/{number}/files");
        let ask = self.api.get("changed_files", &path).query(LIMIT.0, LIMIT.1);
        Box::pin(shared::changed_files(&self.api, ask))
    }

    fn diff<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Excerpt> {
        let ask = self.api.get("diff", &format!("repos/{repo}/pulls/{number}.diff"));
        Box::pin(shared::diff(&self.api, ask, "text/plain"))
    }

    fn reviews<'a>(&'a self, repo: &'a RepoName, number: u64) -> Asking<'a, Vec<Review>> {
        let path = format!("repos/{repo}/pulls/{number}/reviews");
        let ask = self.api.get("reviews", &path).query(LIMIT.0, LIMIT.1);
        Box::pin(shared::reviews(&self.api, ask))
    }

    fn submit_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: &'a NewReview,
    ) -> Asking<'a, Review> {
        Box::pin(async move {
            // Gitea's word for an approval is the state that follows from it.
            let event = match review.event {
                ReviewEvent::Approve => "APPROVED",
                ReviewEvent::RequestChanges | ReviewEvent::Comment => review.event.as_str(),
            };
            let mut body = json!({"event": event, "body": review.body});
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
        let mut ask = self.api.get("comments", &format!("repos/{repo}/issues/{number}/comments"));
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
        Box::pin(self.comments_of_reviews(repo, number))
    }

    fn comments_of_review<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        review: u64,
    ) -> Asking<'a, Vec<ReviewComment>> {
        Box::pin(self.comments_of(repo, (number, review), shared::MAX_REVIEWS))
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
            let body = format!("Reply to comment {comment}:\n\n{body}");
            shared::add_comment(&self.api, repo, number, &body).await
        })
    }

    fn merge<'a>(
        &'a self,
        repo: &'a RepoName,
        number: u64,
        (method, head): (MergeMethod, &'a str),
    ) -> Asking<'a, ()> {
        Box::pin(async move {
            let body = json!({"Do": method.as_str(), "head_commit_id": head});
            let path = format!("repos/{repo}/pulls/{number}/merge");
            self.api.send(&self.api.post("merge", &path, body)).await.map(drop)
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
        let ask = ask.query("state", "all").query("type", "issues").query("created_by", account);
        let ask = ask.query("since", &shared::time(since)).query(LIMIT.0, LIMIT.1);
        Box::pin(shared::issues(&self.api, ask))
    }

    fn create_issue<'a>(&'a self, repo: &'a RepoName, issue: &'a NewIssue) -> Asking<'a, Issue> {
        Box::pin(self.create(repo, issue))
    }

    fn checks<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Checks> {
        Box::pin(async move {
            Ok(Checks::of(shared::statuses(&self.api, repo, (commit, LIMIT)).await?))
        })
    }

    fn branch_head<'a>(&'a self, repo: &'a RepoName, branch: &'a str) -> Asking<'a, Commit> {
        Box::pin(async move {
            let path = format!("repos/{repo}/branches/{branch}");
            let RawBranch { commit } = self.api.json(self.api.get("branch_head", &path)).await?;
            let RawHead { id: commit, message, timestamp: committed_at } = commit;
            Ok(Commit { commit, message, committed_at })
        })
    }

    fn commit<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Commit> {
        Box::pin(async move {
            let path = format!("repos/{repo}/git/commits/{commit}");
            let raw: RawCommit = self.api.json(self.api.get("commit", &path)).await?;
            Ok(raw.into())
        })
    }

    fn deployments<'a>(
        &'a self,
        _repo: &'a RepoName,
        _environment: &'a str,
    ) -> Asking<'a, Vec<Deployment>> {
        Box::pin(async move { self.not_served("deployments", "deployments") })
    }

    fn ci_log<'a>(&'a self, repo: &'a RepoName, commit: &'a str) -> Asking<'a, Excerpt> {
        Box::pin(async move {
            match self.kind() {
                ForgeKind::Forgejo => self.not_served("ci_log", "logs of builds"),
                ForgeKind::Gitea | ForgeKind::Github => {
                    shared::ci_log(&self.api, repo, (commit, LIMIT)).await
                }
            }
        })
    }
}
