use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

use super::*;
use surety_common::wire::v1;

fn refused(text: &str) -> String {
    read_plan_file(text, Path::new(""), None).expect_err("a refusal").to_text()
}

fn plan_of(text: &str) -> String {
    read_plan_file(text, Path::new(""), None).expect("a plan file").plan_text.expect("a plan")
}

#[test]
fn the_examples_are_plan_files_that_the_planner_accepts() {
    use surety_common::domain::check::Author;
    for text in [
        include_str!("../../../../examples/repair/plan.yaml"),
        include_str!("../../../../examples/liar/plan.yaml"),
    ] {
        let plan = plan_of(text);
        let (plan, warnings) =
            surety_planner::plan::parse_plan(&plan, Author::Submitter, 12).expect("a plan");
        assert!(warnings.is_empty() && plan.verify.len() == 4, "{warnings:?}");
    }
    let liar =
        read_plan_file(include_str!("../../../../examples/liar/plan.yaml"), Path::new(""), None)
            .unwrap();
    assert_eq!(liar.limits.unwrap().max_repairs, Some(1));
    let policy = liar.policy.unwrap();
    assert_eq!(policy.verify_commands(), v1::VerifyCommands::Runner);
    assert_eq!(policy.repeatable_commands, ["cargo test"]);
}

#[test]
fn numbers_keep_their_spelling() {
    let cases = [
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
        "1.10",
        "1e400",
        "0.1000000000000000055511151231257827",
        "-0",
    ];
    for number in cases {
        for text in [
            format!("title: {number}\n"),
            format!("title: {number} # why\n"),
            format!("{{title: {number}}}"),
            format!("{{\"title\": {number}}}"),
        ] {
            assert_eq!(plan_of(&text), format!("{{\"title\":{number}}}"), "{text}");
        }
    }
    let nested = plan_of(
        "title: t\nsteps: [{id: 12345678901234567890123, evidence: &a 1.50, done_when: *a}]\n",
    );
    assert_eq!(
        nested,
        r#"{"title":"t","steps":[{"id":12345678901234567890123,"evidence":1.50,"done_when":1.50}]}"#
    );
}

