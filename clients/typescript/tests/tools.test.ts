// Tools that the package serves, called by live services: results, lost connections, killed workers, the example.

import {
  Client,
  type EvidenceReceipt,
  PermissionDenied,
  type Run,
  RunState,
  type StepContext,
  type ToolCall,
  ToolError,
  ToolOutput,
  Worker,
  type WorkerOptions,
  call,
  nextPlan,
} from "@surety/client";
import { AdminService, ToolService, WaitSchema } from "@surety/client/v1";
import { toJsonString } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { z } from "zod";
import { PATIENCE_MS, Relay, driving, inTime, until, variable } from "./live.js";
import { assertRepaired, createRepair } from "./repair.js";

const NAMESPACE = "tools-typescript";
const ANY = { type: "object" };
const client = new Client({ namespace: NAMESPACE });
const executor = new Client({ address: variable("SURETY_EXECUTOR_URL") });

before(async () => {
  const names = ["test.ts.large", "test.ts.busy", "test.ts.slow", "test.ts.waits", "test.ts.once"];
  const entry = (tool: string) => ({ tool, identities: ["*"] });
  const toolWorkers = [
    ...names.map(entry),
    { ...entry("test.ts.again"), annotations: { idempotent: true } },
    { ...entry("release_note"), annotations: { readOnly: true, openWorld: false } },
    { ...entry("wait_for_file"), annotations: { readOnly: true, openWorld: false } },
  ];
  await client.service(AdminService).setNamespacePolicy({ namespace: NAMESPACE, policy: { toolWorkers } });
});
after(() => {
  client.close();
  executor.close();
});

/** Waits until a tool is listed. */
async function untilListed(name: string): Promise<void> {
  const tools = executor.service(ToolService);
  await until(`the tool ${name}`, async () => {
    const { tools: listed } = await tools.listTools({ namespace: NAMESPACE });
    return listed.some((tool) => tool.name === name);
  });
}

/** Works while a worker serves one tool. */
async function serving(
  name: string,
  serve: (input: unknown, call: ToolCall) => unknown,
  work: () => Promise<void>,
  { workerId = randomUUID(), ...more }: WorkerOptions & { workerId?: string; idempotent?: boolean } = {},
): Promise<void> {
  const { idempotent = false, ...options } = more;
  const worker = new Worker(workerId, { namespaces: [NAMESPACE], ...options });
  worker.tool(name, { description: "A tool of a test.", input: ANY, idempotent }, serve);
  const running = worker.run();
  try {
    await untilListed(name);
    await work();
  } finally {
    worker.stop();
    await inTime("the end of the worker", running);
  }
}

/** A run of one step that calls a tool. */
const runOf = (tool: string, args: object = {}): Promise<Run> => {
  const step = { id: "s", description: "Call.", script: [{ name: tool, arguments: args }] };
  return client.createRun({ plan: { title: "Call a tool", steps: [step] } });
};

async function done({ id }: Run): Promise<void> {
  assert.equal((await client.wait(id, { timeoutMs: PATIENCE_MS })).state, RunState.DONE);
}

/** The last receipt of a tool, after the end of the run. */
async function receiptOf({ id }: Run, tool: string): Promise<EvidenceReceipt> {
  await client.wait(id, { timeoutMs: PATIENCE_MS });
  let found: EvidenceReceipt | undefined;
  for await (const receipt of client.receipts(id)) if (receipt.name === tool) found = receipt;
  assert.ok(found, `no receipt of ${tool}`);
  return found;
}

/** A run whose call was given to a worker that was killed, and the name of the worker. */
async function killed(tool: string): Promise<{ run: Run; workerId: string }> {
  const workerId = randomUUID();
  const script = join(import.meta.dirname, "stuck_worker.js");
  const child = spawn(process.execPath, [script, workerId], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await untilListed(tool);
    const run = await runOf(tool);
    await inTime("the call", once(child.stdout, "data"));
    return { run, workerId };
  } finally {
    child.kill("SIGKILL");
    await once(child, "close");
  }
}

