//! The payload of a task: what its assignee is handed instructions from.

use super::action::EventType;
use super::language::Language;
use super::role::Role;
use super::steps::steps as steps_of;
use super::words::words;
use crate::domain::identity::SERVICE_NAME;
use crate::domain::problem::{Code, Problem};
use serde_json::{Map, Value, json};
use std::fmt;

/// What tasks and their histories name in place of an account where the service acts.
pub const SYSTEM: &str = SERVICE_NAME;
/// Who acts on a failure of the infrastructure.
pub const INFRASTRUCTURE_ROLE: Role = Role::Infra;
/// The most steps of a task.
pub const MAX_STEPS: usize = 50;

/// The payload of a task. The words of event and action are open: an unknown one gets the general hint.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPayload {
    /// What happened; not blank.
    pub event_type: String,
    /// What it asks for; not blank.
    pub action_type: String,
    /// What to do, in order; empty for a notice.
    pub steps: Vec<String>,
    /// Who caused it; not blank.
    pub from: String,
    /// The facts of the event.
    pub context: Map<String, Value>,
    /// Where it comes from, such as the name of the forge; may be empty.
    pub source: String,
}

impl TaskPayload {
    /// Reads a payload.
    ///
    /// # Errors
    /// `event_type_missing`, `action_type_missing`, `steps_missing` or `from_missing` for what is absent or blank, and
    /// `type_mismatch` for another type, each with the field.
    pub fn read(value: &Value) -> Result<Self, Problem> {
        let fields = value.as_object().ok_or_else(|| mismatch("", "an object"))?;
        Ok(Self {
            event_type: word(fields, "event_type", Code::EventTypeMissing)?,
            action_type: word(fields, "action_type", Code::ActionTypeMissing)?,
            steps: steps(fields)?,
            from: word(fields, "from", Code::FromMissing)?,
            context: match fields.get("context") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(context)) => context.clone(),
                Some(_) => return Err(mismatch("context", "an object")),
            },
            source: match fields.get("source") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(source)) => source.trim().to_owned(),
                Some(_) => return Err(mismatch("source", "a text")),
            },
        })
    }
}

impl TaskPayload {
    /// The payload of the task that the service makes after a failure of the infrastructure. It is for an agent with
    /// [`INFRASTRUCTURE_ROLE`]; its facts are the context and where the failed task came from.
    #[must_use]
    pub fn of_infrastructure(
        language: Language,
        (context, source): (Map<String, Value>, String),
    ) -> Self {
        let event = EventType::InfrastructureFailure;
        Self {
            event_type: event.to_string(),
            action_type: event.action().to_string(),
            steps: steps_of(event, language, None),
            from: SYSTEM.to_owned(),
            context,
            source,
        }
    }

    /// The payload as [`TaskPayload::read`] reads it.
    pub fn to_json(&self) -> Value {
        let Self { event_type, action_type, steps, from, context, source } = self;
        json!({
            "event_type": event_type,
            "action_type": action_type,
            "steps": steps,
            "from": from,
            "context": context,
            "source": source,
        })
    }
}

fn word(fields: &Map<String, Value>, name: &str, code: Code) -> Result<String, Problem> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text.trim(),
        Some(_) => return Err(mismatch(name, "a text")),
    };
    if text.is_empty() { Err(missing(code, name)) } else { Ok(text.to_owned()) }
}

fn steps(fields: &Map<String, Value>) -> Result<Vec<String>, Problem> {
    let steps = match fields.get("steps") {
        None | Some(Value::Null) => return Err(missing(Code::StepsMissing, "steps")),
        Some(Value::Array(steps)) if steps.len() <= MAX_STEPS => steps,
        Some(Value::Array(_)) => return Err(mismatch("steps", "at most 50 steps")),
        Some(_) => return Err(mismatch("steps", "a list of texts")),
    };
    let step = |(index, step): (usize, &Value)| match step.as_str().map(str::trim) {
        Some(step) if !step.is_empty() => Ok(step.to_owned()),
        Some(_) | None => Err(mismatch(&format!("steps[{index}]"), "a text that is not blank")),
    };
    steps.iter().enumerate().map(step).collect()
}

fn missing(code: Code, name: &str) -> Problem {
    Problem::at(code, name, format!("the payload lacks `{name}`; add it"))
}

fn mismatch(name: &str, expected: &str) -> Problem {
    Problem::at(Code::TypeMismatch, name, format!("expected {expected}"))
}

words! {
    /// The kinds of entries in the history of a task.
    EntryKind {
        /// A remark.
        Note = "note",
        /// The work is given to another agent.
        Handoff = "handoff",
        /// Something that was seen.
        Observation = "observation",
        /// A review's text.
        Review = "review",
        /// The report that the task asks for.
        ActionReport = "action_report",
        /// A task without an agent was given to the one that the text names.
        Assignment = "assignment",
        /// An entry of the service.
        System = "system",
    }
}
