//! The rules of a plan beyond its types, in one fixed order.

use std::collections::HashSet;
use surety_common::domain::check::{AcceptCheck, validate_check};
use surety_common::domain::fields::item_path;
use surety_common::domain::graph::{Node, find_cycle, name_cycle};
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::todo::validate_todos;

/// Validates a normalized plan.
///
/// # Errors
/// The first of `title_missing`, `steps_empty`, `step_id_empty`, `step_description_empty`,
/// `duplicate_step_id`, `unknown_dependency`, `self_dependency`, `dependency_cycle` (the message
/// names the cycle), `plan_too_long`, the errors of checks, `tool_name_missing` for a scripted
/// call, and the errors of todos.
pub fn validate_plan(plan: &Plan, max_plan_steps: u32) -> Result<(), Problem> {
    validate_structure(plan, &HashSet::new())?;
    validate_length(plan, max_plan_steps)?;
    validate_checks(plan)?;
    validate_rest(plan)
}

/// Validates the title, the steps and their dependencies. `removed` are ids that were just removed;
/// one that is still needed is `dangling_dependency`.
pub(super) fn validate_structure(plan: &Plan, removed: &HashSet<&str>) -> Result<(), Problem> {
    if plan.title.is_empty() {
        let message = "the plan has no title; add a short one";
        return Err(Problem::at(Code::TitleMissing, "title", message));
    }
    let steps = &plan.steps;
    if steps.is_empty() {
        let message = "the plan has no steps; add at least one";
        return Err(Problem::at(Code::StepsEmpty, "steps", message));
    }
    validate_names(steps)?;
    validate_dependencies(steps, removed)
}

fn validate_names(steps: &[PlanStep]) -> Result<(), Problem> {
    if let Some(at) = steps.iter().position(|step| step.id.is_empty()) {
        let message = "the step has no id; add a short unique one";
        return Err(Problem::at(Code::StepIdEmpty, field(at, "id"), message));
    }
    if let Some(at) = steps.iter().position(|step| step.description.is_empty()) {
        let message = "the step has no description; describe its task";
        let path = field(at, "description");
        return Err(Problem::at(Code::StepDescriptionEmpty, path, message));
    }
    let mut ids = HashSet::new();
    for (at, step) in steps.iter().enumerate() {
        if !ids.insert(step.id.as_str()) {
            let message = format!("two steps have the id {:?}; use each id once", step.id);
            return Err(Problem::at(Code::DuplicateStepId, field(at, "id"), message));
        }
    }
    Ok(())
}

fn validate_dependencies(steps: &[PlanStep], removed: &HashSet<&str>) -> Result<(), Problem> {
    let ids: HashSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    let refused = |code, (step, at, id): (usize, usize, &str), message: &str| {
        let path = item_path(&field(step, "dependencies"), at);
        Err(Problem::at(code, path, format!("{id:?} {message}")))
    };
    let was_removed = |_: &PlanStep, id: &str| removed.contains(id) && !ids.contains(id);
    if let Some(found) = find_dependency(steps, was_removed) {
        let message = "is removed and still needed; remove or update this step too";
        return refused(Code::DanglingDependency, found, message);
    }
    if let Some(found) = find_dependency(steps, |_, id| !ids.contains(id)) {
        let message = "is the id of no step; depend on steps of this plan only";
        return refused(Code::UnknownDependency, found, message);
    }
    if let Some(found) = find_dependency(steps, |step, id| step.id == id) {
        return refused(Code::SelfDependency, found, "depends on itself");
    }
    let nodes: Vec<Node<'_>> =
        steps.iter().map(|step| (step.id.as_str(), &step.dependencies[..])).collect();
    find_cycle(&nodes).map_or(Ok(()), |cycle| {
        let message = format!("steps depend on each other: {}", name_cycle(&cycle));
        Err(Problem::at(Code::DependencyCycle, "steps", message))
    })
}

/// The first invalid dependency: the index of its step, its own index, and the id.
fn find_dependency(
    steps: &[PlanStep],
    wrong: impl Fn(&PlanStep, &str) -> bool,
) -> Option<(usize, usize, &str)> {
    steps.iter().enumerate().find_map(|(step_at, step)| {
        let mut dependencies = step.dependencies.iter().enumerate();
        let (at, id) = dependencies.find(|(_, id)| wrong(step, id))?;
        Some((step_at, at, id.as_str()))
    })
}

pub(super) fn validate_length(plan: &Plan, max_plan_steps: u32) -> Result<(), Problem> {
    if is_within(plan.steps.len(), max_plan_steps) {
        return Ok(());
    }
    Err(too_long(plan, max_plan_steps))
}

pub(super) fn too_long(plan: &Plan, max_plan_steps: u32) -> Problem {
    let steps = plan.steps.len();
    let message = format!("the plan has {steps} steps; write one of at most {max_plan_steps}");
    Problem::at(Code::PlanTooLong, "steps", message)
}

pub(super) fn is_within(steps: usize, max_plan_steps: u32) -> bool {
    u32::try_from(steps).is_ok_and(|steps| steps <= max_plan_steps)
}

pub(super) fn validate_checks(plan: &Plan) -> Result<(), Problem> {
    for (at, step) in plan.steps.iter().enumerate() {
        validate_list(&step.verify, &field(at, "verify"))?;
    }
    validate_list(&plan.verify, "verify")
}

fn validate_list(checks: &[AcceptCheck], path: &str) -> Result<(), Problem> {
    let mut checks = checks.iter().enumerate();
    checks.try_for_each(|(at, check)| validate_check(check, &item_path(path, at)))
}

/// Validates scripted calls and todos, after the checks.
pub(super) fn validate_rest(plan: &Plan) -> Result<(), Problem> {
    for (step_at, step) in plan.steps.iter().enumerate() {
        if let Some(at) = step.script.iter().position(|call| call.name.is_empty()) {
            let path = format!("{}.name", item_path(&field(step_at, "script"), at));
            let message = "the scripted call names no tool; set its name";
            return Err(Problem::at(Code::ToolNameMissing, path, message));
        }
    }
    validate_todos(&plan.todos, "todos")
}

fn field(at: usize, key: &str) -> String {
    format!("steps[{at}].{key}")
}
