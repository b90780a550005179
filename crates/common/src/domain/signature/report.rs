//! What a check of a run's evidence says, and the mutable row that it is compared with.

use super::anchor::AnchoredVerdict;
use super::merkle::Digest;
use super::trust::TrustedKeys;
use crate::domain::journal::TaskHistory;
use crate::domain::receipt::{ChainFinding, ChainReport};

/// What the signatures of a run say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureStatus {
    /// All of it was signed by trusted keys, and is what was signed.
    Signed,
    /// A part was not signed, or no key is trusted; the text says which.
    Unsigned(String),
    /// Something is not what was signed; the text names the first such place.
    Broken(String),
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceReport {
    /// The chain, with every finding.
    pub chain: ChainReport,
    /// The number of receipts under a signature of a trusted key.
    pub signed_receipt_count: u64,
    /// What the signatures say.
    pub status: SignatureStatus,
    /// The verdicts with an anchor that fits them.
    pub anchors: Vec<AnchoredVerdict>,
}

impl EvidenceReport {
    /// Adds what the caller found to be missing; the first such place breaks the evidence.
    pub fn find(&mut self, message: String) {
        if !matches!(self.status, SignatureStatus::Broken(_)) {
            self.status = SignatureStatus::Broken(message.clone());
        }
        self.chain.findings.push(ChainFinding { seq: 0, message });
    }
}

/// The run's mutable row, as far as its signed evidence contradicts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// The state, as the contract spells it.
    pub state: String,
    /// The revision of the current plan.
    pub plan_revision: u32,
    /// The number of the newest event.
    pub sequence: i64,
    /// The [`progress_digest`](super::progress_digest) of the row.
    pub progress: Digest,
    /// The history of the run's task when its report was taken. None in an export, whose digest of the row covers it.
    pub history: Option<TaskHistory>,
}

pub(super) fn status(
    chain: &ChainReport,
    keys: Option<&TrustedKeys>,
    unsigned: Option<String>,
) -> SignatureStatus {
    if let Some(ChainFinding { seq, message }) = chain.findings.first() {
        return SignatureStatus::Broken(match seq {
            0 => message.clone(),
            seq => format!("receipt {seq}: {message}"),
        });
    }
    match (keys, unsigned) {
        (None, _) => SignatureStatus::Unsigned("no trusted keys are named".to_owned()),
        (Some(_), Some(why)) => SignatureStatus::Unsigned(why),
        (Some(_), None) => SignatureStatus::Signed,
    }
}
