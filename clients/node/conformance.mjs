// Sends every conformance row that has a call of its own to a live deployment.
//
// SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the services' addresses (host:port).

import { readdirSync } from "node:fs";
import { join } from "node:path";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { Numeral, canonical, parse, rows, write } from "./rows.mjs";

const PROTO = join(import.meta.dirname, "..", "..", "proto");

class Refused extends Error {
  constructor({ code, field }) {
    super(`${code} at ${field ?? ""}`);
    // Compared without case: an error carries its reason in upper case, a problem in lower case.
    this.code = code.toLowerCase();
    this.field = field ?? "";
  }
}

class Difference extends Error {}

const files = readdirSync(join(PROTO, "surety", "v1")).map((name) => `surety/v1/${name}`);
const options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const api = grpc.loadPackageDefinition(
  loader.loadSync(files, { ...options, includeDirs: [PROTO] }),
).surety.v1;

// The services know every caller by a token.
const caller = new grpc.Metadata();
caller.set("authorization", `Bearer ${process.env.SURETY_TOKEN}`);

function service(Service, address) {
  const client = new Service(address, grpc.credentials.createInsecure());
  return (method, request) =>
    new Promise((resolve, reject) =>
      client[method](request, caller, (error, response) => (error ? reject(error) : resolve(response))),
    );
}

const planner = service(api.PlannerService, process.env.SURETY_PLANNER);
const executor = service(api.ExecutorService, process.env.SURETY_EXECUTOR);
const gate = service(api.AcceptGateService, process.env.SURETY_GATE);

// `STEP_STATE_DONE` as the contract writes it.
const word = (prefix, name) => name.replace(prefix, "").toLowerCase();

const says = (value) =>
  !(value === "" || value === null || value === undefined) &&
  !(Array.isArray(value) && value.length === 0);

// The API writes `cancelled` everywhere; the rows keep `canceled` for todos.
const todoStatus = (written) =>
  `TODO_STATUS_${(written === "canceled" ? "cancelled" : written).toUpperCase()}`;

// The members that are not defaults.
const filled = (object) => new Map([...object].filter(([, value]) => says(value)));

const object = (members) => new Map(Object.entries(members));

function equal(what, expected, found) {
  if (canonical(expected ?? null) !== canonical(found ?? null))
    throw new Difference(`${what}: expected ${write(expected ?? null)}, found ${write(found ?? null)}`);
}

// Compares only what the row states.
function stated(expect, key, found) {
  if (expect.has(key)) equal(key, expect.get(key), found);
}

function outcome(response) {
  if (response.outcome === "problem") throw new Refused(response.problem);
  return response;
}

function warned(response, expect) {
  const given = response.warnings.map((warning) => warning.code);
  for (const code of expect.get("warnings") ?? [])
    if (!given.includes(code)) throw new Difference(`no warning ${code} among ${given}`);
}

function decisionOf({ action, speak, reason, goal_check, tool_call, abort }) {
  const found = object({ action: word("DECISION_ACTION_", action), speak, reason, goal_check });
  if (tool_call)
    found.set(
      "tool_call",
      object({ name: tool_call.name, arguments: parse(tool_call.arguments_json) }),
    );
  if (abort) found.set("abort", filled(object(abort)));
  return filled(found);
}

function checkOf({ id, kind, target, match, required, params, owner }) {
  const found = filled(object({ id, kind, target }));
  if (match !== "CHECK_MATCH_PREFIX") found.set("match", word("CHECK_MATCH_", match));
  if (required === false) found.set("required", false);
  if (Object.keys(params).length > 0) found.set("params", object(params));
  if (owner !== "CHECK_OWNER_PLAN") found.set("owner", word("CHECK_OWNER_", owner));
  return found;
}

function withoutDefaults(check) {
  const isDefault = ([key, value]) =>
    value === { required: true, match: "prefix", owner: "plan" }[key] ||
    value === "" ||
    (key === "params" && value.size === 0);
  return new Map([...check].filter((member) => !isDefault(member)));
}

const scriptOf = (step) =>
  step.script.map(({ name, arguments_json }) => object({ name, arguments: parse(arguments_json) }));

// The compared fields of each step, and those that this row names.
function stepsOf({ plan, statuses }, expected) {
  return plan.steps.map((step, at) => {
    const found = object({
      id: step.id,
      status: word("STEP_STATE_", statuses[at].state),
      dependencies: step.dependencies,
    });
    const named = {
      description: step.description,
      tools_expected: step.tools_expected,
      write_scope: step.write_scope,
      done_when: step.done_when,
      evidence: step.evidence === "EVIDENCE_NONE" ? "none" : "required",
      script: scriptOf(step),
      verify: step.verify.map(checkOf),
    };
    for (const [key, value] of Object.entries(named))
      if (expected[at]?.has(key)) found.set(key, value);
    return found;
  });
}

// Fields of a command fact that are left out where they are empty.
const CONDITIONS = ["environment", "workspace_before", "workspace_after"];

function factOf(fact) {
  const kind = fact.fact;
  const found = object({ fact: kind });
  for (const [key, value] of Object.entries(fact[kind])) {
    if (key === "argv") found.set(key, value.args);
    else if (CONDITIONS.includes(key) && value.length === 0) continue;
    else if (key !== "command" && !key.startsWith("_"))
      found.set(key, typeof value === "number" ? new Numeral(value) : value);
  }
  if (kind === "command") found.delete(fact.command.command === "argv" ? "command_line" : "argv");
  return found;
}