describe("tools", () => {
  it("has a result, and a receipt in the worker's words", async () => {
    let reported = false;
    const text = "äb".repeat(50_000);
    const facts = [{ fact: { case: "output" as const, value: { key: "k", value: "v" } } }];
    const large = async (_: unknown, one: ToolCall) => {
      one.progress("it is under way", 50);
      await until("the report", () => reported);
      return new ToolOutput(text, { summary: "repeated", facts });
    };
    await serving("test.ts.large", large, async () => {
      const run = await runOf("test.ts.large");
      await until("the report", async () => {
        const waits = await client.listWaits({ runId: run.id });
        return waits.some((wait) => toJsonString(WaitSchema, wait).includes("it is under way"));
      });
      reported = true;
      await done(run);
      const receipt = await receiptOf(run, "test.ts.large");
      assert.deepEqual([receipt.success, receipt.summary], [true, "repeated"]);
      const keys = receipt.facts.map(({ fact }) => (fact.case === "output" ? fact.value.key : ""));
      assert.deepEqual(keys, ["surety.reported_by", "k"]);
      assert.equal(receipt.outputDigest, createHash("sha256").update(text).digest("hex"));
    });
  });

  it("is called again after a retryable error", async () => {
    const [attempts, keys]: [number[], Set<string>] = [[], new Set()];
    const busy = (_: unknown, { attempt, idempotencyKey }: ToolCall) => {
      attempts.push(attempt);
      keys.add(idempotencyKey);
      if (attempt === 1) throw new ToolError("busy", { retryable: true });
      return "done";
    };
    await serving("test.ts.busy", busy, async () => {
      await done(await runOf("test.ts.busy"));
    });
    assert.deepEqual([attempts, keys.size], [[1, 2], 1]);
  });

  it("goes on over a broken connection", async () => {
    let [called, ready] = [0, false];
    const slow = async () => {
      called += 1;
      await until("the result", () => ready);
      return "done";
    };
    await Relay.to("SURETY_EXECUTOR_URL", (relay) =>
      serving(
        "test.ts.slow",
        slow,
        async () => {
          const run = await runOf("test.ts.slow");
          await until("the call", () => called);
          await relay.close();
          // The result is there before the connection is.
          ready = true;
          await relay.open();
          await done(run);
          assert.equal(called, 1);
        },
        { executor: relay.url },
      ),
    );
  });

  it("is cancelled with its run", async () => {
    let [called, cancelled] = [false, false];
    const waits = async (_: unknown, { signal }: ToolCall) => {
      called = true;
      await once(signal, "abort");
      cancelled = true;
    };
    await serving("test.ts.waits", waits, async () => {
      const run = await runOf("test.ts.waits");
      await until("the call", () => called);
      await client.cancel(run.id);
      await until("the end of the call", () => cancelled);
    });
  });

  it("is called again by a worker that restarts, if it is idempotent", async () => {
    const { run, workerId } = await killed("test.ts.again");
    let called = 0;
    const again = () => {
      called += 1;
      return "done";
    };
    await serving("test.ts.again", again, () => done(run), { workerId, idempotent: true, maxParallel: 2 });
    assert.equal(called, 1);
  });

  it("is not called again by a worker that restarts, if that could be twice: a person is asked", async () => {
    const { run, workerId } = await killed("test.ts.once");
    const twice = () => assert.fail("it was called twice");
    const answer = async () => {
      const wait = await until("a question", async () => {
        const waits = await client.listWaits({ runId: run.id });
        return waits.find(({ choices }) => choices.includes("happened"));
      });
      await client.answer(wait, "fail");
      const ended = await client.wait(run.id, { timeoutMs: PATIENCE_MS });
      assert.equal(ended.state, RunState.FAILED);
    };
    await serving("test.ts.once", twice, answer, { workerId, maxParallel: 2 });
  });

  it("is refused if no policy names it", async () => {
    const worker = new Worker(randomUUID(), { namespaces: [NAMESPACE] });
    worker.tool("test.ts.other", { description: "", input: z.object({}) }, () => "");
    await assert.rejects(worker.run(), (error) => {
      assert.ok(error instanceof PermissionDenied);
      assert.equal(error.code, "tool_not_granted");
      return true;
    });
  });
});

describe("the example", () => {
  const edits = new Map([
    ["read", call("read_file", { path: "src/lib.rs" })],
    ["test", call("run_command", { argv: ["cargo", "test", "--offline"], timeout_s: 300 })],
    [
      "edit",
      call("edit_file", {
        path: "src/lib.rs",
        old_text: "if meeting.start < last.end =>",
        new_text: "if meeting.start <= last.end =>",
      }),
    ],
    ["changelog", call("release_note", { kind: "fixed", text: "Meetings back to back are one block." })],
  ]);

  /** Decides as examples/agent.ts, with the line of the changelog from the worker. */
  const decide = ({ stepId, turn, previous }: StepContext) => {
    const line = /- Fixed: .*\./.exec(previous?.observation ?? "")?.[0];
    if (turn === 1) return edits.get(stepId) ?? nextPlan();
    if (stepId !== "changelog" || turn > 2) return nextPlan(`${stepId} is done`);
    const heading = "## Unreleased\n";
    const new_text = `${heading}\n${line ?? "no line"}\n`;
    return call("edit_file", { path: "CHANGELOG.md", old_text: heading, new_text });
  };

  it("serves a tool of the repair example", { timeout: 300_000 }, async () => {
    const script = join(import.meta.dirname, "..", "examples", "worker.js");
    const child = spawn(process.execPath, [script, "notes"], { stdio: "inherit" });
    const ended = once(child, "close");
    try {
      await untilListed("release_note");
      const run = await createRepair(client, { namespace: NAMESPACE });
      await driving(decide, { runId: run.id }, () => assertRepaired(client, run));
      const receipt = await receiptOf(run, "release_note");
      assert.equal(receipt.summary, "- Fixed: meetings back to back are one block.");
    } finally {
      child.kill("SIGTERM");
    }
    assert.deepEqual(await inTime("the end of the worker", ended), [0, null]);
  });
});
