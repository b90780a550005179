//! A delivery, and what it is read as.

use super::event::Ignored;
use super::forge::Forge;
use super::payload::Payload;
use super::reading::Reading;
use super::source::{Rules, Source};
use super::{builds, issues, pulls};
use crate::domain::problem::{Code, Problem};
use serde_json::Value;

/// The largest body of a delivery, in bytes.
pub const MAX_DELIVERY: usize = 2 << 20;

/// What a forge sent.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The forge, by the address of the hook.
    pub forge: Forge,
    /// The event, by the forge's own header.
    pub event: &'a str,
    /// The JSON text of the payload.
    pub body: &'a str,
}

impl Delivery<'_> {
    /// Reads the delivery.
    ///
    /// # Errors
    /// `too_large`, `json_syntax`, and `field_missing` or `type_mismatch` with the field.
    pub fn read(&self, rules: &Rules) -> Result<Reading, Problem> {
        if self.body.len() > MAX_DELIVERY {
            let message = format!("the delivery has more than {MAX_DELIVERY} bytes");
            return Err(Problem::new(Code::TooLarge, message));
        }
        let value: Value = serde_json::from_str(self.body).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            let message = format!("the delivery is no JSON, or is nested too deep, at {place}; send the forge's own payload");
            Problem::new(Code::JsonSyntax, message)
        })?;
        if !value.is_object() {
            return Err(Problem::new(Code::TypeMismatch, "the delivery is no JSON object"));
        }
        read_event(&Source { forge: self.forge, payload: Payload(&value), rules }, self.event)
    }
}

/// Selects the reader of an event by its name.
fn read_event(source: &Source<'_>, event: &str) -> Result<Reading, Problem> {
    match event.trim().to_ascii_lowercase().as_str() {
        "ping" => Ok(Reading::Ignored(Ignored::Ping)),
        "pull_request" => pulls::pull_request(source),
        "pull_request_review"
        | "pull_request_approved"
        | "pull_request_rejected"
        | "pull_request_review_approved"
        | "pull_request_review_rejected" => pulls::review(source),
        // Gitea sends a review without a result under this name.
        "pull_request_comment" if source.payload.at("/review").is_some() => pulls::review(source),
        "pull_request_review_comment" if source.payload.at("/comment").is_some() => {
            issues::review_comment(source)
        }
        "pull_request_review_comment" => pulls::review(source),
        "issue_comment" | "pull_request_comment" => issues::comment(source),
        "issues" | "issue_assign" => issues::issue(source),
        "workflow_run" => builds::workflow_run(source),
        "check_suite" => builds::check_suite(source),
        "status" => builds::status(source),
        "action_run_failure" => builds::action_run(source),
        "deployment_status" => builds::deployment(source),
        "" => Err(Problem::at(
            Code::FieldMissing,
            "event",
            "the delivery has no header that names its event; send it from the forge",
        )),
        _ => Ok(Reading::Ignored(Ignored::EventUnknown)),
    }
}
