//! What the agent reads: nothing of hidden checks, and as much in the text as in the value.

use crate::client::{Called, Client};
use crate::flow::{broken, plan};
use crate::support::{Ended, Home};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::Stdio;

/// A hidden check, whose name and line say what it examines.
const HIDDEN: &str = "verify:\n  - {id: shown, kind: command_success, target: grep -q fixed product.txt}\n  - id: \
                      boundary-values\n    kind: command_success\n    target: sh held_back/of_zero.sh\n    overlay: \
                      {held_back/of_zero.sh: \"grep -q zero product.txt\"}\n";

/// Asserts that a text says nothing of the hidden check.
#[track_caller]
fn assert_unnamed(text: &str) {
    for word in ["boundary-values", "held_back", "of_zero"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

/// Everything that a call brought.
#[track_caller]
fn assert_called_unnamed(called: &Called) {
    assert_unnamed(&format!("{}\n{}", called.text, called.value));
}

#[test]
fn no_answer_names_a_hidden_check_of_the_user() {
    let home = Home::with(&[("product.txt", "broken\n")]);
    let outside = home.home.join("checks.yaml");
    fs::write(&outside, HIDDEN).unwrap();
    let mut client = Client::open(&home, &["--checks", outside.to_str().unwrap()]);
    let status = client.call("surety_status", json!({})).ok();
    assert_called_unnamed(&status);
    assert_eq!(
        (&status.value["hidden_checks"], status.value["checks"].as_array().unwrap().len()),
        (&json!(1), 1)
    );
    assert_called_unnamed(&client.call("surety_propose_plan", plan(json!(["product.txt"]))).ok());
    home.put("product.txt", "fixed\n");
    for tool in ["surety_check", "surety_verdict"] {
        let told = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "t"}});
        let called = Called::of(&client.request("tools/call", told)).ok();
        assert_eq!(called.failed(), ["a hidden check"], "{called:#?}");
        assert_called_unnamed(&called);
    }
    assert!(client.notifications.len() > 2, "{:?}", client.notifications);
    assert_unnamed(&json!(client.notifications).to_string());
    assert_called_unnamed(&client.call("surety_status", json!({})).ok());
    let mut hook = home.surety(&["--hook"]);
    hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = hook.spawn().unwrap();
    let input = json!({"hook_event_name": "Stop", "session_id": "s"}).to_string();
    hook.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let held = Ended::of(&hook.wait_with_output().unwrap());
    held.is(0, "a hidden check");
    assert_unnamed(&held.stdout);
    // The verdict file has the name for the person, and not what the check runs.
    let verdict = home.verdict();
    let mut results = verdict["results"].as_array().unwrap().iter();
    let hidden = results.find(|result| result["hidden"] == true).unwrap();
    assert_eq!(hidden["name"], "boundary-values");
    assert_eq!(hidden["target"], Value::Null);
    crate::flow::assert_valid(&verdict);
    let person = Ended::of(&home.command(&["contract", "show"]).output().unwrap());
    person.is(0, "boundary-values");
    home.put("product.txt", "fixed zero\n");
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    assert_called_unnamed(&verdict);
    client.end();
}

#[test]
fn a_hidden_check_whose_program_is_missing_is_not_named() {
    let home = Home::with(&[("product.txt", "broken\n")]);
    let outside = home.home.join("checks.yaml");
    fs::write(&outside, HIDDEN.replace("sh held_back", "of_zero_program held_back")).unwrap();
    let mut client = Client::open(&home, &["--checks", outside.to_str().unwrap()]);
    let refused = client.call("surety_check", json!({}));
    assert_called_unnamed(&refused);
    refused.fails("program_missing", "a hidden check");
    client.end();
}

/// The texts in a value that are longer than a word.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[test]
fn the_text_and_the_value_of_a_round_both_say_what_failed_why_and_what_to_do() {
    let checks = "verify:\n  - {id: built, kind: command_success, target: grep -q ready build/lib}\n  - {id: there, kind: \
                  file_exists, target: product.txt}\npolicy: {prepare: [\"sh setup.sh\"]}\n";
    let home = Home::with(&[
        (".surety/checks.yaml", checks),
        ("setup.sh", "echo the registry is away >&2\nexit 7\n"),
        ("product.txt", "one\n"),
    ]);
    let mut client = Client::open(&home, &[]);
    for tool in ["surety_check", "surety_verdict"] {
        let called = client.call(tool, json!({})).ok();
        let said = texts(&called.value);
        let in_value = |part: &str| said.iter().any(|text| text.contains(part));
        let next = called.value["what_next"].as_str().unwrap();
        for part in
            ["sh setup.sh", "the registry is away", "prepare_failed", "built", "there", next]
        {
            assert!(called.text.contains(part), "no {part:?} in the text: {called:#?}");
            assert!(in_value(part), "no {part:?} in the value: {called:#?}");
        }
        let file = called.value["verdict_file"].as_str();
        assert!(file.is_none_or(|file| called.text.contains(file)), "{called:#?}");
    }
    client.end();
}

#[test]
fn what_the_reader_assumed_of_a_proposal_stands_in_the_text_and_in_the_value() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let loose = json!([{"kind": "command", "target": "grep -q fixed product.txt"}]);
    let proposed = client.call("surety_propose_plan", plan(loose)).ok();
    for warning in proposed.value["warnings"].as_array().unwrap() {
        assert!(proposed.text.contains(warning.as_str().unwrap()), "{proposed:#?}");
    }
    client.end();
}

#[test]
fn the_status_shows_the_last_round_and_whether_the_workspace_is_still_what_it_saw() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    assert_eq!(client.call("surety_status", json!({})).ok().value.get("last_round"), None);
    client.call("surety_check", json!({})).ok();
    // Another connection of the agent, whose client gave the call up.
    client.end();
    let mut client = Client::open(&home, &[]);
    let status = client.call("surety_status", json!({})).ok();
    let last = &status.value["last_round"];
    assert_eq!((&last["accepted"], &last["still"]), (&json!(false), &json!(true)));
    assert_eq!(last["failed"][0]["probe"]["exit_code"], 1, "{last}");
    for part in ["FAILED  fixed", "surety_check", "is still what it saw"] {
        assert!(status.text.contains(part), "{part}: {status:#?}");
    }
    home.put("product.txt", "fixed\n");
    client.call("surety_verdict", json!({})).ok();
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["verdict"]["still"], true, "{status:#?}");
    // The next task: the verdict is about what was there before.
    home.put("product.txt", "fixed, and more\n");
    let status = client.call("surety_status", json!({})).ok();
    let both = (&status.value["verdict"]["accepted"], &status.value["verdict"]["still"]);
    assert_eq!(both, (&json!(true), &json!(false)));
    assert!(status.text.contains("the workspace changed since"), "{status:#?}");
    client.end();
}
