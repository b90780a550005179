use super::super::{Judgement, decide};
use super::*;
use crate::check::expression::Allowance;
use chrono::DateTime;
use std::collections::BTreeMap;
use surety_common::domain::acceptance::{Answered, DIFFERENCE_CHECK};
use surety_common::domain::check::{AcceptCheck, Author, read_checks};
use surety_common::domain::json::{parse, sha256_hex};
use surety_common::domain::receipt::{
    CheckProbe, EvidenceReceipt, EvidenceSource, Fact, Inputs, read_receipt,
};
use surety_common::domain::tests_seen::Counts;
use uuid::Uuid;

fn checks(text: &str) -> Vec<AcceptCheck> {
    let value = parse(text).unwrap().value;
    read_checks(&value, "checks", Author::Service).unwrap().0
}

fn output(key: &str, value: &str) -> Fact {
    Fact::Output { key: key.to_owned(), value: value.to_owned() }
}

/// One run of the check `c`, with what was observed.
fn probe(inputs: Inputs, exit_code: i32, facts: &[Fact]) -> EvidenceReceipt {
    let text = format!(
        r#"{{"step_index": 0, "source": "probe", "success": {},
            "facts": [{{"fact": "command", "command_line": "make test", "exit_code": {exit_code}}}]}}"#,
        exit_code == 0
    );
    let mut receipt = read_receipt(&parse(&text).unwrap().value).unwrap();
    receipt.facts.extend_from_slice(facts);
    receipt.probe_of = Some(CheckProbe { check_id: "c".to_owned(), round: 1, inputs });
    receipt
}

fn difference(workspace: &str) -> EvidenceReceipt {
    let mut receipt = probe(Inputs::Unstated, 0, &[]);
    receipt.facts = Difference::facts(workspace, b"diff", "");
    receipt.output_digest = sha256_hex(b"diff");
    let check_id = DIFFERENCE_CHECK.to_owned();
    receipt.probe_of = Some(CheckProbe { check_id, round: 1, inputs: Inputs::Unstated });
    receipt
}

fn answer(digest: &str, approved: bool) -> EvidenceReceipt {
    let (by, comment) = ("alice".to_owned(), "weaker".to_owned());
    let said =
        Resolution { by, approved, digest: digest.to_owned(), workspace: "w".to_owned(), comment };
    let at = DateTime::UNIX_EPOCH;
    said.receipt(Answered { step_count: 1, plan_revision: 1, wait_id: Uuid::nil(), at })
}

/// A check that holds only with the tests of the run, whose workspace has this digest.
fn changed_tests(workspace: &str) -> Vec<EvidenceReceipt> {
    let changed = output("check_inputs_differ", "changed t.sh (test)");
    vec![
        probe(Inputs::Original, 1, &[changed]),
        probe(Inputs::AsLeft, 0, &[]),
        difference(workspace),
    ]
}

const CHECK: &str =
    r#"[{"id": "c", "kind": "command_success", "target": "make test", "owner": "OWNER"}]"#;

fn judged(owner: &str, receipts: &[EvidenceReceipt], rules: CautionRules<'_>) -> Judgement {
    let input = Evaluation {
        workspace_root: "/srv/p",
        checks: &checks(&CHECK.replace("OWNER", owner)),
        receipts,
        final_text: "done",
        todos: &[],
        plan_made_at: None,
        answers: &BTreeMap::new(),
        project_tests: None,
        round: Some(1),
        require_independent: false,
        cautions: rules,
        authored_text: None,
    };
    decide(&input, Allowance::default()).unwrap()
}

fn rules(in_doubt: InDoubt) -> CautionRules<'static> {
    CautionRules { in_doubt, ..CautionRules::default() }
}

/// The reason of the check.
fn reason(judgement: &Judgement) -> &str {
    judgement.verdict.results.last().map_or("", |result| result.reason.as_str())
}

fn digest_of(judgement: &Judgement) -> String {
    judgement.question.as_ref().unwrap().acceptance.digest.clone()
}

const CHANGED: &str = "check_inputs_changed: changed t.sh (test)";

#[test]
fn changed_tests_are_refused_allowed_or_asked_about() {
    let receipts = changed_tests("w");
    let refused = judged("user", &receipts, rules(InDoubt::Refuse));
    assert_eq!((refused.verdict.accepted, reason(&refused)), (false, CHANGED));
    assert_eq!(refused.question, None);
    let allowed = judged("user", &receipts, rules(InDoubt::Allow));
    assert!(allowed.verdict.accepted, "{allowed:#?}");
    assert_eq!(allowed.verdict.cautions[0].code, "check_inputs_changed");
    let asked = judged("user", &receipts, rules(InDoubt::Ask));
    assert!(!asked.verdict.accepted);
    let question = asked.question.unwrap();
    assert_eq!(question.acceptance.difference.workspace, "w");
    assert_eq!(question.acceptance.cautions, asked.verdict.cautions);
    assert!(!question.is_void);
}

