//! Spans as they leave the process: without the secrets of tools, and in batches that a receiver takes.
//!
//! Attributes hold names that participants choose, and errors. The SDK bounds their number and not their length.

use std::borrow::Cow;
use std::time::Duration;

use opentelemetry::trace::{Event, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::redacted::redacted_text;

/// The longest text of an attribute, in bytes.
const MAX_TEXT: usize = 1024;
/// The most that is sent at a time, in bytes. A receiver takes 4 MiB by default.
const MAX_BATCH: usize = 3 << 20;
/// What the encoding adds at most to the texts of an attribute, in bytes.
const ATTRIBUTE_FRAME: usize = 24;
/// The same for an event.
const EVENT_FRAME: usize = 32;
/// A link, in bytes.
const LINK_FRAME: usize = 64;
/// The same for a span.
const SPAN_FRAME: usize = 256;

/// An exporter behind the bounds.
#[derive(Debug)]
pub(super) struct BoundedExporter<E>(pub(super) E);

impl<E: SpanExporter> SpanExporter for BoundedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut sent = Ok(());
        for part in parts(batch) {
            // A part that a receiver refuses does not take the others with it.
            sent = sent.and(self.0.export(part).await);
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// The spans in batches within the bound.
fn parts(batch: Vec<SpanData>) -> Vec<Vec<SpanData>> {
    let mut parts = Vec::new();
    let (mut part, mut bytes) = (Vec::with_capacity(batch.len()), 0);
    for mut span in batch {
        let size = fit(&mut span);
        if bytes + size > MAX_BATCH && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.push(span);
    }
    parts.push(part);
    parts
}

/// Takes secrets and long texts out of a span, and its last events where it alone exceeds a batch. Returns the most bytes
/// that it takes.
fn fit(span: &mut SpanData) -> usize {
    clean(&mut span.name);
    if let Status::Error { description } = &mut span.status {
        clean(description);
    }
    let mut bytes = SPAN_FRAME + span.name.len() + MAX_TEXT + fit_all(&mut span.attributes);
    bytes += span.links.len() * LINK_FRAME;
    let mut kept = 0;
    for event in &mut span.events.events {
        let size = fit_event(event);
        if bytes + size > MAX_BATCH {
            break;
        }
        bytes += size;
        kept += 1;
    }
    let dropped = span.events.events.len() - kept;
    span.events.events.truncate(kept);
    let dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
    span.events.dropped_count = span.events.dropped_count.saturating_add(dropped);
    bytes
}

fn fit_event(event: &mut Event) -> usize {
    clean(&mut event.name);
    EVENT_FRAME + event.name.len() + fit_all(&mut event.attributes)
}

fn fit_all(attributes: &mut [KeyValue]) -> usize {
    let sizes = attributes.iter_mut().map(|attribute| {
        ATTRIBUTE_FRAME + attribute.key.as_str().len() + fit_value(&mut attribute.value)
    });
    sizes.sum()
}

fn fit_value(value: &mut Value) -> usize {
    if let Value::String(text) = value {
        return fit_text(text);
    }
    if let Value::Array(Array::String(texts)) = value {
        return texts.iter_mut().map(|text| ATTRIBUTE_FRAME + fit_text(text)).sum();
    }
    0
}

fn fit_text(text: &mut StringValue) -> usize {
    if let Some(cleaned) = cleaned(text.as_str()) {
        *text = cleaned.into();
    }
    text.as_str().len()
}

fn clean(text: &mut Cow<'static, str>) {
    if let Some(cleaned) = cleaned(text) {
        *text = cleaned.into();
    }
}

/// A text without secrets and within the bound; none where it is that already.
fn cleaned(text: &str) -> Option<String> {
    let redacted = redacted_text(text);
    let text = redacted.as_deref().unwrap_or(text);
    if text.len() <= MAX_TEXT {
        return redacted;
    }
    let end = text.floor_char_boundary(MAX_TEXT - '…'.len_utf8());
    Some(format!("{}…", text.get(..end).unwrap_or_default()))
}
