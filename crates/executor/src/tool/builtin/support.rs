//! Functions that several built-in tools use.

use crate::fuse::timeout::{DEFAULT_S, SCAN_MIN_S};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;

/// The most bytes of a reading tool's output; above that the call must be narrowed.
pub(super) const OUTPUT_LIMIT: usize = 64 << 20;

/// The blocking work of a tool with its arguments.
pub(super) type Work<A> = fn(&ToolContext, &A) -> Result<ToolOutcome, ToolError>;

pub(super) fn spec(
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
        return_sample: Cow::Borrowed(""),
    }
}

/// The same tool with a sample of what it returns.
pub(super) fn returning(return_sample: &'static str, spec: ToolSpec) -> ToolSpec {
    ToolSpec { return_sample: Cow::Borrowed(return_sample), ..spec }
}

pub(super) fn scanning(spec: ToolSpec) -> ToolSpec {
    ToolSpec {
        scan: true,
        default_timeout: spec.default_timeout.max(Duration::from_secs(SCAN_MIN_S)),
        ..spec
    }
}

/// Deserializes arguments. The schema has accepted them, so a failure means that the schema is less
/// strict than the type.
pub(super) fn read<A: DeserializeOwned>(args: &Value) -> Result<A, ToolError> {
    serde_json::from_value(args.to_serde())
        .map_err(|error| ToolError::new(ErrorCode::ArgumentsInvalid, error.to_string()))
}

/// Runs blocking work outside the runtime's own threads.
pub(super) fn blocking<'a, A: DeserializeOwned + Send + 'static>(
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
pub(super) fn unseen(path: String, error: ToolError) -> ToolOutcome {
    let facts = if error.code == ErrorCode::FileNotFound {
        vec![Fact::FileObserved { path, exists: false }]
    } else {
        Vec::new()
    };
    ToolOutcome::failed(error, Vec::new(), facts)
}

/// The key of a scan's folder: one spelling for each folder.
pub(super) fn folder_key(path: Option<&Value>) -> String {
    let path = path.and_then(Value::as_str).unwrap_or(".");
    let kept = Path::new(path).components().filter(|component| *component != Component::CurDir);
    let cleaned: PathBuf = kept.collect();
    if cleaned.as_os_str().is_empty() {
        return ".".to_owned();
    }
    cleaned.to_string_lossy().into_owned()
}

pub(super) fn here() -> String {
    ".".to_owned()
}

/// `1 file`, `2 files`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = match (number, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {noun}{plural}")
}

/// A note about folders that a scan could not read; empty when it read all.
pub(super) fn unread_note(unread: u64) -> String {
    if unread == 0 {
        return String::new();
    }
    format!("; {} could not be read", count(unread, "place"))
}
