//! Named secrets reach the process that asks for one, and nothing that is stored, logged, traced or answered.

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool, Row};
use std::path::Path;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::otlp::OtlpReceiver;
use surety_e2e::script::{self, plan, step};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A value that no other text has, with bytes that URLs and JSON write otherwise.
const CANARY: &str = "C4nary+of \"a\" token=9zQ7";
/// What stands for it.
const MARK: &str = "[secret:npm]";

/// Prints the value plainly, in base64 at two places, in hexadecimal and percent-encoded, on both streams, and writes it
/// into a file and a file's name.
const LEAK: &str = r#"printf '%s\n' "$NPM_TOKEN"
printf '%s\n' "$NPM_TOKEN" >&2
printf '%s' "$NPM_TOKEN" | base64
printf 'user:%s' "$NPM_TOKEN" | base64 -w 8
printf '%s' "$NPM_TOKEN" | od -An -v -tx1 | tr -d ' \n'
printf '%s' "$NPM_TOKEN" | od -An -v -tx1 | tr -d '\n' | tr ' ' '%'
printf '%s\n' "$NPM_TOKEN" > leaked.txt
touch "$NPM_TOKEN"
yes "$NPM_TOKEN" | head -c 200000"#;

/// What a text has of the value: each form that a reader could turn back.
fn leaks(text: &str) -> Vec<String> {
    let whole = STANDARD.encode(CANARY);
    let behind = STANDARD.encode(format!("user:{CANARY}"));
    let hexadecimal: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let in_bytea = |form: &str| form.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let escaped = Value::String(CANARY.to_owned()).to_string();
    let escaped = escaped.trim_matches('"').to_owned();
    let forms =
        [
            CANARY.to_owned(),
            escaped.clone(),
            Value::String(escaped).to_string().trim_matches('"').to_owned(),
            whole.trim_end_matches('=').get(..30).unwrap_or_default().to_owned(),
            behind.get(8..38).unwrap_or_default().to_owned(),
            hexadecimal.clone(),
            hexadecimal.bytes().collect::<Vec<_>>().chunks(2).fold(String::new(), |all, pair| {
                format!("{all}%{}", String::from_utf8_lossy(pair))
            }),
        ];
    let in_columns: Vec<String> = forms.iter().map(|form| in_bytea(form)).collect();
    forms.into_iter().chain(in_columns).filter(|form| text.contains(form.as_str())).collect()
}

fn ensure_clean(place: &str, text: &str) -> Result<()> {
    let found = leaks(text);
    ensure!(found.is_empty(), "{place} has the secret as {found:?}");
    Ok(())
}

fn run_command(script: &str) -> Value {
    json!({"name": "run_command", "arguments": {
        "argv": ["sh", "-c", script], "env": {"NPM_TOKEN": "secret:npm"}, "timeout_s": 60}})
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn policy(secrets: &[&str]) -> v1::Policy {
    let argv = ["cat", "leaked.txt"].map(str::to_owned).to_vec();
    let name = "lint".to_owned();
    v1::Policy {
        secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
        verify_tools: vec![v1::VerifyTool { name, argv, timeout: None }],
        ..v1::Policy::default()
    }
}

fn request(calls: &[Value], secrets: &[&str], workspace: &TempDir) -> v1::CreateRunRequest {
    let mut plan = plan(&[step("s", &[], calls)]);
    plan["verify"] = json!([
        {"kind": "command_success", "target": "cat leaked.txt", "owner": "user"},
        {"kind": "content_contains", "target": "leaked.txt", "params": {"contains": "4nary"}},
        {"kind": "tool_fact", "params": {"tool": "lint"}, "owner": "user"},
    ]);
    v1::CreateRunRequest {
        policy: Some(policy(secrets)),
        limits: Some(v1::Limits {
            max_repairs: Some(0),
            max_replans: Some(0),
            ..v1::Limits::default()
        }),
        ..script::request(&plan, &workspace.path().display().to_string())
    }
}

/// A server that answers each request with its own headers.
async fn echo() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let place = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut head, mut part) = (Vec::new(), [0; 4096]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part).await {
                    Ok(read @ 1..) => head.extend_from_slice(part.get(..read).unwrap_or_default()),
                    Ok(0) | Err(_) => break,
                }
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", head.len());
            drop(stream.write_all(&[answer.as_bytes(), &head].concat()).await);
        }
    });
    Ok(place)
}

