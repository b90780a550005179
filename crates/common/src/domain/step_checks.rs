//! A step's own checks, which the runner's probes at the end of the step decide.
//!
//! ```text
//!   the driver ends the step -> one attempt: a probe for each check -> results
//!     a check that is not probed (output_only, an optional command, a tool_fact of any source) -> every receipt of the run
//! ```

use super::canary::{CanaryRuling, CanaryRun, RUNNER_PATCHED, rule_canary};
use super::check::{AcceptCheck, Evidence, Owner, Reason, check_key, evaluate};
use super::check_inputs::{CheckRun, Failure, rule};
use super::receipt::{EvidenceReceipt, EvidenceSource, Inputs};
use super::run::InDoubt;
use super::verdict::CheckResult;
use super::verification::{
    HIDDEN_CHECK_FAILED, UNNAMED_HIDDEN_CHECK, is_commanded, is_probed, not_started,
};

/// What a step's checks are decided by.
#[derive(Debug, Clone, Copy)]
pub struct StepEvidence<'e> {
    /// The root that paths are resolved against.
    pub workspace_root: &'e str,
    /// The receipts of this attempt's probes.
    pub probes: &'e [EvidenceReceipt],
    /// Every receipt of the run before the attempt.
    pub receipts: &'e [EvidenceReceipt],
    /// The driver's text with which it ends the step.
    pub final_text: &'e str,
    /// Whether a check holds although it holds with changed check inputs only. No person is asked about a step.
    pub in_doubt: InDoubt,
}

/// The number of the next attempt to end a step, from 1: one more than its last probes name.
pub fn next_attempt(receipts: &[EvidenceReceipt], step_id: &str, plan_revision: u32) -> u32 {
    let own = receipts.iter().filter(|receipt| {
        receipt.source == EvidenceSource::Probe
            && receipt.step_id == step_id
            && receipt.plan_revision == plan_revision
    });
    let last = own.filter_map(|receipt| Some(receipt.probe_of.as_ref()?.round)).max();
    last.unwrap_or_default().saturating_add(1)
}

/// The results of a step's checks, in their order.
pub fn step_results(checks: &[AcceptCheck], evidence: &StepEvidence<'_>) -> Vec<CheckResult> {
    let all = Evidence::new(evidence.workspace_root, evidence.receipts, evidence.final_text);
    let decide = |(place, check): (usize, &AcceptCheck)| {
        let reason = if is_probed(check) {
            by_probe(check, &check_key(checks, place), evidence)
        } else {
            evaluate(check, &all).err().map_or_else(String::new, |reason| reason.as_str().into())
        };
        step_result(check, reason)
    };
    checks.iter().enumerate().map(decide).collect()
}

/// The result of a step's check with the reason why it does not hold; empty where it does. The driver, which is told, learns no
/// more of a hidden check.
pub fn step_result(check: &AcceptCheck, reason: String) -> CheckResult {
    let is_concealed = check.is_hidden() && !reason.is_empty();
    let (name, reason) = match is_concealed {
        true => (UNNAMED_HIDDEN_CHECK, HIDDEN_CHECK_FAILED.to_owned()),
        false => (check.name(), reason),
    };
    CheckResult {
        name: name.to_owned(),
        passed: reason.is_empty(),
        reason,
        optional: !check.required,
    }
}

