//! What the forge itself is asked about a task, and what its answers mean.
//!
//! ```text
//!   payload, account, time of the event --ProbeQuestion::of--> question   (or why none can be asked)
//!   question + facts of the forge ------decide---------------> passed, or failed with a reason
//!                                 \-----own_part_holds-------> whether only CI or a reviewer is missing
//! ```

use super::action::{ActionType, EventType};
use super::task::TaskPayload;
use super::words::words;
use chrono::{DateTime, Duration, Utc};
use serde_json::Value;
use std::fmt;

/// How much later than its event a review may be dated and still be the one of the event: forges round to seconds.
const ROUNDING: Duration = Duration::seconds(2);

words! {
    /// Why the forge does not show what a task asks for.
    ProbeReason {
        /// The pull request is not merged.
        NotMerged = "pull_request_not_merged",
        /// No commit was pushed after the event.
        NoPush = "no_new_push",
        /// A check of the newest commit fails.
        ChecksFailing = "checks_failing",
        /// The assignee submitted no review after the event.
        NoReview = "no_review",
        /// The assignee neither replied nor pushed after the event.
        NoResponse = "no_response",
        /// The assignee wrote no reply after the event.
        NoReply = "no_reply",
        /// No open or merged pull request refers to the issue.
        NoPullRequest = "no_pull_request",
        /// No deployment succeeded after the event.
        NoDeployment = "no_successful_deployment",
    }
}

words! {
    /// Why the forge is not asked.
    NotAsked {
        /// The task asks for nothing that a forge shows.
        NothingToShow = "nothing_to_show",
        /// The payload names no repository, number or branch.
        SubjectUnknown = "subject_unknown",
        /// The assignee has no account on the forge.
        AccountUnknown = "account_unknown",
        /// The API of this forge does not serve it.
        NotServed = "not_served",
        /// No forge with a credential is configured for the repository, or its probe is off.
        NotConfigured = "not_configured",
    }
}

words! {
    /// What an answer of the forge does.
    ProbeMode {
        /// A task that the forge does not show is refused.
        Required = "required",
        /// The answer is recorded, and refuses nothing.
        Recorded = "recorded",
        /// The forge is not asked.
        Off = "off",
    }
}

words! {
    /// The state of the checks of a commit.
    ChecksState {
        /// There are none.
        None = "none",
        /// None fails, and at least one has not ended.
        Pending = "pending",
        /// All ended and none failed.
        Passing = "passing",
        /// At least one failed.
        Failing = "failing",
    }
}

/// A question about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeQuestion {
    /// The repository, as `owner/name`.
    pub repo: String,
    /// The assignee's account on the forge.
    pub account: String,
    /// The forge's own time of the event: what is older does not count.
    pub since: DateTime<Utc>,
    /// What the forge has to show.
    pub wanted: Wanted,
}

/// What the forge has to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The pull request is merged.
    Merge {
        /// The pull request.
        number: u64,
    },
    /// A push that is newer than the event, without a failing check.
    Push {
        /// The pull request; none for a branch alone.
        number: Option<u64>,
        /// The branch, where there is no pull request.
        branch: String,
        /// The commit of the event, where the payload names it.
        commit: Option<String>,
        /// The account whose review asked for changes, where one did.
        reviewer: Option<String>,
    },
    /// A review by the assignee that approves or asks for changes.
    Review {
        /// The pull request.
        number: u64,
    },
    /// A reply by the assignee, or a push.
    Response {
        /// The pull request.
        number: u64,
    },
    /// An open or merged pull request that refers to the issue.
    PullRequest {
        /// The issue.
        issue: u64,
    },
    /// A successful deployment.
    Deployment {
        /// The environment; empty for any.
        environment: String,
    },
    /// A reply by the assignee.
    Reply {
        /// The issue or the pull request.
        number: u64,
    },
}

