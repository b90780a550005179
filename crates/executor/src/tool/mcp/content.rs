//! Answers of servers as outcomes of tools.

use super::error::CallFailure;
use super::text::line;
use super::{Answer, Part};
use crate::tool::{Attachment, ErrorCode, ToolError, ToolOutcome};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ContentBlock, ResourceContents, ServerResult};
use serde_json::Value;
use std::collections::BTreeMap;
use surety_common::domain::json::{self, sha256_hex};
use surety_common::schema::{self, Schema};

/// The most attachments of one result: each is a file and a row.
const MOST_ATTACHMENTS: usize = 100;

/// The attachments of a result, equal bytes once.
#[derive(Default)]
struct Attached {
    kept: Vec<Attachment>,
    /// Their numbers by their digests.
    numbers: BTreeMap<String, usize>,
    /// How many parts with bytes are not kept.
    left_out: usize,
}

/// What a result of the protocol says.
///
/// # Errors
/// [`CallFailure::Unreadable`] for a result of another kind, [`CallFailure::Refused`] for a question.
pub(super) fn answer(result: ServerResult) -> Result<Answer, CallFailure> {
    if let ServerResult::CallToolResult(result) = result {
        return Ok(Answer {
            parts: result.content.into_iter().map(part).collect(),
            structured: result.structured_content,
            is_error: result.is_error.unwrap_or(false),
        });
    }
    if let ServerResult::ReadResourceResult(result) = result {
        let parts = result.contents.into_iter().map(resource).collect();
        return Ok(Answer { parts, ..Answer::default() });
    }
    if let ServerResult::ListResourcesResult(result) = result {
        let mut parts: Vec<Part> = { result.resources.into_iter() }
            .map(|resource| Part::Link { uri: resource.uri, name: resource.name })
            .collect();
        let more =
            result.next_cursor.map(|cursor| format!("more: call it with the cursor {cursor:?}"));
        parts.extend(more.map(Part::Text));
        return Ok(Answer { parts, ..Answer::default() });
    }
    if let ServerResult::EmptyResult(_) = result {
        return Ok(Answer::default());
    }
    if let ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_) = result {
        let why = "it asks for input or answers with a task, which is not served";
        return Err(CallFailure::Refused(why.to_owned()));
    }
    let why = "it answered with a result of another kind than was asked for";
    Err(CallFailure::Unreadable(why.to_owned()))
}

fn part(block: ContentBlock) -> Part {
    let media = |kind, mime: String, base64| Part::Media { kind, mime, uri: String::new(), base64 };
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => media("image", image.mime_type, image.data),
        ContentBlock::Audio(audio) => media("audio", audio.mime_type, audio.data),
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        ContentBlock::ResourceLink(link) => Part::Link { uri: link.uri, name: link.name },
        _ => Part::Text("[a part of a kind that this executor does not know]".to_owned()),
    }
}

fn resource(contents: ResourceContents) -> Part {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => Part::Resource { uri, text },
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            Part::Media { kind: "resource", mime: mime_type.unwrap_or_default(), uri, base64: blob }
        }
        _ => Part::Text("[a resource of a kind that this executor does not know]".to_owned()),
    }
}

/// The outcome of a call that a server answered. `name` is the tool in decisions, `schema` that of its structured
/// result.
pub(super) fn outcome(name: &str, answer: Answer, schema: Option<&Schema>) -> ToolOutcome {
    let Answer { parts, structured, is_error } = answer;
    let mut attached = Attached::default();
    let mut lines: Vec<String> =
        parts.into_iter().filter_map(|part| shown(part, &mut attached)).collect();
    lines.extend(attached.rest());
    let structured_text = structured.as_ref().map(Value::to_string);
    // A server repeats its structured result as a text for older clients.
    let is_repeated = structured.as_ref().is_some_and(|structured| {
        lines
            .iter()
            .any(|text| serde_json::from_str::<Value>(text).is_ok_and(|text| text == *structured))
    });
    lines.extend(structured_text.filter(|_| !is_repeated));
    let first = lines.iter().find(|text| !text.trim().is_empty()).map_or("", String::as_str);
    let summary = line(first);
    let output = lines.join("\n").into_bytes();
    let failed = |code, message: String| {
        let error = ToolError::new(code, message);
        ToolOutcome::failed(error, output.clone(), Vec::new())
    };
    let outcome = if is_error {
        let summary = if summary.is_empty() { "no reason given".to_owned() } else { summary };
        failed(ErrorCode::McpFailed, format!("{name}: the server reported a failure: {summary}"))
    } else {
        match schema.map(|schema| result_faults(schema, structured.as_ref())) {
            Some(faults) if !faults.is_empty() => {
                let faults = line(&faults.join("; "));
                let message = format!(
                    "{name}: the result does not match the schema that the server gives for it ({faults}); the call \
                     was carried out"
                );
                failed(ErrorCode::McpResultInvalid, message)
            }
            Some(_) | None => ToolOutcome::done(format!("{name}: {summary}"), output, Vec::new()),
        }
    };
    ToolOutcome { attachments: attached.kept, ..outcome }
}

fn result_faults(validator: &Schema, structured: Option<&Value>) -> Vec<String> {
    let Some(structured) = structured else {
        return vec!["it has no structured result".to_owned()];
    };
    match json::parse(&structured.to_string()) {
        Ok(parsed) => schema::faults(validator, &parsed.value),
        Err(error) => vec![error.to_string()],
    }
}

