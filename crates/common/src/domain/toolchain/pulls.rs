//! Pull requests and their reviews.

use super::action::EventType;
use super::event::{Assignee, HEAD, Ignored, LINE_COMMENTS, ToolchainEvent};
use super::forge::Forge;
use super::mention::Said;
use super::payload::Payload;
use super::reading::Reading;
use super::role::Role;
use super::source::{Occurrence, Source, context};
use super::subject::Subject;
use super::withdrawal::WithdrawnFrom;
use crate::domain::json::sha256_hex;
use crate::domain::problem::Problem;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

/// The part of a pull request that events need.
#[derive(Debug, Clone)]
pub(super) struct Pull {
    pub(super) subject: Subject,
    pub(super) title: String,
    pub(super) author: String,
    pub(super) branch: String,
    pub(super) head: String,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) address: String,
}

impl Pull {
    pub(super) fn read(source: &Source<'_>) -> Result<Self, Problem> {
        let payload = source.payload;
        let number = payload.number("/pull_request/number")?;
        Ok(Self {
            subject: source.subject(source.repo()?, Some(number), true),
            title: payload.title("/pull_request/title"),
            author: payload.login("/pull_request/user/login")?,
            branch: payload.title("/pull_request/head/ref"),
            head: payload.commit("/pull_request/head/sha")?,
            updated_at: payload.time(&["/pull_request/updated_at", "/pull_request/created_at"])?,
            address: payload.address("/pull_request/html_url"),
        })
    }

    fn occurrence(&self, event_type: EventType, from: String, mark: String) -> Occurrence {
        Occurrence {
            event_type,
            subject: self.subject.clone(),
            from,
            happened_at: self.updated_at,
            context: Map::new(),
            mark,
            brief: String::new(),
        }
    }

