//! Calls that reach workers, and what comes of them.

use crate::tool_workers::{Stage, TOOL, call, reads};
use anyhow::{Context, Result, ensure};
use std::sync::atomic::{AtomicUsize, Ordering};
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Request;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::v1::tool_service_client::ToolServiceClient;
use surety_e2e::agent::{AGENT, Agent, PERSON, WORKER, secret};
use surety_e2e::harness::wait_until;
use surety_e2e::script::plan;
use surety_e2e::worker::result;

#[tokio::test]
async fn a_script_calls_a_worker_and_the_receipt_is_in_the_workers_words() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    ensure!(worker.announced.namespaces == ["default"], "{:?}", worker.announced);
    let run_id = stage.run(&[call("hello")]).await?;
    let invocation = worker.call().await?;
    ensure!(invocation.tool == TOOL && invocation.arguments_json == r#"{"text":"hello"}"#);
    ensure!(invocation.attempt == 1 && !invocation.resumed && invocation.fence > 0);
    ensure!(invocation.run_id == run_id && invocation.step_id == "s", "{invocation:#?}");
    ensure!(invocation.idempotency_key == invocation.call_id && !invocation.traceparent.is_empty());
    let waiting = stage.deployment.run(&run_id).await?;
    ensure!(waiting.state() == v1::RunState::Executing && waiting.lease.is_none(), "{waiting:#?}");
    let written = v1::fact::FileWritten {
        path: "a.txt".to_owned(),
        after_digest: Some("d".repeat(64)),
        ..Default::default()
    };
    let fact = v1::Fact { fact: Some(v1::fact::Fact::FileWritten(written)) };
    let answer = v1::ToolResult { facts: vec![fact], ..result(&invocation, "bonjour") };
    worker.store(answer).await?;
    let done = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(done.state() == v1::RunState::Done, "{done:#?}");
    let receipts = stage.receipts(&run_id).await?;
    let receipt = receipts.iter().find(|receipt| receipt.name == TOOL).context("no receipt")?;
    ensure!(receipt.success && receipt.source() == v1::EvidenceSource::ToolObservation);
    let by = receipt.facts.first().and_then(|fact| fact.fact.clone()).context("a fact")?;
    let named = matches!(&by, v1::fact::Fact::Output(output)
        if output.key == "surety.reported_by" && output.value == WORKER);
    ensure!(named && receipt.facts.len() == 2, "{receipt:#?}");
    ensure!(!receipt.output_digest.is_empty(), "{receipt:#?}");
    stage.deployment.finish().await
}

/// More changes of a run of four calls than its turns need; an executor that wrote while a call waits would make hundreds.
const MOST_WRITES: i64 = 64;

/// How often the row of a run was written.
async fn version(stage: &Stage, run_id: &str) -> Result<i64> {
    let pool = stage.deployment.database.pool().await?;
    let run_id: uuid::Uuid = run_id.parse()?;
    let version = sqlx::query_scalar("select version from execution where run_id = $1");
    Ok(version.bind(run_id).fetch_one(&pool).await?)
}

