use super::patch::{AddedStep, PlanPatch, StepUpdate, apply_patch, parse_patch};
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use surety_common::domain::check::{AcceptCheck, Author, CheckKind, Match, Owner};
use surety_common::domain::plan::PlanStep;
use surety_common::domain::problem::{Code, WarningCode};
use surety_common::domain::todo::{Todo, TodoStatus};

fn step(id: &str, dependencies: &[&str]) -> PlanStep {
    PlanStep {
        id: id.to_owned(),
        description: format!("做 {id}"),
        dependencies: dependencies.iter().map(|id| (*id).to_owned()).collect(),
        ..PlanStep::default()
    }
}

fn plan(steps: Vec<PlanStep>) -> Plan {
    Plan { title: "T".to_owned(), steps, ..Plan::default() }
}

fn check(target: &str, owner: Owner) -> AcceptCheck {
    AcceptCheck {
        id: String::new(),
        kind: CheckKind::FileExists,
        target: target.to_owned(),
        r#match: Match::Prefix,
        required: true,
        params: std::collections::BTreeMap::new(),
        owner,
        overlay: surety_common::domain::check::Overlay::default(),
    }
}

fn text(steps: &[(&str, &str)]) -> String {
    let steps: Vec<String> = steps
        .iter()
        .map(|(id, rest)| format!(r#"{{"id":"{id}","description":"d"{rest}}}"#))
        .collect();
    format!(r#"{{"title":"T","steps":[{}]}}"#, steps.join(","))
}

#[test]
fn a_plan_that_is_too_long_is_truncated_when_no_remaining_step_needs_the_rest() {
    let long = text(&[("a", ""), ("b", ""), ("丙", r#","dependencies":["a"]"#), ("d", "")]);
    let (clipped, warnings) = parse_plan_clipped(&long, Author::Model, 2).unwrap();
    let ids: Vec<&str> = clipped.plan.steps.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(clipped.cut, ["丙", "d"]);
    assert_eq!(warnings[0].code, WarningCode::PlanClipped);
    assert_eq!(warnings[0].field.as_deref(), Some("丙,d"));
    assert_eq!(parse_plan(&long, Author::Model, 2).unwrap_err().code, Code::PlanTooLong);
}

#[test]
fn a_plan_whose_first_steps_need_a_later_one_is_never_truncated() {
    let long = text(&[("a", r#","dependencies":["c"]"#), ("b", ""), ("c", "")]);
    let problem = parse_plan_clipped(&long, Author::Model, 2).unwrap_err();
    assert_eq!(problem.code, Code::PlanTooLong);
    let (whole, warnings) = parse_plan_clipped(&long, Author::Model, 3).unwrap();
    assert_eq!((whole.plan.steps.len(), whole.cut.len(), warnings.len()), (3, 0, 0));
}

#[test]
fn an_invalid_check_is_an_error_in_a_remaining_step_only() {
    let broken = r#","verify":[{"kind":""}]"#;
    let cut = text(&[("a", ""), ("b", broken)]);
    assert!(parse_plan_clipped(&cut, Author::Model, 1).is_ok());
    let stays = text(&[("a", broken), ("b", "")]);
    let problem = parse_plan_clipped(&stays, Author::Model, 1).unwrap_err();
    assert_eq!(problem.code, Code::CheckKindMissing);
}

#[test]
fn a_scripted_call_without_a_tool_is_refused() {
    let script = text(&[("a", r#","script":[{"name":" ","arguments":{}}]"#)]);
    let problem = parse_plan(&script, Author::Submitter, 12).unwrap_err();
    assert_eq!(problem.code, Code::ToolNameMissing);
    assert_eq!(problem.field.as_deref(), Some("steps[0].script[0].name"));
}

#[test]
fn a_plan_sent_as_a_message_follows_the_rules_of_a_plan_as_text() {
    let mut loose = plan(vec![step(" a ", &[]), step("b", &["a", "a"])]);
    loose.verify = vec![check(" x ", Owner::Plan), check("x", Owner::Plan)];
    let (normal, warnings) = normalise_plan(&loose, Author::Service, 12).unwrap();
    assert_eq!(normal.steps[0].id, "a");
    assert_eq!(normal.steps[1].dependencies, ["a"]);
    assert_eq!(normal.verify.len(), 1);
    assert_eq!(warnings[0].code, WarningCode::DuplicateDependency);
    assert_eq!(normalise_plan(&normal, Author::Service, 12), Ok((normal, vec![])));
    loose.verify[0].kind = CheckKind::Unknown(String::new());
    let problem = normalise_plan(&loose, Author::Service, 12).unwrap_err();
    assert_eq!(problem.code, Code::CheckKindMissing);
}

#[test]
fn a_whole_new_plan_keeps_done_steps_and_the_checks_of_a_user() {
    let mut old = plan(vec![step("a", &[]), step("b", &["a"]), step("c", &["b"])]);
    old.goal = "原目标".to_owned();
    old.verify = vec![check("计划.md", Owner::Plan), check("用户.md", Owner::User)];
    old.steps[2].verify = vec![check("运维.md", Owner::Operator)];
    old.todos = vec![todo("t")];
    let old = PlanState { plan: old, statuses: vec![StepState::Done, StepState::Failed] };
    let mut new = plan(vec![step("c", &["x"]), step("x", &["a"]), step("a", &["x"])]);
    new.goal = "别的".to_owned();
    let kept = replace_plan(&old, new.clone(), 12).unwrap();
    assert_eq!(kept.plan.goal, "原目标");
    assert_eq!(kept.plan.steps[2], old.plan.steps[0]);
    assert_eq!(kept.statuses, [StepState::Pending, StepState::Pending, StepState::Done]);
    assert_eq!(kept.plan.verify, [check("用户.md", Owner::User)]);
    assert_eq!(kept.plan.steps[0].verify, [check("运维.md", Owner::Operator)]);
    assert_eq!(kept.plan.todos, old.plan.todos);
    new.steps.retain(|step| step.id != "a");
    let kept = replace_plan(&old, new.clone(), 12).unwrap();
    assert_eq!(kept.plan.steps[0], old.plan.steps[0], "a done step is never lost");
    assert_eq!(kept.statuses[0], StepState::Done);
    assert_eq!(replace_plan(&old, new.clone(), 2).unwrap_err().code, Code::PlanTooLong);
    new.steps.retain(|step| step.id != "c");
    let problem = replace_plan(&old, new, 12).unwrap_err();
    assert_eq!(problem.code, Code::CheckOwnerProtected);
}

fn todo(id: &str) -> Todo {
    Todo {
        id: id.to_owned(),
        content: String::new(),
        required: true,
        status: TodoStatus::Pending,
        dependencies: Vec::new(),
        replaces: Vec::new(),
        created_at: None,
    }
}

#[test]
fn a_chain_of_fifteen_thousand_steps_is_refused_as_too_long() {
    let many: Vec<String> = (0..15_000)
        .map(|at| {
            format!(r#"{{"id":{at},"description":"d","dependencies":[{}]}}"#, (at + 1) % 15_000)
        })
        .collect();
    let text = format!(r#"{{"title":"T","steps":[{}]}}"#, many.join(","));
    let problem = parse_plan(&text, Author::Model, 12).unwrap_err();
    assert_eq!(problem.code, Code::DependencyCycle);
    let open = text.replacen("[1]", "[]", 1);
    let problem = parse_plan(&open, Author::Model, 12).unwrap_err();
    assert_eq!(problem.code, Code::PlanTooLong);
}

#[test]
fn a_patch_is_found_in_prose_and_never_inside_a_refused_one() {
    let found = parse_patch("好：{\"title\":\"T2\"} 完", Author::Model).unwrap();
    assert_eq!(found.0.title.as_deref(), Some("T2"));
    for text in
        [r#"{"patch":{"title":"T2"}}"#, r#"```{"note":{}}```"#, r#"{"steps":[{"title":"T2"}]} "#]
    {
        let problem = parse_patch(text, Author::Model).unwrap_err();
        assert_eq!(problem.code, Code::ForbiddenField, "{text}");
    }
}

/// Steps whose dependencies are all earlier ones, so that the plan is valid.
fn valid_plan() -> impl Strategy<Value = Plan> {
    vec(vec(any::<Index>(), 0..3), 1..9).prop_map(|edges| {
        let mut steps: Vec<PlanStep> = Vec::new();
        for (at, picks) in edges.iter().enumerate() {
            let mut next = step(&format!("步{at}"), &[]);
            for pick in picks.iter().filter(|_| at > 0) {
                let id = steps[pick.index(at)].id.clone();
                if !next.dependencies.contains(&id) {
                    next.dependencies.push(id);
                }
            }
            steps.push(next);
        }
        plan(steps)
    })
}

/// A valid plan in which some steps are done and some checks are owned by a user or an operator.
fn state() -> impl Strategy<Value = PlanState> {
    let marks = vec((0..9_usize, 0..4_usize), 9);
    (valid_plan(), marks).prop_map(|(mut plan, marks)| {
        let mut statuses = Vec::new();
        for (step, (status, owner)) in plan.steps.iter_mut().zip(marks) {
            let owners = [Owner::Plan, Owner::User, Owner::Operator];
            step.verify = owners.get(owner).map(|owner| check("a", *owner)).into_iter().collect();
            statuses.push(if status < 3 { StepState::Done } else { StepState::ALL[status] });
        }
        PlanState { plan, statuses }
    })
}

fn patch() -> impl Strategy<Value = PlanPatch> {
    let id = || (0..11_usize).prop_map(|at| format!("步{at}"));
    let update = (id(), any::<bool>(), proptest::option::of(vec(id(), 0..3)));
    let update = update.prop_map(|(id, described, dependencies)| StepUpdate {
        id,
        description: described.then(|| "改".to_owned()),
        dependencies,
        tools_expected: None,
        outputs_expected: None,
    });
    let added = (id(), vec(id(), 0..2)).prop_map(|(id, dependencies)| AddedStep {
        step: PlanStep { dependencies, ..step(&id, &[]) },
        refusal: None,
    });
    let title = proptest::option::of(Just("新".to_owned()));
    (title, vec(id(), 0..3), vec(update, 0..3), vec(added, 0..3)).prop_map(
        |(title, remove_steps, update_steps, add_steps)| PlanPatch {
            title,
            remove_steps,
            update_steps,
            add_steps,
            reason: String::new(),
        },
    )
}

proptest! {
    #[test]
    fn a_valid_plan_stays_valid_in_every_order_of_its_steps(plan in valid_plan(), keys in vec(any::<u32>(), 9)) {
        prop_assert_eq!(validate_plan(&plan, 12), Ok(()));
        let mut keyed: Vec<_> = plan.steps.iter().cloned().zip(keys).collect();
        keyed.sort_by_key(|(_, key)| *key);
        let steps = keyed.into_iter().map(|(step, _)| step).collect();
        prop_assert_eq!(validate_plan(&Plan { steps, ..plan }, 12), Ok(()));
    }

    #[test]
    fn no_patch_changes_a_done_step_or_loses_a_protected_check(state in state(), patch in patch(), limit in 1..14_u32) {
        if let Ok(patched) = apply_patch(&state, patch, limit) {
            let after = &patched.state;
            prop_assert_eq!(after.statuses.len(), after.plan.steps.len());
            prop_assert_eq!(validate_plan(&after.plan, limit), Ok(()));
            for (at, step) in state.plan.steps.iter().enumerate() {
                let found = after.plan.steps.iter().position(|other| other.id == step.id);
                if state.status(at) == StepState::Done {
                    prop_assert_eq!(found.map(|at| &after.plan.steps[at]), Some(step));
                }
                let protected = step.verify.iter().any(|check| check.owner != Owner::Plan);
                if protected {
                    prop_assert_eq!(found.map(|at| &after.plan.steps[at].verify), Some(&step.verify));
                }
                if let Some(found) = found {
                    prop_assert_eq!(after.status(found), state.status(at), "a state moved");
                }
            }
        }
    }

    #[test]
    fn no_whole_plan_changes_a_done_step_or_loses_a_protected_check(old in state(), new in state(), limit in 1..14_u32) {
        if let Ok(after) = replace_plan(&old, new.plan, limit) {
            prop_assert_eq!(after.statuses.len(), after.plan.steps.len());
            prop_assert_eq!(validate_plan(&after.plan, limit), Ok(()));
            for (at, step) in old.plan.steps.iter().enumerate() {
                let found = after.plan.steps.iter().position(|other| other.id == step.id);
                let kept = found.map(|at| &after.plan.steps[at]);
                if old.status(at) == StepState::Done {
                    prop_assert_eq!(kept, Some(step));
                }
                for check in step.verify.iter().filter(|check| check.owner != Owner::Plan) {
                    prop_assert!(kept.is_some_and(|kept| kept.verify.contains(check)), "{check:?}");
                }
            }
        }
    }

    #[test]
    fn reading_a_plan_that_was_written_gives_the_same_plan_and_digest(state in state()) {
        let text = format!("计划：{}", state.plan.to_json().to_compact());
        let (read, warnings) = parse_plan(&text, Author::Operator, 12).unwrap();
        let (again, _) = parse_plan(&read.to_json().to_canonical(), Author::Service, 12).unwrap();
        prop_assert_eq!(read.digest(), again.digest());
        prop_assert_eq!(read, again);
        prop_assert_eq!(warnings, []);
        let (stored, _) = parse_plan(&text, Author::Service, 12).unwrap();
        prop_assert_eq!(stored.digest(), state.plan.digest());
    }
}