function receiptOf(receipt) {
  const { step_id, call_id, name, arguments_digest, summary } = receipt;
  const { output_digest, prev_digest, digest, success, step_index, seq } = receipt;
  const source = word("EVIDENCE_SOURCE_", receipt.source);
  const texts = { step_id, call_id, name, arguments_digest, summary, source, success };
  const found = filled(object({ ...texts, output_digest, prev_digest, digest }));
  found.set("step_index", new Numeral(step_index));
  if (receipt.plan_revision) found.set("plan_revision", new Numeral(receipt.plan_revision));
  if (seq !== "0") found.set("seq", new Numeral(seq));
  if (receipt.facts.length > 0) found.set("facts", receipt.facts.map(factOf));
  return found;
}

async function decision(row, expect) {
  const response = outcome(await executor("ParseDecision", { raw: row.get("raw") }));
  const found = response.outcome === "decision" ? decisionOf(response.decision) : null;
  equal("decision", expect.get("decision"), found);
  warned(response, expect);
}

async function control(row, expect) {
  const { envelope, legacy } = await executor("ParseDecision", { raw: row.get("raw") });
  const kind = word("CONTROL_KIND_", envelope);
  equal("control", expect.get("control"), kind === "unspecified" ? null : kind);
  stated(expect, "legacy", legacy);
}

async function plan(row, expect) {
  const response = outcome(await planner("ParsePlan", { raw: row.get("raw") }));
  stated(expect, "title", response.plan.title);
  equal("steps", expect.get("steps"), stepsOf(response, expect.get("steps")));
  warned(response, expect);
}

async function patch(row, expect) {
  const written = row.get("patch");
  const statuses = row.get("plan").get("steps").map((step) => ({
    step_id: (step.get("id").text ?? step.get("id")).trim(),
    state: `STEP_STATE_${(step.get("status") ?? "pending").toUpperCase()}`,
  }));
  const response = outcome(
    await planner("ApplyPatch", {
      plan_text: write(row.get("plan")),
      statuses,
      patch: typeof written === "string" ? written : write(written),
      max_plan_steps: Number(row.get("max_plan_steps")?.text ?? 0),
    }),
  );
  stated(expect, "title", response.plan.title);
  equal("steps", expect.get("steps"), stepsOf(response, expect.get("steps")));
  stated(expect, "truncated_add", response.truncated_add);
  warned(response, expect);
}

async function checks(row, expect) {
  const steps = [object({ id: "a", description: "d" })];
  const raw = write(object({ title: "T", steps, verify: row.get("verify") }));
  const response = outcome(await planner("ParsePlan", { raw }));
  const expected = expect.get("checks").map(withoutDefaults);
  equal("checks", expected, response.plan.verify.map(checkOf));
  warned(response, expect);
}

async function receipt(row, expect) {
  const receipts = [{ receipt_json: write(row.get("receipt")) }];
  const response = outcome(await gate("Evaluate", { receipts }));
  const expected = filled(expect.get("receipt"));
  equal("receipt", expected, receiptOf(response.normalised_receipts[0]));
}

function receiptWith(fact) {
  const facts = [new Map([...fact].filter(([key]) => key !== "call_id"))];
  const base = { step_index: new Numeral(0), source: "tool_observation", success: true };
  return { receipt_json: write(object({ ...base, call_id: fact.get("call_id") ?? "", facts })) };
}

async function evaluate(row, expect) {
  const { verdict } = outcome(
    await gate("Evaluate", {
      workspace_root: row.get("workspace_root"),
      checks_json: write(row.get("checks")),
      receipts: row.get("receipts").map(receiptWith),
      final_text: row.get("final_text"),
      todos: row.get("todos").map((todo) => ({
        id: todo.get("id"),
        required: todo.get("required") ?? true,
        status: todoStatus(todo.get("status")),
      })),
    }),
  );
  const results = verdict.results.map(({ name, passed, reason, optional }) =>
    filled(object({ name, passed, reason, optional: optional || null })),
  );
  stated(expect, "accepted", verdict.accepted);
  stated(expect, "stop_reason", word("STOP_REASON_", verdict.stop_reason));
  stated(expect, "results", results);
}

// Null, or the actual result when it differs from the row.
async function check(ask, row) {
  const expect = row.get("expect");
  const refusal = expect.get("ok") === false;
  try {
    await ask(row, expect);
  } catch (error) {
    if (error instanceof Difference) return error.message;
    if (!(error instanceof Refused)) throw error;
    const right = refusal && error.code === expect.get("error").toLowerCase();
    return right && error.field.endsWith(expect.get("field") ?? "") ? null : `refused: ${error.message}`;
  }
  return refusal ? `expected ${expect.get("error")}, was read` : null;
}

let [passed, failed] = [0, 0];
for (const [name, ask] of Object.entries({ decision, control, plan, patch, checks, receipt, gate: evaluate })) {
  for (const row of rows(`${name}.jsonl`)) {
    const said = await check(ask, row);
    if (said === null) passed += 1;
    else {
      failed += 1;
      console.log(`FAILED ${name}.jsonl ${row.get("id")} ${row.get("case") ?? ""}: ${said}`);
    }
  }
}
console.log(`conformance: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
