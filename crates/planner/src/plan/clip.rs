//! Truncates a plan that is still too long after the model was asked for a shorter one. The last attempt of a
//! planning agent at a first plan is read this way.

use super::read::{accept, read_draft};
use super::validate::{is_within, too_long};
use std::collections::HashSet;
use surety_common::domain::check::Author;
use surety_common::domain::plan::{Draft, Plan};
use surety_common::domain::problem::{Problem, Warning, WarningCode};
use surety_common::domain::reader::{self, PLAN_KEYS};

/// A plan that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clipped {
    /// The plan with its first steps.
    pub plan: Plan,
    /// The ids of the removed steps, in order; empty when the plan was short enough.
    pub cut: Vec<String>,
}

/// As [`super::parse_plan`], for the last retry. A plan that is too long is truncated to its first
/// steps, with the warning `plan_clipped` that names the removed ones. Checks of removed steps are
/// not validated.
///
/// # Errors
/// As [`super::parse_plan`]; `plan_too_long` when a remaining step depends on a removed one.
pub fn parse_plan_clipped(
    text: &str,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Clipped, Vec<Warning>), Problem> {
    let read = reader::read(text, PLAN_KEYS, |members, warnings| {
        let draft = read_draft(members, author, warnings)?;
        let clipped = clip_plan(draft.plan, max_plan_steps)?;
        let stays = clipped.plan.steps.len();
        let mut refusals = draft.refusals;
        refusals.retain(|refusal| refusal.step.is_none_or(|at| at < stays));
        if !clipped.cut.is_empty() {
            let names = clipped.cut.join(",");
            warnings.push(Warning::at(WarningCode::PlanClipped, names));
        }
        let plan = accept(Draft { plan: clipped.plan, warnings: Vec::new(), refusals })?;
        Ok(Clipped { plan, ..clipped })
    })?;
    Ok((read.value, read.warnings))
}

/// Truncates a plan to its first steps.
///
/// # Errors
/// `plan_too_long` when a remaining step depends on a removed one.
pub fn clip_plan(plan: Plan, max_plan_steps: u32) -> Result<Clipped, Problem> {
    if is_within(plan.steps.len(), max_plan_steps) {
        return Ok(Clipped { plan, cut: Vec::new() });
    }
    let stays = usize::try_from(max_plan_steps).unwrap_or(usize::MAX);
    let (first, rest) = plan.steps.split_at_checked(stays).unwrap_or_default();
    let cut: HashSet<&str> = rest.iter().map(|step| step.id.as_str()).collect();
    let mut needed = first.iter().flat_map(|step| &step.dependencies);
    if needed.any(|id| cut.contains(id.as_str())) {
        return Err(too_long(&plan, max_plan_steps));
    }
    let cut = rest.iter().map(|step| step.id.clone()).collect();
    let steps = first.to_vec();
    Ok(Clipped { plan: Plan { steps, ..plan }, cut })
}
