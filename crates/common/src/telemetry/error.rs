//! Errors of telemetry.

use std::time::Duration;

use thiserror::Error;

/// Why telemetry could not be started or ended.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The log directives cannot be parsed.
    #[error("--log (SURETY_LOG) {directives:?} cannot be parsed: {reason}")]
    LogFilter {
        /// The directives.
        directives: String,
        /// The reason.
        reason: String,
    },
    /// Traces cannot be sent to the given address.
    #[error(
        "--otlp-endpoint (OTEL_EXPORTER_OTLP_ENDPOINT) cannot be used: {reason}. Give an address \
         such as http://127.0.0.1:4317, or do not set it"
    )]
    Exporter {
        /// The exporter's error.
        reason: String,
    },
    /// `init` was called outside a tokio runtime, which the exporter needs.
    #[error("telemetry must be started inside a tokio runtime")]
    NoRuntime,
    /// `init` was called twice in one process, or another library installed a subscriber.
    #[error("telemetry is already installed in this process ({part})")]
    AlreadyInstalled {
        /// The part: logs and traces, or metrics.
        part: &'static str,
    },
    /// The histograms' buckets were refused.
    #[error("the metrics recorder refused its set-up: {reason}")]
    Metrics {
        /// The recorder's error.
        reason: String,
    },
    /// The last spans could not be sent in time; they are lost.
    #[error("the last spans could not be sent within {bound:?}: {reason}")]
    Flush {
        /// The time limit.
        bound: Duration,
        /// The exporter's error.
        reason: String,
    },
}
