use super::*;
use crate::domain::json::parse;
use crate::domain::receipt::{EvidenceReceipt, read_receipt};

/// A receipt from the JSON of its facts; `also` adds members, such as a call's name.
fn receipt(facts: &str, also: &str) -> EvidenceReceipt {
    let text = format!(
        r#"{{"step_index": 0, "source": "tool_observation", "success": true, {also} "facts": [{facts}]}}"#
    );
    read_receipt(&parse(&text).unwrap().value).unwrap()
}

fn check(kind: &str, target: &str, params: &[(&str, &str)]) -> AcceptCheck {
    AcceptCheck {
        id: String::new(),
        kind: CheckKind::from_text(kind),
        target: target.to_owned(),
        r#match: Match::Prefix,
        required: true,
        params: params
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        owner: Owner::Plan,
        overlay: Overlay::default(),
    }
}

fn outcome(check: &AcceptCheck, receipts: &[EvidenceReceipt]) -> Result<(), Reason> {
    evaluate(check, &Evidence::new("/srv/p", receipts, "done"))
}

const RAN: &str = r#"{"fact": "command", "command_line": "cargo test", "exit_code": 0}"#;
const FAILED: &str = r#"{"fact": "command", "command_line": "cargo test", "exit_code": 1}"#;
const WROTE: &str = r#"{"fact": "file_written", "path": "a.txt"}"#;
const FOUND: &str = r#"{"fact": "content", "path": "a.txt", "contains": "x", "found": true}"#;
const PASSED: &str = r#"{"fact": "verification", "tool": "lint", "scope": "all", "passed": true}"#;

fn ran() -> AcceptCheck {
    check("command_success", "cargo test", &[])
}

fn found() -> AcceptCheck {
    check("content_contains", "a.txt", &[("contains", "x")])
}

