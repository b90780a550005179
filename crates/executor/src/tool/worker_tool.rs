//! Tools that workers serve: as a worker describes them, and as the operator lets them count.

use super::{Annotations, ToolSpec};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::tool_workers::{Attempts, ToolWorkerPolicy, WorkerAnnotations};
use surety_common::schema::{self, Schema};

/// A tool as its worker describes it, and as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// What it does; untrusted.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: serde_json::Value,
    /// A short sample of what it returns; untrusted, and may be empty.
    #[serde(default)]
    pub return_sample: String,
    /// The time limit of a call, in seconds; none for that of the executor.
    #[serde(default)]
    pub timeout_s: Option<u64>,
}

impl WorkerSpec {
    /// The compiled schema.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compiled(&self) -> Result<Arc<Schema>, String> {
        schema::compile(&self.input_schema).map(Arc::new)
    }
}

/// A tool of workers in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerTool {
    /// Its description, with the annotations that the operator repeats.
    pub spec: ToolSpec,
    /// How often a call may be made.
    pub attempts: Attempts,
    /// Whether a call whose worker was lost may be made again.
    pub may_repeat: bool,
    /// `worker:` and an identity that serves it.
    pub provider: String,
}

impl WorkerTool {
    /// The tool that `identity` describes, under the operator's entry for it.
    pub fn new(
        entry: &ToolWorkerPolicy,
        identity: &str,
        described: &WorkerSpec,
        timeout: Duration,
    ) -> Self {
        let WorkerSpec { description, input_schema, return_sample, timeout_s } = described.clone();
        let WorkerAnnotations { read_only, destructive, idempotent, open_world } =
            entry.annotations;
        let destructive = destructive && !read_only;
        let spec = ToolSpec {
            name: entry.tool.clone(),
            description,
            input_schema,
            annotations: Annotations { read_only, destructive, idempotent, open_world },
            scan: false,
            default_timeout: timeout_s.map_or(timeout, Duration::from_secs),
            return_sample: Cow::Owned(return_sample),
        };
        Self {
            spec,
            attempts: entry.attempts(),
            may_repeat: entry.annotations.may_repeat(),
            provider: format!("worker:{identity}"),
        }
    }
}
