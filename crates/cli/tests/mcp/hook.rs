//! `surety verify --hook` as an agent's stop hook calls it.

use crate::client::Client;
use crate::flow::{broken, plan};
use crate::support::{Ended, Home};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

fn hook(home: &Home, arguments: &[&str], input: &Value) -> Ended {
    let mut command = home.surety(&[&["--hook"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    Ended::of(&child.wait_with_output().unwrap())
}

/// What the hook printed, which is one value of JSON and nothing else.
#[track_caller]
fn said(home: &Home, arguments: &[&str], input: &Value) -> Value {
    let ended = hook(home, arguments, input);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// The input of Claude Code and of Codex.
fn stop(session: &str) -> Value {
    json!({
        "session_id": session, "transcript_path": null, "cwd": "/", "permission_mode": "default",
        "hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "All tests pass.",
        "model": "m", "turn_id": "1",
    })
}

#[test]
fn an_agent_goes_on_while_the_verdict_refuses_and_stops_when_it_accepts() {
    let home = broken();
    let refused = said(&home, &[], &stop("s"));
    assert_eq!(refused["decision"], "block");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("FAILED  fixed") && reason.contains("fixed needs"), "{reason}");
    let gemini = said(&home, &[], &json!({"hook_event_name": "AfterAgent", "session_id": "g"}));
    assert_eq!(gemini["decision"], "deny");
    let cursor = json!({"hook_event_name": "stop", "conversation_id": "c", "status": "completed", "loop_count": 0});
    let cursor = said(&home, &[], &cursor);
    assert!(cursor["followup_message"].as_str().unwrap().contains("FAILED  fixed"), "{cursor}");
    let goose = json!({"event": "Stop", "session_id": "20260921_3", "matcher_context": null});
    let goose = said(&home, &[], &goose);
    assert_eq!(goose["decision"], "block");
    let openhands =
        json!({"event_type": "Stop", "session_id": null, "working_dir": "/", "metadata": {}});
    let openhands = said(&home, &[], &openhands);
    assert_eq!(openhands["decision"], "deny");
    assert!(openhands["reason"].as_str().unwrap().contains("FAILED  fixed"), "{openhands}");
    let aborted = json!({"hook_event_name": "stop", "conversation_id": "c", "status": "aborted"});
    assert_eq!(said(&home, &[], &aborted), json!({}));
    home.put("product.txt", "fixed\n");
    assert_eq!(said(&home, &[], &stop("s")), json!({}));
    assert_eq!(home.verdict()["accepted"], true);
    let codes = home.caution_codes();
    assert!(codes.contains(&"participant_unconfined".to_owned()), "{codes:?}");
}

#[test]
fn a_hook_holds_a_session_up_a_bounded_number_of_times() {
    let home = broken();
    Client::open(&home, &[]).end();
    for _ in 0..2 {
        assert_eq!(said(&home, &["--hook-limit", "2"], &stop("s"))["decision"], "block");
    }
    let released = said(&home, &["--hook-limit", "2"], &stop("s"));
    assert!(released.get("decision").is_none(), "{released}");
    assert!(released["systemMessage"].as_str().unwrap().contains("without an accepted verdict"));
    let shown = Ended::of(&home.command(&["contract", "show"]).output().unwrap());
    shown.is(0, "stopped refused");
    // Another session has its own count, and an agent's own word bounds a hook that cannot count.
    assert_eq!(said(&home, &["--hook-limit", "2"], &stop("other"))["decision"], "block");
    let uncounted = json!({"hook_event_name": "Stop", "stop_hook_active": true});
    assert!(said(&home, &[], &uncounted).get("decision").is_none());
}

#[test]
fn a_hook_judges_by_the_open_contract() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    client.call("surety_propose_plan", plan(json!(["NOTES.md"]))).ok();
    home.put("product.txt", "fixed\n");
    home.put(".surety/checks.yaml", "verify: [product.txt]\n");
    home.commit();
    let refused = said(&home, &[], &stop("s"));
    assert!(refused["reason"].as_str().unwrap().contains("NOTES.md"), "{refused}");
    home.put("NOTES.md", "done\n");
    assert_eq!(said(&home, &[], &stop("s")), json!({}));
    let errors = client.end();
    assert!(!errors.contains("without a verdict"), "{errors}");
}

#[test]
fn checks_that_were_not_committed_hold_an_agent_up() {
    let home = Home::with(&[("product.txt", "one\n")]);
    home.put(".surety/checks.yaml", "verify: [product.txt]\n");
    for _ in 0..2 {
        let held = said(&home, &["--hook-limit", "2"], &stop("s"));
        assert_eq!(held["decision"], "block", "{held}");
        assert!(held["reason"].as_str().unwrap().contains("Commit the file"), "{held}");
    }
    assert!(said(&home, &["--hook-limit", "2"], &stop("s")).get("decision").is_none());
    // A contract without checks holds it up as well, and says that there is a file.
    Client::open(&home, &[]).end();
    let held = said(&home, &[], &stop("t"));
    let reason = held["reason"].as_str().unwrap();
    for part in ["checks_missing", "surety_propose_plan", ".surety/checks.yaml", "contract new"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn a_repository_without_checks_holds_no_agent_up() {
    for home in [Home::without_git(), Home::without_commit()] {
        assert_eq!(said(&home, &[], &stop("s")), json!({}));
    }
    let home = Home::with(&[("product.txt", "one\n")]);
    assert_eq!(said(&home, &[], &stop("s")), json!({}));
    hook(&home, &[], &json!({"hook_event_name": "PreToolUse"})).is(1, "error[value_invalid]");
}