    fn named(&self) -> [(&'static str, Value); 3] {
        [
            ("pr_number", json!(self.subject.number)),
            ("repo", json!(self.subject.repo)),
            ("pr_title", json!(self.title)),
        ]
    }

    /// The address of the event, and that of the pull request beside it; of the pull request alone where the event has none.
    pub(super) fn addresses(&self, own: String) -> [(&'static str, Value); 2] {
        match own.as_str() {
            "" => [("source_url", json!(self.address)), ("pr_url", Value::Null)],
            _ => [("source_url", json!(own)), ("pr_url", json!(self.address))],
        }
    }
}

/// The event `pull_request`.
pub(super) fn pull_request(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let action = payload.text("/action");
    if payload.at("/review").is_some() && action == "reviewed" {
        return review(source);
    }
    let action = match action {
        "edited" if lost_draft_prefix(source) => "ready_for_review",
        other => other,
    };
    let pull = match action {
        "opened"
        | "reopened"
        | "ready_for_review"
        | "review_requested"
        | "review_request_removed"
        | "closed"
        | "synchronize"
        | "synchronized" => Pull::read(source)?,
        _ => return Ok(Reading::Ignored(Ignored::ActionUnknown)),
    };
    let from = payload.login("/sender/login")?;
    if action == "closed" {
        return merged(source, &pull, from);
    }
    if action == "review_request_removed" {
        return Ok(request_removed(source, &pull));
    }
    if payload.is("/pull_request/draft") {
        return Ok(Reading::Ignored(Ignored::DraftPullRequest));
    }
    match action {
        "synchronize" | "synchronized" => Ok(updated(source, &pull, &from)),
        // A request to a team names no reviewer and goes to the role.
        "review_requested" => {
            let reviewer = payload.optional_login("/requested_reviewer/login");
            Ok(requested(source, &pull, from, reviewer.into_iter().collect()))
        }
        _ => {
            let reading = requested(source, &pull, from, requested_reviewers(payload));
            Ok(with_described(source, &pull, reading))
        }
    }
}

/// Whether an edit took the prefix from the title that makes a draft of a pull request in Gitea and Forgejo, which have no
/// action of its own for that. The prefixes are those of their default setting `WORK_IN_PROGRESS_PREFIXES`, and those that
/// are often added to it. An edit of a title that had no prefix asks for no second review.
fn lost_draft_prefix(source: &Source<'_>) -> bool {
    const PREFIXES: [&str; 4] = ["wip:", "[wip]", "draft:", "[draft]"];
    let has_prefix = |pointer| {
        let title = source.payload.text(pointer).trim_start().to_lowercase();
        PREFIXES.iter().any(|prefix| title.starts_with(prefix))
    };
    source.forge != Forge::Github
        && has_prefix("/changes/title/from")
        && !has_prefix("/pull_request/title")
}

/// Adds the tasks of the accounts that the description mentions. The author and the requested reviewers act anyway.
fn with_described(source: &Source<'_>, pull: &Pull, reading: Reading) -> Reading {
    let Reading::Tasks(mut tasks) = reading else { return reading };
    let said = Said {
        source_type: "pull_request",
        address: source.payload.address("/pull_request/html_url"),
        mark: String::new(),
        text: source.payload.body("/pull_request/body"),
        author: pull.author.clone(),
        happened_at: pull.updated_at,
    };
    let acting: Vec<&str> = tasks.iter().filter_map(|task| task.assignee.account()).collect();
    let mentioned = said.tasks(source, pull.subject.clone(), &acting);
    tasks.extend(mentioned);
    Reading::Tasks(tasks)
}

fn merged(source: &Source<'_>, pull: &Pull, from: String) -> Result<Reading, Problem> {
    let payload = source.payload;
    if !payload.is("/pull_request/merged") {
        let from = (WithdrawnFrom::AllBut(Vec::new()), pull.updated_at);
        return Ok(source.withdrawn(Ignored::ClosedWithoutMerge, pull.subject.clone(), from));
    }
    let merged_by = payload.optional_login("/pull_request/merged_by/login");
    let mut occurrence = pull.occurrence(EventType::PullRequestMerged, from, String::new());
    occurrence.happened_at =
        payload.time(&["/pull_request/merged_at", "/pull_request/updated_at"])?;
    let [number, repo, title] = pull.named();
    occurrence.context = context([
        number,
        repo,
        title,
        ("pr_author", json!(pull.author)),
        ("merged_by", json!(merged_by.as_ref().unwrap_or(&occurrence.from))),
    ]);
    occurrence.add(pull.addresses(String::new()));
    Ok(source.tasks(&occurrence, [Assignee::Account(pull.author.clone())]))
}

/// A request to a team names no account: its task may be wanted for another reason, and stays.
fn request_removed(source: &Source<'_>, pull: &Pull) -> Reading {
    let reviewer = source.payload.optional_login("/requested_reviewer/login");
    let from = WithdrawnFrom::Accounts(reviewer.into_iter().collect());
    let when = (from, pull.updated_at);
    source.withdrawn(Ignored::ReviewRequestRemoved, pull.subject.clone(), when)
}

fn requested(source: &Source<'_>, pull: &Pull, from: String, reviewers: Vec<String>) -> Reading {
    let mut occurrence = pull.occurrence(EventType::ReviewRequested, from, pull.head.clone());
    let [number, repo, title] = pull.named();
    occurrence.context = context([
        number,
        repo,
        title,
        ("pr_author", json!(pull.author)),
        ("branch", json!(pull.branch)),
        ("head_sha", json!(pull.head)),
        // No payload names the files; `ToolchainEvent::set_changed_files` adds them.
        ("risk_level", Value::Null),
        ("changed_files", Value::Null),
    ]);
    occurrence.add(pull.addresses(String::new()));
    source.tasks(&occurrence, reviewers_or_role(reviewers, &pull.author))
}

fn updated(source: &Source<'_>, pull: &Pull, from: &str) -> Reading {
    let reviewers = requested_reviewers(source.payload);
    let assignees = reviewers_or_role(reviewers, &pull.author);
    let tasks = assignees.into_iter().map(|assignee| {
        let reviewer = match &assignee {
            Assignee::Account(login) => login.clone(),
            Assignee::Role(role) => role.to_string(),
        };
        let mut occurrence =
            pull.occurrence(EventType::CommitsPushed, from.to_owned(), pull.head.clone());
        let [number, repo, title] = pull.named();
        occurrence.context = context([
            number,
            repo,
            title,
            ("pr_author", json!(pull.author)),
            ("new_sha", json!(pull.head)),
            ("reviewer", json!(reviewer)),
        ]);
        occurrence.add(pull.addresses(String::new()));
        source.task(&occurrence, assignee)
    });
    Reading::Tasks(tasks.collect())
}

/// The event of a review: `pull_request_review` of GitHub, and Gitea's names by the result.
pub(super) fn review(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if !matches!(payload.text("/action"), "submitted" | "reviewed") {
        return Ok(Reading::Ignored(Ignored::ActionUnknown));
    }
    let word = payload.first_text(&["/review/state", "/review/type"]).to_ascii_lowercase();
    let (event_type, result) = match word.as_str() {
        "approved" | "pull_request_review_approved" => (EventType::ReviewApproved, "APPROVED"),
        "changes_requested" | "request_changes" | "pull_request_review_rejected" => {
            (EventType::ChangesRequested, "REQUEST_CHANGES")
        }
        _ => return commented(source),
    };
    let pull = Pull::read(source)?;
    let reviewer = reviewer(payload)?;
    let mut occurrence = pull.occurrence(event_type, reviewer.clone(), review_mark(payload, &pull));
    occurrence.happened_at = payload.time(&["/review/submitted_at", "/pull_request/updated_at"])?;
    let [number, repo, title] = pull.named();
    occurrence.context = context([
        number,
        repo,
        title,
        ("result", json!(result)),
        ("reviewer", json!(reviewer)),
        ("review_body", json!(review_text(payload))),
    ]);
    add_review(source, &pull, &mut occurrence);
    if event_type == EventType::ChangesRequested {
        occurrence.add([(HEAD, head_of(&pull.head))]);
    }
    let mut tasks = vec![source.task(&occurrence, Assignee::Account(pull.author.clone()))];
    tasks.extend(mentioned(source, &pull, &occurrence));
    Ok(Reading::Tasks(tasks))
}

/// The tasks of the accounts that the text of a review mentions, beside its author and that of the pull request.
fn mentioned(source: &Source<'_>, pull: &Pull, review: &Occurrence) -> Vec<ToolchainEvent> {
    let payload = source.payload;
    let address = payload.address("/review/html_url");
    let said = Said {
        source_type: "pull_request_review",
        // Gitea names no address of a review.
        address: if address.is_empty() {
            payload.address("/pull_request/html_url")
        } else {
            address
        },
        mark: review.mark.clone(),
        text: review_text(payload),
        author: review.from.clone(),
        happened_at: review.happened_at,
    };
    said.tasks(source, pull.subject.clone(), &[&pull.author])
}

/// A review without a result is a comment on the pull request.
fn commented(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let text = review_text(payload);
    if text.trim().is_empty() && source.forge == Forge::Github {
        // Its comments on lines arrive as events of their own.
        return Ok(Reading::Ignored(Ignored::ReviewWithoutText));
    }
    let pull = Pull::read(source)?;
    let commenter = reviewer(payload)?;
    if source.is_own(&commenter, &text) {
        return Ok(Reading::Ignored(Ignored::OwnComment));
    }
    let mark = review_mark(payload, &pull);
    let mut occurrence = pull.occurrence(EventType::ReviewComment, commenter.clone(), mark);
    occurrence.happened_at = payload.time(&["/review/submitted_at", "/pull_request/updated_at"])?;
    let [number, repo, title] = pull.named();
    occurrence.context = context([
        number,
        repo,
        title,
        ("commenter", json!(commenter)),
        ("comment_body", json!(text)),
        ("path", json!("")),
        ("line", Value::Null),
        (HEAD, head_of(&pull.head)),
    ]);
    add_review(source, &pull, &mut occurrence);
    let author = Assignee::Account(pull.author.clone());
    let asks_author = !commenter.eq_ignore_ascii_case(&pull.author);
    let mut tasks: Vec<_> =
        asks_author.then(|| source.task(&occurrence, author)).into_iter().collect();
    tasks.extend(mentioned(source, &pull, &occurrence));
    match tasks.is_empty() {
        true => Ok(Reading::Ignored(Ignored::OwnPullRequest)),
        false => Ok(Reading::Tasks(tasks)),
    }
}

/// Adds the addresses of a review. Gitea and Forgejo send one delivery for a review with all its comments on lines, and none of
/// them is in it: `ToolchainEvent::set_line_comments` adds them.
fn add_review(source: &Source<'_>, pull: &Pull, occurrence: &mut Occurrence) {
    occurrence.add(pull.addresses(source.payload.address("/review/html_url")));
    if source.forge != Forge::Github {
        occurrence.add([(LINE_COMMENTS, Value::Null)]);
    }
}

/// The newest commit of a pull request; null where the payload does not name it.
pub(super) fn head_of(commit: &str) -> Value {
    if commit.is_empty() { Value::Null } else { json!(commit) }
}

fn reviewer(payload: Payload<'_>) -> Result<String, Problem> {
    payload.login("/review/user/login").or_else(|_| payload.login("/sender/login"))
}

fn review_text(payload: Payload<'_>) -> String {
    let github = payload.body("/review/body");
    if github.is_empty() { payload.body("/review/content") } else { github }
}

/// GitHub numbers its reviews. Gitea's payload has no id: the commit, the reviewer, the time in seconds and the text
/// distinguish them.
fn review_mark(payload: Payload<'_>, pull: &Pull) -> String {
    match payload.number("/review/id") {
        Ok(id) => id.to_string(),
        Err(_) => format!(
            "{} {} {} {}",
            pull.head,
            payload.text("/sender/login"),
            pull.updated_at.timestamp(),
            sha256_hex(review_text(payload).as_bytes())
        ),
    }
}

fn requested_reviewers(payload: Payload<'_>) -> Vec<String> {
    let reviewers = payload.list("/pull_request/requested_reviewers");
    reviewers.filter_map(|reviewer| reviewer.optional_login("/login")).collect()
}

/// The reviewers that were asked by name, without the author; the role where there is none.
fn reviewers_or_role(mut reviewers: Vec<String>, author: &str) -> Vec<Assignee> {
    reviewers.retain(|reviewer| !reviewer.eq_ignore_ascii_case(author));
    reviewers.dedup();
    match reviewers.is_empty() {
        true => vec![Assignee::Role(Role::Reviewer)],
        false => reviewers.into_iter().map(Assignee::Account).collect(),
    }
}
