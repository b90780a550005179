//! Applies a patch to a plan part by part, and validates the result as a whole.

use super::read::noop;
use super::{AddedStep, PlanPatch, StepUpdate};
use crate::plan::PlanState;
use crate::plan::validate::{is_within, validate_rest, validate_structure};
use std::collections::HashSet;
use surety_common::domain::check::{AcceptCheck, Owner};
use surety_common::domain::fields::item_path;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::step::StepState;

/// The result of applying a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched {
    /// The plan with its steps' states. A remaining step keeps its state, even a failed one; an
    /// added one is pending.
    pub state: PlanState,
    /// Whether the last added steps were dropped to stay within the limit.
    pub truncated_add: bool,
    /// The reader's corrections.
    pub warnings: Vec<Warning>,
}

/// Applies a patch.
///
/// # Errors
/// In this order: `patch_conflict`; for a removal `done_step_immutable`, `check_owner_protected`;
/// for an update `step_id_empty`, `unknown_step`, `done_step_immutable`; `step_id_exists`;
/// `plan_over_capacity`; then the errors of the whole plan, `dangling_dependency` before
/// `unknown_dependency`; `patch_is_noop`.
pub fn apply_patch(
    state: &PlanState,
    patch: PlanPatch,
    max_plan_steps: u32,
) -> Result<Patched, Problem> {
    refuse_conflicts(&patch)?;
    let PlanPatch { title, remove_steps, update_steps, add_steps, reason: _ } = patch;
    let mut work = Work::begin(state);
    if let Some(title) = title {
        work.plan.title = title;
    }
    let removed = work.remove(&remove_steps)?;
    for (at, update) in update_steps.into_iter().enumerate() {
        work.update(update, &format!("{}.id", item_path("update_steps", at)))?;
    }
    let truncated_add = work.add(add_steps, max_plan_steps)?;
    validate_structure(&work.plan, &removed)?;
    if let Some(problem) = work.refused {
        return Err(problem);
    }
    validate_rest(&work.plan)?;
    if work.plan == state.plan {
        return Err(noop());
    }
    Ok(Patched {
        state: PlanState { plan: work.plan, statuses: work.statuses },
        truncated_add,
        warnings: work.warnings,
    })
}

/// An id may be in one list only, and in the updates once. Repeated added ids are refused later, as
/// existing.
fn refuse_conflicts(patch: &PlanPatch) -> Result<(), Problem> {
    let updates = patch.update_steps.iter().map(|update| &update.id);
    let additions = patch.add_steps.iter().map(|added| &added.step.id);
    let mut others: HashSet<&str> = patch.remove_steps.iter().map(String::as_str).collect();
    let mut clash = None;
    for id in updates {
        if !others.insert(id) && !id.is_empty() {
            clash.get_or_insert(id);
        }
    }
    let mut additions = additions.filter(|id| !id.is_empty());
    if let Some(id) = clash.or_else(|| additions.find(|id| others.contains(id.as_str()))) {
        let message = format!("the patch names the step {id:?} twice; name it once");
        return Err(Problem::new(Code::PatchConflict, message));
    }
    Ok(())
}

struct Work {
    plan: Plan,
    /// The states of the plan's steps, one per step.
    statuses: Vec<StepState>,
    warnings: Vec<Warning>,
    /// The first rule that a check of an added step breaks.
    refused: Option<Problem>,
}

impl Work {
    fn begin(state: &PlanState) -> Self {
        Self {
            plan: state.plan.clone(),
            statuses: (0..state.plan.steps.len()).map(|at| state.status(at)).collect(),
            warnings: Vec::new(),
            refused: None,
        }
    }

    fn position(&self, id: &str) -> Option<(usize, StepState)> {
        let at = self.plan.steps.iter().position(|step| step.id == id)?;
        self.statuses.get(at).map(|status| (at, *status))
    }

