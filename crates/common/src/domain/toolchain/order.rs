//! Events that arrive out of order, by the forge's own times.

use super::action::ActionType;
use super::event::{Assignee, failed_commit};
use super::role::Role;
use super::subject::Subject;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

/// What decides the order of an event among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it asks for.
    pub action: ActionType,
    /// What it is about.
    pub subject: Subject,
    /// Who must act.
    pub assignee: Assignee,
    /// The account whose review it is the result of; empty for what is no result of a review.
    pub reviewer: String,
    /// The commit that is reviewed, that was pushed, or whose build failed; empty for none, and where it is not known.
    pub commit: String,
    /// The forge's own time.
    pub happened_at: DateTime<Utc>,
}

/// The account whose review an event of this context is the result of; empty for another action.
pub fn reviewer_of(action: ActionType, context: &Map<String, Value>) -> &str {
    let reviewer = context.get("reviewer").and_then(Value::as_str);
    reviewer.filter(|_| action == ActionType::ReviewResult).unwrap_or_default()
}

/// The commit that an event of this context is about; empty for none.
pub fn commit_of(action: ActionType, context: &Map<String, Value>) -> &str {
    let named = |name: &str| context.get(name).and_then(Value::as_str);
    let pushed = named("new_sha").or_else(|| named("head_sha"));
    pushed.or_else(|| failed_commit(action, context)).unwrap_or_default()
}

/// The accounts that do not review what an event is about: the author of the pull request, and who pushed new commits.
pub fn authors_of(action: ActionType, from: &str, context: &Map<String, Value>) -> Vec<String> {
    let author = context.get("pr_author").and_then(Value::as_str);
    let pushed = Some(from).filter(|_| action == ActionType::ReviewUpdated);
    author.into_iter().chain(pushed).map(str::to_owned).collect()
}

/// Whether `newer` ends the open task of `older`, whichever of them arrived first. A merge ends the review
/// tasks of its pull request. Newer commits end an older review task of the same reviewer, a newer review
/// ends an older result of the same reviewer: another reviewer's request for changes stays. A reviewer that is
/// named takes the place of the role that was asked for the review of the same commit. Builds end in another order
/// than their commits, so none ends the task about another.
pub fn supersedes(newer: &Placed, older: &Placed) -> bool {
    use ActionType::{ReviewMerged, ReviewRequest, ReviewResult, ReviewUpdated};
    if newer.subject != older.subject || newer.happened_at < older.happened_at {
        return false;
    }
    let is_later = newer.happened_at > older.happened_at && newer.assignee == older.assignee;
    let is_named = newer.assignee.account().is_some() && asks_for_same_review(newer, older);
    match (newer.action, older.action) {
        (ReviewRequest | ReviewUpdated, ReviewRequest | ReviewUpdated) if is_named => true,
        (ReviewMerged, action) => action.is_review_task(),
        (ReviewUpdated, ReviewRequest | ReviewUpdated) => is_later,
        (ReviewResult, ReviewResult) => {
            is_later && newer.reviewer.eq_ignore_ascii_case(&older.reviewer)
        }
        _ => false,
    }
}

/// Whether an open task asks its assignee already for what an event asks for.
pub fn asks_the_same(open: &Placed, event: &Placed) -> bool {
    use ActionType::{ReviewRequest, ReviewUpdated};
    let is_same = open.action == event.action
        || (open.action, event.action) == (ReviewUpdated, ReviewRequest);
    is_same && open.subject == event.subject && open.assignee == event.assignee
}

/// Whether one of two asks a named account for the review of a commit, and the other one the role of reviewers.
pub fn asks_for_same_review(one: &Placed, other: &Placed) -> bool {
    let is_review =
        |it: &Placed| matches!(it.action, ActionType::ReviewRequest | ActionType::ReviewUpdated);
    let is_role = |it: &Placed| it.assignee == Assignee::Role(Role::Reviewer);
    is_review(one)
        && is_review(other)
        && one.subject == other.subject
        && !one.commit.is_empty()
        && one.commit == other.commit
        && is_role(one) != is_role(other)
}

/// Whether an event is out of date when it arrives, by the events that arrived before it.
pub fn is_superseded<'a>(event: &Placed, known: impl IntoIterator<Item = &'a Placed>) -> bool {
    known.into_iter().any(|other| supersedes(other, event))
}

impl ActionType {
    /// Whether a merge of the pull request leaves nothing to do.
    pub const fn is_review_task(self) -> bool {
        matches!(
            self,
            Self::ReviewResult | Self::ReviewRequest | Self::ReviewUpdated | Self::ReviewComment
        )
    }
}
