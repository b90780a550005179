//! The verdict file: its schema, and whether a workspace is still what it is about.

use crate::support::{Ended, Home};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

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
fn named_commands_decide_tool_facts_with_their_scripts_of_the_start() {
    let checks = "verify: [{id: lint, kind: tool_fact, target: product.txt, params: {tool: lint}}]\n\
                  tools: {verify: {lint: {command: [sh, lint.sh, \"{scope}\"], timeout: 1m}}}\n";
    let files = [
        (".surety/checks.yaml", checks),
        ("lint.sh", "grep -q fixed \"$1\"\n"),
        ("product.txt", "broken\n"),
    ];
    let home = Home::with(&files);
    home.verify(&[]).is(2, "FAILED  lint").is(2, "the verification command `lint`");
    home.put("lint.sh", "true\n");
    home.verify(&[]).is(2, "check_inputs_changed");
    home.put("product.txt", "fixed\n");
    home.verify(&[]).is(0, "accepted");
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
    for (text, words) in [
        ("null", "its form is \"\", not \"surety verdict 1\""),
        ("{\"form\": null}", "its form is \"\""),
        ("{", "a.json is no verdict file: invalid JSON at byte 1"),
    ] {
        home.put("a.json", text);
        home.verify(&["--still", "a.json"]).is(1, words).is(1, "error[value_invalid]");
    }
    home.put("a.json", b"\xff");
    let ended = home.verify(&["--still", "a.json"]);
    ended.is(1, "error[");
    assert!(!ended.stderr.contains("stream did not"), "{ended:#?}");
    home.verify(&["--still", "nowhere.json"]).is(1, "error[file_unusable]");
    home.verify(&["--still", "nowhere"]).is(1, "error[run_unclear]");
}

const DOUBT: &str = "policy: {in_doubt: ask}\nverify: [python3 -m unittest]\n";
const PRODUCT: &str = "def two():\n    return 1\n";
const TESTS: &str = "import unittest\nfrom product import two\n\n\nclass T(unittest.TestCase):\n    def \
                     test_two(self):\n        self.assertEqual(two(), 2)\n";
/// The command weakens the test.
const WEAKEN: &str = "sed -i 's/(two(), 2)/(two(), 1)/' test_product.py";

fn doubtful() -> Home {
    Home::with(&[
        (".surety/checks.yaml", DOUBT),
        ("product.py", PRODUCT),
        ("test_product.py", TESTS),
        (".gitignore", "__pycache__\n"),
    ])
}

#[test]
fn a_verdict_counts_the_tests_that_its_checks_ran() {
    let home = doubtful();
    home.verify(&["--", "sed", "-i", "s/1/2/", "product.py"]).is(0, "unittest: 1 test");
    let verdict = home.verdict();
    assert_valid(&verdict);
    let results = verdict["results"].as_array().unwrap();
    let counted: Vec<_> = results.iter().filter_map(|it| it["probe"]["tests"].get(0)).collect();
    let expected = serde_json::json!(
        {"runner": "unittest", "ran": 1, "failed": 0, "skipped": 0, "missing": 0}
    );
    assert_eq!(counted, [&expected]);
    assert_eq!(verdict["approvals"], serde_json::json!([]));
}

#[test]
fn without_a_terminal_a_verdict_in_doubt_is_refused() {
    let home = doubtful();
    home.verify(&["--", "sh", "-c", WEAKEN]).is(2, "there was no person to ask");
    assert_valid(&home.verdict());
    assert_eq!(home.caution_codes(), ["check_inputs_changed"]);
}

#[test]
fn the_person_at_the_terminal_is_shown_the_difference_and_answers() {
    for (answer, code, says) in [("yes", 0, "accepted"), ("y", 2, "denied by")] {
        let home = doubtful();
        let command = format!("{} verify -- sh -c \"{WEAKEN}\"", env!("CARGO_BIN_EXE_surety"));
        let ended = on_a_terminal(&home, &command, ("Type yes to accept exactly this:", answer));
        ended.is(code, says);
        for shown in ["-        self.assertEqual(two(), 2)", "+        self.assertEqual(two(), 1)"]
        {
            assert!(ended.stdout.contains(shown), "{shown}: {ended:#?}");
        }
        let verdict = home.verdict();
        assert_valid(&verdict);
        let approvals = verdict["approvals"].as_array().unwrap();
        assert_eq!(approvals.len(), usize::from(code == 0), "{verdict:#}");
    }
}

/// Runs a line of shell on a terminal of its own, and answers once its question is seen.
fn on_a_terminal(home: &Home, line: &str, (question, answer): (&str, &str)) -> Ended {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", line, "/dev/null"]);
    script.current_dir(&home.workspace).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = home.environment(&mut script).spawn().unwrap();
    let (mut input, mut output) = (running.stdin.take().unwrap(), running.stdout.take().unwrap());
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let length = output.read(&mut part).unwrap();
        seen.extend(&part[..length]);
        if length == 0 || String::from_utf8_lossy(&seen).contains(question) {
            break;
        }
    }
    writeln!(input, "{answer}").unwrap();
    output.read_to_end(&mut seen).unwrap();
    let status = running.wait().unwrap();
    let stdout = String::from_utf8_lossy(&seen).replace("\r\n", "\n");
    Ended { code: status.code(), stdout, stderr: String::new() }
}
