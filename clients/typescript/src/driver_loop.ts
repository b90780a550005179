// One run of a driver.

import { create } from "@bufbuild/protobuf";
import { type Calls, type Retry, aborted, pause } from "./calls.js";
import { fill } from "./decision.js";
import type { Decide } from "./driver.js";
import { Cancelled, DeadlineExceeded, DriverFailed, SuretyError } from "./errors.js";
import type { Log } from "./log.js";
import { secondsOf } from "./requests.js";
import { Held, StepContext } from "./step.js";
import { withSpan } from "./trace.js";
import { TurnOutcome } from "./generated/surety/v1/decision_pb.js";
import {
  ExecutorService,
  type StepContext as Context,
  type StepFence,
  type StepLease,
  type SubmitDecisionRequest,
  SubmitDecisionRequestSchema,
  type SubmitDecisionResponse,
} from "./generated/surety/v1/executor_service_pb.js";

const executor = ExecutorService.method;
// The service waits at most 60 s for a step, and 30 s for a turn.
const LEASE_WAIT_MS = 30_000;
const LEASE_MARGIN_MS = 15_000;
const SUBMIT_TIMEOUT_MS = 60_000;
const SHORT_TIMEOUT_MS = 5_000;
// The end of a run is seen when LeaseStep is called, so a driver of one run calls it more often.
const RUN_WAIT_MS = 5_000;
// Between two heartbeats: a third of the lease, within these bounds whatever the clocks say.
const [BEAT_LEAST_MS, BEAT_MOST_MS] = [250, 5_000];
// What SubmitDecision answers when the step is not ours any more.
const NOT_OURS = new Set(["lease_lost", "turn_conflict", "run_terminal", "run_not_found", "step_not_found"]);

interface Plan {
  decide: Decide;
  driverId: string;
  namespace: string;
  namespaces: string[];
  labels: Record<string, string>;
  runId: string;
  maxParallel: number;
  maxFailures: number;
  drainMs: number;
  idleMs: number;
  retry: Retry;
  log: Log;
}

/** The work on a step ends without a release: it is not ours any more. */
class Ended extends Error {}

interface Leased {
  held: Held;
  context: Context;
}

export class DriverLoop {
  readonly #calls: Calls;
  readonly #plan: Plan;
  readonly #stop: AbortController;
  readonly #ended = new AbortController();
  readonly #held = new Set<Held>();
  #failure: SuretyError | undefined;
  #failures = 0;
  #polling: Promise<unknown> = Promise.resolve();
  #lastWork = performance.now();
  #beatMs = BEAT_LEAST_MS;

  constructor(calls: Calls, stop: AbortController, plan: Plan) {
    this.#calls = calls;
    this.#stop = stop;
    this.#plan = plan;
  }

