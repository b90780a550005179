//! Spans of a run, in one trace over all services and restarts.
//!
//! The run's row stores a W3C `traceparent`. Every span of the run names it as its parent, so all
//! processes add to the same trace.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use thiserror::Error;
use tracing::Span;
use tracing::field::{DisplayValue, Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::names;
use crate::domain::execution::CallSpan;

/// A W3C trace context: which trace, and which span of it is the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: TraceFlags,
}

/// A text that is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a W3C traceparent")]
pub struct TraceParentError;

/// The attributes of a step's span.
#[derive(Debug, Clone, Copy)]
pub struct StepSpan<'a> {
    /// The service that works on the step.
    pub service: &'static str,
    /// The run.
    pub run_id: &'a str,
    /// The step.
    pub step_id: &'a str,
    /// The kind of driver: script, model or remote.
    pub driver: &'a str,
    /// The epoch of the lease.
    pub lease_epoch: u64,
}

/// The attributes of a call of a model.
#[derive(Debug, Clone, Copy)]
pub struct ChatSpan<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The form of the endpoint's requests: openai or anthropic.
    pub provider: &'a str,
    /// The model that is asked for.
    pub model: &'a str,
    /// The name of the endpoint's profile.
    pub profile: &'a str,
    /// The prompt with its version.
    pub prompt: &'a str,
}

impl TraceParent {
    /// A context of a new trace; sampled.
    fn generate() -> Self {
        let ids = RandomIdGenerator::default();
        Self {
            trace_id: ids.new_trace_id(),
            span_id: ids.new_span_id(),
            flags: TraceFlags::SAMPLED,
        }
    }

    fn of(span: &Span) -> Option<Self> {
        let context = span.context();
        let span = context.span();
        let found = span.span_context();
        found.is_valid().then(|| Self {
            trace_id: found.trace_id(),
            span_id: found.span_id(),
            flags: found.trace_flags(),
        })
    }

    fn span_context(self) -> SpanContext {
        let (remote, state) = (true, TraceState::default());
        SpanContext::new(self.trace_id, self.span_id, self.flags, remote, state)
    }

    fn context(self) -> Context {
        Context::new().with_remote_span_context(self.span_context())
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags.to_u8())
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let mut parts = text.trim().split('-');
        let mut part = || parts.next().ok_or(TraceParentError);
        let [version] = from_hex(part()?)?;
        let trace_id = TraceId::from_bytes(from_hex(part()?)?);
        let span_id = SpanId::from_bytes(from_hex(part()?)?);
        let [flags] = from_hex(part()?)?;
        // Version ff is forbidden; a later version may have more parts, version 00 may not.
        let surplus = version == 0 && parts.next().is_some();
        let zero = trace_id == TraceId::INVALID || span_id == SpanId::INVALID;
        if version == 0xff || surplus || zero {
            return Err(TraceParentError);
        }
        let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
        Ok(Self { trace_id, span_id, flags })
    }
}

/// The bytes of so many digits in lower case.
fn from_hex<const BYTES: usize>(digits: &str) -> Result<[u8; BYTES], TraceParentError> {
    if HEXLOWER.decode_len(digits.len()) != Ok(BYTES) {
        return Err(TraceParentError);
    }
    let mut bytes = [0; BYTES];
    HEXLOWER.decode_mut(digits.as_bytes(), &mut bytes).map_err(|_| TraceParentError)?;
    Ok(bytes)
}

/// Opens the span of a new run and returns the `traceparent` to store with it. `caller` is the
/// request's own `traceparent`, so that the run appears in the caller's trace.
///
/// The context is created even when nothing is exported, so that the run is one trace once an
/// endpoint is set.
#[must_use]
pub fn start_run(service: &'static str, run_id: &str, caller: Option<&str>) -> (Span, TraceParent) {
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_RUN,
        otel.kind = "server",
        gen_ai.operation.name = names::SPAN_RUN,
        gen_ai.conversation.id = run_id,
        surety.service = service,
        surety.run.id = run_id,
        trace_id = Empty,
    );
    if let Some(caller) = caller.and_then(|text| text.parse::<TraceParent>().ok()) {
        adopt(&span, caller);
    }
    let context = TraceParent::of(&span).unwrap_or_else(TraceParent::generate);
    span.record("trace_id", tracing::field::display(context.trace_id));
    (span, context)
}

