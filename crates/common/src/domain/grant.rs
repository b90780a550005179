//! A grant: a counted approval of calls of one tool in one run.
//!
//! ```text
//!   shown call, GrantTerms --CallGrant::new--> grant of the run      refused unless the shown call fits
//!   later call --covers--> use_grant, in the change that records the intent of the call
//!   RevokeGrant --> no later call is covered
//! ```
//!
//! An approval is bound to the digest of one call under one plan. A grant is bound to a pattern: it covers calls that
//! no person has seen. So every doubt about a value is a reason to ask.

mod rule;

pub use rule::{ArgumentRule, list_in_words};

use super::json::{self, Value};
use super::problem::{Code, Problem};
use super::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use super::shown_call::{AnsweredAt, CallToConfirm, said};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most grants that one run may have, those that have ended included: all of them stand in the run's row.
pub const MAX_GRANTS: usize = 100;
/// The most uses of one grant.
pub const MAX_USES: u32 = 1000;
/// The longest life of a grant, in seconds: 30 days.
pub const MAX_TTL_S: u64 = 30 * 24 * 3600;
/// The name of the receipt of one use of a grant.
pub const GRANT_USED: &str = "use_grant";
/// The name of the receipt of a revocation.
pub const GRANT_REVOKED: &str = "revoke_grant";
/// The key of the fact that names a grant in its receipts.
pub const GRANT: &str = "grant";
/// The key of the fact that counts a use, such as `2 of 3`.
pub const USE: &str = "use";

/// The most bytes of names and values of one grant: the run's row is written anew with every change.
const MAX_SIZE: usize = 4096;

/// What an approver grants beside the shown call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTerms {
    /// A pattern for each argument that may vary, by name: a glob for a string, and for a list of strings a JSON list of
    /// globs. Other arguments stay as they are shown.
    pub arguments: BTreeMap<String, String>,
    /// How many calls it covers, the shown one included: 1 to [`MAX_USES`].
    pub uses: u32,
    /// How long it lasts.
    pub ttl: TimeDelta,
}

/// A counted approval of calls of one tool in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallGrant {
    /// Its id: that of the wait whose answer made it, so that one answer makes at most one.
    pub id: Uuid,
    /// The tool.
    pub tool: String,
    /// What each argument must be, by name. A call with any other argument does not fit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, ArgumentRule>,
    /// How many calls it covers.
    pub uses: u32,
    /// How many it has covered; the shown call is the first.
    pub used: u32,
    /// The identity that made it.
    pub by: String,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// When it covers nothing any more.
    pub expires_at: DateTime<Utc>,
    /// Who revoked it, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// The end of a grant by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// The identity that revoked it.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// Whether a grant still covers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantState {
    /// It does.
    Open,
    /// Every use is used up.
    UsedUp,
    /// Its time has passed.
    Expired,
    /// It was revoked.
    Revoked,
}

impl GrantState {
    /// The state as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::UsedUp => "used up",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl CallGrant {
    /// The grant that an approver makes with the approval of the shown call, which is its first use.
    ///
    /// # Errors
    /// `grant_mismatch` where the shown call does not fit the patterns, `type_mismatch` for a pattern that is no glob,
    /// `too_large` for a long pattern and for a grant of more than 4,096 bytes, each with the path of the argument.
    pub fn new(
        id: Uuid,
        call: &CallToConfirm,
        terms: &GrantTerms,
        (by, now): (&str, DateTime<Utc>),
    ) -> Result<Self, Problem> {
        let shown = json::parse(&call.arguments_json).map_or(Value::Null, |parsed| parsed.value);
        let members = shown.as_object().unwrap_or_default();
        if let Some(name) = terms.arguments.keys().find(|name| shown.get(name).is_none()) {
            let message = "the shown call has no such argument; leave it out";
            return Err(Problem::at(Code::GrantMismatch, rule::path(name), message));
        }
        let mut arguments = BTreeMap::new();
        for (name, value) in members {
            let rule = match terms.arguments.get(name) {
                None => ArgumentRule::exact(value),
                Some(pattern) => rule::of(&call.tool, name, pattern, value)?,
            };
            arguments.insert(name.clone(), rule);
        }
        let size: usize = arguments.iter().map(|(name, rule)| name.len() + rule.size()).sum();
        if size > MAX_SIZE {
            let message = format!("has more than {MAX_SIZE} bytes of names and values; shorten it");
            return Err(Problem::at(Code::TooLarge, rule::PATTERNS, message));
        }
        Ok(Self {
            id,
            tool: call.tool.clone(),
            arguments,
            uses: terms.uses,
            used: 1,
            by: by.to_owned(),
            made_at: now,
            expires_at: now + terms.ttl,
            revoked: None,
        })
    }

