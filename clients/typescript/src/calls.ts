// Calls over a channel: deadlines, retries, token and trace context.

import {
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  type MessageShape,
  create,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import {
  type CallOptions as WireOptions,
  type ClientDuplexStream,
  type ServiceError,
  Client as Channel,
  Metadata,
  credentials,
} from "@grpc/grpc-js";
import { setTimeout as sleep } from "node:timers/promises";
import { Cancelled, InvalidInput, type SuretyError, errorOf } from "./errors.js";
import { type Address, type Settings, certificates, secretFor } from "./settings.js";
import { traceHeaders } from "./trace.js";

/** Options of one call. */
export interface CallOptions {
  /** The deadline of the call in milliseconds. */
  timeoutMs?: number | undefined;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
  /** The W3C traceparent to send; by default that of the current OpenTelemetry span. */
  traceparent?: string | undefined;
}

/** When a failed call is sent again: exponential backoff with full jitter, within the deadline. */
export interface RetryOptions {
  /** The upper bound of the first pause in milliseconds, 100 by default. */
  initialMs?: number;
  /** The upper bound of every pause in milliseconds, 5,000 by default. */
  maximumMs?: number;
  /** The most attempts of one call; by default only the deadline bounds them. 1 never retries. */
  attempts?: number;
  /** How long a stream without a deadline is opened again without success, 300,000 ms by default. */
  patienceMs?: number;
}

/** The retry rule with its defaults. */
export class Retry {
  readonly #initialMs: number;
  readonly maximumMs: number;
  readonly attempts: number;
  readonly patienceMs: number;

  constructor(options: RetryOptions = {}) {
    this.#initialMs = options.initialMs ?? 100;
    this.maximumMs = options.maximumMs ?? 5_000;
    this.attempts = options.attempts ?? Infinity;
    this.patienceMs = options.patienceMs ?? 300_000;
  }

  /** A random pause after so many failures in a row, in milliseconds. */
  pauseMs(failures: number): number {
    return Math.random() * Math.min(this.maximumMs, this.#initialMs * 2 ** Math.min(failures - 1, 30));
  }
}

/** The time until which a call may take; undefined is no limit. */
export class Deadline {
  readonly #end: number;

  constructor(timeoutMs: number | undefined) {
    this.#end = timeoutMs === undefined ? Infinity : performance.now() + timeoutMs;
  }

  /** The milliseconds that are left. */
  get leftMs(): number | undefined {
    return this.#end === Infinity ? undefined : Math.max(0, this.#end - performance.now());
  }
}

/** Says after each failure how long to pause, or that the failure is final. */
class Attempts {
  #failures = 0;
  #since = 0;
  #began = 0;

  constructor(
    readonly retry: Retry,
    readonly deadline: Deadline,
  ) {}

  begin(): void {
    this.#began = performance.now();
  }

  /** The connection works: what failed before does not count any more. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** The pause before the next attempt in milliseconds. Throws the error when there is none. */
  pauseMs(error: SuretyError): number {
    const now = performance.now();
    // A stream that stayed open for long without an event was a success, too.
    if (this.#failures === 0 || now - this.#began > this.retry.maximumMs) {
      [this.#failures, this.#since] = [0, now];
    }
    this.#failures += 1;
    const left = this.deadline.leftMs;
    const pause = Math.max(error.retryAfterMs, this.retry.pauseMs(this.#failures));
    const spent = this.#failures >= this.retry.attempts;
    const late = left === undefined ? now - this.#since > this.retry.patienceMs : left <= pause;
    if (!error.retryable || spent || late) throw error;
    return pause;
  }
}

/** A method that takes one message and answers one. */
export type Unary<Q extends DescMessage, A extends DescMessage> = DescMethod & {
  methodKind: "unary";
  input: Q;
  output: A;
};

/** A method that takes one message and answers a stream. */
export type Streaming<Q extends DescMessage, A extends DescMessage> = DescMethod & {
  methodKind: "server_streaming";
  input: Q;
  output: A;
};

/** A method with a stream of messages in both directions. */
export type Bidirectional<Q extends DescMessage, A extends DescMessage> = DescMethod & {
  methodKind: "bidi_streaming";
  input: Q;
  output: A;
};

/** Calls of the services at one address. */
export class Calls {
  readonly #channel: Channel;
  readonly #token: string | undefined;
  readonly #retry: Retry;
  readonly #running = new Set<{ cancel(): void }>();
  #closed = false;

  constructor(address: Address, settings: Settings, roles: ReadonlySet<string>, retry: Retry) {
    this.#retry = retry;
    this.#token = secretFor(address, settings, roles);
    const secure = address.tls
      ? credentials.createSsl(...certificates(settings))
      : credentials.createInsecure();
    this.#channel = new Channel(address.target, secure, {
      // Retries are those of this package alone, so that their number and their time are known.
      "grpc.enable_retries": 0,
      "grpc.max_receive_message_length": -1,
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.keepalive_permit_without_calls": 1,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 5_000,
      "grpc.use_local_subchannel_pool": 1,
      // A proxy would see the token.
      "grpc.enable_http_proxy": address.tls ? 1 : 0,
    });
  }

  /** Closes the connection; calls that are under way fail. */
  close(): void {
    this.#closed = true;
    for (const call of this.#running) call.cancel();
    this.#channel.close();
  }

  /** Makes a call without retries. */
  async once<Q extends DescMessage, A extends DescMessage>(
    method: Unary<Q, A>,
    request: MessageInitShape<Q>,
    options: CallOptions = {},
  ): Promise<MessageShape<A>> {
    return await this.#send(method, encode(method.input, request), options);
  }

  /** Makes a call that may be repeated: one that reads, or one with a request id. */
  async call<Q extends DescMessage, A extends DescMessage>(
    method: Unary<Q, A>,
    request: MessageInitShape<Q>,
    options: CallOptions = {},
  ): Promise<MessageShape<A>> {
    const bytes = encode(method.input, request);
    const attempts = new Attempts(this.#retry, new Deadline(options.timeoutMs));
    for (;;) {
      attempts.begin();
      try {
        return await this.#send(method, bytes, { ...options, timeoutMs: attempts.deadline.leftMs });
      } catch (error) {
        await pauseOrFail(attempts.pauseMs(error as SuretyError), options.signal);
      }
    }
  }

  /** Reads a stream; where it breaks, it is opened again with what `resume` answers then. */
  async *stream<Q extends DescMessage, A extends DescMessage>(
    method: Streaming<Q, A>,
    resume: () => MessageInitShape<Q>,
    options: CallOptions = {},
    retry: Retry = this.#retry,
  ): AsyncGenerator<MessageShape<A>, void, undefined> {
    const attempts = new Attempts(retry, new Deadline(options.timeoutMs));
    for (;;) {
      this.#open(options.signal);
      attempts.begin();
      const left = { ...options, timeoutMs: attempts.deadline.leftMs };
      const answers = this.#channel.makeServerStreamRequest(
        pathOf(method),
        asSent,
        decoder(method.output),
        encode(method.input, resume()),
        this.#metadata(options),
        wireOptions(left),
      );
      const end = this.#track(answers, options.signal);
      try {
        for await (const answer of answers) {
          attempts.succeeded();
          yield answer as MessageShape<A>;
        }
        return;
      } catch (error) {
        await pauseOrFail(attempts.pauseMs(this.#failure(error, options.signal)), options.signal);
      } finally {
        end();
        // What the consumer left unread must not keep the connection busy.
        answers.on("error", () => undefined).cancel();
      }
    }
  }

  /** Reads a stream without opening it again. */
  read<Q extends DescMessage, A extends DescMessage>(
    method: Streaming<Q, A>,
    request: MessageInitShape<Q>,
    options: CallOptions,
  ): AsyncGenerator<MessageShape<A>, void, undefined> {
    return this.stream(method, () => request, options, new Retry({ attempts: 1 }));
  }

  /** Opens a stream in both directions, without retries. Its errors are those of the library; see `errorOf`. */
  duplex<Q extends DescMessage, A extends DescMessage>(
    method: Bidirectional<Q, A>,
  ): ClientDuplexStream<MessageShape<Q>, MessageShape<A>> {
    this.#open(undefined);
    const stream = this.#channel.makeBidiStreamRequest(
      pathOf(method),
      (message: MessageShape<Q>) => Buffer.from(toBinary<DescMessage>(method.input, message)),
      decoder(method.output),
      this.#metadata({}),
      {},
    );
    const end = this.#track(stream, undefined);
    stream.once("close", end);
    return stream;
  }

  async #send<A extends DescMessage>(
    method: DescMethod & { output: A },
    bytes: Buffer,
    options: CallOptions,
  ): Promise<MessageShape<A>> {
    this.#open(options.signal);
    let end = (): void => undefined;
    try {
      return await new Promise<MessageShape<A>>((resolve, reject) => {
        const call = this.#channel.makeUnaryRequest(
          pathOf(method),
          asSent,
          decoder(method.output),
          bytes,
          this.#metadata(options),
          wireOptions(options),
          (failure, answer) => {
            if (failure) reject(failure);
            else resolve(answer as MessageShape<A>);
          },
        );
        end = this.#track(call, options.signal);
      });
    } catch (error) {
      throw this.#failure(error, options.signal);
    } finally {
      end();
    }
  }

  // Cancels a call when the client is closed or the caller says so. Answers what ends that.
  #track(call: { cancel(): void }, signal: AbortSignal | undefined): () => void {
    const cancel = (): void => {
      call.cancel();
    };
    this.#running.add(call);
    signal?.addEventListener("abort", cancel, { once: true });
    return () => {
      this.#running.delete(call);
      signal?.removeEventListener("abort", cancel);
    };
  }

  #failure(error: unknown, signal: AbortSignal | undefined): SuretyError {
    if (signal?.aborted) return cancelled();
    return this.#closed ? closed() : errorOf(error as ServiceError);
  }

  #open(signal: AbortSignal | undefined): void {
    if (this.#closed) throw closed();
    if (signal?.aborted) throw cancelled();
  }

  #metadata(options: CallOptions): Metadata {
    const metadata = new Metadata();
    if (this.#token !== undefined) metadata.set("authorization", `Bearer ${this.#token}`);
    for (const [name, value] of traceHeaders(options.traceparent)) metadata.set(name, value);
    return metadata;
  }
}

/** Waits, and ends early when the signal is aborted. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(milliseconds, undefined, signal === undefined ? {} : { signal });
  } catch {
    // Aborted: the caller looks at its signal.
  }
}

/** Ends when the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener(
      "abort",
      () => {
        resolve();
      },
      { once: true },
    );
  });
}

async function pauseOrFail(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  await pause(milliseconds, signal);
  if (signal?.aborted) throw cancelled();
}

function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function encode<Q extends DescMessage>(schema: Q, request: MessageInitShape<Q>): Buffer {
  try {
    return Buffer.from(toBinary(schema, create(schema, request)));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const field = /encode field surety\.v1\.\w+\.([\w.]+) /.exec(reason)?.[1] ?? "";
    throw new InvalidInput(reason, { code: "type_mismatch", field });
  }
}

function decoder<A extends DescMessage>(schema: A): (bytes: Buffer) => MessageShape<A> {
  return (bytes) => fromBinary(schema, bytes);
}

function asSent(bytes: Buffer): Buffer {
  return bytes;
}

function wireOptions({ timeoutMs }: CallOptions): WireOptions {
  return timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs };
}

function closed(): SuretyError {
  return new Cancelled("the client is closed; make another one");
}

function cancelled(): SuretyError {
  return new Cancelled("the caller cancelled the call");
}
