//! Random faults, drawn from a seed, while clients continue.
//!
//! `SURETY_CHAOS_SEED` repeats a sequence of faults, `SURETY_CHAOS_SECONDS` repeats sequences for
//! this long: `make chaos`.

use super::QUICK;
use super::crowd::{Crowd, Kind, LEASES};
use super::traffic::Traffic;
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use sqlx::{Connection, PgConnection};
use std::time::{Duration, Instant};
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Cluster, Database, Deployment};
use tempfile::NamedTempFile;

/// What can be done to a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    KillExecutor,
    KillEveryExecutor,
    DrainExecutor,
    FreezeExecutor,
    KillPlanner,
    KillGate,
    KillEverything,
    CrashDatabase,
    TerminateBackends,
    TakeConnections,
    KillAgents,
    KillWorkers,
    KillPeople,
}

const BLOWS: [Blow; 13] = [
    Blow::KillExecutor,
    Blow::KillEveryExecutor,
    Blow::DrainExecutor,
    Blow::FreezeExecutor,
    Blow::KillPlanner,
    Blow::KillGate,
    Blow::KillEverything,
    Blow::CrashDatabase,
    Blow::TerminateBackends,
    Blow::TakeConnections,
    Blow::KillAgents,
    Blow::KillWorkers,
    Blow::KillPeople,
];

/// Numbers from a seed: splitmix64, so that a storm is the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let sides = u64::try_from(sides.max(1)).unwrap_or(u64::MAX);
        usize::try_from((mixed ^ (mixed >> 31)) % sides).unwrap_or(0)
    }

    /// Every blow once, in an order of its own.
    fn shuffled(&mut self) -> Vec<Blow> {
        let mut blows = BLOWS.to_vec();
        for at in (1..blows.len()).rev() {
            let other = self.roll(at + 1);
            blows.swap(at, other);
        }
        blows
    }
}

struct Storm {
    deployment: Deployment,
    cluster: Cluster,
    dice: Dice,
    crowd: Crowd,
    _tokens: NamedTempFile,
}

impl Storm {
    async fn begin(seed: u64) -> Result<Self> {
        let cluster = Cluster::start().await?;
        let database = Database::at(&cluster.url()?)?;
        // A storm kills executors more often than any call of its runs is given.
        let deaths = ("SURETY_EXECUTOR_MAX_DEATHS", "1000000");
        let tokens = Crowd::tokens()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let own = [("SURETY_TOKEN_FILE", path.as_str()), deaths];
        let environment = [&own[..], &QUICK, &LEASES].concat();
        let mut deployment = Deployment::start_idle(database, &environment).await?;
        deployment.add_executor(&[]).await?;
        deployment.add_executor(&[]).await?;
        let crowd = Crowd::start(&deployment).await?;
        Ok(Self { deployment, cluster, dice: Dice(seed), crowd, _tokens: tokens })
    }

