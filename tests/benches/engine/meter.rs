//! The cost of work: processor time by process, WAL bytes, commits, and the load of other
//! processes.

use crate::processes;
use crate::stand::Stand;
use anyhow::Result;
use std::time::{Duration, Instant};
use surety_e2e::harness::Deployment;

/// A machine on which other processes use fewer cores than this is quiet.
const QUIET_CORES: f64 = 0.2;
/// How long the machine is observed.
const LOOK: Duration = Duration::from_secs(1);

/// A reading of all counters.
struct Reading {
    at: Instant,
    machine: Duration,
    spent: Spent,
    log: String,
}

/// Processor time by process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) postgres: Duration,
    pub(crate) planner: Duration,
    pub(crate) executors: Duration,
    pub(crate) gate: Duration,
    /// This program: the client and the observer.
    pub(crate) client: Duration,
}

/// The usage between two readings.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    pub(crate) spent: Spent,
    /// Cores that other processes on the machine used in the meantime.
    pub(crate) foreign_cores: f64,
    pub(crate) wal_bytes: i64,
    /// Commits that wrote data; none when this Postgres cannot report it.
    pub(crate) writing_commits: Option<i64>,
}

/// A measurement in progress.
pub(crate) struct Meter<'a> {
    stand: &'a Stand<'a>,
    first: Reading,
}

impl Spent {
    pub(crate) fn total(&self) -> Duration {
        self.postgres + self.planner + self.executors + self.gate + self.client
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            postgres: self.postgres.saturating_sub(before.postgres),
            planner: self.planner.saturating_sub(before.planner),
            executors: self.executors.saturating_sub(before.executors),
            gate: self.gate.saturating_sub(before.gate),
            client: self.client.saturating_sub(before.client),
        }
    }

    fn of(stand: &Stand<'_>, deployment: &Deployment) -> Result<Self> {
        let mut executors = Duration::ZERO;
        for executor in &deployment.executors {
            executors += processes::time_of_tree(executor.pid()?.as_raw())?;
        }
        Ok(Self {
            postgres: processes::time_of_tree(stand.postgres_pid)?,
            planner: processes::time_of_tree(deployment.planner.pid()?.as_raw())?,
            executors,
            gate: processes::time_of_tree(deployment.gate.pid()?.as_raw())?,
            // Postgres is a child process too, and so are the services.
            client: processes::time_of(std::process::id())?,
        })
    }
}

impl Reading {
    async fn now(stand: &Stand<'_>, deployment: &Deployment) -> Result<Self> {
        let log = sqlx::query_scalar("select pg_current_wal_flush_lsn()::text")
            .fetch_one(&stand.observer)
            .await?;
        Ok(Self {
            at: Instant::now(),
            machine: processes::machine_busy()?,
            spent: Spent::of(stand, deployment)?,
            log,
        })
    }
}

impl<'a> Meter<'a> {
    pub(crate) async fn start(stand: &'a Stand<'a>, deployment: &Deployment) -> Result<Self> {
        wait_for_quiet(stand).await?;
        Self::start_amid_work(stand, deployment).await
    }

    /// As [`Meter::start`], when the measured work is already running.
    pub(crate) async fn start_amid_work(
        stand: &'a Stand<'a>,
        deployment: &Deployment,
    ) -> Result<Self> {
        Ok(Self { stand, first: Reading::now(stand, deployment).await? })
    }

    /// What was used since the start.
    pub(crate) async fn read(&self, deployment: &Deployment) -> Result<Usage> {
        let last = Reading::now(self.stand, deployment).await?;
        let spent = last.spent.since(&self.first.spent);
        let elapsed = (last.at - self.first.at).as_secs_f64();
        let machine = last.machine.saturating_sub(self.first.machine);
        let foreign_cores = machine.saturating_sub(spent.total()).as_secs_f64() / elapsed;
        let wal_bytes = sqlx::query_scalar("select ($2::pg_lsn - $1::pg_lsn)::bigint")
            .bind(&self.first.log)
            .bind(&last.log)
            .fetch_one(&self.stand.observer)
            .await?;
        let writing_commits = self.commits(&last).await;
        Ok(Usage { spent, foreign_cores, wal_bytes, writing_commits })
    }

    /// The WAL position where the measurement began.
    pub(crate) fn log_start(&self) -> &str {
        &self.first.log
    }

    /// Counted in the WAL itself: the server's counters do not distinguish commits that wrote data.
    async fn commits(&self, last: &Reading) -> Option<i64> {
        sqlx::query_scalar(
            "select coalesce(sum(count), 0)::bigint
             from pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true)
             where \"resource_manager/record_type\" = 'Transaction/COMMIT'",
        )
        .bind(&self.first.log)
        .bind(&last.log)
        .fetch_one(&self.stand.observer)
        .await
        .inspect_err(|error| eprintln!("the log cannot be counted: {error}"))
        .ok()
    }
}

/// Waits until the machine is nearly idle, up to the configured time.
pub(crate) async fn wait_for_quiet(stand: &Stand<'_>) -> Result<()> {
    let patience = Duration::from_secs(stand.options.wait_for_quiet);
    let begun = Instant::now();
    while begun.elapsed() < patience {
        let before = processes::machine_busy()?;
        tokio::time::sleep(LOOK).await;
        let busy = processes::machine_busy()?.saturating_sub(before);
        if busy.as_secs_f64() / LOOK.as_secs_f64() < QUIET_CORES {
            return Ok(());
        }
    }
    Ok(())
}

/// All transactions of a database so far, including those that only read. Servers count late: the
/// last ones of an idle process are counted within ten seconds.
pub(crate) async fn transactions(stand: &Stand<'_>, database: &str) -> Result<i64> {
    Ok(sqlx::query_scalar(
        "select xact_commit + xact_rollback from pg_stat_database where datname = $1",
    )
    .bind(database)
    .fetch_one(&stand.observer)
    .await?)
}