#[tokio::test]
async fn the_workers_of_two_executors_serve_every_call_of_two_runs() -> Result<()> {
    let stage = Stage::with(2, reads()).await?;
    let mut workers = vec![stage.worker(0, "w1").await?, stage.worker(0, "w2").await?];
    workers.push(stage.worker(1, "w3").await?);
    let steps: Vec<_> = (0..4)
        .map(|at| surety_e2e::script::step(&format!("s{at}"), &[], &[call(&at.to_string())]))
        .collect();
    let first = stage.deployment.create(&plan(&steps), "").await?.id;
    let second = stage.deployment.create(&plan(&steps), "").await?.id;
    let stored = &AtomicUsize::new(0);
    let serving = workers.into_iter().map(|mut worker| async move {
        // The next call may arrive before the result of the one before is stored.
        loop {
            match worker.next().await? {
                Message::Invocation(call) => worker.answer(result(&call, "ok")).await?,
                Message::Stored(_) => _ = stored.fetch_add(1, Ordering::Relaxed),
                other @ (Message::Announced(_)
                | Message::Cancel(_)
                | Message::Refused(_)
                | Message::Draining(_)) => anyhow::bail!("{other:?}"),
            }
        }
    });
    let ends = async {
        for run_id in [first, second] {
            let run = stage.deployment.wait_for_end(&run_id).await?;
            ensure!(run.state() == v1::RunState::Done, "{run:#?}");
            let called = stage.receipts(&run_id).await?;
            ensure!(called.iter().filter(|it| it.name == TOOL).count() == 4, "{called:#?}");
            let version = version(&stage, &run_id).await?;
            ensure!(version < MOST_WRITES, "{version} versions of the row of {run_id}");
        }
        wait_until("told of each result", || stored.load(Ordering::Relaxed) == 8).await
    };
    tokio::select! {
        ended = ends => ended?,
        // A worker serves until the runs have ended.
        served = futures::future::try_join_all(serving) => drop::<Vec<()>>(served?),
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_agent_sees_a_workers_tool_and_keeps_its_lease_while_the_call_waits() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let plan = plan(&[serde_json::json!({"id": "s", "description": "translate"})]);
    let driver = v1::Driver::Remote.into();
    let request = v1::CreateRunRequest { driver, ..surety_e2e::script::request(&plan, "") };
    let run_id = stage.deployment.create_run(request).await?.id;
    let agent = Agent::new(&stage.deployment.executors[0], AGENT, "a1")?;
    let work = agent.work(&run_id).await?;
    let listed = work.context.tools.iter().find(|tool| tool.name == TOOL).context("no tool")?;
    ensure!(listed.provider == format!("worker:{WORKER}"), "{listed:#?}");
    let annotations = listed.annotations.context("annotations")?;
    ensure!(annotations.destructive == Some(true) && annotations.read_only == Some(false));
    let system = &work.context.messages[0].text;
    ensure!(system.contains(TOOL) && !system.contains("Does translate"), "{system}");
    ensure!(
        work.context.messages[1].text.contains("Does translate"),
        "{:?}",
        work.context.messages
    );
    let wrong = surety_e2e::agent::call(TOOL, serde_json::json!({"text": 7}));
    let refused = agent.submit(&work, &wrong.to_string()).await?;
    ensure!(refused.correction.contains("arguments_invalid"), "{refused:#?}");
    let context = refused.next.context("the lease goes on")?;
    let work = surety_e2e::agent::Work { context, ..work };
    let decision = surety_e2e::agent::call(TOOL, serde_json::json!({"text": "hi"})).to_string();
    let (submitted, answered) = tokio::join!(agent.submit(&work, &decision), async {
        let call = worker.call().await?;
        worker.store(result(&call, "salut")).await
    });
    answered?;
    let submitted = submitted?;
    ensure!(submitted.observation.contains("salut"), "{submitted:#?}");
    ensure!(submitted.outcome() == v1::TurnOutcome::Applied, "{submitted:#?}");
    let context = submitted.next.context("the lease goes on")?;
    let work = surety_e2e::agent::Work { context, ..work };
    agent.submit(&work, &surety_e2e::agent::next_plan().to_string()).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_large_output_comes_in_chunks_and_a_report_of_progress_is_shown() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("long")]).await?;
    let call = worker.call().await?;
    let progress = v1::ToolProgress {
        call_id: call.call_id.clone(),
        fence: call.fence,
        message: "half of it".to_owned(),
        percent: Some(50),
    };
    worker.send(Request::Progress(progress)).await?;
    let shown = async {
        loop {
            let request = v1::ListWaitsRequest { run_id: run_id.clone(), ..Default::default() };
            let waits = stage.deployment.runs()?.list_waits(request).await?.into_inner().waits;
            if let Some(wait) = waits.iter().find(|wait| !wait.progress.is_empty()) {
                return Ok::<_, anyhow::Error>(wait.clone());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let wait = tokio::time::timeout(surety_e2e::harness::PATIENCE, shown).await??;
    ensure!(wait.progress == "half of it" && wait.progress_percent == Some(50), "{wait:#?}");
    ensure!(wait.waiting_on() == v1::WaitingOn::Worker, "{wait:#?}");
    ensure!(wait.tool_call.as_ref().is_some_and(|call| call.name == TOOL), "{wait:#?}");
    for part in [vec![b'a'; 200_000], vec![b'b'; 100_000]] {
        let (call_id, fence) = (call.call_id.clone(), call.fence);
        worker.send(Request::Output(v1::ToolOutputChunk { call_id, fence, data: part })).await?;
    }
    worker.store(result(&call, "")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let outputs = stage.deployment.events(&run_id).await?;
    let stored = outputs.iter().find_map(|event| match &event.kind {
        Some(v1::event::Kind::Output(output)) => Some(output.bytes),
        _ => None,
    });
    ensure!(stored == Some(300_000), "{stored:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_tool_is_listed_in_its_namespace_after_its_worker_left() -> Result<()> {
    let stage = Stage::that_loses(1, reads()).await?;
    let worker = stage.worker(0, "w1").await?;
    drop(worker);
    let url = stage.deployment.executors[0].url();
    let client = || -> Result<_> {
        let token = Token::new(&secret(PERSON))?;
        Ok(ToolServiceClient::new(channel(&url, Some(&token))?))
    };
    for (namespace, expected) in [("default", true), ("", false)] {
        let request =
            v1::ListToolsRequest { namespace: namespace.to_owned(), ..Default::default() };
        let tools = client()?.list_tools(request).await?.into_inner().tools;
        let listed = tools.iter().find(|tool| tool.name == TOOL);
        ensure!(listed.is_some() == expected, "{namespace:?}: {tools:#?}");
        let reads = listed.and_then(|tool| tool.annotations).and_then(|it| it.read_only);
        ensure!(!expected || reads == Some(true), "{listed:#?}");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_call_that_a_person_has_to_confirm_reaches_the_worker_after_the_approval() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let plan = plan(&[surety_e2e::script::step("s", &[], &[call("x")])]);
    let policy = v1::Policy { confirm_destructive: true, ..v1::Policy::default() };
    let policy = Some(policy);
    let request = v1::CreateRunRequest { policy, ..surety_e2e::script::request(&plan, "") };
    let run_id = stage.deployment.create_run(request).await?.id;
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    stage.deployment.wait_for(&run_id, "blocked", blocked).await?;
    let request = v1::ListWaitsRequest { run_id: run_id.clone(), ..Default::default() };
    let waits = stage.deployment.runs()?.list_waits(request).await?.into_inner().waits;
    let wait = waits.first().context("a wait")?;
    ensure!(wait.kind() == v1::WaitKind::Confirmation, "{wait:#?}");
    let arguments = ["approve", &wait.id, "--digest", &wait.call_digest];
    stage.deployment.command_line(&arguments).await?;
    let invocation = worker.call().await?;
    worker.store(result(&invocation, "ok")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}
