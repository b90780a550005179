//! A deployment for tests: a fresh database, and the three services as real processes on real
//! ports.

mod database;
mod process;

pub use database::Database;
pub use process::{Process, Service};

use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::v1;
use surety_common::wire::v1::accept_gate_service_client::AcceptGateServiceClient;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;

/// How long a test waits for something before it counts as not coming.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
        let mut deployment = Self::without_executor(Database::create().await?, environment).await?;
        deployment.add_executor(environment).await?;
        Ok(deployment)
    }

    /// Starts a planner and a gate over a database, and no executor yet.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn without_executor(
        database: Database,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let gate = Process::start(Service::Gate, &database, environment).await?;
        let planner = Process::start(Service::Planner, &database, environment).await?;
        Ok(Self { database, planner, executors: Vec::new(), gate })
    }

    /// Starts one more executor.
    ///
    /// # Errors
    /// The process did not start.
    pub async fn add_executor(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let gate_url = self.gate.url();
        let mut all = vec![("SURETY_GATE_URL", gate_url.as_str())];
        all.extend_from_slice(environment);
        self.executors.push(Process::start(Service::Executor, &self.database, &all).await?);
        Ok(())
    }

    /// A client of the runs.
    ///
    /// # Errors
    /// The address is none.
    pub fn runs(&self) -> Result<RunServiceClient<ServiceChannel>> {
        Ok(RunServiceClient::new(channel(&self.planner.url(), None)?))
    }

    /// A client of the planner.
    ///
    /// # Errors
    /// The address is none.
    pub fn plans(&self) -> Result<PlannerServiceClient<ServiceChannel>> {
        Ok(PlannerServiceClient::new(channel(&self.planner.url(), None)?))
    }

    /// A client of the first executor.
    ///
    /// # Errors
    /// There is none, or its address is none.
    pub fn executor(&self) -> Result<ExecutorServiceClient<ServiceChannel>> {
        let executor = self.executors.first().context("no executor runs")?;
        Ok(ExecutorServiceClient::new(channel(&executor.url(), None)?))
    }

    /// A client of the gate.
    ///
    /// # Errors
    /// The address is none.
    pub fn gate(&self) -> Result<AcceptGateServiceClient<ServiceChannel>> {
        Ok(AcceptGateServiceClient::new(channel(&self.gate.url(), None)?))
    }

    /// Creates a run of a plan that is written as JSON.
    ///
    /// # Errors
    /// The call failed.
    pub async fn create(&self, plan: &serde_json::Value, workspace: &str) -> Result<v1::Run> {
        let request = v1::CreateRunRequest {
            plan_source: Some(v1::create_run_request::PlanSource::PlanText(plan.to_string())),
            workspace: workspace.to_owned(),
            ..v1::CreateRunRequest::default()
        };
        self.create_run(request).await
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
        let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: 0 };
        let response = self.runs()?.get_run(request).await?.into_inner();
        response.run.context("the response holds no run")
    }

    /// Every event of a run's journal as it is now.
    ///
    /// # Errors
    /// The call failed.
    pub async fn events(&self, run_id: &str) -> Result<Vec<v1::Event>> {
        let request =
            v1::WatchRunRequest { run_id: run_id.to_owned(), from_sequence: 1, follow: false };
        let mut stream = self.runs()?.watch_run(request).await?.into_inner();
        let mut events = Vec::new();
        while let Some(response) = stream.message().await? {
            events.extend(response.event);
        }
        Ok(events)
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
        loop {
            // While a service is being replaced a call may fail; the deadline bounds that too.
            let found = self.run(run_id).await;
            match found {
                Ok(run) if condition(&run) => return Ok(run),
                other if Instant::now() > deadline => {
                    anyhow::bail!("the run did not become {what} in time: {other:#?}")
                }
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
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
