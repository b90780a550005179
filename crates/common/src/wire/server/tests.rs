//! A port as its callers see it, over real sockets.

use super::*;
use crate::domain::fault::{Fault, FaultCode, Reason};
use crate::domain::identity::{Identity, Namespaces, Role};
use crate::wire::client::{self, ServiceChannel};
use crate::wire::status::{from_status, to_status};
use crate::wire::token::{Token, TokenHash};
use crate::wire::trace::TraceContext;
use axum::routing::get;
use futures::stream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::{Code, Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;
use v1::accept_gate_service_client::AcceptGateServiceClient;
use v1::accept_gate_service_server::{AcceptGateService, AcceptGateServiceServer};
use v1::internal_service_client::InternalServiceClient;
use v1::internal_service_server::{InternalService, InternalServiceServer};
use v1::tool_service_client::ToolServiceClient;
use v1::tool_service_server::{ToolService, ToolServiceServer};

const GATE: &str = "surety.v1.AcceptGateService";
const TOOLS: &str = "surety.v1.ToolService";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A service that returns its input, and fails in every way that a handler can.
#[derive(Clone, Default)]
struct Sample {
    /// Notified when the endless call has begun.
    endless_began: Arc<Notify>,
    /// An endless stream has a weak reference to it.
    stream_open: Option<Arc<()>>,
}

#[tonic::async_trait]
impl AcceptGateService for Sample {
    /// Returns the trace context that the handler received.
    async fn evaluate(
        &self,
        request: tonic::Request<v1::EvaluateRequest>,
    ) -> Result<Response<v1::EvaluateResponse>, Status> {
        let trace = request.extensions().get::<TraceContext>().cloned();
        let message = trace.map(|trace| trace.trace_id().to_owned()).unwrap_or_default();
        let problem = v1::Problem { message, ..v1::Problem::default() };
        Ok(Response::new(v1::EvaluateResponse {
            outcome: Some(v1::evaluate_response::Outcome::Problem(problem)),
            ..v1::EvaluateResponse::default()
        }))
    }

    async fn get_verdict(
        &self,
        _: tonic::Request<v1::GetVerdictRequest>,
    ) -> Result<Response<v1::GetVerdictResponse>, Status> {
        Err(Status::not_found("a bare status"))
    }

    async fn verify_receipts(
        &self,
        _: tonic::Request<v1::VerifyReceiptsRequest>,
    ) -> Result<Response<v1::VerifyReceiptsResponse>, Status> {
        Err(to_status(&Fault::new(FaultCode::Unimplemented, "VerifyReceipts is not served")))
    }
}

#[tonic::async_trait]
impl InternalService for Sample {
    /// Never ends.
    async fn evaluate_run(
        &self,
        _: tonic::Request<v1::EvaluateRunRequest>,
    ) -> Result<Response<v1::EvaluateRunResponse>, Status> {
        self.endless_began.notify_one();
        std::future::pending().await
    }
}

#[tonic::async_trait]
impl ToolService for Sample {
    type ConnectStream =
        Pin<Box<dyn futures::Stream<Item = Result<v1::ConnectResponse, Status>> + Send>>;

    /// Fails after its first message, when the response's headers are already sent; or never ends.
    async fn connect(
        &self,
        _: tonic::Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        if let Some(open) = self.stream_open.as_ref().map(Arc::downgrade) {
            let endless = stream::unfold(open, |open| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok(v1::ConnectResponse::default()), open))
            });
            return Ok(Response::new(Box::pin(endless)));
        }
        let items = [Ok(v1::ConnectResponse::default()), Err(Status::unavailable("bare"))];
        Ok(Response::new(Box::pin(stream::iter(items))))
    }

    async fn list_tools(
        &self,
        _: tonic::Request<v1::ListToolsRequest>,
    ) -> Result<Response<v1::ListToolsResponse>, Status> {
        let fault = Fault::new(FaultCode::DatabaseUnavailable, "closed").with_retry_after_ms(50);
        Err(to_status(&fault))
    }
}

