//! Writes on the forges of the configuration, and asks them about tasks.

use super::escalation_port::{
    EscalationPort, NOT_CONFIGURED, PortError, Posting, PullOfCommit, not_configured,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::domain::toolchain::{
    ChecksState, EventType, FailedCheck, Forge as ForgeKind, LineComment, MAX_FAILED_CHECKS,
    ProbeMode, Subject, ToolchainEvent,
};
use surety_common::store::{self, StoredTask};
use surety_forge::once::{Marked, comment_once, issue_once};
use surety_forge::{
    CloneSource, Forge, ForgeError, ForgeErrorCode, Forges, NewIssue, PullRequest, PullState,
    RepoName, Review, ReviewState, ServiceAccount,
};

/// No escalation is attempted for longer: nothing with its mark is older.
const OLDEST: TimeDelta = TimeDelta::days(30);

/// The forges of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ForgePort {
    forges: Forges,
    /// Where agents are registered.
    pool: PgPool,
}

impl ForgePort {
    pub(crate) const fn new(forges: Forges, pool: PgPool) -> Self {
        Self { forges, pool }
    }

    fn service(&self, forge: &str, repo: &str) -> Option<(Arc<dyn Forge>, RepoName)> {
        let (_, client) = self.forges.service(ForgeKind::from_text(forge)?, repo)?;
        Some((client, RepoName::new(repo).ok()?))
    }

    fn of(&self, posting: &Posting) -> Result<(Arc<dyn Forge>, RepoName), PortError> {
        let Posting { forge, subject, .. } = posting;
        self.service(forge, &subject.repo)
            .ok_or_else(|| PortError::lasting(NOT_CONFIGURED, not_configured(forge, &subject.repo)))
    }
}

/// The review that an event is about. The delivery has no id of it: it is the one of its account with its result, and of
/// those the one that was submitted next to the time of the event; the later one of two.
fn review_of(event: &ToolchainEvent, reviews: Vec<Review>) -> Option<Review> {
    let state = if event.event_type == EventType::ReviewApproved {
        ReviewState::Approved
    } else if event.event_type == EventType::ChangesRequested {
        ReviewState::ChangesRequested
    } else {
        ReviewState::Commented
    };
    let fits =
        |review: &Review| review.state == state && review.author.eq_ignore_ascii_case(&event.from);
    let distance = |review: &Review| {
        let at = review.submitted_at.unwrap_or_default();
        ((at - event.happened_at).abs(), std::cmp::Reverse(review.id))
    };
    reviews.into_iter().filter(fits).min_by_key(distance)
}

/// The comments on lines of the review that an event is about.
async fn line_comments_of(
    client: &dyn Forge,
    repo: &RepoName,
    event: &ToolchainEvent,
) -> Result<Option<Vec<LineComment>>, ForgeError> {
    let Some(number) = event.subject.number else { return Ok(None) };
    let Some(review) = review_of(event, client.reviews(repo, number).await?) else {
        return Ok(None);
    };
    let comments = client.comments_of_review(repo, number, review.id).await?.into_iter();
    let comments =
        comments.map(|it| LineComment { path: it.path, line: it.line, body: it.comment.body });
    Ok(Some(comments.collect()))
}

fn marked(posting: &Posting) -> Marked {
    Marked::with(posting.marker.clone(), Utc::now() - OLDEST)
}

impl From<ForgeError> for PortError {
    fn from(error: ForgeError) -> Self {
        let (message, not_before) = (error.to_string(), error.until);
        let (code, is_transient) = (error.code.as_str(), error.code.is_outage());
        Self { code, is_transient, message, not_before }
    }
}

impl EscalationPort for ForgePort {
    fn forge_of(&self, forge: &str, repo: &str) -> Option<String> {
        let (settings, _) = self.forges.service(ForgeKind::from_text(forge)?, repo)?;
        RepoName::new(repo).ok().map(|_| settings.name.clone())
    }

    fn probe_mode(&self, forge: &str, repo: &str) -> ProbeMode {
        let kind = ForgeKind::from_text(forge);
        kind.map_or(ProbeMode::Off, |kind| self.forges.probe_mode(kind, repo))
    }

