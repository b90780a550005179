//! Replaces a gRPC service that needs a database, when there is none.

use crate::wire::status::needs_database;
use axum::extract::Request;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

/// Answers every call of `S` with `database_not_configured`.
pub(super) struct NeedsDatabase<S>(PhantomData<fn() -> S>);

impl<S> NeedsDatabase<S> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S> Clone for NeedsDatabase<S> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<S: NamedService> NamedService for NeedsDatabase<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for NeedsDatabase<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
        ready(Ok(needs_database(rpc).into_http()))
    }
}
