//! Input that no tool takes. Each has an error that says what to do, and the server goes on.

use crate::client::Client;
use crate::flow::{broken, plan};
use serde_json::{Value, json};

#[test]
fn messages_that_are_none_have_an_error_and_the_server_goes_on() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"surety_status","arguments":{{"x":"{}"}}}}}}"#,
        "x".repeat(9 << 20)
    );
    let invalid_text = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec();
    for (line, code) in [
        (b"GET / HTTP/1.1".to_vec(), -32700),
        (b"{\"jsonrpc\":".to_vec(), -32700),
        (deep.into_bytes(), -32700),
        (invalid_text, -32700),
        (huge.into_bytes(), -32600),
        (b"[]".to_vec(), -32600),
        (b"\"text\"".to_vec(), -32600),
    ] {
        client.raw(&line);
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer["id"], Value::Null, "{answer}");
    }
    client.raw(b"");
    client.call("surety_status", json!({})).ok();
    client.end();
}

#[test]
fn tools_and_methods_that_are_not_there_are_named() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    for name in ["surety_accept", "", "../surety_status", &"x".repeat(100_000)] {
        let (code, message) = client.refused("tools/call", json!({"name": name, "arguments": {}}));
        assert_eq!(code, -32602, "{message}");
        assert!(message.contains("surety_status") && message.len() < 1000, "{message}");
    }
    for method in ["surety/accept", "resources/read", "contract/new"] {
        let params = json!({"uri": "file:///etc/passwd"});
        let (code, message) = client.refused(method, params);
        assert_eq!(code, -32601, "{method}: {message}");
    }
    for (params, said) in [
        (json!({"name": "surety_status", "arguments": [1]}), "params.arguments is a list"),
        (json!({"arguments": {}}), "params.name is missing; it must be a string"),
        (Value::Null, "params.name is missing"),
    ] {
        let (code, message) = client.refused("tools/call", params);
        assert_eq!(code, -32602, "{message}");
        assert!(message.contains(said), "{message}");
    }
    let (_, message) = client.refused("tasks/get", json!({"taskId": "none"}));
    assert!(!message.is_empty());
    client.end();
}

#[test]
fn arguments_name_no_path_no_base_no_owner_and_no_rule_of_the_gate() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let before = client.call("surety_status", json!({})).ok().value;
    for tool in ["surety_status", "surety_check", "surety_verdict"] {
        for key in ["workspace", "base", "checks", "verdict", "accepted"] {
            client.call(tool, json!({key: "/etc"})).fails("value_invalid", key);
        }
    }
    let with = |checks: Value| client_call_plan(checks);
    let text = "x".repeat(300 << 10);
    let steps: Vec<_> =
        (0..300).map(|id| json!({"id": id.to_string(), "description": "d"})).collect();
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let cases = [
        (json!({"title": "t", "steps": [], "checks": ["a.txt"]}), "steps"),
        (json!({"title": "t", "steps": steps, "checks": []}), "steps"),
        (
            json!({"title": text, "steps": [{"id": "a", "description": "d"}], "checks": []}),
            "262144",
        ),
        (json!({"title": "t", "checks": []}), "steps"),
        (
            json!({"title": "t", "steps": [{"id": "a", "description": "d"}], "checks": [], "policy": {}}),
            "policy",
        ),
        (
            json!({"title": "t", "steps": [{"id": "a", "description": "d", "verify": ["make test"]}], "checks": []}),
            "checks",
        ),
        (with(json!([{"id": "system.accepted", "kind": "file_exists", "target": "a"}])), "system."),
        (with(json!([{"kind": "file_exists", "target": "a", "params": deep}])), "params"),
        (with(json!([{"kind": "workspace_change", "params": {"paths": "a["}}])), "paths"),
        (with(json!([7])), "verify"),
    ];
    for (arguments, part) in cases {
        let called = client.call("surety_propose_plan", arguments);
        assert!(called.is_error, "{part}: {called:#?}");
        assert!(
            called.text.starts_with("error[") && called.text.contains(part),
            "{part}: {called:#?}"
        );
        assert!(called.text.len() < 2000, "{called:#?}");
    }
    let owned =
        json!([{"kind": "file_exists", "target": "a.txt", "owner": "operator", "required": true}]);
    let proposed = client.call("surety_propose_plan", plan(owned)).ok();
    assert_eq!(proposed.value["checks"][2]["owner"], "plan");
    assert_eq!(proposed.value["base"], before["base"]);
    let long = "y".repeat(5000);
    client
        .call("surety_report", json!({"step_id": "look", "outcome": "done", "note": long}))
        .fails("value_invalid", "note");
    client
        .call("surety_report", json!({"step_id": "none", "outcome": "done"}))
        .fails("value_invalid", "look, repair");
    client.call("surety_ask_person", json!({"question": long})).fails("value_invalid", "question");
    client.end();
}

fn client_call_plan(checks: Value) -> Value {
    json!({"title": "t", "steps": [{"id": "a", "description": "d"}], "checks": checks})
}

#[test]
fn checks_of_a_plan_reach_nothing_outside_the_workspace() {
    let home = broken();
    home.put("product.txt", "fixed\n");
    let secret = home.home.join("secret.txt");
    std::fs::write(&secret, "a secret of the person\n").unwrap();
    let mut client = Client::open(&home, &[]);
    let target = secret.to_string_lossy().into_owned();
    let checks = json!([
        {"id": "absolute", "kind": "file_exists", "target": target},
        {"id": "above", "kind": "file_exists", "target": "../secret.txt"},
        {"id": "content", "kind": "content_contains", "target": "../secret.txt", "params": {"contains": "secret"}},
        {"id": "command", "kind": "command_success", "target": format!("cat {target}")},
    ]);
    let proposed = client.call("surety_propose_plan", plan(checks));
    if proposed.is_error {
        return;
    }
    let checked = client.call("surety_check", json!({})).ok();
    for id in ["absolute", "above", "content"] {
        assert!(checked.failed().contains(&id), "{id}: {checked:#?}");
    }
    assert!(!checked.text.contains("a secret of the person"), "{checked:#?}");
    client.end();
}
