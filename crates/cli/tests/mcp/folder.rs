//! Contracts of a folder that is in no git repository.

use crate::client::Client;
use crate::flow::assert_valid;
use crate::support::Home;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const CHECKS: &str = "verify:\n  - {id: tests, kind: command_success, target: sh test.sh}\n  - {id: changed, kind: \
                      workspace_change}\n";

/// A folder with a test and work to do, and a checks file outside of it.
fn broken() -> (Home, String) {
    let home = Home::without_git();
    home.put("test.sh", "grep -q fixed product.txt\n");
    home.put("product.txt", "broken\n");
    home.put("sub/deep/notes.txt", "notes\n");
    let checks = home.home.join("checks.yaml");
    fs::write(&checks, CHECKS).unwrap();
    (home, checks.to_str().unwrap().to_owned())
}

/// The copy of the opening.
fn copy(home: &Home) -> PathBuf {
    let contracts = fs::read_dir(home.home.join(".local/share/surety/contracts")).unwrap();
    let only: Vec<_> = contracts.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(only.len(), 1, "{only:?}");
    only[0].join("start")
}

#[test]
fn the_work_is_accepted_and_the_verdict_says_that_there_is_no_revision() {
    let (home, checks) = broken();
    let mut client = Client::open(&home, &["--checks", &checks]);
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["base"], json!({"revision": null, "commit": null}));
    assert!(status.text.contains("no git repository"), "{status:#?}");
    let checked = client.call("surety_check", json!({})).ok();
    assert_eq!(checked.failed(), ["tests", "changed"], "{checked:#?}");
    home.put("product.txt", "fixed\n");
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    assert!(verdict.caution_codes().contains(&"no_base_revision"), "{verdict:#?}");
    assert!(verdict.text.contains("1 path since the contract was opened"), "{verdict:#?}");
    let file = verdict.value["verdict_file"].as_str().unwrap();
    let written: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_valid(&written);
    assert_eq!(written["start"]["kind"], "opening");
    assert!(!client.end().contains("without a verdict"));
}

#[test]
fn checks_run_with_the_tests_of_the_opening_after_a_restart_too() {
    let (home, checks) = broken();
    Client::open(&home, &["--checks", &checks]).end();
    home.put("test.sh", "exit 0\n");
    fs::write(&checks, "verify: [product.txt]\n").unwrap();
    let mut client = Client::open(&home, &[]);
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.failed(), ["tests"], "{verdict:#?}");
    // A repository that the agent makes is no other start.
    home.git(&["init", "-q", "-b", "main"]);
    home.commit();
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.failed(), ["tests"], "{verdict:#?}");
    client.end();
}

#[test]
fn a_copy_of_the_start_that_was_altered_gives_no_verdict() {
    let (home, checks) = broken();
    let mut client = Client::open(&home, &["--checks", &checks]);
    let test = copy(&home).join("test.sh");
    fs::write(&test, "exit 0\n").unwrap();
    client.call("surety_verdict", json!({})).fails("verification_failed", "changed at test.sh");
    fs::remove_file(&test).unwrap();
    client.call("surety_verdict", json!({})).fails("verification_failed", "changed at test.sh");
    client.end();
}

#[test]
fn checks_of_the_folder_are_those_of_the_opening() {
    let home = Home::without_git();
    home.put(".surety/checks.yaml", "verify: [result.txt]\n");
    let mut client = Client::open(&home, &[]);
    home.put(".surety/checks.yaml", "verify: [.surety/checks.yaml]\n");
    let checked = client.call("surety_check", json!({})).ok();
    assert_eq!(checked.failed(), ["file_exists"], "{checked:#?}");
    home.put("result.txt", "done\n");
    let checked = client.call("surety_check", json!({})).ok();
    assert_eq!(checked.failed(), Vec::<&str>::new(), "{checked:#?}");
    client.end();
}

#[test]
fn a_repository_without_a_commit_is_compared_with_the_folder_as_it_was() {
    let home = Home::without_commit();
    home.put("test.sh", "grep -q fixed product.txt\n");
    home.put("product.txt", "broken\n");
    let checks = home.home.join("checks.yaml");
    fs::write(&checks, CHECKS).unwrap();
    let mut client = Client::open(&home, &["--checks", checks.to_str().unwrap()]);
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["base"], json!({"revision": null, "commit": null}));
    assert!(status.text.contains("a git repository without a commit"), "{status:#?}");
    // The first commit, and the changed test in it, change nothing.
    home.put("test.sh", "exit 0\n");
    home.commit();
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.failed(), ["tests"], "{verdict:#?}");
    home.put("product.txt", "fixed\n");
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    assert!(verdict.caution_codes().contains(&"no_base_revision"), "{verdict:#?}");
    client.end();
    let named = Home::without_commit();
    let refused = named.command(&["mcp", "--base", "HEAD"]).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("no commit yet") && errors.contains("--allow-empty"), "{errors}");
}

#[test]
fn a_named_revision_needs_a_repository() {
    let (home, _) = broken();
    let refused = home.command(&["mcp", "--base", "HEAD"]).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors.contains("error[revision_unknown]"), "{errors}");
}
