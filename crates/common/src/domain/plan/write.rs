//! Writes a plan as JSON, and computes its digest.

use super::{Evidence, Plan, PlanStep, ToolCall, read_plan};
use crate::domain::check::{AcceptCheck, Author};
use crate::domain::fields::SparseObject;
use crate::domain::json::Value;
use crate::domain::problem::Problem;
use crate::domain::todo::todo_to_json;

impl Plan {
    /// The stored form of a plan. Default values are omitted.
    pub fn to_json(&self) -> Value {
        let Self { title, goal, steps, verify, todos } = self;
        SparseObject::default()
            .text("title", title)
            .text("goal", goal)
            .list("steps", steps.iter().map(PlanStep::to_json))
            .list("verify", verify.iter().map(AcceptCheck::to_json))
            .list("todos", todos.iter().map(todo_to_json))
            .build()
    }

    /// Reads a stored plan. A plan that was valid when it was written is not validated again.
    ///
    /// # Errors
    /// `wrong_type_tag`, `type_mismatch`, or what is wrong with a check.
    pub fn from_json(value: &Value) -> Result<Self, Problem> {
        let mut draft = read_plan(value, Author::Service)?;
        if draft.refusals.is_empty() {
            return Ok(draft.plan);
        }
        Err(draft.refusals.swap_remove(0).problem)
    }

    /// The SHA-256 of the canonical JSON in hexadecimal: the order of keys, blanks and the spelling
    /// of numbers do not change it.
    pub fn digest(&self) -> String {
        self.to_json().digest()
    }
}

impl PlanStep {
    fn to_json(&self) -> Value {
        let Self {
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
        } = self;
        let evidence = match evidence {
            Evidence::Required => "",
            Evidence::None => evidence.as_str(),
        };
        SparseObject::default()
            .text("id", id)
            .text("description", description)
            .texts("dependencies", dependencies)
            .texts("tools_expected", tools_expected)
            .texts("outputs_expected", outputs_expected)
            .list("verify", verify.iter().map(AcceptCheck::to_json))
            .text("done_when", done_when)
            .text("evidence", evidence)
            .list("script", script.iter().map(ToolCall::to_json))
            .texts("write_scope", write_scope)
            .texts("confirm_tools", confirm_tools)
            .build()
    }
}

impl ToolCall {
    /// The form that a model writes; the arguments keep the order of their keys and the spelling of
    /// their numbers.
    pub fn to_json(&self) -> Value {
        let Self { name, arguments } = self;
        SparseObject::default()
            .text("name", name)
            .value_if(true, "arguments", arguments.clone())
            .build()
    }
}
