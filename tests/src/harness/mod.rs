//! A deployment for tests: a fresh database, and the three services as real processes on real
//! ports.

mod changes;
mod cluster;
mod database;
mod overdue;
mod process;

pub use cluster::{Cluster, server_of};
pub use database::Database;
pub use process::{Process, QUIET_LOG, Service, TOKEN, WRAPPER, binary, token};

use self::changes::Changes;
use crate::{audit, script};
use anyhow::{Context, Result};
use sqlx::PgPool;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::accept_gate_service_client::AcceptGateServiceClient;
use surety_common::wire::v1::admin_service_client::AdminServiceClient;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::internal_service_client::InternalServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use tempfile::TempDir;

/// How long a test waits for a condition.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How many lines of a process's log a failed test shows.
const LAST_LINES: usize = 30;
/// The default age limit of heartbeats in tests.
const AGE_LIMIT: Duration = Duration::from_secs(10);
const AGE_LIMIT_VARIABLE: &str = "SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS";

/// Three services over one database.
pub struct Deployment {
    /// The database they share.
    pub database: Database,
    /// The planner's process.
    pub planner: Process,
    /// The executors' processes.
    pub executors: Vec<Process>,
    /// The gate's process.
    pub gate: Process,
    environment: Vec<(String, String)>,
    data_dir: TempDir,
    token: Option<Token>,
    /// The longest of its executors.
    age_limit: Duration,
}

