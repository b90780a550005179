//! The texts of plans that are to be stored.

use surety_common::domain::fields::{item_path, join};
use surety_common::domain::json::Value;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::text::{MAX_GOAL, check_text as check_length};

/// The arguments of scripted calls: what they hold is for the tool to judge.
const ARGUMENTS: &str = "arguments";

/// The longest title of a plan, in bytes.
const MAX_TITLE: usize = 2000;
/// The longest id of a step, in bytes: questions, lists and traces name steps by it.
pub(super) const MAX_STEP_ID: usize = 200;
/// The largest plan without its overlays, in bytes: twice the longest text of one, which patches may exceed.
const MAX_PLAN: usize = 2 << 20;

/// A place in a plan that has a text to be refused.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn path(self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(object, key) => join(&object.path(), key),
            Self::Item(list, at) => item_path(&list.path(), at),
        }
    }
}

/// Refuses a plan with a text that is too long or cannot be stored, and one with a write scope in which no path of the
/// workspace can lie, or with a check whose globs do not read.
///
/// # Errors
/// `too_large` and `type_mismatch` with the path of the text.
pub(super) fn check_plan_texts(plan: &Plan) -> Result<(), Problem> {
    check_size(plan)?;
    if plan.has_text(|text| !is_storable(text)) {
        check(&plan.to_json(), Place::Root)?;
    }
    check_write_scopes(plan)?;
    plan.check_kinds()?;
    plan.check_globs()
}

fn check_size(plan: &Plan) -> Result<(), Problem> {
    check_length("title", &plan.title, MAX_TITLE)?;
    check_length("goal", &plan.goal, MAX_GOAL)?;
    for (at, step) in plan.steps.iter().enumerate() {
        check_length(&format!("{}.id", item_path("steps", at)), &step.id, MAX_STEP_ID)?;
    }
    let bytes = plan.to_json().to_compact().len();
    if bytes > MAX_PLAN {
        let message = format!("is {bytes} bytes long, longer than {MAX_PLAN} bytes; shorten it");
        return Err(Problem::at(Code::TooLarge, "plan", message));
    }
    Ok(())
}

fn check_write_scopes(plan: &Plan) -> Result<(), Problem> {
    for (at, step) in plan.steps.iter().enumerate() {
        for (glob_at, glob) in step.write_scope.iter().enumerate() {
            let leaves = glob.starts_with('/') || glob.split('/').any(|part| part == "..");
            if leaves || glob.trim().is_empty() {
                let path = item_path(&format!("{}.write_scope", item_path("steps", at)), glob_at);
                let message = format!(
                    "{glob:?} matches no path of the workspace; write globs relative to its root, such as src/**"
                );
                return Err(Problem::at(Code::TypeMismatch, path, message));
            }
        }
    }
    Ok(())
}

