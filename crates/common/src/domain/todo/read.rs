//! Reads and writes todos as JSON, and validates a list of them.

use super::{Todo, TodoStatus};
use crate::domain::fields::{SparseObject, TypedFields, item_path, join};
use crate::domain::graph::{Node, find_cycle, name_cycle};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem, Warning, WarningCode};
use chrono::{DateTime, SecondsFormat, Utc};
use std::collections::HashSet;

const KEYS: &[&str] =
    &["id", "content", "required", "status", "dependencies", "replaces", "created_at"];

/// How the progress in a list of todos is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Kept: a service wrote the list.
    Kept,
    /// Ignored: the author of a plan cannot mark its work done, or date it.
    Ignored,
}

/// Reads the items of a list of todos and checks their types.
///
/// # Errors
/// `type_mismatch`, also for an invalid status or time.
pub fn read_todos(
    items: &[Value],
    path: &str,
    progress: Progress,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Todo>, Problem> {
    let items = items.iter().enumerate();
    items.map(|(at, item)| read_todo(item, &item_path(path, at), progress, warnings)).collect()
}

fn read_todo(
    value: &Value,
    path: &str,
    progress: Progress,
    warnings: &mut Vec<Warning>,
) -> Result<Todo, Problem> {
    let fields = TypedFields::of(value, path, KEYS, warnings)?;
    let id = fields.id("id", warnings)?;
    let content = fields.text("content")?;
    let required = fields.truth("required", true)?;
    let mut todo = Todo {
        id,
        content,
        required,
        status: TodoStatus::Pending,
        dependencies: Vec::new(),
        replaces: Vec::new(),
        created_at: None,
    };
    match progress {
        Progress::Kept => {
            todo.status = read_status(&fields)?;
            todo.created_at = read_moment(&fields)?;
        }
        Progress::Ignored if fields.has("status") => {
            let status = fields.path("status");
            warnings.push(Warning::at(WarningCode::StatusIgnored, status));
        }
        Progress::Ignored => {}
    }
    todo.dependencies = fields.dependencies("dependencies", warnings)?;
    todo.replaces = fields.ids("replaces", warnings)?;
    Ok(todo)
}

fn read_status(fields: &TypedFields<'_>) -> Result<TodoStatus, Problem> {
    let word = fields.text("status")?;
    if word.is_empty() {
        return Ok(TodoStatus::Pending);
    }
    TodoStatus::from_text(&word).ok_or_else(|| {
        let known = TodoStatus::ALL.map(TodoStatus::as_str).join(", ");
        let message = format!("{word:?} is not a todo status; use one of {known}");
        Problem::at(Code::TypeMismatch, fields.path("status"), message)
    })
}

fn read_moment(fields: &TypedFields<'_>) -> Result<Option<DateTime<Utc>>, Problem> {
    let text = fields.text("created_at")?;
    if text.is_empty() {
        return Ok(None);
    }
    let moment = DateTime::parse_from_rfc3339(&text).map_err(|error| {
        let message = format!("expected a time such as 2026-01-31T12:00:00Z: {error}");
        Problem::at(Code::TypeMismatch, fields.path("created_at"), message)
    })?;
    Ok(Some(moment.to_utc()))
}

/// Validates a list of todos: ids, then dependencies.
///
/// # Errors
/// `field_missing` for a todo without an id, `duplicate_todo_id`, `unknown_dependency`,
/// `self_dependency`, `dependency_cycle`, in this order.
pub fn validate_todos(todos: &[Todo], path: &str) -> Result<(), Problem> {
    let at = |at: usize, key: &str| join(&item_path(path, at), key);
    let mut ids = HashSet::new();
    if let Some(nameless) = todos.iter().position(|todo| todo.id.is_empty()) {
        let message = "a todo has no id; give it one";
        return Err(Problem::at(Code::FieldMissing, at(nameless, "id"), message));
    }
    if let Some(twice) = todos.iter().position(|todo| !ids.insert(todo.id.as_str())) {
        let message = "two todos have this id; use each id once";
        return Err(Problem::at(Code::DuplicateTodoId, at(twice, "id"), message));
    }
    let wrong = |wanted: &dyn Fn(&Todo, &str) -> bool| {
        let depends = |todo: &Todo| todo.dependencies.iter().any(|id| wanted(todo, id));
        todos.iter().position(depends)
    };
    if let Some(unknown) = wrong(&|_, id| !ids.contains(id)) {
        let message = "the todo depends on an id that no todo has";
        let path = at(unknown, "dependencies");
        return Err(Problem::at(Code::UnknownDependency, path, message));
    }
    if let Some(itself) = wrong(&|todo, id| todo.id == id) {
        let message = "the todo depends on itself";
        let path = at(itself, "dependencies");
        return Err(Problem::at(Code::SelfDependency, path, message));
    }
    let nodes: Vec<Node<'_>> =
        todos.iter().map(|todo| (todo.id.as_str(), &todo.dependencies[..])).collect();
    find_cycle(&nodes).map_or(Ok(()), |cycle| {
        let message = format!("todos depend on each other: {}", name_cycle(&cycle));
        Err(Problem::at(Code::DependencyCycle, path, message))
    })
}

/// The todo in the form of [`read_todos`]; default values are omitted.
pub fn todo_to_json(todo: &Todo) -> Value {
    let Todo { id, content, required, status, dependencies, replaces, created_at } = todo;
    SparseObject::default()
        .text("id", id)
        .text("content", content)
        .truth("required", *required, true)
        .text("status", status_word(*status))
        .texts("dependencies", dependencies)
        .texts("replaces", replaces)
        .text("created_at", &created_at.map(moment_text).unwrap_or_default())
        .build()
}

/// Empty for the initial status.
const fn status_word(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "",
        TodoStatus::InProgress
        | TodoStatus::Blocked
        | TodoStatus::Completed
        | TodoStatus::Failed
        | TodoStatus::Cancelled => status.as_str(),
    }
}

