//! An agent that speaks MCP drives a run: `surety mcp --drive` as a client of a real executor.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;
use surety_common::tls::http_client;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment, binary};
use surety_e2e::script::{Trail, plan, request};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long one answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running server, and its messages.
struct Mcp {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: i64,
    /// The notifications that came since the last answer.
    notified: Vec<Value>,
}

impl Mcp {
    async fn start(deployment: &Deployment, token: &NamedTempFile) -> Result<Self> {
        Self::start_with(deployment, token, json!({})).await
    }

    /// As [`Self::start`], for a client with capabilities.
    async fn start_with(
        deployment: &Deployment,
        token: &NamedTempFile,
        capabilities: Value,
    ) -> Result<Self> {
        let executor = deployment.executors.first().context("an executor")?.url();
        let mut command = Command::new(binary("surety")?);
        command.args(["mcp", "--drive", &executor, "--url", &deployment.planner.url()]);
        command.arg("--token-file").arg(token.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().context("an output")?).lines();
        let mut mcp = Self { child, input, lines, next_id: 1, notified: Vec::new() };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        mcp.request("initialize", params).await?;
        mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(mcp)
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("an input")?;
        Ok(input.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn receive(&mut self) -> Result<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await??;
        Ok(serde_json::from_str(&line.context("the server ended")?)?)
    }

    /// Sends a request, and says its id.
    async fn begin(&mut self, method: &str, params: Value) -> Result<i64> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        Ok(id)
    }

    async fn answer(&mut self, id: i64) -> Result<Value> {
        self.notified.clear();
        loop {
            let message = self.receive().await?;
            if message.get("id").is_none() {
                self.notified.push(message);
                continue;
            }
            ensure!(message["id"] == id && message.get("error").is_none(), "{message}");
            return Ok(message["result"].clone());
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.begin(method, params).await?;
        self.answer(id).await.with_context(|| method.to_owned())
    }

    /// The value of a tool's result, and whether it is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<(Value, bool)> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", params).await?;
        Ok((result["structuredContent"].clone(), result["isError"] == true))
    }