/// Why a check does not hold by its own probe; empty where it does.
fn by_probe(check: &AcceptCheck, key: &str, evidence: &StepEvidence<'_>) -> String {
    let own = |inputs: Inputs| {
        let of = |receipt: &&EvidenceReceipt| {
            let probe = receipt.probe_of.as_ref();
            probe.is_some_and(|probe| probe.check_id == key && probe.inputs == inputs)
        };
        evidence.probes.iter().filter(of).cloned().collect::<Vec<_>>()
    };
    let evaluated =
        |own: &[EvidenceReceipt]| evaluate(check, &Evidence::new(evidence.workspace_root, own, ""));
    let [original, with_ignored, mut as_left] =
        [Inputs::Original, Inputs::OriginalWithIgnored, Inputs::AsLeft].map(own);
    // As left it may run once more, with the ignored files of the steps.
    as_left.drain(..as_left.len().saturating_sub(1));
    let run = |own: &[EvidenceReceipt]| Some((own.last()?.clone(), evaluated(own)));
    let runs = [&original, &with_ignored, &as_left].map(|own| run(own));
    let [first, with_ignored, as_left] = runs
        .each_ref()
        .map(|run| run.as_ref().map(|(receipt, result)| CheckRun { receipt, result: *result }));
    let (result, deciding) = match first {
        Some(first) => (rule(first, with_ignored, as_left).result, original),
        None => {
            let left = own(Inputs::AsLeft);
            let own = if left.is_empty() { own(Inputs::Unstated) } else { left };
            (evaluated(&own).map_err(Failure::OfRun), own)
        }
    };
    let reason = match result {
        Ok(()) => return patched(check, own(Inputs::Canary), own(Inputs::CanaryAtStart)),
        Err(Failure::OfInputs { .. }) if evidence.in_doubt == InDoubt::Allow => {
            return String::new();
        }
        Err(Failure::OfRun(reason)) => Reason::as_str(reason).to_owned(),
        Err(Failure::OfInputs { reason, .. }) => reason,
    };
    let without_facts = deciding.last().filter(|probe| !probe.success && probe.facts.is_empty());
    match without_facts {
        Some(probe) if is_commanded(check) => not_started(probe),
        Some(_) | None => reason,
    }
}

