//! What a task asks of the forge.

use super::NotAsked;
use crate::domain::toolchain::action::{ActionType, EventType};
use crate::domain::toolchain::event::HEAD;
use crate::domain::toolchain::task::TaskPayload;
use chrono::{DateTime, Utc};
use serde_json::Value;

/// A question about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeQuestion {
    /// The repository, as `owner/name`.
    pub repo: String,
    /// The accounts on the forge whose work counts: those of the assignee.
    pub accounts: Vec<String>,
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
        /// The commit of the event, where it is known.
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
        /// The newest commit of the pull request at the event, where it is known.
        commit: Option<String>,
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
    /// The question about a task of these accounts. `since` is the time of the event by the forge's clock.
    ///
    /// # Errors
    /// Why none can be asked.
    pub fn of(
        payload: &TaskPayload,
        accounts: &[String],
        since: DateTime<Utc>,
    ) -> Result<Self, NotAsked> {
        let action = ActionType::from_text(&payload.action_type).ok_or(NotAsked::NothingToShow)?;
        let facts = Context(payload);
        let wanted = match action {
            ActionType::ReviewResult => review_result(payload, facts)?,
            ActionType::ReviewRequest | ActionType::ReviewUpdated => {
                Wanted::Review { number: facts.number("pr_number")? }
            }
            ActionType::ReviewComment => {
                Wanted::Response { number: facts.number("pr_number")?, commit: facts.commit(HEAD) }
            }
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
        if accounts.is_empty() && needs_account {
            return Err(NotAsked::AccountUnknown);
        }
        let repo = repository_of(payload).ok_or(NotAsked::SubjectUnknown)?;
        Ok(Self { repo, accounts: accounts.to_vec(), since, wanted })
    }

    /// Whether the work of an account counts.
    pub fn is_of(&self, account: &str) -> bool {
        self.accounts.iter().any(|it| it.eq_ignore_ascii_case(account))
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

fn review_result(payload: &TaskPayload, facts: Context<'_>) -> Result<Wanted, NotAsked> {
    let number = facts.number("pr_number")?;
    let is_approved = payload.event_type == EventType::ReviewApproved.as_str();
    Ok(match is_approved {
        true => Wanted::Merge { number },
        false => Wanted::Push {
            number: Some(number),
            branch: String::new(),
            commit: facts.commit(HEAD),
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

    fn commit(self, name: &str) -> Option<String> {
        Some(self.text(name).to_owned()).filter(|commit| !commit.is_empty())
    }

    fn failed_build(self) -> Result<Wanted, NotAsked> {
        let number = self.number("pr_number").ok();
        let branch = self.text("branch").to_owned();
        if number.is_none() && branch.is_empty() {
            return Err(NotAsked::SubjectUnknown);
        }
        Ok(Wanted::Push { number, branch, commit: self.commit("commit_sha"), reviewer: None })
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
