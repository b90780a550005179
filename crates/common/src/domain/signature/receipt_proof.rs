//! The signature of one receipt, apart from the other receipts of its group commit.

use super::commit::{Commit, receipt_leaf};
use super::key::{KeyId, SIGNATURE_BYTES};
use super::merkle::{Digest, path_root};
use super::report::{EvidenceReport, SignatureStatus, status};
use super::signers::receipt_signers;
use super::trust::TrustedKeys;
use crate::domain::receipt::{ChainFinding, EvidenceReceipt, check_chain};
use chrono::{DateTime, Utc};

/// What signs a receipt: the signature of its group commit, and the proof that the signed root includes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptProof {
    /// The key.
    pub key_id: KeyId,
    /// When it signed.
    pub signed_at: DateTime<Utc>,
    /// The signature over the statement about the root.
    pub signature: [u8; SIGNATURE_BYTES],
    /// The root.
    pub root: Digest,
    /// The index of the receipt's leaf, from 0.
    pub leaf_index: u32,
    /// The number of leaves under the root.
    pub leaf_count: u32,
    /// The siblings from the leaf up to the root.
    pub path: Vec<Digest>,
}

impl Commit {
    /// The number of each receipt of the row with its proof; none where the row has no signature that fits it.
    pub fn receipt_proofs(&self, run_id: &str) -> Vec<(u64, ReceiptProof)> {
        let Some(signature) = self.signature.as_ref() else { return Vec::new() };
        let (row, proof) = (self.as_row(), &signature.proof);
        let Some((root, paths)) = proof.paths(&row.leaves_in(run_id)) else { return Vec::new() };
        // The leaves of receipts come first.
        let receipts = self.receipts.iter().flatten().zip(paths);
        let proofs = (proof.first..).zip(receipts).map(|(leaf_index, (receipt, path))| {
            let proof = ReceiptProof {
                key_id: signature.key_id,
                signed_at: signature.signed_at,
                signature: signature.signature,
                root,
                leaf_index,
                leaf_count: proof.leaf_count,
                path,
            };
            (receipt.seq, proof)
        });
        proofs.collect()
    }
}

impl ReceiptProof {
    /// Checks it against trusted keys.
    ///
    /// # Errors
    /// Why it does not hold, in words.
    pub fn check(
        &self,
        keys: &TrustedKeys,
        run_id: &str,
        receipt: &EvidenceReceipt,
    ) -> Result<(), String> {
        let Self { key_id, signed_at, signature, root, leaf_index, leaf_count, path } = self;
        let leaf = receipt_leaf(run_id, receipt.seq, &receipt.digest);
        if path_root(leaf, (*leaf_index, *leaf_count), path).as_ref() != Some(root) {
            return Err("its inclusion proof does not fit it, or it is of another run".to_owned());
        }
        let of_root = (root, *leaf_count, *signed_at);
        keys.check_root((*key_id, signature), receipt_signers(receipt), of_root)
    }
}

/// A receipt as it was presented, or why it does not read, with its proof; none for a receipt without a signature.
pub type PresentedLink = (Result<EvidenceReceipt, String>, Option<ReceiptProof>);

/// Checks receipts from the first one on, each with its own proof. That there is none after the last cannot be seen.
pub fn check_receipts(
    run_id: &str,
    links: Vec<PresentedLink>,
    keys: Option<&TrustedKeys>,
) -> EvidenceReport {
    let (receipts, proofs): (Vec<_>, Vec<_>) = links.into_iter().unzip();
    let mut chain = check_chain(&receipts);
    let (mut unsigned, mut signed_receipt_count) = (None, 0);
    for (receipt, proof) in receipts.iter().zip(&proofs) {
        let Ok(receipt) = receipt else { continue };
        match (proof, keys) {
            (None, _) => {
                let why = || format!("receipt {} has no signature", receipt.seq);
                unsigned.get_or_insert_with(why);
            }
            (Some(_), None) => {}
            (Some(proof), Some(keys)) => match proof.check(keys, run_id, receipt) {
                Ok(()) => signed_receipt_count += 1,
                Err(message) => chain.findings.push(ChainFinding { seq: receipt.seq, message }),
            },
        }
    }
    let status = match proofs.iter().any(Option::is_some) {
        true => status(&chain, keys, unsigned),
        false => {
            let none = "the receipts came without signatures".to_owned();
            match status(&chain, keys, None) {
                SignatureStatus::Broken(place) => SignatureStatus::Broken(place),
                SignatureStatus::Signed | SignatureStatus::Unsigned(_) => {
                    SignatureStatus::Unsigned(none)
                }
            }
        }
    };
    EvidenceReport { chain, signed_receipt_count, status, anchors: Vec::new() }
}
