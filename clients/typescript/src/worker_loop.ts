// One run of a worker: its connection, and the calls that it has.

import { create } from "@bufbuild/protobuf";
import type { ClientDuplexStream, ServiceError } from "@grpc/grpc-js";
import { type Calls, type Retry, aborted, pause } from "./calls.js";
import {
  Conflict,
  FailedPrecondition,
  InvalidInput,
  NotFound,
  PermissionDenied,
  SuretyError,
  Unauthenticated,
  Unimplemented,
  errorOf,
} from "./errors.js";
import type { Log } from "./log.js";
import { millisecondsOf } from "./requests.js";
import { OutcomeUnknown, ToolCall, ToolError, failed, outputOf, succeeded } from "./tool_call.js";
import { withSpan } from "./trace.js";
import type { ServedTool } from "./worker.js";
import {
  type Announce,
  type Announced,
  type ConnectRequest,
  ConnectRequestSchema,
  type ConnectResponse,
  type Refused,
  type ToolInvocation,
  ToolService,
  WorkerDrainingSchema,
  WorkerHeartbeatSchema,
} from "./generated/surety/v1/tool_service_pb.js";

// What another connection cannot change.
const FATAL = [
  Conflict,
  FailedPrecondition,
  InvalidInput,
  NotFound,
  PermissionDenied,
  Unauthenticated,
  Unimplemented,
];
// What a refusal of a call's message means when the call is not ours any more.
const NOT_OURS = new Set(["lease_lost", "run_terminal", "tool_call_unknown"]);
// Refusals of a result that say nothing against it: the same result is sent again.
const LATER = new Set(["database_unavailable", "overloaded"]);
const END_TIMEOUT_MS = 5_000;
const HEARTBEAT = create(ConnectRequestSchema, {
  message: { case: "heartbeat", value: create(WorkerHeartbeatSchema) },
});
const DRAINING = create(ConnectRequestSchema, {
  message: { case: "draining", value: create(WorkerDrainingSchema) },
});

type Wire = ClientDuplexStream<ConnectRequest, ConnectResponse>;

/** One connection. */
class Stream {
  /** Whether the service has accepted the announcement. */
  accepted = false;

  constructor(readonly wire: Wire) {}

  send(...messages: ConnectRequest[]): void {
    for (const message of messages) if (this.wire.writable) this.wire.write(message);
  }
}

/** A call that this worker has, until its result is stored. */
interface Held {
  call: ToolCall;
  /** The connection on which it was given last. */
  stream: Stream;
  /** The messages of its result; none while it runs. */
  result: ConnectRequest[];
  /** Whether its result is sent again soon. */
  waits: boolean;
}

interface Plan {
  drainMs: number;
  retry: Retry;
  log: Log;
}

export class WorkerLoop {
  readonly #calls: Calls;
  readonly #announce: Announce;
  readonly #tools: ReadonlyMap<string, ServedTool>;
  readonly #stop: AbortSignal;
  readonly #plan: Plan;
  readonly #ended = new AbortController();
  readonly #failed = new AbortController();
  readonly #held = new Map<string, Held>();
  #stream: Stream | undefined;
  #cutAt = performance.now();
  // Until the service has said how often it wants to hear from the worker.
  #beatMs = 1_000;
  #leaseMs = 30_000;
  #failure: SuretyError | undefined;
  #idle = (): void => undefined;

  constructor(
    calls: Calls,
    announce: Announce,
    tools: ReadonlyMap<string, ServedTool>,
    stop: AbortSignal,
    plan: Plan,
  ) {
    this.#calls = calls;
    this.#announce = announce;
    this.#tools = tools;
    this.#stop = stop;
    this.#plan = plan;
  }