    async fn strike(&mut self, blow: Blow) -> Result<()> {
        self.carry_out(blow).await?;
        self.crowd.learn(&self.deployment);
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "every blow ends with a result")]
    fn kill_participants(&mut self, kind: Kind) -> Result<()> {
        self.crowd.replace(kind);
        Ok(())
    }

    async fn carry_out(&mut self, blow: Blow) -> Result<()> {
        let executors = self.deployment.executors.len();
        let at = self.dice.roll(executors);
        match blow {
            Blow::KillExecutor => {
                self.deployment.executors.remove(at).kill().await?;
                self.deployment.add_executor(&[]).await
            }
            Blow::KillEveryExecutor => {
                self.deployment.executors.clear();
                self.deployment.add_executor(&[]).await?;
                self.deployment.add_executor(&[]).await
            }
            Blow::DrainExecutor => {
                let mut leaving = self.deployment.executors.remove(at);
                self.deployment.add_executor(&[]).await?;
                leaving.stop().await.map(drop)
            }
            Blow::FreezeExecutor => {
                let executor = self.deployment.executors.get(at).context("an executor")?;
                executor.signal(Signal::SIGSTOP)?;
                // Longer than its heartbeat may be silent.
                tokio::time::sleep(Duration::from_millis(2500)).await;
                executor.signal(Signal::SIGCONT)
            }
            Blow::KillPlanner => self.deployment.replace_planner().await,
            Blow::KillGate => self.deployment.replace_gate_with(&[]).await,
            Blow::KillEverything => {
                self.deployment.executors.clear();
                self.deployment.gate.kill().await?;
                self.cluster.crash().await?;
                self.deployment.replace_planner().await?;
                self.deployment.start_gate_with(&[]).await?;
                self.deployment.add_executor(&[]).await?;
                self.cluster.again().await?;
                self.deployment.add_executor(&[]).await
            }
            Blow::CrashDatabase => {
                self.cluster.crash().await?;
                self.cluster.again().await
            }
            Blow::TerminateBackends => {
                for _ in 0..5 {
                    terminate_backends(&self.deployment.database).await?;
                    let pause = u64::try_from(self.dice.roll(300))?;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Ok(())
            }
            Blow::TakeConnections => {
                let database = &self.deployment.database;
                let mut administrator = PgConnection::connect(database.url()).await?;
                take_connections(database, &mut administrator).await?;
                Ok(administrator.close().await?)
            }
            Blow::KillAgents => self.kill_participants(Kind::Agents),
            Blow::KillWorkers => self.kill_participants(Kind::Workers),
            Blow::KillPeople => self.kill_participants(Kind::People),
        }
    }

    /// Lets everything come to its end, and audits it.
    async fn end(mut self, traffic: Traffic) -> Result<()> {
        let runs = traffic.end().await?;
        let of_crowd = self.crowd.end().await?;
        let pool = self.deployment.database.pool().await?;
        let audited = audit_at_rest(&pool).await?;
        println!(
            "{runs} runs ended by their clients, {of_crowd} by participants; audited {audited:?}"
        );
        pool.close().await;
        drop(self.deployment);
        self.cluster.stop().await
    }
}

/// Ends every connection to a database but the caller's own, as an administrator may.
pub(super) async fn terminate_backends(database: &Database) -> Result<()> {
    let pool = database.pool().await?;
    sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .execute(&pool)
    .await?;
    pool.close().await;
    Ok(())
}

/// Takes every connection that the server has left, and those that the services lose then, for longer
/// than an executor may be silent. The administrator's connection is made before: the services may hold all
/// that the server has.
pub(super) async fn take_connections(
    database: &Database,
    administrator: &mut PgConnection,
) -> Result<()> {
    let mut taken = Vec::new();
    for _ in 0..2 {
        while let Ok(connection) = PgConnection::connect(database.url()).await {
            taken.push(connection);
        }
        sqlx::query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and application_name = 'surety'",
        )
        .execute(&mut *administrator)
        .await?;
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for connection in taken {
        connection.close().await?;
    }
    Ok(())
}

/// Every fault once while clients continue, with random pauses between them.
async fn storm(seed: u64, clients: usize) -> Result<()> {
    println!("storm: SURETY_CHAOS_SEED={seed}");
    let mut storm = Storm::begin(seed).await?;
    let traffic = Traffic::start(&storm.deployment, clients);
    for blow in storm.dice.shuffled() {
        let pause = storm.dice.roll(800);
        tokio::time::sleep(Duration::from_millis(u64::try_from(pause)?)).await;
        println!("after {pause} ms: {blow:?}");
        storm.strike(blow).await.with_context(|| format!("{blow:?}"))?;
    }
    storm.end(traffic).await.with_context(|| format!("SURETY_CHAOS_SEED={seed}"))
}

/// Repeated with other seeds for as long as `make chaos` says; else one storm from one seed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_repeated_in_a_storm() -> Result<()> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("SURETY_CHAOS_SECONDS").unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut seed = match number("SURETY_CHAOS_SEED") {
        Some(seed) => seed,
        None if seconds == 0 => 7,
        None => u64::from(std::process::id()) << 16 | (seconds & 0xFFFF),
    };
    loop {
        storm(seed, 4).await?;
        if Instant::now() >= deadline {
            return Ok(());
        }
        seed = seed.wrapping_add(1);
    }
}
