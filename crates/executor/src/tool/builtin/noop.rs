//! `noop`: does nothing, successfully.

use crate::tool::builtin::spec;
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::{self, BoxFuture, FutureExt};
use serde_json::json;
use surety_common::domain::json::Value;

/// Does nothing; for examples, and for measuring everything around a tool.
#[derive(Debug)]
pub struct Noop(ToolSpec);

impl Noop {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(spec(
            "noop",
            "Does nothing and succeeds.",
            Annotations::READS,
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ))
    }
}

impl Tool for Noop {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _ctx: &'a ToolContext, _args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        future::ready(ToolOutcome::done("did nothing", Vec::new(), Vec::new())).boxed()
    }
}
