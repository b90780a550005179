//! Events that arrive out of order, by the forge's own times.

use super::action::ActionType;
use super::event::Assignee;
use super::subject::Subject;
use chrono::{DateTime, Utc};

/// What decides the order of an event among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it asks for.
    pub action: ActionType,
    /// What it is about.
    pub subject: Subject,
    /// Who must act.
    pub assignee: Assignee,
    /// The forge's own time.
    pub happened_at: DateTime<Utc>,
}

/// Whether `newer` ends the open task of `older`, whichever of them arrived first. A merge ends the review
/// tasks of its pull request. Newer commits end an older review task of the same reviewer, and a newer review
/// ends an older result for the same author.
pub fn supersedes(newer: &Placed, older: &Placed) -> bool {
    use ActionType::{ReviewMerged, ReviewRequest, ReviewResult, ReviewUpdated};
    if newer.subject != older.subject || newer.happened_at < older.happened_at {
        return false;
    }
    let is_later = newer.happened_at > older.happened_at && newer.assignee == older.assignee;
    match (newer.action, older.action) {
        (ReviewMerged, action) => action.is_review_task(),
        (ReviewUpdated, ReviewRequest | ReviewUpdated) | (ReviewResult, ReviewResult) => is_later,
        _ => false,
    }
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