#[test]
fn facts_of_one_call_do_not_make_each_other_stale() {
    let both = |proof: &str| format!("{proof}, {WROTE}");
    for (check, proof) in [(ran(), RAN), (found(), FOUND)] {
        let same_receipt = [receipt(&both(proof), "")];
        assert_eq!(outcome(&check, &same_receipt), Ok(()), "one receipt");

        let same_call =
            [receipt(proof, r#""call_id": "c1","#), receipt(WROTE, r#""call_id": "c1","#)];
        assert_eq!(outcome(&check, &same_call), Ok(()), "one call");

        let other_call =
            [receipt(proof, r#""call_id": "c1","#), receipt(WROTE, r#""call_id": "c2","#)];
        assert_eq!(outcome(&check, &other_call), Err(Reason::StaleAfterWrite));

        let unnamed_call = [receipt(proof, r#""call_id": "c1","#), receipt(WROTE, "")];
        assert_eq!(outcome(&check, &unnamed_call), Err(Reason::StaleAfterWrite));

        let one_of_two = [
            receipt(proof, r#""call_id": "c1","#),
            receipt(WROTE, r#""call_id": "c2","#),
            receipt(WROTE, r#""call_id": "c1","#),
        ];
        assert_eq!(outcome(&check, &one_of_two), Err(Reason::StaleAfterWrite));
    }
}

#[test]
fn a_receipt_of_a_failure_proves_nothing() {
    for (check, fact, reason) in [
        (ran(), RAN, Reason::NoSuccessfulCommand),
        (found(), FOUND, Reason::NoContentEvidence),
        (check("workspace_change", "", &[]), WROTE, Reason::NoWorkspaceChange),
        (check("file_exists", "a.txt", &[]), WROTE, Reason::NoFileEvidence),
        (check("file_exists", "a.txt", &[]), FOUND, Reason::NoFileEvidence),
        (check("tool_fact", "all", &[]), PASSED, Reason::NoToolFact),
    ] {
        let mut failed = receipt(fact, "");
        assert_eq!(outcome(&check, std::slice::from_ref(&failed)), Ok(()), "{fact}");
        failed.success = false;
        assert_eq!(outcome(&check, &[failed]), Err(reason), "{fact}");
    }
}

#[test]
fn a_receipt_of_a_failure_still_counts_against_a_check() {
    let gone = r#"{"fact": "file_written", "path": "a.txt", "before_digest": "d1"}"#;
    let lost = r#"{"fact": "content", "path": "a.txt", "contains": "x", "found": false}"#;
    let red = r#"{"fact": "verification", "tool": "lint", "scope": "all", "passed": false}"#;
    for (check, proof, later, reason) in [
        (ran(), RAN, FAILED, Reason::CommandFailedLater),
        (ran(), RAN, WROTE, Reason::StaleAfterWrite),
        (found(), FOUND, WROTE, Reason::StaleAfterWrite),
        (found(), FOUND, lost, Reason::NoContentEvidence),
        (check("file_exists", "a.txt", &[]), FOUND, gone, Reason::FileGone),
        (check("tool_fact", "all", &[]), PASSED, red, Reason::FactFailedLater),
    ] {
        let mut later = receipt(later, "");
        later.success = false;
        assert_eq!(outcome(&check, &[receipt(proof, ""), later]), Err(reason), "{proof}");
    }
}

#[test]
fn a_write_with_only_an_after_digest_is_compared_with_the_last_known_content() {
    let write = |before: &str, after: &str| {
        let member = |key: &str, digest: &str| match digest {
            "" => String::new(),
            digest => format!(r#", "{key}": "{digest}""#),
        };
        let before = member("before_digest", before);
        let after = member("after_digest", after);
        receipt(&format!(r#"{{"fact": "file_written", "path": "a"{before}{after}}}"#), "")
    };
    let changed = check("workspace_change", "", &[]);
    let none = Err(Reason::NoWorkspaceChange);
    for (writes, wanted) in [
        (vec![write("", "d1")], Ok(())),
        (vec![write("d1", "")], Ok(())),
        (vec![write("d1", "d1")], none),
        (vec![write("d1", "d2"), write("", "d1")], none),
        (vec![write("d1", "d2"), write("", "d3")], Ok(())),
        (vec![write("", "d1"), write("d1", "")], none),
        (vec![write("d1", ""), write("", "d1")], none),
        (vec![write("d1", ""), write("", "d2")], Ok(())),
        (vec![write("", ""), write("d1", "d1")], Ok(())),
    ] {
        assert_eq!(outcome(&changed, &writes), wanted, "{writes:?}");
    }

    let stale = Err(Reason::StaleAfterWrite);
    for (earlier, later, wanted) in [
        (write("d1", "d2"), write("", "d2"), Ok(())),
        (write("d1", "d2"), write("", "d3"), stale),
        (write("d1", "d2"), write("d2", "d2"), Ok(())),
        (write("", ""), write("", "d2"), stale),
        (write("d1", "d2"), write("d2", ""), stale),
    ] {
        let receipts = [earlier, receipt(RAN, ""), later];
        assert_eq!(outcome(&ran(), &receipts), wanted, "{receipts:?}");
    }
}

#[test]
fn a_check_without_its_needle_or_with_an_unknown_kind_fails() {
    let receipts = [receipt(FOUND, "")];
    let needless = check("content_contains", "a.txt", &[]);
    assert_eq!(outcome(&needless, &receipts), Err(Reason::NoContentEvidence));
    let unknown = check("expression", "true", &[]);
    assert_eq!(outcome(&unknown, &receipts), Err(Reason::UnknownCheckKind));
}

#[test]
fn a_command_of_a_step_proves_a_check_only_where_and_how_the_check_would_run_it() {
    let none = Err(Reason::NoSuccessfulCommand);
    let line = |text: &str| format!(r#""command_line": "{text}""#);
    let argv = r#""argv": ["make", "test"]"#.to_owned();
    let root = r#""cwd": ".""#;
    for (target, command, conditions, expected) in [
        ("make test", &argv, root, Ok(())),
        ("make test", &argv, r#""cwd": "sub""#, none),
        ("make test", &argv, r#""cwd": ".", "environment": ["A=1"]"#, none),
        ("A=1 make test", &argv, r#""cwd": ".", "environment": ["A=1"]"#, Ok(())),
        ("A=1 make test", &argv, r#""cwd": ".", "environment": ["A=2"]"#, none),
        ("A=1 make test", &argv, root, none),
        ("make test", &line("A=1 make test"), root, none),
        ("A=1 make test", &line("A=1 make test"), root, Ok(())),
        ("make test", &line("true && make test"), root, Ok(())),
        ("make test", &line("cd sub && make test"), root, none),
        ("cd sub && make test", &line("cd sub && make test"), root, Ok(())),
        ("make test", &line("cd sub && make test"), r#""step": 1"#, Ok(())),
        (
            "make test",
            &argv,
            r#""cwd": ".", "workspace_before": "d", "workspace_after": "d""#,
            Ok(()),
        ),
        (
            "make test",
            &argv,
            r#""cwd": ".", "workspace_before": "d", "workspace_after": "e""#,
            Err(Reason::StaleAfterWrite),
        ),
    ] {
        let fact = format!(r#"{{"fact": "command", {command}, "exit_code": 0, {conditions}}}"#);
        let found = outcome(&check("command_success", target, &[]), &[receipt(&fact, "")]);
        assert_eq!(found, expected, "{target}: {fact}");
    }
}

#[test]
fn an_unknown_type_of_file_is_refused() {
    for (file_type, known) in
        [("file", true), ("folder", true), ("link", true), ("any", true), ("socket", false)]
    {
        let asked = check("file_exists", "a", &[("type", file_type)]);
        let answer = validate_check(&asked, "verify[0]");
        assert_eq!(answer.is_ok(), known, "{file_type}");
        if let Err(problem) = answer {
            assert_eq!(problem.field.as_deref(), Some("verify[0].params.type"));
        }
    }
}

#[test]
fn the_probe_of_a_check_says_to_which_file_an_absolute_path_leads() {
    let probe = |check: &str, path: &str, exists: bool| {
        let text = format!(
            r#"{{"step_index": 0, "source": "probe", "success": true, "check_id": "{check}", "round": 1,
                "facts": [{{"fact": "file_observed", "path": "{path}", "exists": {exists}}}]}}"#
        );
        read_receipt(&parse(&text).unwrap().value).unwrap()
    };
    let linked = check("file_exists", "/home/me/link/a.txt", &[]);
    assert_eq!(outcome(&linked, &[probe("c", "a.txt", true)]), Ok(()));
    assert_eq!(outcome(&linked, &[probe("c", "a.txt", false)]), Err(Reason::FileGone));
    let outside = Err(Reason::PathOutsideWorkspace);
    assert_eq!(outcome(&linked, &[probe("c", "/home/me/link/a.txt", true)]), outside);
    assert_eq!(outcome(&linked, &[probe("c", "a.txt", true), probe("d", "a.txt", true)]), outside);
    let observed = r#"{"fact": "file_observed", "path": "a.txt", "exists": true}"#;
    assert_eq!(outcome(&linked, &[receipt(observed, "")]), outside, "a call names no target");
    let above = check("file_exists", "../a.txt", &[]);
    assert_eq!(outcome(&above, &[probe("c", "a.txt", true)]), outside);
}
