use super::*;
use proptest::prelude::*;
use std::time::Duration;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::{Author, read_checks};
use surety_common::domain::check_inputs::{facts_of_compared, facts_of_overwritten};
use surety_common::domain::json::parse;
use surety_common::domain::receipt::{CheckProbe, EvidenceSource, Fact, Inputs, read_receipt};
use surety_common::domain::tests_named::{facts_of_gone, gone_in};
use surety_common::domain::tests_seen::Counts;

/// Enough for any machine: the tests check the outcome, not the speed.
const PLENTY: Allowance =
    Allowance { processor: Duration::from_secs(60), patience: Duration::from_secs(600) };

fn checks(text: &str) -> Vec<AcceptCheck> {
    let value = parse(text).unwrap().value;
    read_checks(&value, "checks", Author::Service).unwrap().0
}

fn receipt(fact: &str) -> EvidenceReceipt {
    let text = format!(
        r#"{{"step_index": 0, "source": "tool_observation", "success": true, "facts": [{fact}]}}"#
    );
    read_receipt(&parse(&text).unwrap().value).unwrap()
}

fn todo(id: &str, status: TodoStatus, created_s: Option<i64>) -> Todo {
    Todo {
        id: id.to_owned(),
        content: String::new(),
        required: true,
        status,
        dependencies: Vec::new(),
        replaces: Vec::new(),
        created_at: created_s.and_then(|seconds| DateTime::from_timestamp(seconds, 0)),
    }
}

fn verdict(checks: &[AcceptCheck], receipts: &[EvidenceReceipt], todos: &[Todo]) -> Verdict {
    let input = Evaluation {
        workspace_root: "/srv/p",
        checks,
        receipts,
        final_text: "done",
        todos,
        plan_made_at: DateTime::from_timestamp(100, 0),
        answers: &BTreeMap::new(),
        project_tests: None,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    };
    evaluate_within(&input, PLENTY).unwrap()
}

#[test]
fn the_projects_own_tests_are_a_required_result_unless_they_were_skipped() {
    let result = |project_tests| {
        let input = Evaluation {
            workspace_root: "/srv/p",
            checks: &[],
            receipts: &[],
            final_text: "done",
            todos: &[],
            plan_made_at: None,
            answers: &BTreeMap::new(),
            project_tests,
            round: None,
            require_independent: false,
            cautions: CautionRules::default(),
            authored_text: None,
        };
        let found = evaluate(&input).unwrap();
        let name = "system.project_tests";
        let result = found.results.into_iter().find(|result| result.name == name);
        (found.accepted, result.map(|result| (result.passed, result.reason, result.optional)))
    };
    let failed = |reason: &str| (false, Some((false, reason.to_owned(), false)));
    assert_eq!(result(None), (true, None));
    assert_eq!(result(Some(ProjectTests::Skipped)), (true, None));
    assert_eq!(result(Some(ProjectTests::Passed)), (true, Some((true, String::new(), false))));
    assert_eq!(result(Some(ProjectTests::Failed)), failed("project_tests_failed"));
    assert_eq!(result(Some(ProjectTests::NotRun)), failed("project_tests_not_run"));
}

/// A probe of round 1 whose command ended with this code, and what its runners reported.
fn probe(check_id: &str, exit_code: i32, tests: &[(&str, [u64; 3])]) -> EvidenceReceipt {
    let mut receipt = receipt(&format!(
        r#"{{"fact": "command", "command_line": "make test", "exit_code": {exit_code}}}"#
    ));
    let fact = |(runner, [ran, skipped, missing]): &(&str, [u64; 3])| Fact::Tests {
        runner: (*runner).to_owned(),
        counts: Counts { ran: *ran, failed: 0, skipped: *skipped, missing: *missing },
    };
    receipt.facts.extend(tests.iter().map(fact));
    receipt.source = EvidenceSource::Probe;
    receipt.success = exit_code == 0;
    receipt.probe_of =
        Some(CheckProbe { check_id: check_id.to_owned(), round: 1, ..CheckProbe::default() });
    receipt
}

/// Whether a run with these receipts is accepted, the failed results' reasons, and the cautions.
fn judged(
    checks: &[AcceptCheck],
    receipts: &[EvidenceReceipt],
    project_tests: Option<ProjectTests>,
) -> (bool, String, String) {
    let input = Evaluation {
        workspace_root: "/srv/p",
        checks,
        receipts,
        final_text: "done",
        todos: &[],
        plan_made_at: None,
        answers: &BTreeMap::new(),
        project_tests,
        round: Some(1),
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    };
    let found = evaluate(&input).unwrap();
    let failed = found.results.iter().filter(|result| !result.passed);
    let reasons: Vec<_> = failed.map(|result| result.reason.split(':').next().unwrap()).collect();
    let cautions: Vec<_> = found.cautions.iter().map(|caution| caution.code.as_str()).collect();
    (found.accepted, reasons.join(" "), cautions.join(" "))
}

