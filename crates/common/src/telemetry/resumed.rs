//! Spans that end in another process than the one in which they began, such as a call that waits for a worker.
//!
//! The id of such a span is given out when it begins, so that other spans can lie under it. It is exported where it
//! ends, under that id and from that time on.

use opentelemetry::trace::{SpanBuilder, SpanId, TraceId, Tracer};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, Span};
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// The field of a span that has its id from the process in which it began, as hexadecimal digits.
pub(super) const SPAN_ID: &str = "surety.resumed.span_id";
/// The field with the time at which it began, in microseconds since 1970.
pub(super) const SINCE_US: &str = "surety.resumed.since_us";

thread_local! {
    /// The id of the span that this thread builds now.
    static GIVEN: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// The ids of spans: new ones, but for a span that has one already.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.0.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        GIVEN.take().unwrap_or_else(|| self.0.new_span_id())
    }
}

/// Builds spans, those that are resumed under the id and from the time that their fields name.
#[derive(Debug, Clone)]
pub(super) struct ResumingTracer(pub(super) SdkTracer);

impl Tracer for ResumingTracer {
    type Span = Span;

    fn build_with_context(&self, mut builder: SpanBuilder, parent: &Context) -> Span {
        if let Some(Value::String(id)) = take(&mut builder, SPAN_ID) {
            GIVEN.set(SpanId::from_hex(id.as_str()).ok());
        }
        if let Some(Value::I64(since)) = take(&mut builder, SINCE_US) {
            let since = Duration::from_micros(u64::try_from(since).unwrap_or_default());
            builder.start_time = Some(SystemTime::UNIX_EPOCH + since);
        }
        let span = self.0.build_with_context(builder, parent);
        // A tracer that has ended takes no id.
        GIVEN.set(None);
        span
    }
}

fn take(builder: &mut SpanBuilder, key: &str) -> Option<Value> {
    let attributes = builder.attributes.as_mut()?;
    let place = attributes.iter().position(|attribute| attribute.key.as_str() == key)?;
    Some(attributes.remove(place).value)
}
