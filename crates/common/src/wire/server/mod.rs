//! The only place where a port is served.
//!
//! ```text
//!   one port, with TLS where there is a certificate (port)
//!            --content type--> gRPC: complete_errors > carry_trace > authenticate > keep_deadline
//!                |                    > health, reflection, the services
//!                +-----------> HTTP: the router of the service (/healthz, /metrics)
//! ```
//!
//! Authentication guards gRPC only; an HTTP router guards its own paths.

mod absent;
mod answer;
mod authenticate;
mod bounds;
#[cfg(feature = "store")]
mod info;
mod layer;
mod listen;
mod open_files;
mod opening;
#[cfg(all(feature = "store", feature = "telemetry"))]
mod operations;
mod port;
mod revocable;
mod runtime;
mod stop;
mod watched;

#[cfg(test)]
mod tests;

pub use authenticate::{Authentication, Authenticator};
pub use bounds::Bounds;
#[cfg(feature = "store")]
pub use info::{ServerInfo, not_served};
pub use listen::{BindError, announce, bind};
pub use open_files::open_files;
#[cfg(all(feature = "store", feature = "telemetry"))]
pub use operations::operations;
pub use port::Peer;
#[cfg(feature = "config")]
pub use runtime::run_service;
pub use runtime::{block_on, with_causes};
pub use stop::on_signal;

use super::{FILE_DESCRIPTOR_SET, v1};
use crate::tls::Tls;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::future::RouteFuture;
use futures::future::{BoxFuture, Either};
use opening::{MAX_HEADER, Refusal};
use port::{Port, Serving};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::Service;

/// The default size limit of a request in bytes: 4 MiB, gRPC's own default.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// How long running calls may continue after the shutdown began.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// How a port is served.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The size limit of a request in bytes; a larger one is refused with `message_too_large`.
    pub max_message_bytes: usize,
    /// Whether reflection is served, v1 and v1alpha (older clients use only the latter).
    pub reflection: bool,
    /// How the callers of every gRPC call but health are authenticated.
    pub authentication: Authentication,
    /// The certificates; the port has TLS if they contain a certificate for it.
    pub tls: Option<Tls>,
    /// How long running calls may continue after the shutdown began.
    pub drain: Duration,
    /// The bounds of the port's connections.
    pub bounds: Bounds,
}

/// A port that is being configured.
pub struct Server {
    settings: Settings,
    names: Vec<&'static str>,
    absent: Vec<&'static str>,
    routes: RoutesBuilder,
    http: Router,
    health: HealthReporter,
}

