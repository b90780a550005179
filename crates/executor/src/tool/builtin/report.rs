//! `submit_action_report`: the report of a task, by the driver that works on it.

use crate::tool::builtin::support::{read, spec};
use crate::tool::error::ToolError;
use crate::tool::{Annotations, NewReport, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::Value;

/// The longest report, in characters. In bytes it stays below the longest one of a call of the API.
const LONGEST: u32 = 16_000;
/// The most links, and the longest one in characters.
const MOST_LINKS: u32 = 50;
const LONGEST_LINK: u32 = 500;

/// Writes a row of the task once for each call.
const WRITES: Annotations =
    Annotations { read_only: false, destructive: false, idempotent: true, open_world: false };

/// The tool.
#[derive(Debug)]
pub struct SubmitReport {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Args {
    report: String,
    #[serde(default)]
    links: Vec<String>,
}

impl SubmitReport {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "report": {
                    "type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": "[^\\s]",
                    "description": "What was done, which files changed and how, and the state on the forge (the CI run, \
                                    the submitted review)."
                },
                "links": {
                    "type": "array", "maxItems": MOST_LINKS,
                    "items": {"type": "string", "maxLength": LONGEST_LINK},
                    "description": "Addresses that show it."
                },
            },
            "required": ["report"], "additionalProperties": false,
        });
        let description = "Submits the action report of the task that the run is, as its assignee. Call it when every \
                           step is carried out, and end the step then.";
        Self { spec: spec("submit_action_report", description, WRITES, schema) }
    }
}

impl Default for SubmitReport {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for SubmitReport {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { submit(ctx, args).await.unwrap_or_else(ToolOutcome::from) })
    }

    /// It writes a row of the task, and nothing in the workspace.
    fn reports_writes(&self) -> bool {
        true
    }

    fn runs_code(&self) -> bool {
        false
    }
}

async fn submit(ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
    let Args { report, links } = read(args)?;
    let report = NewReport { call_id: ctx.call_id, text: report.trim().to_owned(), links };
    ctx.forge.report(report).await?;
    let said = "the action report is stored; end the step".to_owned();
    Ok(ToolOutcome::done(said.clone(), said.into_bytes(), Vec::new()))
}
