// Sends every conformance row that has a call of its own to a live deployment.
//
// SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the services' addresses (host:port), SURETY_TOKEN is a
// token that they know.

import { toJson } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { Client, SuretyError } from "@surety/client";
import {
  type AcceptCheck,
  AcceptGateService,
  CheckMatch,
  CheckOwner,
  ControlKind,
  DecisionAction,
  Evidence,
  EvidenceSource,
  type EvidenceReceipt,
  type ExecuteDecision,
  ExecutorService,
  type Fact,
  FactSchema,
  type Plan,
  PlannerService,
  StepState,
  type StepStatus,
  StopReason,
  TodoStatus,
  type ToolCall,
  type Warning,
} from "@surety/client/v1";
import { Numeral, type Row, type Value, canonical, parse, rows, write } from "./rows.js";

class Refused extends Error {
  readonly code: string;
  readonly field: string;

  constructor({ code, field = "" }: { code: string; field?: string }) {
    super(`${code} at ${field}`);
    this.code = code.toLowerCase();
    this.field = field;
  }
}

class Difference extends Error {}

const at = (name: string) => new Client({ address: process.env[name] ?? "" });
const planner = at("SURETY_PLANNER").service(PlannerService);
const executor = at("SURETY_EXECUTOR").service(ExecutorService);
const gate = at("SURETY_GATE").service(AcceptGateService);

/** The value of an enum as the contract writes it. */
const word = (kind: Record<number, string>, value: number) => (kind[value] ?? "").toLowerCase();

/** The value of an enum that the rows write so. The API writes `cancelled` everywhere; rows of todos do not. */
function valueOf<E>(kind: Record<string, E | string>, written: Value): E {
  const name = written === "canceled" ? "CANCELLED" : text(written).toUpperCase();
  if (!(name in kind)) throw new Error(`no value ${name}`);
  return kind[name] as E;
}

const text = (value: Value | undefined) => (typeof value === "string" ? value : "");
const list = (value: Value | undefined) => value as Row[];

const says = (value: Value | undefined) =>
  value !== "" && value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0);

/** The members that are not defaults. */
function filled(members: Row | Record<string, Value | undefined>): Row {
  const pairs = members instanceof Map ? [...members] : Object.entries(members);
  return new Map(pairs.filter((pair): pair is [string, Value] => says(pair[1])));
}

function equal(what: string, expected: Value | undefined, found: Value | undefined): void {
  if (canonical(expected ?? null) === canonical(found ?? null)) return;
  throw new Difference(`${what}: expected ${write(expected ?? null)}, found ${write(found ?? null)}`);
}

/** Compares only what the row states. */
function stated(expect: Row, key: string, found: Value | undefined): void {
  if (expect.has(key)) equal(key, expect.get(key), found);
}

function warned(warnings: Warning[], expect: Row): void {
  const given = warnings.map(({ code }) => code);
  for (const code of (expect.get("warnings") ?? []) as string[]) {
    if (!given.includes(code)) throw new Difference(`no warning ${code} among ${given.join(", ")}`);
  }
}

interface Outcome {
  case?: string | undefined;
  value?: unknown;
}

/** What an answer has in place of a problem; undefined if that is of another kind. */
function outcome<O extends Outcome, K extends string>(
  response: { outcome: O },
  kind: K,
): Extract<O, { case: K }>["value"] | undefined {
  const { case: found, value } = response.outcome;
  if (found === "problem") throw new Refused(value as Refused);
  return found === kind ? value : undefined;
}

const callOf = ({ name, argumentsJson }: ToolCall): Row =>
  new Map<string, Value>([
    ["name", name],
    ["arguments", parse(argumentsJson)],
  ]);

function decisionOf(decision: ExecuteDecision): Row {
  const { action, speak, reason, goalCheck, toolCall, abort } = decision;
  return filled({
    action: word(DecisionAction, action),
    speak,
    reason,
    goal_check: goalCheck,
    tool_call: toolCall && callOf(toolCall),
    abort:
      abort &&
      filled({
        code: abort.code,
        user_message: abort.userMessage,
        internal_reason: abort.internalReason,
      }),
  });
}

function checkOf({ id, kind, target, match, required, params, owner }: AcceptCheck): Row {
  const found = filled({ id, kind, target });
  if (match !== CheckMatch.PREFIX) found.set("match", word(CheckMatch, match));
  if (required === false) found.set("required", false);
  if (Object.keys(params).length > 0) found.set("params", new Map(Object.entries(params)));
  if (owner !== CheckOwner.PLAN) found.set("owner", word(CheckOwner, owner));
  return found;
}

