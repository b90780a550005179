//! Hidden checks: who sees their receipts, and what others see of them.

use crate::domain::check::Owner;
use crate::domain::receipt::{EvidenceReceipt, EvidenceSource};

/// The names under which the runner records the commands of hidden checks, those of users and those of
/// operators: only owners and operators see such receipts and their outputs whole.
pub(super) const HIDDEN_CHECK: &str = "hidden_check";
pub(super) const OPERATORS_HIDDEN_CHECK: &str = "hidden_operator_check";
/// The reason of a hidden check that does not hold, whatever it failed by.
pub const HIDDEN_CHECK_FAILED: &str = "hidden_check_failed";
/// How a hidden check is called where the author of what it examines may read: its id can say what it examines.
pub const UNNAMED_HIDDEN_CHECK: &str = "a hidden check";

/// Which hidden checks a reader sees whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// None.
    Nothing,
    /// Those of the user that the run works for.
    OfUser,
    /// All of them.
    All,
}

impl Sight {
    /// Whether it covers the hidden checks of this owner.
    pub const fn covers(self, owner: Owner) -> bool {
        match (self, owner) {
            (Self::All, _) | (Self::OfUser, Owner::Plan | Owner::User) => true,
            (Self::OfUser, Owner::Operator) | (Self::Nothing, _) => false,
        }
    }

    /// Whether it covers a receipt.
    pub fn covers_receipt(self, receipt: &EvidenceReceipt) -> bool {
        hidden_owner(receipt).is_none_or(|owner| self.covers(owner))
    }
}

/// Whether a call of this name is the command of a hidden check.
pub fn is_hidden_name(name: &str) -> bool {
    matches!(name, HIDDEN_CHECK | OPERATORS_HIDDEN_CHECK)
}

/// Whose hidden check a receipt is of; none for any other receipt.
fn hidden_owner(receipt: &EvidenceReceipt) -> Option<Owner> {
    if receipt.source != EvidenceSource::Probe {
        return None;
    }
    match receipt.name.as_str() {
        HIDDEN_CHECK => Some(Owner::User),
        OPERATORS_HIDDEN_CHECK => Some(Owner::Operator),
        _ => None,
    }
}

/// A receipt as participants see it: of a hidden check only that it held or not. Its digest is that of the
/// whole one.
#[must_use]
pub fn concealed(receipt: EvidenceReceipt) -> EvidenceReceipt {
    if hidden_owner(&receipt).is_none() {
        return receipt;
    }
    let held = if receipt.success { "held" } else { "failed" };
    EvidenceReceipt {
        summary: format!("hidden check {held}"),
        facts: Vec::new(),
        output_digest: String::new(),
        started_at: None,
        finished_at: None,
        ..receipt
    }
}
