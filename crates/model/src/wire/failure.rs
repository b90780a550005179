//! What a refused request says, and what kind of error that is.

use super::types::Broken;
use crate::error::ChatError;
use crate::profile::Profile;
use crate::usage::TokenUsage;
use serde_json::Value;
use std::time::Duration;

/// The characters of an endpoint's words in an error.
const MAX_SAID: usize = 400;

/// A number in a refusal below this is no limit of a reply: a shorter one would be cut.
const FEWEST_TOKENS: u32 = 256;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The endpoint's own code or type; may be empty.
    pub(crate) code: String,
    /// Its words.
    pub(crate) said: String,
    pub(crate) retry_after: Option<Duration>,
    /// Where it redirects to.
    pub(crate) location: Option<String>,
}

/// An error object in place of a reply.
pub(super) fn broken(error: &Value) -> Broken {
    let (code, said) = code_and_message(error);
    let status = error.get("code").and_then(Value::as_u64).filter(|code| (400..600).contains(code));
    Broken::Error { status: status.and_then(|code| u16::try_from(code).ok()), code, said }
}

/// The code and the message of an error object, or of a text in its place. Words in another place are shown as they are.
fn code_and_message(error: &Value) -> (String, String) {
    let text = |key: &str| match error.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    let is_number = |code: &String| code.chars().all(|letter| letter.is_ascii_digit());
    let code = text("code").filter(|code| !is_number(code)).or_else(|| text("type"));
    let said = match error {
        Value::String(said) => said.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let named = text("message").or_else(|| text("detail"));
            let is_empty = |value: &Value| match value {
                Value::Object(fields) => fields.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            };
            named.unwrap_or_else(|| match is_empty(error) {
                true => String::new(),
                false => error.to_string(),
            })
        }
    };
    (code.unwrap_or_default(), said)
}

/// The code and the message of a body. What is no JSON is shown as text.
pub(crate) fn read(body: &[u8]) -> (String, String) {
    match serde_json::from_slice::<Value>(body) {
        Ok(body) => {
            // Google's form is a list of one error.
            let body = match &body {
                Value::Array(errors) => errors.first().unwrap_or(&body),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Object(_) => &body,
            };
            code_and_message(body.get("error").unwrap_or(body))
        }
        Err(_) => (String::new(), String::from_utf8_lossy(body).into_owned()),
    }
}

/// One line of bounded length.
pub(crate) fn shown(said: &str) -> String {
    let words: Vec<&str> = said.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    match line.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{} ...", line.get(..end).unwrap_or_default()),
        None if line.is_empty() => "it says nothing more".to_owned(),
        None => line,
    }
}

impl Refusal {
    /// The error that it is.
    pub(crate) fn error(&self, endpoint: &str, profile: &Profile) -> ChatError {
        let endpoint = endpoint.to_owned();
        let (status, said) = (self.status, self.words());
        if self.is_too_long() {
            return ChatError::ContextTooLong { endpoint, said };
        }
        if self.is_unknown_model() {
            let (profile, model) = (profile.name.clone(), profile.model.clone());
            return ChatError::ModelUnknown { endpoint, profile, model, said };
        }
        if self.is_filtered() {
            // What it used is added where the prompt is known.
            let usage = TokenUsage::default();
            return ChatError::Refused { endpoint, said, usage, cost_micros: 0 };
        }
        let retry_after = self.retry_after;
        match status {
            401 | 403 => {
                let profile = profile.name.clone();
                ChatError::Unauthorized { endpoint, profile, status, said }
            }
            402 | 429 => ChatError::RateLimited { endpoint, retry_after, said },
            408 | 409 | 425 | 500.. => {
                ChatError::Overloaded { endpoint, status, retry_after, said }
            }
            _ => ChatError::BadRequest { endpoint, status, said },
        }
    }

