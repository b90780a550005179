// A call of a tool as its function sees it, and what the function may answer or throw.

import { type MessageInitShape, create } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { asJson, secondsOf } from "./requests.js";
import type { FactSchema } from "./generated/surety/v1/receipt_pb.js";
import {
  type ConnectRequest,
  ConnectRequestSchema,
  type ToolInvocation,
  ToolOutputChunkSchema,
  ToolProgressSchema,
  ToolResultSchema,
} from "./generated/surety/v1/tool_service_pb.js";

// Limits of the service, in bytes.
const INLINE = 32 << 10;
const CHUNK = 256 << 10;
const OUTPUT = 64 << 20;
const SUMMARY = 1_000;
const ERROR = 4 << 10;
// The service accepts ten reports a second.
const PROGRESS_INTERVAL_MS = 110;

/** The call failed. With `retryable` it may be made again, with `retryAfterMs` after so many milliseconds. */
export class ToolError extends Error {
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    options: { retryable?: boolean; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "ToolError";
    this.retryable = options.retryable ?? options.retryAfterMs !== undefined;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The function does not know whether the call happened: a person is asked, or it is made again. */
export class OutcomeUnknown extends Error {}

/** The output of a call, with a line for people, and facts that are recorded as the worker's words. */
export class ToolOutput {
  readonly summary: string;
  readonly facts: readonly MessageInitShape<typeof FactSchema>[];

  constructor(
    readonly text: string,
    more: { summary?: string; facts?: readonly MessageInitShape<typeof FactSchema>[] } = {},
  ) {
    this.summary = more.summary ?? "";
    this.facts = more.facts ?? [];
  }
}

/** A call of a tool. */
export class ToolCall {
  /** All fields, as docs/api.md lists them for ToolInvocation. */
  readonly message: ToolInvocation;
  readonly #send: (message: ConnectRequest) => void;
  readonly #cancelled = new AbortController();
  #waiting: ConnectRequest | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @internal */
  constructor(message: ToolInvocation, send: (message: ConnectRequest) => void) {
    this.message = message;
    this.#send = send;
  }

  /** The id of the call. */
  get id(): string {
    return this.message.callId;
  }

  /** The run. */
  get runId(): string {
    return this.message.runId;
  }

  /** The step. */
  get stepId(): string {
    return this.message.stepId;
  }

  /** The same in every attempt: give it to the service that the tool calls. */
  get idempotencyKey(): string {
    return this.message.idempotencyKey;
  }

  /** The attempt, from 1. */
  get attempt(): number {
    return this.message.attempt;
  }

  /** Whether this attempt was begun before this process: the function goes on with it. */
  get resumed(): boolean {
    return this.message.resumed;
  }

  /** When the service abandons and cancels the call. */
  get deadline(): Date | undefined {
    return this.message.deadline && timestampDate(this.message.deadline);
  }

  /** The folder of the run on the executor's machine. */
  get workspace(): string {
    return this.message.workspace;
  }

  /** The trace of the run; empty when it is not traced. */
  get traceparent(): string {
    return this.message.traceparent;
  }

  /** Aborted when the call is cancelled or lost: pass it to what the function waits for. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** Reports one line. Of reports that come too fast, only the last one is sent. */
  progress(message: string, percent?: number): void {
    const { callId, fence } = this.message;
    const line = cut(oneLine(message), SUMMARY);
    const report = create(ToolProgressSchema, {
      callId,
      fence,
      message: line,
      ...(percent === undefined ? {} : { percent }),
    });
    this.#waiting = create(ConnectRequestSchema, { message: { case: "progress", value: report } });
    if (this.#timer === undefined) this.#report();
  }

  /** @internal */
  cancel(): void {
    this.#waiting = undefined;
    this.#cancelled.abort();
  }

  #report(): void {
    this.#timer = undefined;
    if (this.#waiting === undefined || this.signal.aborted) return;
    this.#send(this.#waiting);
    this.#waiting = undefined;
    this.#timer = setTimeout(() => {
      this.#report();
    }, PROGRESS_INTERVAL_MS);
    this.#timer.unref();
  }
}

/** What a function answered. A value that is no text is sent as JSON. */
export function outputOf(value: unknown): ToolOutput {
  if (value instanceof ToolOutput) return value;
  if (value === undefined) return new ToolOutput("");
  return new ToolOutput(typeof value === "string" ? value : asJson(value, "output"));
}

/** The messages of a result, with the parts of a large output before it. */
export function succeeded({ callId, fence }: ToolInvocation, output: ToolOutput): ConnectRequest[] {
  const data = Buffer.from(output.text);
  if (data.length > OUTPUT) {
    throw new ToolError(`the output has ${data.length} bytes, and ${OUTPUT} are accepted`);
  }
  const inline = data.length <= INLINE;
  const messages: ConnectRequest[] = [];
  for (let at = 0; !inline && at < data.length; at += CHUNK) {
    const value = create(ToolOutputChunkSchema, { callId, fence, data: data.subarray(at, at + CHUNK) });
    messages.push(create(ConnectRequestSchema, { message: { case: "output", value } }));
  }
  const [first = ""] = output.text.slice(0, SUMMARY).split("\n");
  const value = create(ToolResultSchema, {
    callId,
    fence,
    success: true,
    output: inline ? output.text : "",
    summary: cut(oneLine(output.summary || first), SUMMARY),
    facts: [...output.facts],
  });
  messages.push(create(ConnectRequestSchema, { message: { case: "result", value } }));
  return messages;
}

/** The messages of a failure. */
export function failed({ callId, fence }: ToolInvocation, error: unknown): ConnectRequest[] {
  const value = create(ToolResultSchema, { callId, fence });
  if (error instanceof OutcomeUnknown) {
    value.outcomeUnknown = true;
  } else {
    value.error = cut(error instanceof ToolError ? error.message : String(error), ERROR);
  }
  if (error instanceof ToolError) {
    value.retryable = error.retryable;
    if (error.retryAfterMs !== undefined) value.retryAfter = secondsOf(error.retryAfterMs / 1000);
  }
  return [create(ConnectRequestSchema, { message: { case: "result", value } })];
}

function oneLine(text: string): string {
  return text.trim().split(/\s+/).join(" ");
}

/** The text, or what of it fits into so many bytes. */
function cut(text: string, most: number): string {
  const data = Buffer.from(text);
  if (data.length <= most) return text;
  const whole = new TextDecoder().decode(data.subarray(0, most - 3), { stream: true });
  return `${whole}…`;
}