    /// The text of a tool's result, which some clients show their model alone.
    async fn text_of(&mut self, tool: &str, arguments: Value) -> Result<String> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", params).await?;
        Ok(result["content"][0]["text"].as_str().context("a text")?.to_owned())
    }

    async fn end(mut self) -> Result<()> {
        drop(self.input.take());
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await??;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

fn token_of(identity: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{}", secret(identity))?;
    Ok(file)
}

#[tokio::test]
async fn decisions_over_mcp_go_through_the_executor_to_a_verdict() -> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let trails = Trail::parent().to_string_lossy().into_owned();
    let lease = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1500");
    let environment =
        [("SURETY_TOKEN_FILE", path.as_str()), lease, ("SURETY_SANDBOX_WRITABLE", &trails)];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let folder = tempfile::tempdir()?;
    let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
    let driver = v1::Driver::Remote.into();
    let created =
        v1::CreateRunRequest { driver, ..request(&plan, &folder.path().to_string_lossy()) };
    let run_id = deployment.create_run(created).await?.id;

    // A person's token drives nothing.
    let mut stranger = Mcp::start(&deployment, &token_of(PERSON)?).await?;
    let (refused, is_error) = stranger.call("surety_lease", json!({"run_id": run_id})).await?;
    ensure!(is_error && refused["error"]["code"] == "permission_denied", "{refused}");
    stranger.end().await?;

    let mut mcp = Mcp::start(&deployment, &token_of(AGENT)?).await?;
    let tools = mcp.request("tools/list", json!({})).await?;
    ensure!(tools["tools"].as_array().map(Vec::len) == Some(5), "{tools}");
    let (refused, is_error) = mcp.call("surety_decide", json!({"decision": write()})).await?;
    ensure!(is_error && refused["error"]["code"] == "value_invalid", "{refused}");
    let wanted = json!({"run_id": run_id, "wait_seconds": 30});
    let (leased, _) = mcp.call("surety_lease", wanted.clone()).await?;
    ensure!(leased["leased"] == true && leased["context"]["turn"] == 1, "{leased}");
    // The lease outlives the time after which an agent without heartbeats is lost.
    let other = Agent::new(deployment.executors.first().context("one")?, AGENT, "other")?;
    ensure!(other.lease(&run_id, 4).await?.is_none(), "the step is held by heartbeats");
    let (again, is_error) = mcp.call("surety_lease", wanted.clone()).await?;
    ensure!(is_error, "one step at a time: {again}");
    let (refused, _) = mcp.call("surety_decide", json!({"decision": {"action": "fly"}})).await?;
    ensure!(refused["outcome"] == "no_decision", "{refused}");
    // A connection that ends gives the step back.
    mcp.end().await?;
    let mut mcp = Mcp::start(&deployment, &token_of(AGENT)?).await?;
    let (leased, _) = mcp.call("surety_lease", wanted).await?;
    ensure!(leased["context"]["turn"] == 2, "{leased}");
    let (wrote, _) = mcp.call("surety_decide", json!({"decision": write()})).await?;
    ensure!(wrote["outcome"] == "applied" && wrote["next"]["turn"] == 3, "{wrote}");
    let (done, _) = mcp.call("surety_decide", json!({"decision": next_plan().to_string()})).await?;
    ensure!(done["outcome"] == "step_done", "{done}");
    let (left, is_error) = mcp.call("surety_release", json!({})).await?;
    ensure!(is_error, "nothing is leased: {left}");
    mcp.end().await?;
    let run = deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

/// Leases a plan that was refused, gives it back, and leases it again: the text alone has all that a plan needs.
async fn leased_again_with_a_text_that_suffices(mcp: &mut Mcp, of_run: &Value) -> Result<()> {
    let (leased, _) = mcp.call("surety_lease_plan", of_run.clone()).await?;
    ensure!(leased["context"]["correction"]["code"] == "steps_empty", "{leased}");
    let (released, _) = mcp.call("surety_release", json!({"reason": "another agent"})).await?;
    ensure!(released["released"] == true, "{released}");
    let text = mcp.text_of("surety_lease_plan", of_run.clone()).await?;
    for part in [
        "goal: write out.txt",
        "steps_empty",
        "file_exists  out.txt",
        "tool write_file",
        "max_plan_steps",
    ] {
        ensure!(text.contains(part), "no {part:?}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_over_mcp_plans_decides_waits_and_reads_how_the_run_ended() -> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let trails = Trail::parent().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str()), ("SURETY_SANDBOX_WRITABLE", &trails)];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().to_string_lossy().into_owned();
    let created = v1::CreateRunRequest {
        goal: "write out.txt".to_owned(),
        driver: v1::Driver::Remote.into(),
        workspace: workspace.clone(),
        verify: vec![v1::AcceptCheck {
            kind: "file_exists".to_owned(),
            target: "out.txt".to_owned(),
            ..v1::AcceptCheck::default()
        }],
        ..v1::CreateRunRequest::default()
    };
    let run_id = deployment.create_run(created).await?.id;
    let mut mcp = Mcp::start(&deployment, &token_of(AGENT)?).await?;
    let of_run = json!({"run_id": run_id, "wait_seconds": 30});
    let at_once = json!({"run_id": run_id});

    // Without a plan there is no step; the agent reads what the run waits for.
    let (idle, _) = mcp.call("surety_lease", at_once.clone()).await?;
    ensure!(idle["leased"] == false && idle["run_state"] == "BLOCKED", "{idle}");
    ensure!(
        idle["blocked"]["unblocks"].as_str().is_some_and(|it| it.contains("SubmitPlan")),
        "{idle}"
    );

    let steps = json!([{"id": "s", "description": "write out.txt"}]);
    let (refused, is_error) = mcp.call("surety_submit_plan", json!({"plan": {}})).await?;
    ensure!(
        is_error && refused["error"]["code"] == "value_invalid",
        "nothing is leased: {refused}"
    );
    let (leased, _) = mcp.call("surety_lease_plan", of_run.clone()).await?;
    ensure!(leased["context"]["goal"] == "write out.txt", "{leased}");
    let (refused, is_error) =
        mcp.call("surety_submit_plan", json!({"plan": {"title": "t", "steps": []}})).await?;
    ensure!(is_error && refused["error"]["code"] == "steps_empty", "{refused}");
    leased_again_with_a_text_that_suffices(&mut mcp, &of_run).await?;
    let whole = json!({"title": "t", "steps": steps, "verify": ["test -e out.txt"]});
    let (stored, _) = mcp.call("surety_submit_plan", json!({"plan": whole})).await?;
    ensure!(stored["plan"]["verify"].as_array().map(Vec::len) == Some(2), "{stored}");

    let (leased, _) = mcp.call("surety_lease", of_run.clone()).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let (wrote, _) = mcp.call("surety_decide", json!({"decision": write()})).await?;
    ensure!(wrote["outcome"] == "applied", "{wrote}");
    let (done, _) = mcp.call("surety_decide", json!({"decision": next_plan().to_string()})).await?;
    ensure!(done["outcome"] == "step_done", "{done}");
    deployment.wait_for_end(&run_id).await?;
    let (ended, is_error) = mcp.call("surety_lease", at_once).await?;
    let said = ended["ended"].as_str().unwrap_or_default();
    ensure!(!is_error && said.contains("DONE (accepted)"), "{ended}");

    // A leased plan goes back when the connection ends.
    let created = v1::CreateRunRequest {
        goal: "another".to_owned(),
        driver: v1::Driver::Remote.into(),
        ..v1::CreateRunRequest::default()
    };
    let other = json!({"run_id": deployment.create_run(created).await?.id, "wait_seconds": 30});
    let (leased, _) = mcp.call("surety_lease_plan", other.clone()).await?;
    ensure!(leased["leased"] == true, "{leased}");
    mcp.end().await?;
    let mut mcp = Mcp::start(&deployment, &token_of(AGENT)?).await?;
    let (leased, _) = mcp.call("surety_lease_plan", other).await?;
    ensure!(leased["leased"] == true, "the plan is still held: {leased}");
    mcp.end().await?;
    deployment.finish().await
}

fn write() -> Value {
    call("write_file", json!({"path": "out.txt", "content": "done\n"}))
}

/// A server over HTTP, and what it answers.
struct OverHttp {
    _child: Child,
    url: String,
    client: reqwest::Client,
}

impl OverHttp {
    async fn start(deployment: &Deployment, token: &NamedTempFile) -> Result<Self> {
        let executor = deployment.executors.first().context("an executor")?.url();
        let mut command = Command::new(binary("surety")?);
        command.args(["mcp", "--drive", &executor, "--url", &deployment.planner.url()]);
        command.args(["--listen", "127.0.0.1:0", "--token-file"]).arg(token.path());
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("messages")?).lines();
        let url = loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
            let line = line.context("the server ended")?;
            if let Some((_, url)) = line.split_once("serving MCP at ") {
                break url.trim().to_owned();
            }
        };
        // What follows is read, so that the server never waits for it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _child: child, url, client: http_client().build()? })
    }

    async fn post(
        &self,
        session: Option<&str>,
        message: &Value,
    ) -> Result<(Option<String>, Value)> {
        let mut request = self.client.post(&self.url).timeout(PATIENCE);
        request = request.header("Accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("Mcp-Session-Id", session);
        }
        let answer = request.json(message).send().await?.error_for_status()?;
        let opened = answer.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        let (opened, body) = (opened.map(str::to_owned), answer.text().await?);
        let of_line = |line: &str| {
            let text = line.strip_prefix("data:").unwrap_or(line).trim();
            serde_json::from_str(text).ok().filter(|it: &Value| it.get("id").is_some())
        };
        Ok((opened, body.lines().find_map(of_line).unwrap_or_default()))
    }

    async fn session(&self) -> Result<String> {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let (session, _) = self.post(None, &message).await?;
        let session = session.context("a session")?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Some(&session), &ready).await?;
        Ok(session)
    }

    async fn call(&self, session: &str, tool: &str, arguments: Value) -> Result<(Value, bool)> {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let (_, answer) = self.post(Some(session), &message).await?;
        ensure!(answer.get("error").is_none(), "{tool}: {answer}");
        let result = &answer["result"];
        Ok((result["structuredContent"].clone(), result["isError"] == true))
    }
}

