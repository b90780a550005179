//! The documentation page of the built-in tools is generated from their descriptions.

use serde_json::Value;
use std::path::Path;
use surety_executor::tool::{
    ALWAYS_ALLOWED, BuiltinSettings, ErrorCode, Registry, RunTool, ToolSpec,
};

const INTRODUCTION: &str = "\
# Tools

<!-- Written by `UPDATE_DOCS=1 cargo test -p surety-executor --test tools_page`; edits are lost. -->

Use this page to find the tools that every executor has, with their arguments and limits. `ListTools` answers the same, with the whole JSON Schema of each
tool's arguments. Paths are relative to the run's workspace and cannot leave it. A call may take 20 s
where nothing else is said, one that walks the workspace 60 s; after a timeout the next call like it gets
twice as long, up to 160 s. The operator may set another default for commands, and a run a limit
(`limits.command_timeout`) that no command of its steps passes.

A call's arguments stand in the plan and in the run's journal, and a command with its arguments in the
receipt too, where everybody who may see the run can read them. They are in no log line and in no trace.
A secret is named as `secret:NAME`, which the executor alone replaces ([security.md](security.md#secrets-of-tools)).
";

/// The type that a schema allows, as one word.
fn kind(schema: &Value) -> String {
    match (&schema["type"], &schema["items"]["type"]) {
        (Value::String(outer), Value::String(inner)) => format!("{outer} of {inner}"),
        (Value::String(outer), _) => outer.clone(),
        _ => "any".to_owned(),
    }
}

fn arguments(page: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        page.push_str("\nIt takes no arguments.\n");
        return;
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    page.push_str("\n| argument | type | needed | meaning |\n|---|---|---|---|\n");
    for (name, property) in properties {
        let needed = if required.contains(&Value::from(name.as_str())) { "yes" } else { "" };
        let meaning = property["description"].as_str().unwrap_or_default().replace('|', "\\|");
        page.push_str(&format!("| `{name}` | {} | {needed} | {meaning} |\n", kind(property)));
    }
    let choice = |one: &Value| one["required"][0].as_str().map(|name| format!("`{name}`"));
    if let Some(choices) = schema["oneOf"].as_array() {
        let names: Vec<_> = choices.iter().filter_map(choice).collect();
        page.push_str(&format!("\nExactly one of {} is needed.\n", names.join(" and ")));
    }
}

fn tool(page: &mut String, registry: &Registry, spec: &ToolSpec) {
    page.push_str(&format!("\n## `{}`\n\n{}\n", spec.name, spec.description));
    let annotations = spec.annotations;
    let todos = registry.run_tool(&spec.name) == Some(RunTool::Todo);
    let after_a_crash = match (annotations.read_only, annotations.idempotent) {
        (true, _) if todos => "It changes the todos of the run, and nothing else.",
        (true, _) => "It only reads.",
        (false, true) => "It has an effect, and a repeated call has no further one.",
        (false, false) => {
            "It has an effect. After a crash it is repeated only if it did not happen, or if an operator decides so."
        }
    };
    page.push_str(&format!("\n{after_a_crash}\n"));
    if ALWAYS_ALLOWED.contains(&spec.name.as_str()) {
        page.push_str("Every step may call it, also one that expects other tools.\n");
    }
    let aliases: Vec<String> =
        registry.aliases_of(&spec.name).map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        page.push_str(&format!("A decision may also call it {}.\n", aliases.join(", ")));
    }
    if !spec.return_sample.is_empty() {
        page.push_str(&format!("It returns, for example: {}\n", spec.return_sample));
    }
    arguments(page, &spec.input_schema);
}

fn document(registry: &Registry) -> String {
    let mut page = INTRODUCTION.to_owned();
    registry.specs().for_each(|spec| tool(&mut page, registry, spec));
    page.push_str(
        "\n## Errors\n\nThe summary in a failed call's receipt begins with one of these codes.\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for code in ErrorCode::ALL {
        page.push_str(&format!("| `{code}` | {} |\n", code.meaning()));
    }
    page
}

#[test]
fn the_documentation_is_what_the_tools_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let registry = Registry::with_builtin(&BuiltinSettings::default())
        .and_then(|registry| registry.with_task_tools(true));
    let document = document(&registry.expect("the built-in tools"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &document).expect("docs/tools.md can be written");
    }
    let page = std::fs::read_to_string(&path).expect("docs/tools.md");
    let update = "run UPDATE_DOCS=1 cargo test -p surety-executor --test tools_page";
    assert_eq!(page, document, "{update}");
}
