//! The driver seam, proved by a driver that is no script: raw text over a socket, later than it was
//! asked for.

mod over_api;
mod scenarios;
mod socket;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, FromArgMatches, Parser};
use scenarios::{Scenario, scenarios};
use serde_json::json;
use socket::{Mind, Participant, Says, Thinking};
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::{CommonConfig, ExecutorConfig, ModelDriverConfig};
use surety_common::domain::decision::Usage;
use surety_common::domain::run::DriverKind;
use surety_common::store;
use surety_common::wire::client::Transport;
use surety_common::wire::token::FileTokens;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, token};
use surety_e2e::script::{noop, plan, request, step};
use surety_executor::driver::{Driver, Drivers, script::Script};
use surety_executor::step::SupplyError;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Debug, Parser)]
struct Settings {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    executor: ExecutorConfig,
    #[command(flatten)]
    models: ModelDriverConfig,
}

/// An executor in this process that serves scripts and the driver over the socket.
struct Executor {
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), surety_executor::ServeError>>,
}

impl Executor {
    async fn start(deployment: &Deployment, slots: u32) -> Result<Self> {
        let (gate, slots) = (deployment.gate.url(), slots.to_string());
        let data = deployment.data_dir().to_string_lossy().into_owned();
        let line = [
            "executor",
            "--gate-url",
            &gate,
            "--executor-slots",
            &slots,
            "--executor-data-dir",
            &data,
        ];
        let command = Settings::command().mut_args(|arg| arg.env(None::<&str>));
        let Settings { common, executor, models } =
            Settings::from_arg_matches(&command.try_get_matches_from(line)?)?;
        let drivers = Drivers::of([
            (DriverKind::Script, Arc::new(Script) as Arc<dyn Driver>),
            (DriverKind::Remote, Arc::new(Thinking)),
        ]);
        let database_url = Some(deployment.database.url().to_owned());
        let setup = surety_executor::Setup {
            hidden: Vec::new(),
            common,
            executor,
            models,
            database_url,
            drivers,
            tokens: FileTokens { known: Vec::new(), own: Some(token()?) },
            transport: Transport::default(),
            metrics: None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(surety_executor::serve(setup, listener, shutdown.clone()));
        Ok(Self { shutdown, serving })
    }

    async fn stop(self) -> Result<()> {
        self.shutdown.cancel();
        Ok(self.serving.await??)
    }
}

/// Creates a run that a driver outside the executor decides.
async fn create_driven(deployment: &Deployment, request: v1::CreateRunRequest) -> Result<Uuid> {
    let request = v1::CreateRunRequest { driver: v1::Driver::Remote.into(), ..request };
    Ok(deployment.create_run(request).await?.id.parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_for_replies_acts_for_a_driver_that_replies_later_in_raw_text() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let pool = deployment.database.pool().await?;
    let folder = tempfile::tempdir()?;
    let (mind, socket) = (Mind::new(), folder.path().join("driver"));
    mind.clone().serve(&socket)?;
    let mut runs = Vec::new();
    for scenario in scenarios() {
        let workspace = folder.path().join(scenario.name.replace(' ', "-"));
        std::fs::create_dir(&workspace)?;
        let limits = v1::Limits { max_replans: Some(0), max_repairs: Some(0), ..scenario.limits };
        let request = v1::CreateRunRequest {
            limits: Some(limits),
            ..request(&scenario.plan, &workspace.to_string_lossy())
        };
        let run_id = create_driven(&deployment, request).await?;
        let says = scenario.says.iter().enumerate().map(|(turn, text)| match scenario.slow_reply {
            Some(slow) if slow == turn => Says::Late(Duration::from_secs(2), text.clone()),
            Some(_) | None => Says::Text(text.clone()),
        });
        mind.will_say(run_id, says.collect());
        runs.push((scenario, run_id, workspace));
    }
    let executor = Executor::start(&deployment, 8).await?;
    let participant = Arc::new(Participant::new(pool.clone(), socket));
    let ids = runs.iter().map(|(_, run_id, _)| *run_id);
    let serving: Vec<_> =
        ids.map(|run_id| tokio::spawn(Arc::clone(&participant).serve(run_id))).collect();
    for (scenario, run_id, workspace) in &runs {
        let played = play(&deployment, &mind, scenario, *run_id, workspace).await;
        played.with_context(|| format!("scenario {:?}", scenario.name))?;
    }
    serving.iter().for_each(JoinHandle::abort);
    executor.stop().await?;
    deployment.finish().await
}

/// Waits for the end of one scenario and compares it.
async fn play(
    deployment: &Deployment,
    mind: &Mind,
    scenario: &Scenario,
    run_id: Uuid,
    workspace: &std::path::Path,
) -> Result<()> {
    let id = run_id.to_string();
    if let Some(answer) = scenario.answer {
        let blocked = deployment.question(&id).await?;
        deployment.answer(&blocked.wait_id, answer).await?;
    }
    if let Some(waits_for) = scenario.blocks_on {
        let blocked = deployment.question(&id).await?;
        ensure!(blocked.waiting_on() == waits_for, "{blocked:#?}");
        let answered = deployment.answer(&blocked.wait_id, "yes").await;
        ensure!(answered.is_err(), "words answered what only an approver may");
        let reason = "the scenario is over".to_owned();
        let cancel = v1::CancelRunRequest { run_id: id.clone(), reason, ..Default::default() };
        deployment.runs()?.cancel_run(cancel).await?;
    }
    let run = deployment.wait_for_end(&id).await?;
    let terminal = run.terminal.clone().context("no terminal")?;
    ensure!(terminal.stop_reason() == scenario.ends, "{terminal:#?}");
    let notices = mind.notices(run_id);
    for (turn, words) in scenario.notices {
        let notice = notices.get(*turn).with_context(|| format!("no turn {turn}: {notices:#?}"))?;
        let all = words.iter().all(|word| notice.contains(word));
        ensure!(all && (!words.is_empty() || notice.is_empty()), "turn {turn} was told {notice:?}");
    }
    ensure!(notices.len() == scenario.turns, "{} turns: {notices:#?}", notices.len());
    let written = workspace.join("out.txt").exists();
    ensure!(written == scenario.writes, "the file is there: {written}");
    let events = deployment.events(&id).await?;
    let tokens = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Turn(turn)) => Some(turn.tokens),
        _ => None,
    });
    ensure!(tokens.sum::<u64>() == 7 * scenario.recorded, "what the replies cost is recorded");
    check_calls(scenario, &events)
}

