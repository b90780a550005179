//! The verdict file: its schema, and whether a workspace is still what it is about.

use crate::support::Home;
use serde_json::Value;
use std::path::Path;

const CHECKS: &str = "title: The product is fixed\nverify:\n  - id: fixed\n    kind: command_success\n    \
                      target: grep -q fixed product.txt\n  - product.txt\n  - {kind: command_success, target: \"true\"}\n";

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdict.schema.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn assert_valid(verdict: &Value) {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<_> = validator.iter_errors(verdict).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{verdict:#}");
}

#[test]
fn every_verdict_has_the_published_form() {
    let files =
        [(".surety/checks.yaml", CHECKS), ("product.txt", "broken\n"), ("Makefile", "x:\n")];
    let home = Home::with(&files);
    home.verify(&[]).is(2, "FAILED  fixed");
    assert_valid(&home.verdict());
    home.verify(&["--unconfined", "--", "sh", "-c", "echo fixed > product.txt"]).is(0, "accepted");
    let verdict = home.verdict();
    assert_valid(&verdict);
    assert_eq!(verdict["title"], "The product is fixed");
    let codes = home.caution_codes();
    assert_eq!(codes, ["participant_unconfined", "thin_check"]);
    let printed = home.verify(&["--json", "--", "true"]);
    assert_valid(&serde_json::from_str(printed.stdout.trim()).unwrap());
    let mut other = verdict;
    other["surprise"] = true.into();
    assert!(!jsonschema::is_valid(&schema(), &other), "the schema names every field");
}

#[test]
fn a_workspace_is_still_what_a_verdict_is_about_until_it_changes() {
    let files =
        [(".surety/checks.yaml", CHECKS), ("product.txt", "fixed\n"), (".gitignore", "out/\n")];
    let home = Home::with(&files);
    home.verify(&[]).is(0, "accepted");
    let file = home.verdict_file();
    let still = |arguments: &[&str]| {
        home.verify(&[&["--still", file.to_str().unwrap()], arguments].concat())
    };
    still(&[]).is(0, "is still");
    // Ignored paths, times and git's own folder are no part of it.
    home.put("out/made", "x");
    home.put("product.txt", "fixed\n");
    home.commit();
    still(&[]).is(0, "is still");
    // The rules are those of the verdict.
    home.put(".git/info/exclude", "product.txt\n");
    home.put("product.txt", "broken\n");
    still(&[]).is(2, "changed since");
    let printed: Value = serde_json::from_str(still(&["--json"]).stdout.trim()).unwrap();
    assert_eq!(printed["still"], false);
    home.put("product.txt", "fixed\n");
    let elsewhere = home.home.join("gone");
    still(&["--workspace", elsewhere.to_str().unwrap()]).is(1, "error[file_unusable]");
}

#[test]
fn a_file_that_is_no_verdict_is_named() {
    let home = Home::with(&[("a.json", "{}"), (".surety/checks.yaml", CHECKS)]);
    home.verify(&["--still", "a.json"]).is(1, "error[value_invalid]");
    home.verify(&["--still", "nowhere.json"]).is(1, "error[file_unusable]");
    home.verify(&["--still", "nowhere"]).is(1, "error[run_unclear]");
}
