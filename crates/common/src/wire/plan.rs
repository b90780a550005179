//! Plans, their steps and tool calls.
//!
//! Only the form is validated here; the plan validator does the rest.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{json_object, list, wire_list};
use crate::domain::plan::{Evidence, Plan, PlanStep, ToolCall};

impl TryFrom<v1::Plan> for Plan {
    type Error = MessageError;

    fn try_from(plan: v1::Plan) -> Result<Self, Self::Error> {
        // The store sets revision and digest; values from a client are ignored.
        let v1::Plan { title, goal, steps, verify, todos, revision: _, digest: _ } = plan;
        Ok(Self {
            title,
            goal,
            steps: list("steps", steps)?,
            verify: list("verify", verify)?,
            todos: list("todos", todos)?,
        })
    }
}

impl From<Plan> for v1::Plan {
    /// A plan that is not stored; the caller that stored it sets revision and digest.
    fn from(plan: Plan) -> Self {
        let Plan { title, goal, steps, verify, todos } = plan;
        Self {
            title,
            goal,
            steps: wire_list(steps),
            verify: wire_list(verify),
            todos: wire_list(todos),
            revision: 0,
            digest: String::new(),
        }
    }
}

impl TryFrom<v1::PlanStep> for PlanStep {
    type Error = MessageError;

    fn try_from(step: v1::PlanStep) -> Result<Self, Self::Error> {
        let v1::PlanStep {
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
        } = step;
        Ok(Self {
            id,
            description,
            dependencies,
            tools_expected,
            outputs_expected,
            verify: list("verify", verify)?,
            done_when,
            evidence: read_evidence(evidence)?,
            script: list("script", script)?,
            write_scope,
            confirm_tools,
        })
    }
}

impl From<PlanStep> for v1::PlanStep {
    fn from(step: PlanStep) -> Self {
        let PlanStep {
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
        } = step;
        Self {
            id,
            description,
            dependencies,
            tools_expected,
            outputs_expected,
            verify: wire_list(verify),
            done_when,
            evidence: v1::Evidence::from(evidence).into(),
            script: wire_list(script),
            write_scope,
            confirm_tools,
        }
    }
}

impl TryFrom<v1::ToolCall> for ToolCall {
    type Error = MessageError;

    fn try_from(call: v1::ToolCall) -> Result<Self, Self::Error> {
        let v1::ToolCall { name, arguments_json } = call;
        Ok(Self {
            name: name.trim().to_owned(),
            arguments: json_object("arguments_json", &arguments_json)?,
        })
    }
}

impl From<ToolCall> for v1::ToolCall {
    fn from(call: ToolCall) -> Self {
        let ToolCall { name, arguments } = call;
        Self { name, arguments_json: arguments.to_compact() }
    }
}

fn read_evidence(number: i32) -> Result<Evidence, MessageError> {
    match v1::Evidence::try_from(number) {
        Ok(v1::Evidence::Unspecified | v1::Evidence::Required) => Ok(Evidence::Required),
        Ok(v1::Evidence::None) => Ok(Evidence::None),
        Err(_) => Err(MessageError::at("evidence", Kind::UnknownEnumValue(number))),
    }
}

impl From<Evidence> for v1::Evidence {
    fn from(evidence: Evidence) -> Self {
        match evidence {
            Evidence::Required => Self::Required,
            Evidence::None => Self::None,
        }
    }
}
