//! One event, as it becomes a task.

use super::action::{ActionType, EventType};
use super::forge::Forge;
use super::language::Language;
use super::payload::{cut, one_line};
use super::risk::RiskRules;
use super::role::Role;
use super::steps::{Place, steps};
use super::subject::Subject;
use super::task::TaskPayload;
use super::words::words;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use std::fmt;

/// The most files of a change that a task shows.
pub const MAX_CHANGED_FILES: usize = 300;
/// The most failed checks that a task shows.
pub const MAX_FAILED_CHECKS: usize = 50;
/// The longest summary of a failure, in characters.
pub(super) const MAX_SUMMARY: usize = 2_000;
/// The most comments on lines that a task shows.
const MAX_LINE_COMMENTS: usize = 20;
/// The longest comment on a line that a task shows, in characters.
const MAX_LINE_COMMENT: usize = 1_000;
/// The field with the comments on lines of a review: null while the forge was not asked or did not say.
pub(super) const LINE_COMMENTS: &str = "line_comments";
/// The field with the newest commit of the pull request at the time of the event: what is pushed later is another one. Null
/// while the forge was not asked or did not say.
pub(super) const HEAD: &str = "pr_head";

/// An event that asks one account, or one role, to act.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolchainEvent {
    /// What happened.
    pub event_type: EventType,
    /// The account that caused it.
    pub from: String,
    /// Who must act.
    pub assignee: Assignee,
    /// What it is about.
    pub subject: Subject,
    /// A slug of an issue's title; empty for other events.
    pub brief: String,
    /// The facts of the event, bounded in size. Their texts are of the forge: data, never instructions.
    pub context: Map<String, Value>,
    /// The forge.
    pub source: Forge,
    /// The forge's own time of the event.
    pub happened_at: DateTime<Utc>,
    /// What makes the event this one: a repetition under another delivery id has the same key.
    pub key: String,
    /// Whether the delivery names the assignee among others, of whom it does not say which one was asked now.
    pub is_among_others: bool,
    /// Whether the forge says that the commit of a build is the newest one of an open pull request.
    pub is_head: bool,
}

impl ToolchainEvent {
    /// What it asks for.
    pub const fn action_type(&self) -> ActionType {
        self.event_type.action()
    }

    /// Whether it is accepted without a report.
    pub const fn is_notice(&self) -> bool {
        matches!(self.event_type, EventType::PullRequestMerged | EventType::InfrastructureFailure)
    }

    fn place(&self) -> Place<'_> {
        let Self { source, subject, brief, .. } = self;
        Place { forge: *source, subject, brief }
    }

    /// Whether the forge can ask for the same again, with the same key and a later time: a build of the same commit that is
    /// started again, and commits that are pushed again after others took their place.
    pub const fn can_repeat(&self) -> bool {
        matches!(
            self.event_type,
            EventType::ReviewRequested
                | EventType::IssueAssigned
                | EventType::CommitsPushed
                | EventType::CiFailed
        )
    }

    /// The commit whose build failed; none of another event, and where the delivery names none.
    pub fn failed_commit(&self) -> Option<&str> {
        failed_commit(self.action_type(), &self.context)
    }

    /// The same commits for a reviewer that the delivery does not name.
    #[must_use]
    pub fn for_reviewer(&self, login: &str) -> Self {
        let assignee = Assignee::Account(login.to_owned());
        let of_all = self.key.strip_suffix(&self.assignee.to_string()).unwrap_or(&self.key);
        let mut event = Self { key: format!("{of_all}{assignee}"), assignee, ..self.clone() };
        event.context.insert("reviewer".to_owned(), Value::from(login));
        event
    }

    /// The payload of its task, with steps in a language. The guidance of a mention is a template, which is rendered with it.
    pub fn payload(&self, language: Language) -> TaskPayload {
        TaskPayload {
            event_type: self.event_type.to_string(),
            action_type: self.action_type().to_string(),
            steps: steps(self.event_type, language, Some(&self.place())),
            from: self.from.clone(),
            context: self.context.clone(),
            source: self.source.to_string(),
        }
    }

    /// Adds the files that the pull request changes, at most [`MAX_CHANGED_FILES`], and the risk of all of them.
    pub fn set_changed_files(&mut self, files: &[String], rules: &RiskRules) {
        let level = rules.level(files.iter().map(String::as_str));
        let shown = files.get(..MAX_CHANGED_FILES).unwrap_or(files);
        self.context.insert("risk_level".to_owned(), Value::from(level.as_str()));
        self.context.insert("changed_files".to_owned(), Value::from(shown));
    }

    /// Names the checks of a build that failed, with what each says. Deliveries of most forges name the workflow only.
    pub fn set_failed_checks(&mut self, checks: &[FailedCheck]) {
        let said = self.context.get("error_summary").and_then(Value::as_str).unwrap_or_default();
        let mut lines = vec![said.to_owned()];
        lines.extend(checks.iter().map(|FailedCheck { name, says }| match says.as_str() {
            "" => name.clone(),
            says => format!("{name}: {says}"),
        }));
        lines.retain(|line| !line.is_empty());
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        self.context.insert("failed_jobs".to_owned(), Value::from(names));
        let summary = cut(&lines.join("\n"), MAX_SUMMARY);
        self.context.insert("error_summary".to_owned(), Value::from(summary));
    }

    /// Whether the comments on lines of its review are still to be asked for.
    pub fn lacks_line_comments(&self) -> bool {
        self.context.get(LINE_COMMENTS).is_some_and(Value::is_null)
    }

    /// Adds the comments on lines of its review, at most 20.
    pub fn set_line_comments(&mut self, comments: &[LineComment]) {
        let shown = comments.iter().take(MAX_LINE_COMMENTS).map(|LineComment { path, line, body }| {
            json!({"path": one_line(path), "line": line, "body": cut(body, MAX_LINE_COMMENT)})
        });
        self.context.insert(LINE_COMMENTS.to_owned(), Value::Array(shown.collect()));
    }

    /// Whether the newest commit of its pull request is still to be asked for.
    pub fn lacks_head(&self) -> bool {
        self.context.get(HEAD).is_some_and(Value::is_null)
    }

    /// Adds the newest commit of its pull request.
    pub fn set_head(&mut self, commit: &str) {
        self.context.insert(HEAD.to_owned(), Value::from(commit));
    }

    /// Names the open pull request whose newest commit was built. Its author acts; the delivery names at most its number.
    pub fn set_pull(&mut self, number: u64, branch: &str, author: String) {
        (self.subject.number, self.subject.is_pull_request) = (Some(number), true);
        self.is_head = true;
        self.context.insert("pr_number".to_owned(), Value::from(number));
        self.context.insert("branch".to_owned(), Value::from(branch));
        self.assignee = Assignee::Account(author);
    }
}

