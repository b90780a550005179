//! The gate's rows, in process: the project's own, and those of a folder the environment names.

use surety_e2e::conformance::{gate, rows};

#[test]
fn every_evaluation_has_its_expected_outcome() -> anyhow::Result<()> {
    let failures = rows::failures("gate.jsonl", gate::run_evaluation)?;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[test]
fn every_receipt_reads_as_expected() -> anyhow::Result<()> {
    let failures = rows::failures("receipt.jsonl", gate::run_receipt)?;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}
