//! Reads a patch from text; its keys are checked before its values.

use super::{AddedStep, PlanPatch, StepUpdate};
use std::collections::HashSet;
use surety_common::domain::check::Author;
use surety_common::domain::fields::{TypedFields, item_path};
use surety_common::domain::json::{JsonError, Value, parse};
use surety_common::domain::plan::{STEP_KEYS, check_tag, read_step};
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::reader;

/// The `type` that a patch may have.
const TAG: &str = "PlanPatch";

const PATCH_KEYS: &[&str] =
    &["type", "title", "remove_steps", "update_steps", "add_steps", "reason"];

const UPDATE_KEYS: &[&str] =
    &["id", "description", "dependencies", "tools_expected", "outputs_expected"];

/// The keys that identify a patch, and those of a plan, so that no object inside a plan is read as
/// a patch.
const MESSAGE_KEYS: &[&str] = &[
    "title",
    "remove_steps",
    "update_steps",
    "add_steps",
    "reason",
    "type",
    "status",
    "goal",
    "steps",
    "verify",
    "todos",
];

/// Reads a patch from a model's text. A text that is one object is the patch, whatever it contains;
/// otherwise the patch is searched for in the prose.
///
/// # Errors
/// Those of the tolerant reader, else those of [`read_patch`].
pub fn parse_patch(text: &str, author: Author) -> Result<(PlanPatch, Vec<Warning>), Problem> {
    match parse(reader::spoken(text)?.trim()) {
        Ok(whole) if whole.value.as_object().is_some() => {
            let mut warnings = Vec::new();
            if whole.duplicate_key {
                warnings.push(Warning::new(WarningCode::DuplicateKey));
            }
            let patch = read_patch(&whole.value, author, &mut warnings)?;
            Ok((patch, warnings))
        }
        Err(JsonError::TooDeep { keys }) if !keys.is_empty() => Err(reader::too_deep()),
        Ok(_) | Err(JsonError::TooDeep { .. } | JsonError::Syntax { .. }) => {
            let read = reader::read(text, MESSAGE_KEYS, |members, warnings| {
                if members.is_empty() {
                    return Err(noop());
                }
                read_patch(&Value::Object(members.to_vec()), author, warnings)
            })?;
            Ok((read.value, read.warnings))
        }
    }
}

/// The problem of a patch that changes nothing.
pub(super) fn noop() -> Problem {
    Problem::new(
        Code::PatchIsNoop,
        "the patch changes nothing; change the cause of the step's failure",
    )
}

/// Reads a patch from its object.
///
/// # Errors
/// `wrong_type_tag`; `forbidden_field` for an unknown key of the patch, of an update or of an
/// added step, whatever its value, and for a status in the patch or in an update; then
/// `type_mismatch`, in the order title, remove_steps, update_steps, add_steps, reason.
pub fn read_patch(
    value: &Value,
    author: Author,
    warnings: &mut Vec<Warning>,
) -> Result<PlanPatch, Problem> {
    let fields = TypedFields::of(value, "", PATCH_KEYS, warnings)?;
    check_tag(&fields, TAG)?;
    refuse_unknown(&fields)?;
    refuse_unknown_in(&fields, "update_steps", UPDATE_KEYS)?;
    refuse_unknown_in(&fields, "add_steps", STEP_KEYS)?;
    let title = fields.text("title")?;
    let mut seen = HashSet::new();
    let mut remove_steps = fields.ids("remove_steps", warnings)?;
    remove_steps.retain(|id| seen.insert(id.clone()));
    let items = fields.list("update_steps")?.iter().enumerate();
    let update_steps = items
        .map(|(at, item)| read_update(item, &item_path("update_steps", at), warnings))
        .collect::<Result<Vec<_>, Problem>>()?;
    let items = fields.list("add_steps")?.iter().enumerate();
    let add_steps = items
        .map(|(at, item)| {
            let path = item_path("add_steps", at);
            let (step, corrections, refusal) = read_step(item, &path, at, author)?;
            warnings.extend(corrections);
            Ok(AddedStep { step, refusal })
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    Ok(PlanPatch {
        title: (!title.is_empty()).then_some(title),
        remove_steps,
        update_steps,
        add_steps,
        reason: fields.text("reason")?,
    })
}

fn refuse_unknown(fields: &TypedFields<'_>) -> Result<(), Problem> {
    fields.unknown().first().map_or(Ok(()), |key| {
        let message = "a patch must not have this field; remove it";
        Err(Problem::at(Code::ForbiddenField, fields.path(key), message))
    })
}

/// Checks the items that are objects; the types of the others are checked later.
fn refuse_unknown_in(fields: &TypedFields<'_>, list: &str, keys: &[&str]) -> Result<(), Problem> {
    let items = fields.get(list).and_then(Value::as_array);
    for (at, item) in items.unwrap_or_default().iter().enumerate() {
        let path = item_path(&fields.path(list), at);
        if let Ok(item) = TypedFields::of(item, &path, keys, &mut Vec::new()) {
            refuse_unknown(&item)?;
        }
    }
    Ok(())
}

fn read_update(
    value: &Value,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<StepUpdate, Problem> {
    let fields = TypedFields::of(value, path, UPDATE_KEYS, warnings)?;
    let given = |key: &str| fields.get(key).is_some();
    let id = fields.id("id", warnings)?;
    let description = fields.text("description")?;
    let dependencies = fields.dependencies("dependencies", warnings)?;
    let tools_expected = fields.texts("tools_expected")?;
    let outputs_expected = fields.words("outputs_expected");
    Ok(StepUpdate {
        id,
        description: given("description").then_some(description),
        dependencies: given("dependencies").then_some(dependencies),
        tools_expected: given("tools_expected").then_some(tools_expected),
        outputs_expected: given("outputs_expected").then_some(outputs_expected),
    })
}
