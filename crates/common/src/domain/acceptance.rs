//! What a person is asked where a verdict is in doubt, and the answer.
//!
//! ```text
//!   executor --Difference--> receipt of the round     what the run did to check inputs, and the workspace's digest
//!   gate     --Acceptance--> wait of the run          the difference and the cautions, with one digest over both
//!   planner  --Resolution--> receipt of the answer    who said what about that digest
//!   gate     reads both: an approval counts for its own digest, and for no other
//! ```

use super::json::{Value, sha256_hex};
use super::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use super::verdict::Caution;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The check id under which the runner records the difference.
pub const DIFFERENCE_CHECK: &str = "system.difference";
/// The name of the receipt of an answer.
pub const RESOLVED: &str = "resolve_confirmation";
/// What a question says where an earlier approval no longer counts.
pub const APPROVAL_VOID: &str = "approval_void";

/// The keys of the facts.
const WORKSPACE: &str = "workspace";
const DIFFERENCE: &str = "difference";
const NOT_SHOWN: &str = "not_shown";
const ANSWER: &str = "answer";
const BY: &str = "by";
const DIGEST: &str = "digest";
const COMMENT: &str = "comment";

/// What a run did to check inputs, as the runner recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Difference {
    /// The digest of the workspace.
    pub workspace: String,
    /// SHA-256 of the text, in hexadecimal.
    pub digest: String,
    /// The call whose output is the text.
    pub call_id: String,
    /// What of it cannot be shown; empty when it is shown whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_shown: String,
}

impl Difference {
    /// The facts of its receipt; the text is the receipt's output.
    pub fn facts(workspace: &str, text: &[u8], not_shown: &str) -> Vec<Fact> {
        let mut facts = vec![
            Fact::of_output(WORKSPACE, workspace),
            Fact::of_output(DIFFERENCE, sha256_hex(text)),
        ];
        facts.extend((!not_shown.is_empty()).then(|| Fact::of_output(NOT_SHOWN, not_shown)));
        facts
    }

    /// The difference that the runner recorded in a round; none when it recorded none.
    pub fn of(receipts: &[EvidenceReceipt], round: u32) -> Option<Self> {
        let is_own = |receipt: &&EvidenceReceipt| {
            let probe = receipt.probe_of.as_ref();
            receipt.source == EvidenceSource::Probe
                && probe.is_some_and(|it| it.round == round && it.check_id == DIFFERENCE_CHECK)
        };
        let receipt = receipts.iter().rfind(is_own)?;
        let digest = receipt.outputs(DIFFERENCE).next()?.to_owned();
        let mut not_shown = receipt.outputs(NOT_SHOWN).next().unwrap_or_default().to_owned();
        if receipt.output_digest != digest {
            "its text could not be stored".clone_into(&mut not_shown);
        }
        let workspace = receipt.outputs(WORKSPACE).next()?.to_owned();
        Some(Self { workspace, digest, call_id: receipt.call_id.clone(), not_shown })
    }
}

/// What a person is asked to accept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Acceptance {
    /// The digest that an answer names.
    pub digest: String,
    /// What the run did to check inputs.
    pub difference: Difference,
    /// What is to be accepted.
    pub cautions: Vec<Caution>,
}

impl Acceptance {
    /// The question about a difference and the cautions of a verdict.
    pub fn new(difference: Difference, cautions: Vec<Caution>) -> Self {
        let text = |text: &str| Value::String(text.to_owned());
        let member = |key: &str, value| (key.to_owned(), value);
        let asked = cautions.iter().map(|caution| {
            Value::Object(vec![
                member("check", text(&caution.check)),
                member("code", text(&caution.code)),
                member("detail", text(&caution.detail)),
            ])
        });
        let whole = Value::Object(vec![
            member("cautions", Value::Array(asked.collect())),
            member("difference", text(&difference.digest)),
            member("workspace", text(&difference.workspace)),
        ]);
        Self { digest: whole.digest(), difference, cautions }
    }
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The identity that answered.
    pub by: String,
    /// Whether it approved.
    pub approved: bool,
    /// The digest of what was asked.
    pub digest: String,
    /// The digest of the workspace that was shown.
    pub workspace: String,
    /// A comment; may be empty.
    pub comment: String,
}

/// Where the receipt of an answer stands: the index after the last step, the plan's revision, the wait and the
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The number of steps.
    pub step_count: u32,
    /// The revision of the plan.
    pub plan_revision: u32,
    /// The wait that was answered.
    pub wait_id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
}

