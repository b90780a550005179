//! Receipts: facts that the runner recorded. A driver cannot write one.

mod chain;
mod evidence;
mod export;
mod presented;
mod read;
mod reported;
mod write;

pub(in crate::domain) use chain::Place;
pub use chain::{BreakKind, ChainBreak, verify_chain};
pub use evidence::{NOOP, PROVES_NOTHING, READ_OUTPUT, SLEEP, TODO, counts_as_evidence};
pub(in crate::domain) use export::check_plain;
pub use export::{ChainEnd, ChainFinding, ChainReport, check_chain};
pub use presented::{PresentedReceipt, read_presented};
pub use read::{probe_of, read_fact, read_receipt, read_stored};
pub use reported::RESERVED_KEYS;

use crate::domain::tests_seen::Counts;
use chrono::{DateTime, Utc};

/// One record of one action or observation of the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceReceipt {
    /// The step's index in the plan, from 0.
    pub step_index: u32,
    /// The step's id; empty for an action of the runner for the whole run.
    pub step_id: String,
    /// The plan revision it belongs to, from 1.
    pub plan_revision: u32,
    /// Its number among the run's receipts, from 1; 0 until it is stored.
    pub seq: u64,
    /// The tool call that it records; facts of one call do not make each other stale. Empty means a
    /// call of its own.
    pub call_id: String,
    /// The check that the runner made it for; none for an action of a step.
    pub probe_of: Option<CheckProbe>,
    /// The source of the facts.
    pub source: EvidenceSource,
    /// The tool's or the probe's name.
    pub name: String,
    /// Digest of the canonical arguments.
    pub arguments_digest: String,
    /// Whether the action succeeded. A receipt of a failure is valid and proves nothing.
    pub success: bool,
    /// One line for people.
    pub summary: String,
    /// The facts in the order of observation; a later fact overrides an earlier one about the same
    /// object.
    pub facts: Vec<Fact>,
    /// Digest of the whole output; empty when there was none.
    pub output_digest: String,
    /// What confined the command: `full`, `partial(...)` with what was missing, or `none`; empty for
    /// what ran no command.
    pub sandbox: String,
    /// When the call began.
    pub started_at: Option<DateTime<Utc>>,
    /// When the call ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Digest of the run's previous receipt; empty for the first.
    pub prev_digest: String,
    /// Digest of this receipt, over all fields above.
    pub digest: String,
}

/// The check id of the runner's observation of the workspace at the end of a round, which is also the name of the result
/// where it changed during the round.
pub const WORKSPACE_CHECK: &str = "system.workspace";
/// The output with the digest of the workspace in the last receipt of that id.
pub const WORKSPACE_DIGEST: &str = "workspace_digest";

/// The check that a probe belongs to. A check is decided by its own probe of the present round, and by
/// no other receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckProbe {
    /// The check, as [`check_key`](crate::domain::check::check_key) names it.
    pub check_id: String,
    /// The verification round of the run, from 1; in the receipt of a step the attempt to end it, from 1.
    pub round: u32,
    /// What the command of a check ran with.
    pub inputs: Inputs,
}

/// The check inputs that the command of a check ran with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// It ran no command of a check.
    #[default]
    Unstated,
    /// Those of the start, without the ignored files that steps wrote.
    Original,
    /// Those of the start, with the ignored files that steps wrote.
    OriginalWithIgnored,
    /// The workspace as the steps left it.
    AsLeft,
    /// Those of the run that holds, with failing tests that the line must report.
    Canary,
    /// The whole workspace of the start, with the same failing tests.
    CanaryAtStart,
    /// The whole workspace of the start, to learn which tests the line runs there.
    TestsAtStart,
    /// The whole workspace of the start.
    AtStart,
}

impl Inputs {
    /// Every value.
    pub const ALL: [Self; 8] = [
        Self::Unstated,
        Self::Original,
        Self::OriginalWithIgnored,
        Self::AsLeft,
        Self::Canary,
        Self::CanaryAtStart,
        Self::TestsAtStart,
        Self::AtStart,
    ];

    /// Whether it is a run about the runner, which says nothing about the check itself.
    pub const fn is_about_runner(self) -> bool {
        matches!(self, Self::Canary | Self::CanaryAtStart | Self::TestsAtStart)
    }

