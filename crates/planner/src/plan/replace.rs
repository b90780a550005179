//! A whole new plan in the place of one that is being worked on: the last resort of a replan.

use super::PlanState;
use super::patch::is_protected;
use super::validate::validate_plan;
use std::collections::HashMap;
use surety_common::domain::check::{AcceptCheck, normalise_checks};
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::step::StepState;
use surety_common::domain::todo::Todo;

/// Puts a new plan in the place of the old one. Done steps are carried over by id, as they were
/// done; one that the new plan does not name stays in front of the others. The goal, the old
/// plan's todos, and the checks of a user or an operator stay. All other steps are pending.
///
/// # Errors
/// `check_owner_protected` when the new plan drops a step with a check of a user or an operator;
/// then as [`validate_plan`] for the whole.
pub fn replace_plan(old: &PlanState, new: Plan, max_plan_steps: u32) -> Result<PlanState, Problem> {
    let mut open = HashMap::new();
    let mut done = HashMap::new();
    for (at, step) in old.plan.steps.iter().enumerate() {
        let kept = if old.status(at) == StepState::Done {
            &mut done
        } else {
            &mut open
        };
        kept.insert(step.id.as_str(), step);
    }
    let mut steps: Vec<(PlanStep, StepState)> = Vec::new();
    for step in &old.plan.steps {
        let named = new.steps.iter().any(|other| other.id == step.id);
        if done.contains_key(step.id.as_str()) && !named {
            steps.push((step.clone(), StepState::Done));
        } else if !named && step.verify.iter().any(is_protected) {
            let message = format!(
                "the step {:?} carries a check of the user or the operator; keep the step",
                step.id
            );
            return Err(Problem::at(Code::CheckOwnerProtected, "steps", message));
        }
    }
    for mut step in new.steps {
        if let Some(finished) = done.get(step.id.as_str()) {
            steps.push(((*finished).clone(), StepState::Done));
            continue;
        }
        if let Some(before) = open.get(step.id.as_str()) {
            step.verify = keep_protected(&before.verify, step.verify);
        }
        steps.push((step, StepState::Pending));
    }
    let (steps, statuses) = steps.into_iter().unzip();
    let goal = if old.plan.goal.is_empty() {
        new.goal
    } else {
        old.plan.goal.clone()
    };
    let plan = Plan {
        title: new.title,
        goal,
        steps,
        verify: keep_protected(&old.plan.verify, new.verify),
        todos: keep_todos(&old.plan.todos, new.todos),
    };
    validate_plan(&plan, max_plan_steps)?;
    Ok(PlanState { plan, statuses })
}

/// The protected checks of the old list, then the new ones.
fn keep_protected(old: &[AcceptCheck], new: Vec<AcceptCheck>) -> Vec<AcceptCheck> {
    let protected = old.iter().filter(|check| is_protected(check)).cloned();
    normalise_checks(protected.chain(new).collect(), "verify").0
}

fn keep_todos(old: &[Todo], new: Vec<Todo>) -> Vec<Todo> {
    let added = new
        .into_iter()
        .filter(|todo| old.iter().all(|kept| kept.id != todo.id));
    old.iter().cloned().chain(added).collect()
}
