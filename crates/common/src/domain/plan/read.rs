//! Reads a plan from one JSON object and checks its types. The planner validates the other rules.

use super::{Evidence, Plan, PlanStep, ToolCall, read_tool_call};
use crate::domain::check::{AcceptCheck, Author, scan_checks};
use crate::domain::confirmation::{MAX_PATTERNS, read_tools};
use crate::domain::fields::{TypedFields, item_path, mismatch};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem, Warning, WarningCode};
use crate::domain::todo::{Progress, read_todos};
use globset::Glob;

/// The `type` a plan may carry.
pub const TAG: &str = "FullPlan";

const PLAN_KEYS: &[&str] = &["type", "title", "goal", "steps", "verify", "todos", "status"];

/// The keys of a step, in the order in which their types are checked.
pub const STEP_KEYS: &[&str] = &[
    "id",
    "description",
    "dependencies",
    "tools_expected",
    "outputs_expected",
    "verify",
    "done_when",
    "evidence",
    "script",
    "write_scope",
    "confirm_tools",
    "status",
];

/// A plan with valid types, which may break every other rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draft {
    /// The plan.
    pub plan: Plan,
    /// What the reader corrected.
    pub warnings: Vec<Warning>,
    /// The first rule that each list of checks breaks, the steps' lists before the plan's own.
    pub refusals: Vec<Refusal>,
}

/// A rule that a check breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The index of the step whose check it is; none for a check of the plan.
    pub step: Option<usize>,
    /// What is wrong.
    pub problem: Problem,
}

/// Reads a plan from an object. Unknown keys are ignored; a null list is empty.
///
/// # Errors
/// `wrong_type_tag`, then `type_mismatch` at the first field that holds another type, in the
/// order title, goal, steps, verify, todos.
pub fn read_plan(value: &Value, author: Author) -> Result<Draft, Problem> {
    let mut read = Reading { author, warnings: Vec::new(), refusals: Vec::new() };
    let fields = TypedFields::of(value, "", PLAN_KEYS, &mut read.warnings)?;
    check_tag(&fields, TAG)?;
    read.ignore_status(&fields);
    let title = fields.text("title")?;
    let goal = fields.text("goal")?;
    let items = fields.list("steps")?.iter().enumerate();
    let steps = items
        .map(|(at, item)| read.step(item, &item_path("steps", at), at))
        .collect::<Result<Vec<_>, _>>()?;
    let verify = read.checks(&fields, None)?;
    let progress = match author {
        Author::Service => Progress::Kept,
        Author::Model | Author::Submitter | Author::Operator => Progress::Ignored,
    };
    let items = fields.list("todos")?;
    let todos = read_todos(items, "todos", progress, &mut read.warnings)?;
    Ok(Draft {
        plan: Plan { title, goal, steps, verify, todos },
        warnings: read.warnings,
        refusals: read.refusals,
    })
}

/// Reads one step; `at` is its index, for errors.
///
/// # Errors
/// `type_mismatch` at the first field of another type.
pub fn read_step(
    value: &Value,
    path: &str,
    at: usize,
    author: Author,
) -> Result<(PlanStep, Vec<Warning>, Option<Refusal>), Problem> {
    let mut read = Reading { author, warnings: Vec::new(), refusals: Vec::new() };
    let step = read.step(value, path, at)?;
    Ok((step, read.warnings, read.refusals.pop()))
}

/// Checks the `type` of a message; null is absent.
///
/// # Errors
/// `wrong_type_tag` when it differs.
pub fn check_tag(fields: &TypedFields<'_>, tag: &str) -> Result<(), Problem> {
    match fields.get("type") {
        None => Ok(()),
        Some(found) if found.as_str() == Some(tag) => Ok(()),
        Some(_) => Err(Problem::at(
            Code::WrongTypeTag,
            "type",
            format!("the type must be {tag:?} or absent"),
        )),
    }
}

struct Reading {
    author: Author,
    warnings: Vec<Warning>,
    refusals: Vec<Refusal>,
}

