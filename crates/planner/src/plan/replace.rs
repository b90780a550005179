//! Replaces a plan in execution by a whole new one: the last resort of a replan.

use super::PlanState;
use super::patch::is_protected;
use super::validate::validate_plan;
use std::collections::{HashMap, HashSet};
use surety_common::domain::check::{AcceptCheck, normalise_checks};
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::step::StepState;
use surety_common::domain::todo::Todo;

/// Replaces the old plan by a new one. Done steps are kept unchanged by id; those that the new plan
/// does not name come first. The goal, the old plan's todos, and the checks of a user or an
/// operator are kept. All other steps are pending.
///
/// # Errors
/// `check_owner_protected` when the new plan drops a step with a check of a user or an operator;
/// then as [`validate_plan`] for the whole.
pub fn replace_plan(old: &PlanState, new: Plan, max_plan_steps: u32) -> Result<PlanState, Problem> {
    let mut steps = keep_unnamed(old, &new)?;
    let before: HashMap<&str, usize> = old.plan.steps.iter().map(|s| &*s.id).zip(0..).collect();
    for mut step in new.steps {
        let at = before.get(step.id.as_str()).copied();
        match at.and_then(|at| old.plan.steps.get(at).map(|was| (was, old.status(at)))) {
            Some((was, StepState::Done)) => steps.push((was.clone(), StepState::Done)),
            was => {
                if let Some((was, _)) = was {
                    step.verify = keep_protected(&was.verify, step.verify);
                }
                steps.push((step, StepState::Pending));
            }
        }
    }
    let (steps, statuses) = steps.into_iter().unzip();
    let goal = &old.plan.goal;
    let plan = Plan {
        title: new.title,
        goal: if goal.is_empty() { new.goal } else { goal.clone() },
        steps,
        verify: keep_protected(&old.plan.verify, new.verify),
        todos: keep_todos(&old.plan.todos, new.todos),
    };
    validate_plan(&plan, max_plan_steps)?;
    Ok(PlanState { plan, statuses })
}

/// The done steps that the new plan does not name.
fn keep_unnamed(old: &PlanState, new: &Plan) -> Result<Vec<(PlanStep, StepState)>, Problem> {
    let named: HashSet<&str> = new.steps.iter().map(|step| step.id.as_str()).collect();
    let mut kept = Vec::new();
    for (at, step) in old.plan.steps.iter().enumerate() {
        if named.contains(step.id.as_str()) {
            continue;
        }
        if old.status(at) == StepState::Done {
            kept.push((step.clone(), StepState::Done));
        } else if step.verify.iter().any(is_protected) {
            let message = format!(
                "the step {:?} has a check of the user or the operator; keep the step",
                step.id
            );
            return Err(Problem::at(Code::CheckOwnerProtected, "steps", message));
        }
    }
    Ok(kept)
}

/// The protected checks of the old list, then the new ones.
fn keep_protected(old: &[AcceptCheck], new: Vec<AcceptCheck>) -> Vec<AcceptCheck> {
    let protected = old.iter().filter(|check| is_protected(check)).cloned();
    normalise_checks(protected.chain(new).collect(), "verify").0
}

fn keep_todos(old: &[Todo], new: Vec<Todo>) -> Vec<Todo> {
    let added = new.into_iter().filter(|todo| old.iter().all(|kept| kept.id != todo.id));
    old.iter().cloned().chain(added).collect()
}
