//! The layers that every call passes.

use crate::domain::fault::{Fault, FaultCode};
use crate::wire::status::{to_status, with_error_info};
use crate::wire::trace::TraceContext;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::{Code, Status};

pub(super) const GRPC_STATUS: &str = "grpc-status";
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Passes the caller's trace context to the handler.
pub(super) async fn carry_trace(mut request: Request, next: Next) -> Response {
    if let Some(context) = TraceContext::from_headers(request.headers()) {
        request.extensions_mut().insert(context);
    }
    next.run(request).await
}

/// Ends a call when the caller's own deadline passes. For a stream the deadline covers only its
/// start.
pub(super) async fn keep_deadline(request: Request, next: Next) -> Response {
    let deadline =
        request.headers().get(GRPC_TIMEOUT).and_then(|value| value.to_str().ok()).and_then(timeout);
    let Some(deadline) = deadline else {
        return next.run(request).await;
    };
    match tokio::time::timeout(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(
            FaultCode::DeadlineExceeded,
            "the caller's deadline passed; check whether the call took effect before a retry",
        ),
    }
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Adds a reason to every error, also to those of the gRPC library, in the headers of a response as
/// in its trailers.
pub(super) async fn complete_errors(request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    complete(&mut parts.headers);
    Response::from_parts(parts, Body::new(Completing(body)))
}

pub(super) fn refuse(code: FaultCode, message: &str) -> Response {
    to_status(&Fault::new(code, message)).into_http()
}

fn complete(headers: &mut HeaderMap) {
    if headers.get(GRPC_STATUS).is_none_or(|code| code == "0") {
        return;
    }
    let status = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok);
    if let Some(status) = status
        && with_error_info(status).add_header(headers).is_err()
    {
        tracing::error!("grpc: an error's reason could not be written to its headers");
    }
}

/// A response's body, which adds the reason to its trailers.
struct Completing(Body);

impl http_body::Body for Completing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.0).poll_frame(cx));
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            complete(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_the_protocol_writes_them() {
        for (text, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("100000000S", None),
            ("+5S", None),
            ("S", None),
            ("5", None),
            ("5é", None),
            ("", None),
        ] {
            assert_eq!(timeout(text), expected, "{text:?}");
        }
    }
}
