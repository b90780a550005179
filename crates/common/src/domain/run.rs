//! A run: its request, which never changes, and its state.

use crate::domain::check::Owner;
use crate::domain::confirmation::ConfirmPolicy;
use crate::domain::execution::Execution;
use crate::domain::fork::ForkedFrom;
use crate::domain::limits::Limits;
use crate::domain::network::AllowedHost;
use crate::domain::plan::Plan;
use crate::domain::repository::Repository;
use crate::domain::verify_tool::VerifyTool;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The longest namespace, in bytes. Together with a request id of the greatest length it must fit
/// into an index row of 2,700 bytes.
pub const MAX_NAMESPACE: usize = 200;

/// A run's request, as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The run.
    pub id: Uuid,
    /// The namespace that owns it; never empty.
    pub namespace: String,
    /// The submitter's id for the request; a repeated one creates no second run. May be empty.
    pub request_id: String,
    /// The goal, in the submitter's words.
    pub goal: String,
    /// The kind of driver.
    pub driver: DriverKind,
    /// The absolute path of the folder that it works in; empty for one that is created when a call
    /// first needs it.
    pub workspace: String,
    /// The git repository that it works on in place of a folder.
    pub repository: Option<Repository>,
    /// Its limits.
    pub limits: Limits,
    /// What is allowed on its behalf.
    pub policy: Policy,
    /// The submitter's labels.
    pub labels: BTreeMap<String, String>,
    /// The run that it is a fork of; none for any other run.
    pub forked_from: Option<Box<ForkedFrom>>,
    /// W3C trace context of the run's first span.
    pub trace_parent: String,
    /// The creation time.
    pub created_at: DateTime<Utc>,
}

impl RunSpec {
    /// Whether files were written for its plan before it began, in a run that it is a fork of.
    pub fn wrote_before(&self) -> bool {
        self.forked_from.as_ref().is_some_and(|fork| fork.wrote)
    }
}

/// A run with its request, its state, and the plan being executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// Its request.
    pub spec: RunSpec,
    /// Its state.
    pub execution: Execution,
    /// The plan being executed; none before there is one, and in lists.
    pub plan: Option<Arc<Plan>>,
    /// The digest of that plan; empty before there is one, and in lists.
    pub plan_digest: String,
}

/// What decides the next action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// The tool calls in the plan.
    Script,
    /// A model behind an HTTP endpoint.
    Model,
    /// An agent in any language over gRPC.
    Remote,
}

impl DriverKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Script, Self::Model, Self::Remote];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Model => "model",
            Self::Remote => "remote",
        }
    }

    /// The kind with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether it can decide otherwise after an observation. A script cannot.
    pub const fn thinks(self) -> bool {
        match self {
            Self::Script => false,
            Self::Model | Self::Remote => true,
        }
    }
}

/// What is allowed on a run's behalf.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Who runs the commands in checks.
    pub verify_commands: VerifyCommands,
    /// Commands that the submitter declares safe to repeat after a crash, by their first arguments,
    /// as in `cargo test`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeatable_commands: Vec<String>,
    /// Whether other runs may work in the same workspace.
    #[serde(skip_serializing_if = "is_default")]
    pub workspace_lock: WorkspaceLock,
    /// What happens when another run works there.
    #[serde(skip_serializing_if = "is_default")]
    pub on_busy: OnBusy,
    /// What happens when a budget is used up.
    #[serde(skip_serializing_if = "is_default")]
    pub on_budget: OnBudget,
    /// Whether a verdict that rests on checks of the plan alone is refused.
    #[serde(skip_serializing_if = "is_default")]
    pub require_independent: bool,
    /// Which network commands reach.
    #[serde(skip_serializing_if = "is_default")]
    pub network: NetworkPolicy,
    /// How much of the sandbox commands need.
    #[serde(skip_serializing_if = "is_default")]
    pub sandbox: SandboxPolicy,
    /// The folders in which the workspace must lie, from the policy of the namespace; empty allows every
    /// folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workspace_roots: Vec<String>,
    /// Globs of check inputs, from the policy of the namespace: the run may change none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always_protect: Vec<String>,
    /// Globs that bound what the run may change, from the policy of the namespace; empty bounds nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_change_within: Vec<String>,
    /// Globs of check inputs beside those that conventions name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// Globs of check inputs that the run may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_change: Vec<String>,
    /// What is done where a check holds with a caution that a person may accept.
    #[serde(skip_serializing_if = "is_default")]
    pub in_doubt: InDoubt,
    /// Cautions that refuse beside those that do by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refuse_on: Vec<String>,
    /// When checks of users and operators run with failing tests as well.
    #[serde(skip_serializing_if = "is_default")]
    pub canary: CanaryPolicy,
    /// Lines of the request that run in the view before the checks of users and operators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Such lines from the policy of the namespace, which run before those of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always_prepare: Vec<String>,
    /// Which tool calls a person confirms.
    #[serde(skip_serializing_if = "is_default")]
    pub confirm: ConfirmPolicy,
    /// Verification commands of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify_tools: Vec<VerifyTool>,
    /// Verification commands from the policy of the namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always_verify_tools: Vec<VerifyTool>,
    /// The named secrets that tools may use for the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether a person approves each plan of a participant, or of a model, before its first step.
    #[serde(skip_serializing_if = "is_default")]
    pub approve_plan: bool,
}

