//! The todos of a run: the plan's own with their present statuses, and those that drivers made.
//!
//! ```text
//!   plan revision: its own todos ----+
//!                                    +--> current --> shown, counted by the gate
//!   row: statuses, added todos ------+
//! ```

use super::work::move_todo;
use super::{Todo, TodoStatus, validate_todos};
use crate::domain::problem::{Code, Problem};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The most todos that drivers make in one run. The row is written anew with every turn.
pub const MAX_ADDED: usize = 64;
/// The most characters of the content of such a todo.
pub const MAX_CONTENT: usize = 300;
/// The most characters of the id of such a todo, and the most ids that it depends on or replaces.
const MAX_ID: usize = 64;
const MAX_RELATED: usize = 16;

/// What the row of a run keeps of its todos.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunTodos {
    /// The statuses of the plan's own todos, by id, where they are not pending any more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    moved: BTreeMap<String, TodoStatus>,
    /// The todos that drivers made, in the order of their making.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<AddedTodo>,
}

/// A todo that a driver made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AddedTodo {
    /// The plan revision under which it was made.
    revision: u32,
    #[serde(flatten)]
    todo: Todo,
}

/// What a driver changes. Additions come first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TodoChange {
    /// New todos. One without an id is given one.
    pub add: Vec<Todo>,
    /// Statuses by id, in this order.
    pub update: Vec<(String, TodoStatus)>,
}

impl RunTodos {
    /// Whether no todo was made or changed.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.added.is_empty()
    }

    /// The present todos: `own` ones of the plan, then those that drivers made. An id that a later
    /// revision of the plan uses too is the plan's.
    pub fn current(&self, own: &[Todo]) -> Vec<Todo> {
        let added = self.added_beside(own).map(|added| added.todo.clone());
        self.of_plan(own).chain(added).collect()
    }

    /// The present todos that a verdict on a plan revision depends on: the plan's own, and those that
    /// were made under it.
    pub fn counted(&self, own: &[Todo], revision: u32) -> Vec<Todo> {
        let added = self.added_beside(own).filter(|added| added.revision >= revision);
        self.of_plan(own).chain(added.map(|added| added.todo.clone())).collect()
    }

    fn of_plan<'a>(&'a self, own: &'a [Todo]) -> impl Iterator<Item = Todo> + 'a {
        own.iter().map(|todo| {
            let status = self.moved.get(&todo.id).copied().unwrap_or(todo.status);
            Todo { status, ..todo.clone() }
        })
    }

    fn added_beside<'a>(&'a self, own: &'a [Todo]) -> impl Iterator<Item = &'a AddedTodo> {
        let is_own = |id: &str| own.iter().any(|todo| todo.id == id);
        self.added.iter().filter(move |added| !is_own(&added.todo.id))
    }

    /// Makes and changes todos, all or none. `own` are the todos of the plan, which has this
    /// `revision`.
    ///
    /// # Errors
    /// `field_missing` for a blank content; `too_large` beyond [`MAX_ADDED`], [`MAX_CONTENT`] and the
    /// bounds of ids; the errors of [`validate_todos`]; for updates `todo_not_found`, `todo_terminal`,
    /// `todo_dependency_open`, `canceled_required_needs_replacement`.
    pub fn apply(
        &mut self,
        (own, revision): (&[Todo], u32),
        now: DateTime<Utc>,
        change: &TodoChange,
    ) -> Result<(), Problem> {
        let before = self.current(own).len();
        let mut all = self.current(own);
        for todo in &change.add {
            let todo = made(todo, &all, now)?;
            all.push(todo);
        }
        if self.added.len().saturating_add(change.add.len()) > MAX_ADDED {
            let message = format!("a run has at most {MAX_ADDED} todos beside its plan's");
            return Err(Problem::at(Code::TooLarge, "add", message));
        }
        if !change.add.is_empty() {
            validate_todos(&all, "todos")?;
        }
        for (id, status) in &change.update {
            move_todo(&mut all, id, *status)?;
        }
        self.keep(own, revision, before, all);
        Ok(())
    }

    /// Keeps what differs from the plan. The todos from `before` on are new.
    fn keep(&mut self, own: &[Todo], revision: u32, before: usize, all: Vec<Todo>) {
        for (place, todo) in all.into_iter().enumerate() {
            if let Some(planned) = own.get(place) {
                if todo.status == planned.status {
                    self.moved.remove(&todo.id);
                } else {
                    self.moved.insert(todo.id, todo.status);
                }
            } else if place >= before {
                self.added.push(AddedTodo { revision, todo });
            } else if let Some(added) = self.added.iter_mut().find(|one| one.todo.id == todo.id) {
                added.todo.status = todo.status;
            }
        }
    }
}

