//! The runner's observations before a verdict.

use super::run::Replay;
use anyhow::{Result, ensure};
use std::collections::HashSet;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::plan::Plan;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::{RunRecord, VerifyCommands};

/// One verification, from the end of the last step on.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Files and contents that the checks of the plan of that moment name, each once.
    needed: usize,
    /// Recorded observations.
    seen: usize,
    /// Whether the gate decided after them.
    judged: bool,
}

impl Observed {
    pub(super) fn begin(plan: &Plan) -> Self {
        let observations = plan.verify.iter().filter_map(|check| {
            let needle = check.params.get("contains");
            let content = check.kind == CheckKind::ContentContains && needle.is_some();
            let file = check.kind == CheckKind::FileExists;
            (content || file).then_some((&check.kind, &check.target, needle))
        });
        Self { needed: observations.collect::<HashSet<_>>().len(), ..Self::default() }
    }

    pub(super) fn receipt(&mut self, receipt: &EvidenceReceipt) {
        self.seen += usize::from(receipt.step_id.is_empty() && receipt.name == "observe");
    }

    pub(super) fn verdict(&mut self) {
        self.judged = true;
    }
}

/// The row records complete observations exactly when the journal has them.
pub(super) fn compare(replay: &Replay, record: &RunRecord, wrote: bool) -> Result<()> {
    let observed = record.execution.counters.observed;
    let Some(replayed) = &replay.observed else {
        ensure!(!observed, "it is said to be observed and was never verified");
        return Ok(());
    };
    if observed {
        let Observed { needed, seen, .. } = replayed;
        ensure!(seen >= needed, "it is said to be observed: {seen} observations of {needed}");
        return Ok(());
    }
    let command = |check: &AcceptCheck| check.required && check.kind == CheckKind::CommandSuccess;
    let runs = record.spec.policy.verify_commands == VerifyCommands::Runner
        && (wrote || replay.plan.verify.iter().any(command));
    let unseen = replayed.judged && (replayed.needed > 0 || runs);
    ensure!(!unseen, "the gate decided over what is said not to be observed");
    Ok(())
}
