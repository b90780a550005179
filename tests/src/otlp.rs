//! A real receiver of traces: OTLP over gRPC on a free port of the loopback.

use std::net::SocketAddr;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Takes spans until it is dropped.
#[derive(Debug)]
pub struct OtlpReceiver {
    address: SocketAddr,
    spans: watch::Receiver<Vec<ReceivedSpan>>,
    server: JoinHandle<()>,
}

/// One span as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSpan {
    /// The resource's `service.name`.
    pub service_name: String,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// The parent's 16 hexadecimal digits; empty for a root.
    pub parent_span_id: String,
    /// Its name.
    pub name: String,
    /// Its kind, such as `SPAN_KIND_SERVER`.
    pub kind: &'static str,
    /// Whether its status is Error.
    pub failed: bool,
    /// Its attributes, each value as text.
    pub attributes: Vec<(String, String)>,
    /// Its events, in order.
    pub events: Vec<ReceivedEvent>,
    /// The spans that it is linked to, by their 16 hexadecimal digits.
    pub links: Vec<String>,
}

/// One span event as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedEvent {
    /// Its name.
    pub name: String,
    /// Its attributes, each value as text.
    pub attributes: Vec<(String, String)>,
}

struct Collector(watch::Sender<Vec<ReceivedSpan>>);

impl OtlpReceiver {
    /// Listens on a free port.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_at((std::net::Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Listens at this address.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (sender, spans) = watch::channel(Vec::new());
        let service = TraceServiceServer::new(Collector(sender));
        let server = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let router = tonic::transport::Server::builder().add_service(service);
            if let Err(error) = router.serve_with_incoming(incoming).await {
                eprintln!("the receiver of traces ended: {error}");
            }
        });
        Ok(Self { address, spans, server })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` has to be.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that arrived so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.borrow().clone()
    }

    /// Waits until `reached` holds for everything that arrived.
    ///
    /// # Errors
    /// It did not within `deadline`; the error is what had arrived by then.
    pub async fn wait_for(
        &self,
        reached: impl Fn(&[ReceivedSpan]) -> bool,
        deadline: Duration,
    ) -> Result<Vec<ReceivedSpan>, Vec<ReceivedSpan>> {
        let mut spans = self.spans.clone();
        let waiting =
            async { spans.wait_for(|spans| reached(spans)).await.map(|spans| spans.clone()).ok() };
        let found = tokio::time::timeout(deadline, waiting).await.ok().flatten();
        found.ok_or_else(|| self.spans())
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ReceivedSpan {
    /// The text of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        find(&self.attributes, key)
    }

    fn from_wire(service_name: &str, span: Span) -> Self {
        Self {
            service_name: service_name.to_owned(),
            trace_id: hex(&span.trace_id),
            span_id: hex(&span.span_id),
            parent_span_id: hex(&span.parent_span_id),
            kind: span.kind().as_str_name(),
            failed: span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error),
            name: span.name,
            attributes: texts(span.attributes),
            links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            events: span
                .events
                .into_iter()
                .map(|event| ReceivedEvent {
                    name: event.name,
                    attributes: texts(event.attributes),
                })
                .collect(),
        }
    }
}

impl ReceivedEvent {
    /// The text of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        find(&self.attributes, key)
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut arrived = Vec::new();
        for resource_spans in request.into_inner().resource_spans {
            let attributes = resource_spans.resource.map(|resource| texts(resource.attributes));
            let attributes = attributes.unwrap_or_default();
            let service = find(&attributes, "service.name").unwrap_or_default();
            let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            arrived.extend(spans.map(|span| ReceivedSpan::from_wire(service, span)));
        }
        self.0.send_modify(|spans| spans.extend(arrived));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn find<'a>(attributes: &'a [(String, String)], key: &str) -> Option<&'a str> {
    attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    attributes.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(truth)) => truth.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
