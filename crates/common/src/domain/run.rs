//! A run: what it was asked to do, which never changes, and where it stands.

use crate::domain::execution::Execution;
use crate::domain::limits::Limits;
use crate::domain::plan::Plan;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The longest namespace, in bytes. Beside a request id of the longest kind it has to fit into a
/// row of an index, which holds 2,700 bytes.
pub const MAX_NAMESPACE: usize = 200;

/// A run's order, as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The run.
    pub id: Uuid,
    /// Whose it is; never empty.
    pub namespace: String,
    /// The submitter's own id for the order; a repeated one makes no second run. May be empty.
    pub request_id: String,
    /// The goal, in the submitter's words.
    pub goal: String,
    /// Who decides.
    pub driver: DriverKind,
    /// The folder it works in, absolute; empty for one that is made when a call first needs it.
    pub workspace: String,
    /// Its fuses.
    pub limits: Limits,
    /// What may be done on its behalf.
    pub policy: Policy,
    /// The submitter's own marks.
    pub labels: BTreeMap<String, String>,
    /// W3C trace context of the run's first span.
    pub trace_parent: String,
    /// When it was taken in.
    pub created_at: DateTime<Utc>,
}

/// A run as it is: its order, where it stands, and the plan being executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// What it was asked to do.
    pub spec: RunSpec,
    /// Where it stands.
    pub execution: Execution,
    /// The plan being executed; none before there is one, and in lists.
    pub plan: Option<Arc<Plan>>,
    /// That plan's digest; empty before there is one, and in lists.
    pub plan_digest: String,
}

/// Who decides what a step does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// The tool calls that the plan carries.
    Script,
    /// A model behind an HTTP endpoint.
    Model,
    /// An agent in any language over gRPC.
    Remote,
}

impl DriverKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Script, Self::Model, Self::Remote];

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Model => "model",
            Self::Remote => "remote",
        }
    }

    /// The kind with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What may be done on a run's behalf.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Who runs the commands that checks name.
    pub verify_commands: VerifyCommands,
    /// Commands that the submitter declares safe to run again after a crash: leading whole
    /// arguments, as in `cargo test`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeatable_commands: Vec<String>,
}

/// Who runs the commands that checks name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyCommands {
    /// The runner itself, once every step is done.
    #[default]
    Runner,
    /// Nobody: what the step turns recorded has to do.
    ReceiptsOnly,
}