impl ProbeQuestion {
    /// The question about a task of an account. `since` is the time of the event by the forge's clock.
    ///
    /// # Errors
    /// Why none can be asked.
    pub fn of(
        payload: &TaskPayload,
        account: &str,
        since: DateTime<Utc>,
    ) -> Result<Self, NotAsked> {
        let action = ActionType::from_text(&payload.action_type).ok_or(NotAsked::NothingToShow)?;
        let facts = Context(payload);
        let wanted = match action {
            ActionType::ReviewResult => review_result(payload, facts)?,
            ActionType::ReviewRequest | ActionType::ReviewUpdated => {
                Wanted::Review { number: facts.number("pr_number")? }
            }
            ActionType::ReviewComment => Wanted::Response { number: facts.number("pr_number")? },
            ActionType::CiFailure => facts.failed_build()?,
            ActionType::IssueAssigned => {
                Wanted::PullRequest { issue: facts.number("issue_number")? }
            }
            ActionType::DeployFailure => {
                Wanted::Deployment { environment: facts.text("environment").to_owned() }
            }
            ActionType::Mention => Wanted::Reply { number: facts.mentioned()?.1 },
            ActionType::ReviewMerged | ActionType::InfrastructureFailure => {
                return Err(NotAsked::NothingToShow);
            }
        };
        let needs_account = matches!(
            wanted,
            Wanted::Review { .. } | Wanted::Response { .. } | Wanted::Reply { .. }
        );
        if account.is_empty() && needs_account {
            return Err(NotAsked::AccountUnknown);
        }
        let repo = repository_of(payload).ok_or(NotAsked::SubjectUnknown)?;
        Ok(Self { repo, account: account.to_owned(), since, wanted })
    }
}

/// The repository that a task is about, as `owner/name`: that of its context, else that of the address of a mention.
pub fn repository_of(payload: &TaskPayload) -> Option<String> {
    let facts = Context(payload);
    match facts.text("repo") {
        "" => facts.mentioned().ok().map(|(repo, _)| repo),
        repo => Some(repo.to_owned()),
    }
}

/// The number of the pull request or the issue that a task is about; none for a commit or a deployment.
pub fn number_of(payload: &TaskPayload) -> Option<u64> {
    let facts = Context(payload);
    let named = facts.number("pr_number").or_else(|_| facts.number("issue_number"));
    named.or_else(|_| facts.mentioned().map(|(_, number)| number)).ok()
}

fn review_result(payload: &TaskPayload, facts: Context<'_>) -> Result<Wanted, NotAsked> {
    let number = facts.number("pr_number")?;
    let is_approved = payload.event_type == EventType::ReviewApproved.as_str();
    Ok(match is_approved {
        true => Wanted::Merge { number },
        false => Wanted::Push {
            number: Some(number),
            branch: String::new(),
            commit: None,
            reviewer: Some(facts.text("reviewer").to_owned()).filter(|name| !name.is_empty()),
        },
    })
}

/// The context of a task, read by name.
#[derive(Clone, Copy)]
struct Context<'a>(&'a TaskPayload);

impl<'a> Context<'a> {
    fn text(self, name: &str) -> &'a str {
        self.0.context.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(self, name: &str) -> Result<u64, NotAsked> {
        let number = self.0.context.get(name).and_then(Value::as_u64);
        number.filter(|number| *number > 0).ok_or(NotAsked::SubjectUnknown)
    }

    fn failed_build(self) -> Result<Wanted, NotAsked> {
        let number = self.number("pr_number").ok();
        let branch = self.text("branch").to_owned();
        if number.is_none() && branch.is_empty() {
            return Err(NotAsked::SubjectUnknown);
        }
        let commit = Some(self.text("commit_sha").to_owned()).filter(|commit| !commit.is_empty());
        Ok(Wanted::Push { number, branch, commit, reviewer: None })
    }

    /// The repository and the number in the address of a comment, an issue or a pull request.
    fn mentioned(self) -> Result<(String, u64), NotAsked> {
        let address = self.text("source_url");
        let path = address.split(['#', '?']).next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let found = parts.windows(4).find_map(|part| {
            let &[owner, name, kind, number] = part else { return None };
            let is_kind = matches!(kind, "issues" | "pull" | "pulls");
            let number = number.parse::<u64>().ok().filter(|number| is_kind && *number > 0)?;
            (!owner.is_empty() && !name.is_empty()).then(|| (format!("{owner}/{name}"), number))
        });
        found.ok_or(NotAsked::SubjectUnknown)
    }
}

