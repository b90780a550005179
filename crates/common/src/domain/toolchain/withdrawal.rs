//! What a forge asked for and does not want any more.

use super::action::ActionType;
use super::event::{Assignee, Ignored};
use super::forge::Forge;
use super::order::Placed;
use super::subject::Subject;
use chrono::{DateTime, Utc};

/// Requests that a forge withdrew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    /// Why, as the delivery is marked.
    pub reason: Ignored,
    /// The forge.
    pub source: Forge,
    /// What they are about.
    pub subject: Subject,
    /// Who is asked for nothing more.
    pub from: WithdrawnFrom,
    /// The forge's own time.
    pub happened_at: DateTime<Utc>,
}

/// Who is asked for nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithdrawnFrom {
    /// These accounts.
    Accounts(Vec<String>),
    /// All but these accounts.
    AllBut(Vec<String>),
}

impl Withdrawal {
    /// Whether it leaves nothing to do for what was asked at the time of `asked`, or before.
    pub fn covers(&self, asked: &Placed) -> bool {
        asked.happened_at <= self.happened_at && self.concerns(asked)
    }

    /// Whether it leaves nothing to do for an older event that arrives after it. One of the same time is the newer one:
    /// forges round to seconds, and send it later.
    pub fn covers_late(&self, event: &Placed) -> bool {
        event.happened_at < self.happened_at && self.concerns(event)
    }

    fn concerns(&self, asked: &Placed) -> bool {
        self.subject == asked.subject
            && self.is_about(asked.action)
            && self.is_from(&asked.assignee)
    }

    fn is_about(&self, action: ActionType) -> bool {
        match self.reason {
            Ignored::ClosedWithoutMerge => {
                action.is_review_task() || action == ActionType::CiFailure
            }
            Ignored::ReviewRequestRemoved => {
                matches!(action, ActionType::ReviewRequest | ActionType::ReviewUpdated)
            }
            Ignored::Unassigned => action == ActionType::IssueAssigned,
            Ignored::EventUnknown
            | Ignored::ActionUnknown
            | Ignored::Ping
            | Ignored::OwnComment
            | Ignored::OwnPullRequest
            | Ignored::ReviewWithoutText
            | Ignored::DraftPullRequest
            | Ignored::NotFailed
            | Ignored::NoAccount
            | Ignored::NoMention => false,
        }
    }

    fn is_from(&self, assignee: &Assignee) -> bool {
        let is_named = |logins: &[String]| {
            let account = assignee.account();
            account.is_some_and(|account| logins.iter().any(|it| it.eq_ignore_ascii_case(account)))
        };
        match &self.from {
            WithdrawnFrom::Accounts(logins) => is_named(logins),
            WithdrawnFrom::AllBut(logins) => !is_named(logins),
        }
    }
}