/// A part as it stands in the output; none for bytes beyond the most attachments.
fn shown(part: Part, attached: &mut Attached) -> Option<String> {
    match part {
        Part::Text(text) => Some(text),
        Part::Resource { uri, text } => Some(format!("[resource {}]\n{text}", line(&uri))),
        Part::Link { uri, name } => Some(format!("[link {}: {}]", line(&name), line(&uri))),
        Part::Media { kind, mime, uri, base64 } => {
            let about = [kind, &line(&mime), &line(&uri)].join(" ");
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            attached.take(&about, &base64)
        }
    }
}

impl Attached {
    /// Keeps the bytes of a part, and says in a line for the reader where they are.
    fn take(&mut self, about: &str, base64: &str) -> Option<String> {
        if self.kept.len() >= MOST_ATTACHMENTS {
            self.left_out += 1;
            return None;
        }
        let Ok(body) = STANDARD.decode(base64.trim()) else {
            return Some(format!("[{about}: its bytes are no base64]"));
        };
        let digest = sha256_hex(&body);
        if let Some(number) = self.numbers.get(&digest) {
            return Some(format!("[{about}: as attachment {number}]"));
        }
        let (number, bytes) = (self.kept.len() + 1, body.len());
        let said = format!(
            "[{about}: {bytes} bytes, SHA-256 {digest}, kept as attachment {number} of this call]"
        );
        self.numbers.insert(digest, number);
        self.kept.push(Attachment { body });
        Some(said)
    }

    /// What is said of the parts that are not kept.
    fn rest(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!(
                "[{} more parts with bytes are not kept: one result has at most {MOST_ATTACHMENTS} attachments; ask the \
                 tool for fewer]",
                self.left_out
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(outcome: &ToolOutcome) -> String {
        String::from_utf8(outcome.output.clone()).unwrap()
    }

    fn called(result: Value) -> ToolOutcome {
        let result: ServerResult = serde_json::from_value(result).unwrap();
        outcome("files__read", answer(result).unwrap(), None)
    }

    #[test]
    fn every_kind_of_part_has_its_line_and_bytes_become_attachments() {
        let outcome = called(json!({"content": [
            {"type": "text", "text": "first line\nsecond"},
            {"type": "image", "mimeType": "image/png", "data": "AAEC"},
            {"type": "audio", "mimeType": "audio/wav", "data": "not base64!"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "x/y", "blob": "AAE="}},
            {"type": "image", "mimeType": "image/png", "data": "AAEC"},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]}));
        assert!(outcome.success);
        assert_eq!(outcome.summary, "files__read: first line second");
        let shown = text(&outcome);
        for line in [
            "[image image/png: 3 bytes, SHA-256 ",
            "kept as attachment 1 of this call]",
            "[audio audio/wav: its bytes are no base64]",
            "[resource file:///a]\ninside",
            "[resource x/y file:///b: 2 bytes",
            "attachment 2",
            "[image image/png: as attachment 1]",
            "[link c: file:///c]",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        assert_eq!(outcome.attachments.len(), 2);
        assert!(outcome.facts.is_empty(), "a server's words are no facts of the runner");
    }

    #[test]
    fn a_result_has_so_many_attachments_at_most_and_the_rest_is_one_line() {
        let image = |number: u32| {
            let data = STANDARD.encode(number.to_be_bytes());
            json!({"type": "image", "mimeType": "image/png", "data": data})
        };
        let many: Vec<_> = (0..100_000).map(image).collect();
        let outcome = called(json!({"content": many}));
        assert_eq!(outcome.attachments.len(), MOST_ATTACHMENTS);
        let shown = text(&outcome);
        assert_eq!(shown.lines().count(), MOST_ATTACHMENTS + 1);
        assert!(shown.ends_with(
            "[99900 more parts with bytes are not kept: one result has at most 100 attachments; ask the tool for fewer]"
        ));
    }

    #[test]
    fn a_reported_failure_is_a_failed_call_with_its_text() {
        let outcome = called(
            json!({"content": [{"type": "text", "text": "no such\u{7} file"}], "isError": true}),
        );
        assert_eq!((outcome.success, outcome.error_code), (false, Some(ErrorCode::McpFailed)));
        assert!(outcome.summary.ends_with("the server reported a failure: no such file"));
        assert!(text(&outcome).contains("no such"));
    }

    #[test]
    fn a_structured_result_matches_its_schema_and_is_shown_once() {
        let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
        let schema = schema::compile(&schema).unwrap();
        let with = |structured: Option<Value>, content: &str| {
            let parts = vec![Part::Text(content.to_owned())];
            outcome("calc__add", Answer { parts, structured, is_error: false }, Some(&schema))
        };
        let repeated = with(Some(json!({"sum": 3})), "{\"sum\": 3}");
        assert!(repeated.success && text(&repeated).matches("sum").count() == 1);
        let further = with(Some(json!({"sum": 3})), "three");
        assert_eq!(text(&further), "three\n{\"sum\":3}");
        for structured in [None, Some(json!({"sum": "3"}))] {
            let refused = with(structured, "three");
            assert_eq!(refused.error_code, Some(ErrorCode::McpResultInvalid), "{refused:?}");
        }
    }
}