fn moment_text(moment: DateTime<Utc>) -> String {
    moment.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::parse;

    fn read(text: &str, progress: Progress) -> Result<Vec<Todo>, Problem> {
        let value = parse(text).unwrap().value;
        read_todos(value.as_array().unwrap(), "todos", progress, &mut Vec::new())
    }

    #[test]
    fn a_list_of_todos_is_wrong_in_one_fixed_order() {
        for (text, code, field) in [
            (r#"[{"id":"a","dependencies":["z"]},{"id":" "}]"#, Code::FieldMissing, "todos[1].id"),
            (
                r#"[{"id":"甲","dependencies":["z"]},{"id":" 甲"}]"#,
                Code::DuplicateTodoId,
                "todos[1].id",
            ),
            (
                r#"[{"id":1,"dependencies":[1]},{"id":"b","dependencies":["z"]}]"#,
                Code::UnknownDependency,
                "todos[1].dependencies",
            ),
            (r#"[{"id":1,"dependencies":["1"]}]"#, Code::SelfDependency, "todos[0].dependencies"),
            (
                r#"[{"id":"a","dependencies":["b"]},{"id":"b","dependencies":["a"]}]"#,
                Code::DependencyCycle,
                "todos",
            ),
        ] {
            let todos = read(text, Progress::Kept).unwrap();
            let problem = validate_todos(&todos, "todos").unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some(field)), "{text}");
        }
    }

    #[test]
    fn a_status_or_a_moment_that_is_none_is_refused_where_it_counts() {
        for text in
            [r#"[{"id":"a","status":"finished"}]"#, r#"[{"id":"a","created_at":"gestern"}]"#]
        {
            assert_eq!(read(text, Progress::Kept).unwrap_err().code, Code::TypeMismatch);
            let todos = read(text, Progress::Ignored).unwrap();
            assert_eq!((todos[0].status, todos[0].created_at), (TodoStatus::Pending, None));
        }
    }
}
