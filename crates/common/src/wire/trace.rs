//! The caller's trace context, as W3C Trace Context writes it, and how a span says that it failed.

use http::HeaderMap;
use tracing::Span;

const TRACEPARENT: &str = "traceparent";

/// Marks a span as failed, with the stable code of the failure. The span declares `error.type` and `otel.status_code`.
pub fn fail(span: &Span, code: &str) {
    span.record("error.type", code);
    span.record("otel.status_code", "ERROR");
}

/// The trace and span of a call. Handlers find it in the request's extensions when the caller sent
/// a valid one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The header's text, such as `00-<32 hex digits>-<16 hex digits>-01`.
    traceparent: String,
}

impl TraceContext {
    /// The context with this header value. None when it is invalid, which the standard treats as absent.
    pub fn new(traceparent: &str) -> Option<Self> {
        is_valid(traceparent).then(|| Self { traceparent: traceparent.to_owned() })
    }

    /// The context that came with a request.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        Self::new(headers.get(TRACEPARENT)?.to_str().ok()?)
    }

    /// The `traceparent` header's text.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The trace's id, 32 hex digits.
    pub fn trace_id(&self) -> &str {
        self.traceparent.get(3..35).unwrap_or_default()
    }

    /// The calling span's id, 16 hex digits.
    pub fn span_id(&self) -> &str {
        self.traceparent.get(36..52).unwrap_or_default()
    }
}

/// Version 00 has exactly four parts; a later version may have more, which are ignored.
fn is_valid(traceparent: &str) -> bool {
    let mut parts = traceparent.split('-');
    let mut next = |digits| {
        parts.next().filter(|part| {
            part.len() == digits
                && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let zeros = |part: &str| part.bytes().all(|byte| byte == b'0');
    let (Some(version), Some(trace), Some(span), Some(_flags)) =
        (next(2), next(32), next(16), next(2))
    else {
        return false;
    };
    version != "ff" && !zeros(trace) && !zeros(span) && (version != "00" || parts.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_context_names_its_trace_and_span() {
        let context = TraceContext::new(GOOD).unwrap();
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id(), "00f067aa0ba902b7");
    }

    #[test]
    fn a_context_that_is_not_valid_counts_as_absent() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let later_parts = format!("{GOOD}-x");
        let upper = GOOD.to_uppercase();
        let version_ff = GOOD.replacen("00", "ff", 1);
        for bad in ["", "00", &zero_trace, &zero_span, &later_parts, &upper, &version_ff, "é-é"] {
            assert_eq!(TraceContext::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_context_of_a_request_is_read_from_its_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::from_headers(&headers), None);
        headers.insert(TRACEPARENT, GOOD.parse().unwrap());
        assert_eq!(TraceContext::from_headers(&headers), TraceContext::new(GOOD));
    }
}
