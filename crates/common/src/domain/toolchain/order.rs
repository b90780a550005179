//! Events that arrive out of order, by the forge's own times.

use super::action::ActionType;
use super::event::Assignee;
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
    /// The forge's own time.
    pub happened_at: DateTime<Utc>,
}

/// The account whose review an event of this context is the result of; empty for another action.
pub fn reviewer_of(action: ActionType, context: &Map<String, Value>) -> &str {
    let reviewer = context.get("reviewer").and_then(Value::as_str);
    reviewer.filter(|_| action == ActionType::ReviewResult).unwrap_or_default()
}

/// The accounts that do not review what an event is about: the author of the pull request, and who pushed new commits.
pub fn authors_of(action: ActionType, from: &str, context: &Map<String, Value>) -> Vec<String> {
    let author = context.get("pr_author").and_then(Value::as_str);
    let pushed = Some(from).filter(|_| action == ActionType::ReviewUpdated);
    author.into_iter().chain(pushed).map(str::to_owned).collect()
}

/// Whether `newer` ends the open task of `older`, whichever of them arrived first. A merge ends the review
/// tasks of its pull request. Newer commits end an older review task of the same reviewer, a newer review
/// ends an older result of the same reviewer: another reviewer's request for changes stays. Builds end in
/// another order than their commits, so none ends the task about another.
pub fn supersedes(newer: &Placed, older: &Placed) -> bool {
    use ActionType::{ReviewMerged, ReviewRequest, ReviewResult, ReviewUpdated};
    if newer.subject != older.subject || newer.happened_at < older.happened_at {
        return false;
    }
    let is_later = newer.happened_at > older.happened_at && newer.assignee == older.assignee;
    match (newer.action, older.action) {
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
