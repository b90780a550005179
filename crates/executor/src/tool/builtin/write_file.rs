//! `write_file`: writes a whole file.

use crate::tool::builtin::support::{blocking, count, read, returning, spec};
use crate::tool::error::ToolError;
use crate::tool::{Annotations, Effect, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::{Value, sha256_hex};

/// Writes a file.
#[derive(Debug)]
pub struct WriteFile(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    path: String,
    content: String,
}

impl WriteFile {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        let annotations = Annotations {
            read_only: false,
            destructive: true,
            idempotent: true,
            open_world: false,
        };
        Self(returning(
            "created src/a.rs",
            spec(
                "write_file",
                "Writes a whole text file of the workspace, new or replacing an existing one; missing \
             folders are created.",
                annotations,
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "minLength": 1, "description": "Relative to the workspace's root."},
                        "content": {"type": "string", "description": "The file's new content."}
                    },
                    "required": ["path", "content"],
                    "additionalProperties": false
                }),
            ),
        ))
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn intend(&self, ctx: &ToolContext, args: &Value) -> Result<Effect, ToolError> {
        let args: Args = read(args)?;
        let path = ctx.workspace()?.locate(&args.path)?;
        ctx.workspace()?.place_to_write(&path, &ctx.write_scope)?;
        Ok(Effect::Write {
            path: path.text(),
            before_digest: ctx.workspace()?.digest(&path)?,
            after_digest: Some(sha256_hex(args.content.as_bytes())),
        })
    }

    fn reports_writes(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        blocking(ctx, args, work)
    }
}

fn work(ctx: &ToolContext, args: &Args) -> Result<ToolOutcome, ToolError> {
    let path = ctx.workspace()?.locate(&args.path)?;
    let written = ctx.workspace()?.write(&path, args.content.as_bytes(), &ctx.write_scope)?;
    let verb = match written.before_digest {
        None => "created",
        Some(_) => "wrote",
    };
    let bytes = count(args.content.len() as u64, "byte");
    let summary = format!("{verb} {}: {bytes}", path.text());
    Ok(ToolOutcome::done(summary, Vec::new(), written.facts()))
}