  #stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  async run(): Promise<void> {
    const beating = this.#beat();
    const workers = Promise.all(Array.from({ length: this.#plan.maxParallel }, () => this.#work()));
    await Promise.race([workers, aborted(this.#stop.signal)]);
    await Promise.race([workers, pause(this.#plan.drainMs, this.#ended.signal)]);
    for (const held of this.#held) {
      await this.#release(held, "the driver stops");
      held.lose();
    }
    this.#ended.abort();
    await beating;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #work(): Promise<void> {
    try {
      for (let leased; (leased = await this.#nextStep()) !== undefined;) await this.#drive(leased);
    } catch (error) {
      // A defect here must end the driver, not only one of its workers.
      this.#failure ??=
        error instanceof SuretyError
          ? error
          : new DriverFailed(`the driver's loop failed: ${textOf(error)}`, { cause: error });
      this.#stop.abort();
    }
  }

  /** Leases the next step; undefined when the driver stops. One worker at a time asks. */
  async #nextStep(): Promise<Leased | undefined> {
    const leasing = this.#polling.then(() => this.#lease());
    this.#polling = leasing.catch(() => undefined);
    return await leasing;
  }

  async #lease(): Promise<Leased | undefined> {
    const { driverId, namespace, namespaces, labels, runId, retry, log } = this.#plan;
    for (let failures = 0; !this.#stopping();) {
      const waitMs = this.#waitForStepMs();
      if (waitMs <= 0) break;
      const wait = secondsOf(waitMs / 1000);
      const request = { driverId, namespace, namespaces, labels, runId, wait };
      const options = { timeoutMs: waitMs + LEASE_MARGIN_MS, signal: this.#stop.signal };
      try {
        const { lease, context } = await this.#calls.once(executor.leaseStep, request, options);
        failures = 0;
        if (lease !== undefined && context !== undefined) return { held: this.#hold(lease), context };
      } catch (error) {
        if (!(error instanceof SuretyError)) throw error;
        if (this.#stopping() || (runId !== "" && error.code === "run_terminal")) break;
        if (!error.retryable && !(error instanceof DeadlineExceeded)) throw error;
        failures += 1;
        log.warn(`driver: LeaseStep failed, it is called again: ${error.toString()}`);
        await pause(Math.max(error.retryAfterMs, retry.pauseMs(failures)), this.#stop.signal);
      }
    }
    this.#stop.abort();
    return undefined;
  }

  /** How long to wait for a step; 0 when the driver was idle for long enough. */
  #waitForStepMs(): number {
    const longest = this.#plan.runId === "" ? LEASE_WAIT_MS : RUN_WAIT_MS;
    if (this.#held.size > 0) this.#lastWork = performance.now();
    return Math.min(longest, this.#lastWork + this.#plan.idleMs - performance.now());
  }

  #hold(lease: StepLease): Held {
    const held = new Held(lease);
    const leftMs = Number(lease.expiresAt?.seconds ?? 0n) * 1000 - Date.now();
    this.#beatMs = Math.min(BEAT_MOST_MS, Math.max(BEAT_LEAST_MS, leftMs / 3));
    this.#held.add(held);
    this.#lastWork = performance.now();
    this.#plan.log.info(`driver: leased ${held.name}`);
    return held;
  }

  async #drive({ held, context }: Leased): Promise<void> {
    try {
      for (let previous: SubmitDecisionResponse | undefined; ;) {
        const step = new StepContext(context, previous, held);
        previous = await this.#turn(step, held);
        this.#failures = 0;
        if (previous.next === undefined) return;
        context = previous.next;
        if (this.#stopping() || held.stopping) {
          await this.#release(held, this.#stopping() ? "the driver stops" : "the run is paused");
          return;
        }
      }
    } catch (error) {
      if (!(error instanceof Ended)) await this.#functionFailed(held, error);
      else this.#plan.log.info(`driver: gave up ${held.name}: ${error.message}`);
    } finally {
      this.#held.delete(held);
      this.#lastWork = performance.now();
    }
  }

  async #turn(step: StepContext, held: Held): Promise<SubmitDecisionResponse> {
    const { runId, stepId, turn, traceparent } = step;
    const attributes = { "surety.run_id": runId, "surety.step_id": stepId, "surety.turn": turn };
    return await withSpan("surety.decide", traceparent, attributes, async () => {
      const deciding = Promise.resolve(this.#plan.decide(step));
      const reply = await Promise.race([deciding, aborted(held.lost)]);
      if (held.lost.aborted) {
        // What the abandoned function answers, or throws, has no effect any more.
        deciding.catch(() => undefined);
        throw new Ended("its lease is lost");
      }
      const request = create(SubmitDecisionRequestSchema, { fence: held.fence, turn });
      fill(request, reply);
      return await this.#submit(request, held);
    });
  }

  async #functionFailed(held: Held, error: unknown): Promise<void> {
    const { maxFailures, retry, log } = this.#plan;
    log.warn(`driver: the function failed at ${held.name}: ${textOf(error)}`);
    await this.#release(
      held,
      `the driver's function threw ${error instanceof Error ? error.name : "a value"}`,
    );
    this.#failures += 1;
    if (this.#failures >= maxFailures) {
      const text = `the function failed ${this.#failures} times in a row: ${textOf(error)}`;
      throw new DriverFailed(text, { cause: error });
    }
    // Another driver may have more luck; this one does not take the step again at once.
    await pause(retry.pauseMs(this.#failures), this.#stop.signal);
  }

  /** Submits a decision until its turn has ended. However often it is sent, it is applied once. */
  async #submit(request: SubmitDecisionRequest, held: Held): Promise<SubmitDecisionResponse> {
    const { retry, log } = this.#plan;
    for (let failures = 0; !held.lost.aborted;) {
      let answer;
      try {
        answer = await this.#calls.once(executor.submitDecision, request, { timeoutMs: SUBMIT_TIMEOUT_MS });
      } catch (error) {
        if (!(error instanceof SuretyError)) throw error;
        if (!error.retryable && !(error instanceof DeadlineExceeded)) {
          if (NOT_OURS.has(error.code)) throw new Ended(error.toString());
          if (error instanceof Cancelled && this.#stopping()) throw new Ended("the driver stops");
          throw error;
        }
        failures += 1;
        log.warn(`driver: SubmitDecision failed at ${held.name}, it is sent again: ${error.toString()}`);
        await pause(Math.max(error.retryAfterMs, retry.pauseMs(failures)), held.lost);
        continue;
      }
      if (answer.outcome !== TurnOutcome.PENDING) {
        log.info(`driver: turn ${request.turn} of ${held.name}: ${TurnOutcome[answer.outcome]}`);
        return answer;
      }
      if (this.#stopping() || held.stopping) {
        // The turn goes on without a driver; that of a paused run when it is resumed.
        await this.#release(held, this.#stopping() ? "the driver stops" : "the run is paused");
        break;
      }
    }
    throw new Ended("its lease has ended");
  }

  async #release(held: Held, reason: string): Promise<void> {
    if (held.lost.aborted) return;
    const { log } = this.#plan;
    const request = { fence: held.fence, reason };
    try {
      await this.#calls.once(executor.releaseStep, request, { timeoutMs: SHORT_TIMEOUT_MS });
      log.info(`driver: released ${held.name}: ${reason}`);
    } catch (error) {
      log.warn(`driver: ${held.name} could not be released, its lease expires: ${textOf(error)}`);
    }
  }

  /** Extends the leases until the driver has ended. */
  async #beat(): Promise<void> {
    const { driverId, log } = this.#plan;
    for (;;) {
      await pause(this.#beatMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      const held = new Map([...this.#held].map((one) => [keyOf(one.fence), one]));
      if (held.size === 0) continue;
      const request = { driverId, fences: [...held.values()].map(({ fence }) => fence) };
      try {
        const answer = await this.#calls.once(executor.heartbeat, request, { timeoutMs: SHORT_TIMEOUT_MS });
        for (const fence of answer.lost) {
          const one = held.get(keyOf(fence));
          if (one !== undefined) log.warn(`driver: the lease of ${one.name} is lost`);
          one?.lose();
        }
        for (const fence of answer.stopping) {
          const one = held.get(keyOf(fence));
          if (one !== undefined) one.stopping = true;
        }
      } catch (error) {
        log.warn(`driver: Heartbeat failed: ${textOf(error)}`);
      }
    }
  }
}

function keyOf({ runId, stepId, leaseEpoch }: StepFence): string {
  return JSON.stringify([runId, stepId, String(leaseEpoch)]);
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.toString() : String(error);
}
