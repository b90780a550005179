//! The conformance rows about verdicts and receipts, asked in process.

use surety_e2e::conformance::{check_all, gate};

#[test]
fn every_verdict_row_holds() {
    let checked = check_all("gate.jsonl", gate::check_evaluation).unwrap();
    assert!(checked >= 190, "{checked} rows");
}

#[test]
fn every_receipt_row_holds() {
    let checked = check_all("receipt.jsonl", gate::check_receipt).unwrap();
    assert!(checked >= 18, "{checked} rows");
}
