//! The settings of `docs/agents.md`, as the agents that read them use them.

use crate::client::Client;
use crate::flow::broken;
use crate::support::{Ended, Home};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    std::fs::read_to_string(path).unwrap()
}

/// The JSON block after a line of the page that begins so.
#[track_caller]
fn block_after(page: &str, begin: &str) -> Value {
    let block = text_after(page, begin, "json");
    serde_json::from_str(block).unwrap_or_else(|error| panic!("{begin}: {error}: {block}"))
}

/// The block in a language after a line of the page that begins so.
#[track_caller]
fn text_after<'p>(page: &'p str, begin: &str, language: &str) -> &'p str {
    let (_, below) = page.split_once(&format!("\n{begin}")).unwrap_or_else(|| panic!("{begin}"));
    let (_, block) = below.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

/// The commands below a value.
fn commands(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(commands).collect(),
        Value::Object(members) => {
            let own = members.get("command").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(commands)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Runs a hook as an agent does: its line by a shell, in the project.
fn run(home: &Home, line: &str, input: &Value) -> Ended {
    let binary = Path::new(env!("CARGO_BIN_EXE_surety"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(binary.parent().unwrap().to_owned());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(&home.workspace);
    home.environment(&mut shell).env("PATH", path);
    for name in ["CLAUDE_PROJECT_DIR", "OPENHANDS_PROJECT_DIR"] {
        shell.env(name, &home.workspace);
    }
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    Ended::of(&child.wait_with_output().unwrap())
}

#[test]
fn the_hook_of_each_agent_makes_it_go_on() {
    let (home, page) = (broken(), page());
    let named = |event: &str| json!({"hook_event_name": event, "session_id": event});
    for (begin, input, key, word) in [
        ("Claude Code, `.claude/settings.json`", named("Stop"), "decision", Some("block")),
        ("Codex, `~/.codex/hooks.json`", named("Stop"), "decision", Some("block")),
        ("Cursor, `.cursor/hooks.json`", named("stop"), "followup_message", None),
        ("Gemini CLI, `.gemini/settings.json`", named("AfterAgent"), "decision", Some("deny")),
        ("Goose (", json!({"event": "Stop", "session_id": "g"}), "decision", Some("block")),
        (
            "OpenHands, `.openhands/hooks.json`",
            json!({"event_type": "Stop", "session_id": null, "working_dir": "/"}),
            "decision",
            Some("deny"),
        ),
    ] {
        let block = block_after(&page, begin);
        let [line] = commands(&block)[..] else { panic!("{begin}: {block}") };
        let ended = run(&home, line, &input);
        assert_eq!(ended.code, Some(0), "{begin}: {ended:#?}");
        let said: Value = serde_json::from_str(&ended.stdout).unwrap();
        let found = said[key].as_str().unwrap_or_else(|| panic!("{begin}: {said}"));
        assert!(word.is_none_or(|word| word == found), "{begin}: {said}");
    }
}

#[test]
fn the_server_of_each_agent_starts() {
    let (home, page) = (broken(), page());
    for heading in ["### Claude Code", "### Cursor", "### OpenHands"] {
        let block = block_after(&page, heading);
        let server = &block["mcpServers"]["surety"];
        assert_eq!(server["command"], "surety");
        let place = home.workspace.to_str().unwrap();
        let argument = |argument: &Value| match argument.as_str().unwrap() {
            "${workspaceFolder}" | "/home/me/project" => place.to_owned(),
            other => other.to_owned(),
        };
        let arguments: Vec<String> =
            server["args"].as_array().unwrap().iter().map(argument).collect();
        assert_eq!(arguments[0], "mcp");
        let rest: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
        let mut client = Client::open(&home, &rest);
        client.call("surety_status", json!({})).ok();
        client.end();
    }
}

#[test]
fn the_settings_in_other_languages_name_the_server_that_starts() {
    let page = page();
    let codex: toml::Table = text_after(&page, "### Codex", "toml").parse().unwrap();
    let codex = serde_json::to_value(codex).unwrap()["mcp_servers"]["surety"].clone();
    assert_eq!((&codex["command"], &codex["args"]), (&json!("surety"), &json!(["mcp"])));
    // In seconds: a round takes minutes.
    assert!(codex["tool_timeout_sec"].as_u64().unwrap() >= 600, "{codex}");
    assert!(codex["startup_timeout_sec"].is_u64(), "{codex}");
    let goose: Value = serde_saphyr::from_str(text_after(&page, "### Goose", "yaml")).unwrap();
    let goose = &goose["extensions"]["surety"];
    assert_eq!((&goose["cmd"], &goose["args"]), (&json!("surety"), &json!(["mcp"])));
    let settings = (&goose["type"], &goose["enabled"], &goose["name"]);
    assert_eq!(settings, (&json!("stdio"), &json!(true), &json!("surety")));
    assert!(goose["timeout"].as_u64().unwrap() >= 600, "{goose}");
}
