"""W3C trace context of calls, from OpenTelemetry where its API is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True


def headers(traceparent: str | None) -> list[tuple[str, str]]:
    """The metadata of a call: the given traceparent, else that of the current span."""
    if traceparent:
        return [("traceparent", traceparent)]
    if not INSTALLED:
        return []
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return list(carrier.items())


@contextmanager
def span(name: str, parent: str, attributes: dict[str, str | int]) -> Iterator[None]:
    """Works inside a span of the trace that a traceparent names. Without OpenTelemetry it does nothing."""
    if not INSTALLED:
        yield
        return
    context = TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None
    tracer = trace.get_tracer("surety")
    with tracer.start_as_current_span(name, context=context, attributes=attributes):
        yield
