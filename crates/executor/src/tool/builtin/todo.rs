//! `todo`: makes, changes and lists the todos of the run.

use crate::tool::builtin::support::{count, read, returning, spec as describe};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, ToolOutcome, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write;
use surety_common::domain::json::Value;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::TODO;
use surety_common::domain::todo::{MAX_ADDED, MAX_CONTENT, Todo, TodoChange, TodoStatus};

/// The tool's name.
pub const NAME: &str = TODO;

/// The characters that a list shows of one content.
const SHOWN_CHARACTERS: usize = 120;
/// The bytes of a list, below what the journal keeps of an output.
const LIST_BYTES: usize = 24 * 1024;

/// The problems that have a code of their own.
const CODES: [(Code, ErrorCode); 6] = [
    (Code::TodoNotFound, ErrorCode::TodoNotFound),
    (Code::TodoTerminal, ErrorCode::TodoTerminal),
    (Code::TodoDependencyOpen, ErrorCode::TodoDependencyOpen),
    (Code::CanceledRequiredNeedsReplacement, ErrorCode::CanceledRequiredNeedsReplacement),
    (Code::DuplicateTodoId, ErrorCode::DuplicateTodoId),
    (Code::TooLarge, ErrorCode::TooLarge),
];

#[derive(Debug, Deserialize)]
struct Args {
    #[serde(default)]
    add: Vec<New>,
    #[serde(default)]
    update: Vec<Update>,
}

#[derive(Debug, Deserialize)]
struct New {
    #[serde(default)]
    id: String,
    content: String,
    #[serde(default = "yes")]
    required: bool,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    replaces: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Update {
    id: String,
    status: String,
}

const fn yes() -> bool {
    true
}

/// Its description.
pub(in crate::tool) fn spec() -> ToolSpec {
    let statuses = TodoStatus::ALL.map(TodoStatus::as_str);
    let ids = |meaning: &str| json!({"type": "array", "items": {"type": "string", "minLength": 1}, "description": meaning});
    returning(
        "t1 [in_progress] write the parser",
        describe(
            NAME,
            "Makes todos, changes their statuses, and lists all todos of the run, those of its plan too: \
             additions first, then updates, all or none. Without arguments it only lists. A todo that is \
             completed, failed or canceled stays so. A required todo is canceled only after another required \
             one names it in `replaces`. The run is accepted only when its required todos are completed or \
             canceled. A call is no evidence for its step.",
            Annotations::READS,
            json!({
                "type": "object",
                "properties": {
                    "add": {
                        "type": "array", "maxItems": MAX_ADDED,
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string", "description": "Unique in the run; the next free one of t1, t2, ... by default."},
                                "content": {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT},
                                "required": {"type": "boolean", "description": "true by default."},
                                "dependencies": ids("Todos that must be completed before it."),
                                "replaces": ids("Todos that it replaces.")
                            },
                            "required": ["content"],
                            "additionalProperties": false
                        },
                        "description": "New todos: `content`, and where wanted `id`, `required` (true by default), `dependencies` and `replaces` (lists of ids)."
                    },
                    "update": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string", "minLength": 1},
                                "status": {"type": "string", "enum": statuses}
                            },
                            "required": ["id", "status"],
                            "additionalProperties": false
                        },
                        "description": format!("New statuses: `id` and `status`, one of {}.", statuses.join(", "))
                    }
                },
                "additionalProperties": false
            }),
        ),
    )
}

/// What the arguments change.
///
/// # Errors
/// `arguments_invalid`, which the schema excludes.
pub fn read_change(arguments: &Value) -> Result<TodoChange, ToolError> {
    let Args { add, update } = read(arguments)?;
    let trimmed = |texts: Vec<String>| texts.iter().map(|text| text.trim().to_owned()).collect();
    let add = add.into_iter().map(|new| Todo {
        id: new.id.trim().to_owned(),
        content: new.content.trim().to_owned(),
        required: new.required,
        status: TodoStatus::Pending,
        dependencies: trimmed(new.dependencies),
        replaces: trimmed(new.replaces),
        created_at: None,
    });
    let update = update.into_iter().map(|Update { id, status }| {
        let status = TodoStatus::from_text(&status).ok_or_else(|| {
            ToolError::new(ErrorCode::ArgumentsInvalid, format!("{status:?} is no status"))
        })?;
        Ok((id, status))
    });
    Ok(TodoChange { add: add.collect(), update: update.collect::<Result<_, ToolError>>()? })
}

/// The outcome of a call: what was changed, and all todos.
pub(crate) fn listed(change: &TodoChange, todos: &[Todo]) -> ToolOutcome {
    let open = todos.iter().filter(|todo| !todo.status.is_terminal()).count();
    let mut said = Vec::new();
    if !change.add.is_empty() {
        let new = todos.len().saturating_sub(change.add.len());
        let ids: Vec<&str> = todos.iter().skip(new).map(|todo| todo.id.as_str()).collect();
        said.push(format!("added {}", ids.join(", ")));
    }
    for (id, status) in &change.update {
        said.push(format!("{} is {}", id.trim(), status.as_str()));
    }
    said.push(format!("{open} open of {}", count(todos.len() as u64, "todo")));
    ToolOutcome::done(said.join("; "), list(todos).into_bytes(), Vec::new())
}

/// The failure of a change that was refused.
pub(crate) fn refused(problem: &Problem) -> ToolOutcome {
    match CODES.iter().find(|(code, _)| *code == problem.code) {
        Some((_, code)) => ToolError::new(*code, problem.message.clone()).into(),
        None => ToolError::new(ErrorCode::ArgumentsInvalid, problem.to_string()).into(),
    }
}

fn list(todos: &[Todo]) -> String {
    let mut text = String::new();
    for (place, todo) in todos.iter().enumerate() {
        if text.len() > LIST_BYTES {
            let more = todos.len().saturating_sub(place);
            writeln!(text, "and {more} more").unwrap_or_default();
            break;
        }
        // Writing to a String cannot fail, so there is no error to hand on.
        writeln!(text, "{}", line(todo)).unwrap_or_default();
    }
    text
}

/// A todo in one line.
pub(crate) fn line(todo: &Todo) -> String {
    let Todo { id, content, required, status, dependencies, replaces, created_at: _ } = todo;
    let optional = if *required { "" } else { " (optional)" };
    let mut content = content.replace(char::is_control, " ");
    if let Some((end, _)) = content.char_indices().nth(SHOWN_CHARACTERS) {
        content.truncate(end);
        content.push('…');
    }
    let mut line = format!("{id} [{}]{optional} {content}", status.as_str());
    for (word, ids) in [("after", dependencies), ("replaces", replaces)] {
        if !ids.is_empty() {
            line.push_str(&format!("; {word} {}", ids.join(", ")));
        }
    }
    line
}