/// Opens the span of a planning or a replanning of a run.
#[must_use]
pub fn plan_span(service: &'static str, run_id: &str, traceparent: &str) -> Span {
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_PLAN,
        gen_ai.operation.name = names::SPAN_PLAN,
        gen_ai.conversation.id = run_id,
        surety.service = service,
        surety.run.id = run_id,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// Opens the span of a service's work on a run, such as an executor's under one lease.
#[must_use]
pub fn work_span(service: &'static str, run_id: &str, traceparent: &str) -> Span {
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_RUN,
        gen_ai.operation.name = names::SPAN_RUN,
        gen_ai.conversation.id = run_id,
        surety.service = service,
        surety.run.id = run_id,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// Opens the span of a step under one lease. A step that another executor takes over has one span
/// for each lease.
#[must_use]
pub fn step_span(step: &StepSpan<'_>, traceparent: &str) -> Span {
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_STEP,
        gen_ai.operation.name = names::SPAN_STEP,
        gen_ai.agent.name = step.driver,
        gen_ai.conversation.id = step.run_id,
        surety.service = step.service,
        surety.run.id = step.run_id,
        surety.step.id = step.step_id,
        surety.lease_epoch = step.lease_epoch,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// Opens the span of a turn inside `step`, which a participant decided. `agent` is the `traceparent` that came
/// with its reply; empty without one. The agent's span is the parent where it belongs to the run's trace, else
/// the turn's span is linked to it.
#[must_use]
pub fn turn_span(step: &Span, run_id: &str, turn: u32, agent: &str) -> Span {
    let step_context = TraceParent::of(step);
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: step,
        names::SPAN_TURN,
        gen_ai.conversation.id = run_id,
        surety.run.id = run_id,
        surety.turn = turn,
    );
    let Ok(agent) = agent.parse::<TraceParent>() else { return span };
    match step_context.filter(|step| step.trace_id == agent.trace_id) {
        Some(step) => {
            adopt(&span, agent);
            span.add_link(step.span_context());
        }
        None => span.add_link(agent.span_context()),
    }
    span
}

/// Opens the span of one call of a model for a run. Record the usage and the model that answered, and call
/// [`fail`](super::fail) when it fails. Prompts and replies are no part of it.
#[must_use]
pub fn chat_span(service: &'static str, chat: &ChatSpan<'_>, traceparent: &str) -> Span {
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_CHAT,
        otel.name = format_args!("{} {}", names::SPAN_CHAT, chat.model),
        otel.kind = "client",
        gen_ai.operation.name = names::SPAN_CHAT,
        gen_ai.provider.name = chat.provider,
        gen_ai.request.model = chat.model,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.conversation.id = chat.run_id,
        surety.service = service,
        surety.run.id = chat.run_id,
        surety.model.profile = chat.profile,
        surety.prompt = chat.prompt,
        error.type = Empty,
        otel.status_code = Empty,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// The `traceparent` that names a span as the parent; empty when nothing is exported.
#[must_use]
pub fn trace_parent(span: &Span) -> String {
    TraceParent::of(span).map(|context| context.to_string()).unwrap_or_default()
}

/// Opens the span of one evaluation by the gate.
#[must_use]
pub fn evaluation_span(
    service: &'static str,
    run_id: &str,
    plan_revision: u64,
    traceparent: &str,
) -> Span {
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_EVALUATION,
        gen_ai.conversation.id = run_id,
        surety.service = service,
        surety.run.id = run_id,
        surety.plan.revision = plan_revision,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// Opens the span of one tool call inside `parent`. Call [`fail`](super::fail) when it fails.
#[must_use]
pub fn tool_span(parent: &Span, tool: &str, call_id: &str) -> Span {
    tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: parent,
        names::SPAN_TOOL,
        otel.name = format_args!("{} {tool}", names::SPAN_TOOL),
        gen_ai.operation.name = names::SPAN_TOOL,
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = call_id,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Begins the span of a call inside `parent` that ends in the process which learns what it came to. None when nothing
/// is exported.
#[must_use]
pub fn begin_call_span(parent: &Span) -> Option<CallSpan> {
    let parent = TraceParent::of(parent)?;
    let id = RandomIdGenerator::default().new_span_id();
    Some(CallSpan { id: id.to_string(), parent: parent.to_string() })
}

/// The `traceparent` for what lies under a call's span. None where the stored one cannot be read, which only a manual
/// change of the database can cause.
#[must_use]
pub fn below_call(span: &CallSpan) -> Option<String> {
    let parent = span.parent.parse::<TraceParent>().ok()?;
    let span_id = SpanId::from_hex(&span.id).ok()?;
    Some(TraceParent { span_id, ..parent }.to_string())
}

/// Opens the span of a call that began at `since`, as it ends. Call [`fail`](super::fail) when it failed.
#[must_use]
pub fn end_call_span(span: &CallSpan, since: DateTime<Utc>, tool: &str, call_id: &str) -> Span {
    let CallSpan { id, parent: traceparent } = span;
    let parent = traceparent.parse::<TraceParent>();
    let span = tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: None,
        names::SPAN_TOOL,
        otel.name = format_args!("{} {tool}", names::SPAN_TOOL),
        gen_ai.operation.name = names::SPAN_TOOL,
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = call_id,
        // The names that `resumed` takes away again.
        surety.resumed.span_id = id.as_str(),
        surety.resumed.since_us = since.timestamp_micros(),
        error.type = Empty,
        otel.status_code = Empty,
        trace_id = trace_id_of(&parent),
    );
    join(span, traceparent, parent)
}

/// Opens the span of one probe of a verification inside `parent`. Record `surety.exit_code` and
/// `surety.sandbox` on it when it ran a command, and call [`fail`](super::fail) when it fails.
#[must_use]
pub fn probe_span(parent: &Span, check_id: &str, call_id: &str) -> Span {
    tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: parent,
        names::SPAN_PROBE,
        surety.check.id = check_id,
        gen_ai.tool.call.id = call_id,
        surety.exit_code = Empty,
        surety.sandbox = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Opens the span of one snapshot of a workspace inside `parent`; `taken` says when.
#[must_use]
pub fn snapshot_span(parent: &Span, taken: &str) -> Span {
    tracing::info_span!(
        target: names::TARGET_SPAN,
        parent: parent,
        names::SPAN_SNAPSHOT,
        surety.snapshot = taken,
    )
}

/// The id of a span, if it is exported.
#[must_use]
pub fn span_id(span: &Span) -> Option<String> {
    TraceParent::of(span).map(|context| context.span_id.to_string())
}

/// What a span shows as its trace. Named when the span is made: a field that is recorded later makes the formatter of log
/// lines read and write all fields of the span again.
fn trace_id_of(parent: &Result<TraceParent, TraceParentError>) -> Option<DisplayValue<TraceId>> {
    parent.as_ref().ok().map(|parent| tracing::field::display(parent.trace_id))
}

/// Sets the stored context as the parent of `span`. An invalid context, which only a manual change
/// of the database can cause, starts a separate trace.
fn join(span: Span, traceparent: &str, parent: Result<TraceParent, TraceParentError>) -> Span {
    match parent {
        Ok(parent) => adopt(&span, parent),
        Err(error) if !span.is_disabled() => {
            tracing::warn!(parent: &span, traceparent, %error, "telemetry: the stored traceparent is invalid; the work starts a separate trace")
        }
        Err(_) => {}
    }
    span
}

fn adopt(span: &Span, parent: TraceParent) {
    // The only failures are a span that is not recorded and a process that exports nothing; both
    // are intended.
    if let Err(reason) = span.set_parent(parent.context()) {
        tracing::trace!(%reason, "the span has no exported parent");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STORED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_stored_context_reads_back_as_it_was_written() {
        assert_eq!(STORED.parse::<TraceParent>().map(|found| found.to_string()), Ok(STORED.into()));
    }

    #[test]
    fn what_the_standard_forbids_is_no_context() {
        let cases = [
            "",
            "00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ];
        for text in cases {
            assert_eq!(text.parse::<TraceParent>(), Err(TraceParentError), "{text:?}");
        }
    }

    #[test]
    fn a_run_has_a_context_to_store_even_when_nothing_is_exported() {
        let (_span, context) = start_run("planner", "r1", None);
        assert_eq!(context.to_string().parse(), Ok(context));
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_a_context_panic(text in ".{0,80}") {
            let read = text.parse::<TraceParent>();
            prop_assert!(read.is_err() || read.map(|found| found.to_string().len()) == Ok(55));
        }
    }
}
