use super::*;
use crate::domain::json::{Value, parse};
use crate::domain::problem::{Code, Problem};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn read(text: &str, author: Author) -> Result<Vec<AcceptCheck>, Problem> {
    read_checks(&parse(text).unwrap().value, "verify", author).map(|(checks, _)| checks)
}

fn owner(text: &str, author: Author) -> Result<Owner, Code> {
    read(text, author).map(|checks| checks[0].owner).map_err(|problem| problem.code)
}

#[test]
fn a_text_of_a_user_is_a_command_or_a_file_or_is_refused() {
    for (text, expected) in [
        ("sh test.sh", Some(CheckKind::CommandSuccess)),
        ("CI=1 npx jest", Some(CheckKind::CommandSuccess)),
        ("./test.sh", Some(CheckKind::CommandSuccess)),
        ("bin/check", Some(CheckKind::CommandSuccess)),
        ("/opt/tool --version", Some(CheckKind::CommandSuccess)),
        ("tools/check.py --all", Some(CheckKind::CommandSuccess)),
        ("just", Some(CheckKind::CommandSuccess)),
        ("src/app.py", Some(CheckKind::FileExists)),
        ("./Makefile", Some(CheckKind::FileExists)),
        ("CHANGELOG.md", Some(CheckKind::FileExists)),
        ("the tests pass", None),
        ("scripts/test", None),
        ("tools/check.sh", None),
        ("test.sh", None),
        ("./run_tests.py", None),
        ("ci/verify", None),
        ("docs/CHANGES", Some(CheckKind::FileExists)),
        (".github/workflows", None),
        ("config/.env", Some(CheckKind::FileExists)),
        ("dist/*", Some(CheckKind::FileExists)),
        ("docs/", Some(CheckKind::FileExists)),
        ("tests/test_new.py", Some(CheckKind::FileExists)),
        ("http://x/y z", None),
    ] {
        let value = Value::String(text.to_owned());
        for author in [Author::Submitter, Author::Operator] {
            let read = read_checks(&value, "verify", author);
            match (&expected, read) {
                (Some(kind), Ok((checks, _))) => assert_eq!(checks[0].kind, *kind, "{text}"),
                (None, Err(problem)) => {
                    assert_eq!(problem.code, Code::CheckUnreadable, "{text}");
                    assert!(problem.message.contains(text), "{problem:?}");
                }
                (_, read) => panic!("{text}: {read:?}"),
            }
        }
        let (checks, _) = read_checks(&value, "verify", Author::Model).unwrap();
        assert_eq!(checks.len(), 1);
    }
}