    fn comment_once<'a>(
        &'a self,
        posting: &'a Posting,
    ) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(async move {
            let (forge, repo) = self.of(posting)?;
            let number = posting.subject.number.ok_or_else(|| {
                let message = "the task is about no pull request and no issue".to_owned();
                PortError::lasting(ForgeErrorCode::Unprocessable.as_str(), message)
            })?;
            let text = match posting.account.as_str() {
                "" => posting.body.clone(),
                account => format!("@{account} {}", posting.body),
            };
            let write = (&marked(posting), text.as_str());
            let written = comment_once(&*forge, &repo, number, write).await?;
            Ok(written.value.address)
        })
    }

    fn issue_once<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(async move {
            let (forge, repo) = self.of(posting)?;
            let assignee = Some(posting.account.clone()).filter(|account| !account.is_empty());
            let issue = NewIssue {
                title: posting.title.clone(),
                body: posting.body.clone(),
                assignees: assignee.into_iter().collect(),
                labels: Vec::new(),
            };
            let written = issue_once(&*forge, &repo, (&marked(posting), &issue)).await?;
            Ok(written.value.address)
        })
    }

    fn changed_files<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let number = subject.number.filter(|_| subject.is_pull_request)?;
            let (client, repo) = self.service(forge, &subject.repo)?;
            match client.changed_files(&repo, number).await {
                Ok(files) => Some(files.into_iter().map(|file| file.path).collect()),
                Err(error) => {
                    tracing::warn!(%error, "planner: the files of a pull request are not known; the task says so");
                    None
                }
            }
        })
    }

    fn pull_of_commit<'a>(
        &'a self,
        forge: &'a str,
        (repo, commit): (&'a str, &'a str),
        since: DateTime<Utc>,
    ) -> BoxFuture<'a, Option<PullOfCommit>> {
        Box::pin(async move {
            let (client, repo) = self.service(forge, repo)?;
            let pulls = match client.pulls_since(&repo, since).await {
                Ok(pulls) => pulls,
                Err(error) => {
                    tracing::warn!(%error, "planner: the pull request of a build is not known; the task names the commit");
                    return None;
                }
            };
            let built = |pull: &PullRequest| {
                pull.state == PullState::Open && pull.head_commit.eq_ignore_ascii_case(commit)
            };
            pulls.into_iter().find(built).map(|pull| PullOfCommit {
                number: pull.number,
                branch: pull.head_branch,
                author: pull.author,
            })
        })
    }

    fn failed_checks<'a>(
        &'a self,
        forge: &'a str,
        (repo, commit): (&'a str, &'a str),
    ) -> BoxFuture<'a, Option<Vec<FailedCheck>>> {
        Box::pin(async move {
            let (client, repo) = self.service(forge, repo)?;
            let checks = match client.checks(&repo, commit).await {
                Ok(checks) => checks,
                Err(error) => {
                    tracing::warn!(%error, "planner: the failed checks of a build are not known; the task has what the delivery says");
                    return None;
                }
            };
            let failed = checks.runs.into_iter().filter(|run| run.state == ChecksState::Failing);
            let mut failed: Vec<FailedCheck> =
                failed.map(|run| FailedCheck::new(&run.name, &run.description)).collect();
            // Forges list them in the order of their times.
            failed.sort_by(|one, other| one.name.cmp(&other.name));
            failed.truncate(MAX_FAILED_CHECKS);
            Some(failed)
        })
    }

    fn line_comments<'a>(
        &'a self,
        event: &'a ToolchainEvent,
    ) -> BoxFuture<'a, Option<Vec<LineComment>>> {
        Box::pin(async move {
            let (client, repo) = self.service(event.source.as_str(), &event.subject.repo)?;
            line_comments_of(&*client, &repo, event).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "planner: the comments on lines of a review are not known; the task says where to read them");
                None
            })
        })
    }

    fn reviewers<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let number = subject.number.filter(|_| subject.is_pull_request)?;
            let (client, repo) = self.service(forge, &subject.repo)?;
            let reviews = match client.reviews(&repo, number).await {
                Ok(reviews) => reviews,
                Err(error) => {
                    tracing::warn!(%error, "planner: the reviewers of a pull request are not known; its tasks say who they are");
                    return None;
                }
            };
            let results = reviews.iter().filter_map(Review::fact).filter(|review| review.is_result);
            Some(results.map(|review| review.author).collect())
        })
    }

    fn pull_head<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let number = subject.number.filter(|_| subject.is_pull_request)?;
            let (client, repo) = self.service(forge, &subject.repo)?;
            match client.pull(&repo, number).await {
                Ok(pull) => Some(pull.head_commit),
                Err(error) => {
                    tracing::warn!(%error, "planner: the newest commit of a pull request is not known; a push does not answer its comment");
                    None
                }
            }
        })
    }

    fn account_of_agent(&self, forge: &str, repo: &str, agent: &str) -> Option<String> {
        let kind = ForgeKind::from_text(forge)?;
        self.forges.account_of_agent(kind, repo, agent).map(str::to_owned)
    }

    fn agent_of_account(&self, forge: ForgeKind, repo: &str, account: &str) -> Option<String> {
        self.forges.agent_of_account(forge, repo, account).map(str::to_owned)
    }

    fn own_accounts(&self, forge: ForgeKind) -> Vec<ServiceAccount<'_>> {
        self.forges.own_accounts(forge)
    }

    fn servers(&self, forge: ForgeKind) -> Vec<String> {
        self.forges.servers(forge)
    }

    fn clone_source(&self, forge: &str, repo: &str, agent: &str) -> Option<CloneSource> {
        self.forges.clone_source(ForgeKind::from_text(forge)?, repo, agent)
    }

    fn own_part_holds<'a>(&'a self, task: &'a StoredTask) -> BoxFuture<'a, Option<bool>> {
        Box::pin(async move {
            let of_file = self.account_of_agent(&task.forge, &task.subject.repo, &task.assignee);
            let found = store::accounts_of_task(&self.pool, task, of_file.as_deref()).await;
            let accounts = match found {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "planner: the agents cannot be read; the clock of a task goes on");
                    return None;
                }
            };
            self.forges.own_part(&task.payload, &accounts, task.happened_at).await
        })
    }
}
