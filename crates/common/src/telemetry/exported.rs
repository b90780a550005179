//! Sends spans, and says once when they cannot be sent and once when they can again.

use crate::config::without_password;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::Metadata;

/// The lines of the libraries about an export that failed: each failure would have two.
const EXPORT_FAILED: &str = "Export.Failed.";
const EXPORT_ERROR: &str = "BatchSpanProcessor.ExportError";

/// Whether a line of a library tells what [`Reporting`] reports.
pub(super) fn is_reported(line: &Metadata<'_>) -> bool {
    line.name() == EXPORT_ERROR || line.name().starts_with(EXPORT_FAILED)
}

/// An exporter that reports when its receiver is away.
#[derive(Debug)]
pub(super) struct Reporting<E> {
    exporter: E,
    endpoint: String,
    /// The spans that were lost since the last that were sent.
    lost: AtomicU64,
}

impl<E> Reporting<E> {
    pub(super) fn new(exporter: E, endpoint: &str) -> Self {
        let full = match endpoint.contains("://") {
            true => endpoint.to_owned(),
            false => format!("http://{endpoint}"),
        };
        Self { exporter, endpoint: without_password(&full), lost: AtomicU64::new(0) }
    }

    fn report(&self, spans: u64, sent: &OTelSdkResult) {
        let endpoint = &self.endpoint;
        match sent {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::info!(endpoint, lost, "telemetry: spans are sent again");
                }
            }
            Err(error) => {
                if self.lost.fetch_add(spans, Ordering::Relaxed) == 0 {
                    tracing::warn!(endpoint, %error, "telemetry: spans cannot be sent, and are lost until they can; start the receiver, or correct --otlp-endpoint (OTEL_EXPORTER_OTLP_ENDPOINT)");
                }
            }
        }
    }
}

impl<E: SpanExporter> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let sent = self.exporter.export(batch).await;
        self.report(spans, &sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