/// Every row of every table, as text.
pub(crate) async fn tables(pool: &PgPool) -> Result<Vec<(String, String)>> {
    let names = "select format('%I.%I', schemaname, tablename) from pg_tables \
                 where schemaname not in ('pg_catalog', 'information_schema')";
    let mut all = Vec::new();
    for row in sqlx::query(names).fetch_all(pool).await? {
        let name: String = row.try_get(0)?;
        let text =
            format!("select coalesce(string_agg(to_jsonb(t)::text, E'\\n'), '') from {name} t");
        let text: String = sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(pool).await?;
        all.push((name, text));
    }
    Ok(all)
}

struct Scene {
    deployment: Deployment,
    receiver: OtlpReceiver,
    _tokens: tempfile::NamedTempFile,
    _file: tempfile::NamedTempFile,
}

impl Scene {
    async fn start(allowed: &str) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), format!("{CANARY}\n"))?;
        let listed = format!(
            "npm@default=file:{};other@elsewhere=env:SURETY_TEST_OTHER",
            file.path().display()
        );
        let receiver = OtlpReceiver::start().await?;
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let endpoint = receiver.endpoint();
        let environment = [
            ("SURETY_TOKEN_FILE", path.as_str()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("SURETY_LOG", "debug"),
        ];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        let own = [
            ("SURETY_EXECUTOR_SECRETS", listed.as_str()),
            ("SURETY_TEST_OTHER", "another secret"),
            ("SURETY_EXECUTOR_HTTP_ALLOW", allowed),
        ];
        deployment.add_executor(&own).await?;
        Ok(Self { deployment, receiver, _tokens: tokens, _file: file })
    }

    async fn run(&self, request: v1::CreateRunRequest) -> Result<v1::Run> {
        let run = self.deployment.create_run(request).await?;
        self.deployment.wait_for_end(&run.id).await
    }

    /// Looks for the value in everything that is known of a run outside of its workspace. Answers the outputs of its
    /// calls, by their names.
    async fn ensure_clean(&self, run: &v1::Run) -> Result<Vec<(String, String)>> {
        let deployment = &self.deployment;
        ensure_clean("GetRun", &format!("{run:?}"))?;
        ensure_clean("WatchRun", &format!("{:?}", deployment.events(&run.id).await?))?;
        let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
        let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
        ensure_clean("ListReceipts", &format!("{receipts:?}"))?;
        let mut outputs = Vec::new();
        for receipt in receipts.iter().filter(|receipt| !receipt.output_digest.is_empty()) {
            let request = v1::GetOutputRequest {
                run_id: run.id.clone(),
                call_id: receipt.call_id.clone(),
                ..Default::default()
            };
            let mut parts = deployment.runs()?.get_output(request).await?.into_inner();
            let mut output = Vec::new();
            while let Some(part) = parts.message().await? {
                output.extend(part.data);
            }
            let output = String::from_utf8_lossy(&output).into_owned();
            ensure_clean("GetOutput", &output)?;
            outputs.push((receipt.name.clone(), output));
        }
        // It ends as the run did, so only one that was accepted is followed.
        let is_done = run.state() == v1::RunState::Done;
        let words = [("show", "--json"), ("show", "--full"), ("watch", "--json")];
        for (word, flag) in words.into_iter().filter(|(word, _)| is_done || *word != "watch") {
            let said = deployment.command_line(&[word, &run.id, flag]).await?;
            ensure_clean("the command line", &said)?;
        }
        Ok(outputs)
    }

    /// Looks for the value in every table, every log line and every span.
    async fn ensure_clean_at_rest(&mut self) -> Result<()> {
        let pool = self.deployment.database.pool().await?;
        let tables = tables(&pool).await?;
        let has_outputs = |(_, text): &&(String, String)| text.contains(MARK);
        ensure!(tables.iter().find(has_outputs).is_some(), "no table has an output: {tables:#?}");
        for (name, text) in &tables {
            ensure_clean(name, text)?;
        }
        let Deployment { planner, executors, gate, .. } = &self.deployment;
        for process in executors.iter().chain([planner, gate]) {
            ensure_clean("a log", &process.log().join("\n"))?;
        }
        let arrived = |spans: &[surety_e2e::otlp::ReceivedSpan]| {
            spans.iter().any(|span| span.name.starts_with("execute_tool"))
        };
        let spans = self.receiver.wait_for(arrived, PATIENCE).await;
        let spans = spans.map_err(|spans| anyhow!("no call was traced: {spans:#?}"))?;
        ensure_clean("OTLP", &format!("{spans:?}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_in_no_table_log_trace_event_receipt_or_answer() -> Result<()> {
    let place = echo().await?;
    let mut scene = Scene::start(&place).await?;
    let workspace = tempfile::tempdir()?;
    let headers = json!({"Authorization": "Bearer secret:npm"});
    let calls = [
        run_command(LEAK),
        call("read_file", json!({"path": "leaked.txt"})),
        call("grep", json!({"pattern": "4nary"})),
        call("list_dir", json!({"path": "."})),
        call("http_get", json!({"url": format!("http://{place}/"), "headers": headers})),
        call("verify", json!({"tool": "lint"})),
    ];
    let run = scene.run(request(&calls, &["npm"], &workspace)).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let leaked = std::fs::read_to_string(workspace.path().join("leaked.txt"))?;
    ensure!(leaked.trim_end() == CANARY, "the command had the value: {leaked:?}");
    let outputs = scene.ensure_clean(&run).await?;
    for name in calls.iter().filter_map(|call| call["name"].as_str()).chain(["verify_command"]) {
        let is_marked = |(of, output): &(String, String)| of == name && output.contains(MARK);
        ensure!(outputs.iter().any(is_marked), "{name} answered nothing of the value: {outputs:?}");
    }
    for failing in [
        "echo \"$NPM_TOKEN\"; exit 3",
        "\"$NPM_TOKEN\"",
        "exec -a \"$NPM_TOKEN\" sleep 1 & echo \"$NPM_TOKEN\" >&2; cd \"/$NPM_TOKEN\"",
    ] {
        let workspace = tempfile::tempdir()?;
        let run = scene.run(request(&[run_command(failing)], &["npm"], &workspace)).await?;
        ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
        scene.ensure_clean(&run).await?;
    }
    scene.ensure_clean_at_rest().await?;
    scene.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_never_sees_the_value_that_its_command_prints() -> Result<()> {
    let mut scene = Scene::start("127.0.0.1:1").await?;
    let workspace = tempfile::tempdir()?;
    let mut request = request(&[], &["npm"], &workspace);
    request.driver = v1::Driver::Remote.into();
    let run = scene.deployment.create_run(request).await?;
    let agent = Agent::new(&scene.deployment.executors[0], AGENT, "agent-1")?;
    let work = agent.work(&run.id).await?;
    let decision = |call: Value| json!({"action": "continue", "tool_call": call}).to_string();
    let printed = agent.submit(&work, &decision(run_command(LEAK))).await?;
    ensure_clean("SubmitDecision", &format!("{printed:?}"))?;
    ensure!(format!("{printed:?}").contains(MARK), "{printed:#?}");
    let work = surety_e2e::agent::Work {
        context: printed.next.context("the next context")?,
        lease: work.lease,
    };
    let foreign = json!({"argv": ["env"], "env": {"X": "secret:other"}});
    let refused = agent.submit(&work, &decision(call("run_command", foreign))).await?;
    ensure!(format!("{refused:?}").contains("secret_unavailable"), "{refused:#?}");
    let work = surety_e2e::agent::Work {
        context: refused.next.context("the next context")?,
        lease: work.lease,
    };
    let ended = agent.submit(&work, &next_plan().to_string()).await?;
    ensure_clean("SubmitDecision", &format!("{ended:?}"))?;
    let run = scene.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    scene.ensure_clean(&run).await?;
    scene.ensure_clean_at_rest().await?;
    scene.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_asks_for_a_secret_of_others_ends_before_its_first_call() -> Result<()> {
    let scene = Scene::start("127.0.0.1:1").await?;
    for name in ["ghost", "other"] {
        let workspace = tempfile::tempdir()?;
        let calls = [run_command("touch began")];
        let run = scene.run(request(&calls, &["npm", name], &workspace)).await?;
        let end = run.terminal.as_ref().context("an end")?;
        ensure!(end.stop_reason() == v1::StopReason::Aborted, "{run:#?}");
        ensure!(end.user_message.starts_with("secret_unavailable"), "{}", end.user_message);
        ensure!(end.user_message.contains(name), "{}", end.user_message);
        ensure!(!Path::new(&workspace.path().join("began")).exists(), "nothing ran");
    }
    let workspace = tempfile::tempdir()?;
    let run = scene.run(request(&[run_command("touch began")], &[], &workspace)).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    ensure!(!workspace.path().join("began").exists(), "policy.secrets does not name it");
    scene.deployment.finish().await
}
