//! The benchmark of the loop: small repository tasks under models of graded quality, or under a real endpoint.
//!
//! It ends with 1 where a wrong result was accepted.

mod options;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures::{StreamExt, stream};
use options::Options;
use std::process::ExitCode;
use surety_cli::postgres::{Durability, EmbeddedPostgres};
use surety_e2e::harness::{Database, Deployment, QUIET_LOG};
use surety_e2e::loop_bench::grade::{Grade, Model};
use surety_e2e::loop_bench::play::play;
use surety_e2e::loop_bench::player::Players;
use surety_e2e::loop_bench::report::{Played, Report};
use surety_e2e::loop_bench::task::{Task, Tasks};
use surety_e2e::model_server::{ModelServer, Settings};
use tokio::signal::unix::{SignalKind, signal};

/// The name of the scripted model.
const MODEL: &str = "scripted";
/// Each of these names a real endpoint.
const ENDPOINT: [&str; 2] = ["SURETY_MODEL_URL", "SURETY_MODEL_PROFILES_FILE"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let mut terminated = signal(SignalKind::terminate())?;
    let report = tokio::select! {
        report = measure(&options) => report?,
        // Returning drops every process; dying here would leave them behind.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted")
        }
        _ = terminated.recv() => anyhow::bail!("terminated"),
    };
    match options.json {
        true => println!("{}", report.json()),
        false => print!("\n{report}"),
    }
    let is_sound = report.accepted_and_wrong() == 0;
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(options: &Options) -> Result<Report> {
    let tasks = Tasks::read()?;
    let mut report = Report::default();
    let missing = tasks.missing();
    let mut chosen = Vec::new();
    for task in tasks.tasks.iter().filter(|task| options.chooses(&task.id)) {
        match missing.get(task.language.as_str()) {
            Some(program) => report.skip(format!("{} without {program}", task.language)),
            None => chosen.push(task),
        }
    }
    ensure!(!chosen.is_empty() || !missing.is_empty(), "no task is named like that");
    let postgres = EmbeddedPostgres::start_temporary(Durability::Full, &[]).await?;
    let database = Database::create_on(&postgres.url()).await?;
    let is_real = ENDPOINT.iter().any(|name| std::env::var_os(name).is_some());
    if is_real {
        ensure!(options.grades.is_empty(), "unset {} to play grades", ENDPOINT.join(" and "));
        let deployment = deploy(database, &[("SURETY_LOG", QUIET_LOG)]).await?;
        play_all(&deployment, (Model::Endpoint, &tasks, &chosen), options, &mut report).await?;
        drop(deployment);
    } else {
        play_grades(database, (&tasks, &chosen), options, &mut report).await?;
    }
    postgres.stop().await?;
    Ok(report)
}

async fn deploy(database: Database, environment: &[(&str, &str)]) -> Result<Deployment> {
    let mut deployment = Deployment::start_idle(database, environment).await?;
    deployment.add_executor(&[]).await?;
    Ok(deployment)
}

/// Plays one grade after the other: their models are told apart by the goals of the runs alone.
async fn play_grades(
    database: Database,
    (tasks, chosen): (&Tasks, &[&Task]),
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let players = Players::default();
    let settings = Settings { models: vec![MODEL.to_owned()], ..Settings::default() };
    let server = ModelServer::start(settings, players.script()).await?;
    let url = server.url();
    let environment =
        [("SURETY_LOG", QUIET_LOG), ("SURETY_MODEL_URL", &url), ("SURETY_MODEL_NAME", MODEL)];
    let deployment = deploy(database, &environment).await?;
    for grade in Grade::ALL.into_iter().filter(|grade| options.plays(*grade)) {
        let mut of_grade = Vec::new();
        for (number, task) in chosen.iter().copied().enumerate() {
            if let Some(lines) = grade.lines(task, tasks.base(task)?, number) {
                players.add(&task.goal, lines);
                of_grade.push(task);
            }
        }
        let played = (Model::Scripted(grade), tasks, of_grade.as_slice());
        play_all(&deployment, played, options, report).await?;
    }
    report.set_overheads(players.overheads());
    Ok(())
}

async fn play_all(
    deployment: &Deployment,
    (model, tasks, chosen): (Model, &Tasks, &[&Task]),
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let one = |task: &'_ Task| {
        let (id, base) = (task.id.clone(), tasks.base(task));
        let task = task.clone();
        async move {
            let played = play(deployment, (&task, base?), options.deadline()).await;
            let outcome = played.with_context(|| format!("{id}, {model}"))?;
            Ok::<_, anyhow::Error>(Played { task: id, model, outcome })
        }
    };
    let mut playing =
        stream::iter(chosen.iter().copied().map(one)).buffer_unordered(options.at_once);
    while let Some(played) = playing.next().await {
        let played = played?;
        let outcome = &played.outcome;
        let (accepted, right) = (outcome.accepted, outcome.truth.holds);
        eprintln!(
            "{}, {model}: {}, {}: {}",
            played.task,
            if accepted { "accepted" } else { "refused" },
            if right { "right" } else { "wrong" },
            outcome.why
        );
        report.add(played);
    }
    Ok(())
}
