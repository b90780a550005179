//! The key of an endpoint reaches the endpoint, and nothing that is stored, logged, traced or answered.

use crate::model::search::{Forms, files, rows};
use crate::model::stage::{
    Stage, is_planning, next_plan, one_step, planned, say, stop_reason, tool, unplanned,
};
use anyhow::{Result, anyhow, ensure};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::{Deployment, PATIENCE};
use surety_e2e::model_server::{Reply, Settings};
use surety_e2e::otlp::OtlpReceiver;

const CANARY: &str = "sk-C4nary0fTheModelEndpoint9zQ7";
/// What stands in place of a key that an endpoint repeats.
const REDACTED: &str = "[secret:model-key]";
/// A text that is stored as it is: a search that does not find it finds nothing.
const MARK: &str = "a-text-that-every-search-finds";

#[tokio::test]
async fn a_key_is_in_no_row_no_file_no_log_no_trace_no_metric_and_no_answer() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let url = receiver.endpoint();
    let key = tempfile::NamedTempFile::new()?;
    std::fs::write(key.path(), CANARY)?;
    std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(0o600))?;
    let path = key.path().to_string_lossy().into_owned();
    let environment = [
        ("SURETY_MODEL_KEY_FILE", path.as_str()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("SURETY_LOG", "debug"),
    ];
    let settings = Settings { key: Some(CANARY.to_owned()), ..Settings::default() };
    let mut stage = Stage::start_with(settings, &environment).await?;
    stage.plays.add("canary", |number, asked| match (is_planning(asked), number) {
        // An endpoint that repeats its key in an error.
        (true, 0) => Reply::status(400).saying(&format!("the key {CANARY} is not welcome")),
        (true, _) => say(&one_step()),
        (false, 2) => Reply::status(401).saying(&format!("wrong key: {CANARY}")),
        // A model that repeats its key in words and in arguments.
        (false, 3) => say(&json!({
            "action": "continue",
            "speak": format!("My key is {CANARY}."),
            "tool_call": {"name": "write_file",
                "arguments": {"path": "answer.txt", "content": format!("{MARK} {CANARY}\n")}},
        })),
        // More than a row of the journal holds: it is stored as bytes.
        (false, 4) => {
            let line = format!("seq 20000; echo {MARK}; cat answer.txt");
            tool("run_command", json!({"argv": ["sh", "-c", line]}))
        }
        (false, _) => next_plan(),
    });
    // Without a workspace of its own the run works in the data folder.
    let run = stage.deployment.create_run(unplanned("canary", "")).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let sent = stage.server.recorded();
    let shown = |header: &String| header.contains(CANARY);
    ensure!(sent.iter().any(|sent| sent.headers.values().any(shown)), "the endpoint got its key");
    ensure!(!sent.iter().any(|sent| sent.body.to_string().contains(CANARY)), "it is in a prompt");
    let events = stage.deployment.events(&run.id).await?;
    for (place, text) in [
        ("the answer", format!("{ended:?}")),
        ("the events", format!("{events:?}")),
        ("show", stage.deployment.command_line(&["show", &run.id]).await?),
    ] {
        ensure!(!text.contains(CANARY), "{place}: {text}");
    }
    no_metric_has_it(&stage.deployment).await?;
    stage.deployment.first_executor()?.stop().await?;
    stage.deployment.planner.stop().await?;
    let executors = stage.deployment.executors.iter().flat_map(|process| process.log());
    for line in executors.chain(stage.deployment.planner.log()).chain(stage.deployment.gate.log()) {
        ensure!(!Forms::of(CANARY).are_in(line.as_bytes()), "a log line: {line}");
    }
    nothing_stored_has_it(&stage.deployment).await?;
    let spans = receiver
        .wait_for(|spans| spans.iter().any(|span| span.name.starts_with("chat")), PATIENCE)
        .await
        .map_err(|spans| anyhow!("no call is among {spans:?}"))?;
    ensure!(!format!("{spans:?}").contains(CANARY), "the key is in a trace");
    stage.deployment.finish().await
}

/// Looks through the metrics of each service.
async fn no_metric_has_it(deployment: &Deployment) -> Result<()> {
    let services = [&deployment.planner, &deployment.gate];
    for process in deployment.executors.iter().chain(services) {
        let page = process.get("/metrics").await?;
        ensure!(page.contains("# TYPE surety_"), "no metrics: {page}");
        ensure!(!Forms::of(CANARY).are_in(page.as_bytes()), "the key is in a metric: {page}");
    }
    Ok(())
}

