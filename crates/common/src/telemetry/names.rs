//! Every name that leaves the process: spans, attributes, metrics.
//!
//! Spans and attributes follow OpenTelemetry's GenAI conventions where these define a name; the
//! others begin with `surety.`. Metrics are Prometheus names with their unit last.

/// Span of a run, the root of its trace.
pub const SPAN_RUN: &str = "invoke_workflow";
/// Span of creating or changing a plan.
pub const SPAN_PLAN: &str = "plan";
/// Span of a step, from its lease to its end.
pub const SPAN_STEP: &str = "invoke_agent";
/// Span of one turn that a participant outside the executor decided.
pub const SPAN_TURN: &str = "turn";
/// Span of one call of a model.
pub const SPAN_CHAT: &str = "chat";
/// Span of one tool call.
pub const SPAN_TOOL: &str = "execute_tool";
/// Span of one evaluation by the gate.
pub const SPAN_EVALUATION: &str = "evaluate";

/// Span of one probe of a verification.
pub const SPAN_PROBE: &str = "probe";
/// Span of one snapshot of a workspace.
pub const SPAN_SNAPSHOT: &str = "snapshot";

/// Span event of a transition of a run or a step.
pub const EVENT_TRANSITION: &str = "surety.transition";
/// Span event of a verdict.
pub const EVENT_EVALUATION: &str = "gen_ai.evaluation.result";

/// Target of every span named here.
pub const TARGET_SPAN: &str = "surety";
/// Target of the log lines and span events of transitions and verdicts. Filter it with
/// `SURETY_LOG`, such as `info,surety::transition=warn`; traces are not affected.
pub const TARGET_TRANSITION: &str = "surety::transition";

/// Counter of transitions, labels `subject` (run, step), `from`, `to`.
pub const TRANSITIONS_TOTAL: &str = "surety_transitions_total";
/// Counter of verdicts, label `outcome` (accepted, or the stop reason).
pub const VERDICTS_TOTAL: &str = "surety_verdicts_total";
/// Verdicts that a time-stamp authority anchored, and failures; label `result`: stored, failed.
pub const ANCHORED_TOTAL: &str = "surety_anchored_total";
/// Histogram of the time of an attempt of a step from its first lease to its end, label `outcome`.
pub const STEP_DURATION_SECONDS: &str = "surety_step_duration_seconds";
/// Histogram of one turn's time from the driver's reply to what it led to, label `driver` (script, model, remote).
pub const TURN_DURATION_SECONDS: &str = "surety_turn_duration_seconds";
/// Gauge of runs that are ready and not claimed, label `namespace`.
pub const QUEUE_DEPTH: &str = "surety_queue_depth";
/// Gauge of connected tool workers.
pub const WORKERS: &str = "surety_workers";
/// Gauge of calls that connected tool workers have.
pub const WORKER_CALLS: &str = "surety_worker_calls";
/// Counter of events and their tasks, labels `event_type`, `result` (created, existed, superseded).
pub const TASK_EVENTS_TOTAL: &str = "surety_task_events_total";
/// Counter of tasks that ended, labels `event_type`, `action_type`, `outcome`, `class`.
pub const TASKS_ENDED_TOTAL: &str = "surety_tasks_ended_total";
/// Histogram of the time from the start of a task to its report, label `action_type`.
pub const TASK_REPORT_SECONDS: &str = "surety_task_report_seconds";
/// Counter of tasks that were handed again, label `action_type`.
pub const TASK_REMINDERS_TOTAL: &str = "surety_task_reminders_total";
/// Counter of escalations, labels `action` (comment, issue), `result` (noted, done, retried, failed).
pub const TASK_ESCALATIONS_TOTAL: &str = "surety_task_escalations_total";
/// Counter of failures of tasks after which nothing more is done, label `reason`.
pub const TASK_ALERTS_TOTAL: &str = "surety_task_alerts_total";
/// Gauge of open tasks, labels `task_type`, `action_type`.
pub const TASKS_OPEN: &str = "surety_tasks_open";
/// Counter of results of tool workers, label `outcome`.
pub const WORKER_RESULTS_TOTAL: &str = "surety_worker_results_total";
/// Histogram of one call of a model, labels `profile`, `model`, `outcome` (ok, or the error's code). It is
/// `gen_ai.client.operation.duration` of OpenTelemetry's conventions.
pub const MODEL_CALL_DURATION_SECONDS: &str = "surety_model_call_duration_seconds";
/// Counter of requests to models that were sent and failed, labels `profile`, `model`, `code`.
pub const MODEL_FAILURES_TOTAL: &str = "surety_model_failures_total";
/// Counter of tokens, labels `profile`, `model`, `kind` (input, cached_input, output). It is
/// `gen_ai.client.token.usage` of OpenTelemetry's conventions.
pub const MODEL_TOKENS_TOTAL: &str = "surety_model_tokens_total";
/// Counter of cost in millionths, labels `profile`, `model`.
pub const MODEL_COST_MICROS_TOTAL: &str = "surety_model_cost_micros_total";
/// Gauge of the circuit breaker of an endpoint, label `endpoint`.
pub const MODEL_BREAKER_OPEN: &str = "surety_model_breaker_open";
/// Counter of waits of runs for an endpoint, labels `profile`, `code`.
pub const MODEL_WAITS_TOTAL: &str = "surety_model_waits_total";
/// Counter of conversations that were brought into the form in which they are shown.
pub const MESSAGES_NORMALIZED_TOTAL: &str = "surety_messages_normalized_total";
/// Histogram of one call of a tool of an MCP server, labels `server`, `outcome` (ok, failed, or the error's code).
pub const MCP_CALL_DURATION_SECONDS: &str = "surety_mcp_call_duration_seconds";
/// Counter of starts of MCP servers, labels `server`, `outcome` (started, restarted, failed).
pub const MCP_STARTS_TOTAL: &str = "surety_mcp_starts_total";
/// Counter of messages between agents that failed, label `failure` (unread, unanswered, cancelled).
pub const DEAD_LETTERS_TOTAL: &str = "surety_dead_letters_total";
/// Counter of deliveries of forges, labels `forge`, `result` (stored, repeated, or the code of the refusal).
pub const DELIVERIES_TOTAL: &str = "surety_deliveries_total";
/// Histogram of the time from a delivery's header to its answer.
pub const DELIVERY_ANSWER_SECONDS: &str = "surety_delivery_answer_seconds";
/// Counter of processed deliveries, labels `forge`, `state`, `reason`.
pub const DELIVERIES_PROCESSED_TOTAL: &str = "surety_deliveries_processed_total";
/// Gauge of deliveries that wait to be processed.
pub const DELIVERY_BACKLOG: &str = "surety_delivery_backlog";
/// Counter of calls of forges, labels `forge`, `operation`, `result` (ok, not_modified, or the error's code).
pub const FORGE_CALLS_TOTAL: &str = "surety_forge_calls_total";
/// Gauge of the calls that an account may still make in this period, label `forge`.
pub const FORGE_RATE_LIMIT_LEFT: &str = "surety_forge_rate_limit_left";
pub use crate::tls::{CERTIFICATE_EXPIRY, RELOADS_TOTAL};

/// Buckets of each histogram without buckets of its own, in seconds: a scripted turn takes under a millisecond, a
/// model's minutes.
pub const DURATION_BUCKETS_SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Upper bounds of the buckets of [`TASK_REPORT_SECONDS`]: from a minute to a week.
pub const REPORT_BUCKETS_SECONDS: [f64; 10] =
    [60.0, 300.0, 900.0, 3600.0, 14_400.0, 28_800.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];