    /// Whether it still covers calls.
    pub fn state(&self, now: DateTime<Utc>) -> GrantState {
        if self.revoked.is_some() {
            GrantState::Revoked
        } else if self.used >= self.uses {
            GrantState::UsedUp
        } else if self.expires_at <= now {
            GrantState::Expired
        } else {
            GrantState::Open
        }
    }

    /// Whether it covers a call: it is open, the call fits, and its maker is not the driver that asks.
    pub fn covers(&self, call: &CallToConfirm, now: DateTime<Utc>) -> bool {
        self.state(now) == GrantState::Open && self.by != call.asked_by && self.fits(call)
    }

    /// Whether a call has this tool and exactly these arguments, each as its rule says.
    fn fits(&self, call: &CallToConfirm) -> bool {
        if self.tool != call.tool {
            return false;
        }
        let Ok(json::Parsed { value, duplicate_key: false }) = json::parse(&call.arguments_json)
        else {
            return false;
        };
        let Some(members) = value.as_object() else { return false };
        members.len() == self.arguments.len()
            && members.iter().all(|(name, value)| {
                self.arguments.get(name).is_some_and(|rule| rule.fits(&self.tool, value))
            })
    }

    /// The receipt of its latest use, for a call, without its place in the chain.
    pub fn receipt_of_use(&self, call: &CallToConfirm, used: AnsweredAt<'_>) -> EvidenceReceipt {
        let Self { id, uses, used: count, by, .. } = self;
        let nth = format!("{count} of {uses}");
        let summary = format!("the grant {id} of {by} allows the call of {}: use {nth}", call.tool);
        EvidenceReceipt {
            arguments_digest: call.digest.clone(),
            facts: vec![
                Fact::of_output(GRANT, id.to_string()),
                Fact::of_output(USE, nth),
                Fact::of_output("tool", &call.tool),
                Fact::of_output("digest", &call.digest),
                Fact::of_output("by", by),
            ],
            ..said(EvidenceSource::Approval, GRANT_USED, summary, used)
        }
    }

    /// The receipt of its revocation, without its place in the chain.
    pub fn receipt_of_end(&self, by: &str, ended: AnsweredAt<'_>) -> EvidenceReceipt {
        let Self { id, uses, used, tool, .. } = self;
        let summary = format!("{by} revoked the grant {id} of {tool} after {used} of {uses} uses");
        EvidenceReceipt {
            facts: vec![Fact::of_output(GRANT, id.to_string()), Fact::of_output("by", by)],
            ..said(EvidenceSource::Approval, GRANT_REVOKED, summary, ended)
        }
    }

    /// Its terms as facts of the answer that made it.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![
            Fact::of_output(GRANT, self.id.to_string()),
            Fact::of_output(USE, format!("{} of {}", self.used, self.uses)),
            Fact::of_output("expires_at", self.expires_at.to_rfc3339()),
        ];
        let argument = |(name, rule): (&String, &ArgumentRule)| {
            Fact::of_output("argument", format!("{name}: {}", rule.in_words()))
        };
        facts.extend(self.arguments.iter().map(argument));
        facts
    }
}

#[cfg(test)]
mod tests;
