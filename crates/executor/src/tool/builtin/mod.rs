//! The built-in tools of every executor.

pub mod edit_file;
pub mod glob;
pub mod grep;
pub mod list_dir;
pub mod noop;
pub mod read_file;
pub mod run_command;
pub mod write_file;

use crate::fuse::timeout::{DEFAULT_S, SCAN_MIN_S};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;

/// One of each.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(edit_file::EditFile::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(list_dir::ListDir::new()),
        Arc::new(noop::Noop::new()),
        Arc::new(read_file::ReadFile::new()),
        Arc::new(run_command::RunCommand::new()),
        Arc::new(write_file::WriteFile::new()),
    ]
}

/// The most bytes of a reading tool's output; above that the call must be narrowed.
const OUTPUT_LIMIT: usize = 64 << 20;

/// The blocking work of a tool with its arguments.
type Work<A> = fn(&ToolContext, &A) -> Result<ToolOutcome, ToolError>;

fn spec(
    name: &str,
    description: &str,
    annotations: Annotations,
    input_schema: serde_json::Value,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        annotations,
        scan: false,
        default_timeout: Duration::from_secs(DEFAULT_S),
    }
}

fn scanning(spec: ToolSpec) -> ToolSpec {
    ToolSpec {
        scan: true,
        default_timeout: spec.default_timeout.max(Duration::from_secs(SCAN_MIN_S)),
        ..spec
    }
}

/// Deserializes arguments. The schema has accepted them, so a failure means that the schema is less
/// strict than the type.
fn read<A: DeserializeOwned>(args: &Value) -> Result<A, ToolError> {
    serde_json::from_value(args.to_serde())
        .map_err(|error| ToolError::new(ErrorCode::ArgumentsInvalid, error.to_string()))
}

/// Runs blocking work outside the runtime's own threads.
fn blocking<'a, A: DeserializeOwned + Send + 'static>(
    ctx: &ToolContext,
    args: &'a Value,
    work: Work<A>,
) -> BoxFuture<'a, ToolOutcome> {
    let ctx = ctx.clone();
    Box::pin(async move {
        let args = match read::<A>(args) {
            Ok(args) => args,
            Err(error) => return error.into(),
        };
        let done = tokio::task::spawn_blocking(move || {
            ctx.check().and_then(|()| work(&ctx, &args)).unwrap_or_else(ToolOutcome::from)
        });
        done.await.unwrap_or_else(|error| {
            ToolError::new(ErrorCode::InternalError, error.to_string()).into()
        })
    })
}

/// The outcome for a path that could not be read. A missing file is also a fact.
fn unseen(path: String, error: ToolError) -> ToolOutcome {
    let facts = if error.code == ErrorCode::FileNotFound {
        vec![Fact::FileObserved { path, exists: false }]
    } else {
        Vec::new()
    };
    ToolOutcome::failed(error, Vec::new(), facts)
}

/// The key of a scan's folder: one spelling for each folder.
fn folder_key(path: Option<&Value>) -> String {
    let path = path.and_then(Value::as_str).unwrap_or(".");
    let kept = Path::new(path).components().filter(|component| *component != Component::CurDir);
    let cleaned: PathBuf = kept.collect();
    if cleaned.as_os_str().is_empty() {
        return ".".to_owned();
    }
    cleaned.to_string_lossy().into_owned()
}

fn here() -> String {
    ".".to_owned()
}

/// `1 file`, `2 files`.
fn count(number: u64, noun: &str) -> String {
    let plural = match (number, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {noun}{plural}")
}

/// A note about folders that a scan could not read; empty when it read all.
fn unread_note(unread: u64) -> String {
    if unread == 0 {
        return String::new();
    }
    format!("; {} could not be read", count(unread, "place"))
}
