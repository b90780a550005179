// W3C trace context of calls, from OpenTelemetry where its API is installed.

import { createRequire } from "node:module";
import type * as Api from "@opentelemetry/api";

const otel = installed();

function installed(): typeof Api | undefined {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as typeof Api;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

/** The headers of a call: the given traceparent, else those of the current span. */
export function traceHeaders(traceparent: string | undefined): [string, string][] {
  if (traceparent) return [["traceparent", traceparent]];
  const span = otel?.trace.getSpanContext(otel.context.active());
  if (!otel || !span || !otel.isSpanContextValid(span)) return [];
  const flags = span.traceFlags.toString(16).padStart(2, "0");
  const state = span.traceState?.serialize();
  const headers: [string, string][] = [["traceparent", `00-${span.traceId}-${span.spanId}-${flags}`]];
  if (state) headers.push(["tracestate", state]);
  return headers;
}

/** Works inside a span of the trace that a traceparent names. Without OpenTelemetry it only works. */
export async function withSpan<T>(
  name: string,
  parent: string,
  attributes: Record<string, string | number>,
  work: () => Promise<T>,
): Promise<T> {
  if (!otel) return await work();
  const [, traceId, spanId, flags] = /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(parent) ?? [];
  let context = otel.ROOT_CONTEXT;
  if (traceId && spanId && flags) {
    const traceFlags = parseInt(flags, 16);
    context = otel.trace.setSpanContext(context, { traceId, spanId, traceFlags, isRemote: true });
  }
  const tracer = otel.trace.getTracer("surety");
  return await tracer.startActiveSpan(name, { attributes }, context, async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });
}