    /// Whether the same request may be taken when it does not ask for a form of the reply.
    pub(crate) fn may_refuse_schema(&self) -> bool {
        let names_unknown_model = self.is_unknown_model() && self.names_model();
        matches!(self.status, 400 | 404 | 422 | 500)
            && !self.is_too_long()
            && !self.is_filtered()
            && !names_unknown_model
    }

    /// How many tokens a reply may be asked for instead, where so many are more than the model gives; none for another
    /// refusal. It is the largest number below that in its words, or the half.
    pub(crate) fn shorter_reply(&self, asked: u32) -> Option<u32> {
        let names_limit = self.says(&[
            "max_tokens",
            "max_completion_tokens",
            "completion tokens",
            "output tokens",
        ]);
        let is_too_large = self.says(&[
            "too large",
            "too high",
            "at most",
            "less than or equal",
            "maximum allowed",
            "range",
            "exceed",
        ]);
        if !matches!(self.status, 400 | 422) || !names_limit || !is_too_large || self.is_too_long()
        {
            return None;
        }
        let numbers = self.said.split(|letter: char| !letter.is_ascii_digit());
        let named = numbers.filter_map(|number| number.parse().ok()).filter(|it| *it < asked).max();
        let shorter = named.filter(|named| *named >= FEWEST_TOKENS).unwrap_or(asked / 2);
        (shorter >= FEWEST_TOKENS).then_some(shorter)
    }

    /// Whether the quota is used up, so that waiting for a moment does not help.
    pub(crate) fn is_out_of_quota(&self) -> bool {
        self.status == 402 || self.code == "insufficient_quota"
    }

