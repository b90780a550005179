//! `glob`: finds files whose paths match a pattern.

use crate::tool::builtin::support::{
    blocking, count, folder_key, here, returning, scanning, spec, unread_note,
};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::scan::{self, Ignores};
use crate::tool::workspace::Kind;
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::json;
use std::path::{Component, Path};
use surety_common::domain::json::Value;

/// Finds files by their paths.
#[derive(Debug)]
pub struct Glob(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    pattern: String,
    #[serde(default = "here")]
    path: String,
}

impl Glob {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(returning(
            "src/a.rs\nsrc/b.rs",
            scanning(spec(
                "glob",
                "Finds files of the workspace whose paths match a glob, such as `src/**/*.rs` (`*` \
             stays inside one folder, `**` does not). Returns paths relative to the workspace's \
             root, one per line, sorted. Skips files that .gitignore names, and folders of build outputs \
             and dependencies.",
                Annotations::READS,
                json!({
                    "type": "object",
                    "properties": {
                        "pattern": {"type": "string", "minLength": 1, "description": "Relative to `path`."},
                        "path": {"type": "string", "minLength": 1, "description": "The folder to search; the root by default."}
                    },
                    "required": ["pattern"],
                    "additionalProperties": false
                }),
            )),
        ))
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        blocking(ctx, args, work)
    }

    fn scanned_folder(&self, args: &Value) -> Option<String> {
        Some(folder_key(args.get("path")))
    }
}

fn work(ctx: &ToolContext, args: &Args) -> Result<ToolOutcome, ToolError> {
    let start = ctx.workspace()?.locate(&args.path)?;
    let matcher = compile(&args.pattern)?;
    let (mut lines, mut found) = (String::new(), 0);
    let unread = scan::walk(ctx.workspace()?.as_ref(), &start, Ignores::Gitignore, &mut |file| {
        ctx.check()?;
        let path = file.path.as_path();
        let below = path.strip_prefix(start.as_path()).unwrap_or(path);
        if file.kind == Kind::File && matcher.is_match(below) {
            found += 1;
            lines.push_str(&file.path.text());
            lines.push('\n');
        }
        Ok(())
    })?;
    let next = match found {
        0 => "; `**/` in front searches all folders, and list_dir shows what is there",
        _ => "",
    };
    let unread = unread_note(unread);
    let summary = format!("{} fit {}{unread}{next}", count(found, "file"), args.pattern);
    Ok(ToolOutcome::done(summary, lines.into_bytes(), Vec::new()))
}

/// Compiles a glob that stays below its search folder.
pub(super) fn compile(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let leaves = |component| !matches!(component, Component::Normal(_) | Component::CurDir);
    if Path::new(pattern).components().any(leaves) {
        return Err(ToolError::outside(pattern));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::new(ErrorCode::PatternInvalid, error.to_string()))
}