/// What the forge says; what the question does not need is left as it is by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeFacts {
    /// Whether the pull request is merged.
    pub is_merged: bool,
    /// The newest commit of the pull request or the branch.
    pub head: Option<HeadFact>,
    /// The commit that the event was about.
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

/// The newest commit of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadFact {
    /// The commit in hexadecimal.
    pub commit: String,
    /// The date that its author's machine gave it.
    pub committed_at: DateTime<Utc>,
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
    let ProbeQuestion { account, since, wanted, .. } = question;
    let is_newer = |at: &DateTime<Utc>| at >= since;
    let has_replied = facts.replies.iter().any(is_newer);
    match wanted {
        Wanted::Merge { .. } => Finding::of(facts.is_merged, ProbeReason::NotMerged),
        Wanted::Push { .. } if facts.is_merged => Finding::Passed,
        Wanted::Push { .. } if !has_pushed(*since, facts) => Finding::Failed(ProbeReason::NoPush),
        Wanted::Push { .. } => {
            let fails = facts.checks == Some(ChecksState::Failing);
            Finding::of(!fails, ProbeReason::ChecksFailing)
        }
        Wanted::Review { .. } => {
            let of_assignee = |review: &&ReviewFact| review.author.eq_ignore_ascii_case(account);
            let mut reviews = facts.reviews.iter().filter(of_assignee);
            let holds = reviews.any(|review| review.is_result && is_newer(&review.at));
            Finding::of(holds, ProbeReason::NoReview)
        }
        Wanted::Response { .. } => {
            let reviewed = |review: &ReviewFact| {
                review.author.eq_ignore_ascii_case(account) && is_newer(&review.at)
            };
            let responded = has_replied || facts.reviews.iter().any(reviewed);
            Finding::of(responded || has_pushed(*since, facts), ProbeReason::NoResponse)
        }
        Wanted::PullRequest { issue } => {
            let refers = |pull: &PullFact| pull.is_alive && refers_to(pull, *issue);
            Finding::of(facts.pulls.iter().any(refers), ProbeReason::NoPullRequest)
        }
        Wanted::Deployment { .. } => {
            Finding::of(facts.deployed.iter().any(is_newer), ProbeReason::NoDeployment)
        }
        Wanted::Reply { .. } => Finding::of(has_replied, ProbeReason::NoReply),
    }
}

/// Whether the assignee's own part is done, so that only CI or a reviewer is missing: reminders stop.
pub fn own_part_holds(question: &ProbeQuestion, facts: &ProbeFacts) -> bool {
    let fails = facts.checks == Some(ChecksState::Failing);
    decide(question, facts).passed() && !fails
}

