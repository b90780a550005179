//! `sleep`: waits for a time, during which the run holds nothing.

use crate::tool::builtin::support::{read, returning, spec as describe};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, ToolOutcome, ToolSpec};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::SLEEP;

/// The tool's name.
pub const NAME: &str = SLEEP;

/// The longest sleep in seconds.
const LONGEST_S: i64 = 24 * 3600;

#[derive(Debug, Deserialize)]
struct Args {
    seconds: i64,
}

/// Its description.
pub(in crate::tool) fn spec() -> ToolSpec {
    returning(
        "slept 60 s",
        describe(
            NAME,
            "Waits for a time: the step goes on by itself afterwards, up to 2 s late. Meanwhile the run takes no \
             slot, its other steps go on, and the time does not count for the step's deadline. A remote driver's \
             lease ends with it. A call is no evidence for its step.",
            Annotations::READS,
            json!({
                "type": "object",
                "properties": {
                    "seconds": {
                        "type": "integer", "minimum": 1, "maximum": LONGEST_S,
                        "description": "How long; never past the run's deadline."
                    }
                },
                "required": ["seconds"],
                "additionalProperties": false
            }),
        ),
    )
}

/// When a sleep that begins `now` ends, in a run with this deadline.
///
/// # Errors
/// `sleep_too_long` for one that would end after the run.
pub(crate) fn end_of(
    arguments: &Value,
    now: DateTime<Utc>,
    deadline_at: Option<DateTime<Utc>>,
) -> Result<DateTime<Utc>, ToolError> {
    let Args { seconds } = read(arguments)?;
    let until = now + TimeDelta::seconds(seconds.clamp(1, LONGEST_S));
    match deadline_at {
        Some(deadline_at) if until >= deadline_at => {
            let left = (deadline_at - now).num_seconds().max(0);
            let message = format!(
                "the run's deadline is in {left} s, before the sleep would end; sleep less"
            );
            Err(ToolError::new(ErrorCode::SleepTooLong, message))
        }
        Some(_) | None => Ok(until),
    }
}

/// The outcome of a sleep. It names the time, so that two sleeps are not the same turn: waiting between looks at
/// something is no cycle.
pub(crate) fn slept(since: DateTime<Utc>, until: DateTime<Utc>) -> ToolOutcome {
    let seconds = (until - since).num_seconds();
    let until = until.to_rfc3339_opts(SecondsFormat::Millis, true);
    ToolOutcome::done(format!("slept {seconds} s, until {until}"), Vec::new(), Vec::new())
}