fn check(value: &Value, place: Place<'_>) -> Result<(), Problem> {
    match value {
        Value::String(text) => check_text(text, place),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| check(item, Place::Item(&place, at)))
        }
        Value::Object(members) => {
            let mut members = members.iter().filter(|(key, _)| key != ARGUMENTS);
            members.try_for_each(|(key, member)| {
                check_text(key, place)?;
                check(member, Place::Member(&place, key))
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn is_storable(text: &str) -> bool {
    !text.as_bytes().contains(&0)
}

fn check_text(text: &str, place: Place<'_>) -> Result<(), Problem> {
    if is_storable(text) {
        return Ok(());
    }
    let message = "contains the character U+0000, which cannot be stored; remove it";
    Err(Problem::at(Code::TypeMismatch, place.path(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use surety_common::domain::check::{AcceptCheck, CheckKind, Match, Overlay, Owner};
    use surety_common::domain::json::parse;
    use surety_common::domain::plan::{PlanStep, ToolCall};

    fn check(target: &str) -> AcceptCheck {
        AcceptCheck {
            id: String::new(),
            kind: CheckKind::CommandSuccess,
            target: target.to_owned(),
            r#match: Match::Prefix,
            required: true,
            params: BTreeMap::new(),
            owner: Owner::User,
            overlay: Overlay::default(),
        }
    }

    fn refused(step: PlanStep, target: &str) -> Option<String> {
        let plan = Plan {
            title: "t".to_owned(),
            steps: vec![PlanStep::default(), step],
            verify: vec![check(target)],
            ..Plan::default()
        };
        check_plan_texts(&plan).err().map(|problem| {
            assert_eq!(problem.code, Code::TypeMismatch);
            problem.field.unwrap_or_default()
        })
    }

    #[test]
    fn a_text_that_cannot_be_stored_is_named_wherever_it_stands() {
        let id = PlanStep { id: "a\0".to_owned(), ..PlanStep::default() };
        assert_eq!(refused(id, "make test").as_deref(), Some("steps[1].id"));
        let found = refused(PlanStep::default(), "true\0false");
        assert_eq!(found.as_deref(), Some("verify[0].target"));
        let arguments = parse(r#"{"path": "a", "content": "\u0000"}"#).unwrap().value;
        let script = vec![ToolCall { name: "write_file".to_owned(), arguments }];
        assert_eq!(refused(PlanStep { script, ..PlanStep::default() }, "make test"), None);
    }

    #[test]
    fn a_text_beyond_its_bound_is_named() {
        let step = PlanStep::default;
        let plan = |plan: Plan| check_plan_texts(&plan).err().map(|problem| problem.field);
        let of = |step: PlanStep| plan(Plan { steps: vec![step], ..Plan::default() });
        let field = |name: &str| Some(Some(name.to_owned()));
        for (found, expected) in [
            (plan(Plan { title: "t".repeat(MAX_TITLE), ..Plan::default() }), None),
            (plan(Plan { title: "t".repeat(MAX_TITLE + 1), ..Plan::default() }), field("title")),
            (plan(Plan { goal: "g".repeat(MAX_GOAL), ..Plan::default() }), None),
            (plan(Plan { goal: "g".repeat(MAX_GOAL + 1), ..Plan::default() }), field("goal")),
            (of(PlanStep { id: "i".repeat(MAX_STEP_ID), ..step() }), None),
            (of(PlanStep { id: "i".repeat(MAX_STEP_ID + 1), ..step() }), field("steps[0].id")),
            (of(PlanStep { description: "d".repeat(MAX_PLAN / 2), ..step() }), None),
            (of(PlanStep { description: "d".repeat(MAX_PLAN), ..step() }), field("plan")),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_list_of_texts_is_left_out() {
        let bad = || vec!["a\0".to_owned()];
        let step = PlanStep::default;
        for (step, field) in [
            (PlanStep { description: "a\0".to_owned(), ..step() }, "description"),
            (PlanStep { dependencies: bad(), ..step() }, "dependencies[0]"),
            (PlanStep { tools_expected: bad(), ..step() }, "tools_expected[0]"),
            (PlanStep { outputs_expected: bad(), ..step() }, "outputs_expected[0]"),
            (PlanStep { done_when: "a\0".to_owned(), ..step() }, "done_when"),
            (PlanStep { write_scope: bad(), ..step() }, "write_scope[0]"),
            (PlanStep { confirm_tools: bad(), ..step() }, "confirm_tools[0]"),
        ] {
            assert_eq!(refused(step, "make test"), Some(format!("steps[1].{field}")));
        }
        let arguments = parse("{}").unwrap().value;
        let script = vec![ToolCall { name: "a\0".to_owned(), arguments }];
        let found = refused(PlanStep { script, ..step() }, "make test");
        assert_eq!(found.as_deref(), Some("steps[1].script[0].name"));
    }

    #[test]
    fn the_globs_of_a_check_read() {
        for (paths, expected) in [
            ("src/**,*.{c,h}", None),
            ("src/[a", Some("steps[0].verify[0].params.paths")),
            ("docs/**\n{a", Some("steps[0].verify[0].params.paths")),
        ] {
            let check = AcceptCheck {
                kind: CheckKind::WorkspaceChange,
                params: BTreeMap::from([("paths".to_owned(), paths.to_owned())]),
                ..check("")
            };
            let step = PlanStep { verify: vec![check], ..PlanStep::default() };
            let refused = check_plan_texts(&Plan { steps: vec![step], ..Plan::default() }).err();
            assert_eq!(refused.and_then(|problem| problem.field).as_deref(), expected, "{paths}");
        }
    }

    #[test]
    fn a_write_scope_names_places_in_the_workspace() {
        for (glob, expected) in [
            ("src/**", None),
            ("./README.md", None),
            ("docs/", None),
            ("a..b/*", None),
            ("", Some("steps[1].write_scope[0]")),
            (" ", Some("steps[1].write_scope[0]")),
            ("/etc/**", Some("steps[1].write_scope[0]")),
            ("../**", Some("steps[1].write_scope[0]")),
            ("src/../../x", Some("steps[1].write_scope[0]")),
        ] {
            let step = PlanStep { write_scope: vec![glob.to_owned()], ..PlanStep::default() };
            assert_eq!(refused(step, "make test").as_deref(), expected, "{glob:?}");
        }
    }
}
