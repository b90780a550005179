//! What a scripted server replies, and how it fails.

use std::time::Duration;

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The token limit.
    Length,
    /// The content filter, or a refusal of the model.
    Filter,
}

/// A reply or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) thinking_field: &'static str,
    pub(super) finish: Finish,
    pub(super) headers: Vec<(String, String)>,
    pub(super) raw: Option<String>,
    pub(super) before_head: Duration,
    pub(super) before_body: Duration,
    pub(super) between: Duration,
    pub(super) cut_after: Option<usize>,
    pub(super) stall_after: Option<usize>,
    pub(super) malformed: bool,
    pub(super) error_event: Option<String>,
    pub(super) without_end: bool,
    pub(super) without_usage: bool,
    pub(super) cached: u64,
}

impl Reply {
    /// A whole reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            status: 200,
            text: text.into(),
            thinking: String::new(),
            thinking_field: "reasoning_content",
            finish: Finish::Stop,
            headers: Vec::new(),
            raw: None,
            before_head: Duration::ZERO,
            before_body: Duration::ZERO,
            between: Duration::ZERO,
            cut_after: None,
            stall_after: None,
            malformed: false,
            error_event: None,
            without_end: false,
            without_usage: false,
            cached: 0,
        }
    }

    /// An error of this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::text("scripted failure") }
    }

    /// A body that is sent as it is, with a status.
    pub fn raw(status: u16, body: impl Into<String>) -> Self {
        Self { status, raw: Some(body.into()), ..Self::text("") }
    }

    /// With another message of the error.
    #[must_use]
    pub fn saying(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    /// With a header, such as `retry-after`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With thinking before the text.
    #[must_use]
    pub fn thinking(self, thinking: &str) -> Self {
        Self { thinking: thinking.to_owned(), ..self }
    }

    /// With the field that thinking stands in: `reasoning_content` or `reasoning`.
    #[must_use]
    pub fn thinking_in(self, thinking_field: &'static str) -> Self {
        Self { thinking_field, ..self }
    }

    /// With another end.
    #[must_use]
    pub fn finish(self, finish: Finish) -> Self {
        Self { finish, ..self }
    }

    /// The head of the answer comes after this time.
    #[must_use]
    pub fn head_after(self, before_head: Duration) -> Self {
        Self { before_head, ..self }
    }

    /// The head comes at once, the first byte of the body after this time.
    #[must_use]
    pub fn body_after(self, before_body: Duration) -> Self {
        Self { before_body, ..self }
    }

    /// With this time between two parts of the body.
    #[must_use]
    pub fn every(self, between: Duration) -> Self {
        Self { between, ..self }
    }

    /// The connection breaks after so many bytes of the body; with HTTP/2 the stream is reset.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        Self { cut_after: Some(bytes), ..self }
    }

    /// After so many bytes of the body nothing follows, until the client closes the connection.
    #[must_use]
    pub fn stall_after(self, bytes: usize) -> Self {
        Self { stall_after: Some(bytes), ..self }
    }

    /// One chunk in the middle is no JSON.
    #[must_use]
    pub fn malformed(self) -> Self {
        Self { malformed: true, ..self }
    }

    /// An error stands in the stream after the text.
    #[must_use]
    pub fn error_event(self, message: &str) -> Self {
        Self { error_event: Some(message.to_owned()), ..self }
    }

    /// The stream ends in good order without saying why the reply ended.
    #[must_use]
    pub fn without_end(self) -> Self {
        Self { without_end: true, ..self }
    }

    /// Without counted tokens.
    #[must_use]
    pub fn without_usage(self) -> Self {
        Self { without_usage: true, ..self }
    }

    /// With so many tokens of the prompt taken from a cache.
    #[must_use]
    pub fn cached(self, cached: u64) -> Self {
        Self { cached, ..self }
    }
}

/// The tokens of a text, as this server counts them.
pub(super) fn tokens(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap_or(u64::MAX)
}