#[test]
fn bounds_of_tests_that_do_not_read_are_refused_in_texts_too() {
    for (params, expected) in [
        (r#"{"min_tests": 10, "max_skipped": "0"}"#, None),
        (r#"{"min_tests": "ten"}"#, Some("verify[0].params.min_tests")),
        (r#"{"min_tests": 5.5}"#, Some("verify[0].params.min_tests")),
        (r#"{"max_skipped": -1}"#, Some("verify[0].params.max_skipped")),
    ] {
        let text =
            format!(r#"[{{"kind": "command_success", "target": "make", "params": {params}}}]"#);
        for author in [Author::Submitter, Author::Model] {
            let refused = read(&text, author).err();
            let said = refused.as_ref().map(|it| (it.code, it.field.as_deref().unwrap_or("")));
            assert_eq!(said, expected.map(|field| (Code::TypeMismatch, field)), "{params}");
        }
    }
}

#[test]
fn a_script_of_a_shell_that_may_be_either_is_refused_with_the_line_that_runs_it() {
    let refused = |text: &str| {
        let value = Value::String(text.to_owned());
        read_checks(&value, "verify", Author::Submitter).unwrap_err().message
    };
    assert!(refused("tools/check.sh").contains(r#""sh tools/check.sh" to run it"#));
    assert!(!refused("scripts/test").contains("to run it"));
}

#[test]
fn only_an_operator_writes_checks_for_the_operator() {
    use Author::{Model, Operator, Service, Submitter};
    let check = |owner: &str| format!(r#"{{"kind":"output_only","owner":{owner}}}"#);
    let refused = Err(Code::TypeMismatch);
    for (written, author, read) in [
        (r#""operator""#, Model, Ok(Owner::Plan)),
        (r#"{"x":1}"#, Model, Ok(Owner::Plan)),
        (r#""operator""#, Submitter, refused),
        (r#""user""#, Submitter, Ok(Owner::User)),
        (r#""plan""#, Submitter, Ok(Owner::Plan)),
        ("null", Submitter, Ok(Owner::User)),
        (r#""team""#, Submitter, refused),
        (r#""operator""#, Operator, Ok(Owner::Operator)),
        (r#""user""#, Operator, Ok(Owner::User)),
        ("null", Operator, Ok(Owner::Operator)),
        (r#""operator""#, Service, Ok(Owner::Operator)),
        ("null", Service, Ok(Owner::Plan)),
        ("7", Service, refused),
    ] {
        assert_eq!(owner(&check(written), author), read, "{written} {author:?}");
    }
    assert_eq!(owner(r#""make""#, Submitter), Ok(Owner::User));
    assert_eq!(owner(r#""make""#, Model), Ok(Owner::Plan));
}

#[test]
fn a_wrong_type_is_told_before_a_rule_that_an_earlier_check_breaks() {
    let text = r#"[{"kind":""},{"kind":"output_only","params":{"甲":null}}]"#;
    let problem = read(text, Author::Model).unwrap_err();
    assert_eq!(problem.code, Code::TypeMismatch);
    assert_eq!(problem.field.as_deref(), Some("verify[1].params.甲"));
}

#[test]
fn of_params_that_are_the_same_once_trimmed_the_exact_one_wins_else_the_last() {
    let text = r#"{"kind":"k","params":{"tool":"a"," tool":"b","scope ":"c"," scope":"d"}}"#;
    let checks = read(text, Author::Model).unwrap();
    let param = |key: &str| checks[0].params.get(key).map(String::as_str);
    assert_eq!((param("tool"), param("scope")), (Some("a"), Some("d")));
}

#[test]
fn a_hundred_thousand_checks_are_read_in_good_time() {
    let many: Vec<String> = (0..100_000).map(|at| format!("\"检查 {at}\"")).collect();
    let checks = read(&format!("[{}]", many.join(",")), Author::Model).unwrap();
    assert_eq!(checks.len(), 100_000);
}

fn loose_check() -> impl Strategy<Value = AcceptCheck> {
    let loose = "[ aAİß\t\u{3000}s.]{0,5}";
    let kind = prop_oneof![loose.prop_map(String::from), Just(" Command".to_owned())];
    let key = prop_oneof![Just(" contains ".to_owned()), loose.prop_map(String::from)];
    (loose, kind, loose, any::<bool>(), btree_map(key, loose, 0..4)).prop_map(
        |(id, kind, target, required, params)| AcceptCheck {
            id,
            kind: CheckKind::from_text(&kind),
            target,
            r#match: Match::Exact,
            required,
            params,
            owner: Owner::User,
            overlay: Overlay::default(),
        },
    )
}

proptest! {
    #[test]
    fn normalising_checks_twice_is_once(checks in vec(loose_check(), 0..6)) {
        let (once, _) = normalise_checks(checks, "verify");
        let (twice, dropped) = normalise_checks(once.clone(), "verify");
        prop_assert_eq!(once, twice);
        prop_assert_eq!(dropped, []);
    }

    #[test]
    fn what_was_written_reads_as_the_same_checks(checks in vec(loose_check(), 0..6)) {
        let (checks, _) = normalise_checks(checks, "verify");
        let written = Value::Array(checks.iter().map(AcceptCheck::to_json).collect());
        let read = scan_checks(&written, "verify", Author::Service).unwrap();
        prop_assert_eq!(read.checks, checks);
    }

    #[test]
    fn a_line_of_text_is_one_valid_check_that_keeps_its_text(line in "[a-z A-Z./中。=-]{0,24}") {
        let read = scan_checks(&Value::String(line.clone()), "verify", Author::Model).unwrap();
        prop_assert!(read.refused.is_none());
        let targets: Vec<&str> = read.checks.iter().map(|check| check.target.as_str()).collect();
        let kept = Some(line.trim()).filter(|line| !line.is_empty());
        prop_assert_eq!(targets, kept.into_iter().collect::<Vec<_>>());
    }
}
