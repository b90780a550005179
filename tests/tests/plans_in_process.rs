//! Every conformance row about plans, patches and checks, asked of the rules themselves.

use surety_e2e::conformance::check_all;
use surety_e2e::conformance::plan::{check_checks, check_patch, check_plan};

#[test]
fn every_plan_row_has_its_written_outcome() {
    let checked = check_all("plan.jsonl", check_plan).unwrap();
    assert!(checked >= 80, "{checked} rows");
}

#[test]
fn every_patch_row_has_its_written_outcome() {
    let checked = check_all("patch.jsonl", check_patch).unwrap();
    assert!(checked >= 80, "{checked} rows");
}

#[test]
fn every_checks_row_has_its_written_outcome() {
    let checked = check_all("checks.jsonl", check_checks).unwrap();
    assert!(checked >= 100, "{checked} rows");
}