#[test]
fn an_exit_code_of_0_without_tests_is_refused_for_checks_of_users_and_operators() {
    let none = "no_tests_seen";
    for (owner, params, exit_code, tests, expected) in [
        ("user", "{}", 0, &[][..], (true, "", "")),
        ("user", "{}", 0, &[("pytest", [3, 1, 0])], (true, "", "")),
        ("user", "{}", 0, &[("pytest", [0, 2, 0])], (false, none, none)),
        ("operator", "{}", 0, &[("pytest", [0, 0, 0])], (false, none, none)),
        ("plan", "{}", 0, &[("pytest", [0, 0, 0])], (true, "", none)),
        ("user", "{}", 0, &[("pytest", [1, 0, 4])], (false, "tests_missing", "tests_missing")),
        (
            "user",
            "{}",
            0,
            &[("pytest", [1, 0, 0]), ("cargo test", [0, 0, 2])],
            (false, none, "no_tests_seen tests_missing"),
        ),
        ("user", "{}", 1, &[("pytest", [0, 0, 0])], (false, "no_successful_command", "")),
        ("user", r#"{"min_tests": "3"}"#, 0, &[("pytest", [3, 0, 0])], (true, "", "")),
        (
            "plan",
            r#"{"min_tests": "4"}"#,
            0,
            &[("pytest", [3, 0, 0])],
            (false, "too_few_tests", ""),
        ),
        ("user", r#"{"min_tests": "1"}"#, 0, &[], (false, "tests_not_counted", "")),
        ("user", r#"{"max_skipped": "1"}"#, 0, &[("pytest", [3, 1, 0])], (true, "", "")),
        (
            "user",
            r#"{"max_skipped": "1"}"#,
            0,
            &[("pytest", [3, 1, 0]), ("jest", [3, 1, 0])],
            (false, "too_many_skipped", ""),
        ),
    ] {
        let text = format!(
            r#"[{{"id": "t", "kind": "command_success", "target": "make test",
                "owner": "{owner}", "params": {params}}}]"#
        );
        let found = judged(&checks(&text), &[probe("t", exit_code, tests)], None);
        let expected = (expected.0, expected.1.to_owned(), expected.2.to_owned());
        assert_eq!(found, expected, "{owner} {params} {exit_code} {tests:?}");
    }
}

