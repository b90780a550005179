//! The functions that a reply calls. A reply is one call; further ones are kept apart, so that the turn can refuse them.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};
use std::borrow::Cow;

/// Calls beyond so many are not kept apart: two are refused already.
const MOST_CALLS: usize = 64;

/// The calls of a reply, in the order in which they began.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls(Vec<Call>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    /// Its place among the calls, or among the blocks, as the endpoint counts them.
    index: usize,
    /// The last id that a piece of it had.
    id: String,
    /// Whether its pieces had several ids: it may be several calls under one index.
    has_several_ids: bool,
    arguments: String,
}

impl Calls {
    /// Takes a piece of the arguments of the call with an index.
    pub(super) fn push(&mut self, index: usize, id: Option<&str>, piece: &str) {
        let call = self.at(index);
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            call.has_several_ids |= !call.id.is_empty() && call.id != id;
            id.clone_into(&mut call.id);
        }
        call.arguments.push_str(piece);
    }

    fn at(&mut self, index: usize) -> &mut Call {
        let known = self.0.iter().position(|call| call.index == index);
        let place = known.unwrap_or_else(|| {
            if self.0.len() < MOST_CALLS {
                self.0.push(Call { index, ..Call::default() });
            }
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// The arguments of each call, as they arrived.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|call| call.arguments.as_str())
    }

    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|call| &mut call.arguments)
    }

    pub(crate) fn len(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// The reply that they make; none without a call that has arguments. Several calls become the list of calls that a turn
    /// refuses with `tool_call_not_object` (one tool a turn), as it does where a model writes such a list itself.
    pub(super) fn said(&self) -> Option<Cow<'_, str>> {
        let parts: Vec<&str> = self.0.iter().flat_map(Call::parts).collect();
        match parts.as_slice() {
            [] => None,
            [arguments] => Some(Cow::Borrowed(arguments)),
            several => {
                let several: Vec<_> = several.iter().map(|arguments| json_of(arguments)).collect();
                Some(Cow::Owned(format!("{{\"tool_call\": [{}]}}", several.join(", "))))
            }
        }
    }
}

impl Call {
    /// The arguments of each of its calls. Servers that leave out the index, or count each call as the first, tell calls
    /// apart by their ids alone; others give every piece of one call an id of its own. So both must say it: the ids, and the
    /// arguments, which are several values.
    fn parts(&self) -> Vec<&str> {
        let text = self.arguments.as_str();
        let mut ends = Vec::new();
        if self.has_several_ids {
            let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
            while let Some(Ok(IgnoredAny)) = values.next() {
                ends.push(values.byte_offset());
            }
        }
        ends.push(text.len());
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let parts = begins.zip(&ends).filter_map(|(begin, end)| text.get(begin..*end));
        parts.filter(|part| !part.trim().is_empty()).collect()
    }
}

