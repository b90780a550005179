//! The answer of a stream, which ends when its caller may not go on.

use crate::domain::fault::Fault;
use crate::wire::caller::Caller;
use crate::wire::status::to_status;
use axum::body::{Body, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// How often the caller of an open stream is looked at. Less than the second for which a service remembers an identity, so
/// that a stream waits for no read of the database.
const EVERY: Duration = Duration::from_millis(800);

/// The body of a stream's answer. What was not sent when the caller lost its identity is dropped.
pub(super) struct Revocable {
    /// None once the stream was ended.
    body: Option<Body>,
    caller: Caller,
    due: Pin<Box<Sleep>>,
    checking: Option<BoxFuture<'static, Option<Fault>>>,
}

impl Revocable {
    pub(super) fn new(body: Body, caller: Caller) -> Self {
        Self { body: Some(body), caller, due: Box::pin(sleep(EVERY)), checking: None }
    }

    /// Looks at the caller again where it is time. Nothing is sent before the answer is known.
    fn poll_revoked(&mut self, context: &mut Context<'_>) -> Poll<Option<Fault>> {
        loop {
            if let Some(checking) = &mut self.checking {
                let revoked = ready!(checking.as_mut().poll(context));
                self.checking = None;
                if revoked.is_some() {
                    return Poll::Ready(revoked);
                }
                self.due.as_mut().reset(Instant::now() + EVERY);
            }
            if self.due.as_mut().poll(context).is_pending() {
                return Poll::Ready(None);
            }
            let caller = self.caller.clone();
            self.checking = Some(async move { caller.revoked().await }.boxed());
        }
    }

    /// Ends the stream with an error. The handler's stream is dropped.
    fn end(&mut self, fault: &Fault) -> Frame<Bytes> {
        self.body = None;
        tracing::info!(identity = self.caller.name(), %fault, "grpc: a stream was ended");
        let mut trailers = HeaderMap::new();
        if to_status(fault).add_header(&mut trailers).is_err() {
            tracing::error!("grpc: the error of a stream could not be written to its trailers");
        }
        Frame::trailers(trailers)
    }
}

impl http_body::Body for Revocable {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_none() {
            return Poll::Ready(None);
        }
        if let Some(fault) = ready!(self.poll_revoked(context)) {
            return Poll::Ready(Some(Ok(self.end(&fault))));
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