/// Another commit than that of the event is newer, whatever its date; without a commit of the event its date decides.
fn has_pushed(since: DateTime<Utc>, facts: &ProbeFacts) -> bool {
    let Some(head) = &facts.head else { return false };
    match &facts.event_commit {
        Some(commit) => !is_same_commit(&head.commit, commit),
        None => head.committed_at > since,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_760_000_000 + 60 * minute, 0).expect("a time")
    }

    fn payload(event: EventType, context: Value) -> TaskPayload {
        let context: Map<String, Value> = context.as_object().expect("an object").clone();
        TaskPayload {
            event_type: event.to_string(),
            action_type: event.action().to_string(),
            steps: Vec::new(),
            from: "robin".to_owned(),
            context,
            source: "gitea".to_owned(),
        }
    }

    fn ask(event: EventType, context: Value) -> Result<ProbeQuestion, NotAsked> {
        ProbeQuestion::of(&payload(event, context), "alice", at(0))
    }

    fn review(author: &str, minute: i64, commit: &str, word: &str) -> ReviewFact {
        ReviewFact {
            author: author.to_owned(),
            at: at(minute),
            commit: commit.to_owned(),
            is_result: word != "comment",
            asks_for_changes: word == "changes",
        }
    }

    #[test]
    fn an_approved_review_asks_for_the_merge() {
        let question = ask(EventType::ReviewApproved, json!({"repo": "o/r", "pr_number": 7}));
        let question = question.expect("a question");
        assert_eq!(question.wanted, Wanted::Merge { number: 7 });
        let open = ProbeFacts::default();
        assert_eq!(decide(&question, &open), Finding::Failed(ProbeReason::NotMerged));
        let merged = ProbeFacts { is_merged: true, ..open };
        assert!(decide(&question, &merged).passed());
    }

    #[test]
    fn a_push_is_another_commit_than_that_of_the_event_whatever_its_date() {
        let context = json!({"repo": "o/r", "pr_number": 7, "reviewer": "robin"});
        let question = ask(EventType::ChangesRequested, context).expect("a question");
        let reviews = [
            review("robin", -30, "aaaaaaaa", "changes"),
            review("robin", 0, "bbbbbbbb", "changes"),
            review("robin", 20, "cccccccc", "changes"),
            review("alice", 1, "cccccccc", "changes"),
        ];
        let commit = reviewed_commit(&reviews, "Robin", at(0));
        assert_eq!(commit, Some("bbbbbbbb"));
        let head = |commit: &str, minute| {
            Some(HeadFact { commit: commit.to_owned(), committed_at: at(minute) })
        };
        let mut facts = ProbeFacts {
            event_commit: commit.map(str::to_owned),
            head: head("bbbbbbbb", 90),
            ..ProbeFacts::default()
        };
        assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
        facts.head = head("cccccccc", -90);
        for (checks, holds) in [
            (None, true),
            (Some(ChecksState::None), true),
            (Some(ChecksState::Pending), true),
            (Some(ChecksState::Passing), true),
            (Some(ChecksState::Failing), false),
        ] {
            facts.checks = checks;
            assert_eq!(decide(&question, &facts).passed(), holds, "{checks:?}");
            assert_eq!(own_part_holds(&question, &facts), holds, "{checks:?}");
        }
        facts = ProbeFacts { head: head("dddddddd", 5), ..ProbeFacts::default() };
        assert!(decide(&question, &facts).passed());
        facts.head = head("dddddddd", -5);
        assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
    }

    #[test]
    fn a_failed_build_is_asked_about_by_pull_request_or_branch() {
        let context =
            json!({"repo": "o/r", "pr_number": null, "branch": "main", "commit_sha": "abcdef0123"});
        let question = ask(EventType::CiFailed, context).expect("a question");
        let Wanted::Push { number: None, branch, commit, reviewer: None } = &question.wanted else {
            panic!("{question:?}")
        };
        assert_eq!((branch.as_str(), commit.as_deref()), ("main", Some("abcdef0123")));
        let facts = ProbeFacts {
            event_commit: commit.clone(),
            head: Some(HeadFact { commit: "abcdef0123456789".to_owned(), committed_at: at(9) }),
            ..ProbeFacts::default()
        };
        assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
        let none = ask(EventType::CiFailed, json!({"repo": "o/r"}));
        assert_eq!(none, Err(NotAsked::SubjectUnknown));
    }

    #[test]
    fn only_a_later_result_of_the_assignee_is_a_review() {
        let context = json!({"repo": "o/r", "pr_number": 7, "new_sha": "b"});
        let question = ask(EventType::CommitsPushed, context).expect("a question");
        for (review, holds) in [
            (review("alice", 1, "b", "approve"), true),
            (review("Alice", 1, "b", "changes"), true),
            (review("alice", 1, "b", "comment"), false),
            (review("alice", -1, "b", "approve"), false),
            (review("robin", 1, "b", "approve"), false),
        ] {
            let facts = ProbeFacts { reviews: vec![review.clone()], ..ProbeFacts::default() };
            assert_eq!(decide(&question, &facts).passed(), holds, "{review:?}");
        }
    }

    #[test]
    fn a_comment_is_answered_by_a_reply_or_a_push() {
        let question = ask(EventType::ReviewComment, json!({"repo": "o/r", "pr_number": 7}));
        let question = question.expect("a question");
        let none = ProbeFacts::default();
        assert_eq!(decide(&question, &none), Finding::Failed(ProbeReason::NoResponse));
        let old = ProbeFacts { replies: vec![at(-1)], ..ProbeFacts::default() };
        assert!(!decide(&question, &old).passed());
        let reply = ProbeFacts { replies: vec![at(1)], ..ProbeFacts::default() };
        assert!(decide(&question, &reply).passed());
        let in_review = ProbeFacts {
            reviews: vec![review("alice", 1, "b", "comment")],
            ..ProbeFacts::default()
        };
        assert!(decide(&question, &in_review).passed());
        let head = Some(HeadFact { commit: "c".to_owned(), committed_at: at(1) });
        assert!(decide(&question, &ProbeFacts { head, ..ProbeFacts::default() }).passed());
    }

    #[test]
    fn an_issue_is_answered_by_a_living_pull_request_that_refers_to_it() {
        let question = ask(EventType::IssueAssigned, json!({"repo": "o/r", "issue_number": 7}));
        let question = question.expect("a question");
        for (text, branch, is_alive, holds) in [
            ("Closes #7", "x", true, true),
            ("Closes #70", "x", true, false),
            ("see https://forge.example/o/r/issues/7.", "x", true, true),
            ("", "fix/7-totals", true, true),
            ("", "fix/7", true, true),
            ("", "fix/71-totals", true, false),
            ("Closes #7", "x", false, false),
        ] {
            let pull = PullFact { text: text.to_owned(), branch: branch.to_owned(), is_alive };
            let facts = ProbeFacts { pulls: vec![pull], ..ProbeFacts::default() };
            assert_eq!(decide(&question, &facts).passed(), holds, "{text} {branch}");
            let failing = ProbeFacts { checks: Some(ChecksState::Failing), ..facts };
            assert!(!own_part_holds(&question, &failing));
        }
    }

    #[test]
    fn a_mention_is_found_by_its_address_and_answered_by_a_reply() {
        for (address, repo, number) in [
            ("https://github.com/o/r/pull/12#discussion_r9", "o/r", 12),
            ("https://forge.example/sub/o/r/issues/3#issuecomment-1", "o/r", 3),
            ("https://forge.example/o/issues/issues/3", "o/issues", 3),
        ] {
            let question = ask(EventType::Mention, json!({"source_url": address}));
            let question = question.expect("a question");
            assert_eq!(
                (question.repo.as_str(), &question.wanted),
                (repo, &Wanted::Reply { number })
            );
            let none = ProbeFacts::default();
            assert_eq!(decide(&question, &none), Finding::Failed(ProbeReason::NoReply));
            let reply = ProbeFacts { replies: vec![at(0)], ..ProbeFacts::default() };
            assert!(decide(&question, &reply).passed());
        }
        let none = ask(EventType::Mention, json!({"source_url": ""}));
        assert_eq!(none, Err(NotAsked::SubjectUnknown));
    }

    #[test]
    fn notices_and_unknown_actions_are_not_asked_about() {
        for event in [EventType::PullRequestMerged, EventType::InfrastructureFailure] {
            assert_eq!(ask(event, json!({"repo": "o/r"})), Err(NotAsked::NothingToShow));
        }
        let mut other = payload(EventType::Mention, json!({}));
        other.action_type = "dance".to_owned();
        assert_eq!(ProbeQuestion::of(&other, "alice", at(0)), Err(NotAsked::NothingToShow));
        let review = payload(EventType::ReviewRequested, json!({"repo": "o/r", "pr_number": 7}));
        assert_eq!(ProbeQuestion::of(&review, "", at(0)), Err(NotAsked::AccountUnknown));
        let deployed =
            ask(EventType::DeploymentFailed, json!({"repo": "o/r", "environment": "prod"}));
        let deployed = deployed.expect("a question");
        let facts = ProbeFacts { deployed: vec![at(-1)], ..ProbeFacts::default() };
        assert_eq!(decide(&deployed, &facts), Finding::Failed(ProbeReason::NoDeployment));
        let facts = ProbeFacts { deployed: vec![at(2)], ..ProbeFacts::default() };
        assert!(decide(&deployed, &facts).passed());
    }
}