/// A text as JSON: itself where it is JSON, else a string.
fn json_of(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(IgnoredAny) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(Value::from(text).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::Api;
    use crate::wire::form::{take_event, take_whole};
    use crate::wire::sse::Event;
    use crate::wire::{Arrived, End};
    use serde_json::{Value, json};

    const FIRST: &str = r#"{"action": "continue", "tool_call": {"name": "a"}}"#;
    const SECOND: &str = r#"{"action": "continue", "tool_call": {"name": "b"}}"#;

    fn streamed(api: Api, events: &[Value]) -> Arrived {
        let mut arrived = Arrived::default();
        for event in events {
            let event = Event { name: String::new(), data: event.to_string() };
            take_event(api, &event, &mut arrived, &mut |_| {}).unwrap();
        }
        arrived
    }

    fn whole(api: Api, body: &Value) -> Arrived {
        let mut arrived = Arrived::default();
        take_whole(api, body.to_string().as_bytes(), &mut arrived, &mut |_| {}).unwrap();
        arrived
    }

    fn delta(calls: Value) -> Value {
        json!({"choices": [{"delta": {"tool_calls": calls}}]})
    }

    fn openai(pieces: &[Value]) -> Arrived {
        let mut events: Vec<_> = pieces.iter().cloned().map(delta).collect();
        events.push(json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
        streamed(Api::OpenAi, &events)
    }

    fn anthropic(blocks: &[(usize, &str)]) -> Arrived {
        let mut events = Vec::new();
        for (index, arguments) in blocks {
            let block =
                json!({"type": "tool_use", "id": arguments, "name": "decision", "input": {}});
            events.push(
                json!({"type": "content_block_start", "index": index, "content_block": block}),
            );
            let (begin, end) = arguments.split_at(10);
            for piece in [begin, end] {
                let delta = json!({"type": "input_json_delta", "partial_json": piece});
                events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
        }
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
        streamed(Api::Anthropic, &events)
    }

    /// The two calls as a turn refuses them.
    fn refused() -> Value {
        let parts = [FIRST, SECOND].map(|text| serde_json::from_str::<Value>(text).unwrap());
        json!({"tool_call": parts})
    }

    #[test]
    fn two_calls_in_one_reply_are_one_refused_list_in_every_form() {
        let part =
            |arguments: &str| json!({"function": {"name": "decision", "arguments": arguments}});
        let piece = |index: usize, id: &str, arguments: &str| json!({"index": index, "id": id, "function": {"arguments": arguments}});
        let message = json!({"tool_calls": [part(FIRST), part(SECOND)]});
        let block = |text: &str| json!({"type": "tool_use", "input": serde_json::from_str::<Value>(text).unwrap()});
        let replies = [
            whole(
                Api::OpenAi,
                &json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}),
            ),
            openai(&[json!([piece(0, "x", FIRST), piece(1, "y", SECOND)])]),
            openai(&[
                json!([piece(0, "x", &FIRST[..9])]),
                json!([piece(1, "y", SECOND), piece(0, "", &FIRST[9..])]),
            ]),
            // Some servers leave out the index, or count each call as the first.
            openai(&[json!([part(FIRST), part(SECOND)])]),
            openai(&[json!([piece(0, "x", FIRST)]), json!([piece(0, "y", SECOND)])]),
            whole(
                Api::Anthropic,
                &json!({"content": [block(FIRST), block(SECOND)], "stop_reason": "tool_use"}),
            ),
            anthropic(&[(0, FIRST), (1, SECOND)]),
            anthropic(&[(0, FIRST), (0, SECOND)]),
        ];
        for (place, reply) in replies.iter().enumerate() {
            assert_eq!(reply.end, Some(End::Whole), "{place}");
            let said: Value = serde_json::from_str(&reply.said()).unwrap();
            assert_eq!(said, refused(), "{place}");
        }
    }

    #[test]
    fn one_call_is_the_reply_as_it_arrived() {
        let (begin, end) = FIRST.split_at(20);
        let piece = |id: &str, arguments: &str| json!([{"index": 0, "id": id, "function": {"arguments": arguments}}]);
        // vLLM gives every piece of a forced call an id of its own.
        for reply in [
            openai(&[piece("x", begin), piece("y", end), piece("z", "\n")]),
            anthropic(&[(1, FIRST)]),
        ] {
            assert_eq!(reply.said().trim(), FIRST);
        }
        let empty = json!([{"index": 1, "id": "y", "function": {"arguments": ""}}]);
        assert_eq!(openai(&[piece("x", FIRST), empty]).said(), FIRST);
    }

    #[test]
    fn many_calls_and_calls_that_do_not_read_are_one_list_too() {
        let many: Vec<_> = (0..10_000_usize)
            .map(|index| json!([{"index": index, "function": {"arguments": "{\"a"}}]))
            .collect();
        let said: Value = serde_json::from_str(&openai(&many).said()).unwrap();
        let list = said["tool_call"].as_array().unwrap();
        assert_eq!((list.len(), &list[0]), (super::MOST_CALLS, &json!("{\"a")));
    }
}
