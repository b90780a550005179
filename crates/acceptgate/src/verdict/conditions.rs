//! Cautions about how the checks of a round ran, and about how they ran before.

use super::doubt::{Noted, Standing};
use super::evaluation::Evaluation;
use super::runs;
use surety_common::domain::caution::CAUTIONS;
use surety_common::domain::check::{CheckKind, Owner, check_key};
use surety_common::domain::check_inputs::ORIGINALS_NOT_RUN;
use surety_common::domain::receipt::{
    Command, EvidenceReceipt, EvidenceSource, Fact, Inputs, exit_code,
};
use surety_common::domain::verification::{
    PROJECT_TESTS_CHECK, ProjectTests, WORKSPACE_CHECK, cautions_of_all, is_commanded, probed,
    probed_with, workspace_digest,
};

/// The cautions.
const FLAKY: &str = "flaky";
const SANDBOX_PARTIAL: &str = "sandbox_partial";
const PROJECT_TESTS_FAILED_BEFORE: &str = "project_tests_failed_before";
/// The strongest level of the sandbox, as receipts name it.
const FULL: &str = "full";
/// The results that carry what is known of the participant, and of the start.
const PARTICIPANT_CHECK: &str = "system.participant";
const START_CHECK: &str = "system.start";
/// The cautions about the start.
const OF_START: &[&str] = &["ignored_inputs_as_left", "no_base_revision"];

/// Notes what is known of the runs of each command that holds.
pub(super) fn note(input: &Evaluation<'_>, standings: &mut [Standing]) {
    let first = standings.len().saturating_sub(input.checks.len());
    let (system, own) = standings.split_at_mut(first);
    let is_project = |it: &&mut Standing| it.result.name == PROJECT_TESTS_CHECK;
    if let Some(standing) = system.iter_mut().find(is_project) {
        note_runs(input, PROJECT_TESTS_CHECK, standing);
    }
    for (place, (check, standing)) in input.checks.iter().zip(own).enumerate() {
        if is_commanded(check) {
            note_runs(input, &check_key(input.checks, place), standing);
        }
        // What a command or a tool answered, whether the check asks for it or an expression reads it.
        let is_of_runs = matches!(
            check.kind,
            CheckKind::CommandSuccess | CheckKind::ToolFact | CheckKind::Expression
        );
        let by_receipts = input.cautions.receipts_only && is_of_runs;
        if by_receipts && standing.result.passed && check.owner != Owner::Plan {
            let detail = "what steps recorded decides, with the check inputs as they left them";
            standing.noted.push(Noted::new(ORIGINALS_NOT_RUN, detail.to_owned()));
        }
    }
}

fn note_runs(input: &Evaluation<'_>, key: &str, standing: &mut Standing) {
    let Some(round) = input.round.filter(|_| standing.result.passed) else { return };
    standing.noted.extend(flaky(input, round, key));
    standing.noted.extend(partly_confined(input, round, key));
}

/// A run that failed in an earlier round on the very workspace on which it holds now.
fn flaky(input: &Evaluation<'_>, round: u32, key: &str) -> Option<Noted> {
    let digest = workspace_digest(input.receipts, round);
    if digest.is_empty() {
        return None;
    }
    let is_same = |earlier: &u32| {
        let end = probed(input.receipts, *earlier, Some(WORKSPACE_CHECK)).pop();
        end.is_some_and(|end| end.success) && workspace_digest(input.receipts, *earlier) == digest
    };
    for inputs in [Inputs::Original, Inputs::AsLeft] {
        let last = |round| probed_with(input.receipts, round, key, inputs).pop();
        let Some(now) = last(round).filter(|receipt| receipt.success) else { continue };
        let failed = (1..round).filter(is_same).rev().find_map(|earlier| {
            let receipt = last(earlier).filter(|receipt| !receipt.success)?;
            let same_line = receipt.arguments_digest == now.arguments_digest;
            Some((earlier, exit_code(receipt.facts.iter()).filter(|_| same_line)?))
        });
        if let Some((earlier, exit_code)) = failed {
            // The present round has no place in it: an approval of this text begins another one.
            let detail = format!(
                "it ended with {exit_code} in round {earlier}, and holds now on the same workspace"
            );
            return Some(Noted::new(FLAKY, detail));
        }
    }
    None
}

/// A run below the strongest level of the sandbox.
fn partly_confined(input: &Evaluation<'_>, round: u32, key: &str) -> Option<Noted> {
    let level = runs::deciding(input, round, key)?.sandbox;
    let is_below = !level.is_empty() && level != FULL;
    is_below.then(|| Noted::new(SANDBOX_PARTIAL, format!("it ran at the level {level}")))
}

