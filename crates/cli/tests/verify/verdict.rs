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
fn lines_of_the_policy_prepare_the_checks_and_are_named() {
    let checks = |line: &str| {
        format!(
            "verify: [{{kind: command_success, target: grep -q ready build/lib}}]\n\
             policy: {{prepare: [\"{line}\"]}}\n"
        )
    };
    let setup = "mkdir -p build && echo ready > build/lib\n";
    let good = checks("sh setup.sh");
    let files = [
        (".surety/checks.yaml", good.as_str()),
        ("setup.sh", setup),
        (".gitignore", "build/\n"),
        ("product.txt", "one\n"),
    ];
    let home = Home::with(&files);
    home.put("product.txt", "two\n");
    home.verify(&[]).is(0, "prepared  sh setup.sh");
    let verdict = home.verdict();
    assert_valid(&verdict);
    assert_eq!(verdict["prepared"][0]["line"], "sh setup.sh");
    assert_eq!(verdict["prepared"][0]["passed"], true);
    assert!(!home.exists("build"), "the view is prepared, and not the workspace");
    // The line is the one of the start, and so is its script.
    home.put("setup.sh", "exit 1\n");
    home.verify(&[]).is(0, "accepted");
    home.put(".surety/checks.yaml", checks("sh gone.sh"));
    home.commit();
    home.verify(&[]).is(2, "prepare_failed").is(2, "needs policy.prepare to succeed");
    assert_valid(&home.verdict());
}

#[test]
fn a_policy_refuses_a_command_that_was_not_confined() {
    let checks = format!("{CHECKS}policy: {{refuse_on: [participant_unconfined]}}\n");
    let home = Home::with(&[(".surety/checks.yaml", checks.as_str()), ("product.txt", "fixed\n")]);
    home.verify(&["--unconfined", "--", "true"]).is(2, "participant_unconfined");
    assert_valid(&home.verdict());
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
