//! Answers: bounded bodies, and the meaning of a status.

use crate::account::Token;
use crate::ask::{Ask, Reading};
use crate::cache::Kept;
use crate::error::{ForgeError, ForgeErrorCode};
use crate::paging::Paging;
use crate::rate;
use chrono::Utc;
use reqwest::header::{ETAG, LOCATION};
use reqwest::{Response, StatusCode, Url};
use std::time::Duration;
use surety_common::domain::redact::Redactor;

/// The most bytes of an error's body that are read.
const MAX_ERROR: usize = 16 << 10;
/// The most characters of an error's message that are shown.
const MAX_SAID: usize = 300;
/// The most bytes of a log that are read for its end.
const MAX_LOG: usize = 64 << 20;

/// An answer of a forge.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    /// Whether the body had more bytes.
    pub(crate) is_cut: bool,
    pub(crate) paging: Paging,
    pub(crate) etag: Option<String>,
    /// Whether the forge said that a kept answer is still right.
    pub(crate) is_kept: bool,
    /// Where a redirect leads.
    pub(crate) location: Option<Url>,
}

/// An attempt that failed.
pub(crate) struct Failed {
    pub(crate) error: ForgeError,
    /// Whether the same read may succeed at once.
    pub(crate) is_transient: bool,
}

impl From<ForgeError> for Failed {
    fn from(error: ForgeError) -> Self {
        Self { error, is_transient: false }
    }
}

/// Reads a response to its end.
pub(crate) async fn finish(
    ask: &Ask,
    response: Response,
    (token, kept): (&Token, Option<&Kept>),
) -> Result<Answer, Failed> {
    let status = response.status();
    if let (StatusCode::NOT_MODIFIED, Some(kept)) = (status, kept) {
        return Ok(Answer {
            body: kept.body.clone(),
            paging: kept.paging.clone(),
            is_kept: true,
            ..Answer::default()
        });
    }
    if status.is_redirection() && matches!(ask.reading, Reading::End { .. }) {
        let target = rate::text(response.headers(), LOCATION.as_str());
        let location = target.and_then(|target| response.url().join(target).ok());
        return Ok(Answer { location, ..Answer::default() });
    }
    if !status.is_success() {
        return Err(refused(ask, response, &token.redactor()).await);
    }
    succeeded(ask, response).await
}

/// Reads a response to a request that had no credential.
pub(crate) async fn finish_open(ask: &Ask, response: Response) -> Result<Answer, Failed> {
    if response.status().is_success() {
        return succeeded(ask, response).await;
    }
    Err(refused(ask, response, &Redactor::default()).await)
}

async fn succeeded(ask: &Ask, response: Response) -> Result<Answer, Failed> {
    let headers = response.headers();
    let paging = Paging::of(headers);
    let etag = rate::text(headers, ETAG.as_str()).map(str::to_owned);
    let (body, is_cut) = read_body(ask, response).await?;
    Ok(Answer { body, is_cut, paging, etag, ..Answer::default() })
}

async fn read_body(ask: &Ask, mut response: Response) -> Result<(Vec<u8>, bool), Failed> {
    let mut body = Vec::new();
    let mut seen = 0_usize;
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| unanswered(ask, &error))? {
        seen = seen.saturating_add(chunk.len());
        body.extend_from_slice(&chunk);
        match ask.reading {
            Reading::Whole { most } if seen > most => {
                let message = format!("{} answered more than {most} bytes", ask.shown());
                let error = ask.fail(ForgeErrorCode::TooLarge, message);
                return Err(error.unsure(ask.is_write()).into());
            }
            Reading::Start { most } if seen > most => {
                body.truncate(most);
                return Ok((body, true));
            }
            Reading::End { most } if body.len() > 2 * most => {
                body.drain(..body.len() - most);
                is_cut = true;
            }
            Reading::End { .. } if seen > MAX_LOG => {
                is_cut = true;
                break;
            }
            Reading::Whole { .. } | Reading::Start { .. } | Reading::End { .. } => {}
        }
    }
    if let Reading::End { most } = ask.reading
        && body.len() > most
    {
        body.drain(..body.len() - most);
        is_cut = true;
    }
    Ok((body, is_cut))
}

