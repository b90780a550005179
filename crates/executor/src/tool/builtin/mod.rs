//! The tools every executor has.

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

/// Bytes that a looking tool gives out at most; beyond them it asks for a narrower call.
const OUTPUT_LIMIT: usize = 64 << 20;

/// What reading the arguments and doing the work takes, without the waiting.
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

/// Reads arguments into what a tool works with. The schema has let them through already, so a
/// failure here is a schema that says less than the type.
fn read<A: DeserializeOwned>(args: &Value) -> Result<A, ToolError> {
    serde_json::from_value(args.to_serde())
        .map_err(|error| ToolError::new(ErrorCode::ArgumentsInvalid, error.to_string()))
}

/// Does blocking work away from the runtime's own threads.
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

/// A failed look at one path: that nothing is there is worth knowing too.
fn unseen(path: String, error: ToolError) -> ToolOutcome {
    let facts = if error.code == ErrorCode::FileNotFound {
        vec![Fact::FileObserved { path, exists: false }]
    } else {
        Vec::new()
    };
    ToolOutcome::failed(error, Vec::new(), facts)
}

/// A folder as scans share it: one spelling for one folder.
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

/// Says what a scan could not look at; nothing when it saw all.
fn unread_note(unread: u64) -> String {
    if unread == 0 {
        return String::new();
    }
    format!("; {} could not be read", count(unread, "place"))
}