#[test]
fn a_project_without_tests_is_in_order_and_one_whose_tests_vanish_is_not() {
    for (counts, expected) in [
        ([2, 0, 0], (true, "", "")),
        ([0, 0, 0], (true, "", "no_tests_seen")),
        ([0, 0, 3], (false, "tests_missing", "no_tests_seen tests_missing")),
    ] {
        let probe = probe("system.project_tests", 0, &[("cargo test", counts)]);
        let plan = checks(r#"[{"kind": "output_only", "owner": "plan"}]"#);
        let found = judged(&plan, &[probe], Some(ProjectTests::Passed));
        assert_eq!(found, (expected.0, expected.1.to_owned(), expected.2.to_owned()), "{counts:?}");
    }
}

#[test]
fn tests_of_the_start_that_did_not_run_refuse_a_check_that_holds() {
    let of_user =
        r#"[{"id": "t", "kind": "command_success", "target": "make test", "owner": "user"}]"#;
    let run = |inputs, facts: Vec<Fact>| {
        let mut receipt = probe("t", 0, &[("unittest", [3, 0, 0])]);
        receipt.probe_of = Some(CheckProbe { check_id: "t".to_owned(), round: 1, inputs });
        receipt.facts.extend(facts);
        receipt
    };
    let at_start = |gone: &[&str]| EvidenceReceipt {
        facts: facts_of_gone(gone),
        ..run(Inputs::TestsAtStart, Vec::new())
    };
    let missing = "tests_missing";
    for (receipts, expected) in [
        (vec![run(Inputs::Original, vec![]), at_start(&[])], (true, "", "")),
        (vec![run(Inputs::Original, vec![]), at_start(&["a.T.test_x"])], (false, missing, missing)),
        // Changed tests that hold are shown with what they no longer run.
        (
            vec![
                run(Inputs::Original, vec![]),
                run(Inputs::AsLeft, facts_of_gone(&["a.T.test_x"])),
            ],
            (true, "", missing),
        ),
    ] {
        let found = judged(&checks(of_user), &receipts, None);
        assert_eq!(found, (expected.0, expected.1.to_owned(), expected.2.to_owned()));
    }
    let names: Vec<String> = (0..5).map(|at| format!("t{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let said = gone_in(&at_start(&names)).unwrap().to_string();
    assert_eq!(said, "5 tests of the start did not run: `t0`, `t1`, `t2` and 2 more");
}

#[test]
fn a_command_that_writes_its_own_check_inputs_is_refused_unless_it_does_so_at_the_start() {
    let of_user =
        r#"[{"id": "t", "kind": "command_success", "target": "make test", "owner": "user"}]"#;
    let written = |paths: &[&str]| facts_of_overwritten(paths.iter().map(ToString::to_string));
    let run = |inputs, facts: Vec<Fact>| {
        let mut receipt = probe("t", 0, &[("unittest", [3, 0, 0])]);
        receipt.probe_of = Some(CheckProbe { check_id: "t".to_owned(), round: 1, inputs });
        receipt.facts.extend(facts);
        receipt
    };
    let at_start = |paths: &[&str]| EvidenceReceipt {
        facts: facts_of_compared(written(paths)),
        ..run(Inputs::TestsAtStart, Vec::new())
    };
    let changed = "check_inputs_changed";
    for (receipts, expected) in [
        (
            vec![run(Inputs::Original, written(&["test.sh"])), at_start(&["test.sh"])],
            (true, "", ""),
        ),
        (
            vec![run(Inputs::Original, written(&["test.sh"])), at_start(&[])],
            (false, changed, changed),
        ),
        // The start could not be made again.
        (vec![run(Inputs::Original, written(&["test.sh"]))], (true, "", changed)),
    ] {
        let found = judged(&checks(of_user), &receipts, None);
        assert_eq!(found, (expected.0, expected.1.to_owned(), expected.2.to_owned()));
    }
}

#[test]
fn todos_from_before_the_plan_are_not_its_own() {
    use TodoStatus::{Cancelled, Failed, Pending};
    for (status, created_s, wanted) in [
        (Pending, None, StopReason::TodoNotConverged),
        (Pending, Some(99), StopReason::Accepted),
        (Pending, Some(100), StopReason::TodoNotConverged),
        (Failed, Some(101), StopReason::RequiredTodoFailed),
        (Failed, Some(0), StopReason::Accepted),
        (Cancelled, Some(101), StopReason::Accepted),
    ] {
        let found = verdict(&[], &[], &[todo("t1", status, created_s)]);
        assert_eq!(found.stop_reason, wanted, "{status:?} {created_s:?}");
    }
}

#[test]
fn an_expression_is_decided_over_the_facts() {
    let receipts = [receipt(r#"{"fact": "output", "key": "coverage", "value": "91"}"#)];
    for (expression, reason) in [
        ("facts.exists(f, f.key == 'coverage' && int(f.value) > 90)", ""),
        ("facts.exists(f, f.key == 'coverage' && int(f.value) > 95)", "expression_false"),
        ("facts.size()", "expression_not_bool"),
        ("facts.", "expression_invalid"),
    ] {
        let mut check = checks(r#"[{"kind": "expression", "target": "x"}]"#);
        check[0].target = expression.to_owned();
        let found = verdict(&check, &receipts, &[]);
        assert_eq!(found.results[2].reason, reason, "{expression}");
        assert_eq!(found.accepted, reason.is_empty());
    }
}

#[test]
fn checks_that_receipts_cannot_decide_use_their_answer_or_fail() {
    let checks = checks(
        r#"[{"kind": "http_probe", "target": "a"}, {"kind": "action_report", "target": "b"},
            {"kind": "file_exists", "target": "a"}]"#,
    );
    let answered = |answers: &BTreeMap<usize, Answer>| {
        let found = evaluate(&Evaluation {
            workspace_root: "/srv/p",
            checks: &checks,
            receipts: &[],
            final_text: "done",
            todos: &[],
            plan_made_at: None,
            answers,
            project_tests: None,
            round: None,
            require_independent: false,
            cautions: CautionRules::default(),
            authored_text: None,
        });
        let reasons = found.unwrap().results.into_iter().skip(2).map(|result| result.reason);
        reasons.collect::<Vec<_>>()
    };
    let none = ["probe_no_answer", "no_action", "no_file_evidence"];
    assert_eq!(answered(&BTreeMap::new()), none);
    let answers = BTreeMap::from([(0, Ok(())), (1, Err("report_missing")), (2, Ok(()))]);
    assert_eq!(answered(&answers), ["", "report_missing", "no_file_evidence"]);
}

/// Checks, each with the one fact that proves it. The write always comes first, because it makes an
/// earlier command stale.
const PROVED: [(&str, &str); 6] = [
    (
        r#"{"kind": "workspace_change"}"#,
        r#"{"fact": "file_written", "path": "w", "after_digest": "d1"}"#,
    ),
    (
        r#"{"kind": "command_success", "target": "cargo test"}"#,
        r#"{"fact": "command", "command_line": "cargo test --all", "exit_code": 0}"#,
    ),
    (
        r#"{"kind": "file_exists", "target": "out/a"}"#,
        r#"{"fact": "file_observed", "path": "out/a", "exists": true}"#,
    ),
    (
        r#"{"kind": "content_contains", "target": "b", "params": {"contains": "x"}}"#,
        r#"{"fact": "content", "path": "b", "contains": "x", "found": true}"#,
    ),
    (
        r#"{"kind": "tool_fact", "params": {"tool": "lint", "scope": "all"}}"#,
        r#"{"fact": "verification", "tool": "lint", "scope": "all", "passed": true}"#,
    ),
    (
        r#"{"kind": "expression", "target": "facts.exists(f, f.fact == 'output' && f.key == 'k')"}"#,
        r#"{"fact": "output", "key": "k", "value": "v"}"#,
    ),
];

/// Facts that none of those checks depends on.
const UNRELATED: [&str; 12] = [
    r#"{"fact": "file_written", "path": "/tmp/x"}"#,
    r#"{"fact": "file_written", "path": "../q/x", "before_digest": "d1", "after_digest": "d2"}"#,
    r#"{"fact": "file_written", "path": "same", "before_digest": "d1", "after_digest": "d1"}"#,
    r#"{"fact": "file_observed", "path": "out/A", "exists": true}"#,
    r#"{"fact": "file_observed", "path": "out/b", "exists": false}"#,
    r#"{"fact": "command", "command_line": "cargo build", "exit_code": 0}"#,
    r#"{"fact": "command", "command_line": "cargo test; true", "exit_code": 1}"#,
    r#"{"fact": "command", "argv": ["echo", "cargo", "test"], "exit_code": 1}"#,
    r#"{"fact": "content", "path": "b", "contains": "y", "found": false}"#,
    r#"{"fact": "content", "path": "c", "contains": "x", "found": true}"#,
    r#"{"fact": "verification", "tool": "lint", "scope": "some", "passed": false}"#,
    r#"{"fact": "output", "key": "other", "value": "v"}"#,
];

fn asked(chosen: &[usize]) -> Vec<AcceptCheck> {
    let texts: Vec<&str> = chosen.iter().map(|at| PROVED[*at].0).collect();
    checks(&format!("[{}]", texts.join(",")))
}

fn proofs(chosen: &[usize]) -> Vec<EvidenceReceipt> {
    let writes_first = chosen.iter().filter(|at| **at == 0);
    let others = chosen.iter().filter(|at| **at != 0);
    writes_first.chain(others).map(|at| receipt(PROVED[*at].1)).collect()
}

fn with_unrelated(
    mut receipts: Vec<EvidenceReceipt>,
    unrelated: &[(usize, prop::sample::Index)],
) -> Vec<EvidenceReceipt> {
    for (which, place) in unrelated {
        let place = place.index(receipts.len() + 1);
        receipts.insert(place, receipt(UNRELATED[*which]));
    }
    receipts
}

fn some_of_them() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::subsequence((0..PROVED.len()).collect::<Vec<_>>(), 1..=PROVED.len())
        .prop_shuffle()
}

fn some_unrelated() -> impl Strategy<Value = Vec<(usize, prop::sample::Index)>> {
    prop::collection::vec((0..UNRELATED.len(), any::<prop::sample::Index>()), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_verdict_without_one_needed_receipt_is_not_accepted(
        chosen in some_of_them(),
        unrelated in some_unrelated(),
    ) {
        let checks = asked(&chosen);
        let needed = proofs(&chosen);
        let all = with_unrelated(needed.clone(), &unrelated);
        prop_assert!(verdict(&checks, &all, &[]).accepted);
        for missing in 0..needed.len() {
            let mut fewer = needed.clone();
            fewer.remove(missing);
            let fewer = with_unrelated(fewer, &unrelated);
            prop_assert!(!verdict(&checks, &fewer, &[]).accepted, "without {:?}", needed[missing]);
        }
    }

    #[test]
    fn a_needed_receipt_of_a_failure_counts_as_missing(chosen in some_of_them(), at in any::<prop::sample::Index>()) {
        // An expression decides itself how failures count.
        prop_assume!(!chosen.contains(&5));
        let mut receipts = proofs(&chosen);
        let at = at.index(receipts.len());
        receipts[at].success = false;
        prop_assert!(!verdict(&asked(&chosen), &receipts, &[]).accepted);
    }

    #[test]
    fn unrelated_receipts_change_no_verdict(
        chosen in some_of_them(),
        proved in prop::collection::vec(0..PROVED.len(), 0..8),
        unrelated in some_unrelated(),
    ) {
        let checks = asked(&chosen);
        let receipts: Vec<_> = proved.iter().map(|at| receipt(PROVED[*at].1)).collect();
        let alone = verdict(&checks, &receipts, &[]);
        prop_assert_eq!(verdict(&checks, &with_unrelated(receipts, &unrelated), &[]), alone);
    }
}
