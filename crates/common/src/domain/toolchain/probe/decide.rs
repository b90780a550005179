//! What the answers of the forge mean.

use super::question::{ProbeQuestion, Wanted};
use super::{ChecksState, ProbeReason};
use chrono::{DateTime, Duration, Utc};

/// How much later than its event a review may be dated and still be the one of the event: forges round to seconds.
const ROUNDING: Duration = Duration::seconds(2);

/// What the forge says; what the question does not need is left as it is by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeFacts {
    /// Whether the pull request is merged.
    pub is_merged: bool,
    /// Whether the pull request is open.
    pub is_open: bool,
    /// The newest commit of the pull request or the branch.
    pub head: Option<String>,
    /// The newest commit at the event, or the one that the event was about.
    pub event_commit: Option<String>,
    /// The checks of the newest commit.
    pub checks: Option<ChecksState>,
    /// The reviews of the pull request.
    pub reviews: Vec<ReviewFact>,
    /// The times of the assignee's own comments.
    pub replies: Vec<DateTime<Utc>>,
    /// The pull requests that may refer to the issue.
    pub pulls: Vec<PullFact>,
    /// The times at which deployments to the environment succeeded.
    pub deployed: Vec<DateTime<Utc>>,
}

/// A submitted review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewFact {
    /// The account that wrote it.
    pub author: String,
    /// When it was submitted.
    pub at: DateTime<Utc>,
    /// The commit that it is about; empty where the forge names none.
    pub commit: String,
    /// Whether it approves or asks for changes.
    pub is_result: bool,
    /// Whether it asks for changes.
    pub asks_for_changes: bool,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFact {
    /// Its title and its text.
    pub text: String,
    /// Its branch.
    pub branch: String,
    /// Whether it is open or merged, and not closed otherwise.
    pub is_alive: bool,
}

/// What the forge shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// What the task asks for.
    Passed,
    /// Something is missing.
    Failed(ProbeReason),
}

impl Finding {
    const fn of(holds: bool, reason: ProbeReason) -> Self {
        if holds { Self::Passed } else { Self::Failed(reason) }
    }

    /// Whether the forge shows what the task asks for.
    pub const fn passed(self) -> bool {
        matches!(self, Self::Passed)
    }
}

/// Whether the forge shows what a task asks for.
pub fn decide(question: &ProbeQuestion, facts: &ProbeFacts) -> Finding {
    let ProbeQuestion { since, wanted, .. } = question;
    let is_newer = |at: &DateTime<Utc>| at >= since;
    let reviewed = |review: &ReviewFact| question.is_of(&review.author) && is_newer(&review.at);
    // The text of a review is a reply, too.
    let has_replied = || facts.replies.iter().any(is_newer) || facts.reviews.iter().any(reviewed);
    match wanted {
        Wanted::Merge { .. } => Finding::of(facts.is_merged, ProbeReason::NotMerged),
        Wanted::Push { .. } if facts.is_merged => Finding::Passed,
        Wanted::Push { .. } if !has_pushed(facts) => Finding::Failed(ProbeReason::NoPush),
        Wanted::Push { .. } => {
            let fails = facts.checks == Some(ChecksState::Failing);
            Finding::of(!fails, ProbeReason::ChecksFailing)
        }
        Wanted::Review { .. } => {
            let of_assignee = |review: &&ReviewFact| question.is_of(&review.author);
            let mut reviews = facts.reviews.iter().filter(of_assignee);
            let holds = reviews.any(|review| review.is_result && is_newer(&review.at));
            Finding::of(holds, ProbeReason::NoReview)
        }
        Wanted::Response { .. } => {
            Finding::of(has_replied() || has_pushed(facts), ProbeReason::NoResponse)
        }
        Wanted::PullRequest { issue } => {
            let refers = |pull: &PullFact| pull.is_alive && refers_to(pull, *issue);
            Finding::of(facts.pulls.iter().any(refers), ProbeReason::NoPullRequest)
        }
        Wanted::Deployment { .. } => {
            Finding::of(facts.deployed.iter().any(is_newer), ProbeReason::NoDeployment)
        }
        Wanted::Reply { .. } => Finding::of(has_replied(), ProbeReason::NoReply),
    }
}

