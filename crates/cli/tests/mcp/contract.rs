//! The contract: what an agent cannot change, and what a restart keeps.

use crate::client::Client;
use crate::flow::{CHECKS, broken, plan};
use crate::support::{Ended, Home};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;

#[test]
fn checks_that_the_agent_edits_stay_those_of_the_base() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    home.put(".surety/checks.yaml", "verify: [product.txt]\n");
    let checked = client.call("surety_check", json!({})).ok();
    assert_eq!(checked.failed(), ["fixed"], "{checked:#?}");
    // A commit moves HEAD, and not the base.
    home.commit();
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], false);
    assert_eq!(verdict.failed(), ["fixed"]);
    fs::remove_file(home.workspace.join(".surety/checks.yaml")).unwrap();
    home.commit();
    assert_eq!(client.call("surety_verdict", json!({})).ok().failed(), ["fixed"]);
    client.end();
}

#[test]
fn a_restart_continues_the_contract() {
    let home = broken();
    let base = home.git(&["rev-parse", "HEAD"]);
    let mut client = Client::open(&home, &[]);
    client.call("surety_propose_plan", plan(json!(["NOTES.md"]))).ok();
    let report = json!({"step_id": "look", "outcome": "done"});
    client.call("surety_report", report).ok();
    client.end();
    home.put("other.txt", "work of the agent\n");
    home.put(".surety/checks.yaml", "verify: [product.txt]\n");
    home.commit();
    let outside = home.home.join("weak.yaml");
    fs::write(&outside, "verify: [product.txt]\n").unwrap();
    for arguments in [vec![], vec!["--base", "HEAD"], vec!["--checks", outside.to_str().unwrap()]] {
        let mut client = Client::open(&home, &arguments);
        let status = client.call("surety_status", json!({})).ok();
        assert_eq!(status.value["base"]["commit"], base.as_str());
        assert_eq!(status.value["checks"].as_array().unwrap().len(), 3);
        assert_eq!(status.value["next"]["step"], "repair");
        let checked = client.call("surety_check", json!({})).ok();
        assert_eq!(checked.failed(), ["fixed", "file_exists"], "{checked:#?}");
        let errors = client.end();
        let is_told = errors.contains("it stays as it was opened");
        assert_eq!(is_told, arguments.contains(&"--checks"), "{errors}");
    }
}

#[test]
fn checks_of_a_file_outside_stay_as_they_were_at_the_opening() {
    let home = broken();
    let outside = home.home.join("checks.yaml");
    fs::write(
        &outside,
        "verify: [{id: own, kind: command_success, target: grep -q done product.txt}]\n",
    )
    .unwrap();
    let named = ["--checks", outside.to_str().unwrap()];
    Client::open(&home, &named).end();
    fs::write(&outside, "verify: [product.txt]\n").unwrap();
    let mut client = Client::open(&home, &named);
    assert_eq!(client.call("surety_check", json!({})).ok().failed(), ["own"]);
    client.end();
}

#[test]
fn only_a_person_at_a_terminal_opens_another_contract() {
    let home = broken();
    let run = |arguments: &[&str]| {
        Ended::of(&home.command(&[&["contract"], arguments].concat()).output().unwrap())
    };
    run(&["show"]).is(1, "error[contract_missing]");
    run(&["close"]).is(1, "error[contract_missing]");
    run(&["new"]).is(0, "check    user  fixed");
    run(&["new"]).is(1, "error[person_needed]");
    run(&["close"]).is(1, "error[person_needed]");
    run(&["new", "--base", "HEAD~1"]).is(1, "error[person_needed]");
    let base = home.git(&["rev-parse", "HEAD"]);
    run(&["show"]).is(0, &base);
    // At a terminal it is closed and kept, and the next one begins at the present commit.
    home.put("product.txt", "fixed\n");
    home.commit();
    let binary = env!("CARGO_BIN_EXE_surety");
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &format!("{binary} contract new"), "/dev/null"]);
    terminal.current_dir(&home.workspace).stdin(std::process::Stdio::null());
    let renewed = Ended::of(&home.environment(&mut terminal).output().unwrap());
    assert_eq!(renewed.code, Some(0), "{renewed:#?}");
    run(&["show"]).is(0, &home.git(&["rev-parse", "HEAD"]));
    let kept = home.home.join(".local/share/surety/contracts");
    let of_workspace = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    let closed = fs::read_dir(of_workspace).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name().to_string_lossy().into_owned();
        name.ends_with("Z.json")
    });
    assert_eq!(closed.count(), 1);
}

#[test]
fn a_plan_cannot_take_a_users_name_nor_drop_what_a_round_has_run() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let mut propose = |checks| client.call("surety_propose_plan", plan(checks));
    let named = json!([{"id": "fixed", "kind": "file_exists", "target": "product.txt"}]);
    propose(named).fails("value_invalid", "one of the user");
    let hidden = json!([{"kind": "command_success", "target": "true", "overlay": {"a": "x"}}]);
    propose(hidden).fails("overlay_not_allowed", "overlay");
    propose(json!(["NOTES.md"])).ok();
    propose(json!(["OTHER.md"])).ok();
    client.call("surety_check", json!({})).ok();
    let mut propose = |checks| client.call("surety_propose_plan", plan(checks));
    propose(json!([])).fails("plan_weakened", "OTHER.md");
    let weaker = json!([{"kind": "file_exists", "target": "OTHER.md", "required": false}]);
    propose(weaker).fails("plan_weakened", "OTHER.md");
    let more = propose(json!(["OTHER.md", "NOTES.md"])).ok();
    assert_eq!(more.value["plan_revision"], 3);
    client.end();
}