/// Why a check of a user or an operator does not hold although its command ended well: the product changes what judges it.
fn patched(
    check: &AcceptCheck,
    mut now: Vec<EvidenceReceipt>,
    mut start: Vec<EvidenceReceipt>,
) -> String {
    let Some(now) = now.pop().filter(|_| check.owner != Owner::Plan) else { return String::new() };
    let start = start.pop();
    let at_start = start.as_ref().map(CanaryRun::of);
    match rule_canary(&CanaryRun::of(&now), at_start.as_ref()) {
        CanaryRuling::Patched(detail) => format!("{RUNNER_PATCHED}: {detail}"),
        CanaryRuling::InOrder | CanaryRuling::NotRun(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json;
    use crate::domain::receipt::{Fact, read_receipt};

    fn receipt(
        source: &str,
        check_id: &str,
        round: u32,
        inputs: &str,
        ended: i32,
    ) -> EvidenceReceipt {
        let success = ended == 0;
        let text = format!(
            r#"{{"step_index":0,"step_id":"a","plan_revision":1,"source":"{source}","success":{success},
                "check_id":"{check_id}","round":{round},"inputs":"{inputs}",
                "facts":[{{"fact":"command","command_line":"make test","exit_code":{ended}}}]}}"#
        );
        read_receipt(&json::parse(&text).unwrap().value).unwrap()
    }

    /// A run with the original check inputs, of which some differ.
    fn original_failed() -> EvidenceReceipt {
        let mut run = receipt("probe", "command_success", 1, "original", 2);
        run.facts.push(Fact::of_output("check_inputs_differ", "changed t (test)"));
        run
    }

    fn reasons(
        checks: &str,
        probes: &[EvidenceReceipt],
        receipts: &[EvidenceReceipt],
    ) -> Vec<String> {
        reasons_in_doubt(checks, probes, receipts, InDoubt::Refuse)
    }

    fn reasons_in_doubt(
        checks: &str,
        probes: &[EvidenceReceipt],
        receipts: &[EvidenceReceipt],
        in_doubt: InDoubt,
    ) -> Vec<String> {
        let list = json::parse(checks).unwrap().value;
        let (checks, _) = read_checks(&list, "verify", Author::Operator).unwrap();
        let final_text = "made it";
        let evidence =
            StepEvidence { workspace_root: "/w", probes, receipts, final_text, in_doubt };
        step_results(&checks, &evidence).into_iter().map(|result| result.reason).collect()
    }

    #[test]
    fn a_probe_decides_and_no_call_of_the_step_does() {
        let plans = r#"[{"kind":"command_success","target":"make test"}]"#;
        let ran = receipt("tool_observation", "", 0, "", 0);
        let probe = |ended| receipt("probe", "command_success", 1, "as_left", ended);
        assert_eq!(reasons(plans, &[probe(0)], &[]), [""]);
        assert_eq!(
            reasons(plans, &[probe(2)], std::slice::from_ref(&ran)),
            ["no_successful_command"]
        );
        assert_eq!(reasons(plans, &[], &[ran]), ["no_successful_command"]);
        let failed = EvidenceReceipt {
            facts: Vec::new(),
            summary: "program_not_found: make".to_owned(),
            ..probe(2)
        };
        assert_eq!(
            reasons(plans, &[failed], &[]),
            ["command_not_started: program_not_found: make"]
        );
    }

    #[test]
    fn a_users_check_goes_by_the_original_check_inputs() {
        let users = r#"[{"kind":"command_success","target":"make test","owner":"user"}]"#;
        let run = |inputs, ended| receipt("probe", "command_success", 1, inputs, ended);
        assert_eq!(reasons(users, &[run("original", 0)], &[]), [""]);
        let found = reasons(users, &[original_failed(), run("as_left", 0)], &[]).concat();
        assert!(found.starts_with("check_inputs_changed"), "{found}");
        // Where it names no inputs, as one that could not be started, it decides by itself.
        let failed = [run("original", 2), run("as_left", 0)];
        assert_eq!(reasons(users, &failed, &[]), ["no_successful_command"]);
        let failed = [run("original", 0), run("as_left", 2)];
        assert_eq!(reasons(users, &failed, &[]), ["no_successful_command"]);
    }

    #[test]
    fn a_policy_can_accept_changed_check_inputs() {
        let users = r#"[{"kind":"command_success","target":"make test","owner":"user"}]"#;
        let run = |inputs, ended| receipt("probe", "command_success", 1, inputs, ended);
        let probes = [original_failed(), run("as_left", 0)];
        assert_eq!(reasons_in_doubt(users, &probes, &[], InDoubt::Allow), [""]);
        assert_ne!(reasons_in_doubt(users, &probes, &[], InDoubt::Ask), [""]);
        let failed = [run("original", 2), run("as_left", 2)];
        assert_ne!(reasons_in_doubt(users, &failed, &[], InDoubt::Allow), [""]);
    }

    #[test]
    fn a_runner_that_hides_failing_tests_fails_checks_of_users() {
        let run = |inputs, ended| receipt("probe", "command_success", 1, inputs, ended);
        let canary = |inputs, failed: &[&str]| EvidenceReceipt {
            facts: [("canary_test", "t")]
                .into_iter()
                .chain(failed.iter().map(|test| ("canary_failed", *test)))
                .map(|(key, value)| Fact::of_output(key, value))
                .collect(),
            ..run(inputs, 0)
        };
        let check = |owner: &str| {
            format!(r#"[{{"kind":"command_success","target":"make test","owner":"{owner}"}}]"#)
        };
        let hidden = [run("original", 0), canary("canary", &[]), canary("canary_at_start", &["t"])];
        let found = reasons(&check("user"), &hidden, &[]).concat();
        assert!(found.starts_with("runner_patched"), "{found}");
        assert_eq!(reasons(&check("plan"), &hidden, &[]), [""]);
        let reported = [run("original", 0), canary("canary", &["t"])];
        assert_eq!(reasons(&check("user"), &reported, &[]), [""]);
    }

    #[test]
    fn what_no_probe_observes_is_decided_by_every_receipt() {
        let checks = r#"[{"kind":"output_only"},
            {"kind":"command_success","target":"make test","required":false}]"#;
        let ran = receipt("tool_observation", "", 0, "", 0);
        assert_eq!(reasons(checks, &[], &[ran]), ["", ""]);
    }

    #[test]
    fn each_attempt_to_end_a_step_has_its_own_number() {
        let other = EvidenceReceipt { step_id: "b".to_owned(), ..receipt("probe", "x", 7, "", 0) };
        let earlier = EvidenceReceipt { plan_revision: 2, ..receipt("probe", "x", 5, "", 0) };
        let called = receipt("tool_observation", "", 0, "", 0);
        let receipts = [other, earlier, called, receipt("probe", "x", 2, "", 2)];
        assert_eq!(next_attempt(&receipts, "a", 1), 3);
        assert_eq!(next_attempt(&[], "a", 1), 1);
    }
}
