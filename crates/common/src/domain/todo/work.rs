//! How the status of todos changes while a run proceeds.
//!
//! ```text
//!   pending <-> in_progress <-> blocked     any of them -> completed | failed | cancelled (final)
//! ```

use super::{Todo, TodoStatus};
use crate::domain::problem::{Code, Problem};

/// The ids of the todos without a terminal status, in order.
fn active_ids(todos: &[Todo]) -> Vec<&str> {
    let active = todos.iter().filter(|todo| !todo.status.is_terminal());
    active.map(|todo| todo.id.as_str()).collect()
}

/// Sets the status of a todo. Setting the same status again changes nothing, so a call may be
/// repeated.
///
/// # Errors
/// `todo_not_found`, which lists the active ids; `todo_terminal`; `todo_dependency_open` when it would be
/// begun or completed before what it depends on; `canceled_required_needs_replacement` when a required todo would be cancelled without another
/// required todo, not cancelled, that names it in `replaces`.
pub(super) fn move_todo(todos: &mut [Todo], id: &str, to: TodoStatus) -> Result<(), Problem> {
    let id = id.trim();
    let Some(at) = todos.iter().position(|todo| todo.id == id) else {
        let active = active_ids(todos).join(", ");
        let message = format!("no todo has the id {id:?}; the active ids are: {active}");
        return Err(Problem::at(Code::TodoNotFound, "id", message));
    };
    let replaced = is_replaced(todos, id);
    let open = open_dependencies(todos, at).join(", ");
    let Some(todo) = todos.get_mut(at) else {
        return Ok(());
    };
    if todo.status == to {
        return Ok(());
    }
    if todo.status.is_terminal() {
        let message = format!("the todo {id:?} is {}, which is final", todo.status.as_str());
        return Err(Problem::at(Code::TodoTerminal, "status", message));
    }
    if to == TodoStatus::Cancelled && todo.required && !replaced {
        let message = format!(
            "the todo {id:?} is required; write another required one that names it in replaces, \
             then cancel it"
        );
        let code = Code::CanceledRequiredNeedsReplacement;
        return Err(Problem::at(code, "status", message));
    }
    if matches!(to, TodoStatus::InProgress | TodoStatus::Completed) && !open.is_empty() {
        let message = format!("the todo {id:?} depends on {open}; complete that first");
        return Err(Problem::at(Code::TodoDependencyOpen, "status", message));
    }
    todo.status = to;
    Ok(())
}

/// The ids that a todo depends on and that are not converged.
fn open_dependencies(todos: &[Todo], at: usize) -> Vec<String> {
    let converged = |status| matches!(status, TodoStatus::Completed | TodoStatus::Cancelled);
    let is_open =
        |id: &&String| todos.iter().any(|todo| todo.id == **id && !converged(todo.status));
    let needed = todos.get(at).map_or(&[][..], |todo| &todo.dependencies);
    needed.iter().filter(is_open).cloned().collect()
}

/// A cancelled todo replaces nothing: otherwise two that name each other could both be cancelled.
fn is_replaced(todos: &[Todo], id: &str) -> bool {
    todos.iter().any(|todo| {
        todo.id != id
            && todo.required
            && todo.status != TodoStatus::Cancelled
            && todo.replaces.iter().any(|replaced| replaced == id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use TodoStatus::{Cancelled, Completed, Failed, InProgress, Pending};

    fn todo(id: &str, status: TodoStatus, replaces: &[&str]) -> Todo {
        Todo {
            id: id.into(),
            content: String::new(),
            required: true,
            status,
            dependencies: Vec::new(),
            replaces: replaces.iter().map(|id| (*id).into()).collect(),
            created_at: None,
        }
    }

    fn code(todos: &mut [Todo], id: &str, to: TodoStatus) -> Option<Code> {
        move_todo(todos, id, to).err().map(|problem| problem.code)
    }

    #[test]
    fn a_terminal_todo_is_frozen_and_an_active_one_moves_freely() {
        for terminal in [Completed, Failed, Cancelled] {
            for to in TodoStatus::ALL {
                let mut todos = [todo("t", terminal, &[])];
                let refused = (to != terminal).then_some(Code::TodoTerminal);
                assert_eq!(code(&mut todos, "t", to), refused);
                assert_eq!(todos[0].status, terminal);
            }
        }
        let mut todos = [todo("t", Pending, &[])];
        for to in [InProgress, TodoStatus::Blocked, Pending, InProgress, Completed] {
            assert_eq!(code(&mut todos, "t", to), None);
            assert_eq!(todos[0].status, to);
        }
    }

    #[test]
    fn an_unknown_id_is_answered_with_the_active_ids() {
        let mut todos =
            [todo("a", Completed, &[]), todo("b", Pending, &[]), todo("丙", Pending, &[])];
        let problem = move_todo(&mut todos, "zz", Completed).unwrap_err();
        assert_eq!(problem.code, Code::TodoNotFound);
        assert!(problem.message.ends_with("the active ids are: b, 丙"), "{problem}");
    }

    #[test]
    fn a_required_todo_is_canceled_only_for_another_required_one() {
        let refused = Some(Code::CanceledRequiredNeedsReplacement);
        assert_eq!(code(&mut [todo("a", Pending, &[])], "a", Cancelled), refused);
        assert_eq!(code(&mut [todo("a", Pending, &["a"])], "a", Cancelled), refused);
        let mut optional = [todo("a", Pending, &[]), todo("b", Pending, &["a"])];
        optional[1].required = false;
        assert_eq!(code(&mut optional, "a", Cancelled), refused);
        assert_eq!(code(&mut optional, "b", Cancelled), None);
        let mut replaced = [todo("a", InProgress, &[]), todo("b", Pending, &["a"])];
        assert_eq!(code(&mut replaced, "a", Cancelled), None);
    }

    #[test]
    fn two_todos_that_replace_each_other_cannot_both_be_canceled() {
        let mut todos = [todo("a", Pending, &["b"]), todo("b", Pending, &["a"])];
        assert_eq!(code(&mut todos, "a", Cancelled), None);
        assert_eq!(code(&mut todos, "b", Cancelled), Some(Code::CanceledRequiredNeedsReplacement));
    }
}
