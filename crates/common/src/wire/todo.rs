//! Todos.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{moment, timestamp};
use crate::domain::todo::{Todo, TodoStatus};

impl TryFrom<v1::Todo> for Todo {
    type Error = MessageError;

    fn try_from(todo: v1::Todo) -> Result<Self, Self::Error> {
        let v1::Todo { id, content, required, status, dependencies, replaces, created_at } = todo;
        Ok(Self {
            id,
            content,
            required: required.unwrap_or(true),
            status: read_status(status)?,
            dependencies,
            replaces,
            created_at: created_at.map(|at| moment("created_at", at)).transpose()?,
        })
    }
}

impl From<Todo> for v1::Todo {
    fn from(todo: Todo) -> Self {
        let Todo { id, content, required, status, dependencies, replaces, created_at } = todo;
        Self {
            id,
            content,
            required: Some(required),
            status: v1::TodoStatus::from(status).into(),
            dependencies,
            replaces,
            created_at: created_at.map(timestamp),
        }
    }
}

fn read_status(number: i32) -> Result<TodoStatus, MessageError> {
    use v1::TodoStatus as Wire;
    match Wire::try_from(number) {
        Ok(Wire::Unspecified | Wire::Pending) => Ok(TodoStatus::Pending),
        Ok(Wire::InProgress) => Ok(TodoStatus::InProgress),
        Ok(Wire::Blocked) => Ok(TodoStatus::Blocked),
        Ok(Wire::Completed) => Ok(TodoStatus::Completed),
        Ok(Wire::Failed) => Ok(TodoStatus::Failed),
        Ok(Wire::Cancelled) => Ok(TodoStatus::Cancelled),
        Err(_) => Err(MessageError::at("status", Kind::UnknownEnumValue(number))),
    }
}

impl From<TodoStatus> for v1::TodoStatus {
    fn from(status: TodoStatus) -> Self {
        match status {
            TodoStatus::Pending => Self::Pending,
            TodoStatus::InProgress => Self::InProgress,
            TodoStatus::Blocked => Self::Blocked,
            TodoStatus::Completed => Self::Completed,
            TodoStatus::Failed => Self::Failed,
            TodoStatus::Cancelled => Self::Cancelled,
        }
    }
}