struct Port {
    address: String,
    sample: Sample,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Port {
    async fn open(settings: Settings) -> Self {
        Self::open_with(settings, Sample::default()).await
    }

    async fn open_with(settings: Settings, sample: Sample) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::new(settings)
            .with_service(AcceptGateServiceServer::new(sample.clone()))
            .with_service(InternalServiceServer::new(sample.clone()))
            .with_service(ToolServiceServer::new(sample.clone()))
            .with_http(Router::new().route("/healthz", get(|| async { "ok" })));
        let serving = tokio::spawn(server.serve(listener, async {
            stopped.await.ok();
        }));
        Self { address, sample, stop: Some(stop), serving }
    }

    fn channel(&self) -> ServiceChannel {
        client::channel(&self.address, None).unwrap()
    }

    fn channel_with(&self, token: &str) -> ServiceChannel {
        client::channel(&self.address, Some(&Token::new(token).unwrap())).unwrap()
    }

    fn gate(&self) -> AcceptGateServiceClient<ServiceChannel> {
        AcceptGateServiceClient::new(self.channel())
    }

    async fn health(&self, service: &str) -> Result<i32, Status> {
        let request = HealthCheckRequest { service: service.to_owned() };
        let response = HealthClient::new(self.channel()).check(request).await?;
        Ok(response.into_inner().status)
    }

    async fn http_get(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        self.send(request.as_bytes()).await
    }

    async fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

fn guarded() -> Settings {
    let identity = Identity::new("t", [Role::Viewer], Namespaces::Every).unwrap();
    let known = [(Token::new("right").unwrap().hash(), identity)];
    let authentication = Authentication::stateless(&known);
    Settings { authentication, reflection: true, ..Settings::default() }
}

#[track_caller]
fn assert_reason(status: &Status, code: Code, reason: FaultCode) {
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(from_status(status).reason, Reason::Service(reason));
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().domain, "surety");
}

#[tokio::test]
async fn health_answers_for_the_port_and_for_each_service() {
    let port = Port::open(Settings::default()).await;
    for name in ["", GATE, TOOLS] {
        assert_eq!(port.health(name).await.unwrap(), 1, "{name:?} is not serving");
    }
    assert_reason(
        &port.health("surety.v1.Other").await.unwrap_err(),
        Code::NotFound,
        FaultCode::NotFound,
    );
}

/// Queries one version of reflection for the services that it lists.
macro_rules! listed_services {
    ($port:expr, $version:ident) => {{
        use tonic_reflection::pb::$version as pb;
        let request = pb::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(pb::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            )),
        };
        let mut client =
            pb::server_reflection_client::ServerReflectionClient::new($port.channel_with("right"));
        let answers = client.server_reflection_info(stream::iter([request])).await.unwrap();
        let answer = answers.into_inner().message().await.unwrap().unwrap();
        let Some(pb::server_reflection_response::MessageResponse::ListServicesResponse(list)) =
            answer.message_response
        else {
            panic!("no list of services: {answer:?}");
        };
        list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
    }};
}

#[tokio::test]
async fn both_versions_of_reflection_list_what_is_served() {
    let port = Port::open(guarded()).await;
    for names in [listed_services!(port, v1), listed_services!(port, v1alpha)] {
        for name in [GATE, TOOLS, "grpc.health.v1.Health"] {
            assert!(names.iter().any(|listed| listed == name), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|listed| listed == "surety.v1.RunService"), "{names:?}");
    }
}

#[tokio::test]
async fn reflection_is_served_only_when_it_is_enabled() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    let port = Port::open(Settings::default()).await;
    let mut client = ServerReflectionClient::new(port.channel());
    let status = client.server_reflection_info(stream::iter([])).await.unwrap_err();
    assert_reason(&status, Code::Unimplemented, FaultCode::Unimplemented);
}

