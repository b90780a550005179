//! An executor without contact to the database: it ends its commands before others repeat them, and
//! continues when its heartbeats are answered again.

use super::QUICK;
use super::beating::{beats_on, owner};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use sqlx::postgres::PgConnectOptions;
use std::str::FromStr;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, Process, Service, wait_for_yes, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// A proxy to the database, on which connections can hang without being closed.
struct Line {
    url: String,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// How often every connection there was began to hang.
    hung: usize,
    /// Whether new ones hang from the beginning.
    dead: bool,
}

impl Line {
    async fn to(database: &Database) -> Result<Self> {
        let options = PgConnectOptions::from_str(database.url())?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (user, name) = (options.get_username(), options.get_database().unwrap_or_default());
        let url = format!("postgres://{user}@127.0.0.1:{port}/{name}?sslmode=disable");
        let (state, seen) = watch::channel(State::default());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, options.clone(), seen.clone()));
            }
        });
        Ok(Self { url, state })
    }

    /// Every connection hangs. New ones work.
    fn hang(&self) {
        self.state.send_modify(|state| state.hung += 1);
    }

    /// Every connection hangs, and so does every new one.
    fn cut(&self) {
        self.state.send_modify(|state| *state = State { hung: state.hung + 1, dead: true });
    }

    /// New ones work again.
    fn mend(&self) {
        self.state.send_modify(|state| state.dead = false);
    }
}

async fn carry(client: TcpStream, options: PgConnectOptions, state: watch::Receiver<State>) {
    let port = options.get_port();
    match options.get_socket() {
        Some(folder) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            copy(client, UnixStream::connect(path).await, state).await;
        }
        None => copy(client, TcpStream::connect((options.get_host(), port)).await, state).await,
    }
}

async fn copy<T: AsyncRead + AsyncWrite + Unpin>(
    mut client: TcpStream,
    server: std::io::Result<T>,
    mut state: watch::Receiver<State>,
) {
    let Ok(mut server) = server else { return };
    let State { hung, dead } = *state.borrow();
    if !dead {
        tokio::select! {
            // Either side may break it.
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = state.wait_for(|state| state.hung > hung) => {}
        }
    }
    // Neither side is notified.
    std::future::pending::<()>().await;
}

/// An executor whose only way to the database is the line.
async fn remote(deployment: &mut Deployment, line: &Line, quick: &[(&str, &str)]) -> Result<()> {
    let gate_url = deployment.gate.url();
    let data_dir = deployment.data_dir().to_string_lossy().into_owned();
    let mut environment = quick.to_vec();
    environment.push(("SURETY_GATE_URL", &gate_url));
    environment.push(("SURETY_EXECUTOR_DATA_DIR", &data_dir));
    let executor = Service::Executor;
    let executor = Process::start_on(executor, "127.0.0.1:0", &line.url, &environment).await?;
    deployment.executors.push(executor);
    Ok(())
}

/// Records when another instance runs at the same time, and ignores SIGTERM. Process ids are those of
/// the command's own namespace, so a file lock that ends with its processes shows the other instance.
fn stubborn(trail: &Trail) -> String {
    let [lock, met] = ["lock", "met"].map(|name| trail.path(name).display().to_string());
    let wait = trail.mark_and_wait("began");
    format!("trap '' TERM; exec 9>>'{lock}'; flock -n 9 || echo met >> '{met}'; {wait}")
}

async fn create(deployment: &Deployment, call: &str) -> Result<v1::Run> {
    let only = plan(&[step("only", &[], &[shell(call)])]);
    deployment.create_run(script::repeatable(script::request(&only, ""))).await
}

async fn ends_well(deployment: &Deployment, run: &v1::Run) -> Result<()> {
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    Ok(())
}