function withoutDefaults(check: Row): Row {
  const defaults: Record<string, Value> = { required: true, match: "prefix", owner: "plan" };
  const isDefault = ([key, value]: [string, Value]) =>
    value === defaults[key] || value === "" || (key === "params" && value instanceof Map && value.size === 0);
  return new Map([...check].filter((member) => !isDefault(member)));
}

/** The compared fields of each step, and those that this row names. */
function stepsOf(plan: Plan | undefined, statuses: StepStatus[], expected: Row[]): Row[] {
  return (plan?.steps ?? []).map((step, number) => {
    const found: Row = new Map<string, Value>([
      ["id", step.id],
      ["status", word(StepState, statuses[number]?.state ?? 0)],
      ["dependencies", step.dependencies],
    ]);
    const named: Record<string, Value> = {
      description: step.description,
      tools_expected: step.toolsExpected,
      outputs_expected: step.outputsExpected,
      confirm_tools: step.confirmTools,
      write_scope: step.writeScope,
      done_when: step.doneWhen,
      evidence: step.evidence === Evidence.NONE ? "none" : "required",
      script: step.script.map(callOf),
      verify: step.verify.map(checkOf),
    };
    for (const [key, value] of Object.entries(named)) {
      if (expected[number]?.has(key)) found.set(key, value);
    }
    return found;
  });
}

/** Fields of a command fact that are left out where they are empty. */
const CONDITIONS = ["environment", "workspace_before", "workspace_after"];

function factOf(fact: Fact): Row {
  const options = { useProtoFieldName: true, alwaysEmitImplicit: true };
  const [[kind, fields] = ["", {}]] = Object.entries(toJson(FactSchema, fact, options) as object);
  const found: Row = new Map([["fact", kind]]);
  for (const [key, value] of Object.entries(fields as Record<string, Value>)) {
    if (key === "argv") found.set(key, (value as unknown as { args: string[] }).args);
    else if (CONDITIONS.includes(key) && !says(value)) continue;
    else found.set(key, typeof value === "number" ? new Numeral(value) : value);
  }
  return found;
}

/** A signature in base64; what is no Ed25519 signature is returned as it was sent. */
const signatureOf = (signature: Uint8Array): string =>
  Buffer.from(signature).toString(signature.length === 64 ? "base64" : "utf8");

function receiptOf(receipt: EvidenceReceipt): Row {
  const found = filled({
    step_id: receipt.stepId,
    call_id: receipt.callId,
    name: receipt.name,
    arguments_digest: receipt.argumentsDigest,
    summary: receipt.summary,
    source: word(EvidenceSource, receipt.source),
    success: receipt.success,
    output_digest: receipt.outputDigest,
    prev_digest: receipt.prevDigest,
    digest: receipt.digest,
    key_id: receipt.keyId,
    signature: signatureOf(receipt.signature),
    started_at: receipt.startedAt && toJson(TimestampSchema, receipt.startedAt),
    finished_at: receipt.finishedAt && toJson(TimestampSchema, receipt.finishedAt),
  });
  found.set("step_index", new Numeral((receipt.stepIndex ?? 0n).toString()));
  if (receipt.planRevision) found.set("plan_revision", new Numeral(receipt.planRevision));
  if (receipt.seq) found.set("seq", new Numeral(receipt.seq.toString()));
  if (receipt.facts.length > 0) found.set("facts", receipt.facts.map(factOf));
  return found;
}

async function decision(row: Row, expect: Row): Promise<void> {
  const response = await executor.parseDecision({ raw: text(row.get("raw")) });
  const found = outcome(response, "decision");
  equal("decision", expect.get("decision"), found && decisionOf(found));
  warned(response.warnings, expect);
}

async function control(row: Row, expect: Row): Promise<void> {
  const { envelope, legacy } = await executor.parseDecision({ raw: text(row.get("raw")) });
  const kind = envelope === ControlKind.UNSPECIFIED ? null : word(ControlKind, envelope);
  equal("control", expect.get("control"), kind);
  stated(expect, "legacy", legacy);
}

async function plan(row: Row, expect: Row): Promise<void> {
  const read = await planner.parsePlan({ raw: text(row.get("raw")) });
  const steps = list(expect.get("steps"));
  const found = outcome(read, "plan");
  stated(expect, "title", found?.title);
  equal("steps", steps, stepsOf(found, read.statuses, steps));
  warned(read.warnings, expect);
}

