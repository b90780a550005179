//! Which form a request and its reply have.

use super::types::{Arrived, Broken, OnPart, Prepared};
use super::{anthropic, openai, sse};
use crate::profile::Api;
use serde_json::{Map, Value};

/// The body of a request. What an operator adds to it changes no field of its own.
pub(crate) fn body(asked: &Prepared<'_>) -> Value {
    let own = match asked.profile.api {
        Api::OpenAi => openai::body(asked),
        Api::Anthropic => anthropic::body(asked),
    };
    let mut body: Map<String, Value> = asked.profile.extra.clone();
    body.extend(own);
    Value::Object(body)
}

/// Reads one event of a stream.
pub(crate) fn take_event(
    api: Api,
    event: &sse::Event,
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    match api {
        Api::OpenAi => openai::take_event(event, arrived, on_part),
        Api::Anthropic => anthropic::take_event(event, arrived, on_part),
    }
}

/// Reads a reply that is one object.
pub(crate) fn take_whole(
    api: Api,
    body: &[u8],
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    match api {
        Api::OpenAi => openai::take_whole(body, arrived, on_part),
        Api::Anthropic => anthropic::take_whole(body, arrived, on_part),
    }
}