#[test]
fn spellings_that_json_does_not_have_become_ones_that_it_has() {
    assert_eq!(plan_of("title: 0x1f"), r#"{"title":31}"#);
    assert_eq!(plan_of("title: +1"), r#"{"title":1}"#);
    assert!(refused("title: .inf").contains("JSON does not have"));
}

#[test]
fn words_stay_words() {
    let plan = plan_of("title: no\nsteps: ['1', \"true\", on, ~, true]\n");
    assert_eq!(plan, r#"{"title":"no","steps":["1","true","on",null,true]}"#);
}

#[test]
fn a_goal_alone_is_no_plan() {
    let plan_file = read_plan_file(
        "goal: Make it so.\nlabels: {team: a, build: 17}\ndriver: model",
        Path::new(""),
        None,
    )
    .unwrap();
    assert_eq!(plan_file.goal, "Make it so.");
    assert_eq!(plan_file.plan_text, None);
    assert_eq!(plan_file.driver, v1::Driver::Model);
    let labels = [("team", "a"), ("build", "17")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(plan_file.labels, labels);
}

#[test]
fn a_path_alone_is_what_stands_there_in_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("work");
    std::fs::create_dir_all(workspace.join("scripts")).unwrap();
    for (name, mode, text) in
        [("test", 0o755, "#!/bin/sh\n"), ("data", 0o644, "1\n"), ("lost", 0o644, "#!/bin/sh\n")]
    {
        let path = workspace.join("scripts").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let checks = r#"verify: [scripts/test, scripts/data, scripts/lost, scripts/none]"#;
    let own = format!("title: t\n{checks}\nworkspace: work\nsteps: [{{id: a, {checks}}}]");
    let other = own.replace("workspace: work\n", "");
    let expected = r#"[{"kind":"command_success","target":"scripts/test"},{"kind":"file_exists","target":"scripts/data"},"scripts/lost","scripts/none"]"#;
    for (text, named) in [(&own, None), (&other, Some(workspace.as_path()))] {
        let plan = read_plan_file(text, folder.path(), named).unwrap().plan_text.unwrap();
        assert_eq!(plan.matches(expected).count(), 2, "{plan}");
    }
    let unseen = read_plan_file(&other, folder.path(), None).unwrap().plan_text.unwrap();
    assert!(unseen.contains(r#"["scripts/test","scripts/data","scripts/lost""#), "{unseen}");
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let cases = [
        ("tittle: t", "`tittle`", "`title`"),
        ("title: t\nVerify: []", "`Verify`", "`verify`"),
        ("limits: {max_repair: 1}", "`limits.max_repair`", "`max_repairs`"),
        ("policy: {on_budgets: fail}", "`policy.on_budgets`", "`on_budget`"),
        ("verify: [{kind: file_exists, requred: false}]", "`verify[0].requred`", "`required`"),
        ("steps: [{id: a, done_whn: x}]", "`steps[0].done_whn`", "`done_when`"),
        ("steps: [{id: a, verify: [make, {targt: b}]}]", "verify[1].targt`", "`target`"),
        (
            "steps: [{id: a, script: [{name: noop}, {name: noop, argumnts: {}}]}]",
            "`steps[0].script[1].argumnts`",
            "`arguments`",
        ),
        (
            "verify: [{kind: command_success, target: make, params: {min_test: 3}}]",
            "`verify[0].params.min_test`",
            "`min_tests`",
        ),
        (
            "verify: [{kind: file_exists, target: a, params: {Type: file}}]",
            "`verify[0].params.Type`",
            "`type`",
        ),
    ];
    for (text, key, near) in cases {
        let said = refused(text);
        assert!(said.starts_with("error[unknown_key]"), "{said}");
        assert!(said.contains(key) && said.contains(near), "{said}");
    }
    assert!(!refused("zzzzzz: t").contains("Did you mean"));
}

#[test]
fn an_invalid_value_is_named_with_the_expected_form() {
    let cases = [
        ("limits: {max_repairs: -1}", "limits.max_repairs"),
        ("limits: {max_repairs: 1.5}", "whole number"),
        ("limits: {max_repairs: 99999999999}", "0 to 4294967295"),
        ("limits: []", "keys and values"),
        ("policy: {verify_commands: runer}", "did you mean runner?"),
        ("policy: {repeatable_commands: [1]}", "repeatable_commands[0]"),
        ("labels: {a: [1]}", "labels.a"),
        ("driver: robot", "script, model, remote"),
        ("verify: [{kind: comand, target: make}]", "Known are output_only"),
        ("verify: [{kind: expression, target: \"1 +\"}]", "verify[0].target"),
        (
            "steps: [{id: a, verify: {kind: expression, target: \"(\"}}]",
            "steps[0].verify[0].target",
        ),
        ("goal: [1]", "a text"),
    ];
    for (text, expected) in cases {
        let said = refused(text);
        assert!(said.starts_with("error[value_invalid]"), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn verification_commands_are_a_part_of_the_policy() {
    let tools = "tools: {verify: {lint: [make, lint], types: {command: [tsc], timeout: 5m}}}";
    for text in [
        format!("goal: g\npolicy: {{in_doubt: ask}}\n{tools}"),
        format!("goal: g\n{tools}\npolicy: {{in_doubt: ask}}"),
    ] {
        let policy = read_plan_file(&text, Path::new(""), None).unwrap().policy.unwrap();
        assert_eq!(policy.in_doubt(), v1::InDoubt::Ask);
        let [lint, types] = policy.verify_tools.as_slice() else { panic!("{policy:?}") };
        assert_eq!(
            (lint.name.as_str(), lint.argv.as_slice()),
            ("lint", &["make", "lint"].map(str::to_owned)[..])
        );
        assert_eq!((types.name.as_str(), types.timeout.unwrap().seconds), ("types", 300));
    }
    for (text, expected) in [
        ("tools: {lint: [make]}", "`tools.lint`"),
        ("tools: {verify: {lint: make lint}}", "tools.verify.lint"),
        ("tools: {verify: {lint: {argv: [make]}}}", "`tools.verify.lint.argv`"),
    ] {
        let said = refused(text);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn invalid_yaml_is_refused_with_its_line() {
    let cases = [
        ("title: t\n  bad: [", "line 2"),
        ("- a\n- b", "no keys and values"),
        ("", "no keys and values"),
        ("title: a\ntitle: b", "title"),
        ("{\"title\": \"a\", \"title\": \"b\"}", "twice"),
    ];
    for (text, expected) in cases {
        let said = refused(text);
        assert!(said.starts_with("error[order_unreadable]"), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

proptest! {
    #[test]
    fn no_text_can_panic_the_reader(text in ".{0,200}") {
        read_plan_file(&text, Path::new(""), None).ok();
    }

    #[test]
    fn json_and_yaml_are_read_alike(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?", word in "[a-z ]{1,20}") {
        let word = format!("w{word}");
        let yaml = format!("title: {word:?}\nsteps:\n  - description: {number}\n");
        let json = format!("{{\"title\": {word:?}, \"steps\": [{{\"description\": {number}}}]}}");
        prop_assert_eq!(plan_of(&yaml), plan_of(&json));
    }
}

#[test]
fn a_goal_with_checks_is_no_plan_where_a_participant_makes_one() {
    let read = |driver: &str, more: &str| {
        let text = format!("goal: tests pass\nverify: [make test]\ndriver: {driver}\n{more}");
        read_plan_file(&text, Path::new(""), None).expect("a plan file")
    };
    for driver in ["model", "remote"] {
        let file = read(driver, "");
        assert_eq!((file.plan_text, file.verify.len()), (None, 1), "{driver}");
        assert_eq!(file.goal, "tests pass");
        let file = read(driver, "title: t\nsteps: [{id: a, description: a}]\n");
        assert!(file.plan_text.is_some() && file.verify.is_empty(), "{driver}");
    }
    assert!(read("script", "").plan_text.is_some());
}