  async run(): Promise<void> {
    const connected = this.#connect();
    const beating = this.#beat();
    await Promise.race([aborted(this.#stop), connected]);
    if (this.#stream?.accepted) this.#stream.send(DRAINING);
    await this.#drained();
    this.#ended.abort();
    for (const { call } of this.#held.values()) {
      this.#plan.log.warn(`worker: call ${call.id} has not ended; its lease expires`);
      call.cancel();
    }
    this.#held.clear();
    this.#stream?.wire.end();
    const timer = new AbortController();
    await Promise.race([connected, pause(END_TIMEOUT_MS, timer.signal)]);
    timer.abort();
    this.#stream?.wire.cancel();
    await Promise.all([connected, beating]);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Waits until no call is left, or for as long as running calls have. */
  async #drained(): Promise<void> {
    if (this.#held.size === 0 || this.#failure !== undefined) return;
    const idle = new AbortController();
    this.#idle = () => {
      idle.abort();
    };
    await pause(this.#plan.drainMs, AbortSignal.any([idle.signal, this.#failed.signal]));
  }

  /** Keeps a connection until the worker ends. */
  async #connect(): Promise<void> {
    const { retry, log } = this.#plan;
    for (let failures = 0; ;) {
      const failure = await this.#serve();
      if (this.#stream?.accepted) [this.#cutAt, failures] = [performance.now(), 0];
      this.#stream = undefined;
      if (this.#ended.signal.aborted) return;
      if (FATAL.some((kind) => failure instanceof kind)) {
        this.#failure = failure;
        this.#failed.abort();
        return;
      }
      failures += 1;
      log.warn(`worker: the connection ended, it is opened again: ${failure?.toString() ?? "closed"}`);
      await pause(Math.max(failure?.retryAfterMs ?? 0, retry.pauseMs(failures)), this.#ended.signal);
    }
  }

  /** Reads what the service sends over one connection. Answers why it ended. */
  async #serve(): Promise<SuretyError | undefined> {
    let wire: Wire | undefined;
    try {
      wire = this.#calls.duplex(ToolService.method.connect);
      const stream = new Stream(wire);
      this.#stream = stream;
      stream.send(create(ConnectRequestSchema, { message: { case: "announce", value: this.#announce } }));
      for await (const answer of wire) this.#read(stream, answer as ConnectResponse);
      return undefined;
    } catch (error) {
      return error instanceof SuretyError ? error : errorOf(error as ServiceError);
    } finally {
      wire?.on("error", () => undefined).cancel();
    }
  }

  #read(stream: Stream, { message }: ConnectResponse): void {
    switch (message.case) {
      case "announced":
        this.#announced(stream, message.value);
        break;
      case "invocation":
        this.#invoked(stream, message.value);
        break;
      case "cancel":
        this.#forget(message.value.callId, message.value.fence, message.value.reason);
        break;
      case "refused":
        this.#refused(stream, message.value);
        break;
      case "stored":
        this.#forget(message.value.callId, message.value.fence);
        break;
      case "draining":
        this.#plan.log.info("worker: the executor shuts down; the calls go on over the next connection");
        break;
      case undefined:
        // A message of a later version.
        break;
    }
  }

  #announced(stream: Stream, announced: Announced): void {
    stream.accepted = true;
    // Half of it, so that a message that takes some time is not late.
    if (announced.heartbeatInterval) this.#beatMs = millisecondsOf(announced.heartbeatInterval) / 2;
    if (announced.lease) this.#leaseMs = millisecondsOf(announced.lease);
    if (this.#stop.aborted) stream.send(DRAINING);
    const names = announced.namespaces.join(", ");
    this.#plan.log.info(`worker: serves tools of namespaces ${names} at executor ${announced.executorId}`);
  }

  #invoked(stream: Stream, invocation: ToolInvocation): void {
    const known = this.#held.get(invocation.callId);
    if (known?.call.message.fence === invocation.fence) {
      // It was given again after a new connection.
      known.stream = stream;
      stream.send(...known.result);
      return;
    }
    known?.call.cancel();
    const call = new ToolCall(invocation, (message) => {
      if (this.#held.get(call.id) === held && held.result.length === 0) held.stream.send(message);
    });
    const held: Held = { call, stream, result: [], waits: false };
    this.#held.set(call.id, held);
    void this.#work(held);
  }

  async #work(held: Held): Promise<void> {
    const { call } = held;
    const { tool: name } = call.message;
    try {
      const tool = this.#tools.get(name);
      if (tool === undefined) throw new ToolError(`the worker has no tool ${name}`);
      const { readOnly, idempotent } = tool.message.annotations ?? {};
      // It was begun by a process that has ended.
      if (call.resumed && !readOnly && !idempotent) throw new OutcomeUnknown();
      const attributes = { "surety.call_id": call.id, "surety.tool": name };
      const value = await withSpan("surety.tool", call.traceparent, attributes, () => tool.call(call));
      this.#finish(held, succeeded(call.message, outputOf(value)));
    } catch (error) {
      const expected = error instanceof ToolError || error instanceof OutcomeUnknown || call.signal.aborted;
      if (!expected) this.#plan.log.warn(`worker: ${name} failed at call ${call.id}: ${String(error)}`);
      this.#finish(held, failed(call.message, error));
    }
  }

  /** Keeps a result until it is stored, and sends it if the connection is the one that gave the call. */
  #finish(held: Held, result: ConnectRequest[]): void {
    if (this.#held.get(held.call.id) !== held) return;
    held.result = result;
    held.stream.send(...result);
  }

  /** The result is stored, or the call is cancelled. */
  #forget(callId: string, fence: bigint, reason = ""): void {
    const held = this.#held.get(callId);
    if (held?.call.message.fence !== fence) return;
    this.#held.delete(callId);
    if (reason) this.#plan.log.info(`worker: call ${callId} is cancelled: ${reason}`);
    held.call.cancel();
    if (this.#held.size === 0) this.#idle();
  }

  #refused(stream: Stream, { callId, code, message }: Refused): void {
    const held = this.#held.get(callId);
    if (held?.stream !== stream) return;
    const { retry, log } = this.#plan;
    log.warn(`worker: call ${callId}: ${code}: ${message}`);
    const last = held.result.at(-1)?.message;
    const invocation = held.call.message;
    if (NOT_OURS.has(code)) {
      this.#forget(callId, invocation.fence, code);
    } else if (last?.case === "result" && LATER.has(code)) {
      // A part of its output and the result may both be refused: it is sent once.
      if (held.waits) return;
      held.waits = true;
      setTimeout(() => {
        held.waits = false;
        this.#finish(held, held.result);
      }, retry.maximumMs).unref();
    } else if (last?.case === "result" && last.value.success) {
      // The result itself is refused, so the call ends with why.
      this.#finish(held, failed(invocation, new ToolError(`${code}: ${message}`)));
    } else if (last !== undefined) {
      this.#forget(callId, invocation.fence, code);
    }
  }

  /** Says that the worker is alive, and ends the calls whose lease has expired without a connection. */
  async #beat(): Promise<void> {
    const over = AbortSignal.any([this.#ended.signal, this.#failed.signal]);
    for (;;) {
      await pause(this.#beatMs, over);
      if (over.aborted) return;
      if (this.#stream?.accepted) this.#stream.send(HEARTBEAT);
      if (performance.now() - this.#cutAt <= this.#leaseMs) continue;
      for (const { call, stream } of [...this.#held.values()]) {
        if (stream !== this.#stream) this.#forget(call.id, call.message.fence, "its lease has expired");
      }
    }
  }
}
