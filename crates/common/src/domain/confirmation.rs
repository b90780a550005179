//! The confirmation of one tool call: which calls need it, what is shown to an approver, and the answer.
//!
//! ```text
//!   policy, step, annotations --ConfirmPolicy--> does this tool need it?
//!   executor --CallToConfirm--> wait of the step        the exact call, with one digest over call and plan
//!   planner  --CallResolution-----> receipt of the answer   who said what about that digest
//!   executor --ApprovedCall---> intent of the call      the approval is used up by the same change
//!   planner  --CallGrant------> intents of later calls  one use of the grant in the change of each
//! ```

pub use super::shown_call::{AnsweredAt, CallToConfirm};

use super::grant::{CallGrant, GRANT_USED};
use super::json::Value;
use super::plan::ToolCall;
use super::problem::{Code, Problem};
use super::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use super::shown_call::said;
use serde::{Deserialize, Serialize};

/// The name of the receipt of an answer to a confirmation.
pub const CONFIRMED: &str = "confirm_call";
/// The name of the receipt of an answer about a plan.
pub const PLAN_RESOLVED: &str = "approve_plan";
/// The name of the receipt of an answer to a question of a driver.
pub const ASKED: &str = "ask_user";

/// The most patterns in one list of tools.
pub const MAX_PATTERNS: usize = 100;
/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 100;

/// Which calls of a run need a confirmation, and what follows from a denied or missing one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfirmPolicy {
    /// Names of tools and patterns of such names, those of the namespace included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Whether calls of every tool that may destroy data need it.
    pub destructive: bool,
    /// Whether calls of every tool with effects outside the workspace need it.
    pub open_world: bool,
    /// What follows from a denied call.
    pub on_denied: OnDenied,
    /// What follows where no person answers in time.
    pub on_expired: OnExpired,
}

/// What follows from a denied call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// A driver that thinks decides on; a script's step fails.
    #[default]
    Continue,
    /// The run ends.
    Stop,
}

/// What follows where no person answers in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpired {
    /// The run ends.
    #[default]
    Stop,
    /// It counts as a denial.
    Continue,
}

/// The effects of a tool that policies ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolEffects {
    /// It changes nothing.
    pub read_only: bool,
    /// It may overwrite or remove existing data; without a meaning for a tool that only reads.
    pub destructive: bool,
    /// It may have effects outside the workspace.
    pub open_world: bool,
}

impl ConfirmPolicy {
    /// Whether no call needs a confirmation: neither the policy nor a step says that one does.
    pub fn covers_nothing(&self, named: &[String]) -> bool {
        !self.destructive && !self.open_world && self.tools.is_empty() && named.is_empty()
    }

    /// Whether each call of a tool needs a confirmation: by this policy, or by its step, `named`, which can only add
    /// tools.
    pub fn covers(&self, named: &[String], tool: &str, effects: ToolEffects) -> bool {
        let ToolEffects { read_only, destructive, open_world } = effects;
        self.destructive && destructive && !read_only
            || self.open_world && open_world
            || self.tools.iter().chain(named).any(|pattern| fits(pattern, tool))
    }
}

/// Whether a text has the form of a pattern, in which `*` stands for any characters and `?` for one.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    // The last `*`, and how much of the text it stands for so far.
    let (mut at, mut read, mut star) = (0, 0, None);
    while let Some(letter) = text.get(read) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(expected) if *expected == '?' || expected == letter => {
                at += 1;
                read += 1;
            }
            Some(_) | None => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    (at, read) = (place + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|letter| *letter == '*')
}