/// Looks through the database and the data folder of a deployment, and makes sure that it would find the key there.
async fn nothing_stored_has_it(deployment: &Deployment) -> Result<()> {
    let mut kept = rows(&deployment.database.pool().await?).await?;
    kept.extend(files(deployment.data_dir())?);
    for (place, text) in [("artifact.body", MARK), ("answer.txt", MARK), ("answer.txt", REDACTED)] {
        let forms = Forms::of(text);
        let is_found = kept.iter().any(|(name, bytes)| name.contains(place) && forms.are_in(bytes));
        ensure!(is_found, "{text} is not found in {place}, so the search has no meaning");
    }
    let canary = Forms::of(CANARY);
    for (place, bytes) in &kept {
        let text = || String::from_utf8_lossy(bytes);
        ensure!(!canary.are_in(bytes), "the key is in {place}: {}", text());
    }
    Ok(())
}

#[tokio::test]
async fn a_key_in_a_file_of_the_workspace_is_read_without_it() -> Result<()> {
    let workspace = tempfile::tempdir()?;
    let key = workspace.path().join("model.key");
    std::fs::write(&key, CANARY)?;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
    std::fs::write(workspace.path().join(".env"), format!("OPENAI_API_KEY={CANARY}\n"))?;
    let path = key.to_string_lossy().into_owned();
    let settings = Settings { key: Some(CANARY.to_owned()), ..Settings::default() };
    let stage = Stage::start_with(settings, &[("SURETY_MODEL_KEY_FILE", path.as_str())]).await?;
    stage.plays.add("reads", |number, asked| {
        if number > 0 {
            assert!(asked.last().contains(REDACTED), "{}", asked.last());
        }
        match number {
            0 => tool("read_file", json!({"path": ".env"})),
            1 => tool("grep", json!({"pattern": "API_KEY", "path": "."})),
            2 => tool("read_file", json!({"path": "model.key"})),
            3 => tool("run_command", json!({"argv": ["cat", ".env"]})),
            _ => next_plan(),
        }
    });
    let request = planned("reads", &one_step(), &workspace.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stage.plays.calls("reads") > 4, "{}", stage.plays.calls("reads"));
    let events = stage.deployment.events(&run.id).await?;
    for (place, text) in [
        ("a request", format!("{:?}", stage.asked("reads"))),
        ("an event", format!("{events:?}")),
        ("show", stage.deployment.command_line(&["show", &run.id]).await?),
    ] {
        ensure!(!text.contains(CANARY), "{place}: {text}");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn no_command_reads_the_files_that_profiles_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let (key, header) = (file("model.key", CANARY)?, file("header.txt", CANARY)?);
    let open = file("open.txt", "this one can be read")?;
    let text =
        format!("[model.default]\nkey_file = {key:?}\nheader_files = {{ x-extra = {header:?} }}\n");
    let profiles = file("profiles.toml", &text)?;
    let readable = folder.path().to_string_lossy().into_owned();
    let environment = [
        ("SURETY_MODEL_PROFILES_FILE", profiles.as_str()),
        ("SURETY_SANDBOX_READ_ONLY", readable.as_str()),
    ];
    let settings = Settings { key: Some(CANARY.to_owned()), ..Settings::default() };
    let stage = Stage::start_with(settings, &environment).await?;
    let files = [open, key, header, profiles];
    let asked = files.clone();
    stage.plays.add("curious", move |number, _| match asked.get(number) {
        Some(path) => tool("run_command", json!({"argv": ["cat", path]})),
        None => next_plan(),
    });
    let workspace = tempfile::tempdir()?;
    let request = planned("curious", &one_step(), &workspace.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.deployment.wait_for_end(&run.id).await?;
    let receipts: Vec<bool> = stage
        .deployment
        .events(&run.id)
        .await?
        .into_iter()
        .filter_map(|event| match event.kind {
            Some(Kind::Receipt(receipt)) if receipt.name == "run_command" => Some(receipt.success),
            _ => None,
        })
        .collect();
    ensure!(receipts == [true, false, false, false], "{receipts:?} of {files:?}");
    let said = format!("{:?}", stage.asked("curious"));
    ensure!(!said.contains(CANARY), "{said}");
    stage.deployment.finish().await
}
