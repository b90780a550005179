// The tool worker against a service that a test directs: what it announces, sends, keeps and resumes.

import {
  Conflict,
  OutcomeUnknown,
  PermissionDenied,
  type ToolCall,
  ToolError,
  ToolOutput,
  Worker,
  type WorkerOptions,
} from "@surety/client";
import { status } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { z } from "zod";
import { inTime, until } from "./live.js";
import { type Connection, ToolService } from "./tool_service.js";

const ANY = { type: "object" };
const QUIET = { info: () => undefined, warn: () => undefined };

interface Served {
  service: ToolService;
  connection: Connection;
  announce: Awaited<ReturnType<ToolService["connection"]>>["announce"];
  worker: Worker;
}

/** Works with a worker that runs beside the test, and its first connection. */
async function serving(
  add: (worker: Worker) => void,
  work: (served: Served) => Promise<void>,
  options: WorkerOptions & { leaseMs?: number; heartbeatMs?: number } = {},
): Promise<void> {
  const service = new ToolService(options);
  const worker = new Worker("w", { executor: await service.start(), log: QUIET, ...options });
  add(worker);
  const running = worker.run();
  try {
    const first = await Promise.race([service.connection(), running.then(() => assert.fail("it ended"))]);
    await work({ service, worker, ...first });
  } finally {
    worker.stop();
    await inTime("the end of the worker", running);
    service.stop();
  }
}