/// A new todo as it is kept: pending, dated, with an id.
fn made(todo: &Todo, all: &[Todo], now: DateTime<Utc>) -> Result<Todo, Problem> {
    let Todo { id, content, required, dependencies, replaces, .. } = todo;
    if content.is_empty() {
        let message = "a todo has no content; say what is to be done";
        return Err(Problem::at(Code::FieldMissing, "add", message));
    }
    let ids = || std::iter::once(id).chain(dependencies).chain(replaces);
    let too_long = content.chars().count() > MAX_CONTENT
        || ids().any(|id| id.chars().count() > MAX_ID)
        || dependencies.len().max(replaces.len()) > MAX_RELATED;
    if too_long {
        let message = format!(
            "a todo has at most {MAX_CONTENT} characters of content, ids of {MAX_ID} characters, and \
             {MAX_RELATED} ids in a list"
        );
        return Err(Problem::at(Code::TooLarge, "add", message));
    }
    Ok(Todo {
        id: if id.is_empty() { free_id(all) } else { id.clone() },
        content: content.clone(),
        required: *required,
        status: TodoStatus::Pending,
        dependencies: dependencies.clone(),
        replaces: replaces.clone(),
        created_at: Some(now),
    })
}

/// `t1`, `t2`, and so on: the first that no todo has.
fn free_id(all: &[Todo]) -> String {
    let taken: HashSet<&str> = all.iter().map(|todo| todo.id.as_str()).collect();
    (1..)
        .map(|number: u32| format!("t{number}"))
        .find(|id| !taken.contains(id.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TodoStatus::{Cancelled, Completed, InProgress, Pending};

    fn todo(id: &str, dependencies: &[&str]) -> Todo {
        Todo {
            id: id.into(),
            content: format!("do {id}"),
            required: true,
            status: Pending,
            dependencies: dependencies.iter().map(ToString::to_string).collect(),
            replaces: Vec::new(),
            created_at: None,
        }
    }

    fn adding(todos: &[Todo]) -> TodoChange {
        TodoChange { add: todos.to_vec(), update: Vec::new() }
    }

    fn setting(id: &str, status: TodoStatus) -> TodoChange {
        TodoChange { add: Vec::new(), update: vec![(id.to_owned(), status)] }
    }

    fn statuses(todos: &[Todo]) -> Vec<(&str, TodoStatus)> {
        todos.iter().map(|todo| (todo.id.as_str(), todo.status)).collect()
    }

    #[test]
    fn what_drivers_change_lies_over_the_plan_and_comes_back_from_the_row() {
        let own = [todo("a", &[]), todo("b", &["a"])];
        let now = DateTime::UNIX_EPOCH;
        let mut todos = RunTodos::default();
        assert!(todos.is_empty());
        todos.apply((&own, 1), now, &setting("a", Completed)).unwrap();
        todos.apply((&own, 1), now, &adding(&[todo("", &["b"]), todo("x", &[])])).unwrap();
        todos.apply((&own, 1), now, &setting("b", InProgress)).unwrap();
        todos.apply((&own, 1), now, &setting("x", Completed)).unwrap();
        let expected = [("a", Completed), ("b", InProgress), ("t1", Pending), ("x", Completed)];
        assert_eq!(statuses(&todos.current(&own)), expected);
        let text = serde_json::to_string(&todos).unwrap();
        assert_eq!(serde_json::from_str::<RunTodos>(&text).unwrap(), todos, "{text}");
    }

    #[test]
    fn a_verdict_counts_the_plans_own_todos_and_those_made_under_it() {
        let own = [todo("a", &[])];
        let mut todos = RunTodos::default();
        todos.apply((&own, 1), DateTime::UNIX_EPOCH, &adding(&[todo("old", &[])])).unwrap();
        todos.apply((&own, 2), DateTime::UNIX_EPOCH, &adding(&[todo("new", &[])])).unwrap();
        assert_eq!(statuses(&todos.counted(&own, 2)), [("a", Pending), ("new", Pending)]);
        assert_eq!(todos.current(&own).len(), 3);
    }

    #[test]
    fn an_id_that_a_later_plan_uses_too_is_the_plans() {
        let mut todos = RunTodos::default();
        todos.apply((&[], 1), DateTime::UNIX_EPOCH, &adding(&[todo("x", &[])])).unwrap();
        todos.apply((&[], 1), DateTime::UNIX_EPOCH, &setting("x", Completed)).unwrap();
        let own = [todo("x", &[])];
        assert_eq!(statuses(&todos.current(&own)), [("x", Pending)]);
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let own = [todo("a", &[]), todo("b", &["a"])];
        let mut blank = todo("c", &[]);
        blank.content = String::new();
        let mut long = todo("c", &[]);
        long.content = "字".repeat(MAX_CONTENT + 1);
        for (change, code) in [
            (adding(&[todo("c", &[]), todo("a", &[])]), Code::DuplicateTodoId),
            (adding(&[todo("c", &["z"])]), Code::UnknownDependency),
            (adding(&[todo("c", &["d"]), todo("d", &["c"])]), Code::DependencyCycle),
            (adding(&[blank]), Code::FieldMissing),
            (adding(&[long]), Code::TooLarge),
            (adding(&vec![todo("", &[]); MAX_ADDED + 1]), Code::TooLarge),
            (setting("z", Completed), Code::TodoNotFound),
            (setting("b", InProgress), Code::TodoDependencyOpen),
            (setting("a", Cancelled), Code::CanceledRequiredNeedsReplacement),
        ] {
            let mut todos = RunTodos::default();
            let refused = todos.apply((&own, 1), DateTime::UNIX_EPOCH, &change).unwrap_err();
            assert_eq!(refused.code, code);
            assert!(todos.is_empty());
        }
    }
}