impl Policy {
    /// The keys that a request's policy has, as the API names them.
    pub const KEYS: [&str; 24] = [
        "approve_plan",
        "canary",
        "confirm_destructive",
        "confirm_open_world",
        "confirm_tools",
        "hosts",
        "in_doubt",
        "loopback_ports",
        "may_change",
        "network",
        "on_budget",
        "on_busy",
        "on_denied",
        "on_expired",
        "prepare",
        "protect",
        "refuse_on",
        "repeatable_commands",
        "require_independent",
        "sandbox",
        "secrets",
        "verify_commands",
        "verify_tools",
        "workspace_lock",
    ];
}

impl Policy {
    /// Every line that prepares the view, in the order in which they run.
    pub fn prepare_lines(&self) -> impl Iterator<Item = (Owner, &str)> {
        let of_namespace = self.always_prepare.iter().map(|line| (Owner::Operator, line.as_str()));
        of_namespace.chain(self.prepare.iter().map(|line| (Owner::User, line.as_str())))
    }

    /// Every verification command with its owner; no two have the same name.
    pub fn verify_tools(&self) -> impl Iterator<Item = (Owner, &VerifyTool)> + Clone {
        let of_namespace = self.always_verify_tools.iter().map(|tool| (Owner::Operator, tool));
        of_namespace.chain(self.verify_tools.iter().map(|tool| (Owner::User, tool)))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// When checks run with failing tests, which their lines must report as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryPolicy {
    /// Where the run changed a file that the tests can load.
    #[default]
    Auto,
    /// In every round.
    Always,
    /// In none.
    Never,
}

/// Whether other runs may work in a run's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceLock {
    /// One run at a time, in the workspace and in the folders above and below it.
    #[default]
    Exclusive,
    /// The run takes no lock, and waits for none.
    Shared,
}

/// What happens when another run works in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// The run waits until the other one has ended.
    #[default]
    Wait,
    /// The run is refused.
    Fail,
}

/// What happens when a token or cost budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBudget {
    /// The run waits for a larger budget.
    #[default]
    Block,
    /// The run ends.
    Fail,
}

/// Which network a run's commands reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// Each command has a loopback of its own, and nothing else.
    #[default]
    None,
    /// As none, and these TCP ports of the executor's loopback.
    HostLoopback(Vec<u16>),
    /// As none, and a proxy to these hosts.
    Hosts(Vec<AllowedHost>),
    /// The executor's network.
    All,
}

impl NetworkPolicy {
    /// The value's name in policies.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HostLoopback(_) => "host_loopback",
            Self::Hosts(_) => "hosts",
            Self::All => "all",
        }
    }

    /// Whether a part of the executor's network is opened, which the sandbox has to bound.
    pub const fn is_partial(&self) -> bool {
        matches!(self, Self::HostLoopback(_) | Self::Hosts(_))
    }
}

/// How much of the sandbox a run's commands need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxPolicy {
    /// The strongest level; an executor without it runs no command.
    RequireFull,
    /// What the executor's machine has.
    #[default]
    AllowPartial,
    /// None, where the operator allows it.
    None,
}

/// What is done where a check holds with a caution that a person may accept. The order is from the strictest
/// to the most lenient.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// The check fails.
    #[default]
    Refuse,
    /// The run waits for a person, who approves or denies.
    Ask,
    /// The check holds, and the verdict has the caution.
    Allow,
}

impl InDoubt {
    /// Every value, the strictest first.
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Ask, Self::Allow];

    /// The value's name in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }

    /// The value with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.as_str() == text)
    }
}

/// Who runs the commands in checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyCommands {
    /// The runner, once every step is done.
    #[default]
    Runner,
    /// No process: only receipts of step turns count.
    ReceiptsOnly,
}
