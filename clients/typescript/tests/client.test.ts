// The client against live services: runs, events, errors, answers, broken connections.

import {
  type CallOptions,
  Cancelled,
  Client,
  Conflict,
  DeadlineExceeded,
  FailedPrecondition,
  InvalidInput,
  NotFound,
  PermissionDenied,
  RunState,
  type StepContext,
  Unauthenticated,
  Unavailable,
  Unimplemented,
  type Wait,
  askUser,
  call,
  confirm,
  nextPlan,
} from "@surety/client";
import { RunService, StopReason, VerdictSchema } from "@surety/client/v1";
import { type Context, type ContextManager, ROOT_CONTEXT, context, trace } from "@opentelemetry/api";
import { isMessage } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import {
  HELLO,
  PATIENCE_MS,
  Relay,
  agentPlan,
  driving,
  inTime,
  label,
  refused,
  tokenWith,
  until,
  withClient,
} from "./live.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const OTHER = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "b7ad6b7169203331";
const client = new Client();
after(() => {
  client.close();
});

const folder = () => mkdtempSync(join(tmpdir(), "surety-client-"));
const numbersTo = (last: bigint) => Array.from({ length: Number(last) }, (_, at) => BigInt(at + 1));

/** The wait for a person. */
async function question(runId: string): Promise<Wait | undefined> {
  const waits = await client.listWaits({ runId });
  return waits.find((wait) => wait.question !== "" || wait.toolCall !== undefined);
}

async function runsWith(labels: Record<string, string>): Promise<string[]> {
  const { runs } = await client.service(RunService).listRuns({ labels });
  return runs.map(({ id }) => id);
}

