//! A plan from the text of a model or a person.

use super::validate::{validate_length, validate_rest, validate_structure};
use std::collections::HashSet;
use surety_common::domain::check::Author;
use surety_common::domain::json::Value;
use surety_common::domain::plan::{Draft, Plan, read_plan};
use surety_common::domain::problem::{Problem, Warning};
use surety_common::domain::reader::{self, PLAN_KEYS};

/// Reads the first object of a text that is a valid plan.
///
/// # Errors
/// Those of the tolerant reader (`too_large`, `empty_output`, `no_json_object`, `json_syntax`,
/// `too_deep`), else what is wrong with the object that looks most like a plan: its type tag, its
/// types, then the rules in the order of [`super::validate_plan`].
pub fn parse_plan(
    text: &str,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    let read = reader::read(text, PLAN_KEYS, |members, warnings| {
        let draft = read_draft(members, author, warnings)?;
        validate_length(&draft.plan, max_plan_steps)?;
        accept(draft)
    })?;
    Ok((read.value, read.warnings))
}

/// Reads a plan that came with its fields as if its author had written it as text, so that one
/// set of rules stands for both.
///
/// # Errors
/// As [`parse_plan`], but for those of the text.
pub fn normalise_plan(
    plan: &Plan,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    let mut draft = read_plan(&plan.to_json(), author)?;
    let warnings = std::mem::take(&mut draft.warnings);
    validate_structure(&draft.plan, &HashSet::new())?;
    validate_length(&draft.plan, max_plan_steps)?;
    Ok((accept(draft)?, warnings))
}

/// A draft that is a plan but for its length and its checks.
pub(super) fn read_draft(
    members: &[(String, Value)],
    author: Author,
    warnings: &mut Vec<Warning>,
) -> Result<Draft, Problem> {
    let mut draft = read_plan(&Value::Object(members.to_vec()), author)?;
    warnings.append(&mut draft.warnings);
    validate_structure(&draft.plan, &HashSet::new())?;
    Ok(draft)
}

/// The draft's plan, when its checks, its scripts and its todos are good too.
pub(super) fn accept(draft: Draft) -> Result<Plan, Problem> {
    if let Some(refusal) = draft.refusals.into_iter().next() {
        return Err(refusal.problem);
    }
    validate_rest(&draft.plan)?;
    Ok(draft.plan)
}
