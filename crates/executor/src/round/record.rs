//! What a call leaves on record: the same receipt, whether a database keeps it or a verdict file names it.

use crate::tool::{ErrorCode, ToolOutcome};
use chrono::{DateTime, Utc};
use surety_common::domain::json::{self, Value};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::verification::Verification;
use surety_common::domain::verification::{Observation, PROJECT_TESTS, Probe};
use uuid::Uuid;

/// The name of the runner's own observations.
const OBSERVE: &str = "observe";
/// The name of the runner's commands for checks.
const VERIFY: &str = "verify_command";
/// The name of the lines that prepare the views of checks.
const PREPARE: &str = "prepare";

/// The position of a receipt in the plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The revision of the plan, from 1.
    pub plan_revision: u32,
    /// The index of the step; the number of steps for the whole run.
    pub step_index: u32,
    /// The id of the step; empty for the whole run.
    pub step_id: String,
}

/// A call that ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedCall<'c> {
    /// Its idempotency key.
    pub id: Uuid,
    /// What was called.
    pub tool_call: &'c ToolCall,
    /// How it ended.
    pub outcome: &'c ToolOutcome,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
}

/// A probe as a call, with the arguments that its receipt names.
pub fn call_of(probe: &Probe) -> ToolCall {
    match &probe.observation {
        Observation::Command(_) if let Some(hidden) = probe.hidden_name() => {
            without_arguments(hidden)
        }
        Observation::Command(line) => of_line(VERIFY, line),
        Observation::Prepare(line) => of_line(PREPARE, line),
        Observation::Verification(verification) => of_verification(verification),
        Observation::ProjectTests => without_arguments(PROJECT_TESTS),
        Observation::Change(_) | Observation::File { .. } | Observation::Content { .. } => {
            observing()
        }
    }
}

/// An observation of the runner that no check asked for by itself.
pub fn observing() -> ToolCall {
    without_arguments(OBSERVE)
}

fn of_line(name: &str, line: &str) -> ToolCall {
    let argument = ("command".to_owned(), Value::String(line.to_owned()));
    ToolCall { name: name.to_owned(), arguments: Value::Object(vec![argument]) }
}

/// The arguments of the tool `verify`, with the command that the policy names.
fn of_verification(verification: &Verification) -> ToolCall {
    let Verification { tool, scope, line, argv: _, timeout_s: _ } = verification;
    let named = [("tool", tool), ("scope", scope), ("command", line)].into_iter();
    let arguments = named
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), Value::String(text.clone())));
    ToolCall { name: VERIFY.to_owned(), arguments: Value::Object(arguments.collect()) }
}

fn without_arguments(name: &str) -> ToolCall {
    ToolCall { name: name.to_owned(), arguments: Value::Object(Vec::new()) }
}

/// The receipt of a call, without its place in the chain.
pub fn receipt(place: Place, source: EvidenceSource, call: EndedCall<'_>) -> EvidenceReceipt {
    let EndedCall { id, tool_call, outcome, started_at, finished_at } = call;
    let bytes = &outcome.output;
    EvidenceReceipt {
        step_index: place.step_index,
        step_id: place.step_id,
        plan_revision: place.plan_revision,
        seq: 0,
        call_id: id.to_string(),
        probe_of: None,
        source,
        name: tool_call.name.clone(),
        arguments_digest: tool_call.arguments.digest(),
        success: outcome.success,
        summary: summary(outcome),
        facts: outcome.facts.clone(),
        output_digest: if bytes.is_empty() { String::new() } else { json::sha256_hex(bytes) },
        sandbox: outcome.sandbox.clone(),
        started_at: Some(started_at),
        finished_at: Some(finished_at),
        prev_digest: String::new(),
        digest: String::new(),
    }
}

/// The outcome in one line; a failed one begins with its code.
fn summary(outcome: &ToolOutcome) -> String {
    match outcome.error_code {
        Some(code) => format!("{}: {}", ErrorCode::as_str(code), outcome.summary),
        None => outcome.summary.clone(),
    }
}
