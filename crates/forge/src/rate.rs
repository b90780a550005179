//! Rate limits: what a refused call says of them.

use chrono::{DateTime, TimeDelta, Utc};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How long the secondary limit of GitHub lasts where it names no time, as its documentation asks for.
const SECONDARY: TimeDelta = TimeDelta::minutes(1);
/// No forge is taken at its word for longer than this.
const LONGEST: TimeDelta = TimeDelta::days(1);

/// How many calls are left, where the forge says so.
pub(crate) fn calls_left(headers: &HeaderMap) -> Option<u64> {
    text(headers, "x-ratelimit-remaining")?.parse().ok()
}

/// When the forge may be asked again, where a refusal is that of a rate limit: primary (no calls left until the
/// reset) or secondary (`Retry-After`, or a message that says so).
pub(crate) fn limited_until(
    status: StatusCode,
    headers: &HeaderMap,
    said: &str,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let may_be = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    if !may_be {
        return None;
    }
    let asked = text(headers, RETRY_AFTER.as_str()).and_then(|value| retry_after(value, now));
    let reset = || {
        (calls_left(headers) == Some(0))
            .then(|| text(headers, "x-ratelimit-reset")?.parse::<i64>().ok())
            .flatten()
            .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
    };
    let by_words = || {
        let said = said.to_ascii_lowercase();
        let is_secondary =
            said.contains("secondary rate limit") || said.contains("rate limit exceeded");
        (is_secondary || status == StatusCode::TOO_MANY_REQUESTS).then(|| now + SECONDARY)
    };
    let until = asked.or_else(reset).or_else(by_words)?;
    Some(until.clamp(now, now + LONGEST))
}

/// When to ask again: seconds, or an HTTP date.
pub(crate) fn retry_after(value: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let value = value.trim();
    let seconds = value.parse::<u32>().ok().map(|seconds| now + TimeDelta::seconds(seconds.into()));
    seconds.or_else(|| Some(DateTime::parse_from_rfc2822(value).ok()?.to_utc()))
}

pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    #[test]
    fn a_refusal_is_a_rate_limit_by_its_headers_or_words() {
        let now = DateTime::from_timestamp(1_760_000_000, 0).expect("a time");
        let reset = "1760000090";
        for (status, fields, said, seconds) in [
            (403, vec![("retry-after", "7")], "", Some(7)),
            (429, vec![("retry-after", "7")], "", Some(7)),
            (403, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)], "", Some(90)),
            (403, vec![("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", reset)], "", None),
            (403, vec![], "You have exceeded a secondary rate limit.", Some(60)),
            (429, vec![], "", Some(60)),
            (403, vec![], "Resource not accessible", None),
            (422, vec![("retry-after", "7")], "", None),
            (429, vec![("retry-after", "4000000000")], "", Some(86_400)),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in &fields {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                headers.insert(name, HeaderValue::from_str(value).expect("a value"));
            }
            let status = StatusCode::from_u16(status).expect("a status");
            let until = limited_until(status, &headers, said, now);
            let expected = seconds.map(|seconds| now + TimeDelta::seconds(seconds));
            assert_eq!(until, expected, "{status} {fields:?} {said}");
        }
    }
}