/// The commit whose build failed, by what a task asks for and its context.
pub fn failed_commit(action: ActionType, context: &Map<String, Value>) -> Option<&str> {
    let commit = context.get("commit_sha").and_then(Value::as_str);
    commit.filter(|commit| action == ActionType::CiFailure && !commit.is_empty())
}

/// A status or a check run of a commit that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// Its name, one line.
    pub name: String,
    /// What it says, one line; may be empty.
    pub says: String,
}

impl FailedCheck {
    /// A check by the words of the forge.
    pub fn new(name: &str, says: &str) -> Self {
        Self { name: one_line(name), says: one_line(says) }
    }
}

/// A comment on a line of a pull request. Its texts are of the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineComment {
    /// The file.
    pub path: String,
    /// The line, where the forge names it.
    pub line: Option<u64>,
    /// The text.
    pub body: String,
}

/// Who must act on an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Assignee {
    /// The agent of an account of the forge.
    Account(String),
    /// An agent with a role.
    Role(Role),
}

impl Assignee {
    /// The account; none for a role.
    pub fn account(&self) -> Option<&str> {
        match self {
            Self::Account(login) => Some(login),
            Self::Role(_) => None,
        }
    }
}

impl fmt::Display for Assignee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(login) => write!(f, "account {login}"),
            Self::Role(role) => write!(f, "role {role}"),
        }
    }
}

words! {
    /// Why a delivery asks for nothing.
    Ignored {
        /// The event is none that becomes a task.
        EventUnknown = "event_unknown",
        /// The action of the event is none that becomes a task, such as a label.
        ActionUnknown = "action_unknown",
        /// The forge tests the hook.
        Ping = "ping",
        /// The service wrote the comment or the issue itself.
        OwnComment = "own_comment",
        /// The author of the pull request acted on it.
        OwnPullRequest = "own_pull_request",
        /// A review of GitHub without a result, and without a text.
        ReviewWithoutText = "review_without_text",
        /// A draft is reviewed when it is ready.
        DraftPullRequest = "draft_pull_request",
        /// The pull request was closed and not merged.
        ClosedWithoutMerge = "closed_without_merge",
        /// The request for a review was taken back.
        ReviewRequestRemoved = "review_request_removed",
        /// The issue is not the assignee's any more.
        Unassigned = "unassigned",
        /// The build or the deployment did not fail.
        NotFailed = "not_failed",
        /// The build belongs to no account.
        NoAccount = "no_account",
        /// A comment on an issue that mentions no account.
        NoMention = "no_mention",
    }
}