#[tokio::test]
async fn only_the_right_token_opens_a_service_and_health_needs_none() {
    let port = Port::open(guarded()).await;
    for channel in [port.channel(), port.channel_with("wrong")] {
        let status = AcceptGateServiceClient::new(channel)
            .evaluate(v1::EvaluateRequest::default())
            .await
            .unwrap_err();
        assert_reason(&status, Code::Unauthenticated, FaultCode::Unauthenticated);
        assert!(!status.message().contains("right"));
    }
    let mut known = AcceptGateServiceClient::new(port.channel_with("right"));
    assert!(known.evaluate(v1::EvaluateRequest::default()).await.is_ok());
    assert_eq!(port.health("").await.unwrap(), 1);
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_by_its_reason() {
    let settings = Settings { max_message_bytes: 1000, ..Settings::default() };
    let port = Port::open(settings).await;
    let request = |bytes| v1::EvaluateRequest {
        final_text: "x".repeat(bytes),
        ..v1::EvaluateRequest::default()
    };
    assert!(port.gate().evaluate(request(900)).await.is_ok());
    let status = port.gate().evaluate(request(1001)).await.unwrap_err();
    assert_reason(&status, Code::ResourceExhausted, FaultCode::MessageTooLarge);
}

/// A message whose first field is bytes where the API has a text.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "1")]
    text: Vec<u8>,
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_by_their_field() {
    let port = Port::open(Settings::default()).await;
    let mut client = tonic::client::Grpc::new(port.channel());
    client.ready().await.unwrap();
    let codec: tonic_prost::ProstCodec<Raw, v1::GetVerdictResponse> =
        tonic_prost::ProstCodec::default();
    let request = tonic::Request::new(Raw { text: vec![0xff, 0xfe] });
    let path = "/surety.v1.AcceptGateService/GetVerdict".parse().unwrap();
    let status = client.unary(request, path, codec).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let fault = from_status(&status);
    assert_eq!((fault.reason.as_str(), fault.field.as_deref()), ("type_mismatch", Some("run_id")));
}

#[tokio::test]
async fn an_unknown_method_and_an_unknown_service_answer_with_a_reason() {
    let port = Port::open(Settings::default()).await;
    for path in ["/surety.v1.AcceptGateService/Nothing", "/surety.v1.RunService/GetRun"] {
        let mut client = tonic::client::Grpc::new(port.channel());
        client.ready().await.unwrap();
        let codec: tonic_prost::ProstCodec<v1::GetRunRequest, v1::GetRunResponse> =
            tonic_prost::ProstCodec::default();
        let request = tonic::Request::new(v1::GetRunRequest::default());
        let status = client.unary(request, path.parse().unwrap(), codec).await.unwrap_err();
        assert_reason(&status, Code::Unimplemented, FaultCode::Unimplemented);
    }
    let status =
        port.gate().verify_receipts(v1::VerifyReceiptsRequest::default()).await.unwrap_err();
    assert_reason(&status, Code::Unimplemented, FaultCode::Unimplemented);
    assert!(status.message().contains("VerifyReceipts"));
}

#[tokio::test]
async fn an_error_without_a_reason_gets_one_in_headers_and_in_trailers() {
    let port = Port::open(Settings::default()).await;
    let status = port.gate().get_verdict(v1::GetVerdictRequest::default()).await.unwrap_err();
    assert_reason(&status, Code::NotFound, FaultCode::NotFound);
    assert_eq!(status.message(), "a bare status");

    let mut tools = ToolServiceClient::new(port.channel());
    let answers = tools.connect(stream::iter([])).await.unwrap();
    let mut answers = answers.into_inner();
    assert!(answers.message().await.unwrap().is_some());
    let status = answers.message().await.unwrap_err();
    assert_reason(&status, Code::Unavailable, FaultCode::ServiceUnavailable);
}

#[tokio::test]
async fn an_error_that_has_a_reason_arrives_as_it_was_made() {
    let port = Port::open(Settings::default()).await;
    let mut tools = ToolServiceClient::new(port.channel());
    let status = tools.list_tools(v1::ListToolsRequest::default()).await.unwrap_err();
    let sent = Fault::new(FaultCode::DatabaseUnavailable, "closed").with_retry_after_ms(50);
    assert_eq!(from_status(&status), sent);
}

#[tokio::test]
async fn the_callers_trace_reaches_the_handler() {
    let port = Port::open(Settings::default()).await;
    let mut request = tonic::Request::new(v1::EvaluateRequest::default());
    request.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
    let response = port.gate().evaluate(request).await.unwrap().into_inner();
    let Some(v1::evaluate_response::Outcome::Problem(problem)) = response.outcome else {
        panic!("the sample answers a problem");
    };
    assert_eq!(problem.message, "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[tokio::test]
async fn the_callers_deadline_ends_the_call_on_the_server() {
    let port = Port::open(Settings::default()).await;
    // Over HTTP/1.1, because tonic's own client would enforce the deadline before the server.
    let head = "POST /surety.v1.InternalService/EvaluateRun HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-type: application/grpc\r\ngrpc-timeout: 20m\r\ncontent-length: 5\r\n\r\n";
    let answer = port.send(&[head.as_bytes(), &[0; 5]].concat()).await;
    assert!(answer.contains("grpc-status: 4"), "{answer}");
    assert!(answer.contains("grpc-status-details-bin: "), "{answer}");
}

#[tokio::test]
async fn http_shares_the_port_and_needs_no_token() {
    let port = Port::open(guarded()).await;
    let answer = port.http_get("/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    assert!(port.http_get("/nothing").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_port_shuts_down_in_time_although_a_call_never_ends() {
    let settings = Settings { drain: Duration::ZERO, ..Settings::default() };
    let mut port = Port::open(settings).await;
    assert_eq!(port.health("").await.unwrap(), 1);
    let mut internal = InternalServiceClient::new(port.channel());
    let endless =
        tokio::spawn(async move { internal.evaluate_run(v1::EvaluateRunRequest::default()).await });
    port.sample.endless_began.notified().await;
    port.stop.take().unwrap().send(()).unwrap();
    assert!(port.serving.await.unwrap().is_ok());
    endless.abort();
}

/// A store that has one identity now, or none.
struct Now(Mutex<Option<Arc<Identity>>>);

impl Authenticator for Now {
    fn identify(&self, _: TokenHash) -> BoxFuture<'_, Result<Option<Arc<Identity>>, Fault>> {
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap().clone())))
    }
}

