//! Starts and ends telemetry.

use std::io::IsTerminal;
use std::time::Duration;

use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use metrics_util::MetricKindMask;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, spawn_blocking};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::error::TelemetryError;
use super::exported::{Reporting, is_reported};
use super::names;
use super::redacted::RedactedStderr;
use super::resumed::{Ids, ResumingTracer};
use super::sent::BoundedExporter;
use crate::config::{LogFormat, TelemetryConfig};
use crate::wire::client::{Transport, channel_without_token};

/// Libraries whose spans would trace the exporter itself, or outnumber the service's own; rmcp's have what MCP servers
/// say.
const NOT_EXPORTED: [&str; 6] = ["h2", "hyper", "tonic", "opentelemetry", "tower", "rmcp"];
const INSIDE_A_STEP: [&str; 4] =
    [names::SPAN_TURN, names::SPAN_TOOL, names::SPAN_PROBE, names::SPAN_SNAPSHOT];
/// The log lines of these libraries are disabled unless the filter names them. Those of rmcp have whole messages of MCP
/// servers.
const QUIET_LOGS: &str =
    "h2=warn,hyper=warn,tonic=warn,opentelemetry=warn,tower=warn,sqlx=warn,rmcp=off";
/// A hanging export must not delay the next by the exporter's default of ten seconds.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long dropping a guard that was not shut down may block its thread.
const DROP_BOUND: Duration = Duration::from_secs(1);
/// How long the end of a process waits for the last spans: a part of the grace that an orchestrator gives it.
const END_BOUND: Duration = Duration::from_secs(3);
/// How often histogram samples are drained, which otherwise accumulate until a scrape.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// A gauge that is no longer set is outdated: after this time it is removed from the scrape.
const GAUGES_KEPT: Duration = Duration::from_secs(60);
/// The exporter's default of 128 would silently drop transitions of a long step.
const MAX_EVENTS_PER_SPAN: u32 = 4096;

/// Keeps telemetry running; shut it down as the last action of the process.
#[derive(Debug)]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
    metrics: PrometheusHandle,
    upkeep: AbortHandle,
}

/// Telemetry that is built and not installed yet, so that a test can use its own.
pub struct Telemetry {
    /// Receives logs and spans.
    pub dispatch: Dispatch,
    /// Receives metrics.
    pub recorder: PrometheusRecorder,
    /// Ends telemetry.
    pub guard: Guard,
}

/// Installs logs, traces and metrics for this process, under `service_name`.
///
/// # Errors
/// No tokio runtime, an invalid configuration, or telemetry that is already installed.
pub fn init(
    service_name: &'static str,
    config: &TelemetryConfig,
    transport: &Transport,
) -> Result<Guard, TelemetryError> {
    let Telemetry { dispatch, recorder, guard } =
        Telemetry::build(service_name, config, transport)?;
    tracing::dispatcher::set_global_default(dispatch)
        .map_err(|_| TelemetryError::AlreadyInstalled { part: "logs and traces" })?;
    metrics::set_global_recorder(recorder)
        .map_err(|_| TelemetryError::AlreadyInstalled { part: "metrics" })?;
    super::handles::keep();
    super::metric::describe();
    super::asked::describe();
    Ok(guard)
}