/// The failure of a call that got no answer, or whose answer was cut.
pub(crate) fn unanswered(ask: &Ask, error: &reqwest::Error) -> Failed {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let message = format!("{} did not answer: {cause}", ask.shown());
    // Without a connection nothing was written.
    let is_unsure = ask.is_write() && !error.is_connect();
    let error = ask.fail(ForgeErrorCode::Unreachable, message).unsure(is_unsure);
    Failed { error, is_transient: true }
}

/// The failure of a call that took too long.
pub(crate) fn late(ask: &Ask, limit: Duration) -> Failed {
    let message = format!("{} did not answer within {limit:?}", ask.shown());
    let error = ask.fail(ForgeErrorCode::Unreachable, message).unsure(ask.is_write());
    Failed { error, is_transient: true }
}

/// The failure that a status stands for.
async fn refused(ask: &Ask, mut response: Response, redactor: &Redactor) -> Failed {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    // What was read of a broken body is enough for its message.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_ERROR {
            body.truncate(MAX_ERROR);
            break;
        }
    }
    let said = said(&body, redactor);
    let now = Utc::now();
    if let Some(until) = rate::limited_until(status, &headers, &said, now) {
        let message = format!("the account's rate limit is used up (HTTP {status}): {said}; wait");
        let error = ask.fail(ForgeErrorCode::RateLimited, message);
        let error = ForgeError { until: Some(until), ..error };
        return Failed { error, is_transient: true };
    }
    let (code, advice) = meaning(status);
    let message = format!("{}: HTTP {status}: {said}; {advice}", ask.shown());
    let is_failure = status.is_server_error();
    let error = ask.fail(code, message).unsure(is_failure && ask.is_write());
    Failed { error, is_transient: is_failure }
}

fn meaning(status: StatusCode) -> (ForgeErrorCode, &'static str) {
    match status.as_u16() {
        401 => (
            ForgeErrorCode::Unauthorized,
            "replace the token in the credential file, which may be wrong or expired",
        ),
        403 => (
            ForgeErrorCode::Forbidden,
            "give the account the right, or the token the scope, for this call",
        ),
        404 | 410 => (
            ForgeErrorCode::NotFound,
            "check the name and the number, and whether the account may see the repository",
        ),
        405 | 409 | 412 | 423 => {
            (ForgeErrorCode::Conflict, "read the state of the pull request, and try again")
        }
        400 | 413 | 415 | 422 => (ForgeErrorCode::Unprocessable, "correct the values of the call"),
        // Without a way to wait that `limited_until` knows.
        429 => (ForgeErrorCode::RateLimited, "wait"),
        300..=399 => (
            ForgeErrorCode::BadAnswer,
            "redirects are not followed: use the present name of the repository and the forge's own url",
        ),
        500..=599 => (ForgeErrorCode::Unreachable, "the forge fails; read its log"),
        _ => (ForgeErrorCode::BadAnswer, "check the forge's url"),
    }
}

/// What an error's body says: its `message`, and those of its `errors`, bounded and without the credential.
fn said(body: &[u8], redactor: &Redactor) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value.get("message").and_then(serde_json::Value::as_str);
    let errors = value.get("errors").map(ToString::to_string).filter(|text| text != "[]");
    let mut text = match (message, errors) {
        (Some(message), Some(errors)) => format!("{message} {errors}"),
        (Some(message), None) => message.to_owned(),
        (None, _) => String::from_utf8_lossy(body).into_owned(),
    };
    redactor.redact(&mut text);
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(MAX_SAID).collect();
    if short.trim().is_empty() {
        "no message".clone_into(&mut short);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forge_says_is_bounded_and_has_no_credential() {
        let redactor = Redactor::new([("forge-credential", "c4nary-token")]);
        let said_of = |text: &str| said(text.as_bytes(), &redactor);
        let shown = said_of(r#"{"message":"bad c4nary-token\n","errors":[{"field":"x"}]}"#);
        assert!(shown.contains("[secret:forge-credential]") && shown.contains("field"), "{shown}");
        assert!(!shown.contains("c4nary") && !shown.contains('\n'), "{shown}");
        assert_eq!(said_of(""), "no message");
        assert_eq!(said_of(&"x".repeat(5_000)).len(), MAX_SAID);
    }
}