fn worker_of(namespaces: &[&str]) -> Option<Arc<Identity>> {
    let names = namespaces.iter().map(|name| (*name).to_owned());
    let namespaces = Namespaces::from_names(names).unwrap();
    Some(Arc::new(Identity::new("w", [Role::Worker], namespaces).unwrap()))
}

#[tokio::test]
async fn an_open_stream_ends_when_its_caller_loses_what_it_had() {
    let denied = FaultCode::PermissionDenied;
    for (later, code, reason) in [
        (None, Code::Unauthenticated, FaultCode::Unauthenticated),
        (worker_of(&["a"]), Code::PermissionDenied, denied),
    ] {
        let now = Arc::new(Now(Mutex::new(worker_of(&["a", "b"]))));
        let authentication = Authentication::Store(now.clone());
        let settings = Settings { authentication, ..Settings::default() };
        let open = Arc::new(());
        let sample = Sample { stream_open: Some(open.clone()), ..Sample::default() };
        let port = Port::open_with(settings, sample).await;
        let mut tools = ToolServiceClient::new(port.channel_with("a-token"));
        let mut answers = tools.connect(stream::pending()).await.unwrap().into_inner();
        // What it gets beside is no loss. The second look at it is the one that ends the stream.
        *now.0.lock().unwrap() = worker_of(&["*"]);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            assert!(answers.message().await.unwrap().is_some());
        }
        *now.0.lock().unwrap() = later;
        let ended = async {
            while answers.message().await?.is_some() {}
            Ok::<(), Status>(())
        };
        let status = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        assert_eq!(status.as_ref().map_err(Status::code), Err(code));
        assert_reason(&status.unwrap_err(), code, reason);
        let gone = async {
            while Arc::weak_count(&open) > 0 {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    }
}
