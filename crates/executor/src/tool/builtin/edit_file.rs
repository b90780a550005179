//! `edit_file`: replaces a piece of a file's text.

use crate::tool::builtin::read_file::as_text;
use crate::tool::builtin::support::{blocking, count, read, returning, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, Effect, RelPath, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::{Value, sha256_hex};

/// The largest file that is edited, in bytes, because an edit holds it in memory twice.
const EDIT_LIMIT: u64 = 16 << 20;

/// Edits a file.
#[derive(Debug)]
pub struct EditFile(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

struct Edit {
    path: RelPath,
    before: String,
    after: String,
    places: u64,
}

impl EditFile {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        let annotations = Annotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: false,
        };
        Self(returning(
            "changed src/a.rs",
            spec(
                "edit_file",
                "Replaces `old_text` in a text file of the workspace by `new_text`. The file must contain \
             the old text exactly once, unless `replace_all` is true.",
                annotations,
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "minLength": 1, "description": "Relative to the workspace's root."},
                        "old_text": {"type": "string", "minLength": 1},
                        "new_text": {"type": "string"},
                        "replace_all": {"type": "boolean", "description": "Replace every occurrence; false by default."}
                    },
                    "required": ["path", "old_text", "new_text"],
                    "additionalProperties": false
                }),
            ),
        ))
    }
}

impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn intend(&self, ctx: &ToolContext, args: &Value) -> Result<Effect, ToolError> {
        let edit = prepare(ctx, &read(args)?)?;
        ctx.workspace()?.place_to_write(&edit.path, &ctx.write_scope)?;
        Ok(Effect::Write {
            path: edit.path.text(),
            before_digest: Some(sha256_hex(edit.before.as_bytes())),
            after_digest: Some(sha256_hex(edit.after.as_bytes())),
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
    let edit = prepare(ctx, args)?;
    let written = ctx.workspace()?.write(&edit.path, edit.after.as_bytes(), &ctx.write_scope)?;
    let places = count(edit.places, "place");
    let summary = format!("edited {} in {places}", edit.path.text());
    Ok(ToolOutcome::done(summary, Vec::new(), written.facts()))
}

fn prepare(ctx: &ToolContext, args: &Args) -> Result<Edit, ToolError> {
    let path = ctx.workspace()?.locate(&args.path)?;
    let before = as_text(&path, ctx.workspace()?.read(&path, EDIT_LIMIT)?)?;
    let places = before.matches(&args.old_text).count() as u64;
    if args.old_text.is_empty() || places == 0 {
        let message = format!(
            "{} does not contain old_text; read the file and copy the text exactly",
            path.text()
        );
        return Err(ToolError::new(ErrorCode::TextNotFound, message));
    }
    if places > 1 && !args.replace_all {
        let message = format!(
            "old_text occurs {places} times in {}; include more of the surrounding text, or set replace_all",
            path.text()
        );
        return Err(ToolError::new(ErrorCode::TextNotUnique, message));
    }
    let after = before.replace(&args.old_text, &args.new_text);
    Ok(Edit { path, before, after, places })
}
