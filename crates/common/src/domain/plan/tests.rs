use super::*;
use crate::domain::check::{Author, CheckKind, Match, Owner};
use crate::domain::json::parse;
use crate::domain::todo::{Todo, TodoStatus};
use chrono::{DateTime, Utc};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn plan_of(text: &str) -> Plan {
    let draft = read_plan(&parse(text).unwrap().value, Author::Service).unwrap();
    assert_eq!(draft.refusals, []);
    draft.plan
}

#[test]
fn the_spelling_of_a_plan_does_not_change_its_digest_and_its_content_does() {
    let plan = plan_of(
        r#"{"title":"发布","steps":[{"id":"a","description":"d","script":[{"name":"f","arguments":{"n":1.0,"m":[1e2]}}]}]}"#,
    );
    let same = plan_of(
        r#" {"steps" : [{"script":[{"parameters":{"m":[100],"n":1},"name":" f"}],"status":"done","description":"d ","id":"a"}],"verify":[],"title":"发布"} "#,
    );
    assert_eq!(plan.digest(), same.digest());
    let mut other = plan.clone();
    other.steps[0].evidence = Evidence::None;
    assert_ne!(plan.digest(), other.digest());
    let mut owned = plan_of(
        r#"{"title":"T","steps":[{"id":"a","description":"d"}],"verify":[{"kind":"output_only"}]}"#,
    );
    let before = owned.digest();
    owned.verify[0].owner = Owner::User;
    assert_ne!(before, owned.digest());
}

#[test]
fn a_stored_plan_keeps_its_checks_owners_and_its_todos_progress() {
    let text = r#"{"title":"T","steps":[{"id":"a","description":"d"}],"verify":[{"kind":"output_only","owner":"operator"}],"todos":[{"id":"t","status":"completed","created_at":"2026-01-31T12:00:00Z"}]}"#;
    let plan = plan_of(text);
    assert_eq!(plan.verify[0].owner, Owner::Operator);
    assert_eq!(plan.todos[0].status, TodoStatus::Completed);
    assert!(plan.todos[0].created_at.is_some());
    let fresh = read_plan(&parse(text).unwrap().value, Author::Submitter);
    assert!(fresh.is_err(), "a submitter wrote a check for the operator");
}

#[test]
fn a_stored_plan_with_a_broken_check_is_refused() {
    let text = r#"{"title":"T","steps":[],"verify":[{"kind":"file_exists"}]}"#;
    assert!(Plan::from_json(&parse(text).unwrap().value).is_err());
}

#[test]
fn a_step_has_no_check_that_only_the_gate_decides() {
    let plan = |kind: &str| {
        let check = format!(r#"[{{"kind":"{kind}","target":"size(facts) > 0"}}]"#);
        let text = format!(
            r#"{{"title":"T","steps":[{{"id":"a","description":"d","verify":{check}}}],"verify":{check}}}"#
        );
        read_plan(&parse(&text).unwrap().value, Author::Submitter).unwrap().plan
    };
    for kind in ["expression", "http_probe", "action_report"] {
        let refused = plan(kind).check_kinds().unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("steps[0].verify[0].kind"), "{kind}");
    }
    for kind in ["command_success", "future"] {
        assert!(plan(kind).check_kinds().is_ok(), "{kind}");
    }
}

fn text() -> impl Strategy<Value = String> {
    "[a-z{}\"\\\\中é.]{1,8}"
}

fn check() -> impl Strategy<Value = AcceptCheck> {
    let kind = prop_oneof![Just("output_only"), Just("tool_fact"), Just("future")];
    let by = prop_oneof![Just(Match::Prefix), Just(Match::Exact), Just(Match::Contains)];
    let owner = prop_oneof![Just(Owner::Plan), Just(Owner::User), Just(Owner::Operator)];
    let params = btree_map(text(), text(), 0..3);
    (text(), kind, text(), by, any::<bool>(), params, owner).prop_map(
        |(id, kind, target, by, required, params, owner)| AcceptCheck {
            id,
            kind: CheckKind::from_text(kind),
            target,
            r#match: by,
            required,
            params,
            owner,
            overlay: crate::domain::check::Overlay::default(),
        },
    )
}

