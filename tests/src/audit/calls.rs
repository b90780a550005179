//! Calls: their intents, and whether they may be repeated.

use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::sync::OnceLock;
use surety_common::domain::acceptance::Resolution;
use surety_common::domain::confirmation::{ConfirmPolicy, PLAN_RESOLVED, ToolEffects};
use surety_common::domain::journal::Intent;
use surety_common::domain::json;
use surety_common::domain::plan::PlanStep;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use surety_common::domain::run::RunRecord;
use surety_common::domain::tool_workers::{ToolWorkerPolicy, entry_of};
use surety_executor::tool::{Annotations, BuiltinSettings, Registry};
use uuid::Uuid;

/// The name of the runner's own observations.
const LOOK: &str = "observe";

/// The calls of a run that have an intent, and the rules for them.
pub(super) struct Calls {
    intents: HashMap<Uuid, Intent>,
    tools: &'static HashMap<String, Annotations>,
    worker_tools: Vec<ToolWorkerPolicy>,
    repeatable_commands: Vec<String>,
    confirm: ConfirmPolicy,
}

/// The built-in tools by their names and aliases. Their schemas take longer to compile than a run to audit.
fn tools() -> Result<&'static HashMap<String, Annotations>> {
    static TOOLS: OnceLock<HashMap<String, Annotations>> = OnceLock::new();
    if let Some(tools) = TOOLS.get() {
        return Ok(tools);
    }
    let tools = Registry::with_builtin(&BuiltinSettings::default())?.with_task_tools(true)?;
    let named = tools.specs().flat_map(|spec| {
        let names = tools.aliases_of(&spec.name).chain([spec.name.as_str()]);
        names.map(|name| (name.to_owned(), spec.annotations)).collect::<Vec<_>>()
    });
    Ok(TOOLS.get_or_init(|| named.collect()))
}

impl Calls {
    /// Those of a run, in whose namespace workers may serve these tools.
    pub(super) fn of(record: &RunRecord, worker_tools: Vec<ToolWorkerPolicy>) -> Result<Self> {
        let tools = tools()?;
        let repeatable_commands = record.spec.policy.repeatable_commands.clone();
        let confirm = record.spec.policy.confirm.clone();
        Ok(Self { intents: HashMap::new(), tools, worker_tools, repeatable_commands, confirm })
    }

    pub(super) fn intend(&mut self, intent: &Intent) -> Result<()> {
        let again = self.intents.insert(intent.call_id, intent.clone()).is_some();
        ensure!(!again, "the same call was started twice");
        Ok(())
    }

    /// Whether a tool is known to change nothing.
    pub(super) fn reads(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|annotations| annotations.read_only)
    }

    /// Whether a tool is known to change something: one of the executor's own, or one of a worker by the policy of the
    /// namespace. Of those of servers, and of those that a policy names no more, no row says whether they only read.
    pub(super) fn writes(&self, tool: &str) -> bool {
        match self.tools.get(tool) {
            Some(annotations) => !annotations.read_only,
            None => entry_of(&self.worker_tools, tool).is_some_and(|it| !it.annotations.read_only),
        }
    }

    /// Whether each call of a tool in a step needs a confirmation.
    pub(super) fn needs_confirmation(&self, tool: &str, step: &PlanStep) -> bool {
        self.tools.get(tool).is_some_and(|annotations| {
            let Annotations { read_only, destructive, open_world, .. } = *annotations;
            let effects = ToolEffects { read_only, destructive, open_world };
            self.confirm.covers(&step.confirm_tools, tool, effects)
        })
    }

    /// Every call has an earlier intent, except observations and refused calls.
    pub(super) fn begun(&self, receipt: &EvidenceReceipt, call_id: Uuid) -> Result<()> {
        let Some(intent) = self.intents.get(&call_id) else {
            // A person's answer is no call.
            if Resolution::of(receipt).is_some() || answers_plan(receipt) {
                return Ok(());
            }
            let reads = self.reads(&receipt.name) || is_of_server(receipt);
            let observations = reads || receipt.name == LOOK;
            let acted =
                acted(receipt) && !is_compared(receipt) || !(observations || refused(receipt));
            ensure!(!acted, "{} had an effect before its intent was stored", receipt.name);
            return Ok(());
        };
        let arguments = json::parse(&intent.arguments_json)?.value.digest();
        let same = intent.tool == receipt.name
            && intent.step_id == receipt.step_id
            && arguments == receipt.arguments_digest;
        ensure!(same, "the intent is of another call: {intent:?}");
        Ok(())
    }

    /// Whether a receipt is of a call that a worker made. A report of a worker has no intent.
    pub(super) fn are_of_worker(&self, receipt: &EvidenceReceipt) -> bool {
        let call_id = Uuid::parse_str(&receipt.call_id);
        let is_begun = call_id.is_ok_and(|call_id| self.intents.contains_key(&call_id));
        is_begun && receipt.reporter().is_some() || is_of_server(receipt)
    }

    /// Whether an interrupted call may be repeated without asking: its tool allows it, its effects
    /// can be probed, or the submitter declared its command.
    pub(super) fn again(&self, call_id: Uuid) -> bool {
        let Some(intent) = self.intents.get(&call_id) else { return false };
        let said = self.tools.get(&intent.tool).is_some_and(|annotations| {
            annotations.read_only || annotations.idempotent || !annotations.open_world
        });
        said || self.declared(&intent.arguments_json)
    }

    fn declared(&self, arguments_json: &str) -> bool {
        let arguments: serde_json::Value = serde_json::from_str(arguments_json).unwrap_or_default();
        let Some(argv) = arguments.get("argv").and_then(serde_json::Value::as_array) else {
            return false;
        };
        let begins = |line: &String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let given: Vec<&str> = argv.iter().filter_map(|word| word.as_str()).collect();
            !words.is_empty() && given.starts_with(&words)
        };
        self.repeatable_commands.iter().any(begins)
    }
}

/// Whether a receipt is of a call of an MCP server: in its words, but for the files, which the runner compared. A tool
/// that only reads needs no intent.
pub(super) fn is_of_server(receipt: &EvidenceReceipt) -> bool {
    let of =
        |server: &str| receipt.name.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
    receipt.reporter().and_then(|witness| witness.strip_prefix("mcp:")).is_some_and(of)
}

/// Whether a receipt is of a person's answer about a plan.
fn answers_plan(receipt: &EvidenceReceipt) -> bool {
    receipt.source == EvidenceSource::Approval
        && receipt.name == PLAN_RESOLVED
        && receipt.step_id.is_empty()
}

/// Whether a receipt is of the runner's comparison with the start of the run, whose files no call of it wrote.
fn is_compared(receipt: &EvidenceReceipt) -> bool {
    receipt.name == LOOK
        && receipt.source == EvidenceSource::Probe
        && receipt.step_id.is_empty()
        && receipt.probe_of.is_none()
}

/// Whether an effect is known.
fn acted(receipt: &EvidenceReceipt) -> bool {
    let did = |fact: &Fact| matches!(fact, Fact::FileWritten { .. } | Fact::Command { .. });
    receipt.facts.iter().any(did)
}

/// Whether a call was only refused, which takes no time.
fn refused(receipt: &EvidenceReceipt) -> bool {
    !receipt.success
        && receipt.facts.is_empty()
        && receipt.output_digest.is_empty()
        && receipt.started_at == receipt.finished_at
}
