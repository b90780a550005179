// What a driver decides from, and the steps that it has leased.

import { create } from "@bufbuild/protobuf";
import {
  ContextRole,
  type StepContext as Context,
  type StepFence,
  StepFenceSchema,
  type StepLease,
  type SubmitDecisionResponse,
} from "./generated/surety/v1/executor_service_pb.js";
import { type PlanStep, PlanStepSchema } from "./generated/surety/v1/plan_pb.js";
import type { Todo } from "./generated/surety/v1/todo_pb.js";
import type { Tool } from "./generated/surety/v1/tool_pb.js";

/** A message for a chat model. */
export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** A leased step. */
export class Held {
  readonly fence: StepFence;
  /** The run is paused: the turn ends, then the step is released. */
  stopping = false;
  readonly #lost = new AbortController();

  constructor(readonly lease: StepLease) {
    const { runId, stepId, leaseEpoch } = lease;
    this.fence = create(StepFenceSchema, { runId, stepId, leaseEpoch });
  }

  /** Aborted when the step is no longer ours. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** The step is no longer ours. */
  lose(): void {
    this.#lost.abort();
  }

  /** For logs. */
  get name(): string {
    return `step ${this.lease.stepId} of run ${this.lease.runId}`;
  }
}

/** What the next decision of a step is made from. */
export class StepContext {
  /** All fields, as docs/api.md lists them for StepContext. */
  readonly message: Context;
  /** The answer to the decision before, under the same lease; undefined for the first. */
  readonly previous: SubmitDecisionResponse | undefined;
  readonly #held: Held;

  /** @internal */
  constructor(message: Context, previous: SubmitDecisionResponse | undefined, held: Held) {
    this.message = message;
    this.previous = previous;
    this.#held = held;
  }

  /** The run. */
  get runId(): string {
    return this.#held.lease.runId;
  }

  /** The id of the step. */
  get stepId(): string {
    return this.step.id;
  }

  /** The step. */
  get step(): PlanStep {
    return this.message.step ?? create(PlanStepSchema);
  }

  /** The attempt at the step, from 1. */
  get attempt(): number {
    return this.#held.lease.attempt;
  }

  /** The number of the turn in this attempt, from 1. */
  get turn(): number {
    return this.message.turn;
  }

  /** The goal of the run. */
  get goal(): string {
    return this.message.goal;
  }

  /** The folder of the run on the executor's machine. */
  get workspace(): string {
    return this.message.workspace;
  }

  /** The tools that the step may call. */
  get tools(): readonly Tool[] {
    return this.message.tools;
  }

  /** All todos of the run. */
  get todos(): readonly Todo[] {
    return this.message.todos;
  }

  /** The conversation for a chat model. */
  get messages(): ChatMessage[] {
    return this.message.messages.map(({ role, text }) => ({ role: roleOf(role), content: text }));
  }

  /** The trace of the run; empty when it is not traced. */
  get traceparent(): string {
    return this.#held.lease.traceparent;
  }

  /** Aborted when the step is no longer leased: pass it to the call of a model. */
  get signal(): AbortSignal {
    return this.#held.lost;
  }
}

function roleOf(role: ContextRole): ChatMessage["role"] {
  if (role === ContextRole.SYSTEM) return "system";
  return role === ContextRole.ASSISTANT ? "assistant" : "user";
}
