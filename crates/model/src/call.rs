//! One request and its answer, with the clocks that bound it.

use crate::chat::ReplyPart;
use crate::client::Client;
use crate::error::{ChatError, Phase};
use crate::retry::retry_after;
use crate::wire::failure::{self, Refusal};
use crate::wire::form::{self, take_event, take_whole};
use crate::wire::sse::{Event, EventReader};
use crate::wire::{Arrived, Broken, End, OnPart, Prepared, Received};
use chrono::Utc;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use std::error::Error;
use std::time::Duration;
use surety_common::domain::redact::{RedactedStream, Redactor};
use tokio::time::{Instant, timeout, timeout_at};

/// The most bytes of a reply.
const MAX_REPLY: usize = 16 * 1024 * 1024;
/// The most bytes of an error's body that are read.
const MAX_ERROR: usize = 64 * 1024;
/// The longest name of a model that is kept, in bytes.
const MAX_MODEL_NAME: usize = 255;
/// Content types of servers that do not know what they send; so is none at all.
const UNSAID: [&str; 2] = ["text/plain", "application/octet-stream"];
/// How long the end of the body may take after the last event. Then the connection can be used again.
const END_GRACE: Duration = Duration::from_millis(250);

/// Why one request failed.
pub(crate) struct Failed {
    pub(crate) error: ChatError,
    /// What a refused request said.
    pub(crate) refusal: Option<Box<Refusal>>,
}

impl Failed {
    pub(crate) const fn new(error: ChatError) -> Self {
        Self { error, refusal: None }
    }
}

/// The clocks of one answer.
struct Clocks {
    first_byte: Instant,
    first_byte_limit: Duration,
    idle: Duration,
    began: bool,
}

