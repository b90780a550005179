//! The services that may sign a journal row.

use super::commit::Row;
use super::trust::Service;
use crate::domain::confirmation::{has_words_only, is_expiry, is_told_to_planner};
use crate::domain::receipt::EvidenceReceipt;

/// The services that may write a row: persons speak through the planner, everything else that is a receipt is the
/// runner's, and only the planner stores runs and plans.
pub(super) fn signers(commit: &Row<'_>) -> &'static [Service] {
    let stores = commit.signature.is_some_and(|signed| !signed.columns.is_empty());
    let owners = || commit.receipts.iter().flatten().map(|receipt| receipt_signers(receipt));
    let is_answered = commit.line.answers > 0 || commit.uncounted_answers > 0;
    let of_planner = stores || is_answered || owners().any(|owners| owners == [Service::Planner]);
    let of_executor = owners().any(|owners| owners == [Service::Executor]);
    match (of_planner, of_executor, commit.line.verdicts > 0) {
        (false, false, false) => &[Service::Planner, Service::Executor, Service::Gate],
        (true, false, false) => &[Service::Planner],
        (false, true, false) => &[Service::Executor],
        (false, false, true) => &[Service::Gate],
        _ => &[],
    }
}

/// The services that may record a receipt.
pub(super) fn receipt_signers(receipt: &EvidenceReceipt) -> &'static [Service] {
    match has_words_only(receipt) {
        true if is_expiry(receipt) => &[Service::Planner, Service::Executor, Service::Gate],
        true if is_told_to_planner(receipt) => &[Service::Planner],
        true | false => &[Service::Executor],
    }
}