/// The results that say what the runner noted about the whole of a verification.
pub(super) fn of_the_whole<'i>(input: &'i Evaluation<'_>) -> impl Iterator<Item = Standing> + 'i {
    let is_own = |receipt: &&EvidenceReceipt| {
        receipt.source == EvidenceSource::Probe && receipt.probe_of.is_none()
    };
    let noted = input.receipts.iter().filter(is_own).flat_map(cautions_of_all);
    noted.filter_map(|(code, detail)| {
        let (code, _) = CAUTIONS.into_iter().find(|(known, _)| *known == code)?;
        let name = if OF_START.contains(&code) { START_CHECK } else { PARTICIPANT_CHECK };
        let noted = vec![Noted::new(code, detail.to_owned())];
        Some(Standing { noted, ..Standing::of_rule(name, String::new()) })
    })
}

/// The project's own tests that fail on the workspace of the start too.
pub(super) fn failed_before(input: &Evaluation<'_>) -> Option<Noted> {
    let own = probed_with(input.receipts, input.round?, PROJECT_TESTS_CHECK, Inputs::AtStart);
    let receipt = own.last().filter(|receipt| !receipt.success)?;
    let detail = match receipt.facts.iter().find_map(ProjectTests::lacking) {
        Some(program) => {
            format!("{program} is not installed, so they ran at the start no more than now")
        }
        None => {
            let exit_code = exit_code(receipt.facts.iter())?;
            format!("{} ended with {exit_code} at the start, too", line(receipt))
        }
    };
    Some(Noted::new(PROJECT_TESTS_FAILED_BEFORE, detail))
}

