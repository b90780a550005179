//! What a call of `find_symbol` asks for.

use crate::tool::error::{ErrorCode, ToolError};
use serde::Deserialize;
use std::time::Duration;
use surety_symbols::{Name, Request, Role};

/// What a call returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    Definitions,
    Uses,
    #[default]
    All,
}

impl Wanted {
    pub(super) const fn role(self) -> Option<Role> {
        match self {
            Self::Definitions => Some(Role::Definition),
            Self::Uses => Some(Role::Use),
            Self::All => None,
        }
    }
}

/// What a call asks for.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) wanted: Wanted,
    pub(super) limit: usize,
}

impl Question {
    pub(super) fn request(&self, files: Vec<String>, time: Duration) -> Result<String, ToolError> {
        let request = Request {
            name: self.name.last.clone(),
            container: self.name.container.clone(),
            role: self.wanted.role(),
            limit: self.limit,
            files,
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        };
        serde_json::to_string(&request)
            .map_err(|error| ToolError::new(ErrorCode::InternalError, error.to_string()))
    }
}
