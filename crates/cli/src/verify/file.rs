//! The verdict file: what a verification found, for people, for CI, and for a later comparison.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use surety_common::domain::manifest::{IgnoreRules, Manifest, Place, decode, encode};

use crate::failure::{Code, Failure};

/// Names the form of the file; another form has another name.
pub const FORM: &str = "surety verdict 1";

/// The verdict, and what it rests on. `docs/verdict.schema.json` describes each field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictFile {
    /// [`FORM`].
    pub form: String,
    /// The version of the program that wrote it.
    pub surety: String,
    /// When the gate decided, RFC 3339.
    pub decided_at: String,
    /// Whether every required result passed.
    pub accepted: bool,
    /// `accepted`, or the reason of the highest precedence.
    pub stop_reason: String,
    /// What would make the failed checks pass, one sentence each; empty when accepted.
    pub needed: String,
    /// `independent` or `self_checked`.
    pub strength: String,
    /// The number of the verification round, from 1.
    pub round: u32,
    /// The title of the checks.
    pub title: String,
    /// The file with the checks.
    pub plan: PlanSource,
    /// The workspace at the end of the round.
    pub workspace: Recorded,
    /// What the workspace was compared with.
    pub start: Origin,
    /// The command that ran before the round; none without one.
    pub command: Option<Ran>,
    /// What is another than at the start.
    pub changed: Changed,
    /// The lines that prepared the views of the checks, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<PreparedBy>,
    /// Every result.
    pub results: Vec<Checked>,
    /// What a reader must know.
    pub cautions: Vec<Caution>,
    /// What a person approved, without which it would not accept.
    #[serde(default)]
    pub approvals: Vec<Approved>,
    /// The receipts of the round.
    pub receipts: Receipts,
    /// A DSSE envelope in which a key of the user's signs everything above; none where no key could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// The file with the checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSource {
    /// Its path as it was named.
    pub path: String,
    /// The SHA-256 of its bytes.
    pub digest: String,
}

/// The workspace at the end of the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Its absolute path.
    pub path: String,
    /// The digest of every path that is not ignored.
    pub digest: String,
    /// The ignore rules under which the digest holds, as a stored manifest has them, in hexadecimal.
    pub ignore_rules: String,
}

/// What kind of start a verification had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    /// The workspace before a command.
    Command,
    /// A revision of its repository.
    Revision,
    /// The workspace when a contract was opened, where it is in no repository.
    Opening,
}

/// What the workspace was compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// What kind of start it was.
    pub kind: StartKind,
    /// The digest of the workspace at the start.
    pub digest: String,
    /// The revision as it was named; none without one.
    pub revision: Option<String>,
    /// The commit that it named.
    pub commit: Option<String>,
}

/// A command that ran before the round. Its exit code decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// How it ended; 128 plus the number of the signal for a killed one.
    pub exit_code: i32,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What confined it.
    pub sandbox: String,
    /// Processes that it left, which were killed before the round.
    pub left: Vec<String>,
}

/// What is another than at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// How many paths.
    pub count: u64,
    /// The first of them, each with what changed.
    pub paths: Vec<String>,
}

/// A line that prepared the views of the checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedBy {
    /// The line.
    pub line: String,
    /// Whether it succeeded; without it no check of a user or an operator runs a command.
    pub passed: bool,
    /// How it ended.
    pub probe: Probed,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// The check's id, its kind without one, or a rule of the gate that begins with `system.`.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// Whether the verdict does not depend on it.
    pub optional: bool,
    /// Why it does not hold; empty when it does.
    pub reason: String,
    /// The kind of the check; none for a rule of the gate.
    pub kind: Option<String>,
    /// The owner of the check; none for a rule of the gate.
    pub owner: Option<String>,
    /// What the check names: the line of a command, a file; none for a rule of the gate and for a hidden check.
    pub target: Option<String>,
    /// Whether the check is hidden.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// The runner's own probe; none where it made none.
    pub probe: Option<Probed>,
}

/// What the runner observed for a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// What was observed, in one line.
    pub summary: String,
    /// How the command ended; none without a command, or where it did not start.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What confined it; empty without a command.
    pub sandbox: String,
    /// The last lines of its output.
    pub last_lines: Vec<String>,
    /// The tests that it ran, as their runners reported them. They prove nothing by themselves.
    #[serde(default)]
    pub tests: Vec<Tests>,
}

/// The tests of one runner, or of several that a recipe starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// The runners, such as `cargo test`.
    pub runner: String,
    /// Tests that ran, whatever their result.
    pub ran: u64,
    /// Tests that ran and failed.
    pub failed: u64,
    /// Tests that were skipped.
    pub skipped: u64,
    /// Tests that the runner announced, and that it then neither ran nor skipped.
    pub missing: u64,
}

/// The approval of what the verdict was in doubt about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// The account of the person at the terminal.
    pub by: String,
    /// The digest of what was shown: the workspace, the difference and the cautions.
    pub digest: String,
}

/// What a reader must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caution {
    /// The code, such as `participant_unconfined`.
    pub code: String,
    /// The check that it is about; empty for the whole verification.
    pub check: String,
    /// What was observed.
    pub detail: String,
}

/// The receipts of the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipts {
    /// How many.
    pub count: u64,
    /// The digest of the last, which covers those before it; empty without any.
    pub chain_digest: String,
}

impl VerdictFile {
    /// The text of the file.
    ///
    /// # Errors
    /// A defect: a number that JSON does not have.
    pub fn text(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))
    }

    /// The same on one line.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn compact(&self) -> Result<String, Failure> {
        serde_json::to_string(self)
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))
    }

    /// Writes the file whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = self.text()?;
        let mut file = beside(path)?;
        writeln!(file, "{text}").map_err(Failure::file(path))?;
        file.persist(path).map(drop).map_err(|error| Failure::file(path)(error.error))
    }
}

/// Whether a verdict can be written there, which is asked before anything runs.
///
/// # Errors
/// It cannot.
pub fn ensure_writable(path: &Path) -> Result<(), Failure> {
    beside(path).map(drop)
}

/// A temporary file beside a path.
fn beside(path: &Path) -> Result<tempfile::NamedTempFile, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let made =
        std::fs::create_dir_all(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder));
    made.map_err(|error| {
        let message =
            format!("the verdict cannot be written to {}: {}", path.display(), error.kind());
        Failure::new(Code::FileUnusable, message, "Name another file with --verdict.")
    })
}

impl Recorded {
    /// Records a workspace.
    pub fn new(root: &Path, digest: String, rules: &std::sync::Arc<IgnoreRules>) -> Self {
        let rules = Manifest::new(Place::default(), std::sync::Arc::clone(rules), Vec::new());
        Self {
            path: root.to_string_lossy().into_owned(),
            digest,
            ignore_rules: HEXLOWER.encode(&encode(&rules)),
        }
    }

    /// The ignore rules under which the digest holds.
    ///
    /// # Errors
    /// They do not read.
    pub fn rules(&self) -> Result<std::sync::Arc<IgnoreRules>, Failure> {
        let invalid = |why: String| {
            let message = format!("the verdict's `workspace.ignore_rules` do not read: {why}");
            Failure::new(Code::ValueInvalid, message, "Make the verdict again.")
        };
        let bytes = HEXLOWER_PERMISSIVE
            .decode(self.ignore_rules.as_bytes())
            .map_err(|error| invalid(error.to_string()))?;
        let manifest = decode(&bytes).map_err(|error| invalid(error.to_string()))?;
        Ok(manifest.rules)
    }
}