/// Compares how long the commands of a scenario took, and what its scans found.
pub(crate) fn check_calls(scenario: &Scenario, events: &[v1::Event]) -> Result<()> {
    let receipts = |name: &'static str| {
        events.iter().filter_map(move |event| match &event.kind {
            Some(v1::event::Kind::Receipt(receipt)) if receipt.name == name => Some(receipt),
            _ => None,
        })
    };
    if !scenario.commands.is_empty() {
        let commands: Vec<_> = receipts("run_command").collect();
        ensure!(commands.len() == scenario.commands.len(), "{commands:#?}");
        for (receipt, (least, below)) in commands.iter().zip(scenario.commands) {
            let (start, end) =
                (receipt.started_at.context("began")?, receipt.finished_at.context("ended")?);
            let took = (end.seconds - start.seconds) * 1000
                + i64::from(end.nanos - start.nanos) / 1_000_000;
            ensure!(took >= least * 1000 && took < below * 1000, "{took} ms: {receipt:#?}");
        }
    }
    for (receipt, words) in receipts("glob").zip(scenario.found) {
        ensure!(receipt.summary.contains(words), "{receipt:#?}");
    }
    Ok(())
}

/// One slot: while the driver of one run thinks, another run takes the slot and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_driver_thinks_its_run_holds_no_slot_and_no_lease() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let pool = deployment.database.pool().await?;
    let folder = tempfile::tempdir()?;
    let (mind, socket) = (Mind::new(), folder.path().join("driver"));
    mind.clone().serve(&socket)?;
    let workspace = folder.path().to_string_lossy().into_owned();
    let slow = plan(&[step("slow", &[], &[noop()])]);
    let slow = create_driven(&deployment, request(&slow, &workspace)).await?;
    let done = json!({"action": "next_plan", "goal_check": "thought about it"}).to_string();
    mind.will_say(slow, vec![Says::AfterRelease(done)]);
    let executor = Executor::start(&deployment, 1).await?;
    let participant = Arc::new(Participant::new(pool.clone(), socket));
    let serving = tokio::spawn(Arc::clone(&participant).serve(slow));
    let id = slow.to_string();
    let waits = |run: &v1::Run| run.steps.iter().all(|step| step.state() == v1::StepState::Waiting);
    deployment.wait_for(&id, "waiting for its driver", waits).await?;
    let steps = plan(&[step("a", &[], &[noop()]), step("b", &["a"], &[noop()])]);
    let quick = deployment.create(&steps, "").await?;
    let quick = deployment.wait_for_end(&quick.id).await?;
    ensure!(quick.state() == v1::RunState::Done, "{quick:#?}");
    let row = store::find_run(&pool, slow).await?.context("no such run")?.execution;
    ensure!(row.lease_owner.is_none() && row.ready_at.is_none(), "it is in no queue: {row:#?}");
    ensure!(row.state.as_str() == "EXECUTING", "no person has to act: {:?}", row.state);
    let wait_id = row.waits().next().map(|wait| wait.id).context("no wait")?;
    mind.release();
    let run = deployment.wait_for_end(&id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let late = participant.supply(slow, wait_id, "{}", Usage::default()).await;
    ensure!(matches!(late, Err(SupplyError::WaitClosed { .. })), "{late:?}");
    let other = participant.supply(Uuid::now_v7(), wait_id, "{}", Usage::default()).await;
    ensure!(matches!(other, Err(SupplyError::RunNotFound(_))), "{other:?}");
    let huge = participant.supply(slow, wait_id, &"x".repeat(2 << 20), Usage::default()).await;
    ensure!(matches!(huge, Err(SupplyError::TooLarge { .. })), "{huge:?}");
    serving.await??;
    executor.stop().await?;
    deployment.finish().await
}
