//! Calls that go well: what is sent, what is recorded, and what a server reaches.

use super::{Stage, call, echo, entry, one_step, outputs, written};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use surety_common::wire::v1;
use surety_e2e::script::{Trail, plan, request, scoped, step};

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_server_are_called_recorded_and_kept_like_any_other() -> Result<()> {
    let trail = Trail::new()?;
    let stage =
        Stage::start(&entry(&trail, &[], "resources = true\n[mcp.t.tools.echo]\nread_only = true"))
            .await?;
    let workspace = tempfile::tempdir()?;
    let calls = [
        echo("hello"),
        call("t__add", json!({"a": 1, "b": 2})),
        call("t__write", json!({"path": "made.txt", "content": "by a server"})),
        call("t__media", json!({})),
        call("t__list_resources", json!({})),
        call("t__read_resource", json!({"uri": "test://note"})),
        call("t__big", json!({"bytes": 100_000})),
    ];
    let run = stage.run(&calls, &workspace).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let receipts = stage.receipts(&run.id).await?;
    let of = |name: &str| {
        let found = receipts.iter().find(|receipt| receipt.name == name);
        found.with_context(|| format!("no receipt of {name}: {receipts:#?}"))
    };
    for call in &calls {
        let receipt = of(call["name"].as_str().unwrap_or_default())?;
        ensure!(receipt.success, "{receipt:#?}");
        let witness: Vec<_> = outputs(receipt, "surety.reported_by").collect();
        ensure!(witness == ["mcp:t"], "the words of the server: {receipt:#?}");
        ensure!(!receipt.sandbox.is_empty(), "{receipt:#?}");
    }
    ensure!(written(of("t__write")?) == ["made.txt"], "{:#?}", of("t__write")?);
    ensure!(written(of("t__echo")?).is_empty());
    ensure!(fs::read_to_string(workspace.path().join("made.txt"))? == "by a server");
    for (name, shown) in [
        ("t__echo", "hello"),
        ("t__add", "{\"sum\": 3}"),
        ("t__media", "kept as attachment 1 of this call]"),
        ("t__list_resources", "[link note: test://note]"),
        ("t__read_resource", "[resource test://note]\na note"),
    ] {
        let output = stage.output(&run.id, &of(name)?.call_id).await?;
        let output = String::from_utf8(output)?;
        ensure!(output.contains(shown), "{name}: {output}");
    }
    let big = stage.output(&run.id, &of("t__big")?.call_id).await?;
    ensure!(big.len() == 100_000, "{} bytes", big.len());
    let image = stage.output(&run.id, &format!("{}/1", of("t__media")?.call_id)).await?;
    ensure!(image == b"\x89PNG bytes", "{image:?}");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_count_where_the_configuration_repeats_them_alone() -> Result<()> {
    let trail = Trail::new()?;
    let said = "[mcp.t.tools.echo]\nread_only = true\nopen_world = false";
    let stage = Stage::start(&entry(&trail, &[], said)).await?;
    stage.listed("t__echo").await?;
    let annotations = async |name: &str| -> Result<v1::ToolAnnotations> {
        let tool = stage.tool(name).await?.with_context(|| format!("{name} is not listed"))?;
        ensure!(tool.provider == "mcp:t", "{tool:#?}");
        tool.annotations.context("annotations")
    };
    let safe = |read_only| v1::ToolAnnotations {
        read_only: Some(read_only),
        destructive: Some(!read_only),
        idempotent: Some(read_only),
        open_world: Some(!read_only),
    };
    ensure!(annotations("t__echo").await? == safe(true));
    ensure!(annotations("t__write").await? == safe(false), "its claims count for nothing");
    for left_out in ["t__bad name", "t__broken_schema", "t__list_resources"] {
        ensure!(stage.tool(left_out).await?.is_none(), "{left_out} is listed");
    }
    ensure!(stage.tools("elsewhere").await?.iter().all(|tool| tool.provider == "builtin"));

    let workspace = tempfile::tempdir()?;
    let write = call("t__write", json!({"path": "made.txt", "content": "x"}));
    let confirmed = v1::Policy { confirm_destructive: true, ..v1::Policy::default() };
    let asks = v1::CreateRunRequest {
        policy: Some(confirmed),
        ..one_step(&[echo("a"), write], &workspace)
    };
    let run = stage.deployment.create_run(asks).await?;
    let question = stage.deployment.question(&run.id).await?;
    ensure!(question.kind() == v1::WaitKind::Confirmation, "{question:#?}");
    let receipts = stage.receipts(&run.id).await?;
    ensure!(receipts.iter().any(|receipt| receipt.name == "t__echo" && receipt.success));
    ensure!(!workspace.path().join("made.txt").exists());
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_declared_read_only_and_writes_has_failed() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "[mcp.t.tools.write]\nread_only = true")).await?;
    let arguments = json!({"path": "made.txt", "content": "x"});
    stage.fails("t__write", arguments, "read_only_wrote", "declares the tool read-only").await?;
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_has_the_variables_that_are_named_and_reaches_its_workspace_alone() -> Result<()> {
    let trail = Trail::new()?;
    let token = tempfile::NamedTempFile::new()?;
    fs::write(token.path(), "c4nary-of-a-server\n")?;
    let more =
        "env = { TOKEN = \"secret:npm\", LEVEL = \"high\" }\ninherit = [\"SHOWN_TO_SERVERS\"]";
    let listed = format!("npm@default=file:{}", token.path().display());
    let environment = [
        ("SURETY_EXECUTOR_SECRETS", listed.as_str()),
        ("SHOWN_TO_SERVERS", "yes"),
        ("HIDDEN_FROM_SERVERS", "no"),
    ];
    let stage = Stage::start_with(&entry(&trail, &[], more), &environment).await?;
    let workspace = tempfile::tempdir()?;
    fs::write(workspace.path().join("here.txt"), "x")?;
    let beside = tempfile::tempdir()?;
    fs::write(beside.path().join("secret.txt"), "x")?;
    let elsewhere = json!({"path": beside.path().display().to_string()});
    let calls =
        [call("t__env", json!({})), call("t__where", json!({})), call("t__where", elsewhere)];
    let run = stage.run(&calls, &workspace).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let mut found = Vec::new();
    for receipt in stage.receipts(&run.id).await?.iter().filter(|it| it.name.starts_with("t__")) {
        found.push(String::from_utf8(stage.output(&run.id, &receipt.call_id).await?)?);
    }
    let [variables, inside, outside] = found.as_slice() else { anyhow::bail!("{found:?}") };
    let variables: Value = serde_json::from_str(variables)?;
    ensure!(variables["TOKEN"] == "[secret:npm]", "redacted where it is recorded: {variables}");
    ensure!(variables["LEVEL"] == "high" && variables["SHOWN_TO_SERVERS"] == "yes", "{variables}");
    for hidden in
        ["HIDDEN_FROM_SERVERS", "DATABASE_URL", "SURETY_EXECUTOR_MCP", "SURETY_TOKEN_FILE"]
    {
        ensure!(variables.get(hidden).is_none(), "{hidden}: {variables}");
    }
    ensure!(inside.contains("here.txt"), "{inside}");
    ensure!(!outside.contains("secret.txt"), "{outside}");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_writes_within_the_scope_of_the_step_and_not_where_it_may_only_read() -> Result<()>
{
    let trail = Trail::new()?;
    let servers = format!(
        "{}[mcp.reader]\ncommand = {}\nread_only = [{:?}]\nworkspace = \"read\"\nnamespaces = [\"default\"]\n",
        entry(&trail, &[], ""),
        super::command(&trail, &[]),
        super::folder().display().to_string()
    );
    let stage = Stage::start(&servers).await?;
    let write = |tool: &str, path: &str| call(tool, json!({"path": path, "content": "x"}));
    for (call, code) in [
        (write("t__write", "src/in.txt"), ""),
        (write("t__write", "out.txt"), "write_scope_violation"),
        (write("reader__write", "src/in.txt"), "mcp"),
    ] {
        let workspace = tempfile::tempdir()?;
        fs::create_dir(workspace.path().join("src"))?;
        let steps = [scoped(step("s", &[], std::slice::from_ref(&call)), &["src/**"])];
        let request = request(&plan(&steps), &workspace.path().display().to_string());
        let limits = v1::Limits { max_replans: Some(0), ..v1::Limits::default() };
        let request = v1::CreateRunRequest { limits: Some(limits), ..request };
        let run = stage.deployment.create_run(request).await?;
        let run = stage
            .deployment
            .wait_for(&run.id, "at rest", |run| {
                run.terminal.is_some() || run.state() == v1::RunState::Blocked
            })
            .await?;
        let wrote_outside = workspace.path().join("out.txt").exists();
        if code.is_empty() {
            ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        } else {
            ensure!(run.state() != v1::RunState::Done, "{code}: {run:#?}");
            ensure!(!workspace.path().join("src/in.txt").exists(), "{code}");
        }
        // Where the machine has no mount namespaces, the difference of the manifests finds it.
        let receipts = stage.receipts(&run.id).await?;
        ensure!(!wrote_outside || receipts.iter().any(|receipt| receipt.summary.starts_with(code)));
    }
    stage.deployment.finish().await
}
