//! The file of a contract.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use surety_common::clock;

use super::checks::Checks;
use crate::failure::{Code, Failure};

/// Names the form of the file; another form has another name.
pub(super) const FORM: &str = "surety contract 1";
/// Events that are kept; older ones are dropped.
const MOST_EVENTS: usize = 500;

/// A contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// `FORM`.
    pub form: String,
    /// The absolute path of the workspace.
    pub workspace: String,
    /// When it was opened, RFC 3339.
    pub opened_at: String,
    /// What opened it: `surety mcp`, or the account of a person.
    pub opened_by: String,
    /// The revision as it was named; empty without a repository, and `HEAD` in one without a commit.
    pub base: String,
    /// The commit that it named at the opening; none without one. The start is then the copy that the store
    /// keeps.
    pub commit: Option<String>,
    /// The user's checks; none where the base has no checks file.
    pub checks: Option<Checks>,
    /// What the agent proposed; none before it did.
    pub proposal: Option<Proposal>,
    /// What the agent reported, by the ids of the steps. Claims: they decide nothing.
    #[serde(default)]
    pub reports: BTreeMap<String, Report>,
    /// What the agent asked a person.
    #[serde(default)]
    pub questions: Vec<Question>,
    /// How many verification rounds were carried out.
    #[serde(default)]
    pub rounds: u64,
    /// The last verdict.
    pub verdict: Option<Decided>,
    /// What happened, the latest last.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// A plan of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The number of the proposal, from 1.
    pub revision: u32,
    /// The plan as one JSON object, as it was read.
    pub plan: String,
}

/// How a step went, by the agent's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Work on it began.
    Started,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It waits for something outside.
    Blocked,
}

impl Outcome {
    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
        }
    }
}

/// What the agent reported about a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How the step went.
    pub outcome: Outcome,
    /// The agent's words.
    pub note: String,
    /// When.
    pub at: String,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its number, from 1.
    pub id: u32,
    /// The text.
    pub question: String,
    /// The answers to choose from; empty for a free text.
    #[serde(default)]
    pub options: Vec<String>,
    /// When it was asked.
    pub asked_at: String,
    /// The answer; none while it is open.
    pub answer: Option<String>,
    /// What gave the answer.
    pub answered_by: Option<String>,
}

/// A verdict about the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Whether it accepts.
    pub accepted: bool,
    /// `accepted`, or why not.
    pub stop_reason: String,
    /// The digest of the workspace that it is about.
    pub digest: String,
    /// Where the verdict file is.
    pub file: String,
    /// When.
    pub at: String,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The contract was opened.
    Opened,
    /// The agent proposed a plan.
    Proposed,
    /// A round was carried out without a verdict.
    Checked,
    /// A verdict was written.
    Decided,
    /// A connection ended, and no verdict is about the work that it left.
    EndedWithoutVerdict,
    /// A hook let an agent stop although the last verdict does not accept.
    StoppedRefused,
    /// A person closed the contract.
    Closed,
}

impl What {
    /// The text for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Proposed => "proposed a plan",
            Self::Checked => "checked",
            Self::Decided => "decided",
            Self::EndedWithoutVerdict => "ended without a verdict",
            Self::StoppedRefused => "stopped refused",
            Self::Closed => "closed",
        }
    }
}

/// One entry of what happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: String,
    /// What.
    pub what: What,
    /// In one line.
    pub detail: String,
}

impl Contract {
    /// What the workspace is compared with, for people.
    #[must_use]
    pub fn start(&self) -> String {
        self.commit.as_ref().map_or_else(
            || format!("the folder as it was at the opening ({})", self.no_revision()),
            |commit| format!("{} ({commit})", self.base),
        )
    }

    /// Why there is no revision to compare with.
    pub(super) fn no_revision(&self) -> &'static str {
        if self.base.is_empty() { "no git repository" } else { "a git repository without a commit" }
    }

    /// Adds an event.
    pub fn note(&mut self, what: What, detail: impl Into<String>) {
        self.events.push(Event { at: now(), what, detail: detail.into() });
        let surplus = self.events.len().saturating_sub(MOST_EVENTS);
        self.events.drain(..surplus);
    }

    /// Records the answer to a question.
    ///
    /// # Errors
    /// `value_invalid`: there is no such question, it has an answer, or the answer is none of its options.
    pub fn answer(&mut self, id: u32, answer: &str, by: &str) -> Result<(), Failure> {
        let invalid = |message: String, advice: String| {
            Err(Failure::new(Code::ValueInvalid, message, advice))
        };
        let Some(question) = self.questions.iter_mut().find(|question| question.id == id) else {
            let advice = "`surety contract show` lists them.".to_owned();
            return invalid(format!("the contract has no question {id}"), advice);
        };
        if question.answer.is_some() {
            return invalid(format!("question {id} has an answer"), String::new());
        }
        if !question.options.is_empty() && !question.options.iter().any(|option| option == answer) {
            let advice = format!("Its answers are: {}.", question.options.join(", "));
            return invalid(format!("{answer:?} is no answer to question {id}"), advice);
        }
        question.answer = Some(answer.to_owned());
        question.answered_by = Some(by.to_owned());
        Ok(())
    }
}

/// The time as files have it.
#[must_use]
pub fn now() -> String {
    stamp(clock::now())
}

fn stamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
