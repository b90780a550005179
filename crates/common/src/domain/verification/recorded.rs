//! What the receipts of a round say.

use crate::domain::receipt::{
    CheckProbe, EvidenceReceipt, EvidenceSource, Fact, Inputs, WORKSPACE_CHECK,
};
use std::collections::BTreeSet;

/// The reason of [`WORKSPACE_CHECK`] where the workspace changed during a round.
pub const WORKSPACE_CHANGED: &str = "workspace_changed_during_verification";
/// Its reason where the workspace could not be read at the end of the round; the cause follows it.
pub const WORKSPACE_UNKNOWN: &str = "workspace_not_compared";
/// The reason of a command check whose command could not be started; the cause follows it.
const NOT_STARTED: &str = "command_not_started";
/// The reason of a command check that did not run because a line of `policy.prepare` failed; the line follows
/// it.
pub const PREPARE_FAILED: &str = "prepare_failed";
/// The output with a host that a command asked for and was refused.
const NETWORK_REFUSED: &str = "network_refused";
/// The output with a caution about the whole of a verification.
const NOTED: &str = "caution";

/// The receipts of the runner's probes of one round, or of one check in it. Probes at the end of a step are
/// of no round.
pub fn probed(
    receipts: &[EvidenceReceipt],
    round: u32,
    check_id: Option<&str>,
) -> Vec<EvidenceReceipt> {
    let is_of = |probe: &CheckProbe| {
        probe.round == round && check_id.is_none_or(|check_id| probe.check_id == check_id)
    };
    let own = receipts.iter().filter(|receipt| {
        receipt.source == EvidenceSource::Probe
            && receipt.step_id.is_empty()
            && receipt.probe_of.as_ref().is_some_and(is_of)
    });
    own.cloned().collect()
}

/// The receipts of one run of a check in a round.
pub fn probed_with(
    receipts: &[EvidenceReceipt],
    round: u32,
    check_id: &str,
    inputs: Inputs,
) -> Vec<EvidenceReceipt> {
    let mut own = probed(receipts, round, Some(check_id));
    own.retain(|receipt| receipt.probe_of.as_ref().is_some_and(|probe| probe.inputs == inputs));
    own
}

/// The receipts of a round by which a check over all of them is decided: of a check that ran more than once
/// only the run that decides first.
pub fn probed_first(receipts: &[EvidenceReceipt], round: u32) -> Vec<EvidenceReceipt> {
    let mut own = probed(receipts, round, None);
    let id_of = |receipt: &EvidenceReceipt, inputs: &[Inputs]| {
        let probe = receipt.probe_of.as_ref().filter(|probe| inputs.contains(&probe.inputs));
        probe.map(|probe| probe.check_id.clone())
    };
    let ran: BTreeSet<String> =
        own.iter().filter_map(|receipt| id_of(receipt, &[Inputs::Original])).collect();
    let second = [Inputs::OriginalWithIgnored, Inputs::AsLeft];
    let is_beside = |receipt: &EvidenceReceipt| {
        let inputs = receipt.probe_of.as_ref().map(|probe| probe.inputs);
        inputs.is_some_and(|inputs| inputs.is_about_runner() || inputs.is_at_start())
    };
    own.retain(|receipt| {
        !is_beside(receipt) && id_of(receipt, &second).is_none_or(|id| !ran.contains(&id))
    });
    own
}

/// The reason of a command check whose command could not be started, by the receipt of its probe.
pub fn not_started(probe: &EvidenceReceipt) -> String {
    if probe.summary.starts_with(PREPARE_FAILED) {
        return probe.summary.clone();
    }
    format!("{NOT_STARTED}: {}", probe.summary)
}

/// The digest of the workspace at the end of a round; empty where none was recorded.
pub fn workspace_digest(receipts: &[EvidenceReceipt], round: u32) -> String {
    let last = probed(receipts, round, Some(WORKSPACE_CHECK)).pop();
    last.and_then(|it| it.workspace_read().map(str::to_owned)).unwrap_or_default()
}

/// The weakest level of the sandbox of a round's commands: none, or all that any of them lacked. Empty where none ran.
pub fn weakest_sandbox(receipts: &[EvidenceReceipt], round: u32) -> String {
    const NONE: &str = "none";
    let own = probed(receipts, round, None);
    let levels: BTreeSet<&str> =
        own.iter().map(|it| it.sandbox.as_str()).filter(|it| !it.is_empty()).collect();
    if levels.contains(NONE) {
        return NONE.to_owned();
    }
    let partial = levels.iter().filter_map(|it| it.strip_prefix("partial(")?.strip_suffix(')'));
    let missing: BTreeSet<&str> = partial.flat_map(|it| it.split(", ")).collect();
    match missing.is_empty() {
        true => levels.first().copied().unwrap_or_default().to_owned(),
        false => format!("partial({})", missing.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// The fact by which the runner records that a command asked for a host that its policy does not allow.
pub fn network_refused(host: &str) -> Fact {
    Fact::of_output(NETWORK_REFUSED, host)
}

/// The hosts that a command asked for and was refused.
pub fn hosts_refused(receipt: &EvidenceReceipt) -> Vec<&str> {
    receipt.outputs(NETWORK_REFUSED).collect()
}

/// The fact by which the runner records a caution about the whole of a verification.
pub fn caution_of_all(code: &str, detail: &str) -> Fact {
    Fact::of_output(NOTED, format!("{code}: {detail}"))
}

/// The cautions about the whole of a verification that a receipt records, each with its detail.
pub fn cautions_of_all(receipt: &EvidenceReceipt) -> impl Iterator<Item = (&str, &str)> {
    receipt.outputs(NOTED).filter_map(|noted| noted.split_once(": "))
}

/// Whether any receipt says that a file was written.
pub fn wrote_files(receipts: &[EvidenceReceipt]) -> bool {
    let facts = || receipts.iter().flat_map(|receipt| &receipt.facts);
    facts().any(|fact| matches!(fact, Fact::FileWritten { .. }))
}