describe("runs", () => {
  it("follows a run to its verdict", async () => {
    const labels = label();
    const run = await client.createRun({ plan: HELLO, labels, limits: { stepDeadline: 60 } });
    assert.deepEqual({ ...run.labels }, labels);
    assert.equal(run.limits?.stepDeadline?.seconds, 60n);
    const numbers: bigint[] = [];
    for await (const event of client.watch(run.id)) numbers.push(event.sequence);
    const ended = await client.wait(run.id);
    assert.deepEqual(numbers, numbersTo(ended.lastSequence));
    assert.equal(ended.state, RunState.DONE);
    const verdict = await client.verdict(run.id);
    assert.ok(verdict.accepted && isMessage(verdict, VerdictSchema));
    assert.ok(verdict.results.some(({ name }) => name === "greets"));
    const [names, seqs]: [string[], (bigint | undefined)[]] = [[], []];
    for await (const receipt of client.receipts(run.id)) {
      names.push(receipt.name);
      seqs.push(receipt.seq);
    }
    assert.ok(names.includes("write_file"));
    assert.deepEqual(seqs, numbersTo(BigInt(names.length)));
  });

  it("refuses a false claim by a check of the caller", async () => {
    const workspace = folder();
    const checks = ["test -f other.txt"];
    const run = await client.createRun({ plan: HELLO, workspace, checks, limits: { maxRepairs: 0 } });
    assert.equal((await client.wait(run.id, { timeoutMs: PATIENCE_MS })).state, RunState.FAILED);
    assert.ok(existsSync(join(workspace, "hello.txt")));
    assert.equal((await client.verdict(run.id)).stopReason, StopReason.ACCEPT_CHECK_FAILED);
  });

  it("cancels a run once", async () => {
    const run = await client.createRun({ plan: agentPlan("a"), driver: "remote" });
    const cancelled = await client.cancel(run.id, { reason: "no longer needed" });
    assert.equal(cancelled.state, RunState.CANCELLED);
    assert.equal((await client.cancel(run.id)).state, RunState.CANCELLED);
    assert.equal((await client.wait(run.id)).terminal?.status, RunState.CANCELLED);
    await refused(NotFound, "verdict_not_found", () => client.verdict(run.id));
  });

  it("follows several runs at once", async () => {
    const created = await Promise.all(HELLO.title.split(" ").map(() => client.createRun({ plan: HELLO })));
    const ended = await Promise.all(created.map(({ id }) => client.wait(id)));
    assert.deepEqual(new Set(ended.map(({ state }) => state)), new Set([RunState.DONE]));
    const numbers: bigint[] = [];
    const first = ended[0];
    assert.ok(first);
    for await (const event of client.watch(first.id, { fromSequence: 3n })) numbers.push(event.sequence);
    assert.deepEqual(numbers, numbersTo(first.lastSequence).slice(2));
  });

  it("gives a refused call its code, its field and its class", async () => {
    const missing = await refused(NotFound, "run_not_found", () => client.getRun(randomUUID()));
    assert.ok(missing.advice && !missing.retryable, missing.toString());
    await refused(InvalidInput, "invalid_id", () => client.getRun("x"));
    const noSteps = { title: "T", steps: [] };
    await refused(InvalidInput, "steps_empty", () => client.createRun({ plan: noSteps }));
    const limits = { maxRepairs: 99 };
    const error = await refused(InvalidInput, "limit_out_of_range", () =>
      client.createRun({ plan: HELLO, limits }),
    );
    assert.match(error.field, /max_repairs$/);
    const requestId = randomUUID();
    const run = await client.createRun({ plan: HELLO, requestId });
    assert.equal((await client.createRun({ plan: HELLO, requestId })).id, run.id);
    const other = () => client.createRun({ goal: "other", requestId });
    const conflict = await refused(Conflict, "request_id_conflict", other);
    assert.ok(!conflict.retryable);
    await client.wait(run.id);
    await refused(FailedPrecondition, "run_terminal", () => client.cancel(run.id));
    await refused(NotFound, "run_not_found", () => client.watch(randomUUID()).next());
  });

  it("refuses by its field what cannot be sent", async () => {
    const wrong: [Record<string, unknown>, string][] = [
      [{ policy: { nothing: 1 } }, "policy.nothing"],
      [{ policy: { onBudget: "never" } }, "policy.onBudget"],
      [{ policy: { protect: "one" } }, "policy.protect"],
      [{ limits: { stepDeadline: "1h" } }, "limits.stepDeadline"],
      [{ limits: { maxRepairs: "many" } }, "limits.maxRepairs"],
      [{ checks: [{ kind: 1 }] }, "verify[0].kind"],
      [{ driver: "robot" }, "driver"],
      [{ plan: { title: 1n } }, "plan"],
      [{ plan: { title: NaN } }, "plan"],
    ];
    for (const [options, field] of wrong) {
      const create = () => client.createRun({ goal: "g", ...options });
      const error = await refused(InvalidInput, "type_mismatch", create);
      assert.equal(error.field, field);
    }
    const error = await refused(InvalidInput, "field_missing", () => client.approve("id"));
    assert.equal(error.field, "call_digest");
  });

  it("is refused by its token", async () => {
    const token = "unknown-0123456789abcdef0123456789abcdef";
    await withClient(new Client({ token }), (stranger) =>
      refused(Unauthenticated, "unauthenticated", () => stranger.createRun({ plan: HELLO })),
    );
    await withClient(new Client({ token: tokenWith("driver") }), (agent) =>
      refused(PermissionDenied, "permission_denied", () => agent.createRun({ plan: HELLO })),
    );
  });

  it("ends calls and waits by their deadline or their signal", async () => {
    const run = await client.createRun({ plan: agentPlan("a"), driver: "remote" });
    const late = () => client.wait(run.id, { timeoutMs: 500 });
    await refused(DeadlineExceeded, "deadline_exceeded", late);
    const aborting = new AbortController();
    const waiting = refused(Cancelled, "call_cancelled", () =>
      client.wait(run.id, { signal: aborting.signal }),
    );
    aborting.abort();
    await waiting;
    await client.cancel(run.id);
    await Relay.to("SURETY_URL", async (relay) => {
      await relay.close();
      await withClient(new Client({ address: relay.url, timeoutMs: 500 }), async (cut) => {
        const began = performance.now();
        // The deadline may end an attempt as well as the pause before the next one.
        const isEnd = (error: unknown) => error instanceof Unavailable || error instanceof DeadlineExceeded;
        await assert.rejects(cut.getRun(run.id), isEnd);
        assert.ok(performance.now() - began < 30_000, "the default deadline");
      });
      const twice = new Client({ address: relay.url, retry: { attempts: 2 } });
      await withClient(twice, async (cut) => {
        const error = await refused(Unavailable, "service_unavailable", () => cut.getRun(run.id));
        assert.ok(error.retryable, error.toString());
      });
    });
  });

  it("refuses calls of a closed client, and ends those under way", async () => {
    const run = await client.createRun({ plan: agentPlan("a"), driver: "remote" });
    const closing = new Client();
    const events = closing.watch(run.id);
    await events.next();
    const rest = refused(Cancelled, "call_cancelled", async () => {
      while (!(await events.next()).done);
    });
    closing.close();
    await rest;
    await refused(Cancelled, "call_cancelled", () => closing.getRun(run.id));
    await client.cancel(run.id);
  });

  it("sends the trace of its caller", async () => {
    const seen: unknown[] = [];
    const server = createServer().on("stream", (stream, headers) => {
      seen.push(headers.traceparent);
      const answer = { "content-type": "application/grpc", "grpc-status": status.UNIMPLEMENTED };
      stream.respond({ ":status": 200, ...answer }, { endStream: true });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    context.setGlobalContextManager(new Contexts());
    const span = { traceId: OTHER, spanId: SPAN, traceFlags: 1 };
    await withClient(new Client({ address: `127.0.0.1:${port}` }), async (traced) => {
      const get = (options?: CallOptions) =>
        refused(Unimplemented, "unimplemented", () => traced.getRun("x", options));
      await get({ traceparent: `00-${TRACE}-${SPAN}-01` });
      await context.with(trace.setSpanContext(ROOT_CONTEXT, span), get);
      await get();
    });
    context.disable();
    server.close();
    assert.deepEqual(seen, [`00-${TRACE}-${SPAN}-01`, `00-${OTHER}-${SPAN}-01`, undefined]);
  });
});

describe("people", () => {
  it("answers a question by its schema", async () => {
    const schema = { type: "object", properties: { port: { type: "integer" } }, required: ["port"] };
    const decide = (step: StepContext) => {
      if (step.turn === 1) return askUser("Which port?", schema);
      const content = step.messages.at(-1)?.content;
      return step.turn === 2 ? call("write_file", { path: "a.txt", content }) : nextPlan();
    };
    const workspace = folder();
    const run = await client.createRun({ plan: agentPlan("a"), driver: "remote", workspace });
    await driving(decide, { runId: run.id }, async () => {
      const wait = await until("a question", () => question(run.id));
      const wrong = () => client.answer(wait, { port: "x" });
      const error = await refused(InvalidInput, "answer_invalid", wrong);
      assert.match(`${error.field} ${error.message}`, /port/);
      const another = { ...wait, questionDigest: "0".repeat(64) };
      await refused(FailedPrecondition, "confirmation_mismatch", () =>
        client.answer(another, { port: 8080 }),
      );
      await client.answer(wait, { port: 8080 });
      assert.equal((await client.wait(run.id, { timeoutMs: PATIENCE_MS })).state, RunState.DONE);
      await refused(FailedPrecondition, "wait_closed", () => client.answer(wait.id, "no"));
    });
    assert.match(readFileSync(join(workspace, "a.txt"), "utf8"), /8080/);
  });

  const confirmed = (step: StepContext) =>
    step.turn === 1 ? confirm("write_file", { path: "a.txt", content: "a\n" }) : nextPlan();
  const confirmedRun = () =>
    client.createRun({ plan: agentPlan("a"), driver: "remote", policy: { confirmTools: ["write_*"] } });

  it("approves a call as it was shown", async () => {
    const run = await confirmedRun();
    await driving(confirmed, { runId: run.id }, async () => {
      const wait = await until("a confirmation", () => question(run.id));
      assert.equal(wait.toolCall?.name, "write_file");
      await refused(FailedPrecondition, "confirmation_mismatch", () =>
        client.approve(wait.id, { callDigest: "0".repeat(64) }),
      );
      await client.approve(wait, { comment: "as shown" });
      assert.equal((await client.wait(run.id, { timeoutMs: PATIENCE_MS })).state, RunState.DONE);
    });
  });

  it("ends the run with a denied call if it is to", async () => {
    const run = await confirmedRun();
    await driving(confirmed, { runId: run.id }, async () => {
      const wait = await until("a confirmation", () => question(run.id));
      await client.deny(wait, { comment: "no", stop: true });
      const ended = await client.wait(run.id, { timeoutMs: PATIENCE_MS });
      assert.equal(ended.terminal?.stopReason, StopReason.CONFIRMATION_DENIED);
    });
  });
});

describe("connections", () => {
  it("goes on with a watch after its last event", async () => {
    await Relay.to("SURETY_URL", (relay) =>
      withClient(new Client({ address: relay.url }), async (cut) => {
        const run = await client.createRun({ plan: agentPlan("a"), driver: "remote" });
        const seen: bigint[] = [];
        for await (const event of cut.watch(run.id)) {
          seen.push(event.sequence);
          if (seen.length > 1) continue;
          for (let times = 0; times < 3; times += 1) {
            await relay.close();
            await relay.open();
          }
          await client.cancel(run.id);
        }
        assert.deepEqual(seen, numbersTo((await client.getRun(run.id)).lastSequence));
      }),
    );
  });

  it("creates a run once whose answer was lost", async () => {
    const labels = label();
    await Relay.to("SURETY_URL", (relay) =>
      withClient(new Client({ address: relay.url }), async (cut) => {
        // The connection stands before its answers are swallowed.
        await refused(NotFound, "run_not_found", () => cut.getRun(randomUUID()));
        relay.swallow();
        const creating = cut.createRun({ plan: HELLO, labels });
        await until("the run", async () => (await runsWith(labels)).length > 0);
        relay.cut();
        const run = await inTime("the answer", creating);
        assert.deepEqual(await runsWith(labels), [run.id]);
      }),
    );
  });

  it("waits for a service that comes back", async () => {
    await Relay.to("SURETY_URL", (relay) =>
      withClient(new Client({ address: relay.url }), async (cut) => {
        await relay.close();
        const creating = cut.createRun({ plan: HELLO });
        const once = new Client({ address: relay.url, retry: { attempts: 1 } });
        await withClient(once, () =>
          refused(Unavailable, "service_unavailable", () => once.getRun(randomUUID())),
        );
        await relay.open();
        const run = await inTime("the answer", creating);
        assert.equal((await cut.wait(run.id)).state, RunState.DONE);
      }),
    );
  });
});

/** What an SDK of OpenTelemetry sets up. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    current: Context,
    work: F,
    receiver?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(current, () => work.call(receiver, ...args));
  }

  bind<T>(_current: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}