    /// Whether it has the whole workspace of the start.
    pub const fn is_at_start(self) -> bool {
        matches!(self, Self::CanaryAtStart | Self::TestsAtStart | Self::AtStart)
    }

    /// The value's name in receipts; empty for none.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unstated => "",
            Self::Original => "original",
            Self::OriginalWithIgnored => "original_with_ignored",
            Self::AsLeft => "as_left",
            Self::Canary => "canary",
            Self::CanaryAtStart => "canary_at_start",
            Self::TestsAtStart => "tests_at_start",
            Self::AtStart => "at_start",
        }
    }

    /// The value with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|inputs| inputs.as_str() == text)
    }
}

/// The source of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceSource {
    /// A tool that read or ran something.
    ToolObservation,
    /// A tool that wrote.
    WriteReceipt,
    /// A user's answer.
    UserReply,
    /// The runner's own observation.
    Probe,
    /// A confirmation that was given.
    Approval,
    /// A report submitted by the assignee of a toolchain run.
    ActionReport,
}

impl EvidenceSource {
    /// Every source.
    pub const ALL: [Self; 6] = [
        Self::ToolObservation,
        Self::WriteReceipt,
        Self::UserReply,
        Self::Probe,
        Self::Approval,
        Self::ActionReport,
    ];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToolObservation => "tool_observation",
            Self::WriteReceipt => "write_receipt",
            Self::UserReply => "user_reply",
            Self::Probe => "probe",
            Self::Approval => "approval",
            Self::ActionReport => "action_report",
        }
    }

    /// The source with this name, always in lower case.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }
}

/// The exit code of the last command among these facts; none where no command ran to its end.
pub fn exit_code<'f>(facts: impl DoubleEndedIterator<Item = &'f Fact>) -> Option<i32> {
    facts.rev().find_map(|fact| match fact {
        Fact::Command { exit_code, .. } => Some(*exit_code),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => None,
    })
}

/// One observed fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A file was written or deleted. Digests are the SHA-256 of the whole content in hexadecimal.
    /// Only `before` is a deletion, only `after` a new file, none a write without observed content.
    FileWritten {
        /// Inside or outside the workspace, absolute or relative to its root.
        path: String,
        /// Digest before the write.
        before_digest: Option<String>,
        /// Digest after the write.
        after_digest: Option<String>,
    },
    /// A path was checked for existence.
    FileObserved {
        /// The path that was checked.
        path: String,
        /// Whether it existed.
        exists: bool,
    },
    /// A command ran to its end.
    Command {
        /// The command.
        command: Command,
        /// Its exit code; a killed command has 128 plus the signal's number.
        exit_code: i32,
        /// How the runner ran it for a step; none for the commands of checks and for reported ones.
        conditions: Option<Conditions>,
    },
    /// A file was searched for a text.
    Content {
        /// The file.
        path: String,
        /// The text that was searched for.
        contains: String,
        /// Whether the text was found.
        found: bool,
    },
    /// The result of a verification tool.
    Verification {
        /// The tool's name.
        tool: String,
        /// What it verified.
        scope: String,
        /// Whether it passed.
        passed: bool,
    },
    /// A named value that a tool returned.
    Output {
        /// The name.
        key: String,
        /// The value.
        value: String,
    },
    /// The tests of a check's command, as the test runner reported them.
    Tests {
        /// The runner, such as `cargo test`; several that one recipe starts, separated by commas.
        runner: String,
        /// What it reported.
        counts: Counts,
    },
}

/// How the runner ran a command of a step, so that a check can tell whether it proves anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// The working directory, relative to the workspace's root; `.` for the root.
    pub cwd: String,
    /// What the call added to the environment, each as `NAME=value`.
    pub environment: Vec<String>,
    /// Digest of the workspace before the command; empty where it was not taken.
    pub workspace_before: String,
    /// Digest of the workspace after the command; empty where it was not taken.
    pub workspace_after: String,
}

/// A command, as its argument list or as a reported command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Program and arguments, without a shell.
    Argv(Vec<String>),
    /// A line for a shell.
    Line(String),
}
