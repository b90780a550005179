// The loop of an agent: leases steps, asks a function for decisions, submits them.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Calls, Retry, type RetryOptions } from "./calls.js";
import type { Reply } from "./decision.js";
import { DriverLoop } from "./driver_loop.js";
import { type Log, WARNINGS } from "./log.js";
import { DRIVER, type Settings, executorAddress } from "./settings.js";
import { stopOnSignals } from "./signals.js";
import type { StepContext } from "./step.js";

/** The function of a driver. */
export type Decide = (context: StepContext) => Reply | Promise<Reply>;

/** How a driver works. What is not given is read from the environment. */
export interface DriverOptions extends Settings {
  /** The address of the executor; SURETY_EXECUTOR_URL. */
  executor?: string;
  /** Unique among active drivers; made from host and process by default. */
  driverId?: string;
  /** Only steps of this namespace. */
  namespace?: string;
  /** Only steps of these namespaces; by default, and without `namespace`, of all that the token reaches. */
  namespaces?: readonly string[];
  /** Only steps of runs that carry all of these labels. */
  labels?: Readonly<Record<string, string>>;
  /** Only steps of this run; the driver ends with it. */
  runId?: string;
  /** The most steps at once, 1 by default. */
  maxParallel?: number;
  /** The failures of the function in a row that end the driver, 5 by default. */
  maxFailures?: number;
  /** How long running turns have when the driver stops, 10,000 ms by default. */
  drainMs?: number;
  retry?: RetryOptions;
  log?: Log;
}

/** Drives steps of runs with `driver: remote` by a function from `StepContext` to a decision. */
export class Driver {
  readonly #decide: Decide;
  readonly #options: DriverOptions;
  #stop = new AbortController();

  constructor(decide: Decide, options: DriverOptions = {}) {
    if (!((options.maxParallel ?? 1) >= 1) || !((options.maxFailures ?? 1) >= 1)) {
      throw new RangeError("maxParallel and maxFailures are at least 1");
    }
    this.#decide = decide;
    this.#options = options;
  }

  /** Ends `run`: running turns end, and their steps are released. */
  stop(): void {
    this.#stop.abort();
  }

  /**
   * Drives steps until SIGTERM, SIGINT or `stop`, or until no step was leased for `idleMs`. At the end a running
   * turn has `drainMs`; then the step is released to other drivers. Throws the `SuretyError` that makes going on
   * useless, such as `Unauthenticated`, and `DriverFailed` when the function failed `maxFailures` times in a row.
   */
  async run({ idleMs = Infinity }: { idleMs?: number } = {}): Promise<void> {
    const options = this.#options;
    const retry = new Retry(options.retry);
    const log = options.log ?? WARNINGS;
    const calls = new Calls(executorAddress(options.executor), options, DRIVER, retry);
    const loop = new DriverLoop(calls, this.#stop, {
      decide: this.#decide,
      driverId: options.driverId ?? `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`,
      namespace: options.namespace ?? "",
      namespaces: [...(options.namespaces ?? [])],
      labels: { ...options.labels },
      runId: options.runId ?? "",
      maxParallel: options.maxParallel ?? 1,
      maxFailures: options.maxFailures ?? 5,
      drainMs: options.drainMs ?? 10_000,
      idleMs,
      retry,
      log,
    });
    const ignoreSignals = stopOnSignals((signal) => {
      log.info(`driver: ${signal}: stopping`);
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
