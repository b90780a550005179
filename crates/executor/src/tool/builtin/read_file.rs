//! `read_file`: reads a text file, whole or some lines of it.

use crate::tool::builtin::support::{OUTPUT_LIMIT, blocking, count, returning, spec, unseen};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, RelPath, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    path: String,
    #[serde(default = "first_line")]
    offset: u64,
    limit: Option<u64>,
}

fn first_line() -> u64 {
    1
}

impl ReadFile {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(returning(
            "the text of the file",
            spec(
                "read_file",
                "Reads a UTF-8 text file of the workspace: all of it, or `limit` lines from line \
             `offset` on. The output is the text itself.",
                Annotations::READS,
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "minLength": 1, "description": "Relative to the workspace's root."},
                        "offset": {"type": "integer", "minimum": 1, "description": "The first line to read, from 1."},
                        "limit": {"type": "integer", "minimum": 1, "description": "The number of lines."}
                    },
                    "required": ["path"],
                    "additionalProperties": false
                }),
            ),
        ))
    }
}

impl Tool for ReadFile {
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
    let text = match read_lines(ctx, &path, args) {
        Ok(text) => text,
        Err(error) => return Ok(unseen(name, error)),
    };
    let lines = count(text.lines().count() as u64, "line");
    let bytes = count(text.len() as u64, "byte");
    let fact = Fact::FileObserved { path: name.clone(), exists: true };
    let summary = format!("read {name}: {lines}, {bytes}");
    Ok(ToolOutcome::done(summary, text.into_bytes(), vec![fact]))
}

fn read_lines(ctx: &ToolContext, path: &RelPath, args: &Args) -> Result<String, ToolError> {
    let mut reader = BufReader::new(ctx.workspace()?.open_file(path)?);
    let end = args.offset.saturating_add(args.limit.unwrap_or(u64::MAX));
    let (mut line, mut text, mut piece) = (1, Vec::new(), Vec::new());
    while line < end {
        piece.clear();
        // A line may be as long as the file, so it is read in chunks of limited size.
        let count = (&mut reader)
            .take(1 << 20)
            .read_until(b'\n', &mut piece)
            .map_err(|error| ToolError::io(path.text(), &error))?;
        if count == 0 {
            break;
        }
        if line >= args.offset {
            text.extend_from_slice(&piece);
        }
        if text.len() > OUTPUT_LIMIT {
            let message = format!(
                "{} is longer than {OUTPUT_LIMIT} bytes; read fewer lines with offset and limit",
                path.text()
            );
            return Err(ToolError::new(ErrorCode::TooLarge, message));
        }
        if piece.ends_with(b"\n") {
            line += 1;
            if line % 4096 == 0 {
                ctx.check()?;
            }
        }
    }
    as_text(path, text)
}

/// Converts the bytes to text, which must not contain NUL.
pub(super) fn as_text(path: &RelPath, bytes: Vec<u8>) -> Result<String, ToolError> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(|| {
        let message = format!("{} is not UTF-8 text", path.text());
        ToolError::new(ErrorCode::NotText, message)
    })
}