/// Why a port is no longer served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener failed.
    #[error("the listening socket failed")]
    Listener(#[from] io::Error),
    /// The API descriptors in this binary are invalid.
    #[error("the API's descriptors cannot be served for reflection")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A generated gRPC server whose message size can be limited.
pub trait GrpcService: NamedService + Sized {
    /// The same server, refusing requests of more than `bytes`.
    #[must_use]
    fn with_max_message_bytes(self, bytes: usize) -> Self;
}

/// The generated servers have the same method, but no common trait.
macro_rules! grpc_services {
    ($($module:ident :: $server:ident < $service:ident >;)*) => {$(
        impl<T> GrpcService for v1::$module::$server<T>
        where
            T: v1::$module::$service,
        {
            fn with_max_message_bytes(self, bytes: usize) -> Self {
                self.max_decoding_message_size(bytes)
            }
        }
    )*};
}

grpc_services! {
    run_service_server::RunServiceServer<RunService>;
    planner_service_server::PlannerServiceServer<PlannerService>;
    executor_service_server::ExecutorServiceServer<ExecutorService>;
    tool_service_server::ToolServiceServer<ToolService>;
    admin_service_server::AdminServiceServer<AdminService>;
    accept_gate_service_server::AcceptGateServiceServer<AcceptGateService>;
    internal_service_server::InternalServiceServer<InternalService>;
    toolchain_service_server::ToolchainServiceServer<ToolchainService>;
    server_info_service_server::ServerInfoServiceServer<ServerInfoService>;
}

#[cfg(feature = "config")]
impl Settings {
    /// What the common settings say.
    pub fn of(
        common: &crate::config::CommonConfig,
        authentication: Authentication,
        tls: Option<Tls>,
    ) -> Self {
        Self {
            max_message_bytes: usize::try_from(common.max_message_bytes).unwrap_or(usize::MAX),
            reflection: common.reflection,
            authentication,
            tls,
            drain: common.drain_timeout(),
            bounds: Bounds::of(&common.connections),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            reflection: false,
            authentication: Authentication::Anonymous,
            tls: None,
            drain: DEFAULT_DRAIN,
            bounds: Bounds::default(),
        }
    }
}

impl Server {
    /// A port that serves health, and reflection if it is enabled.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            names: Vec::new(),
            absent: Vec::new(),
            routes: RoutesBuilder::default(),
            http: Router::new(),
            health: HealthReporter::new(),
        }
    }

    /// Adds a gRPC service.
    #[must_use]
    pub fn with_service<S>(mut self, service: S) -> Self
    where
        S: GrpcService
            + Service<http::Request<tonic::body::Body>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        let bytes = self.settings.max_message_bytes;
        self.routes.add_service(service.with_max_message_bytes(bytes));
        self
    }

    /// Answers every call of a gRPC service with an error that it needs a database, and reports it
    /// as not serving.
    #[must_use]
    pub fn without_database<S: NamedService + 'static>(mut self) -> Self {
        self.absent.push(S::NAME);
        self.routes.add_service(absent::NeedsDatabase::<S>::new());
        self
    }

    /// Answers `GetServerInfo` too. Comes last: it names the services that were added before.
    #[cfg(feature = "store")]
    #[must_use]
    pub fn with_info(self, info: ServerInfo) -> Self {
        use v1::server_info_service_server::ServerInfoServiceServer;
        let own = <ServerInfoServiceServer<info::InfoService> as NamedService>::NAME;
        let services = self.names.iter().chain(&self.absent).copied().chain([own]).collect();
        let max_message_bytes = self.settings.max_message_bytes;
        let handlers = info::InfoService { info, services, max_message_bytes };
        self.with_service(ServerInfoServiceServer::new(handlers))
    }

    /// Serves these HTTP paths on the same port, to requests other than gRPC.
    #[must_use]
    pub fn with_http(mut self, router: Router) -> Self {
        self.http = router;
        self
    }

    /// Reports the health of services; the empty name is the whole port. Services are serving from
    /// the start of [`Server::serve`].
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// Serves until `shutdown` completes. Then health reports it, new connections are refused, and
    /// running calls have the settings' `drain` to end. Calls that are still open end with the
    /// process.
    ///
    /// # Errors
    /// [`ServeError`] when the port cannot be served.
    pub async fn serve<F>(self, listener: TcpListener, shutdown: F) -> Result<(), ServeError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (health, drain) = (self.health.clone(), self.settings.drain);
        let (tls, bounds) = (self.settings.tls.clone(), self.settings.bounds);
        let names = self.names.clone();
        report(&health, &names, ServingStatus::Serving).await;
        report_each(&health, &self.absent, ServingStatus::NotServing).await;
        let app = self.into_app()?;
        let (begin_drain, drain_began) = oneshot::channel();
        let stopping = async move {
            shutdown.await;
            report(&health, &names, ServingStatus::NotServing).await;
            // The receiver is dropped only when serving has already ended.
            begin_drain.send(()).ok();
        };
        let app = app.into_make_service_with_connect_info::<Peer>();
        let serving =
            axum::serve(Port::new(listener, tls, bounds)?, app).with_graceful_shutdown(stopping);
        tokio::select! {
            result = serving.into_future() => Ok(result?),
            () = drained(drain_began, drain) => Ok(()),
        }
    }

    fn into_app(mut self) -> Result<Router, ServeError> {
        let health = HealthService::from_health_reporter(self.health);
        self.routes.add_service(HealthServer::new(health));
        if self.settings.reflection {
            let reflection = || {
                let builder = tonic_reflection::server::Builder::configure()
                    .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                    .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                    .with_service_name("grpc.health.v1.Health");
                self.names
                    .iter()
                    .chain(&self.absent)
                    .fold(builder, |builder, name| builder.with_service_name(*name))
            };
            let (v1, v1alpha) = (reflection().build_v1()?, reflection().build_v1alpha()?);
            self.routes.add_service(v1).add_service(v1alpha);
        }
        let mut grpc = self.routes.routes().prepare().into_axum_router();
        grpc = grpc.layer(from_fn(layer::keep_deadline));
        let callers = authenticate::Callers {
            authentication: self.settings.authentication,
            tls: self.settings.tls,
        };
        grpc = grpc.layer(from_fn_with_state(callers, authenticate::authenticate));
        grpc = grpc.layer(from_fn(layer::carry_trace)).layer(from_fn(layer::complete_errors));
        Ok(Router::new().fallback_service(ByContentType { grpc, http: self.http }))
    }
}

async fn report(health: &HealthReporter, names: &[&'static str], status: ServingStatus) {
    report_each(health, names, status).await;
    health.set_service_status("", status).await;
}

async fn report_each(health: &HealthReporter, names: &[&'static str], status: ServingStatus) {
    for name in names {
        health.set_service_status(*name, status).await;
    }
}

/// Completes when the drain began and its time limit passed.
async fn drained(began: oneshot::Receiver<()>, drain: Duration) {
    match began.await {
        Ok(()) => tokio::time::sleep(drain).await,
        Err(_) => std::future::pending().await,
    }
}

/// Routes gRPC to one service and other requests to the other, so that both may have a fallback.
#[derive(Clone)]
struct ByContentType {
    grpc: Router,
    http: Router,
}

impl Service<Request> for ByContentType {
    type Response = axum::response::Response<Body>;
    type Error = Infallible;
    type Future =
        Either<RouteFuture<Infallible>, BoxFuture<'static, Result<Self::Response, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A router is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let is_grpc = request
            .headers()
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let peer =
            request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.clone());
        if request.version() == http::Version::HTTP_2 {
            // The connection is shared by further requests: it never waits again.
            if let Some(peer) = peer {
                peer.serve();
            }
            let router = if is_grpc { &mut self.grpc } else { &mut self.http };
            return Either::Left(router.call(request));
        }
        let serving = peer.as_ref().map(Serving::of);
        if header_bytes(request.headers()) > MAX_HEADER {
            return Either::Right(Box::pin(ready(Ok(Refusal::HeaderTooLarge.into_response()))));
        }
        let answer = if is_grpc { self.grpc.call(request) } else { self.http.call(request) };
        Either::Right(Box::pin(async move {
            let answer = answer.await;
            drop(serving);
            answer
        }))
    }
}

/// The bytes of all names and values.
fn header_bytes(headers: &http::HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}