/// The line of a receipt's command.
fn line(receipt: &EvidenceReceipt) -> String {
    let said = receipt.facts.iter().find_map(|fact| match fact {
        Fact::Command { command: Command::Argv(argv), .. } => Some(argv.join(" ")),
        Fact::Command { command: Command::Line(line), .. } => Some(line.clone()),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => None,
    });
    said.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{Judgement, decide};
    use super::*;
    use crate::check::expression::Allowance;
    use std::collections::BTreeMap;
    use surety_common::domain::caution::CautionRules;
    use surety_common::domain::check::{AcceptCheck, Author, read_checks};
    use surety_common::domain::json::parse;
    use surety_common::domain::receipt::{CheckProbe, read_receipt};
    use surety_common::domain::run::InDoubt;
    use surety_common::domain::verification::{WORKSPACE_DIGEST, caution_of_all};

    fn checks(owner: &str) -> Vec<AcceptCheck> {
        let text = format!(
            r#"[{{"id": "c", "kind": "command_success", "target": "make test", "owner": "{owner}"}}]"#
        );
        read_checks(&parse(&text).unwrap().value, "checks", Author::Service).unwrap().0
    }

    /// A run of a check in a round.
    fn ran(check_id: &str, round: u32, inputs: Inputs, exit_code: i32) -> EvidenceReceipt {
        let text = format!(
            r#"{{"step_index": 0, "source": "probe", "success": {},
                "facts": [{{"fact": "command", "command_line": "make test", "exit_code": {exit_code}}}]}}"#,
            exit_code == 0
        );
        let mut receipt = read_receipt(&parse(&text).unwrap().value).unwrap();
        receipt.probe_of = Some(CheckProbe { check_id: check_id.to_owned(), round, inputs });
        receipt
    }

    /// The end of a round, with the workspace's digest.
    fn end(round: u32, digest: &str) -> EvidenceReceipt {
        let value = digest.to_owned();
        EvidenceReceipt {
            facts: vec![Fact::Output { key: WORKSPACE_DIGEST.to_owned(), value }],
            ..ran(WORKSPACE_CHECK, round, Inputs::Unstated, 0)
        }
    }

    fn judged(
        checks: &[AcceptCheck],
        receipts: &[EvidenceReceipt],
        (round, project_tests): (Option<u32>, Option<ProjectTests>),
        cautions: CautionRules<'_>,
    ) -> Judgement {
        let input = Evaluation {
            workspace_root: "/srv/p",
            checks,
            receipts,
            final_text: "done",
            todos: &[],
            plan_made_at: None,
            answers: &BTreeMap::new(),
            project_tests,
            round,
            require_independent: false,
            cautions,
            authored_text: None,
        };
        decide(&input, Allowance::default()).unwrap()
    }

    fn codes(judgement: &Judgement) -> Vec<&str> {
        judgement.verdict.cautions.iter().map(|caution| caution.code.as_str()).collect()
    }

    fn in_doubt(in_doubt: InDoubt) -> CautionRules<'static> {
        CautionRules { in_doubt, ..CautionRules::default() }
    }

    #[test]
    fn a_workspace_that_could_not_be_read_at_the_end_is_refused_with_the_cause() {
        let rules = in_doubt(InDoubt::Allow);
        let passed = ran("c", 1, Inputs::Original, 0);
        let known = [passed.clone(), end(1, "w")];
        assert!(judged(&checks("user"), &known, (Some(1), None), rules).verdict.accepted);
        let summary = "workspace_not_compared: no such folder".to_owned();
        let unread = EvidenceReceipt { success: false, facts: Vec::new(), summary, ..end(1, "") };
        let refused = judged(&checks("user"), &[passed, unread], (Some(1), None), rules).verdict;
        let result = refused.results.iter().find(|result| result.name == WORKSPACE_CHECK).unwrap();
        assert!(!refused.accepted && !result.passed);
        assert_eq!(result.reason, "workspace_not_compared: no such folder");
    }

    #[test]
    fn a_check_that_failed_on_the_same_workspace_before_is_flaky() {
        let original = Inputs::Original;
        let failed = ran("c", 1, original, 2);
        let passed = ran("c", 2, original, 0);
        let history = |first: EvidenceReceipt, digest: &str| {
            [first, end(1, digest), passed.clone(), end(2, "w")]
        };
        let judge = |owner: &str, receipts: &[EvidenceReceipt], rules| {
            judged(&checks(owner), receipts, (Some(2), None), rules)
        };
        let refuse = in_doubt(InDoubt::Refuse);
        let refused = judge("user", &history(failed.clone(), "w"), refuse);
        assert!(!refused.verdict.accepted);
        let reason = &refused.verdict.results.last().unwrap().reason;
        assert_eq!(
            reason,
            "flaky: it ended with 2 in round 1, and holds now on the same workspace"
        );
        let allowed = judge("user", &history(failed.clone(), "w"), in_doubt(InDoubt::Allow));
        assert!(allowed.verdict.accepted && codes(&allowed) == [FLAKY], "{allowed:?}");
        let of_plan = judge("plan", &history(failed.clone(), "w"), refuse);
        assert!(of_plan.verdict.accepted && codes(&of_plan) == [FLAKY], "{of_plan:?}");
        let another_line =
            EvidenceReceipt { arguments_digest: "other".to_owned(), ..failed.clone() };
        let not_started = EvidenceReceipt { facts: Vec::new(), ..failed.clone() };
        let mut moved = history(failed.clone(), "w");
        moved[1].success = false;
        for (receipts, why) in [
            (history(failed, "v"), "the workspace was another"),
            (history(ran("c", 1, original, 0), "w"), "it held before"),
            (history(ran("c", 1, Inputs::OriginalWithIgnored, 2), "w"), "other inputs"),
            (history(another_line, "w"), "another line"),
            (history(not_started, "w"), "it did not run"),
            (moved, "the workspace changed during the earlier round"),
        ] {
            let held = judge("user", &receipts, refuse);
            assert!(held.verdict.accepted && codes(&held).is_empty(), "{why}: {held:?}");
        }
    }

    #[test]
    fn a_command_below_the_strongest_level_is_named() {
        let at = |level: &str| EvidenceReceipt {
            sandbox: level.to_owned(),
            ..ran("c", 1, Inputs::Original, 0)
        };
        let partial = vec![SANDBOX_PARTIAL.to_owned()];
        for (level, expected) in
            [("full", false), ("", false), ("none", true), ("partial(x)", true)]
        {
            let judge = |rules| judged(&checks("user"), &[at(level)], (Some(1), None), rules);
            let shown = judge(CautionRules::default());
            assert_eq!(shown.verdict.sandbox, level, "the verdict names it, whatever it refuses");
            assert!(shown.verdict.accepted, "{level}");
            assert_eq!(codes(&shown).contains(&SANDBOX_PARTIAL), expected, "{level}");
            let named = judge(CautionRules { refuse_on: &partial, ..CautionRules::default() });
            assert_eq!(named.verdict.accepted, !expected, "{level}");
        }
    }

    #[test]
    fn what_steps_recorded_decides_without_the_original_check_inputs() {
        let of_step = EvidenceReceipt {
            source: EvidenceSource::ToolObservation,
            probe_of: None,
            ..ran("c", 0, Inputs::Unstated, 0)
        };
        let named = vec![ORIGINALS_NOT_RUN.to_owned()];
        let rules = CautionRules { receipts_only: true, ..CautionRules::default() };
        let judge = |owner: &str, rules| {
            judged(&checks(owner), std::slice::from_ref(&of_step), (None, None), rules)
        };
        let shown = judge("user", rules);
        assert!(shown.verdict.accepted && codes(&shown) == [ORIGINALS_NOT_RUN], "{shown:?}");
        assert_eq!(codes(&judge("plan", rules)), [""; 0]);
        assert!(!judge("user", CautionRules { refuse_on: &named, ..rules }).verdict.accepted);
        assert_eq!(codes(&judge("user", CautionRules::default())), [""; 0], "evidence of a caller");
    }

    #[test]
    fn what_is_noted_about_the_whole_is_named() {
        const PARTICIPANT_UNCONFINED: &str = "participant_unconfined";
        let said = EvidenceReceipt {
            facts: vec![caution_of_all(PARTICIPANT_UNCONFINED, "it ran outside")],
            probe_of: None,
            ..ran("", 0, Inputs::Unstated, 0)
        };
        let own = EvidenceReceipt { source: EvidenceSource::ToolObservation, ..said.clone() };
        let held = ran("c", 1, Inputs::Original, 0);
        let named = vec![PARTICIPANT_UNCONFINED.to_owned()];
        let judge = |first: &EvidenceReceipt, rules| {
            let receipts = [first.clone(), held.clone()];
            judged(&checks("user"), &receipts, (Some(1), None), rules)
        };
        let shown = judge(&said, CautionRules::default());
        assert!(shown.verdict.accepted && codes(&shown) == [PARTICIPANT_UNCONFINED], "{shown:?}");
        let refused = judge(&said, CautionRules { refuse_on: &named, ..CautionRules::default() });
        assert!(!refused.verdict.accepted);
        assert_eq!(
            codes(&judge(&own, CautionRules::default())),
            [""; 0],
            "a step says nothing of it"
        );
    }

    #[test]
    fn tests_that_failed_before_refuse_only_where_the_plan_set_every_check() {
        let key = PROJECT_TESTS_CHECK;
        let failed = ran(key, 1, Inputs::Original, 1);
        let at_start = |exit_code| ran(key, 1, Inputs::AtStart, exit_code);
        let of_user = ran("c", 1, Inputs::Original, 0);
        let named = vec![PROJECT_TESTS_FAILED_BEFORE.to_owned()];
        let judge = |owner: &str, receipts: &[EvidenceReceipt], rules| {
            let all = [receipts, std::slice::from_ref(&of_user)].concat();
            let own = checks(owner);
            judged(&own, &all, (Some(1), Some(ProjectTests::of(&all, 1))), rules)
        };
        let default = CautionRules::default();
        let before = [failed.clone(), at_start(1)];
        let held = judge("user", &before, default);
        assert!(held.verdict.accepted, "{held:#?}");
        assert_eq!(codes(&held), [PROJECT_TESTS_FAILED_BEFORE]);
        let result = held.verdict.results.iter().find(|result| result.name == key).unwrap();
        assert!(result.optional && !result.passed, "it is shown as it is");
        let not_started = EvidenceReceipt { facts: Vec::new(), ..at_start(1) };
        let lacking = EvidenceReceipt { facts: Vec::new(), ..failed.clone() };
        let facts = vec![ProjectTests::lacks("go")];
        let lacking = [lacking, EvidenceReceipt { facts, ..at_start(1) }];
        let without = judge("user", &lacking, default);
        assert!(without.verdict.accepted, "no machine without the program decides: {without:#?}");
        assert_eq!(codes(&without), [PROJECT_TESTS_FAILED_BEFORE]);
        for (owner, receipts, rules, why) in [
            ("plan", before.to_vec(), default, "the plan set every check"),
            (
                "user",
                before.to_vec(),
                CautionRules { refuse_on: &named, ..default },
                "the policy refuses it",
            ),
            ("user", vec![failed.clone(), at_start(0)], default, "they passed at the start"),
            ("user", vec![failed.clone()], default, "it is not known"),
            ("user", vec![failed, not_started], default, "they did not run at the start"),
        ] {
            let refused = judge(owner, &receipts, rules);
            assert!(!refused.verdict.accepted, "{why}");
            let result = refused.verdict.results.iter().find(|result| result.name == key).unwrap();
            assert_eq!(result.reason, "project_tests_failed", "{why}");
        }
    }
}
