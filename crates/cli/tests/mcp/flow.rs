//! An agent that works under a contract, and one that only says so.

use crate::client::{Called, Client};
use crate::support::{Ended, Home};
use serde_json::{Value, json};

/// Two checks of the user: the content of a file by a command, and that anything changed.
pub(crate) const CHECKS: &str = "title: The product is fixed\nverify:\n  - {id: fixed, kind: command_success, \
                                 target: grep -n fixed product.txt}\n  - {id: changed, kind: workspace_change}\n";

pub(crate) fn broken() -> Home {
    Home::with(&[(".surety/checks.yaml", CHECKS), ("product.txt", "broken\n")])
}

pub(crate) fn plan(checks: Value) -> Value {
    json!({
        "title": "Repair the product",
        "goal": "product.txt says fixed",
        "steps": [
            {"id": "look", "description": "Read the product"},
            {"id": "repair", "description": "Repair it", "dependencies": ["look"]},
        ],
        "checks": checks,
    })
}

#[track_caller]
pub(crate) fn assert_valid(verdict: &Value) {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdict.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(verdict).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{verdict:#}");
}

#[test]
fn an_agent_that_does_the_work_is_accepted() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let status = client.call("surety_status", json!({})).ok();
    let names: Vec<_> =
        status.value["checks"].as_array().unwrap().iter().map(|check| &check["name"]).collect();
    assert_eq!(names, ["fixed", "changed"]);
    assert_eq!(status.value["checks"][0]["owner"], "user");
    assert_eq!(status.value["base"]["commit"], home.git(&["rev-parse", "HEAD"]));

    let proposed = client.call("surety_propose_plan", plan(json!(["NOTES.md"]))).ok();
    assert_eq!(proposed.value["next"]["step"], "look");
    assert_eq!(proposed.value["checks"][2]["owner"], "plan");
    let reported = json!({"step_id": "look", "outcome": "done", "note": "it is broken"});
    let reported = client.call("surety_report", reported).ok();
    assert_eq!(reported.value["next"]["step"], "repair");

    let checked = client.call("surety_check", json!({})).ok();
    assert_eq!(checked.value["accepted"], false);
    assert_eq!(checked.failed(), ["fixed", "changed", "file_exists"]);
    assert_eq!(checked.value["verdict_file"], Value::Null);
    assert!(!home.verdict_file().exists(), "a check writes no verdict");

    home.put("product.txt", "it is fixed\n");
    home.put("NOTES.md", "repaired\n");
    let done = json!({"step_id": "repair", "outcome": "done"});
    assert_eq!(client.call("surety_report", done).ok().value["next"]["do"], "surety_verdict");
    let checked = client.call("surety_check", json!({})).ok();
    assert!(checked.text.contains("Call surety_verdict"), "{checked:#?}");
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    assert_eq!(verdict.value["strength"], "independent");
    assert!(verdict.caution_codes().contains(&"participant_unconfined"), "{verdict:#?}");

    let written = home.verdict();
    assert_valid(&written);
    assert_eq!(written["accepted"], true);
    assert_eq!(written["start"]["kind"], "revision");
    assert_eq!(written["start"]["commit"], home.git(&["rev-parse", "HEAD"]));
    assert_eq!(written["changed"]["count"], 2);
    let errors = client.end();
    assert!(!errors.contains("without a verdict"), "{errors}");
    home.verify(&["--still", &home.verdict_file().to_string_lossy()]).is(0, "still");
}

#[test]
fn a_lie_is_refused_with_its_evidence_and_what_is_needed() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    client.call("surety_propose_plan", plan(json!(["product.txt"]))).ok();
    for step in ["look", "repair"] {
        let lie = json!({"step_id": step, "outcome": "done", "note": "all tests pass"});
        client.call("surety_report", lie).ok();
    }
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], false);
    assert_eq!(verdict.failed(), ["fixed", "changed"]);
    let failed = &verdict.value["failed"][0];
    assert_eq!(failed["probe"]["exit_code"], 1);
    assert_eq!(failed["target"], "grep -n fixed product.txt");
    let needed = verdict.value["needed"].as_str().unwrap();
    assert!(needed.contains("fixed needs") && needed.contains("changed needs"), "{needed}");
    assert!(verdict.text.contains("FAILED  fixed"), "{verdict:#?}");
    assert_eq!(home.verdict()["accepted"], false);
    // The refused verdict is about what is there.
    let errors = client.end();
    assert!(!errors.contains("without a verdict"), "{errors}");
}

#[test]
fn a_contract_without_checks_asks_for_a_plan_whose_checks_are_called_self_checked() {
    let home = Home::with(&[("product.txt", "broken\n")]);
    let mut client = Client::open(&home, &[]);
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["next"]["do"], "surety_propose_plan");
    client.call("surety_check", json!({})).fails("checks_missing", "surety_propose_plan");
    let check =
        json!([{"id": "own", "kind": "command_success", "target": "grep -q fixed product.txt"}]);
    client.call("surety_propose_plan", plan(check)).ok();
    home.put("product.txt", "fixed\n");
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    assert_eq!(verdict.value["strength"], "self_checked");
    client.end();
}

#[test]
fn what_an_agent_leaves_without_a_verdict_is_said_and_recorded() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    client.call("surety_check", json!({})).ok();
    let errors = client.end();
    assert!(errors.contains("the connection ended without a verdict"), "{errors}");
    let show = || Ended::of(&home.command(&["contract", "show"]).output().unwrap());
    show().is(0, "ended without a verdict");

    // A verdict about an earlier state is none about the present one.
    home.put("product.txt", "fixed\n");
    let mut client = Client::open(&home, &[]);
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true);
    home.put("product.txt", "fixed, and changed again\n");
    let errors = client.end();
    assert!(errors.contains("the workspace changed after the last one"), "{errors}");
    let shown = Ended::of(&home.command(&["--json", "contract", "show"]).output().unwrap());
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["events"][0]["what"], "ended_without_verdict");
    assert_eq!(shown["verdict"]["accepted"], true);
}

#[test]
fn every_tool_is_listed_with_a_schema_that_its_arguments_fit() {
    let home = broken();
    let mut client = Client::start(&home, &[]);
    let info = client.initialize(json!({}));
    assert!(info["instructions"].as_str().unwrap().contains("surety_verdict"));
    let tools = client.request("tools/list", json!({}))["tools"].as_array().unwrap().clone();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "surety_status",
        "surety_propose_plan",
        "surety_report",
        "surety_check",
        "surety_verdict",
        "surety_ask_person",
    ];
    assert_eq!(names, expected);
    let arguments = [
        json!({}),
        plan(json!(["product.txt", {"kind": "workspace_change"}])),
        json!({"step_id": "look", "outcome": "started"}),
        json!({}),
        json!({}),
        json!({"question": "Which?", "options": ["a", "b"]}),
    ];
    for (tool, arguments) in tools.iter().zip(&arguments) {
        let schema = jsonschema::validator_for(&tool["inputSchema"]).unwrap();
        assert!(schema.is_valid(arguments), "{}: {arguments}", tool["name"]);
        assert!(!schema.is_valid(&json!({"workspace": "/"})), "{}", tool["name"]);
        let called: Called = client.call(tool["name"].as_str().unwrap(), arguments.clone());
        called.ok();
    }
    client.end();
}
