// Requests of the client, made from plain values.

import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type Message,
  type MessageShape,
  ScalarType,
  create,
  isMessage,
} from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";
import {
  FieldError,
  type ReflectMessage,
  reflect,
  reflectList,
  reflectMap,
} from "@bufbuild/protobuf/reflect";
import { randomUUID } from "node:crypto";
import { InvalidInput } from "./errors.js";
import { type AcceptCheck, AcceptCheckSchema } from "./generated/surety/v1/check_pb.js";
import { type Limits, LimitsSchema } from "./generated/surety/v1/limits_pb.js";
import { type Plan, PlanSchema } from "./generated/surety/v1/plan_pb.js";
import { type Policy, PolicySchema } from "./generated/surety/v1/run_pb.js";
import {
  ConfirmationAnswer,
  type CreateRunRequest,
  CreateRunRequestSchema,
  type ResolveConfirmationRequest,
  ResolveConfirmationRequestSchema,
  type Wait,
} from "./generated/surety/v1/run_service_pb.js";

/** A message as an object of some of its fields. An enum may be a short name (`ask`), a duration seconds. */
export type Fields<T> = {
  [K in keyof T as K extends "$typeName" | "$unknown" ? never : K]?: Field<T[K]> | undefined;
};
type Field<V> = V extends undefined
  ? undefined
  : V extends Duration
    ? Duration | number
    : V extends Message
      ? Fields<V>
      : V extends (infer Item)[]
        ? readonly Field<Item>[]
        : V extends bigint
          ? bigint | number
          : V extends number
            ? `${number}` extends `${V}`
              ? number
              : V | string
            : V;

/** What a run is created from. */
export interface NewRun {
  /** A plan: an object or a text as plan files have it, or the message. */
  plan?: string | object | Plan | undefined;
  goal?: string | undefined;
  /** An absolute path on the executor's host; empty makes a new folder. */
  workspace?: string | undefined;
  /** A check that is a text is a command that has to succeed. */
  checks?: Iterable<string | Fields<AcceptCheck> | AcceptCheck> | undefined;
  policy?: Fields<Policy> | Policy | undefined;
  limits?: Fields<Limits> | Limits | undefined;
  /** `script` or `remote`. */
  driver?: string | undefined;
  labels?: Record<string, string> | undefined;
  namespace?: string | undefined;
  priority?: number | undefined;
  interactive?: boolean | undefined;
  /** Makes a run of a single step without planning: the goal is the step. */
  withoutPlan?: boolean | undefined;
  /** The same id with the same content answers the existing run; made for each call by default. */
  requestId?: string | undefined;
}

/** The answer to a confirmation. */
export interface Resolution {
  /** The digest of what was shown; by default that of the given wait. */
  callDigest?: string | undefined;
  comment?: string | undefined;
}

/** The idempotency key of one call. All attempts of the call have the same. */
export function requestId(given: string | undefined): string {
  return given ?? randomUUID();
}

/** The request of CreateRun. */
export function createRun(run: NewRun): CreateRunRequest {
  const { plan, policy, limits, driver } = run;
  const request = {
    requestId: requestId(run.requestId),
    namespace: run.namespace,
    goal: run.goal,
    workspace: run.workspace,
    labels: run.labels,
    priority: run.priority,
    interactive: run.interactive,
    withoutPlan: run.withoutPlan,
    driver,
    policy: policy && messageOf(PolicySchema, policy, "policy"),
    limits: limits && messageOf(LimitsSchema, limits, "limits"),
    verify: [...(run.checks ?? [])].map((check, at) => {
      const fields = typeof check === "string" ? { kind: "command_success", target: check } : check;
      return messageOf(AcceptCheckSchema, fields, `verify[${at}]`);
    }),
  };
  const message = messageOf(CreateRunRequestSchema, request, "");
  if (isMessage(plan, PlanSchema)) message.planSource = { case: "plan", value: plan };
  else if (plan !== undefined) {
    message.planSource = { case: "planText", value: typeof plan === "string" ? plan : asJson(plan, "plan") };
  }
  return message;
}

/** The request of ResolveConfirmation. */
export function resolve(
  wait: Wait | string,
  approved: boolean,
  answer: Resolution & {
    stop?: boolean | undefined;
    requestId?: string | undefined;
    expectedVersion?: bigint | undefined;
  },
): ResolveConfirmationRequest {
  const callDigest = answer.callDigest ?? (typeof wait === "string" ? "" : wait.callDigest);
  if (!callDigest) {
    throw new InvalidInput(
      "an answer names the digest of what was shown; pass the Wait, or its callDigest beside the id",
      { code: "field_missing", field: "call_digest" },
    );
  }
  return create(ResolveConfirmationRequestSchema, {
    waitId: waitId(wait),
    answer: approved ? ConfirmationAnswer.APPROVE : ConfirmationAnswer.DENY,
    callDigest,
    comment: answer.comment ?? "",
    stop: answer.stop ?? false,
    requestId: requestId(answer.requestId),
    ...version(answer.expectedVersion),
  });
}

