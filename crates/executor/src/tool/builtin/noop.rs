//! `noop`: succeeds without an effect, after an optional wait.

use crate::tool::builtin::support::{read, spec};
use crate::tool::{Annotations, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec};
use futures::future::{self, BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::NOOP;
use tokio::time::{Instant, sleep_until};

/// The longest wait in milliseconds, below the time limit of any call.
const LONGEST_WAIT_MS: u64 = 10_000;

/// Does nothing; for examples, and for measuring the overhead of a call.
#[derive(Debug)]
pub struct Noop(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    wait_ms: u64,
}

impl Noop {
    /// The tool.
    #[expect(clippy::new_without_default, reason = "a tool has no default, it has one form")]
    pub fn new() -> Self {
        Self(spec(
            NOOP,
            "Does nothing and succeeds; its receipts are no evidence.",
            Annotations::READS,
            json!({
                "type": "object",
                "properties": {
                    "wait_ms": {
                        "type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_MS,
                        "description": "How long the call takes, in milliseconds; 0 by default."
                    }
                },
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Noop {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        if args.get("wait_ms").is_none() {
            return future::ready(did_nothing()).boxed();
        }
        Box::pin(async move { wait(ctx, args).await.unwrap_or_else(ToolOutcome::from) })
    }
}

/// Waits without a process or a thread, like a call to a remote service.
async fn wait(ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
    let Args { wait_ms } = read(args)?;
    let asked = Instant::now() + Duration::from_millis(wait_ms.min(LONGEST_WAIT_MS));
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => {}
        () = sleep_until(asked.min(ctx.deadline)) => {}
    }
    if Instant::now() < asked {
        ctx.check()?;
    }
    Ok(did_nothing())
}

fn did_nothing() -> ToolOutcome {
    ToolOutcome::done("did nothing", Vec::new(), Vec::new())
}
