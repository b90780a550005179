//! What is told of each call.

use surety_common::telemetry;

/// One call as it ended, all its attempts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallReport<'a> {
    /// The forge, by its name in the configuration.
    pub forge: &'a str,
    /// The call.
    pub operation: &'static str,
    /// `ok`, `not_modified`, or the code of the error.
    pub result: &'static str,
    /// How many calls the account may still make in this period, where the forge says so.
    pub rate_limit_left: Option<u64>,
}

/// Is told of each call.
pub trait CallObserver: Send + Sync {
    /// A call ended.
    fn called(&self, report: &CallReport<'_>);
}

/// Counts calls in the metrics of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallTelemetry;

impl CallObserver for CallTelemetry {
    fn called(&self, report: &CallReport<'_>) {
        let CallReport { forge, operation, result, rate_limit_left } = *report;
        telemetry::record_forge_call(forge, operation, result, rate_limit_left);
    }
}
