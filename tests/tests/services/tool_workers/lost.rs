//! Workers that are lost, come back, or do not know.

use crate::tool_workers::{Stage, TOOL, call, reads};
use anyhow::{Context, Result, ensure};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Request;
use surety_common::wire::v1::connect_response::Message;
use surety_e2e::agent::WORKER;
use surety_e2e::worker::{Worker, result};

const fn idempotent() -> v1::ToolAnnotations {
    v1::ToolAnnotations {
        read_only: None,
        destructive: None,
        idempotent: Some(true),
        open_world: None,
    }
}

#[tokio::test]
async fn a_call_that_may_be_repeated_goes_to_another_worker_with_the_same_key() -> Result<()> {
    for annotations in [reads(), idempotent()] {
        let stage = Stage::that_loses(1, annotations).await?;
        let mut first = stage.worker(0, "w1").await?;
        let run_id = stage.run(&[call("x")]).await?;
        let lost = first.call().await?;
        drop(first);
        let mut second = stage.worker(0, "w2").await?;
        let again = second.call().await?;
        ensure!(again.idempotency_key == lost.idempotency_key, "{again:#?}");
        ensure!(again.fence != lost.fence && again.attempt == 2 && !again.resumed, "{again:#?}");
        second.store(result(&again, "ok")).await?;
        let run = stage.deployment.wait_for_end(&run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        stage.deployment.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_outcome_of_any_other_call_is_asked_of_a_person() -> Result<()> {
    for (answer, calls) in [("happened", 0), ("repeat", 1)] {
        let stage = Stage::that_loses(1, v1::ToolAnnotations::default()).await?;
        let mut first = stage.worker(0, "w1").await?;
        let run_id = stage.run(&[call("x")]).await?;
        let lost = first.call().await?;
        drop(first);
        let question = stage.deployment.question(&run_id).await?;
        ensure!(question.question.contains(TOOL), "{question:#?}");
        let mut second = stage.worker(0, "w2").await?;
        stage.deployment.answer(&question.wait_id, answer).await?;
        if calls > 0 {
            let again = second.call().await?;
            ensure!(again.idempotency_key == lost.idempotency_key, "{again:#?}");
            second.store(result(&again, "ok")).await?;
        }
        let run = stage.deployment.wait_for_end(&run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{answer}: {run:#?}");
        stage.deployment.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_that_comes_back_in_time_has_its_calls_at_any_executor() -> Result<()> {
    let stage = Stage::with(2, v1::ToolAnnotations::default()).await?;
    let mut first = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = first.call().await?;
    drop(first);
    let mut back = stage.worker(1, "w1").await?;
    let resumed = back.call().await?;
    ensure!(resumed.resumed && resumed.call_id == given.call_id, "{resumed:#?}");
    ensure!(resumed.fence == given.fence && resumed.attempt == 1, "{resumed:#?}");
    back.store(result(&given, "ok")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_retryable_result_is_made_again_as_often_as_the_policy_says() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let plan = surety_e2e::script::plan(&[surety_e2e::script::step("s", &[], &[call("x")])]);
    let limits = Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() });
    let request = v1::CreateRunRequest { limits, ..surety_e2e::script::request(&plan, "") };
    let run_id = stage.deployment.create_run(request).await?.id;
    for attempt in 1..=3 {
        let call = worker.call().await?;
        ensure!(call.attempt == attempt, "{call:#?}");
        let failed = v1::ToolResult {
            success: false,
            error: format!("failure {attempt}"),
            retryable: true,
            retry_after: Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 }),
            ..result(&call, "")
        };
        worker.store(failed).await?;
    }
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    let receipts = stage.receipts(&run_id).await?;
    let receipt = receipts.iter().find(|receipt| receipt.name == TOOL).context("no receipt")?;
    ensure!(!receipt.success && receipt.summary.contains("failure 3"), "{receipt:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn the_end_of_a_run_cancels_the_call_and_a_late_result_is_refused() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.cancel_run(cancel).await?;
    let cancel = worker.cancelled().await?;
    ensure!(cancel.call_id == given.call_id && cancel.fence == given.fence, "{cancel:?}");
    let code = worker.refusal(Request::Result(result(&given, "late"))).await?;
    ensure!(code == "tool_call_unknown", "{code}");
    stage.deployment.finish().await
}

/// A worker that takes a call of a tool whose calls end after two seconds, and does not answer. Returns the run and
/// the call, once the worker was told of the end.
async fn unanswered(stage: &Stage) -> Result<(String, v1::ToolInvocation)> {
    let timeout = Some(prost_types::Duration { seconds: 2, nanos: 0 });
    let tool = v1::Tool { timeout, ..surety_e2e::worker::tool(TOOL) };
    let announce = surety_e2e::worker::announce("w1", &[tool]);
    let mut worker = Worker::connect(&stage.deployment.executors[0], WORKER, announce).await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let cancel = worker.cancelled().await?;
    ensure!(cancel.call_id == given.call_id, "{cancel:#?}");
    Ok((run_id, given))
}

#[tokio::test]
async fn a_call_without_an_answer_times_out_and_its_worker_is_told() -> Result<()> {
    let stage = Stage::with(1, idempotent()).await?;
    let (run_id, _) = unanswered(&stage).await?;
    let receipts = async {
        loop {
            let receipts = stage.receipts(&run_id).await?;
            if let Some(receipt) = receipts.into_iter().find(|receipt| receipt.name == TOOL) {
                return Ok::<_, anyhow::Error>(receipt);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let receipt = tokio::time::timeout(surety_e2e::harness::PATIENCE, receipts).await??;
    ensure!(!receipt.success && receipt.summary.starts_with("timeout"), "{receipt:#?}");
    let cancel = v1::CancelRunRequest { run_id, ..Default::default() };
    drop(stage.deployment.runs()?.cancel_run(cancel).await);
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_script_repeats_no_call_that_a_worker_had_until_its_deadline() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let (run_id, given) = unanswered(&stage).await?;
    let question = stage.deployment.question(&run_id).await?;
    ensure!(question.question.contains(TOOL), "{question:#?}");
    stage.deployment.answer(&question.wait_id, "repeat").await?;
    let mut other = stage.worker(0, "w2").await?;
    let again = other.call().await?;
    ensure!(again.idempotency_key == given.idempotency_key, "{again:#?}");
    other.store(result(&again, "ok")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

/// Sets the clock of the database, for connections that are made from now on.
async fn set_clock(stage: &Stage, minutes: i32) -> Result<()> {
    let database = &stage.deployment.database;
    let name = database.name();
    let pool = database.pool().await?;
    for statement in [
        // Found before the function that it replaces.
        format!(
            "create or replace function clock_timestamp() returns timestamptz language sql volatile as
             $$ select pg_catalog.clock_timestamp() + interval '{minutes} minutes' $$"
        ),
        format!("alter database {name} set search_path = public, pg_catalog"),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_call_takes_more_than_an_hour_while_its_worker_restarts_twice() -> Result<()> {
    let hour = ("SURETY_EXECUTOR_WORKER_LEASE_MS", "3600000");
    let mut stage = Stage::leased(1, v1::ToolAnnotations::default(), hour).await?;
    let day = Some(prost_types::Duration { seconds: 24 * 3600, nanos: 0 });
    let tool = v1::Tool { timeout: day, ..surety_e2e::worker::tool(TOOL) };
    let announce = || surety_e2e::worker::announce("w1", std::slice::from_ref(&tool));
    let executor = &stage.deployment.executors[0];
    let mut worker = Worker::connect(executor, WORKER, announce()).await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    for (place, minutes) in [(1, 40), (2, 80)] {
        drop(worker);
        set_clock(&stage, minutes).await?;
        stage.deployment.add_executor(&[]).await?;
        let executor = &stage.deployment.executors[place];
        worker = Worker::connect(executor, WORKER, announce()).await?;
        let resumed = worker.call().await?;
        ensure!(resumed.resumed && resumed.fence == given.fence, "{resumed:#?}");
    }
    worker.store(result(&given, "ok")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let receipts = stage.receipts(&run_id).await?;
    let receipt = receipts.iter().find(|receipt| receipt.name == TOOL).context("no receipt")?;
    let (from, to) = receipt.started_at.zip(receipt.finished_at).context("no times")?;
    ensure!(to.seconds - from.seconds > 3600, "{receipt:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_executor_that_stops_drains_its_streams_and_loses_no_call() -> Result<()> {
    let mut stage = Stage::with(2, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let mut stopping = stage.deployment.executors.remove(0);
    let stopped = tokio::spawn(async move { stopping.stop().await });
    let next = worker.next().await?;
    ensure!(matches!(next, Message::Draining(_)), "not draining: {next:?}");
    let end = worker.end().await?;
    ensure!(end.message().contains("shuts down"), "{end:?}");
    let mut back = stage.worker(0, "w1").await?;
    let resumed = back.call().await?;
    ensure!(resumed.resumed && resumed.fence == given.fence, "{resumed:#?}");
    back.store(result(&resumed, "ok")).await?;
    ensure!(stopped.await??.success(), "the executor failed");
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_worker_that_does_not_know_is_a_lost_one_and_a_draining_one_gets_no_new_call()
-> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let unknown = v1::ToolResult { outcome_unknown: true, success: false, ..result(&given, "") };
    worker.store(unknown).await?;
    let question = stage.deployment.question(&run_id).await?;
    worker.send(Request::Draining(v1::WorkerDraining {})).await?;
    let mut other = stage.worker(0, "w2").await?;
    stage.deployment.answer(&question.wait_id, "repeat").await?;
    let again = other.call().await?;
    ensure!(again.idempotency_key == given.idempotency_key, "{again:#?}");
    other.store(result(&again, "ok")).await?;
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}
