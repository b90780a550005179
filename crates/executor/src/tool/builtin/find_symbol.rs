//! `find_symbol`: finds definitions and uses of a name.
//!
//! ```text
//!   scan of the workspace -> files of parsed languages with the word -> parser in the sandbox -> outcome
//!                                                        ^                     |
//!                                                        +-- without the file -+ that ended the parser
//! ```

mod answers;
mod candidates;
mod question;
mod report;

use crate::tool::builtin::support::{folder_key, here, read, returning, scanning, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::process::{self, Ending, Finished};
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec};
use answers::{Answers, End};
use candidates::Candidates;
use futures::future::BoxFuture;
use question::{Question, Wanted};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_sandbox::LimitHit;
use surety_symbols::{Name, STUCK};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The places that a call shows by default, and the most that it can.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// The most processes of one call: each but the last was ended by a file.
const STARTS: usize = 5;

/// The time for the parser of one call; files that it does not reach are named in the result.
const PARSING: Duration = Duration::from_secs(40);

/// The part of a call's time that is left for its end.
const RESERVE: Duration = Duration::from_secs(2);

/// Finds symbols.
#[derive(Debug)]
pub struct FindSymbol(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    name: String,
    #[serde(default)]
    role: Wanted,
    #[serde(default = "here")]
    path: String,
    limit: Option<usize>,
}

impl FindSymbol {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(returning(
            "src/a.rs:12:8: definition, method of Registry: pub fn get(&self)",
            scanning(spec(
                "find_symbol",
                "Finds definitions and uses of a name in source files of the workspace by their syntax: not in \
                 comments and texts. Parses Rust, Python, JavaScript, TypeScript, Go, Java and C. Returns \
                 `path:line:column: role, kind: text`, definitions first, then names the files that could not \
                 be parsed and counts other files with the word. In a folder it skips what grep skips.",
                Annotations::READS,
                json!({
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The exact identifier. With `Container.name` or `Container::name` only definitions in that container, and all uses of the name."},
                        "role": {"type": "string", "enum": ["definitions", "uses", "all"], "description": "What to return: definitions, uses or all, the default."},
                        "path": {"type": "string", "minLength": 1, "description": "A file or a folder; the root by default."},
                        "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "description": format!("The most places to return; {LIMIT} by default. All are counted.")}
                    },
                    "required": ["name"],
                    "additionalProperties": false
                }),
            )),
        ))
    }
}

impl Tool for FindSymbol {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { work(ctx, args).await.unwrap_or_else(ToolOutcome::from) })
    }

    fn scanned_folder(&self, args: &Value) -> Option<String> {
        Some(folder_key(args.get("path")))
    }
}

async fn work(ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
    ctx.check()?;
    let Args { name, role, path, limit } = read(args)?;
    let name =
        Name::read(&name).map_err(|wrong| ToolError::new(ErrorCode::ArgumentsInvalid, wrong))?;
    let (scanned, word) = (ctx.clone(), name.last.clone());
    let found = spawn_blocking(move || candidates::find(&scanned, &word, &path)).await;
    let failed =
        |error: tokio::task::JoinError| ToolError::new(ErrorCode::InternalError, error.to_string());
    let candidates = found.map_err(failed)??;
    let limit = limit.unwrap_or(LIMIT).min(LIMIT_MAX);
    let question = Question { name, wanted: role, limit };
    let answers = parse(ctx, &question, &candidates).await?;
    Ok(report::outcome(&question, &candidates, answers))
}

/// Parses the candidates. A file that ends the parser is left out, and the next process goes on after it.
async fn parse(
    ctx: &ToolContext,
    question: &Question,
    candidates: &Candidates,
) -> Result<Answers, ToolError> {
    let mut answers = Answers::awaited(candidates.files.clone(), question.limit);
    let until = ctx.deadline.checked_sub(RESERVE).unwrap_or(ctx.deadline);
    let until = until.min(Instant::now() + PARSING);
    for _ in 0..STARTS {
        let left = until.saturating_duration_since(Instant::now());
        if answers.is_complete() || left.is_zero() {
            break;
        }
        let request = question.request(answers.open(), left)?;
        let finished = process::parse(ctx, request).await?;
        // A call that is over returns as that of any scan.
        if finished.ending != Ending::Itself {
            ctx.check()?;
        }
        tracing::debug!(
            exit_code = finished.exit_code,
            sandbox = finished.sandbox,
            said = %String::from_utf8_lossy(&finished.stderr),
            "find_symbol: the parser ended"
        );
        answers.take(&finished.stdout, end_of(&finished));
    }
    answers.give_up();
    Ok(answers)
}

fn end_of(finished: &Finished) -> End {
    match (finished.limit, finished.exit_code) {
        (Some(LimitHit::Memory), _) => End::OutOfMemory,
        (Some(LimitHit::Cpu), _) | (None, STUCK) => End::TooSlow,
        (None, 0) => End::Regular,
        (Some(LimitHit::FileSize | LimitHit::Disk | LimitHit::DiskFiles) | None, _) => End::Crashed,
    }
}
