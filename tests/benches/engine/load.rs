//! Runs for the benchmark: their plans, their creation, and the wait for their end.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use futures::stream::{self, StreamExt, TryStreamExt};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::Deployment;
use uuid::Uuid;

/// The steps of the standard run.
pub(crate) const STEPS: usize = 10;
/// How often the end of all runs is polled. The times of the ends are read from their rows.
const LOOK: Duration = Duration::from_millis(100);
/// Work without progress for this long is a defect, and its figure is dropped.
const STALL: Duration = Duration::from_secs(120);

/// Ten steps, each after the one before, each calling a tool without an effect, which is no
/// evidence, so none is required. One check of the whole plan reads the final text.
pub(crate) fn chain() -> v1::CreateRunRequest {
    chain_of(String::new())
}

/// As [`chain`], but each call waits for this long without using a processor.
pub(crate) fn waiting(wait: Duration) -> v1::CreateRunRequest {
    chain_of(format!(r#"{{"wait_ms":{}}}"#, wait.as_millis()))
}

/// As [`chain`], but each call writes a file: its intent is stored before, and its outcome before
/// the next step.
pub(crate) fn writing() -> v1::CreateRunRequest {
    steps(|index| v1::ToolCall {
        name: "write_file".to_owned(),
        arguments_json: format!(r#"{{"path":"{index}.txt","content":"written"}}"#),
    })
}

fn chain_of(arguments_json: String) -> v1::CreateRunRequest {
    steps(|_| v1::ToolCall { name: "noop".to_owned(), arguments_json: arguments_json.clone() })
}

fn steps(call: impl Fn(usize) -> v1::ToolCall) -> v1::CreateRunRequest {
    let steps = (0..STEPS).map(|index| v1::PlanStep {
        dependencies: index.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect(),
        ..step(index, call(index))
    });
    order(steps.collect())
}

/// As [`chain`], but each call is a worker's.
pub(crate) fn calling(tool: &str) -> v1::CreateRunRequest {
    steps(|_| v1::ToolCall {
        name: tool.to_owned(),
        arguments_json: r#"{"text":"measured"}"#.to_owned(),
    })
}

/// One step whose only call waits for an approval.
pub(crate) fn confirmed() -> v1::CreateRunRequest {
    let call = v1::ToolCall {
        name: "write_file".to_owned(),
        arguments_json: r#"{"path":"a.txt","content":"written"}"#.to_owned(),
    };
    let confirm_tools = vec!["write_file".to_owned()];
    v1::CreateRunRequest {
        policy: Some(v1::Policy { confirm_tools, ..v1::Policy::default() }),
        ..order(vec![step(0, call)])
    }
}

/// One step without a tool call and without evidence: the cost of a run without work.
pub(crate) fn empty() -> v1::CreateRunRequest {
    order(vec![v1::PlanStep {
        id: "s0".to_owned(),
        description: "nothing".to_owned(),
        evidence: v1::Evidence::None.into(),
        ..v1::PlanStep::default()
    }])
}

/// One step that sleeps, and that may be called again.
pub(crate) fn sleep(seconds: u32) -> v1::CreateRunRequest {
    let call = v1::ToolCall {
        name: "run_command".to_owned(),
        arguments_json: format!(r#"{{"argv":["sleep","{seconds}"]}}"#),
    };
    v1::CreateRunRequest {
        policy: Some(v1::Policy {
            repeatable_commands: vec!["sleep".to_owned()],
            ..v1::Policy::default()
        }),
        ..order(vec![step(0, call)])
    }
}

fn step(index: usize, call: v1::ToolCall) -> v1::PlanStep {
    let idle = call.name == "noop";
    let evidence = if idle { v1::Evidence::None } else { v1::Evidence::Required };
    v1::PlanStep {
        id: format!("s{index}"),
        description: "one step of a chain".to_owned(),
        evidence: evidence.into(),
        script: vec![call],
        ..v1::PlanStep::default()
    }
}

fn order(steps: Vec<v1::PlanStep>) -> v1::CreateRunRequest {
    let plan = v1::Plan { title: "measured".to_owned(), steps, ..v1::Plan::default() };
    v1::CreateRunRequest {
        plan_source: Some(v1::create_run_request::PlanSource::Plan(plan)),
        ..v1::CreateRunRequest::default()
    }
}

/// Creates `count` runs, `in_flight` concurrently.
pub(crate) async fn create(
    deployment: &Deployment,
    order: &v1::CreateRunRequest,
    count: usize,
    in_flight: usize,
) -> Result<()> {
    let client = deployment.runs()?;
    stream::iter(0..count)
        .map(|_| {
            let (mut client, order) = (client.clone(), order.clone());
            async move { client.create_run(order).await.map(drop) }
        })
        .buffer_unordered(in_flight)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Waits until no run is ready or leased; runs created since `since` must then be accepted.
///
/// # Errors
/// The work stalls, or a run did not end accepted.
pub(crate) async fn wait_for_all(rows: &PgPool, since: DateTime<Utc>) -> Result<()> {
    let (mut before, mut moved) = (i64::MAX, Instant::now());
    loop {
        // Uses the indexes of ready and of leased runs, which do not grow with finished ones: a
        // query by the deadlines took a tenth of the cost of a full database.
        let open: i64 = sqlx::query_scalar(
            "select (select count(*) from execution where lease_owner is not null)
                  + (select count(*) from execution
                     where ready_at is not null and lease_owner is null and host_label is null)
                  + (select count(*) from execution
                     where ready_at is not null and lease_owner is null and host_label is not null)",
        )
        .fetch_one(rows)
        .await?;
        if open == 0 {
            break;
        }
        if open < before {
            (before, moved) = (open, Instant::now());
        }
        ensure!(moved.elapsed() < STALL, "{open} runs do not end");
        tokio::time::sleep(LOOK).await;
    }
    let refused: i64 =
        sqlx::query_scalar("select count(*) from execution where state <> 'DONE' and run_id >= $1")
            .bind(first_id(since))
            .fetch_one(rows)
            .await?;
    ensure!(refused == 0, "{refused} runs ended without being accepted");
    Ok(())
}

/// When the first step was leased and when the last run ended, of the runs created since `since`.
pub(crate) async fn worked(
    rows: &PgPool,
    since: DateTime<Utc>,
) -> Result<(DateTime<Utc>, DateTime<Utc>)> {
    sqlx::query_as::<_, (Option<DateTime<Utc>>, Option<DateTime<Utc>>)>(
        "select min(journal.at) filter (where journal.at > run.created_at),
                max(journal.at)
         from journal join run on run.id = journal.run_id
         where journal.run_id >= $1 and run.id >= $1",
    )
    .bind(first_id(since))
    .fetch_one(rows)
    .await
    .map(|(first, last)| first.zip(last))?
    .context("nothing was journalled")
}

/// The smallest id of a run created at this time.
fn first_id(at: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(at.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(millis << 80)
}

/// A run that was created and followed to its end.
pub(crate) struct Followed {
    pub(crate) run: v1::Run,
    /// When CreateRun answered.
    pub(crate) answered_at: DateTime<Utc>,
    pub(crate) events: Vec<v1::Event>,
    /// From the call of CreateRun until WatchRun returned the end.
    pub(crate) seen_after: Duration,
}

/// Creates one run and follows it to its end.
///
/// # Errors
/// A call failed, or the run did not end accepted.
pub(crate) async fn follow(client: &mut Client, order: v1::CreateRunRequest) -> Result<Followed> {
    let begun = Instant::now();
    let created = client.create_run(order).await?.into_inner();
    let answered_at = Utc::now();
    let run = created.run.context("the response holds no run")?;
    let request = v1::WatchRunRequest {
        run_id: run.id.clone(),
        from_sequence: 1,
        follow: true,
        progress: false,
    };
    let mut stream = client.watch_run(request).await?.into_inner();
    let mut events = Vec::new();
    while let Some(event) = stream.message().await?.and_then(|response| response.event) {
        let stop_reason = stop_reason(&event);
        events.push(event);
        if let Some(reason) = stop_reason {
            let seen_after = begun.elapsed();
            ensure!(reason == v1::StopReason::Accepted, "the run ended as {reason:?}");
            return Ok(Followed { run, answered_at, events, seen_after });
        }
    }
    anyhow::bail!("run {} was followed to no end", run.id)
}

/// A client of the runs.
pub(crate) type Client =
    v1::run_service_client::RunServiceClient<surety_common::wire::client::ServiceChannel>;

fn stop_reason(event: &v1::Event) -> Option<v1::StopReason> {
    match &event.kind {
        Some(Kind::Transition(transition)) => {
            Some(transition.stop_reason()).filter(|&reason| reason != v1::StopReason::Unspecified)
        }
        Some(_) | None => None,
    }
}

/// A wire time as one of ours.
pub(crate) fn instant(at: Option<&prost_types::Timestamp>) -> Result<DateTime<Utc>> {
    let at = at.context("an event without its time")?;
    DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos)?).context("a time out of range")
}
