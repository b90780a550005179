//! Protocol version 2026-07-28: no handshake, what a request needs is in it, and a question comes back as an answer.

use crate::client::{Called, Client};
use crate::flow::broken;
use serde_json::{Value, json};

/// The parameters of a request of a client that shows forms.
fn with_meta(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "strict", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

fn asking(answers: &Value) -> Value {
    let mut params = json!({"name": "surety_ask_person",
        "arguments": {"question": "Which colour?", "options": ["red", "blue"]}});
    for (name, value) in answers.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    params
}

#[test]
fn the_server_says_what_it_is_and_serves_without_a_handshake() {
    let home = broken();
    let mut client = Client::start(&home, &[]);
    let found = client.request("server/discover", with_meta(json!({}), &json!({})));
    let versions = found["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    assert!(found["capabilities"]["tools"].is_object(), "{found}");
    let listed = client.request("tools/list", with_meta(json!({}), &json!({})));
    assert_eq!(listed["tools"].as_array().unwrap().len(), 6, "{listed}");
    let params = json!({"name": "surety_check", "arguments": {}});
    let checked = client.request("tools/call", with_meta(params, &json!({})));
    assert_eq!(Called::of(&checked).ok().failed(), ["fixed", "changed"]);
    client.end();
}

#[test]
fn a_question_comes_back_as_an_answer_and_the_form_with_the_next_call() {
    let home = broken();
    let forms = json!({"elicitation": {"form": {}}});
    let mut client = Client::start(&home, &[]);
    let asked = client.request("tools/call", with_meta(asking(&json!({})), &forms));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let form = &asked["inputRequests"]["answer"];
    assert_eq!(form["method"], "elicitation/create", "{asked}");
    let answer = &form["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"], json!(["red", "blue"]), "{asked}");
    let state = &asked["requestState"];
    for (reply, answered) in [
        (json!({"action": "decline"}), json!(false)),
        (json!({"action": "accept", "content": {"answer": "blue"}}), json!(true)),
    ] {
        let again = json!({"inputResponses": {"answer": reply}, "requestState": state});
        let result = client.request("tools/call", with_meta(asking(&again), &forms));
        assert_eq!(Called::of(&result).ok().value["answered"], answered, "{result}");
    }
    // A state that the client made up is no question.
    let forged = json!({"inputResponses": {"answer": {"action": "accept", "content": {"answer": "red"}}},
        "requestState": "7"});
    let result = client.request("tools/call", with_meta(asking(&forged), &forms));
    Called::of(&result).fails("value_invalid", "no question 7");
    let status = json!({"name": "surety_status", "arguments": {}});
    let status = client.request("tools/call", with_meta(status, &json!({})));
    let waits = &Called::of(&status).ok().value["waits"];
    assert_eq!(waits.as_array().unwrap().len(), 1, "{waits}");
    assert_eq!(waits[0]["answer"], "blue");
    client.end();
}

#[test]
fn without_a_form_the_question_waits_for_a_command() {
    let home = broken();
    let mut client = Client::start(&home, &[]);
    let asked = client.request("tools/call", with_meta(asking(&json!({})), &json!({})));
    let asked = Called::of(&asked).ok();
    assert_eq!(asked.value["how"], "surety contract answer 1 TEXT");
    client.end();
}

#[test]
fn a_round_is_a_task_for_a_client_that_takes_tasks() {
    let home = broken();
    home.put("product.txt", "fixed\n");
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::start(&home, &[]);
    let params = json!({"name": "surety_verdict", "arguments": {}});
    let begun = client.request("tools/call", with_meta(params, &tasks));
    let task = begun["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let ended = loop {
        let params = with_meta(json!({"taskId": task}), &tasks);
        let found = client.request("tasks/get", params);
        if found["status"] != "working" {
            break found;
        }
        assert!(std::time::Instant::now() < deadline, "{found}");
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["accepted"], true, "{ended}");
    client.end();
}
