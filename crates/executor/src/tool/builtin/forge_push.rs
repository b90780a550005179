//! `forge_push`: the work on a task goes to the branch of its event, by the assignee's own account.
//!
//! The run's clone has it, so the step loop makes the call. No argument names a branch.

use crate::tool::builtin::support::{read, spec};
use crate::tool::error::ToolError;
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec, unavailable};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::Value;

/// The name of the tool.
pub const NAME: &str = "forge_push";
/// A repeated call finds the commit on the branch, and pushes nothing.
const PUSHES: Annotations =
    Annotations { read_only: false, destructive: false, idempotent: true, open_world: true };

/// The tool.
#[derive(Debug)]
pub struct ForgePush {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Args {
    message: String,
}

/// The message of the commit.
///
/// # Errors
/// `arguments_invalid`
pub fn message_of(args: &Value) -> Result<String, ToolError> {
    let Args { message } = read(args)?;
    Ok(message.trim().to_owned())
}

impl ForgePush {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "message": {
                    "type": "string", "minLength": 1, "maxLength": 4_000, "pattern": "[^\\s]",
                    "description": "The message of the commit: what was changed, and why."
                },
            },
            "required": ["message"], "additionalProperties": false,
        });
        let description = "Commits all changes of the workspace and pushes them to the branch of the task, by the \
                           assignee's own account: that of its pull request, that of its build, or the new branch \
                           fix/N-TITLE of its issue or fix/deployment-COMMIT of its deployment, with digits of the \
                           run behind it where that has other work.";
        Self { spec: spec(NAME, description, PUSHES, schema) }
    }
}

impl Default for ForgePush {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for ForgePush {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async { unavailable("only a task with a clone of its repository pushes").into() })
    }

    /// It acts on a forge, and writes nothing in the workspace.
    fn reports_writes(&self) -> bool {
        true
    }

    fn runs_code(&self) -> bool {
        false
    }
}