impl Reading {
    fn step(&mut self, value: &Value, path: &str, at: usize) -> Result<PlanStep, Problem> {
        let warnings = &mut self.warnings;
        let fields = TypedFields::of(value, path, STEP_KEYS, warnings)?;
        let id = fields.id("id", warnings)?;
        let description = fields.text("description")?;
        let dependencies = fields.dependencies("dependencies", warnings)?;
        let tools_expected = fields.texts("tools_expected")?;
        let outputs_expected = fields.words("outputs_expected");
        let verify = self.checks(&fields, Some(at))?;
        let done_when = fields.text("done_when")?;
        let evidence = read_evidence(&fields)?;
        let script = self.script(&fields)?;
        let write_scope = read_globs(&fields)?;
        let confirm_tools = self.confirm_tools(&fields)?;
        self.ignore_status(&fields);
        Ok(PlanStep {
            id,
            description,
            dependencies,
            tools_expected,
            outputs_expected,
            verify,
            done_when,
            evidence,
            script,
            write_scope,
            confirm_tools,
        })
    }

    fn checks(
        &mut self,
        fields: &TypedFields<'_>,
        step: Option<usize>,
    ) -> Result<Vec<AcceptCheck>, Problem> {
        let Some(value) = fields.get("verify") else {
            return Ok(Vec::new());
        };
        let scanned = scan_checks(value, &fields.path("verify"), self.author)?;
        self.warnings.extend(scanned.warnings);
        let refusal = scanned.refused.map(|problem| Refusal { step, problem });
        self.refusals.extend(refusal);
        Ok(scanned.checks)
    }

    fn script(&mut self, fields: &TypedFields<'_>) -> Result<Vec<ToolCall>, Problem> {
        let items = fields.list("script")?.iter().enumerate();
        items
            .map(|(at, item)| {
                let path = item_path(&fields.path("script"), at);
                let call = read_tool_call(item, (&path, Code::TypeMismatch), &mut self.warnings)?;
                call.ok_or_else(|| mismatch(&path, "a tool call", item))
            })
            .collect()
    }

    /// A model's patterns that cannot be used are ignored, as what the rules of its plan do not name. Those of others
    /// are refused: their authors rely on each one.
    fn confirm_tools(&self, fields: &TypedFields<'_>) -> Result<Vec<String>, Problem> {
        if fields.get("confirm_tools").is_none() {
            return Ok(Vec::new());
        }
        let path = fields.path("confirm_tools");
        match self.author {
            Author::Model => {
                let usable = |word: &String| read_tools(&path, vec![word.clone()]).is_ok();
                let mut words = fields.words("confirm_tools");
                words.retain(usable);
                words.truncate(MAX_PATTERNS);
                Ok(words)
            }
            Author::Submitter | Author::Operator | Author::Service => {
                read_tools(&path, fields.texts("confirm_tools")?)
            }
        }
    }

    fn ignore_status(&mut self, fields: &TypedFields<'_>) {
        if fields.has("status") {
            let path = fields.path("status");
            self.warnings.push(Warning::at(WarningCode::StatusIgnored, path));
        }
    }
}

fn read_evidence(fields: &TypedFields<'_>) -> Result<Evidence, Problem> {
    let word = fields.text("evidence")?;
    if word.is_empty() {
        return Ok(Evidence::default());
    }
    Evidence::from_text(&word).ok_or_else(|| {
        let message = format!("{word:?} is not a kind of evidence; use required or none");
        Problem::at(Code::TypeMismatch, fields.path("evidence"), message)
    })
}

/// A blank glob is kept and matches nothing, because an empty list would allow every path. A blank
/// tool name is kept for the same reason.
fn read_globs(fields: &TypedFields<'_>) -> Result<Vec<String>, Problem> {
    let globs = fields.texts("write_scope")?;
    for glob in &globs {
        Glob::new(glob).map_err(|error| {
            let message = format!("{glob:?} is not a valid glob: {}", error.kind());
            Problem::at(Code::TypeMismatch, fields.path("write_scope"), message)
        })?;
    }
    Ok(globs)
}