/// Looks at a list of patterns of tools, and leaves out blanks around them and repetitions.
///
/// # Errors
/// `too_large` for too many patterns and for a long one; `type_mismatch` for a blank one and for one that cannot be
/// the name of a tool.
pub fn read_tools(field: &str, patterns: Vec<String>) -> Result<Vec<String>, Problem> {
    if patterns.len() > MAX_PATTERNS {
        let message = format!("has more than {MAX_PATTERNS} entries; join some with `*`");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let mut read: Vec<String> = Vec::new();
    for (place, pattern) in patterns.iter().enumerate() {
        let pattern = pattern.trim();
        let at =
            |code, message: String| Err(Problem::at(code, format!("{field}[{place}]"), message));
        if pattern.len() > MAX_PATTERN {
            return at(Code::TooLarge, format!("is longer than {MAX_PATTERN} bytes; shorten it"));
        }
        let plain = |letter: char| {
            letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '*' | '?')
        };
        if pattern.is_empty() || !pattern.chars().all(plain) {
            let message = "is no name of a tool; use letters, digits, `_`, `-`, `.`, `*` and `?`";
            return at(Code::TypeMismatch, message.to_owned());
        }
        if !read.iter().any(|known| known == pattern) {
            read.push(pattern.to_owned());
        }
    }
    Ok(read)
}

/// The digest that a confirmation is bound to, SHA-256 in hexadecimal: over the tool, its canonical arguments and
/// the plan's digest.
pub fn call_digest(call: &ToolCall, plan_digest: &str) -> String {
    let shown = Value::Array(vec![
        Value::String(call.name.clone()),
        call.arguments.clone(),
        Value::String(plan_digest.to_owned()),
    ]);
    shown.digest()
}

/// An approved call that was not begun yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedCall {
    /// The call as it was shown.
    pub call: CallToConfirm,
    /// Who approved it.
    pub by: String,
}

/// What an approver said about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResolution {
    /// Who answered; none where the time for it passed.
    pub by: Option<String>,
    /// Whether the call may be made.
    pub approved: bool,
    /// A comment; may be empty.
    pub comment: String,
    /// What is granted beside an approval.
    pub grant: Option<CallGrant>,
}

impl CallResolution {
    const fn word(&self) -> &'static str {
        match (&self.by, self.approved) {
            (_, true) => "approve",
            (Some(_), false) => "deny",
            (None, false) => "expired",
        }
    }

    /// The answer in words, as it is journalled.
    pub fn text(&self) -> String {
        let word = self.word();
        let word = match &self.grant {
            None => word.to_owned(),
            Some(grant) => format!("{word} and grant {} uses", grant.uses),
        };
        match self.comment.as_str() {
            "" => word,
            comment => format!("{word}: {comment}"),
        }
    }

    /// What it means for the call, for the driver and for people.
    pub fn meaning(&self, call: &CallToConfirm) -> String {
        let CallToConfirm { tool, expires_at, .. } = call;
        let said = match (&self.by, self.approved) {
            (Some(by), true) => match &self.grant {
                None => format!("{by} approved the call of {tool}"),
                Some(CallGrant { id, uses, .. }) => {
                    format!("{by} approved the call of {tool} and granted {uses} uses as {id}")
                }
            },
            (Some(by), false) => format!("{by} denied the call of {tool}; it was not made"),
            (None, _) => format!(
                "no approver answered by {}; the call of {tool} was not made",
                expires_at.to_rfc3339()
            ),
        };
        match self.comment.as_str() {
            "" => said,
            comment => format!("{said}: {comment}"),
        }
    }

    /// Its receipt, without its place in the chain.
    pub fn receipt(&self, call: &CallToConfirm, answered: AnsweredAt<'_>) -> EvidenceReceipt {
        let mut facts = vec![
            output("answer", self.word().to_owned()),
            output("tool", call.tool.clone()),
            output("digest", call.digest.clone()),
        ];
        facts.extend(self.by.clone().map(|by| output("by", by)));
        let comment = Some(&self.comment).filter(|comment| !comment.is_empty());
        facts.extend(comment.map(|comment| output("comment", comment.clone())));
        facts.extend(self.grant.iter().flat_map(CallGrant::facts));
        EvidenceReceipt {
            arguments_digest: call.digest.clone(),
            success: self.approved,
            facts,
            ..said(EvidenceSource::Approval, CONFIRMED, self.meaning(call), answered)
        }
    }
}

