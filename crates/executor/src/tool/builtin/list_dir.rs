//! `list_dir`: lists a folder.

use crate::tool::builtin::support::{blocking, count, here, returning, spec, unseen};
use crate::tool::error::ToolError;
use crate::tool::workspace::Kind;
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;

/// Lists a folder.
#[derive(Debug)]
pub struct ListDir(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    #[serde(default = "here")]
    path: String,
}

impl ListDir {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(returning(
            "src/\nCargo.toml",
            spec(
                "list_dir",
                "Lists a folder of the workspace, one name per line, sorted; folders end in `/`, \
             symbolic links in `@`.",
                Annotations::READS,
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "minLength": 1, "description": "Relative to the workspace's root; the root by default."}
                    },
                    "additionalProperties": false
                }),
            ),
        ))
    }
}

impl Tool for ListDir {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        blocking(ctx, args, work)
    }
}

fn work(ctx: &ToolContext, args: &Args) -> Result<ToolOutcome, ToolError> {
    let path = ctx.workspace()?.locate(&args.path)?;
    let name = path.text();
    let entries = match ctx.workspace()?.entries(&path) {
        Ok(entries) => entries,
        Err(error) => return Ok(unseen(name, error)),
    };
    let mut lines = String::new();
    for entry in &entries {
        let mark = match entry.kind {
            Kind::Folder => "/",
            Kind::Link => "@",
            Kind::File | Kind::Other => "",
        };
        lines.push_str(&entry.name.to_string_lossy());
        lines.push_str(mark);
        lines.push('\n');
    }
    let summary = format!("listed {name}: {}", count(entries.len() as u64, "name"));
    let fact = Fact::FileObserved { path: name, exists: true };
    Ok(ToolOutcome::done(summary, lines.into_bytes(), vec![fact]))
}
