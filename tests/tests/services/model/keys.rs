//! The key of an endpoint reaches the endpoint, and nothing that is stored, logged, traced or answered.

use crate::model::stage::{
    Stage, is_planning, next_plan, one_step, planned, say, tool, unplanned, write_answer,
};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool, Row};
use std::os::unix::fs::PermissionsExt;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::PATIENCE;
use surety_e2e::model_server::{Reply, Settings};
use surety_e2e::otlp::OtlpReceiver;

const CANARY: &str = "sk-C4nary0fTheModelEndpoint9zQ7";

#[tokio::test]
async fn a_key_is_in_no_row_no_log_no_trace_and_no_answer() -> Result<()> {
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
    let folder = tempfile::tempdir()?;
    stage.plays.add("canary", |number, asked| match (is_planning(asked), number) {
        // An endpoint that repeats its key in an error.
        (true, 0) => Reply::status(400).saying(&format!("the key {CANARY} is not welcome")),
        (true, _) => say(&one_step()),
        (false, 2) => Reply::status(401).saying(&format!("wrong key: {CANARY}")),
        (false, 3) => write_answer(),
        (false, _) => next_plan(),
    });
    let request = unplanned("canary", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
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
    let pool = stage.deployment.database.pool().await?;
    let tables = rows(&pool).await?;
    ensure!(!tables.contains(CANARY), "the key is in the database");
    stage.deployment.first_executor()?.stop().await?;
    stage.deployment.planner.stop().await?;
    let executors = stage.deployment.executors.iter().flat_map(|process| process.log());
    for line in executors.chain(stage.deployment.planner.log()).chain(stage.deployment.gate.log()) {
        ensure!(!line.contains(CANARY), "a log line: {line}");
    }
    let spans = receiver
        .wait_for(|spans| spans.iter().any(|span| span.name.starts_with("chat")), PATIENCE)
        .await
        .map_err(|spans| anyhow!("no call is among {spans:?}"))?;
    ensure!(!format!("{spans:?}").contains(CANARY), "the key is in a trace");
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

/// Every row of every table, as text.
async fn rows(pool: &PgPool) -> Result<String> {
    let tables = sqlx::query("select tablename::text from pg_tables where schemaname = 'public'");
    let tables = tables.fetch_all(pool).await?;
    let mut all = String::new();
    for table in tables {
        let name: String = table.try_get(0).context("a table's name")?;
        let query = AssertSqlSafe(format!("select row_to_json(t)::text from \"{name}\" t"));
        let found: Vec<String> = sqlx::query_scalar(query).fetch_all(pool).await?;
        found.iter().for_each(|row| all.push_str(row));
    }
    Ok(all)
}