#[tokio::test]
async fn each_session_over_http_has_leases_of_its_own_and_gives_them_back() -> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    // The step does not come back by its time.
    let lease = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "600000");
    let environment = [("SURETY_TOKEN_FILE", path.as_str()), lease];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let step = json!({"id": "s", "description": "x", "evidence": "none"});
    let mut run_ids = Vec::new();
    for _ in 0..2 {
        let driver = v1::Driver::Remote.into();
        let created =
            v1::CreateRunRequest { driver, ..request(&plan(std::slice::from_ref(&step)), "") };
        run_ids.push(deployment.create_run(created).await?.id);
    }
    let wanted = |run_id: &str| json!({"run_id": run_id, "wait_seconds": 30});
    let server = OverHttp::start(&deployment, &token_of(AGENT)?).await?;
    let (first, second) = (server.session().await?, server.session().await?);
    let (leased, _) = server.call(&first, "surety_lease", wanted(&run_ids[0])).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let decision = json!({"decision": next_plan().to_string()});
    let (refused, is_error) = server.call(&second, "surety_decide", decision.clone()).await?;
    ensure!(is_error, "the step is the other session's: {refused}");
    let (leased, _) = server.call(&second, "surety_lease", wanted(&run_ids[1])).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let epoch = leased["lease"]["lease_epoch"].clone();
    let wrong = json!({"decision": next_plan().to_string(), "lease_epoch": 1_u64 << 40});
    let (refused, is_error) = server.call(&second, "surety_decide", wrong).await?;
    ensure!(is_error && refused["error"]["code"] == "value_invalid", "{refused}");
    let named = json!({"decision": next_plan().to_string(), "lease_epoch": epoch});
    let (done, _) = server.call(&second, "surety_decide", named).await?;
    ensure!(done["outcome"] == "step_done", "{done}");
    deployment.wait_for_end(&run_ids[1]).await?;

    // The session of the agent that vanished ends, and its step is offered at once.
    let ending = server.client.delete(&server.url).header("Mcp-Session-Id", &first);
    ending.send().await?.error_for_status()?;
    let third = server.session().await?;
    let (leased, _) = server.call(&third, "surety_lease", wanted(&run_ids[0])).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let (done, _) = server.call(&third, "surety_decide", decision).await?;
    ensure!(done["outcome"] == "step_done", "{done}");
    deployment.wait_for_end(&run_ids[0]).await?;
    deployment.finish().await
}

