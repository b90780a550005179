// The client of runs.

import type { DescMessage, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import {
  type CallOptions,
  Calls,
  Deadline,
  Retry,
  type RetryOptions,
  type Streaming,
  type Unary,
} from "./calls.js";
import { Internal, NotFound, Unimplemented } from "./errors.js";
import { type Log, WARNINGS } from "./log.js";
import {
  type NewRun,
  type Resolution,
  asJson,
  createRun,
  requestId,
  resolve,
  version,
  waitId,
} from "./requests.js";
import { PERSON, type Settings, plannerAddress } from "./settings.js";
import type { Event } from "./generated/surety/v1/event_pb.js";
import type { EvidenceReceipt } from "./generated/surety/v1/receipt_pb.js";
import type { Run } from "./generated/surety/v1/run_pb.js";
import { RunService, type Wait } from "./generated/surety/v1/run_service_pb.js";
import type { Verdict } from "./generated/surety/v1/verdict_pb.js";

const PAGE = 200;
const runs = RunService.method;

/** How a client reaches its services. What is not given is read from the environment. */
export interface ClientOptions extends Settings {
  /** The address of the planner; SURETY_URL. */
  address?: string;
  /** The namespace of calls that name none. */
  namespace?: string;
  /** The default deadline of a call in milliseconds, 30,000 by default. */
  timeoutMs?: number;
  retry?: RetryOptions;
  log?: Log;
}

/** Options of a call that changes a run. */
export interface ChangeOptions extends CallOptions {
  /** The idempotency key; made for each call by default. */
  requestId?: string | undefined;
  /** The version of the run that the caller read; another one is refused. */
  expectedVersion?: bigint | undefined;
}

/** The typed calls of a service. */
export type ServiceCalls<S extends DescService> = {
  [K in keyof S["method"]]: S["method"][K] extends Unary<infer Q, infer A>
    ? (request: MessageInitShape<Q>, options?: CallOptions) => Promise<MessageShape<A>>
    : S["method"][K] extends Streaming<infer Q, infer A>
      ? (request: MessageInitShape<Q>, options?: CallOptions) => AsyncIterable<MessageShape<A>>
      : never;
};

/** Creates, follows and answers runs. Every method may throw `SuretyError`. */
export class Client {
  readonly #calls: Calls;
  readonly #namespace: string;
  readonly #timeoutMs: number;
  readonly #log: Log;

  constructor(options: ClientOptions = {}) {
    this.#calls = new Calls(plannerAddress(options.address), options, PERSON, new Retry(options.retry));
    this.#namespace = options.namespace ?? "";
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#log = options.log ?? WARNINGS;
  }

  /** Closes the connection. */
  close(): void {
    this.#calls.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Creates a run. The same `requestId` with the same content answers the existing run. */
  async createRun(run: NewRun, options: CallOptions = {}): Promise<Run> {
    const request = createRun({ ...run, namespace: run.namespace ?? this.#namespace });
    const answer = await this.#call(runs.createRun, request, options);
    for (const { code, field, message } of answer.warnings) {
      this.#log.warn(`run ${answer.run?.id ?? ""}: ${code} at ${field}: ${message}`);
    }
    return present(answer.run);
  }

  /** Returns a run, without its receipts and turns. */
  async getRun(runId: string, options: CallOptions = {}): Promise<Run> {
    return present((await this.#call(runs.getRun, { runId }, options)).run);
  }

  /** Returns the latest verdict. Throws `NotFound` with `verdict_not_found` while there is none. */
  async verdict(runId: string, options: CallOptions = {}): Promise<Verdict> {
    const { verdict } = await this.getRun(runId, options);
    if (verdict === undefined) {
      throw new NotFound(`run ${runId} has no verdict yet`, { code: "verdict_not_found" });
    }
    return verdict;
  }

  /**
   * Yields the events of a run, each once and in order, and with `follow` (the default) until the run has ended.
   * A broken stream is opened again after the last event. `timeoutMs` bounds the whole; there is no default.
   */
  async *watch(
    runId: string,
    options: CallOptions & { fromSequence?: bigint; follow?: boolean } = {},
  ): AsyncGenerator<Event, void, undefined> {
    let next = options.fromSequence ?? 1n;
    const resume = () => ({ runId, fromSequence: next, follow: options.follow ?? true });
    for await (const answer of this.#calls.stream(runs.watchRun, resume, options)) {
      const event = present(answer.event);
      next = event.sequence + 1n;
      yield event;
    }
  }

  /** Returns a run when it has ended. Throws `DeadlineExceeded` after `timeoutMs`; there is no default. */
  async wait(runId: string, options: CallOptions = {}): Promise<Run> {
    const deadline = new Deadline(options.timeoutMs);
    const { lastSequence } = await this.getRun(runId, options);
    const events = this.watch(runId, {
      ...options,
      fromSequence: lastSequence + 1n,
      timeoutMs: deadline.leftMs,
    });
    while (!(await events.next()).done);
    return await this.getRun(runId, { ...options, timeoutMs: undefined });
  }

  /** Cancels a run, and returns it. */
  async cancel(runId: string, options: ChangeOptions & { reason?: string } = {}): Promise<Run> {
    const request = { runId, reason: options.reason ?? "", ...changeOf(options) };
    return present((await this.#call(runs.cancelRun, request, options)).run);
  }

  /** Returns the open waits of a run, or of all runs of a namespace. */
  async listWaits(options: CallOptions & { runId?: string; namespace?: string } = {}): Promise<Wait[]> {
    const filter = { runId: options.runId ?? "", namespace: options.namespace ?? this.#namespace };
    const waits: Wait[] = [];
    let pageToken = "";
    do {
      const request = { ...filter, pageSize: PAGE, pageToken };
      const page = await this.#call(runs.listWaits, request, options);
      waits.push(...page.waits);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return waits;
  }

  /** Answers a question. An answer that is no text is sent as JSON, for questions with a JSON Schema. */
  async answer(wait: Wait | string, answer: unknown, options: ChangeOptions = {}): Promise<Run> {
    const text = typeof answer === "string" ? answer : asJson(answer, "answer");
    const questionDigest = typeof wait === "string" ? "" : wait.questionDigest;
    const request = { waitId: waitId(wait), answer: text, questionDigest, ...changeOf(options) };
    return present((await this.#call(runs.answerQuestion, request, options)).run);
  }

  /** Approves exactly the call or the verdict that a wait shows. */
  async approve(wait: Wait | string, options: ChangeOptions & Resolution = {}): Promise<Run> {
    const request = resolve(wait, true, options);
    return present((await this.#call(runs.resolveConfirmation, request, options)).run);
  }

  /** Denies what a wait shows; with `stop` the run ends with `confirmation_denied`. */
  async deny(
    wait: Wait | string,
    options: ChangeOptions & Resolution & { stop?: boolean } = {},
  ): Promise<Run> {
    const request = resolve(wait, false, options);
    return present((await this.#call(runs.resolveConfirmation, request, options)).run);
  }

  /** Yields all receipts of a run in the order of the chain. The deadline is that of each page. */
  async *receipts(
    runId: string,
    options: CallOptions = {},
  ): AsyncGenerator<EvidenceReceipt, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.#call(runs.listReceipts, { runId, pageSize: PAGE, pageToken }, options);
      yield* page.receipts;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * The calls of any service at this client's address, such as `client.service(PlannerService)` with what
   * `@surety/client/v1` exports. A call is repeated only if its request has a `requestId`.
   */
  service<S extends DescService>(service: S): ServiceCalls<S> {
    const methods = Object.values(service.method).map((method) => [method.localName, this.#method(method)]);
    return Object.fromEntries(methods) as ServiceCalls<S>;
  }

  #method(method: DescService["methods"][number]) {
    return (request: MessageInitShape<DescMessage>, options: CallOptions = {}) => {
      if (method.methodKind === "unary") {
        const unary = method as Unary<DescMessage, DescMessage>;
        const repeatable = "requestId" in request && Boolean(request.requestId);
        if (repeatable) return this.#call(unary, request, options);
        return this.#calls.once(unary, request, this.#withDeadline(options));
      }
      if (method.methodKind === "server_streaming") {
        return this.#calls.read(method as Streaming<DescMessage, DescMessage>, request, options);
      }
      throw new Unimplemented(`${method.name} takes a stream of messages; see Worker`);
    };
  }

  async #call<Q extends DescMessage, A extends DescMessage>(
    method: Unary<Q, A>,
    request: MessageInitShape<Q>,
    options: CallOptions,
  ): Promise<MessageShape<A>> {
    return await this.#calls.call(method, request, this.#withDeadline(options));
  }

  #withDeadline(options: CallOptions): CallOptions {
    return { ...options, timeoutMs: options.timeoutMs ?? this.#timeoutMs };
  }
}

function changeOf(options: ChangeOptions) {
  return { requestId: requestId(options.requestId), ...version(options.expectedVersion) };
}

// A message that the service always sets.
function present<T>(message: T | undefined): T {
  if (message === undefined) throw new Internal("the service's answer lacks its message");
  return message;
}