async function patch(row: Row, expect: Row): Promise<void> {
  const written = row.get("patch") ?? null;
  const before = row.get("plan") as Row;
  const statuses = list(before.get("steps")).map((step) => {
    const id = step.get("id");
    return {
      stepId: (id instanceof Numeral ? id.text : text(id)).trim(),
      state: valueOf<StepState>(StepState, step.get("status") ?? "pending"),
    };
  });
  const patched = await planner.applyPatch({
    planSource: { case: "planText", value: write(before) },
    statuses,
    patch: typeof written === "string" ? written : write(written),
    maxPlanSteps: Number((row.get("max_plan_steps") as Numeral | undefined)?.text ?? 0),
  });
  const steps = list(expect.get("steps"));
  const found = outcome(patched, "plan");
  stated(expect, "title", found?.title);
  equal("steps", steps, stepsOf(found, patched.statuses, steps));
  stated(expect, "truncated_add", patched.truncatedAdd);
  warned(patched.warnings, expect);
}

async function checks(row: Row, expect: Row): Promise<void> {
  const step = new Map([
    ["id", "a"],
    ["description", "d"],
  ]);
  const written = new Map<string, Value>([
    ["title", "T"],
    ["steps", [step]],
    ["verify", row.get("verify") ?? null],
  ]);
  const read = await planner.parsePlan({ raw: write(written) });
  const found = outcome(read, "plan")?.verify.map(checkOf);
  equal("checks", list(expect.get("checks")).map(withoutDefaults), found);
  warned(read.warnings, expect);
}

async function receipt(row: Row, expect: Row): Promise<void> {
  const response = await gate.evaluate({ receipts: [inputOf(row.get("receipt") ?? null)] });
  outcome(response, "verdict");
  const [read] = response.normalisedReceipts;
  equal("receipt", filled(expect.get("receipt") as Row), read && receiptOf(read));
}

const inputOf = (receipt: Value) => ({
  receiptSource: { case: "receiptJson" as const, value: write(receipt) },
});

function receiptWith(fact: Row) {
  const facts = [new Map([...fact].filter(([key]) => key !== "call_id"))];
  const members = new Map<string, Value>([
    ["step_index", new Numeral(0)],
    ["source", "tool_observation"],
    ["success", true],
    ["call_id", text(fact.get("call_id"))],
    ["facts", facts],
  ]);
  return inputOf(members);
}

async function evaluate(row: Row, expect: Row): Promise<void> {
  const response = await gate.evaluate({
    workspaceRoot: text(row.get("workspace_root")),
    checksSource: { case: "checksJson", value: write(row.get("checks") ?? null) },
    receipts: list(row.get("receipts")).map(receiptWith),
    finalText: text(row.get("final_text")),
    todos: list(row.get("todos")).map((todo) => ({
      id: text(todo.get("id")),
      required: todo.get("required") !== false,
      status: valueOf<TodoStatus>(TodoStatus, todo.get("status") ?? null),
    })),
  });
  const verdict = outcome(response, "verdict");
  const results = verdict?.results.map(({ name, passed, reason, optional }) =>
    filled({ name, passed, reason, optional: optional ? true : null }),
  );
  stated(expect, "accepted", verdict?.accepted);
  stated(expect, "stop_reason", word(StopReason, verdict?.stopReason ?? StopReason.UNSPECIFIED));
  stated(expect, "results", results);
}

type Ask = (row: Row, expect: Row) => Promise<void>;

/** Undefined, or the actual result when it differs from the row. */
async function check(ask: Ask, row: Row): Promise<string | undefined> {
  const expect = row.get("expect") as Row;
  const refusal = expect.get("ok") === false;
  try {
    await ask(row, expect);
  } catch (error) {
    if (error instanceof Difference) return error.message;
    if (!(error instanceof Refused || error instanceof SuretyError)) throw error;
    const right = refusal && error.code === text(expect.get("error")).toLowerCase();
    return right && error.field.endsWith(text(expect.get("field"))) ? undefined : `refused: ${String(error)}`;
  }
  return refusal ? `expected ${text(expect.get("error"))}, was read` : undefined;
}

const files: Record<string, Ask> = { decision, control, plan, patch, checks, receipt, gate: evaluate };
let [passed, failed] = [0, 0];
for (const [name, ask] of Object.entries(files)) {
  for (const row of rows(`${name}.jsonl`)) {
    const said = await check(ask, row);
    if (said === undefined) {
      passed += 1;
    } else {
      failed += 1;
      console.log(`FAILED ${name}.jsonl ${text(row.get("id"))} ${text(row.get("case"))}: ${said}`);
    }
  }
}
console.log(`conformance: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