/** The optional version of a run, as an initializer takes it. */
export function version(expectedVersion: bigint | undefined): { expectedVersion?: bigint } {
  return expectedVersion === undefined ? {} : { expectedVersion };
}

/** The id of a wait. */
export function waitId(wait: Wait | string): string {
  return typeof wait === "string" ? wait : wait.id;
}

/** A value as JSON text. */
export function asJson(value: unknown, field: string): string {
  let reason = `it is of the type ${typeof value}`;
  try {
    // Without a text for functions, symbols and undefined, whatever its declaration says.
    const text = JSON.stringify(value, refuseNumbers) as string | undefined;
    if (text !== undefined) return text;
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  }
  throw new InvalidInput(`it is no JSON value: ${reason}`, { code: "type_mismatch", field });
}

// JSON.stringify would write null for them.
function refuseNumbers(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new TypeError(`${value} is no number of JSON`);
  return value;
}

/** A message of its fields by name. */
export function messageOf<D extends DescMessage>(
  schema: D,
  value: Fields<MessageShape<D>> | MessageShape<D>,
  path: string,
): MessageShape<D> {
  if (isMessage(value, schema)) return value;
  if (typeof value !== "object" || (value as unknown) === null) throw mismatch(path, "an object", value);
  const message = reflect(schema);
  for (const [name, item] of Object.entries(value)) {
    if (item === undefined) continue;
    const field = schema.fields.find((known) => known.localName === name || known.name === name);
    const place = path === "" ? name : `${path}.${name}`;
    if (field === undefined) {
      const known = schema.fields.map(({ localName }) => localName).sort();
      const text = `${path} has no field ${JSON.stringify(name)}; it has ${known.join(", ")}`;
      throw new InvalidInput(text, { code: "type_mismatch", field: place });
    }
    set(message, field, item, place);
  }
  return message.message as MessageShape<D>;
}

function set(message: ReflectMessage, field: DescField, item: unknown, place: string): void {
  try {
    if (field.fieldKind === "list") {
      if (!Array.isArray(item)) throw mismatch(place, "a list", item);
      const list = reflectList(field);
      for (const [at, entry] of item.entries()) list.add(value(field, entry, `${place}[${at}]`));
      message.set(field, list);
    } else if (field.fieldKind === "map") {
      if (typeof item !== "object" || item === null) throw mismatch(place, "an object", item);
      const map = reflectMap(field);
      for (const [key, entry] of Object.entries(item)) map.set(key, entry);
      message.set(field, map);
    } else {
      message.set(field, value(field, item, place));
    }
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    throw new InvalidInput(error.message, { code: "type_mismatch", field: place });
  }
}

function value(field: DescField, item: unknown, place: string): unknown {
  if (field.enum !== undefined) return enumValue(field.enum, item, place);
  if (field.message?.typeName === DurationSchema.typeName) return duration(item, place);
  if (field.message !== undefined) {
    return reflect(field.message, messageOf(field.message, item as Message, place));
  }
  const wide = field.scalar === ScalarType.UINT64 || field.scalar === ScalarType.INT64;
  return wide && Number.isSafeInteger(item) ? BigInt(item as number) : item;
}

// The number of a member, by its number or its name with or without the enum's prefix.
function enumValue(kind: DescEnum, item: unknown, place: string): unknown {
  if (typeof item === "number") return item;
  const named = String(item).toUpperCase();
  const member = kind.values.find(({ name, localName }) => name === named || localName === named);
  if (member !== undefined) return member.number;
  const choices = kind.values.filter(({ number }) => number !== 0).map((one) => one.localName.toLowerCase());
  const text = `${JSON.stringify(item)} is none of ${choices.join(", ")}`;
  throw new InvalidInput(text, { code: "type_mismatch", field: place });
}

function duration(item: unknown, place: string): ReflectMessage {
  if (isMessage(item, DurationSchema)) return reflect(DurationSchema, item);
  if (typeof item !== "number" || !Number.isFinite(item)) throw mismatch(place, "seconds", item);
  return reflect(DurationSchema, secondsOf(item));
}

/** A duration in milliseconds. */
export function millisecondsOf({ seconds, nanos }: Duration): number {
  return Number(seconds) * 1000 + nanos / 1e6;
}

/** A number of seconds as a message. */
export function secondsOf(seconds: number): Duration {
  const whole = Math.trunc(seconds);
  return create(DurationSchema, { seconds: BigInt(whole), nanos: Math.round((seconds - whole) * 1e9) });
}

function mismatch(place: string, wanted: string, item: unknown): InvalidInput {
  return new InvalidInput(`expected ${wanted}, not ${item === null ? "null" : typeof item}`, {
    code: "type_mismatch",
    field: place,
  });
}