    /// Removes steps; returns the ids that existed.
    fn remove<'a>(&mut self, ids: &'a [String]) -> Result<HashSet<&'a str>, Problem> {
        let mut removed = HashSet::new();
        for (at, id) in ids.iter().enumerate() {
            let path = item_path("remove_steps", at);
            let Some((found, status)) = self.position(id) else {
                let unknown = Warning::at(WarningCode::UnknownRemoveId, path);
                self.warnings.push(unknown);
                continue;
            };
            refuse_done(id, status, &path)?;
            let step = self.plan.steps.get(found);
            if step.is_some_and(|step| step.verify.iter().any(is_protected)) {
                let message = format!(
                    "the step {id:?} has a check of the user or the operator, which only they may \
                     remove; keep the step"
                );
                return Err(Problem::at(Code::CheckOwnerProtected, path, message));
            }
            self.plan.steps.remove(found);
            self.statuses.remove(found);
            removed.insert(id.as_str());
        }
        Ok(removed)
    }

    fn update(&mut self, update: StepUpdate, path: &str) -> Result<(), Problem> {
        let id = &update.id;
        if id.is_empty() {
            let message = "the update names no step; set the id of one";
            return Err(Problem::at(Code::StepIdEmpty, path, message));
        }
        let found = self.position(id);
        let (found, status) = found.ok_or_else(|| {
            let message = format!("the plan has no step {id:?}; update an existing one");
            Problem::at(Code::UnknownStep, path, message)
        })?;
        refuse_done(id, status, path)?;
        if let Some(step) = self.plan.steps.get_mut(found) {
            overwrite(step, update);
        }
        Ok(())
    }

    /// Appends as many steps as fit; returns whether some were dropped.
    fn add(&mut self, added: Vec<AddedStep>, max_plan_steps: u32) -> Result<bool, Problem> {
        let mut ids: HashSet<&str> = self.plan.steps.iter().map(|step| &*step.id).collect();
        for (at, AddedStep { step, .. }) in added.iter().enumerate() {
            if !step.id.is_empty() && !ids.insert(&step.id) {
                let message = format!("the id {:?} exists already; choose another", step.id);
                let path = format!("{}.id", item_path("add_steps", at));
                return Err(Problem::at(Code::StepIdExists, path, message));
            }
        }
        let steps = self.plan.steps.len();
        if !is_within(steps, max_plan_steps) {
            return Err(Problem::new(
                Code::PlanOverCapacity,
                format!(
                    "the plan already has {steps} steps of at most {max_plan_steps}; remove some"
                ),
            ));
        }
        let capacity = usize::try_from(max_plan_steps).unwrap_or(usize::MAX);
        let free = capacity - steps;
        let truncated = added.len() > free;
        for AddedStep { step, refusal } in added.into_iter().take(free) {
            if self.refused.is_none() {
                self.refused = refusal.map(|refusal| refusal.problem);
            }
            self.plan.steps.push(step);
            self.statuses.push(StepState::Pending);
        }
        Ok(truncated)
    }
}

fn refuse_done(id: &str, status: StepState, path: &str) -> Result<(), Problem> {
    if status != StepState::Done {
        return Ok(());
    }
    let message =
        format!("the step {id:?} is done and cannot be changed; remove it from the patch");
    Err(Problem::at(Code::DoneStepImmutable, path, message))
}

/// Whether only its author may remove the check.
pub(in crate::plan) fn is_protected(check: &AcceptCheck) -> bool {
    match check.owner {
        Owner::Plan => false,
        Owner::User | Owner::Operator => true,
    }
}

fn overwrite(step: &mut PlanStep, update: StepUpdate) {
    let StepUpdate { id: _, description, dependencies, tools_expected, outputs_expected } = update;
    if let Some(description) = description {
        step.description = description;
    }
    if let Some(dependencies) = dependencies {
        step.dependencies = dependencies;
    }
    if let Some(tools_expected) = tools_expected {
        step.tools_expected = tools_expected;
    }
    if let Some(outputs_expected) = outputs_expected {
        step.outputs_expected = outputs_expected;
    }
}