#[test]
fn an_approval_counts_for_what_was_shown_and_for_nothing_else() {
    let digest = digest_of(&judged("user", &changed_tests("w"), rules(InDoubt::Ask)));
    let mut receipts = changed_tests("w");
    receipts.push(answer(&digest, true));
    let approved = judged("user", &receipts, rules(InDoubt::Ask));
    assert!(approved.verdict.accepted && approved.question.is_none(), "{approved:#?}");
    let by = "alice".to_owned();
    assert_eq!(approved.verdict.approvals, [Approval { by, digest: digest.clone() }]);
    assert_eq!(approved.verdict.cautions[0].code, "check_inputs_changed");

    let mut moved = changed_tests("another");
    moved.push(answer(&digest, true));
    let void = judged("user", &moved, rules(InDoubt::Ask));
    assert!(!void.verdict.accepted && void.question.unwrap().is_void);
    let denied = judged(
        "user",
        &[changed_tests("w"), vec![answer(&digest, false)]].concat(),
        rules(InDoubt::Ask),
    );
    assert_eq!(reason(&denied), format!("{CHANGED}; denied by alice: weaker"));
    assert_eq!(denied.question, None);
    // An approval never overrides a check that fails on the workspace as it was left.
    let mut failing = changed_tests("w");
    failing[1] = probe(Inputs::AsLeft, 1, &[]);
    failing.push(answer(&digest, true));
    let failing = judged("user", &failing, rules(InDoubt::Ask));
    assert_eq!((reason(&failing), &failing.question), ("no_successful_command", &None));
}

#[test]
fn nothing_is_asked_without_the_difference_or_while_anything_else_fails() {
    let mut receipts = changed_tests("w");
    receipts.pop();
    let unrecorded = judged("user", &receipts, rules(InDoubt::Ask));
    assert_eq!(reason(&unrecorded), format!("{CHANGED}; there was no person to ask"));
    let never = vec!["check_inputs_differ".to_owned()];
    let named = CautionRules { refuse_on: &never, ..rules(InDoubt::Ask) };
    let differ = output("check_inputs_differ", "added n.sh (test)");
    let both =
        [probe(Inputs::Original, 0, &[differ]), probe(Inputs::AsLeft, 0, &[]), difference("w")];
    let refused = judged("user", &both, named);
    assert_eq!(refused.question, None, "what a policy names is no doubt: {refused:#?}");
    assert_eq!(reason(&refused), "check_inputs_differ: added n.sh (test)");
    assert!(judged("user", &both, rules(InDoubt::Ask)).verdict.accepted);
}

#[test]
fn a_program_of_the_run_and_missing_tests_are_in_doubt_for_users_and_shown_for_plans() {
    let program = output("program_from_workspace", "src/run.sh");
    let counts = Counts { ran: 0, failed: 0, skipped: 0, missing: 0 };
    let none = Fact::Tests { runner: "pytest".to_owned(), counts };
    for (fact, code) in [(program, "program_from_workspace"), (none, "no_tests_seen")] {
        let inputs = if code == "no_tests_seen" { Inputs::AsLeft } else { Inputs::Original };
        let receipts = [probe(inputs, 0, &[fact]), difference("w")];
        let refused = judged("user", &receipts, rules(InDoubt::Refuse));
        assert!(reason(&refused).starts_with(code), "{refused:#?}");
        assert!(judged("user", &receipts, rules(InDoubt::Ask)).question.is_some(), "{code}");
        assert!(judged("user", &receipts, rules(InDoubt::Allow)).verdict.accepted, "{code}");
        assert!(judged("plan", &receipts, rules(InDoubt::Refuse)).verdict.accepted, "{code}");
        let named = vec![code.to_owned()];
        let named = CautionRules { refuse_on: &named, ..rules(InDoubt::Refuse) };
        assert!(!judged("plan", &receipts, named).verdict.accepted, "{code}");
    }
}

#[test]
fn a_receipt_of_a_tool_is_no_approval() {
    let digest = digest_of(&judged("user", &changed_tests("w"), rules(InDoubt::Ask)));
    for source in
        [EvidenceSource::ToolObservation, EvidenceSource::UserReply, EvidenceSource::Probe]
    {
        let mut receipts = changed_tests("w");
        receipts.push(EvidenceReceipt { source, ..answer(&digest, true) });
        let asked = judged("user", &receipts, rules(InDoubt::Ask));
        assert!(asked.question.is_some(), "{source:?}");
    }
}