/// A decision that lasts until a file is there.
fn until_there(name: &str) -> Value {
    let line = format!("until test -e {name}; do sleep 0.05; done");
    call("run_command", json!({"argv": ["sh", "-c", line]}))
}

#[tokio::test]
async fn a_long_decision_tells_that_it_goes_on_and_is_a_task_where_the_client_takes_tasks()
-> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let folder = tempfile::tempdir()?;
    let plan = plan(&[json!({"id": "s", "description": "wait for two files"})]);
    let driver = v1::Driver::Remote.into();
    let created =
        v1::CreateRunRequest { driver, ..request(&plan, &folder.path().to_string_lossy()) };
    let run_id = deployment.create_run(created).await?.id;
    let wanted = json!({"run_id": run_id, "wait_seconds": 30});

    let mut mcp = Mcp::start(&deployment, &token_of(AGENT)?).await?;
    let (leased, _) = mcp.call("surety_lease", wanted.clone()).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let params = json!({"name": "surety_decide", "arguments": {"decision": until_there("one")},
        "_meta": {"progressToken": "p"}});
    let id = mcp.begin("tools/call", params).await?;
    for value in [1.0, 2.0] {
        let told = mcp.receive().await?;
        ensure!(told["method"] == "notifications/progress", "{told}");
        ensure!(told["params"]["progressToken"] == "p" && told["params"]["progress"] == value);
        ensure!(told["params"]["message"] == "the executor works on the decision", "{told}");
    }
    std::fs::write(folder.path().join("one"), "")?;
    let decided = mcp.answer(id).await?["structuredContent"].clone();
    ensure!(decided["outcome"] == "applied", "{decided}");
    mcp.end().await?;

    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut mcp = Mcp::start_with(&deployment, &token_of(AGENT)?, tasks).await?;
    let (leased, _) = mcp.call("surety_lease", wanted).await?;
    ensure!(leased["leased"] == true, "{leased}");
    let params = json!({"name": "surety_decide", "arguments": {"decision": until_there("two")}});
    let made = mcp.request("tools/call", params).await?;
    let task = json!({"taskId": made["taskId"]});
    let (second, is_error) = mcp.call("surety_lease", json!({"wait_seconds": 0})).await?;
    ensure!(is_error && second["error"]["code"] == "round_running", "{second}");
    ensure!(mcp.request("tasks/get", task.clone()).await?["status"] == "working");
    std::fs::write(folder.path().join("two"), "")?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let ended = loop {
        let found = mcp.request("tasks/get", task.clone()).await?;
        if found["status"] != "working" {
            break found;
        }
        ensure!(tokio::time::Instant::now() < deadline, "{found}");
    };
    let decided = &ended["result"]["structuredContent"];
    ensure!(ended["status"] == "completed" && decided["outcome"] == "applied", "{ended}");
    let params = json!({"name": "surety_decide", "arguments": {"decision": next_plan()}});
    let made = mcp.request("tools/call", params).await?;
    ensure!(made["taskId"].is_string(), "{made}");
    let run = deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    mcp.end().await?;
    deployment.finish().await
}
