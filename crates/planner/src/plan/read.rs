//! Reads a plan from the text of a model or a user.

use super::validate::{validate_checks, validate_length, validate_rest, validate_structure};
use std::borrow::Cow;
use std::collections::HashSet;
use surety_common::domain::check::{AcceptCheck, Author, Look, Owner, name_paths_of_plan};
use surety_common::domain::json::Value;
use surety_common::domain::plan::{Draft, Plan, TAG, read_plan};
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::reader::{self, PLAN_KEYS};

/// Reads the first object of a text that is a valid plan.
///
/// # Errors
/// Those of the tolerant reader (`too_large`, `empty_output`, `no_json_object`, `json_syntax`,
/// `too_deep`), else those of the object most similar to a plan: its type tag, its types, then the
/// rules in the order of [`super::validate_plan`].
pub fn parse_plan(
    text: &str,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    parse_plan_in(text, author, max_plan_steps, None)
}

/// As [`parse_plan`], for a workspace that is there: what stands at a path tells of a check that is one alone whether it is a
/// command.
///
/// # Errors
/// As [`parse_plan`].
pub fn parse_plan_in(
    text: &str,
    author: Author,
    max_plan_steps: u32,
    look: Option<Look<'_>>,
) -> Result<(Plan, Vec<Warning>), Problem> {
    let is_others = matches!(author, Author::Submitter | Author::Operator);
    let read = reader::read(text, PLAN_KEYS, |members, warnings| {
        let mut members = Cow::Borrowed(members);
        if let Some(look) = look.filter(|_| is_others) {
            name_paths_of_plan(members.to_mut(), look);
        }
        let draft = read_draft(&members, author, warnings)?;
        validate_length(&draft.plan, max_plan_steps)?;
        accept(draft)
    })?;
    Ok((read.value, read.warnings))
}

/// Whether a text is meant as a whole plan, valid or not: it has an object that lists steps, or whose type is that of plans.
pub fn is_whole_plan(text: &str) -> bool {
    let found = reader::read(text, PLAN_KEYS, |members, _| {
        let member = |key: &str| members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        let tag = member("type").and_then(|(_, tag)| tag.as_str());
        match tag == Some(TAG) || tag.is_none() && member("steps").is_some() {
            true => Ok(()),
            false => Err(Problem::new(Code::StepsEmpty, "is no plan")),
        }
    });
    found.is_ok()
}

/// Normalizes and validates a plan that was sent as a message, by the rules for a plan as text.
///
/// # Errors
/// As [`parse_plan`], without those of the text.
pub fn normalise_plan(
    plan: &Plan,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    normalise(plan, &plan.to_json(), author, max_plan_steps)
}

/// As [`normalise_plan`], for a plan whose checks all name their owner: none is replaced by the owner
/// that an author's check has by default.
///
/// # Errors
/// As [`normalise_plan`].
pub fn normalise_owned_plan(
    plan: &Plan,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    normalise(plan, &with_owners(plan.to_json()), author, max_plan_steps)
}

fn normalise(
    sent: &Plan,
    plan: &Value,
    author: Author,
    max_plan_steps: u32,
) -> Result<(Plan, Vec<Warning>), Problem> {
    let mut draft = read_plan(plan, author)?;
    let warnings = std::mem::take(&mut draft.warnings);
    validate_structure(&draft.plan, &HashSet::new())?;
    validate_length(&draft.plan, max_plan_steps)?;
    let mut plan = accept(draft)?;
    carry_overlays(sent, &mut plan)?;
    Ok((plan, warnings))
}

/// Gives each check the content of its overlay back, which the stored form of a plan does not have.
fn carry_overlays(sent: &Plan, plan: &mut Plan) -> Result<(), Problem> {
    if !sent.all_checks().any(AcceptCheck::is_hidden) {
        return Ok(());
    }
    let carry = |check: &mut AcceptCheck| {
        if let Some(same) = sent.all_checks().find(|sent| sent.overlay == check.overlay) {
            check.overlay = same.overlay.clone();
        }
    };
    let of_steps = plan.steps.iter_mut().flat_map(|step| &mut step.verify);
    of_steps.chain(&mut plan.verify).filter(|check| check.is_hidden()).for_each(carry);
    validate_checks(plan)
}

/// The stored form leaves the owner `plan` out; here it is written.
fn with_owners(plan: Value) -> Value {
    let Value::Object(members) = plan else { return plan };
    let member = |(key, value): (String, Value)| {
        let value = match (key.as_str(), value) {
            ("verify", Value::Array(checks)) => {
                Value::Array(checks.into_iter().map(with_owner).collect())
            }
            ("steps", Value::Array(steps)) => {
                Value::Array(steps.into_iter().map(with_owners).collect())
            }
            (_, value) => value,
        };
        (key, value)
    };
    Value::Object(members.into_iter().map(member).collect())
}

fn with_owner(check: Value) -> Value {
    let Value::Object(mut members) = check else { return check };
    if !members.iter().any(|(key, _)| key == "owner") {
        let owner = Value::String(Owner::Plan.as_str().to_owned());
        members.push(("owner".to_owned(), owner));
    }
    Value::Object(members)
}

/// Reads a draft and validates it, except for its length and its checks.
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

/// The draft's plan, when its checks, its scripts and its todos are valid too.
pub(super) fn accept(draft: Draft) -> Result<Plan, Problem> {
    if let Some(refusal) = draft.refusals.into_iter().next() {
        return Err(refusal.problem);
    }
    validate_rest(&draft.plan)?;
    Ok(draft.plan)
}