fn gives_up(line: &str) -> bool {
    line.contains("auto-retryable calls were killed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_hangs_on_a_dead_connection_costs_no_run() -> Result<()> {
    // Long enough for a few attempts, and shorter than any time limit for an answer.
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "6000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "500"),
    ];
    let mut deployment = Deployment::start_idle(Database::create().await?, &quick).await?;
    let line = Line::to(&deployment.database).await?;
    remote(&mut deployment, &line, &quick).await?;
    let trail = Trail::new()?;
    let run = create(&deployment, &trail.mark_and_wait("began")).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let before = owner(&deployment, &run.id).await?;
    deployment.add_executor(&[]).await?;
    line.hang();
    beats_on(&deployment.database.pool().await?, before, 9).await?;
    assert_eq!(owner(&deployment, &run.id).await?, before, "a living executor lost its run");
    trail.let_go()?;
    ends_well(&deployment, &run).await?;
    assert_eq!(trail.marks("began"), 1, "the command was repeated");
    assert!(!deployment.first_executor()?.log().iter().any(|line| gives_up(line)));
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_cut_off_ends_its_command_before_another_repeats_it() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let line = Line::to(&deployment.database).await?;
    remote(&mut deployment, &line, &QUICK).await?;
    let trail = Trail::new()?;
    let run = create(&deployment, &stubborn(&trail)).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    deployment.add_executor(&[]).await?;
    line.cut();
    wait_until("the other one repeated it", || trail.marks("began") == 2).await?;
    assert_eq!(trail.marks("met"), 0, "two were at work in one workspace");
    deployment.first_executor()?.wait_for_line(gives_up).await?;
    trail.let_go()?;
    ends_well(&deployment, &run).await?;
    // With contact again it claims runs like any other.
    line.mend();
    let mut other = deployment.executors.pop().context("the other one")?;
    assert!(other.stop().await?.success());
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    ends_well(&deployment, &run).await?;
    deployment.finish_at_rest().await.map(drop)
}

/// More runs than its slots become ready: a queued run may be first.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_executor_gave_up_while_it_was_cut_off_is_gone_on_with_when_it_is_back()
-> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let line = Line::to(&deployment.database).await?;
    let two = [QUICK[0], QUICK[1], ("SURETY_EXECUTOR_SLOTS", "2")];
    remote(&mut deployment, &line, &two).await?;
    let trail = Trail::new()?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(create(&deployment, &trail.mark_and_wait("began")).await?);
    }
    wait_until("the commands began", || trail.marks("began") == 2).await?;
    for _ in 0..2 {
        runs.push(create(&deployment, &trail.mark_and_wait("queued")).await?);
    }
    line.cut();
    deployment.first_executor()?.wait_for_line(gives_up).await?;
    line.mend();
    let all = || trail.marks("began") + trail.marks("queued");
    wait_until("it is at work again", || all() == 4).await?;
    trail.let_go()?;
    for run in &runs {
        ends_well(&deployment, run).await?;
    }
    assert_eq!((trail.marks("began"), trail.marks("queued")), (4, 2));
    deployment.finish_at_rest().await.map(drop)
}

/// Other executors would not repeat it without asking, and no other one runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_must_not_be_repeated_outlives_a_database_that_is_away() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let line = Line::to(&deployment.database).await?;
    remote(&mut deployment, &line, &QUICK).await?;
    let trail = Trail::new()?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create_run(script::request(&plan(&steps), "")).await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    line.cut();
    deployment.first_executor()?.wait_for_line(gives_up).await?;
    trail.let_go()?;
    line.mend();
    ends_well(&deployment, &run).await?;
    assert_eq!((trail.marks("first"), trail.marks("second")), (1, 1));
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_frozen_executor_gives_its_runs_up_when_it_goes_on_and_takes_them_up_anew() -> Result<()>
{
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let trail = Trail::new()?;
    let run = create(&deployment, &stubborn(&trail)).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    deployment.first_executor()?.signal(Signal::SIGSTOP)?;
    let silent = "select heartbeat_at < clock_timestamp() - interval '3 s' from executor";
    wait_for_yes(&deployment.database.pool().await?, silent).await?;
    deployment.first_executor()?.signal(Signal::SIGCONT)?;
    deployment.first_executor()?.wait_for_line(gives_up).await?;
    wait_until("it was taken up anew", || trail.marks("began") == 2).await?;
    assert_eq!(trail.marks("met"), 0, "two were at work in one workspace");
    trail.let_go()?;
    ends_well(&deployment, &run).await?;
    deployment.finish_at_rest().await.map(drop)
}
