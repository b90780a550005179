//! The conformance rows about decisions, control and fuses, asked in process.

use surety_e2e::conformance::{check_all, decision, rows, runtime};

#[test]
fn every_decision_row_holds() {
    let checked = check_all("decision.jsonl", decision::check_decision).unwrap();
    assert!(checked >= 90, "{checked} rows");
}

#[test]
fn every_control_row_holds() {
    let checked = check_all("control.jsonl", decision::check_control).unwrap();
    assert!(checked >= 30, "{checked} rows");
}

#[test]
fn every_row_about_a_fuse_holds() {
    let failed: Vec<String> = rows("runtime.jsonl")
        .unwrap()
        .iter()
        .filter_map(|row| {
            let message = runtime::check_fuse(row)?.err()?;
            Some(format!("{}: {message}", row.id))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