impl Client {
    /// Sends a request and reads its answer into `received`, which has a part of it where the answer breaks off.
    pub(crate) async fn call(
        &self,
        asked: &Prepared<'_>,
        on_part: OnPart<'_>,
        received: &mut Received,
    ) -> Result<(), Failed> {
        let body = serde_json::to_vec(&form::body(asked))
            .map_err(|error| self.bad(format!("the request cannot be written as JSON: {error}")))?;
        // A reply that is not streamed begins when it is whole.
        let first_byte_limit = if self.profile.stream {
            self.profile.first_byte_timeout
        } else {
            self.profile.total_timeout
        };
        let mut clocks = Clocks {
            first_byte: Instant::now() + first_byte_limit,
            first_byte_limit,
            idle: self.profile.idle_timeout,
            began: false,
        };
        let request =
            self.http.post(self.call_url.clone()).headers(self.headers.clone()).body(body);
        let response = match timeout_at(clocks.first_byte, request.send()).await {
            Ok(response) => response.map_err(|error| self.transport(&error))?,
            Err(_) => return Err(self.late(Phase::FirstByte, first_byte_limit)),
        };
        if !response.status().is_success() {
            return Err(self.refused(response, &mut clocks).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let mut clean = Clean::new(self, on_part);
        if kind.starts_with("text/event-stream") {
            self.stream(response, &mut clocks, (&mut clean, &mut *received)).await?;
        } else if kind.starts_with("application/json") {
            received.has_begun = true;
            let body = self.reply_body(response, &mut clocks).await?;
            self.whole(&body, &mut clean, &mut received.arrived)?;
        } else if kind.is_empty() || UNSAID.iter().any(|unsaid| kind.starts_with(unsaid)) {
            let body = self.reply_body(response, &mut clocks).await?;
            self.whole_or_events(&kind, &body, (&mut clean, &mut *received))?;
        } else {
            return Err(self.bad(format!("its content type is {:?}", failure::shown(&kind))));
        }
        clean.finish();
        self.redact(&mut received.arrived);
        Ok(())
    }

    async fn stream(
        &self,
        mut response: Response,
        clocks: &mut Clocks,
        (clean, received): (&mut Clean<'_>, &mut Received),
    ) -> Result<(), Failed> {
        let mut reader = EventReader::default();
        let Received { arrived, has_begun } = received;
        loop {
            let chunk = match self.chunk(&mut response, clocks).await {
                Ok(Some(chunk)) => chunk,
                // The end was said already: what follows could only repeat it.
                Ok(None) | Err(_) if arrived.end.is_some() => return Ok(()),
                Ok(None) => return Err(self.cut()),
                Err(failed) => return Err(failed),
            };
            *has_begun = true;
            for event in reader.push(&chunk).map_err(|why| self.bad(why.to_owned()))? {
                let taken =
                    take_event(self.profile.api, &event, arrived, &mut |part| clean.take(part));
                taken.map_err(|broken| self.broken(broken))?;
                if is_last(&event) && arrived.end.is_some() {
                    // Without its end the body would close the connection.
                    drop(timeout(END_GRACE, response.chunk()).await);
                    return Ok(());
                }
                if arrived.len() > MAX_REPLY {
                    return Err(self.bad("the reply has more than 16 MiB".to_owned()));
                }
            }
        }
    }

    fn whole(
        &self,
        body: &[u8],
        clean: &mut Clean<'_>,
        arrived: &mut Arrived,
    ) -> Result<(), Failed> {
        let taken = take_whole(self.profile.api, body, arrived, &mut |part| clean.take(part));
        taken.map_err(|broken| self.broken(broken))
    }

    /// A reply whose header does not say whether it is a stream.
    fn whole_or_events(
        &self,
        kind: &str,
        body: &[u8],
        (clean, received): (&mut Clean<'_>, &mut Received),
    ) -> Result<(), Failed> {
        let Received { arrived, has_begun } = received;
        if body.trim_ascii_start().starts_with(b"{") {
            *has_begun = true;
            return self.whole(body, clean, arrived);
        }
        let mut reader = EventReader::default();
        let events = reader.push(body).map_err(|why| self.bad(why.to_owned()))?;
        if events.is_empty() {
            return Err(self.bad(format!("its content type is {:?}", failure::shown(kind))));
        }
        *has_begun = true;
        for event in events {
            let taken = take_event(self.profile.api, &event, arrived, &mut |part| clean.take(part));
            taken.map_err(|broken| self.broken(broken))?;
        }
        if arrived.end.is_none() { Err(self.cut()) } else { Ok(()) }
    }

    async fn reply_body(&self, response: Response, clocks: &mut Clocks) -> Result<Vec<u8>, Failed> {
        let body = self.body(response, clocks, MAX_REPLY).await?;
        if body.len() >= MAX_REPLY {
            return Err(self.bad("the reply has more than 16 MiB".to_owned()));
        }
        Ok(body)
    }

    /// The body up to `most` bytes.
    async fn body(
        &self,
        mut response: Response,
        clocks: &mut Clocks,
        most: usize,
    ) -> Result<Vec<u8>, Failed> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(&mut response, clocks).await? {
            let room = most.saturating_sub(body.len());
            body.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
            if body.len() >= most {
                break;
            }
        }
        Ok(body)
    }

    async fn chunk(
        &self,
        response: &mut Response,
        clocks: &mut Clocks,
    ) -> Result<Option<Vec<u8>>, Failed> {
        let (by, phase, limit) = if clocks.began {
            (Instant::now() + clocks.idle, Phase::Idle, clocks.idle)
        } else {
            (clocks.first_byte, Phase::FirstByte, clocks.first_byte_limit)
        };
        match timeout_at(by, response.chunk()).await {
            Ok(Ok(chunk)) => {
                clocks.began = true;
                Ok(chunk.map(|chunk| chunk.to_vec()))
            }
            Ok(Err(error)) => Err(self.transport(&error)),
            Err(_) => Err(self.late(phase, limit)),
        }
    }

    async fn refused(&self, response: Response, clocks: &mut Clocks) -> Failed {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let status = response.status().as_u16();
        let retry_after = header(RETRY_AFTER).and_then(|value| retry_after(value, Utc::now()));
        let location = header(LOCATION).map(str::to_owned);
        // A body that breaks says less; the status is known.
        let body = self.body(response, clocks, MAX_ERROR).await.unwrap_or_default();
        self.refusal(status, &body, (retry_after, location))
    }

    /// The error of a refused request, without the keys that its words may repeat.
    pub(crate) fn refusal(
        &self,
        status: u16,
        body: &[u8],
        (retry_after, location): (Option<Duration>, Option<String>),
    ) -> Failed {
        let (code, mut said) = failure::read(body);
        self.redactor.redact(&mut said);
        let location = location.map(|location| self.clean(&location));
        self.failed(Refusal { status, code, said, retry_after, location })
    }

    fn failed(&self, refusal: Refusal) -> Failed {
        let error = refusal.error(&self.endpoint().name, &self.profile);
        Failed { error, refusal: Some(Box::new(refusal)) }
    }

    /// An answer that began well and is none.
    fn broken(&self, broken: Broken) -> Failed {
        match broken {
            Broken::Malformed(why) => self.bad(why),
            Broken::Error { status, code, mut said } => {
                self.redactor.redact(&mut said);
                let status = match code.as_str() {
                    "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
                    "invalid_request_error" | "context_length_exceeded" | "BadRequestError" => 400,
                    "authentication_error" | "permission_error" => 401,
                    _ => status.unwrap_or(503),
                };
                self.failed(Refusal { status, code, said, retry_after: None, location: None })
            }
        }
    }

    pub(crate) fn transport(&self, error: &reqwest::Error) -> Failed {
        if error.is_connect() && error.is_timeout() {
            return self.late(Phase::Connect, self.profile.connect_timeout);
        }
        // The innermost cause names what failed, and no address.
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let reason = self.clean(&cause.to_string());
        Failed::new(ChatError::Unreachable { endpoint: self.endpoint().name.clone(), reason })
    }

    pub(crate) fn late(&self, phase: Phase, limit: Duration) -> Failed {
        let endpoint = self.endpoint().name.clone();
        Failed::new(ChatError::Timeout { endpoint, phase, limit })
    }

    fn cut(&self) -> Failed {
        let reason = "the answer ended before the reply was whole".to_owned();
        Failed::new(ChatError::Unreachable { endpoint: self.endpoint().name.clone(), reason })
    }

    fn bad(&self, reason: String) -> Failed {
        let endpoint = self.endpoint().name.clone();
        Failed::new(ChatError::BadReply { endpoint, reason: self.clean(&reason) })
    }

    /// Words of the endpoint as one bounded line without the keys.
    pub(crate) fn clean(&self, words: &str) -> String {
        let mut words = words.to_owned();
        self.redactor.redact(&mut words);
        failure::shown(&words)
    }

    /// Takes the keys out of a reply: what an endpoint repeats must not reach a journal.
    fn redact(&self, arrived: &mut Arrived) {
        let Arrived { text, calls, reasoning, model, usage: _, end } = arrived;
        for text in [text, reasoning].into_iter().chain(calls.texts_mut()) {
            self.redactor.redact(text);
        }
        if let Some(named) = model.take() {
            *model = model_name(named, &self.redactor);
        }
        if let Some(End::Refused(said)) = end {
            self.redactor.redact(said);
        }
    }
}

/// An endpoint's name of its model, as it is stored with each turn; none where nothing is left of it.
fn model_name(mut named: String, redactor: &Redactor) -> Option<String> {
    // Before the cut: it could leave a part of a key.
    redactor.redact(&mut named);
    let mut name: String = named.chars().filter(|letter| !letter.is_control()).collect();
    name.truncate(name.floor_char_boundary(MAX_MODEL_NAME));
    Some(name).filter(|name| !name.trim().is_empty())
}

/// Whether nothing follows.
fn is_last(event: &Event) -> bool {
    event.data.trim() == "[DONE]" || event.name == "message_stop"
}

/// Tells of parts without the keys, also those that lie in two of them.
struct Clean<'a> {
    on_part: OnPart<'a>,
    text: RedactedStream,
    reasoning: RedactedStream,
}

impl<'a> Clean<'a> {
    fn new(client: &Client, on_part: OnPart<'a>) -> Self {
        let stream = || RedactedStream::new(client.redactor.clone());
        Self { on_part, text: stream(), reasoning: stream() }
    }

    fn take(&mut self, part: ReplyPart<'_>) {
        match part {
            ReplyPart::Text(piece) => {
                let piece = self.text.push(piece.as_bytes());
                self.tell(&piece, false);
            }
            ReplyPart::Reasoning(piece) => {
                let piece = self.reasoning.push(piece.as_bytes());
                self.tell(&piece, true);
            }
            ReplyPart::Restart(used) => (self.on_part)(ReplyPart::Restart(used)),
        }
    }

    fn finish(&mut self) {
        let (text, reasoning) = (self.text.finish(), self.reasoning.finish());
        self.tell(&reasoning, true);
        self.tell(&text, false);
    }

    fn tell(&mut self, piece: &[u8], is_reasoning: bool) {
        if piece.is_empty() {
            return;
        }
        let piece = String::from_utf8_lossy(piece);
        (self.on_part)(if is_reasoning {
            ReplyPart::Reasoning(&piece)
        } else {
            ReplyPart::Text(&piece)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_model_is_a_short_line_without_keys() {
        let redactor = Redactor::new([("model-key", "sk-0123456789abcdef")]);
        let name = |text: &str| model_name(text.to_owned(), &redactor);
        assert_eq!(name("Qwen/Qwen3-32B").as_deref(), Some("Qwen/Qwen3-32B"));
        assert_eq!(name("m\0\n1\u{7f}").as_deref(), Some("m1"));
        for empty in ["", " ", "\0"] {
            assert_eq!(name(empty), None);
        }
        let long = name(&"é".repeat(1_500_000)).unwrap();
        assert_eq!((long.len(), long.ends_with('é')), (254, true));
        let with_key = name(&format!("{}sk-0123456789abcdef", "M".repeat(250))).unwrap();
        assert!(with_key.len() == 255 && !with_key.contains("sk-"), "{with_key}");
    }
}
