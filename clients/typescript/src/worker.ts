// A tool worker: serves functions as tools of runs.

import { create } from "@bufbuild/protobuf";
import { Calls, Retry, type RetryOptions } from "./calls.js";
import { type Log, WARNINGS } from "./log.js";
import { asJson, secondsOf } from "./requests.js";
import { type Settings, WORKER, executorAddress } from "./settings.js";
import { stopOnSignals } from "./signals.js";
import { type StandardSchema, isStandard, validated } from "./standard_schema.js";
import type { ToolCall } from "./tool_call.js";
import { WorkerLoop } from "./worker_loop.js";
import { type Tool, ToolSchema } from "./generated/surety/v1/tool_pb.js";
import { AnnounceSchema } from "./generated/surety/v1/tool_service_pb.js";

/** How a worker works. What is not given is read from the environment. */
export interface WorkerOptions extends Settings {
  /** The address of the executor; SURETY_EXECUTOR_URL. */
  executor?: string;
  /** Only calls of these namespaces; by default of all in which the policy lets the worker serve a tool. */
  namespaces?: readonly string[];
  /** Only calls of runs that carry all of these labels. */
  labels?: Readonly<Record<string, string>>;
  /** The most calls at once, 1 by default. */
  maxParallel?: number;
  /** How long running calls have when the worker stops, 30,000 ms by default. */
  drainMs?: number;
  retry?: RetryOptions;
  log?: Log;
}

/** What drivers and policies know of a tool. An annotation counts where the namespace's policy repeats it. */
export interface ToolOptions<Input> {
  description: string;
  /** The arguments: a schema of zod or another library with Standard JSON Schema, or a JSON Schema. */
  input: StandardSchema<Input> | Record<string, unknown>;
  readOnly?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  openWorld?: boolean;
  /** The time limit of one call; by default that of the service. */
  timeoutMs?: number;
  returnSample?: string;
}

/** A tool and its function. */
export interface ServedTool {
  message: Tool;
  call: (call: ToolCall) => Promise<unknown>;
}

/**
 * Serves functions as tools. `workerId` is the worker's name within its identity: a process that restarts and goes on
 * with its calls keeps it, and two processes have two names. The policy of a namespace says in `tool_workers` which
 * identity may serve which tool.
 */
export class Worker {
  readonly #workerId: string;
  readonly #options: WorkerOptions;
  readonly #tools = new Map<string, ServedTool>();
  #stop = new AbortController();

  constructor(workerId: string, options: WorkerOptions = {}) {
    if (!((options.maxParallel ?? 1) >= 1)) throw new RangeError("maxParallel is at least 1");
    this.#workerId = workerId;
    this.#options = options;
  }

  /** Serves a function as a tool. It answers a text, a `ToolOutput` or a value that is sent as JSON. */
  tool<Input>(
    name: string,
    options: ToolOptions<Input>,
    work: (input: Input, call: ToolCall) => unknown,
  ): this {
    if (this.#tools.has(name)) throw new RangeError(`the worker has a tool with the name ${name} already`);
    const { description, input, timeoutMs, returnSample, readOnly, destructive, idempotent, openWorld } =
      options;
    const schema = isStandard(input)
      ? input["~standard"].jsonSchema.input({ target: "draft-2020-12" })
      : input;
    const message = create(ToolSchema, {
      name,
      description,
      inputSchemaJson: asJson(schema, "input"),
      returnSample: returnSample ?? "",
      annotations: {
        ...(readOnly === undefined ? {} : { readOnly }),
        ...(destructive === undefined ? {} : { destructive }),
        ...(idempotent === undefined ? {} : { idempotent }),
        ...(openWorld === undefined ? {} : { openWorld }),
      },
      ...(timeoutMs === undefined ? {} : { timeout: secondsOf(timeoutMs / 1000) }),
    });
    const call = async (one: ToolCall): Promise<unknown> => {
      const sent: unknown = JSON.parse(one.message.argumentsJson || "{}");
      const args = isStandard(input) ? await validated(input, sent) : (sent as Input);
      return await work(args, one);
    };
    this.#tools.set(name, { message, call });
    return this;
  }

  /** Ends `run`: running calls end first. */
  stop(): void {
    this.#stop.abort();
  }

  /**
   * Serves calls until SIGTERM, SIGINT or `stop`. After a lost connection it connects again and goes on with its calls.
   * At the end it takes no new calls, and running ones have `drainMs`; a call that takes longer is offered again, or a
   * person is asked. Throws the `SuretyError` that makes going on useless, such as `PermissionDenied` with
   * `tool_not_granted`.
   */
  async run(): Promise<void> {
    const options = this.#options;
    const retry = new Retry(options.retry);
    const log = options.log ?? WARNINGS;
    const calls = new Calls(executorAddress(options.executor), options, WORKER, retry);
    const announce = create(AnnounceSchema, {
      workerId: this.#workerId,
      tools: [...this.#tools.values()].map(({ message }) => message),
      maxParallel: options.maxParallel ?? 1,
      namespaces: [...(options.namespaces ?? [])],
      labels: { ...options.labels },
    });
    const drainMs = options.drainMs ?? 30_000;
    const loop = new WorkerLoop(calls, announce, this.#tools, this.#stop.signal, { drainMs, retry, log });
    const ignoreSignals = stopOnSignals((signal) => {
      log.info(`worker: ${signal}: stopping`);
      this.stop();
    });
    try {
      await loop.run();
    } finally {
      ignoreSignals();
      calls.close();
      this.#stop = new AbortController();
    }
  }
}
