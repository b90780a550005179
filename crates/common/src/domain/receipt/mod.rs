//! Receipts: facts the runner recorded. A driver cannot write one.

mod chain;
mod evidence;
mod export;
mod read;
mod write;

pub use chain::{BreakKind, ChainBreak, verify_chain};
pub use evidence::{NOOP, counts_as_evidence};
pub use export::{ChainEnd, ChainFinding, ChainReport, check_chain, check_export, export_line};
pub use read::{read_fact, read_receipt, read_stored};

use chrono::{DateTime, Utc};

/// One fact-bearing record of one thing the runner did or saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceReceipt {
    /// The step's place in the plan, from 0.
    pub step_index: u32,
    /// The step's id; empty for what the runner did for the whole run.
    pub step_id: String,
    /// The plan revision it belongs to, from 1.
    pub plan_revision: u32,
    /// Its place among the run's receipts, from 1; 0 until the runner stored it.
    pub seq: u64,
    /// The tool call it came from; facts of one call are not stale to each other. Empty means a
    /// call of its own.
    pub call_id: String,
    /// Where the fact comes from.
    pub source: EvidenceSource,
    /// The tool's or the probe's name.
    pub name: String,
    /// Digest of the canonical arguments.
    pub arguments_digest: String,
    /// Whether what was tried succeeded. A receipt of a failure is valid and proves nothing.
    pub success: bool,
    /// One line for a person.
    pub summary: String,
    /// What is known now, in the order it was seen; later facts override earlier ones about the
    /// same thing.
    pub facts: Vec<Fact>,
    /// Digest of the whole output; empty when there was none.
    pub output_digest: String,
    /// When the call began.
    pub started_at: Option<DateTime<Utc>>,
    /// When the call ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Digest of the receipt before it in the run; empty for the first.
    pub prev_digest: String,
    /// Digest of this receipt, over all fields above.
    pub digest: String,
}

/// Who saw a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceSource {
    /// A tool that looked or ran.
    ToolObservation,
    /// A tool that wrote.
    WriteReceipt,
    /// A person's answer.
    UserReply,
    /// The runner's own look at the world.
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

    /// The contract's word.
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

    /// The source with this word, which is always lower case.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }
}

/// One thing that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A file was written or deleted. Digests are hex SHA-256 of the whole content; only `before`
    /// is a deletion, only `after` a new file, none a write whose content nobody looked at.
    FileWritten {
        /// Inside or outside the workspace, absolute or relative to its root.
        path: String,
        /// Digest before the write.
        before_digest: Option<String>,
        /// Digest after the write.
        after_digest: Option<String>,
    },
    /// Somebody looked whether a path is there.
    FileObserved {
        /// The path looked at.
        path: String,
        /// Whether it was there.
        exists: bool,
    },
    /// A command ran to its end.
    Command {
        /// What was run.
        command: Command,
        /// Its exit code; a killed command has 128 and the signal's number.
        exit_code: i32,
    },
    /// Somebody looked for a text in a file.
    Content {
        /// The file.
        path: String,
        /// The text looked for.
        contains: String,
        /// Whether it was there.
        found: bool,
    },
    /// A tool that verifies gave its result.
    Verification {
        /// The tool's name.
        tool: String,
        /// What it verified.
        scope: String,
        /// Whether it passed.
        passed: bool,
    },
    /// A named value that a tool gave out.
    Output {
        /// The name.
        key: String,
        /// The value.
        value: String,
    },
}

/// A command, as the list of arguments it was run with, or as the line somebody reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Program and arguments, no shell.
    Argv(Vec<String>),
    /// A line for a shell.
    Line(String),
}
