//! Logs, traces and metrics of a process.
//!
//! ```text
//!   tracing event -+-> stderr          (SURETY_LOG, SURETY_LOG_FORMAT)
//!                  +-> span event      (OTLP over gRPC, only with OTEL_EXPORTER_OTLP_ENDPOINT)
//!   metrics        --> Guard::render() (a service serves it at /metrics)
//! ```
//!
//! `init` is called once per process. With several services in one process the exported resource is
//! the process, and each span names its service in `surety.service`.

mod asked;
mod error;
mod exported;
mod handles;
mod install;
mod metric;
pub mod names;
mod observe;
mod redacted;
mod resumed;
mod sent;
pub mod trace;
mod transition;

pub use crate::wire::trace::fail;
pub use asked::{
    ModelLabels, ModelUsage, count_mcp_start, count_model_failure, count_model_usage,
    count_model_wait, count_normalized, record_mcp_call, record_model_call, set_model_breaker,
};
pub use error::TelemetryError;
pub use install::{Guard, Telemetry, init};
pub use metric::{
    count_anchor, count_dead_letter, count_delivery, count_escalation, count_processed,
    count_reminder, count_task_alert, count_task_end, count_task_event, count_worker_result,
    record_delivery_answer, record_forge_call, record_step_duration, record_time_to_report,
    record_turn_duration, set_delivery_backlog, set_open_tasks, set_queue_depth, set_workers,
};
pub use observe::observe;
pub use redacted::redact_logs;
pub use trace::{
    ChatSpan, StepSpan, TraceParent, begin_call_span, below_call, chat_span, end_call_span,
    evaluation_span, plan_span, probe_span, snapshot_span, start_run, step_span, tool_span,
    trace_parent, turn_span,
};
pub use transition::{
    EvaluationRecord, Subject, TransitionRecord, record_evaluation, record_transition,
};