/** A promise that a test fulfils. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe("workers", () => {
  it("announces a tool with the schema of zod or a JSON Schema", async () => {
    const input = z.object({
      colour: z.enum(["red", "blue"]),
      shades: z.array(z.number()).optional(),
      title: z.string().default("").describe("a title"),
    });
    const add = (worker: Worker) =>
      worker
        .tool(
          "paint",
          { description: "Paints.", input, idempotent: true, timeoutMs: 90_500, returnSample: "{}" },
          () => 0,
        )
        .tool("raw.tool", { description: "Takes anything.", input: ANY }, (args) => args);
    const options = { maxParallel: 3, namespaces: ["a"], drainMs: 0 };
    await serving(
      (worker) => {
        add(worker);
        assert.throws(() => add(worker), RangeError);
      },
      async ({ connection, announce }) => {
        connection.invoke("1", "raw.tool", { a: [1] });
        assert.equal((await connection.result("1")).output, '{"a":[1]}');
        assert.deepEqual([announce.workerId, announce.maxParallel, announce.namespaces], ["w", 3, ["a"]]);
        const [tool] = announce.tools;
        assert.ok(tool);
        assert.deepEqual([tool.name, tool.description, tool.returnSample], ["paint", "Paints.", "{}"]);
        assert.deepEqual([tool.timeout?.seconds, tool.timeout?.nanos], [90n, 500_000_000]);
        assert.deepEqual([tool.annotations?.idempotent, tool.annotations?.readOnly], [true, undefined]);
        const schema = JSON.parse(tool.inputSchemaJson) as Record<string, unknown>;
        assert.deepEqual(schema.properties, {
          colour: { type: "string", enum: ["red", "blue"] },
          shades: { type: "array", items: { type: "number" } },
          title: { type: "string", description: "a title", default: "" },
        });
        assert.deepEqual(schema.required, ["colour"]);
      },
      options,
    );
    assert.throws(() => new Worker("w", { maxParallel: 0 }), RangeError);
  });

  it("reads arguments by their schema, and sends values as results", async () => {
    const facts = [{ fact: { case: "output" as const, value: { key: "k", value: "v" } } }];
    const input = z.object({ at: z.object({ x: z.number(), y: z.number().default(0) }) });
    await serving(
      (worker) =>
        worker
          .tool("read", { description: "", input }, ({ at }) => ({ sum: at.x + at.y }))
          .tool(
            "said",
            { description: "", input: ANY },
            () => new ToolOutput("ä", { summary: " in \n short ", facts }),
          ),
      async ({ connection }) => {
        connection.invoke("1", "read", { at: { x: 1 } }, { fence: 7n });
        const result = await connection.result("1");
        assert.deepEqual([result.output, result.success, result.fence], ['{"sum":1}', true, 7n]);
        connection.invoke("2", "said");
        const said = await connection.result("2");
        assert.deepEqual([said.output, said.summary], ["ä", "in short"]);
        assert.equal(said.facts[0]?.fact.case, "output");
        connection.invoke("3", "read", { at: { y: 1 } });
        const wrong = await connection.result("3");
        assert.deepEqual([wrong.success, wrong.retryable], [false, false]);
        assert.match(wrong.error, /do not fit: at\.x/);
        connection.invoke("4", "nothing");
        assert.match((await connection.result("4")).error, /nothing/);
      },
    );
  });

  it("sends what a function throws as the error", async () => {
    const errors = new Map<string, Error>([
      ["plain", new ToolError("no such ticket")],
      ["later", new ToolError("busy", { retryAfterMs: 2_500 })],
      ["unknown", new OutcomeUnknown()],
      ["defect", new RangeError("k".repeat(9_000))],
    ]);
    await serving(
      (worker) =>
        worker.tool("fails", { description: "", input: z.object({ kind: z.string() }) }, ({ kind }) => {
          throw errors.get(kind) ?? new Error("none");
        }),
      async ({ connection }) => {
        const results = new Map<string, Awaited<ReturnType<Connection["result"]>>>();
        for (const kind of errors.keys()) {
          connection.invoke(kind, "fails", { kind });
          const result = await connection.result(kind);
          assert.ok(!result.success);
          results.set(kind, result);
        }
        const { plain, later, unknown, defect } = Object.fromEntries(results);
        assert.deepEqual([plain?.error, plain?.retryable], ["no such ticket", false]);
        assert.deepEqual([later?.retryable, later?.retryAfter?.nanos], [true, 500_000_000]);
        assert.ok(unknown?.outcomeUnknown);
        assert.match(defect?.error ?? "", /^RangeError/);
        assert.ok(Buffer.byteLength(defect?.error ?? "") <= 4096);
      },
    );
  });

  it("sends a large output in parts", async () => {
    const input = z.object({ size: z.number() });
    await serving(
      (worker) => worker.tool("large", { description: "", input }, ({ size }) => "é".repeat(size / 2)),
      async ({ connection }) => {
        connection.invoke("1", "large", { size: 600_000 });
        const parts = [];
        for (let number = 0; number < 3; number += 1) parts.push((await connection.next("output")).data);
        assert.equal(Buffer.concat(parts).toString(), "é".repeat(300_000));
        assert.ok(parts.every((part) => part.length <= 262_144));
        const result = await connection.result("1");
        assert.deepEqual([result.success, result.output], [true, ""]);
        assert.ok(Buffer.byteLength(result.summary) <= 1_000);
        connection.invoke("2", "large", { size: 68_000_000 });
        assert.match((await connection.result("2")).error, /68000000/);
      },
    );
  });

  it("sends the last of many reports", async () => {
    const proceed = gate();
    await serving(
      (worker) =>
        worker.tool("reports", { description: "", input: ANY }, async (_, call) => {
          for (let number = 0; number < 100; number += 1) call.progress(`line\n${number}`, number);
          await proceed.opened;
        }),
      async ({ connection }) => {
        connection.invoke("1", "reports");
        const [first, last] = [await connection.next("progress"), await connection.next("progress")];
        assert.deepEqual([first.message, first.percent], ["line 0", 0]);
        assert.deepEqual([last.message, last.percent, last.fence], ["line 99", 99, 1n]);
        proceed.open();
        await connection.result("1");
      },
    );
  });

  it("ends a cancelled call without a result", async () => {
    let [begun, ended] = [0, 0];
    await serving(
      (worker) =>
        worker.tool("waits", { description: "", input: ANY }, async (_, { signal }) => {
          begun += 1;
          await once(signal, "abort");
          ended += 1;
        }),
      async ({ connection, worker }) => {
        connection.invoke("1", "waits");
        connection.invoke("2", "waits");
        connection.send({ case: "cancel", value: { callId: "1", fence: 1n, reason: "the run ended" } });
        await until("the end", () => ended === 1);
        // Another fence is another call, and ends the one before.
        connection.send({ case: "cancel", value: { callId: "2", fence: 9n, reason: "of another worker" } });
        connection.invoke("2", "waits", {}, { fence: 2n });
        await until("the end", () => ended === 2 && begun === 3);
        connection.send({ case: "refused", value: { callId: "2", code: "lease_lost", message: "lost" } });
        await until("the end", () => ended === 3);
        worker.stop();
        await connection.next("draining");
        await connection.closed();
      },
    );
  });

  it("goes on with its calls over the next connection", async () => {
    const gates = new Map([
      ["1", gate()],
      ["2", gate()],
    ]);
    const [begun, ended]: [string[], string[]] = [[], []];
    const slow = async (_: unknown, { id }: ToolCall) => {
      begun.push(id);
      await gates.get(id)?.opened;
      ended.push(id);
      return id;
    };
    await serving(
      (worker) => worker.tool("slow", { description: "", input: ANY }, slow),
      async ({ service, connection, announce }) => {
        connection.invoke("1", "slow");
        connection.invoke("2", "slow");
        await until("the calls", () => begun.length === 2);
        connection.cut();
        const next = await service.connection();
        assert.deepEqual(next.announce, announce);
        // One ends before the service gives it again, the other after that.
        gates.get("1")?.open();
        await until("the end", () => ended.length === 1);
        next.connection.invoke("2", "slow", {}, { resumed: true });
        next.connection.invoke("1", "slow", {}, { resumed: true });
        assert.equal((await next.connection.result("1")).output, "1");
        gates.get("2")?.open();
        assert.equal((await next.connection.result("2")).output, "2");
        assert.equal(begun.length, 2);
      },
    );
  });

  it("repeats a call of an earlier process, or says that its outcome is unknown", async () => {
    await serving(
      (worker) =>
        worker
          .tool("once", { description: "", input: ANY }, () => "called")
          .tool("again", { description: "", input: ANY, idempotent: true }, (_, call) =>
            [call.resumed, call.idempotencyKey].join(" "),
          ),
      async ({ connection }) => {
        connection.invoke("1", "once", {}, { resumed: true });
        assert.ok((await connection.result("1")).outcomeUnknown);
        connection.invoke("2", "again", {}, { resumed: true, idempotencyKey: "key" });
        assert.equal((await connection.result("2")).output, "true key");
      },
    );
  });

  it("ends a call with its lease", async () => {
    let [begun, ended] = [false, false];
    await serving(
      (worker) =>
        worker.tool("waits", { description: "", input: ANY }, async (_, { signal }) => {
          begun = true;
          await once(signal, "abort");
          ended = true;
        }),
      async ({ service, connection }) => {
        connection.invoke("1", "waits");
        await until("the call", () => begun);
        connection.cut();
        const next = await service.connection();
        await until("the end", () => ended);
        await next.connection.next("heartbeat");
      },
      { leaseMs: 200, heartbeatMs: 200 },
    );
  });

  it("ends a call whose result is refused with why", async () => {
    await serving(
      (worker) => worker.tool("works", { description: "", input: ANY }, () => "ok"),
      async ({ connection }) => {
        connection.invoke("1", "works");
        await connection.next("result");
        const refused = { callId: "1", code: "database_unavailable", message: "later" };
        connection.send({ case: "refused", value: refused });
        assert.ok((await connection.next("result")).success);
        const large = { callId: "1", code: "too_large", message: "200 facts" };
        connection.send({ case: "refused", value: large });
        assert.equal((await connection.result("1")).error, "too_large: 200 facts");
      },
      { retry: { maximumMs: 100 } },
    );
  });

  it("ends its calls before it stops", async () => {
    const proceed = gate();
    let begun = false;
    await serving(
      (worker) =>
        worker.tool("slow", { description: "", input: ANY }, async () => {
          begun = true;
          await proceed.opened;
          return "done";
        }),
      async ({ connection, worker }) => {
        connection.invoke("1", "slow");
        await until("the call", () => begun);
        worker.stop();
        await connection.next("draining");
        proceed.open();
        assert.equal((await connection.result("1")).output, "done");
        await connection.closed();
      },
    );
  });

  it("ends with what no repeat can change", async () => {
    for (const [code, kind] of [
      [status.PERMISSION_DENIED, PermissionDenied],
      [status.ALREADY_EXISTS, Conflict],
    ] as const) {
      const service = new ToolService();
      const worker = new Worker("w", { executor: await service.start(), log: QUIET });
      const running = assert.rejects(worker.run(), kind);
      const { connection } = await service.connection();
      connection.cut(code);
      await inTime("the end of the worker", running);
      service.stop();
    }
  });

  it("serves the calls of the example until SIGTERM", async () => {
    const service = new ToolService();
    const script = join(import.meta.dirname, "..", "examples", "worker.js");
    const env = { ...process.env, SURETY_EXECUTOR_URL: await service.start() };
    const child = spawn(process.execPath, [script, "notes"], { env, stdio: "inherit" });
    const ended = once(child, "close");
    try {
      const { connection, announce } = await service.connection();
      assert.deepEqual(
        announce.tools.map(({ name }) => name),
        ["release_note", "wait_for_file"],
      );
      connection.invoke("1", "release_note", { kind: "fixed", text: "Blocks are joined." });
      assert.equal((await connection.result("1")).output, "- Fixed: blocks are joined.");
      const workspace = dirname(script);
      connection.invoke("2", "wait_for_file", { path: "worker.js" }, { workspace });
      assert.match((await connection.result("2")).output, /"path":"worker\.js"/);
      connection.invoke("3", "wait_for_file", { path: "n", seconds: 1 }, { workspace });
      assert.equal((await connection.next("progress")).message, "n does not exist yet");
      child.kill("SIGTERM");
      await connection.next("draining");
      assert.ok((await connection.result("3")).retryable);
      await connection.closed();
      assert.deepEqual(await inTime("the end of the example", ended), [0, null]);
    } finally {
      child.kill("SIGKILL");
      service.stop();
    }
  });
});