impl Telemetry {
    /// Builds telemetry without installing it.
    ///
    /// # Errors
    /// No tokio runtime, or an invalid configuration.
    pub fn build(
        service_name: &'static str,
        config: &TelemetryConfig,
        transport: &Transport,
    ) -> Result<Self, TelemetryError> {
        let runtime = Handle::try_current().map_err(|_| TelemetryError::NoRuntime)?;
        let recorder = recorder()?;
        let provider = config
            .otlp_endpoint
            .as_deref()
            .map(|endpoint| provider(service_name, endpoint, transport))
            .transpose()?;
        let metrics = recorder.handle();
        let upkeep = runtime.spawn(keep_up(metrics.clone())).abort_handle();
        let dispatch = dispatch(config, provider.as_ref())?;
        Ok(Self { dispatch, recorder, guard: Guard { provider, metrics, upkeep } })
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Guard {
    /// The metrics in Prometheus's text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.metrics.render()
    }

    /// A handle that renders the metrics, for a service that serves them.
    #[must_use]
    pub fn metrics(&self) -> PrometheusHandle {
        self.metrics.clone()
    }

    /// As [`Guard::shutdown`], within three seconds at the end of a process: lost spans are no failure of its work, so a
    /// warning says so.
    pub async fn end(self) {
        if let Err(error) = self.shutdown(END_BOUND).await {
            tracing::warn!(%error, "telemetry: the last spans are lost");
        }
    }

    /// Sends the remaining spans and ends, within `bound` whether or not the receiver answers.
    ///
    /// # Errors
    /// The last spans were not sent in time; they are lost and the process can end.
    ///
    /// # Cancel safety
    /// Sending continues in the background, within the same limit.
    pub async fn shutdown(mut self, bound: Duration) -> Result<(), TelemetryError> {
        let Some(provider) = self.provider.take() else {
            return Ok(());
        };
        let lost = |reason: String| TelemetryError::Flush { bound, reason };
        // The provider blocks its thread until the exporter's task on this runtime has ended.
        spawn_blocking(move || provider.shutdown_with_timeout(bound))
            .await
            .map_err(|error| lost(error.to_string()))?
            .map_err(|error| lost(error.to_string()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.upkeep.abort();
        if let Some(provider) = self.provider.take()
            && let Err(error) = provider.shutdown_with_timeout(DROP_BOUND)
        {
            tracing::warn!(%error, "telemetry: the last spans could not be sent; they are lost");
        }
    }
}

fn recorder() -> Result<PrometheusRecorder, TelemetryError> {
    let refused = |error: metrics_exporter_prometheus::BuildError| TelemetryError::Metrics {
        reason: error.to_string(),
    };
    let reports = Matcher::Full(names::TASK_REPORT_SECONDS.to_owned());
    let builder = PrometheusBuilder::new()
        // Of every histogram without buckets of its own: without any it would be exported as a summary.
        .set_buckets(&names::DURATION_BUCKETS_SECONDS)
        .map_err(refused)?
        .set_buckets_for_metric(reports, &names::REPORT_BUCKETS_SECONDS)
        .map_err(refused)?
        .idle_timeout(MetricKindMask::GAUGE, Some(GAUGES_KEPT));
    Ok(builder.build_recorder())
}

async fn keep_up(metrics: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        interval.tick().await;
        metrics.run_upkeep();
    }
}

fn provider(
    service_name: &'static str,
    endpoint: &str,
    transport: &Transport,
) -> Result<SdkTracerProvider, TelemetryError> {
    let refused = |reason: String| TelemetryError::Exporter { reason };
    let channel = channel_without_token(endpoint, transport);
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel.map_err(|error| refused(error.to_string()))?)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| refused(error.to_string()))?;
    let resource = Resource::builder().with_service_name(service_name).build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(BoundedExporter(Reporting::new(exporter, endpoint)))
        .with_resource(resource)
        .with_id_generator(Ids::default())
        .with_max_events_per_span(MAX_EVENTS_PER_SPAN)
        .build())
}

/// A layer that is absent is left out, and not given as `None`: above the registry such a layer makes each callsite that no
/// layer wants ask again at each use, and HTTP/2 alone has dozens for each frame.
fn dispatch(
    config: &TelemetryConfig,
    provider: Option<&SdkTracerProvider>,
) -> Result<Dispatch, TelemetryError> {
    let registry = Registry::default();
    Ok(match provider {
        Some(provider) => Dispatch::new(registry.with(spans(provider)).with(lines(config)?)),
        None => Dispatch::new(registry.with(lines(config)?)),
    })
}

fn spans<S>(provider: &SdkTracerProvider) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let exported = NOT_EXPORTED
        .iter()
        .fold(Targets::new().with_default(LevelFilter::INFO), |targets, target| {
            targets.with_target(*target, LevelFilter::OFF)
        });
    tracing_opentelemetry::layer()
        .with_tracer(ResumingTracer(provider.tracer("surety")))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(exported)
}

/// Whether a span is for traces alone. A log line names its innermost span, and of the spans inside a step only the step's own
/// names the run, the step and the trace.
fn is_only_traced(span: &Metadata<'_>) -> bool {
    span.is_span() && span.target() == names::TARGET_SPAN && INSIDE_A_STEP.contains(&span.name())
}

fn lines<S>(config: &TelemetryConfig) -> Result<impl Layer<S>, TelemetryError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let filter = EnvFilter::try_new(format!("{QUIET_LOGS},{}", config.log)).map_err(|error| {
        TelemetryError::LogFilter { directives: config.log.clone(), reason: error.to_string() }
    })?;
    // Colours only on a terminal.
    let colours = std::io::stderr().is_terminal();
    let layer =
        tracing_subscriber::fmt::layer().with_writer(RedactedStderr::default).with_ansi(colours);
    let layer = match config.log_format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let shown = filter_fn(|line| !is_reported(line) && !is_only_traced(line))
        // Without it, the levels of both filters together count as all levels.
        .with_max_level_hint(LevelFilter::TRACE);
    Ok(layer.with_filter(filter.and(shown)))
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::callsite::{Callsite, Identifier};
    use tracing::field::FieldSet;
    use tracing::metadata::Kind;
    use tracing::subscriber::Interest;

    use super::*;

    struct Frame;

    static FRAME: Frame = Frame;
    static DETAIL: Metadata<'static> = Metadata::new(
        "frame",
        "h2::codec",
        Level::DEBUG,
        None,
        None,
        None,
        FieldSet::new(&[], Identifier(&FRAME)),
        Kind::EVENT,
    );

    impl Callsite for Frame {
        fn set_interest(&self, _interest: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &DETAIL
        }
    }

    #[test]
    fn a_detail_that_no_layer_wants_is_not_asked_for_again_at_each_use() {
        let config = TelemetryConfig {
            log: "info".into(),
            log_format: LogFormat::Json,
            otlp_endpoint: None,
        };
        let dispatch = dispatch(&config, None).expect("a valid filter");
        assert!(dispatch.register_callsite(&DETAIL).is_never());
    }
}
