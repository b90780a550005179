//! What can go wrong while a process makes itself seen.

use std::time::Duration;

use thiserror::Error;

/// Why telemetry could not be set up or ended.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The log directives do not read.
    #[error("--log (SURETY_LOG) {directives:?} does not read: {reason}")]
    LogFilter {
        /// What was given.
        directives: String,
        /// Why it does not read.
        reason: String,
    },
    /// Traces cannot be sent to the address given.
    #[error(
        "--otlp-endpoint (OTEL_EXPORTER_OTLP_ENDPOINT) cannot be used: {reason}. Give an address \
         such as http://127.0.0.1:4317, or leave it out"
    )]
    Exporter {
        /// What the exporter said.
        reason: String,
    },
    /// `init` was called outside a tokio runtime, on which the exporter depends.
    #[error("telemetry has to be started inside a tokio runtime")]
    NoRuntime,
    /// `init` was called twice in one process, or something else installed a subscriber.
    #[error("telemetry is already installed in this process ({part})")]
    AlreadyInstalled {
        /// Which part: logs and traces, or metrics.
        part: &'static str,
    },
    /// The histograms' bounds were refused.
    #[error("the metrics recorder refused its set-up: {reason}")]
    Metrics {
        /// What the recorder said.
        reason: String,
    },
    /// The last spans could not be handed over in time; they are lost.
    #[error("the last spans could not be sent within {bound:?}: {reason}")]
    Flush {
        /// How long was waited.
        bound: Duration,
        /// What the exporter said.
        reason: String,
    },
}