/// No two of them are equal, because their targets differ.
fn checks() -> impl Strategy<Value = Vec<AcceptCheck>> {
    vec(check(), 0..3).prop_map(|mut checks| {
        for (at, check) in checks.iter_mut().enumerate() {
            check.target.push_str(&at.to_string());
        }
        checks
    })
}

fn call() -> impl Strategy<Value = ToolCall> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?".prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    (text(), btree_map(text(), value, 0..3)).prop_map(|(name, arguments)| ToolCall {
        name,
        arguments: Value::Object(arguments.into_iter().collect()),
    })
}

fn todo() -> impl Strategy<Value = Todo> {
    let status = (0..6_usize).prop_map(|at| TodoStatus::ALL[at]);
    let moment = proptest::option::of(0..4_000_000_000_i64);
    let others = (vec(text(), 0..2), vec(text(), 0..2));
    (text(), text(), any::<bool>(), status, others, moment).prop_map(
        |(id, content, required, status, (dependencies, replaces), moment)| Todo {
            id,
            content,
            required,
            status,
            dependencies,
            replaces,
            created_at: moment.and_then(|at| DateTime::<Utc>::from_timestamp(at, 0)),
        },
    )
}

fn step() -> impl Strategy<Value = PlanStep> {
    let evidence = prop_oneof![Just(Evidence::Required), Just(Evidence::None)];
    let lists = (vec(text(), 0..1), vec(text(), 0..1), vec("[a-z/*中]{1,6}", 0..1));
    let names = (text(), text(), text());
    let lists = (lists, vec("[a-z*?]{1,6}", 0..1));
    (names, lists, checks(), evidence, vec(call(), 0..3)).prop_map(
        |(
            (id, description, done_when),
            ((dependencies, tools_expected, write_scope), confirm_tools),
            verify,
            evidence,
            script,
        )| {
            PlanStep {
                outputs_expected: dependencies.clone(),
                id,
                description,
                done_when,
                dependencies,
                tools_expected,
                verify,
                evidence,
                script,
                write_scope,
                confirm_tools,
            }
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    (text(), text(), vec(step(), 0..4), checks(), vec(todo(), 0..3))
        .prop_map(|(title, goal, steps, verify, todos)| Plan { title, goal, steps, verify, todos })
}

#[test]
fn expected_outputs_and_a_models_confirm_tools_are_read_whatever_their_type() {
    for (step, outputs, tools) in [
        (r#""outputs_expected": " report.md ""#, vec!["report.md"], vec![]),
        (r#""outputs_expected": " ""#, vec![], vec![]),
        (
            r#""outputs_expected": ["a", null, {"path": "b", "n": 1.0}, 7, "a"]"#,
            vec!["a", r#"{"path":"b","n":1.0}"#, "7"],
            vec![],
        ),
        (r#""outputs_expected": true, "confirm_tools": "bash""#, vec!["true"], vec!["bash"]),
        (
            r#""confirm_tools": ["write_*", "", 5, {"a": 1}, "no blank"]"#,
            vec![],
            vec!["write_*", "5"],
        ),
    ] {
        let text =
            format!(r#"{{"title": "t", "steps": [{{"id": "a", "description": "d", {step}}}]}}"#);
        let value = parse(&text).unwrap().value;
        let plan = read_plan(&value, Author::Model).unwrap().plan;
        assert_eq!(plan.steps[0].outputs_expected, outputs, "{text}");
        assert_eq!(plan.steps[0].confirm_tools, tools, "{text}");
    }
    let text =
        r#"{"title": "t", "steps": [{"id": "a", "description": "d", "confirm_tools": "bash"}]}"#;
    let refused = read_plan(&parse(text).unwrap().value, Author::Submitter).unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("steps[0].confirm_tools"));
}

proptest! {
    #[test]
    fn reading_what_was_written_gives_the_same_plan_and_digest(plan in plan()) {
        let written = plan.to_json();
        for text in [written.to_compact(), written.to_canonical()] {
            let read = Plan::from_json(&parse(&text).unwrap().value).unwrap();
            prop_assert_eq!(read.digest(), plan.digest());
        }
        prop_assert_eq!(Plan::from_json(&written).unwrap(), plan);
    }
}