    fn words(&self) -> String {
        match &self.location {
            Some(location) => shown(&format!("HTTP {} leads to {location}", self.status)),
            None => shown(&self.said),
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        let said = self.said.to_ascii_lowercase();
        words.iter().any(|word| said.contains(word))
    }

    fn is_too_long(&self) -> bool {
        let is_refused = matches!(self.status, 400 | 413 | 422 | 500);
        let is_named =
            ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"]
                .contains(&self.code.as_str());
        is_named
            || (self.status == 413)
            || (is_refused
                && self.says(&[
                    "maximum context length",
                    "context length",
                    "context window",
                    "context size",
                    "context limit",
                    "prompt is too long",
                ]))
    }

    fn is_filtered(&self) -> bool {
        matches!(self.status, 400 | 403)
            && ["content_filter", "content_policy_violation"].contains(&self.code.as_str())
    }

    /// A path that does not exist looks like a model that does not.
    fn is_unknown_model(&self) -> bool {
        matches!(self.status, 301..=308 | 404 | 405) || (self.status == 400 && self.names_model())
    }

    fn names_model(&self) -> bool {
        ["model_not_found", "not_found_error"].contains(&self.code.as_str())
            || (self.says(&["model"])
                && self.says(&[
                    "does not exist",
                    "not found",
                    "invalid model",
                    "not supported model",
                ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Blame;

    fn refusal(status: u16, body: &str) -> Refusal {
        let (code, said) = read(body.as_bytes());
        Refusal { status, code, said, retry_after: None, location: None }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of answers")]
    fn answers_of_real_endpoints_become_the_right_errors() {
        let profile = Profile::at("fast", "http://127.0.0.1:1/v1", "m");
        for (status, body, code, falls_back) in [
            // OpenAI.
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                "model_unauthorized",
                false,
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
                "model_unknown",
                false,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
                "model_context_too_long",
                false,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.","code":null}}"#,
                "model_bad_request",
                true,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
                "model_rate_limited",
                false,
            ),
            (
                400,
                r#"{"error":{"message":"filtered","code":"content_filter"}}"#,
                "model_refused",
                false,
            ),
            // vLLM.
            (
                404,
                r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
                "model_unknown",
                false,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
                "model_context_too_long",
                false,
            ),
            // llama.cpp.
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                "model_context_too_long",
                false,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"failed to parse grammar","type":"server_error"}}"#,
                "model_overloaded",
                true,
            ),
            (
                503,
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
                "model_overloaded",
                false,
            ),
            // Ollama.
            (
                404,
                r#"{"error":"model \"x\" not found, try pulling it first"}"#,
                "model_unknown",
                false,
            ),
            // LiteLLM.
            (
                400,
                r#"{"error":{"message":"Invalid model name passed in model=x","type":"invalid_request_error"}}"#,
                "model_unknown",
                false,
            ),
            // OpenRouter.
            (
                404,
                r#"{"error":{"message":"No endpoints found that can handle the requested parameters.","code":404}}"#,
                "model_unknown",
                true,
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient credits","code":402}}"#,
                "model_rate_limited",
                false,
            ),
            // Anthropic.
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
                "model_unknown",
                false,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
                "model_context_too_long",
                false,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000"}}"#,
                "model_context_too_long",
                false,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "model_overloaded",
                false,
            ),
            // Google.
            (
                404,
                r#"[{"error":{"code":404,"message":"models/x is not found for API version v1main","status":"NOT_FOUND"}}]"#,
                "model_unknown",
                false,
            ),
            // FastAPI, as SGLang and TGI have it.
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"the maximum context length is 4096"}]}"#,
                "model_context_too_long",
                false,
            ),
            // Others.
            (502, "<html>Bad Gateway</html>", "model_overloaded", false),
            (404, "404 page not found", "model_unknown", true),
            (413, "", "model_context_too_long", false),
        ] {
            let refusal = refusal(status, body);
            let error = refusal.error("e", &profile);
            assert_eq!(error.code(), code, "{status} {body}");
            assert_eq!(refusal.may_refuse_schema(), falls_back, "{status} {body}");
            assert_ne!(error.blame(), Blame::Caller);
        }
    }

    #[test]
    fn words_in_any_place_of_a_refusal_are_shown() {
        let profile = Profile::at("fast", "http://127.0.0.1:1/v1", "m");
        for (body, words) in [
            (r#"[{"error":{"code":400,"message":"API key not valid"}}]"#, "API key not valid"),
            (r#"{"detail":[{"msg":"field required"}]}"#, "field required"),
            (r#"{"error":{"reason":"no such field"}}"#, "no such field"),
            ("{}", "it says nothing more"),
        ] {
            let said = refusal(400, body).error("e", &profile).to_string();
            assert!(said.contains(words), "{body}: {said}");
        }
    }

    #[test]
    fn a_reply_that_is_too_long_for_a_model_is_asked_for_shorter() {
        for (said, shorter) in [
            (
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you \
                 provided 100000.",
                Some(16_384),
            ),
            (
                "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-20241022",
                Some(8192),
            ),
            ("Range of max_tokens should be [1, 8192]", Some(8192)),
            ("max_tokens is too large", Some(50_000)),
            ("max_tokens is not supported, use max_completion_tokens", None),
            ("This model's maximum context length is 4096 tokens; max_tokens is too large", None),
            (
                "input length and `max_tokens` exceed context limit: 199759 + 100000 > 200000, decrease input length or \
                 `max_tokens` and try again",
                None,
            ),
            ("temperature is too high", None),
        ] {
            let body = serde_json::json!({"error": {"message": said}}).to_string();
            assert_eq!(refusal(400, &body).shorter_reply(100_000), shorter, "{said}");
        }
        let body = r#"{"error":{"message":"max_tokens is too large"}}"#;
        assert_eq!(refusal(400, body).shorter_reply(400), None);
    }

    #[test]
    fn words_of_an_endpoint_are_one_bounded_line() {
        assert_eq!(shown("a\n\tb\u{7}  c"), "a b c");
        assert!(shown(&"ä".repeat(10_000)).chars().count() < MAX_SAID + 10);
        assert_eq!(shown(" "), "it says nothing more");
    }
}
