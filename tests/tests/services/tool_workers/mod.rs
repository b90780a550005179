//! Tools that workers serve over the API: calls, lost workers, and workers that lie.

mod calls;
mod hostile;
mod lost;
mod progress;

use anyhow::{Context, Result};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{PERSON, WORKER, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::worker::{Worker, admit, announce, entry, tool};
use tempfile::NamedTempFile;

/// The tool that the tests call.
const TOOL: &str = "translate";
/// A worker counts as lost after one and a half seconds: for tests that lose one.
const SHORT_LEASE: (&str, &str) = ("SURETY_EXECUTOR_WORKER_LEASE_MS", "1500");
/// No worker counts as lost, however slow the machine is.
const LONG_LEASE: (&str, &str) = ("SURETY_EXECUTOR_WORKER_LEASE_MS", "300000");

struct Stage {
    deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    /// Services whose policy lets the worker of the tests serve its tool with these annotations.
    async fn with(executors: usize, annotations: v1::ToolAnnotations) -> Result<Self> {
        Self::leased(executors, annotations, LONG_LEASE).await
    }

    /// As [`Stage::with`], for a test that loses a worker.
    async fn that_loses(executors: usize, annotations: v1::ToolAnnotations) -> Result<Self> {
        Self::leased(executors, annotations, SHORT_LEASE).await
    }

    /// As [`Stage::with`], with another lease of calls.
    async fn leased(
        executors: usize,
        annotations: v1::ToolAnnotations,
        lease: (&str, &str),
    ) -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [("SURETY_TOKEN_FILE", path.as_str()), lease];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        for _ in 0..executors {
            deployment.add_executor(&[]).await?;
        }
        let annotations = Some(annotations);
        admit(&deployment, &[v1::ToolWorkerPolicy { annotations, ..entry(TOOL, WORKER) }]).await?;
        Ok(Self { deployment, _tokens: tokens })
    }

    async fn worker(&self, executor: usize, worker_id: &str) -> Result<Worker> {
        let executor = self.deployment.executors.get(executor).context("no such executor")?;
        Ok(Worker::connect(executor, WORKER, announce(worker_id, &[tool(TOOL)])).await?)
    }

    /// A run of one step that makes these calls.
    async fn run(&self, calls: &[serde_json::Value]) -> Result<String> {
        use surety_e2e::script::{plan, step};
        Ok(self.deployment.create(&plan(&[step("s", &[], calls)]), "").await?.id)
    }

    /// The receipts of a run.
    async fn receipts(&self, run_id: &str) -> Result<Vec<v1::EvidenceReceipt>> {
        let events = self.deployment.events(run_id).await?;
        let receipt = |event: v1::Event| match event.kind {
            Some(v1::event::Kind::Receipt(receipt)) => Some(receipt),
            _ => None,
        };
        Ok(events.into_iter().filter_map(receipt).collect())
    }
}

fn call(text: &str) -> serde_json::Value {
    serde_json::json!({"name": TOOL, "arguments": {"text": text}})
}

const fn reads() -> v1::ToolAnnotations {
    v1::ToolAnnotations {
        read_only: Some(true),
        destructive: None,
        idempotent: None,
        open_world: None,
    }
}
