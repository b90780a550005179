//! The tools over a run's own rows, other names of tools, and the time limits of commands.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{self, plan, step, write};
use tempfile::NamedTempFile;

fn todo(arguments: Value) -> Value {
    json!({"name": "todo", "arguments": arguments})
}

fn with_todos(steps: &[Value], todos: Value) -> Value {
    let mut plan = plan(steps);
    plan["todos"] = todos;
    plan
}

/// Runs a plan without repairs to its end.
async fn end(deployment: &Deployment, plan: &Value) -> Result<v1::Run> {
    let limits = v1::Limits { max_repairs: Some(0), max_replans: Some(0), ..v1::Limits::default() };
    let request = v1::CreateRunRequest { limits: Some(limits), ..script::request(plan, "") };
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

async fn receipts(deployment: &Deployment, run_id: &str) -> Result<Vec<v1::EvidenceReceipt>> {
    let request = v1::ListReceiptsRequest { run_id: run_id.to_owned(), ..Default::default() };
    Ok(deployment.runs()?.list_receipts(request).await?.into_inner().receipts)
}

fn statuses(run: &v1::Run) -> Vec<(&str, v1::TodoStatus)> {
    run.todos.iter().map(|todo| (todo.id.as_str(), todo.status())).collect()
}

fn stop_reason(run: &v1::Run) -> v1::StopReason {
    run.terminal.as_ref().map_or(v1::StopReason::Unspecified, v1::Terminal::stop_reason)
}

#[tokio::test]
async fn todos_are_kept_by_the_run_and_decide_its_verdict() -> Result<()> {
    let deployment = Deployment::start().await?;
    let own = json!([{"id": "t1", "content": "tell the team"}]);
    let made =
        todo(json!({"add": [{"content": "write the file"}, {"id": "doc", "content": "say so"}]}));
    let all = todo(json!({"update": [
        {"id": "t1", "status": "completed"}, {"id": "t2", "status": "completed"},
        {"id": "doc", "status": "completed"}]}));
    let done = end(
        &deployment,
        &with_todos(&[step("s", &[], &[made.clone(), write("a.txt", "x"), all])], own.clone()),
    )
    .await?;
    ensure!(done.state() == v1::RunState::Done, "{done:#?}");
    let completed = v1::TodoStatus::Completed;
    ensure!(statuses(&done) == [("t1", completed), ("t2", completed), ("doc", completed)]);
    ensure!(done.todos.iter().skip(1).all(|todo| todo.created_at.is_some()), "{:#?}", done.todos);

    let left = end(
        &deployment,
        &with_todos(
            &[step(
                "s",
                &[],
                &[
                    made,
                    write("a.txt", "x"),
                    todo(json!({"update": [
                {"id": "t1", "status": "completed"}, {"id": "t2", "status": "completed"}]})),
                ],
            )],
            own.clone(),
        ),
    )
    .await?;
    ensure!(
        stop_reason(&left) == v1::StopReason::TodoNotConverged,
        "a made todo is open: {left:#?}"
    );

    let failed = todo(json!({"update": [{"id": "t1", "status": "failed"}]}));
    let failed =
        end(&deployment, &with_todos(&[step("s", &[], &[write("a.txt", "x"), failed])], own))
            .await?;
    ensure!(stop_reason(&failed) == v1::StopReason::RequiredTodoFailed, "{failed:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_refused_change_of_todos_changes_nothing_and_says_why() -> Result<()> {
    let deployment = Deployment::start().await?;
    let own = json!([{"id": "a", "content": "first"},
                     {"id": "b", "content": "second", "dependencies": ["a"]}]);
    let set = |id: &str, status: &str| json!({"update": [{"id": id, "status": status}]});
    for (arguments, code) in [
        (set("zz", "completed"), "todo_not_found: "),
        (set("b", "in_progress"), "todo_dependency_open: "),
        (set("a", "canceled"), "canceled_required_needs_replacement: "),
        (json!({"add": [{"id": "a", "content": "again"}]}), "duplicate_todo_id: "),
        (
            json!({"add": [{"id": "c", "content": "x"}], "update": [{"id": "q", "status": "failed"}]}),
            "todo_not_found: ",
        ),
    ] {
        let run = end(&deployment, &with_todos(&[step("s", &[], &[todo(arguments)])], own.clone()))
            .await?;
        let receipts = receipts(&deployment, &run.id).await?;
        let receipt = receipts.first().context("no receipt")?;
        ensure!(!receipt.success && receipt.summary.starts_with(code), "{code}: {receipt:#?}");
        let pending = v1::TodoStatus::Pending;
        ensure!(statuses(&run) == [("a", pending), ("b", pending)], "{run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn tools_over_the_runs_rows_are_always_allowed_and_no_evidence() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut only = step("s", &[], &[todo(json!({"add": [{"content": "x", "required": false}]}))]);
    only["tools_expected"] = json!(["read_file"]);
    let run = end(&deployment, &plan(&[only])).await?;
    let receipts = receipts(&deployment, &run.id).await?;
    ensure!(receipts.iter().any(|receipt| receipt.name == "todo" && receipt.success));
    let said = run.terminal.as_ref().map_or("", |terminal| terminal.user_message.as_str());
    ensure!(said.contains("evidence_missing"), "a change of todos proves nothing: {run:#?}");
    deployment.finish().await
}

struct Stage {
    deployment: Deployment,
    agent: Agent,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn new(environment: &[(&str, &str)]) -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let all = [&[("SURETY_TOKEN_FILE", path.as_str())], environment].concat();
        let mut deployment = Deployment::start_idle(Database::create().await?, &all).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let agent = Agent::new(deployment.first_executor()?, AGENT, "worker")?;
        Ok(Self { deployment, agent, _tokens: tokens })
    }

    async fn run(&self, step: Value, workspace: &str) -> Result<String> {
        let driver = v1::Driver::Remote.into();
        let request = v1::CreateRunRequest { driver, ..script::request(&plan(&[step]), workspace) };
        Ok(self.deployment.create_run(request).await?.id)
    }

    /// Takes one turn, and answers it with the work of the next one.
    async fn turn(&self, work: &Work, reply: &Value) -> Result<(v1::SubmitDecisionResponse, Work)> {
        let answer = self.agent.submit(work, &reply.to_string()).await?;
        let context = answer.next.clone().with_context(|| format!("{answer:#?}"))?;
        Ok((answer, Work { context, lease: work.lease.clone() }))
    }
}

#[tokio::test]
async fn an_agent_reads_the_rest_of_an_output_by_its_handle() -> Result<()> {
    let stage = Stage::new(&[]).await?;
    let folder = tempfile::tempdir()?;
    let lines: String = (1..=9000).map(|number| format!("line number {number}\n")).collect();
    std::fs::write(folder.path().join("long.txt"), lines)?;
    let id = stage
        .run(json!({"id": "s", "description": "read"}), &folder.path().to_string_lossy())
        .await?;
    let work = stage.agent.work(&id).await?;
    let (read, work) = stage.turn(&work, &call("read_file", json!({"path": "long.txt"}))).await?;
    let handle = &read.receipts.first().context("no receipt")?.call_id;
    ensure!(read.observation.contains(&format!("whole under the handle {handle}")), "{read:#?}");

    let ask = |arguments: Value| call("read_output", arguments);
    let (part, work) =
        stage.turn(&work, &ask(json!({"handle": handle, "from_line": 5000, "lines": 2}))).await?;
    ensure!(part.observation.contains("line number 5000\nline number 5001"), "{part:#?}");
    ensure!(part.observation.contains("go on with from_line 5002"), "{part:#?}");
    let (part, work) =
        stage.turn(&work, &ask(json!({"handle": handle, "from_byte": 0, "bytes": 11}))).await?;
    ensure!(part.observation.ends_with("line number"), "{part:#?}");
    let (unknown, work) =
        stage.turn(&work, &ask(json!({"handle": "0190c0de-0000-7000-8000-000000000000"}))).await?;
    ensure!(unknown.observation.contains("output_not_found"), "{unknown:#?}");
    let (after, work) =
        stage.turn(&work, &ask(json!({"handle": handle, "from_line": 99_999}))).await?;
    ensure!(after.observation.contains("range_empty"), "{after:#?}");

    let elsewhere = tempfile::tempdir()?;
    let other = stage
        .run(json!({"id": "s", "description": "read"}), &elsewhere.path().to_string_lossy())
        .await?;
    let there = stage.agent.work(&other).await?;
    let (foreign, _) = stage.turn(&there, &ask(json!({"handle": handle}))).await?;
    ensure!(
        foreign.observation.contains("output_not_found"),
        "an output of another run: {foreign:#?}"
    );
    stage.agent.submit(&work, &next_plan().to_string()).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_agents_todos_are_in_its_context_and_in_the_run() -> Result<()> {
    let stage = Stage::new(&[]).await?;
    let id = stage.run(json!({"id": "s", "description": "work"}), "").await?;
    let work = stage.agent.work(&id).await?;
    let add = json!({"add": [{"content": "find the fault"}, {"content": "mend it", "dependencies": ["t1"]}]});
    let (added, work) = stage.turn(&work, &call("todo", add)).await?;
    ensure!(added.observation.contains("t2 [pending] mend it; after t1"), "{added:#?}");
    ensure!(work.context.todos.len() == 2, "{:#?}", work.context);
    let text: String = work.context.messages.iter().map(|message| message.text.as_str()).collect();
    ensure!(text.contains("Open todo t1 (required): find the fault"), "{text}");
    let (early, work) = stage
        .turn(&work, &call("todo", json!({"update": [{"id": "t2", "status": "completed"}]})))
        .await?;
    ensure!(early.observation.contains("todo_dependency_open"), "{early:#?}");
    let run = stage.deployment.run(&id).await?;
    let pending = v1::TodoStatus::Pending;
    ensure!(statuses(&run) == [("t1", pending), ("t2", pending)], "{run:#?}");
    let proofless = stage.agent.submit(&work, &next_plan().to_string()).await?;
    ensure!(proofless.correction.contains("evidence_missing"), "{proofless:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_alias_calls_the_tool_that_it_stands_for_and_allows_no_other() -> Result<()> {
    let stage = Stage::new(&[("SURETY_EXECUTOR_TOOL_ALIASES", "put = write_file")]).await?;
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().to_string_lossy().into_owned();
    let id = stage.run(json!({"id": "s", "description": "write"}), &workspace).await?;
    let work = stage.agent.work(&id).await?;
    let written = call("put", json!({"path": "a.txt", "content": "x"}));
    let (written, work) = stage.turn(&work, &written).await?;
    let receipt = written.receipts.first().context("no receipt")?;
    ensure!(receipt.name == "write_file", "{receipt:#?}");
    let named = written.decision.and_then(|decision| decision.tool_call).context("no call")?;
    ensure!(named.name == "write_file", "{named:#?}");
    ensure!(
        written.warnings.iter().any(|warning| warning.code == "tool_alias"),
        "{:#?}",
        written.warnings
    );
    let (seen, work) = stage.turn(&work, &call("view", json!({"path": "a.txt"}))).await?;
    ensure!(seen.receipts.iter().all(|receipt| receipt.name == "read_file"), "{seen:#?}");
    stage.agent.submit(&work, &next_plan().to_string()).await?;

    let step = json!({"id": "s", "description": "read", "tools_expected": ["view"]});
    let id = stage.run(step, "").await?;
    let work = stage.agent.work(&id).await?;
    let names: Vec<_> = work.context.tools.iter().map(|tool| tool.name.as_str()).collect();
    ensure!(names == ["read_file", "read_output", "todo"], "{names:?}");
    let put = call("put", json!({"path": "b", "content": "x"})).to_string();
    let refused = stage.agent.submit(&work, &put).await?;
    ensure!(refused.correction.contains("tool_not_allowed"), "{refused:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn commands_have_a_default_time_of_the_operator_and_a_limit_of_the_run() -> Result<()> {
    let environment = [("SURETY_EXECUTOR_COMMAND_TIMEOUT_S", "1")];
    let deployment = Deployment::start_with(&environment).await?;
    let sleeps = |arguments: Value| {
        let mut arguments = arguments;
        arguments["argv"] = json!(["sleep", "30"]);
        step("s", &[], &[json!({"name": "run_command", "arguments": arguments})])
    };
    let limits = |command_timeout| v1::Limits {
        max_replans: Some(0),
        command_timeout,
        ..v1::Limits::default()
    };
    let bounded = Some(whole_seconds(1));
    for (arguments, command_timeout) in [(json!({}), None), (json!({"timeout_s": 600}), bounded)] {
        let request = v1::CreateRunRequest {
            limits: Some(limits(command_timeout)),
            ..script::request(&plan(&[sleeps(arguments)]), "")
        };
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        let shown = run.limits.as_ref().and_then(|limits| limits.command_timeout);
        ensure!(shown == command_timeout, "{run:#?}");
        let receipts = receipts(&deployment, &run.id).await?;
        let receipt = receipts.first().context("no receipt")?;
        ensure!(receipt.summary.starts_with("timeout: "), "{receipt:#?}");
    }
    deployment.finish().await
}

fn sleep(seconds: u32) -> Value {
    json!({"name": "sleep", "arguments": {"seconds": seconds}})
}

#[tokio::test]
async fn a_sleeping_run_holds_nothing_and_goes_on_by_itself() -> Result<()> {
    let deployment = Deployment::start().await?;
    let limits = v1::Limits { step_deadline: Some(whole_seconds(2)), ..v1::Limits::default() };
    let plan = plan(&[step("s", &[], &[sleep(3), write("a.txt", "x")])]);
    let request = v1::CreateRunRequest { limits: Some(limits), ..script::request(&plan, "") };
    let run = deployment.create_run(request).await?;
    let asleep = deployment
        .wait_for(&run.id, "asleep", |run| {
            run.steps.iter().any(|step| step.state() == v1::StepState::Waiting)
        })
        .await?;
    ensure!(asleep.state() == v1::RunState::Executing && asleep.lease.is_none(), "{asleep:#?}");
    let request = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(request).await?.into_inner().waits;
    let wait = waits.first().context("no wait")?;
    ensure!(
        wait.kind() == v1::WaitKind::Timer && wait.waiting_on() == v1::WaitingOn::Timer,
        "{wait:#?}"
    );
    let done = deployment.wait_for_end(&run.id).await?;
    ensure!(done.state() == v1::RunState::Done, "the sleep is no time of the step: {done:#?}");
    let receipts = receipts(&deployment, &run.id).await?;
    let slept = receipts.iter().find(|receipt| receipt.name == "sleep").context("no receipt")?;
    ensure!(slept.success && slept.summary.starts_with("slept "), "{slept:#?}");
    let at = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or(0, |at| at.seconds);
    ensure!(at(&slept.finished_at) - at(&slept.started_at) >= 2, "{slept:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_sleep_past_the_runs_deadline_is_refused() -> Result<()> {
    let deployment = Deployment::start().await?;
    let limits = v1::Limits {
        run_deadline: Some(whole_seconds(60)),
        max_replans: Some(0),
        ..v1::Limits::default()
    };
    let plan = plan(&[step("s", &[], &[sleep(3600)])]);
    let request = v1::CreateRunRequest { limits: Some(limits), ..script::request(&plan, "") };
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await?;
    let receipts = receipts(&deployment, &run.id).await?;
    let receipt = receipts.first().context("no receipt")?;
    ensure!(receipt.summary.starts_with("sleep_too_long: "), "{receipt:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn an_agent_that_sleeps_loses_its_lease_and_finds_the_outcome_as_an_observation() -> Result<()>
{
    let stage = Stage::new(&[]).await?;
    let id = stage.run(json!({"id": "s", "description": "wait"}), "").await?;
    let work = stage.agent.work(&id).await?;
    let asleep =
        stage.agent.submit(&work, &call("sleep", json!({"seconds": 1})).to_string()).await?;
    ensure!(asleep.outcome() == v1::TurnOutcome::Waiting && asleep.next.is_none(), "{asleep:#?}");
    let work = stage.agent.work(&id).await?;
    ensure!(work.context.turn == 2, "{work:#?}");
    let text: String = work.context.messages.iter().map(|message| message.text.as_str()).collect();
    ensure!(text.contains("sleep succeeded: slept "), "{text}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_time_that_comes_during_a_pause_is_kept_until_its_end() -> Result<()> {
    let deployment = Deployment::start().await?;
    let plan = plan(&[step("s", &[], &[sleep(1), write("a.txt", "x")])]);
    let run = deployment.create(&plan, "").await?;
    let waiting =
        |run: &v1::Run| run.steps.iter().any(|step| step.state() == v1::StepState::Waiting);
    deployment.wait_for(&run.id, "asleep", waiting).await?;
    let request = v1::PauseRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.pause_run(request).await?;
    let awake = deployment.wait_for(&run.id, "awake", |run| {
        run.steps.iter().all(|step| step.state() == v1::StepState::Ready)
    });
    ensure!(awake.await?.state() == v1::RunState::Blocked);
    let request = v1::ResumeRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(request).await?;
    let done = deployment.wait_for_end(&run.id).await?;
    ensure!(done.state() == v1::RunState::Done, "{done:#?}");
    deployment.finish().await
}