/// The receipt of a person's answer about a plan, without its place in the chain.
pub fn plan_receipt(
    (by, approved, comment): (&str, bool, &str),
    plan_digest: &str,
    answered: AnsweredAt<'_>,
) -> EvidenceReceipt {
    let (did, answer) = if approved { ("approved", "approve") } else { ("rejected", "deny") };
    let mut facts = vec![
        output("answer", answer.to_owned()),
        output("digest", plan_digest.to_owned()),
        output("by", by.to_owned()),
    ];
    facts.extend((!comment.is_empty()).then(|| output("comment", comment.to_owned())));
    EvidenceReceipt {
        arguments_digest: plan_digest.to_owned(),
        success: approved,
        facts,
        ..said(EvidenceSource::Approval, PLAN_RESOLVED, format!("{by} {did} the plan"), answered)
    }
}

/// The receipt of a person's answer to the question with this digest, without its place in the chain.
pub fn reply_receipt(
    (by, answer): (&str, &str),
    digest: &str,
    answered: AnsweredAt<'_>,
) -> EvidenceReceipt {
    EvidenceReceipt {
        arguments_digest: digest.to_owned(),
        facts: vec![
            output("by", by.to_owned()),
            output("answer", answer.to_owned()),
            output("digest", digest.to_owned()),
        ],
        ..said(EvidenceSource::UserReply, ASKED, format!("{by} answered the question"), answered)
    }
}

/// Whether a receipt records what a person said, and no work.
pub fn is_said(receipt: &EvidenceReceipt) -> bool {
    match receipt.source {
        EvidenceSource::Approval => true,
        EvidenceSource::UserReply => receipt.name == ASKED,
        EvidenceSource::ToolObservation
        | EvidenceSource::WriteReceipt
        | EvidenceSource::Probe
        | EvidenceSource::ActionReport => false,
    }
}

/// Whether the planner records a receipt, because a person told it so: an answer, an approval, a revoked grant. What
/// the executor records is the use of a grant, and the word of a person about a call that it carried out.
pub fn is_told_to_planner(receipt: &EvidenceReceipt) -> bool {
    is_said(receipt) && receipt.name != GRANT_USED && receipt.outputs("by").next().is_some()
}

/// Whether what a person said is all that a receipt states: another fact would count as an observation of the runner's.
pub fn has_words_only(receipt: &EvidenceReceipt) -> bool {
    receipt.facts.iter().all(|fact| matches!(fact, Fact::Output { .. }))
}

/// Whether a receipt records that an answer did not come in time, which any service may find.
pub fn is_expiry(receipt: &EvidenceReceipt) -> bool {
    is_said(receipt) && !receipt.success && receipt.outputs("by").next().is_none()
}

fn output(key: &str, value: String) -> Fact {
    Fact::Output { key: key.to_owned(), value }
}

/// What follows from a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDenial {
    /// The driver decides on, and sees the denial.
    Continue,
    /// The step fails: a script cannot react.
    FailStep,
    /// The run ends with `confirmation_denied`.
    Stop,
}

impl AfterDenial {
    /// What follows under a policy. `thinks` says whether the driver can decide on, `stop` that the approver ends the
    /// run.
    pub const fn of(policy: &ConfirmPolicy, thinks: bool, stop: bool) -> Self {
        match (stop, policy.on_denied, thinks) {
            (true, _, _) | (false, OnDenied::Stop, _) => Self::Stop,
            (false, OnDenied::Continue, true) => Self::Continue,
            (false, OnDenied::Continue, false) => Self::FailStep,
        }
    }
}

/// What follows where the time for a confirmation has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterExpiry {
    /// The run ends with `confirmation_expired`.
    Stop,
    /// It counts as a denial.
    Denied(AfterDenial),
}

impl AfterExpiry {
    /// What follows under a policy. `thinks` says whether the driver can decide on.
    pub const fn of(policy: &ConfirmPolicy, thinks: bool) -> Self {
        match policy.on_expired {
            OnExpired::Stop => Self::Stop,
            OnExpired::Continue => Self::Denied(AfterDenial::of(policy, thinks, false)),
        }
    }
}

#[cfg(test)]
mod tests;
