//! The gRPC status of an answer, in the span of its call.

use super::layer::GRPC_STATUS;
use crate::wire::trace::fail;
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Code;
use tracing::Span;

/// Records the status of an answer in the span of its call: from its headers where it has nothing else, and from its
/// trailers otherwise. The span lasts until the answer is sent.
pub(super) fn with_status(span: Span, response: Response) -> Response {
    if span.is_disabled() || record(&span, response.headers()) {
        return response;
    }
    response.map(|body| Body::new(Answer { body, span }))
}

/// Records the status in these headers. Returns whether there is one.
fn record(span: &Span, headers: &HeaderMap) -> bool {
    let Some(status) = headers.get(GRPC_STATUS) else { return false };
    let code = Code::from_bytes(status.as_bytes());
    span.record("rpc.grpc.status_code", i32::from(code));
    if let Some(fault) = server_fault(code) {
        fail(span, fault);
    }
    true
}

/// The name of a status that is the server's fault; none where the call succeeded, or the caller can mend it.
const fn server_fault(code: Code) -> Option<&'static str> {
    match code {
        Code::Unknown => Some("UNKNOWN"),
        Code::DeadlineExceeded => Some("DEADLINE_EXCEEDED"),
        Code::Unimplemented => Some("UNIMPLEMENTED"),
        Code::Internal => Some("INTERNAL"),
        Code::Unavailable => Some("UNAVAILABLE"),
        Code::DataLoss => Some("DATA_LOSS"),
        Code::Ok
        | Code::Cancelled
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unauthenticated => None,
    }
}

/// The body of an answer, whose trailers have the status.
struct Answer {
    body: Body,
    span: Span,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            record(&self.span, trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Empty, Field, Visit};
    use tracing::span::{Id, Record};
    use tracing_subscriber::layer::{Context as Layered, SubscriberExt};
    use tracing_subscriber::{Layer, Registry};

    /// What was recorded after the span began.
    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    impl Recorded {
        fn lines(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    impl<S: tracing::Subscriber> Layer<S> for Recorded {
        fn on_record(&self, _: &Id, values: &Record<'_>, _: Layered<'_, S>) {
            values.record(&mut self.clone());
        }

        fn on_close(&self, _: Id, _: Layered<'_, S>) {
            self.0.lock().unwrap().push("closed".to_owned());
        }
    }

    impl Visit for Recorded {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
        }
    }

    /// What the span of a call has after its answer was read.
    async fn recorded(response: Response) -> Vec<String> {
        let recorded = Recorded::default();
        let subscriber = Registry::default().with(recorded.clone());
        let _default = tracing::subscriber::set_default(subscriber);
        let span = tracing::info_span!(
            "rpc",
            rpc.grpc.status_code = Empty,
            error.type = Empty,
            otel.status_code = Empty
        );
        to_bytes(with_status(span, response).into_body(), 100).await.unwrap();
        recorded.lines()
    }

    #[tokio::test]
    async fn a_refusal_has_its_code_and_only_a_fault_of_the_server_is_an_error() {
        let refused = |code| recorded(tonic::Status::new(code, "why").into_http());
        assert_eq!(refused(Code::NotFound).await, ["rpc.grpc.status_code=5", "closed"]);
        let expected = [
            "rpc.grpc.status_code=13",
            "error.type=\"INTERNAL\"",
            "otel.status_code=\"ERROR\"",
            "closed",
        ];
        assert_eq!(refused(Code::Internal).await, expected);
    }

    #[tokio::test]
    async fn a_stream_has_the_status_of_its_end() {
        let mut trailers = HeaderMap::new();
        trailers.insert(GRPC_STATUS, "14".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(b"part")), Frame::trailers(trailers)];
        let body = Body::new(Frames(frames.into_iter().collect()));
        let expected = [
            "rpc.grpc.status_code=14",
            "error.type=\"UNAVAILABLE\"",
            "otel.status_code=\"ERROR\"",
            "closed",
        ];
        assert_eq!(recorded(Response::new(body)).await, expected);
    }

    /// A body of these frames.
    struct Frames(std::collections::VecDeque<Frame<Bytes>>);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }
}