impl Resolution {
    /// The word for the answer.
    pub const fn word(&self) -> &'static str {
        if self.approved { "approve" } else { "deny" }
    }

    /// Its receipt, without its place in the chain.
    pub fn receipt(&self, answered: Answered) -> EvidenceReceipt {
        let mut facts = vec![
            Fact::of_output(ANSWER, self.word()),
            Fact::of_output(BY, &self.by),
            Fact::of_output(DIGEST, &self.digest),
            Fact::of_output(WORKSPACE, &self.workspace),
        ];
        facts.extend((!self.comment.is_empty()).then(|| Fact::of_output(COMMENT, &self.comment)));
        let did = if self.approved { "approved" } else { "denied" };
        EvidenceReceipt {
            step_index: answered.step_count,
            step_id: String::new(),
            plan_revision: answered.plan_revision,
            seq: 0,
            call_id: answered.wait_id.to_string(),
            probe_of: None,
            source: EvidenceSource::Approval,
            name: RESOLVED.to_owned(),
            arguments_digest: self.digest.clone(),
            success: self.approved,
            summary: format!("{} {did} the changed check inputs and the cautions", self.by),
            facts,
            output_digest: String::new(),
            sandbox: String::new(),
            started_at: Some(answered.at),
            finished_at: Some(answered.at),
            prev_digest: String::new(),
            digest: String::new(),
        }
    }

    /// The answer that a receipt records; none for any other receipt.
    pub fn of(receipt: &EvidenceReceipt) -> Option<Self> {
        if receipt.source != EvidenceSource::Approval || receipt.name != RESOLVED {
            return None;
        }
        let text = |key| receipt.outputs(key).next().map(str::to_owned);
        Some(Self {
            by: text(BY)?,
            approved: receipt.success && text(ANSWER)? == "approve",
            digest: text(DIGEST)?,
            workspace: text(WORKSPACE)?,
            comment: text(COMMENT).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::receipt::CheckProbe;

    fn caution(code: &str) -> Caution {
        let text = |text: &str| text.to_owned();
        Caution { code: text(code), check: text("make test"), detail: text("changed t (test)") }
    }

    fn difference(workspace: &str, digest: &str) -> Difference {
        let text = |text: &str| text.to_owned();
        Difference { workspace: text(workspace), digest: text(digest), ..Difference::default() }
    }

    #[test]
    fn another_workspace_difference_or_caution_is_another_question() {
        let asked = |workspace, digest, codes: &[&str]| {
            let cautions = codes.iter().map(|code| caution(code)).collect();
            Acceptance::new(difference(workspace, digest), cautions).digest
        };
        let first = asked("w", "d", &["check_inputs_changed"]);
        assert_eq!(first, asked("w", "d", &["check_inputs_changed"]));
        assert_ne!(first, asked("v", "d", &["check_inputs_changed"]));
        assert_ne!(first, asked("w", "e", &["check_inputs_changed"]));
        assert_ne!(first, asked("w", "d", &["check_inputs_changed", "no_tests_seen"]));
        assert_eq!(first.len(), 64);
    }

    fn answered() -> Answered {
        let at = DateTime::from_timestamp(7, 0).unwrap_or_default();
        Answered { step_count: 2, plan_revision: 1, wait_id: Uuid::from_u128(7), at }
    }

    #[test]
    fn an_answer_reads_back_from_its_receipt_and_from_no_other() {
        for (approved, comment) in [(true, ""), (false, "the test was weakened")] {
            let said = Resolution {
                by: "alice".to_owned(),
                approved,
                digest: "d".repeat(64),
                workspace: "w".to_owned(),
                comment: comment.to_owned(),
            };
            let receipt = said.receipt(answered());
            assert_eq!(Resolution::of(&receipt), Some(said));
            let forged = EvidenceReceipt { source: EvidenceSource::UserReply, ..receipt };
            assert_eq!(Resolution::of(&forged), None);
        }
    }

    #[test]
    fn a_difference_reads_back_from_the_round_and_is_not_shown_where_its_text_is_not_kept() {
        let said = Resolution {
            by: String::new(),
            approved: true,
            digest: String::new(),
            workspace: String::new(),
            comment: String::new(),
        };
        let recorded = |not_shown: &str, kept: bool| {
            let mut receipt = said.receipt(answered());
            receipt.source = EvidenceSource::Probe;
            receipt.facts = Difference::facts("w", b"text", not_shown);
            receipt.output_digest = if kept { sha256_hex(b"text") } else { String::new() };
            let check_id = DIFFERENCE_CHECK.to_owned();
            receipt.probe_of = Some(CheckProbe { check_id, round: 3, ..CheckProbe::default() });
            receipt
        };
        let found = |receipt, round| Difference::of(&[receipt], round);
        let whole = found(recorded("", true), 3).expect("a difference");
        assert_eq!((whole.workspace.as_str(), whole.not_shown.as_str()), ("w", ""));
        assert_eq!(whole.digest, sha256_hex(b"text"));
        assert_eq!(found(recorded("", true), 4), None);
        let binary = found(recorded("a.png is binary", true), 3).expect("a difference");
        assert_eq!(binary.not_shown, "a.png is binary");
        let lost = found(recorded("", false), 3).expect("a difference");
        assert!(!lost.not_shown.is_empty());
    }
}
