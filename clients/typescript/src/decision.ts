// Decisions of a driver: what it wants to do in one turn.

import { create } from "@bufbuild/protobuf";
import { asJson } from "./requests.js";
import { DecisionAction, ExecuteDecisionSchema, UsageSchema } from "./generated/surety/v1/decision_pb.js";
import type { SubmitDecisionRequest } from "./generated/surety/v1/executor_service_pb.js";

/** What the decision cost, for the budgets of the run. */
export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  costMicros?: number;
  model?: string;
}

interface Content {
  action?: DecisionAction;
  speak?: string;
  reason?: string;
  goalCheck?: string;
  toolCall?: { name: string; arguments: object };
  abort?: { code: string; userMessage: string; internalReason: string };
  answerSchema?: object | undefined;
  text?: string;
  usage?: Usage | undefined;
}

/** One decision. Make it with `call`, `nextPlan`, `done`, `askUser`, `confirm`, `abort` or `raw`. */
export class Decision {
  readonly #content: Content;

  /** @internal */
  constructor(content: Content) {
    this.#content = content;
  }

  /** The same decision with what it cost. */
  using(usage: Usage): Decision {
    return new Decision({ ...this.#content, usage });
  }

  /** The same decision with a text for the user who follows the run. */
  saying(speak: string): Decision {
    return new Decision({ ...this.#content, speak });
  }

  /** @internal */
  fill(request: SubmitDecisionRequest): void {
    const { action, toolCall, abort, answerSchema, text, usage, ...said } = this.#content;
    if (usage !== undefined) {
      request.usage = create(UsageSchema, {
        inputTokens: BigInt(usage.inputTokens ?? 0),
        outputTokens: BigInt(usage.outputTokens ?? 0),
        costMicros: BigInt(usage.costMicros ?? 0),
        model: usage.model ?? "",
      });
    }
    if (action === undefined) {
      request.decisionSource = { case: "raw", value: text ?? "" };
      return;
    }
    const value = create(ExecuteDecisionSchema, {
      ...said,
      action,
      ...(abort && { abort }),
      ...(toolCall && {
        toolCall: { name: toolCall.name, argumentsJson: asJson(toolCall.arguments, "arguments") },
      }),
      answerSchemaJson: answerSchema === undefined ? "" : asJson(answerSchema, "answer_schema"),
    });
    request.decisionSource = { case: "decision", value };
  }
}

/** What the function of a driver may answer. An object and a text are read tolerantly by the executor. */
export type Reply = Decision | string | object;

/** Calls a tool. */
export function call(tool: string, args: object = {}): Decision {
  return new Decision({ action: DecisionAction.CONTINUE, toolCall: { name: tool, arguments: args } });
}

/** Asks a person to confirm a call of a tool. After the approval the executor makes it. */
export function confirm(tool: string, args: object = {}): Decision {
  return new Decision({ action: DecisionAction.CONFIRM, toolCall: { name: tool, arguments: args } });
}

/** The step is done; `goalCheck` says why. */
export function nextPlan(goalCheck = "the step is done", speak = ""): Decision {
  return new Decision({ action: DecisionAction.NEXT_PLAN, goalCheck, speak });
}

/** The whole plan is done; `goalCheck` says why, `speak` is the final answer. */
export function done(goalCheck = "the goal is reached", speak = ""): Decision {
  return new Decision({ action: DecisionAction.DONE, goalCheck, speak });
}

/** Asks the user that the run works for. The answer must fit the JSON Schema, if there is one. */
export function askUser(question: string, answerSchema?: object): Decision {
  return new Decision({ action: DecisionAction.ASK_USER, speak: question, answerSchema });
}

/** Ends the run as failed, with a code and a message for the user, and a reason for the operator. */
export function abort(code: string, userMessage: string, reason = ""): Decision {
  const abort = { code, userMessage, internalReason: reason };
  return new Decision({ action: DecisionAction.ABORT, abort, reason });
}

/** The reply of a model as it was written. */
export function raw(text: string, usage?: Usage): Decision {
  return new Decision({ text, usage });
}

/** Puts a reply into the request that submits it. */
export function fill(request: SubmitDecisionRequest, reply: unknown): void {
  if (reply instanceof Decision) reply.fill(request);
  else if (typeof reply === "string") request.decisionSource = { case: "raw", value: reply };
  else if (typeof reply === "object" && reply !== null) {
    request.decisionSource = { case: "raw", value: asJson(reply, "decision") };
  } else {
    throw new TypeError(`a driver answers a Decision, an object or a text, not ${typeof reply}`);
  }
}
