//! What the failure of a task needs of a forge.

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use surety_common::domain::toolchain::{
    FailedCheck, Forge as ForgeKind, LineComment, ProbeMode, Subject, ToolchainEvent,
};
use surety_common::store;
use surety_forge::{CloneSource, ServiceAccount};

/// A text to be written on a forge, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The kind of the forge.
    pub forge: String,
    /// The repository, and the pull request or the issue.
    pub subject: Subject,
    /// The account that a comment mentions, or to which an issue is assigned; empty for none.
    pub account: String,
    /// The title of an issue; empty for a comment.
    pub title: String,
    /// The text with its hidden marker, by which an earlier attempt is found.
    pub body: String,
    /// The hidden marker.
    pub marker: String,
}

/// The code where the configuration has no forge for a repository.
pub(super) const NOT_CONFIGURED: &str = "forge_not_configured";

/// What is said of a repository that the configuration has no forge for.
pub(super) fn not_configured(forge: &str, repo: &str) -> String {
    format!("no forge is configured for {repo} on {forge}")
}

/// The pull request that a commit is the newest of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullOfCommit {
    /// Its number.
    pub number: u64,
    /// Its branch.
    pub branch: String,
    /// The account that opened it.
    pub author: String,
}

/// Why a text was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// The kind of failure, as a stable name.
    pub code: &'static str,
    /// Whether the same call may succeed later.
    pub is_transient: bool,
    /// What happened, without a credential.
    pub message: String,
    /// When the forge may be asked again, where it said so.
    pub not_before: Option<DateTime<Utc>>,
}

impl PortError {
    /// No later call succeeds.
    pub(super) const fn lasting(code: &'static str, message: String) -> Self {
        Self { code, is_transient: false, message, not_before: None }
    }
}

/// Writes on forges. An implementation looks for the marker first: a text that an earlier attempt wrote is not
/// written again.
pub trait EscalationPort: Send + Sync {
    /// Whether a client is configured for the repository.
    fn reaches(&self, forge: &str, repo: &str) -> bool {
        self.forge_of(forge, repo).is_some()
    }

    /// The name of the forge that the configuration has for the repository.
    fn forge_of(&self, forge: &str, repo: &str) -> Option<String>;

    /// Writes a comment on a pull request or an issue, and answers its address.
    fn comment_once<'a>(&'a self, posting: &'a Posting)
    -> BoxFuture<'a, Result<String, PortError>>;

    /// Opens an issue, and answers its address.
    fn issue_once<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Result<String, PortError>>;

    /// The files that a pull request changes; none where the forge does not say.
    fn changed_files<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>>;

    /// The open pull request whose newest commit is that of the place, a repository and a commit, among those that
    /// changed since a time; none where there is none, or the forge does not say.
    fn pull_of_commit<'a>(
        &'a self,
        forge: &'a str,
        place: (&'a str, &'a str),
        since: DateTime<Utc>,
    ) -> BoxFuture<'a, Option<PullOfCommit>>;

    /// The checks of a commit of a repository that failed; none where the forge does not say.
    fn failed_checks<'a>(
        &'a self,
        forge: &'a str,
        place: (&'a str, &'a str),
    ) -> BoxFuture<'a, Option<Vec<FailedCheck>>>;

    /// The comments on lines of the review that an event is about; none where the forge does not say.
    fn line_comments<'a>(
        &'a self,
        event: &'a ToolchainEvent,
    ) -> BoxFuture<'a, Option<Vec<LineComment>>>;

    /// The accounts that approved a pull request or asked for changes; none where the forge does not say.
    fn reviewers<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>>;

    /// The newest commit of a pull request; none where the forge does not say.
    fn pull_head<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<String>>;

    /// The account of an agent on the forge of a repository, by the configuration of the forges.
    fn account_of_agent(&self, forge: &str, repo: &str, agent: &str) -> Option<String>;

    /// The agent of an account on the forge of a repository, by the configuration of the forges.
    fn agent_of_account(&self, forge: ForgeKind, repo: &str, account: &str) -> Option<String>;

    /// The accounts of the service on the forges of a kind, as far as they are known.
    fn own_accounts(&self, forge: ForgeKind) -> Vec<ServiceAccount<'_>>;

    /// The addresses of the forges of a kind.
    fn servers(&self, forge: ForgeKind) -> Vec<String>;

    /// Whether the gate asks the forge about tasks of a repository.
    fn probe_mode(&self, forge: &str, repo: &str) -> ProbeMode;

    /// Where an agent clones the repository of a task from; none where the configuration names no address for clones.
    fn clone_source(&self, forge: &str, repo: &str, agent: &str) -> Option<CloneSource>;

    /// Whether the assignee's own part of a task holds, so that only a build or a reviewer is missing: then the clock
    /// of the report stops. None where the forge does not say.
    fn own_part_holds<'a>(&'a self, task: &'a store::StoredTask) -> BoxFuture<'a, Option<bool>>;
}

/// No forge is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoForge;

impl NoForge {
    fn refused(posting: &Posting) -> PortError {
        let Posting { forge, subject, .. } = posting;
        PortError::lasting(NOT_CONFIGURED, not_configured(forge, &subject.repo))
    }
}

impl EscalationPort for NoForge {
    fn forge_of(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn probe_mode(&self, _: &str, _: &str) -> ProbeMode {
        ProbeMode::Off
    }

    fn comment_once<'a>(
        &'a self,
        posting: &'a Posting,
    ) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(std::future::ready(Err(Self::refused(posting))))
    }

    fn issue_once<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(std::future::ready(Err(Self::refused(posting))))
    }

    fn changed_files<'a>(
        &'a self,
        _: &'a str,
        _: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }

    fn pull_of_commit<'a>(
        &'a self,
        _: &'a str,
        _: (&'a str, &'a str),
        _: DateTime<Utc>,
    ) -> BoxFuture<'a, Option<PullOfCommit>> {
        Box::pin(std::future::ready(None))
    }

    fn failed_checks<'a>(
        &'a self,
        _: &'a str,
        _: (&'a str, &'a str),
    ) -> BoxFuture<'a, Option<Vec<FailedCheck>>> {
        Box::pin(std::future::ready(None))
    }

    fn line_comments<'a>(
        &'a self,
        _: &'a ToolchainEvent,
    ) -> BoxFuture<'a, Option<Vec<LineComment>>> {
        Box::pin(std::future::ready(None))
    }

    fn reviewers<'a>(&'a self, _: &'a str, _: &'a Subject) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }

    fn pull_head<'a>(&'a self, _: &'a str, _: &'a Subject) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn account_of_agent(&self, _: &str, _: &str, _: &str) -> Option<String> {
        None
    }

    fn agent_of_account(&self, _: ForgeKind, _: &str, _: &str) -> Option<String> {
        None
    }

    fn own_accounts(&self, _: ForgeKind) -> Vec<ServiceAccount<'_>> {
        Vec::new()
    }

    fn servers(&self, _: ForgeKind) -> Vec<String> {
        Vec::new()
    }

    fn clone_source(&self, _: &str, _: &str, _: &str) -> Option<CloneSource> {
        None
    }

    fn own_part_holds<'a>(&'a self, _: &'a store::StoredTask) -> BoxFuture<'a, Option<bool>> {
        Box::pin(std::future::ready(None))
    }
}