#[test]
fn a_contract_that_does_not_read_is_named() {
    let home = broken();
    Client::open(&home, &[]).end();
    let kept = home.home.join(".local/share/surety/contracts");
    let of_workspace = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    fs::write(of_workspace.join("contract.json"), "{}").unwrap();
    let ended = Ended::of(&home.command(&["mcp"]).output().unwrap());
    ended.is(1, "error[contract_unusable]").is(1, "surety contract new");
}

#[test]
fn a_checks_file_without_effect_is_named() {
    let home = Home::with(&[("product.txt", "broken\n"), ("part/code.txt", "one\n")]);
    home.put(".surety/checks.yaml", CHECKS);
    let show = |home: &Home| Ended::of(&home.command(&["contract", "show"]).output().unwrap());
    let mut client = Client::open(&home, &[]);
    let status = client.call("surety_status", json!({})).ok();
    let why = status.value["unused_checks"].as_str().unwrap();
    assert!(why.contains("commit it, then run `surety contract new`"), "{why}");
    assert!(status.text.contains(why), "{status:#?}");
    let errors = client.end();
    assert!(errors.contains(why), "{errors}");
    show(&home).is(0, "unused");
    // That of the whole repository is not looked for from a part of it.
    home.commit();
    let part = home.workspace.join("part");
    let mut client = Client::open(&home, &["--workspace", part.to_str().unwrap()]);
    let status = client.call("surety_status", json!({})).ok();
    let why = status.value["unused_checks"].as_str().unwrap();
    assert!(why.contains("--workspace") && why.contains(".surety/checks.yaml"), "{why}");
    client.end();
    // One that differs from what the contract holds.
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["unused_checks"], json!(null));
    home.put(".surety/checks.yaml", "verify: [product.txt]\n");
    let status = client.call("surety_status", json!({})).ok();
    let why = status.value["unused_checks"].as_str().unwrap();
    assert!(why.contains("not what this contract holds"), "{why}");
    client.end();
}

#[test]
fn a_client_that_only_looks_whether_the_server_starts_is_no_agent_that_stopped() {
    let home = broken();
    let list = || Ended::of(&home.command(&["contract", "list"]).output().unwrap());
    Client::open(&home, &[]).end();
    list().is(0, "no verdict yet; no agent is connected");
    let mut working = Client::open(&home, &[]);
    working.call("surety_check", json!({})).ok();
    Client::open(&home, &[]).end();
    let listed = list();
    listed.is(0, "no verdict yet");
    assert!(
        !listed.stdout.contains("stopped") && !listed.stdout.contains("no agent"),
        "{listed:#?}"
    );
    // A server that is killed says nothing, and the list does.
    kill(Pid::from_raw(working.process()), Signal::SIGKILL).unwrap();
    drop(working);
    list().is(0, "no agent is connected");
    let mut client = Client::open(&home, &[]);
    client.call("surety_status", json!({})).ok();
    client.end();
    list().is(0, "no verdict: the agent stopped");
}

#[test]
fn a_verdict_does_not_stand_for_what_an_agent_changed_with_its_own_tools_later() {
    let home = broken();
    let list = || Ended::of(&home.command(&["contract", "list"]).output().unwrap());
    home.put("product.txt", "fixed\n");
    let mut client = Client::open(&home, &[]);
    client.call("surety_verdict", json!({})).ok();
    client.end();
    // Nothing was changed since.
    Client::open(&home, &[]).end();
    list().is(0, "accepted");
    assert!(!list().stdout.contains("no verdict"), "{:#?}", list());
    // The next session of the agent calls no tool of the server, and works.
    let session = Client::open(&home, &[]);
    home.put("product.txt", "broken again\n");
    session.end();
    list().is(0, "no verdict of the last work: the agent stopped (before: accepted)");
    // One that checks and is killed.
    let mut client = Client::open(&home, &[]);
    client.call("surety_check", json!({})).ok();
    list().is(0, "no verdict of the last work (before: accepted)");
    kill(Pid::from_raw(client.process()), Signal::SIGKILL).unwrap();
    drop(client);
    list().is(0, "no verdict of the last work; no agent is connected (before: accepted)");
}

#[test]
fn an_agent_that_stopped_without_a_verdict_stands_in_the_lists() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    client.call("surety_status", json!({})).ok();
    client.end();
    let place = home.workspace.display().to_string();
    // No service is there: the contracts are listed all the same.
    for arguments in [["runs"].as_slice(), &["contract", "list"], &["contract", "list", "--json"]] {
        let listed = Ended::of(&home.command(arguments).output().unwrap());
        listed.is(0, "no verdict: the agent stopped").is(0, &place);
    }
    let filtered = Ended::of(&home.command(&["runs", "--state", "DONE"]).output().unwrap());
    filtered.is(1, "error[service_unreachable]");
    home.put("product.txt", "fixed\n");
    let mut client = Client::open(&home, &[]);
    client.call("surety_verdict", json!({})).ok();
    client.end();
    let listed = Ended::of(&home.command(&["runs"]).output().unwrap());
    listed.is(0, "accepted");
    assert!(!listed.stdout.contains("stopped"), "{listed:#?}");
}