/// Whether the assignee's own part is done and only CI or a reviewer is missing: then the clock of the report stops. Where
/// nothing but the report is missing it runs. None where the forge does not say what is missing, and the assignee's word counts.
pub fn own_part_holds(question: &ProbeQuestion, facts: &ProbeFacts) -> Option<bool> {
    let passed = decide(question, facts).passed();
    match &question.wanted {
        Wanted::Merge { .. } if facts.is_merged || !facts.is_open => Some(false),
        // A pull request cannot be merged before its checks have ended, or before reviewers that no forge names.
        Wanted::Merge { .. } => match facts.checks {
            Some(ChecksState::Pending) => Some(true),
            Some(ChecksState::Failing) => Some(false),
            Some(ChecksState::None | ChecksState::Passing) | None => None,
        },
        Wanted::Push { .. } if !passed || facts.is_merged => Some(false),
        Wanted::Push { reviewer: Some(reviewer), .. } => {
            Some(!has_reviewed_again(question.since, reviewer, facts))
        }
        // The build of the new commit has not ended, or not begun.
        Wanted::Push { reviewer: None, .. } => {
            Some(matches!(facts.checks, Some(ChecksState::Pending | ChecksState::None)))
        }
        Wanted::PullRequest { .. } => {
            Some(passed && !facts.is_merged && facts.checks != Some(ChecksState::Failing))
        }
        Wanted::Review { .. }
        | Wanted::Response { .. }
        | Wanted::Deployment { .. }
        | Wanted::Reply { .. } => Some(false),
    }
}

/// Whether the reviewer whose result the event was has given another one since.
fn has_reviewed_again(since: DateTime<Utc>, reviewer: &str, facts: &ProbeFacts) -> bool {
    facts.reviews.iter().any(|review| {
        review.is_result
            && review.author.eq_ignore_ascii_case(reviewer)
            && review.at > since + ROUNDING
    })
}

/// Another commit than that of the event is a push, whatever its date: the machine of the author sets that. Without a commit
/// of the event none is known.
fn has_pushed(facts: &ProbeFacts) -> bool {
    let both = facts.head.as_ref().zip(facts.event_commit.as_ref());
    both.is_some_and(|(head, event)| !is_same_commit(head, event))
}

/// Commits are the same where one is the beginning of the other.
fn is_same_commit(one: &str, other: &str) -> bool {
    let length = one.len().min(other.len());
    length >= 7 && one.get(..length) == other.get(..length)
}

/// The commit of the review that an event is about: the last one of the reviewer that asked for changes, and that is
/// not newer than the event.
pub fn reviewed_commit<'a>(
    reviews: &'a [ReviewFact],
    reviewer: &str,
    event_at: DateTime<Utc>,
) -> Option<&'a str> {
    let of_event = |review: &&ReviewFact| {
        review.asks_for_changes
            && review.author.eq_ignore_ascii_case(reviewer)
            && review.at <= event_at + ROUNDING
            && !review.commit.is_empty()
    };
    let last = reviews.iter().filter(of_event).max_by_key(|review| review.at);
    last.map(|review| review.commit.as_str())
}

/// Whether a pull request refers to an issue, by `#7` or the issue's address in its texts, or by its branch `fix/7-`.
pub fn refers_to(pull: &PullFact, issue: u64) -> bool {
    let number = issue.to_string();
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
    let names = |mark: &str| {
        let marked = format!("{mark}{number}");
        pull.text.match_indices(&marked).any(|(at, _)| is_end(&pull.text[at + marked.len()..]))
    };
    let of_branch = pull.branch.strip_prefix("fix/").and_then(|rest| rest.strip_prefix(&number));
    names("#") || names("/issues/") || of_branch.is_some_and(is_end)
}