impl Deployment {
    /// Starts the three services over a fresh database.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// As [`Deployment::start`], with further environment variables for every service.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_with(environment: &[(&str, &str)]) -> Result<Self> {
        let mut deployment = Self::start_idle(Database::create().await?, environment).await?;
        deployment.add_executor(&[]).await?;
        Ok(deployment)
    }

    /// Starts a planner and a gate over a database, and no executor yet.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_idle(database: Database, environment: &[(&str, &str)]) -> Result<Self> {
        let gate = Process::start(Service::Gate, &database, environment).await?;
        let planner = Process::start(Service::Planner, &database, environment).await?;
        let environment = owned(environment);
        Ok(Self { environment, ..Self::of(database, planner, gate)? })
    }

    /// A deployment of processes that were started one by one.
    ///
    /// # Errors
    /// No folder could be made for its executors.
    pub fn of(database: Database, planner: Process, gate: Process) -> Result<Self> {
        let (executors, environment, token) = (Vec::new(), Vec::new(), Some(process::token()?));
        let (data_dir, age_limit) = (tempfile::tempdir()?, AGE_LIMIT);
        Ok(Self { database, planner, executors, gate, environment, data_dir, token, age_limit })
    }

    /// Shows this token with every call of the clients made after.
    pub fn use_token(&mut self, token: Token) {
        self.token = Some(token);
    }

    /// Starts one more executor, with environment variables of its own beside the common ones.
    ///
    /// # Errors
    /// The process did not start.
    pub async fn add_executor(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let gate_url = self.gate.url();
        let data_dir = self.data_dir.path().to_string_lossy().into_owned();
        let mut all =
            vec![("SURETY_GATE_URL", gate_url.as_str()), ("SURETY_EXECUTOR_DATA_DIR", &data_dir)];
        all.extend(self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        all.extend_from_slice(environment);
        let limits = all.iter().filter(|(name, _)| *name == AGE_LIMIT_VARIABLE);
        let limit_ms = limits.filter_map(|(_, value)| value.parse().ok()).max().unwrap_or(0);
        self.age_limit = self.age_limit.max(Duration::from_millis(limit_ms));
        self.executors.push(Process::start(Service::Executor, &self.database, &all).await?);
        Ok(())
    }

    /// Kills the planner, and starts another where it listened.
    ///
    /// # Errors
    /// The new process did not start.
    pub async fn replace_planner(&mut self) -> Result<()> {
        self.replace_planner_with(&[]).await
    }

    /// As [`Deployment::replace_planner`], with further environment variables.
    ///
    /// # Errors
    /// The new process did not start.
    pub async fn replace_planner_with(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        self.planner.kill().await?;
        let address = self.planner.address().to_owned();
        self.planner = self.start_on(Service::Planner, &address, environment).await?;
        Ok(())
    }

    /// Kills the gate, and starts another where it listened, with further environment variables.
    ///
    /// # Errors
    /// The new process did not start.
    pub async fn replace_gate_with(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        self.gate.kill().await?;
        self.start_gate_with(environment).await
    }

    /// Starts a gate at the address of the previous one, which has ended, with additional
    /// environment variables.
    ///
    /// # Errors
    /// The new process did not start.
    pub async fn start_gate_with(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let address = self.gate.address().to_owned();
        self.gate = self.start_on(Service::Gate, &address, environment).await?;
        Ok(())
    }

    async fn start_on(
        &self,
        service: Service,
        address: &str,
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        let mut all: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        all.extend_from_slice(environment);
        Process::start_on(service, address, self.database.url(), &all).await
    }

    /// The last lines that each of its processes logged, for the message of a failed test.
    pub fn last_lines(&self) -> String {
        let processes = self.executors.iter().chain([&self.planner, &self.gate]);
        let last = processes.map(|process| {
            let lines = process.log();
            lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
        });
        last.collect::<Vec<_>>().join("\n\n")
    }

    /// The first executor.
    ///
    /// # Errors
    /// There is none.
    pub fn first_executor(&mut self) -> Result<&mut Process> {
        self.executors.first_mut().context("no executor runs")
    }

    /// Audits every run, and drops the database; the end of every test. A running executor must
    /// have taken over the leases of dead ones, and executors that shut down left none.
    ///
    /// # Errors
    /// The first violation.
    pub async fn finish(mut self) -> Result<()> {
        let pool = self.database.pool().await?;
        audit::audit_all(&pool).await?;
        let mut ends = Vec::new();
        for executor in &mut self.executors {
            ends.push(executor.end()?);
        }
        if ends.contains(&None) {
            self.held_by_the_living(&pool).await?;
        } else if !ends.is_empty() && ends.iter().flatten().all(ExitStatus::success) {
            audit::handed_back(&pool).await?;
        }
        self.database.drop().await
    }

    /// Waits until the running executors have taken over the leases of dead ones.
    async fn held_by_the_living(&self, pool: &PgPool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Err(found) = audit::held_by_the_living(pool, self.age_limit).await {
            if Instant::now() > deadline {
                return Err(found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// As [`Deployment::finish`] when every run has ended: no lease is left.
    ///
    /// # Errors
    /// The first violation.
    pub async fn finish_at_rest(self) -> Result<audit::Audited> {
        let audited = audit::audit_at_rest(&self.database.pool().await?).await?;
        self.database.drop().await?;
        Ok(audited)
    }

    /// Where the executors of this deployment keep the folders of runs.
    pub fn data_dir(&self) -> &std::path::Path {
        self.data_dir.path()
    }

    /// A client of the runs.
    ///
    /// # Errors
    /// The address is none.
    pub fn runs(&self) -> Result<RunServiceClient<ServiceChannel>> {
        Ok(RunServiceClient::new(self.channel(&self.planner)?))
    }

    /// A client of the planner.
    ///
    /// # Errors
    /// The address is none.
    pub fn plans(&self) -> Result<PlannerServiceClient<ServiceChannel>> {
        Ok(PlannerServiceClient::new(self.channel(&self.planner)?))
    }

    /// A client of the first executor.
    ///
    /// # Errors
    /// There is none, or its address is none.
    pub fn executor(&self) -> Result<ExecutorServiceClient<ServiceChannel>> {
        let executor = self.executors.first().context("no executor runs")?;
        Ok(ExecutorServiceClient::new(self.channel(executor)?))
    }

    /// A client of tokens and policies.
    ///
    /// # Errors
    /// The address is none.
    pub fn admin(&self) -> Result<AdminServiceClient<ServiceChannel>> {
        Ok(AdminServiceClient::new(self.channel(&self.planner)?))
    }

    /// A client of the gate.
    ///
    /// # Errors
    /// The address is none.
    pub fn gate(&self) -> Result<AcceptGateServiceClient<ServiceChannel>> {
        Ok(AcceptGateServiceClient::new(self.channel(&self.gate)?))
    }

    /// A client of the gate's internal calls.
    ///
    /// # Errors
    /// The address is none.
    pub fn internal(&self) -> Result<InternalServiceClient<ServiceChannel>> {
        Ok(InternalServiceClient::new(self.channel(&self.gate)?))
    }

    fn channel(&self, process: &Process) -> Result<ServiceChannel> {
        Ok(channel(&process.url(), self.token.as_ref())?)
    }

    /// Creates a run of a plan that is written as JSON.
    ///
    /// # Errors
    /// The call failed.
    pub async fn create(&self, plan: &serde_json::Value, workspace: &str) -> Result<v1::Run> {
        self.create_run(script::request(plan, workspace)).await
    }

    /// Creates a run.
    ///
    /// # Errors
    /// The call failed.
    pub async fn create_run(&self, request: v1::CreateRunRequest) -> Result<v1::Run> {
        let response = self.runs()?.create_run(request).await?.into_inner();
        response.run.context("the response holds no run")
    }

    /// The run as it is now.
    ///
    /// # Errors
    /// The call failed.
    pub async fn run(&self, run_id: &str) -> Result<v1::Run> {
        get(&mut self.runs()?, run_id).await
    }

    /// Every event of a run's journal as it is now.
    ///
    /// # Errors
    /// The call failed.
    pub async fn events(&self, run_id: &str) -> Result<Vec<v1::Event>> {
        let request = v1::WatchRunRequest {
            run_id: run_id.to_owned(),
            from_sequence: 1,
            follow: false,
            progress: false,
        };
        let mut stream = self.runs()?.watch_run(request).await?.into_inner();
        let mut events = Vec::new();
        while let Some(response) = stream.message().await? {
            events.extend(response.event);
        }
        Ok(events)
    }

    /// The open question of a run.
    ///
    /// # Errors
    /// The run did not block on one in time.
    pub async fn question(&self, run_id: &str) -> Result<v1::Blocked> {
        let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
        let run = self.wait_for(run_id, "blocked", blocked).await?;
        run.blocked.context("a blocked run says what it waits for")
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The call failed.
    pub async fn answer(&self, wait_id: &str, answer: &str) -> Result<()> {
        let request = v1::AnswerQuestionRequest {
            wait_id: wait_id.to_owned(),
            answer: answer.to_owned(),
            ..Default::default()
        };
        self.runs()?.answer_question(request).await?;
        Ok(())
    }

    /// Runs the command line against the planner, and returns its output.
    ///
    /// # Errors
    /// It is not built, or it failed.
    pub async fn command_line(&self, arguments: &[&str]) -> Result<String> {
        let (command, _token) = self.surety(arguments)?;
        let ended = tokio::process::Command::from(command).output().await?;
        let errors = String::from_utf8_lossy(&ended.stderr);
        anyhow::ensure!(ended.status.success(), "surety {}: {errors}", arguments.join(" "));
        Ok(String::from_utf8(ended.stdout)?)
    }

    /// The command line against the planner, and the file of its token, which has to stay.
    ///
    /// # Errors
    /// It is not built, or the file cannot be written.
    pub fn surety(
        &self,
        arguments: &[&str],
    ) -> Result<(std::process::Command, tempfile::NamedTempFile)> {
        let mut file = tempfile::NamedTempFile::new()?;
        let token = self.token.as_ref().map(Token::expose).unwrap_or_default();
        std::io::Write::write_all(&mut file, token.as_bytes())?;
        let mut command = std::process::Command::new(process::binary("surety")?);
        command
            .args(arguments)
            .env("SURETY_URL", self.planner.url())
            .env("SURETY_TOKEN_FILE", file.path());
        Ok((command, file))
    }

    /// Waits until the run fulfils a condition.
    ///
    /// # Errors
    /// It did not within [`PATIENCE`]; the error shows the run as it then was.
    pub async fn wait_for(
        &self,
        run_id: &str,
        what: &str,
        condition: impl Fn(&v1::Run) -> bool,
    ) -> Result<v1::Run> {
        let deadline = Instant::now() + PATIENCE;
        let mut runs = self.runs()?;
        let mut changes = Changes::default();
        loop {
            // While a service is being replaced a call may fail; the deadline bounds that too.
            let found = get(&mut runs, run_id).await;
            match found {
                Ok(run) if condition(&run) => return Ok(run),
                other if Instant::now() > deadline => {
                    anyhow::bail!("the run did not become {what} in time: {other:#?}")
                }
                Ok(run) => changes.after(&mut runs, &run).await,
                Err(_) => changes.after_fault().await,
            }
        }
    }

    /// Waits until the run has ended.
    ///
    /// # Errors
    /// It did not within [`PATIENCE`].
    pub async fn wait_for_end(&self, run_id: &str) -> Result<v1::Run> {
        self.wait_for(run_id, "terminal", |run| run.terminal.is_some()).await
    }
}

async fn get(runs: &mut RunServiceClient<ServiceChannel>, run_id: &str) -> Result<v1::Run> {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: 0 };
    let response = runs.get_run(request).await?.into_inner();
    response.run.context("the response holds no run")
}

fn owned(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Waits until something is so.
///
/// # Errors
/// It was not within [`PATIENCE`].
pub async fn wait_until(what: &str, condition: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        anyhow::ensure!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits until a question in SQL is answered with yes.
///
/// # Errors
/// It was not within [`PATIENCE`], or the database did not answer.
pub async fn wait_for_yes(pool: &PgPool, question: &'static str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !sqlx::query_scalar::<_, bool>(question).fetch_one(pool).await? {
        anyhow::ensure!(Instant::now() < deadline, "not in time: {question}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
