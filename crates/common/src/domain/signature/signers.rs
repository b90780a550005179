//! The services that may sign a journal row.

use super::commit::Row;
use super::trust::Service;
use crate::domain::confirmation::{has_words_only, is_expiry, is_told_to_planner};
use crate::domain::receipt::EvidenceReceipt;

/// The services that may write a row: persons speak through the planner, everything else that is a receipt is the
/// runner's, and only the planner stores runs and plans.
pub(super) fn signers(commit: &Row<'_>) -> &'static [Service] {
    let stores = commit.signature.is_some_and(|signed| !signed.columns.is_empty());
    let is_told =
        |receipt: &EvidenceReceipt| is_told_to_planner(receipt) && has_words_only(receipt);
    let is_expiry = |receipt: &EvidenceReceipt| is_expiry(receipt) && has_words_only(receipt);
    let receipts = || commit.receipts.iter().flatten().filter(|receipt| !is_expiry(receipt));
    let of_planner = stores || receipts().any(|receipt| is_told(receipt));
    let of_executor = receipts().any(|receipt| !is_told(receipt));
    match (of_planner, of_executor, commit.line.verdicts > 0) {
        (false, false, false) => &[Service::Planner, Service::Executor, Service::Gate],
        (true, false, false) => &[Service::Planner],
        (false, true, false) => &[Service::Executor],
        (false, false, true) => &[Service::Gate],
        _ => &[],
    }
}
