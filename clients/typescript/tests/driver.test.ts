// The loop of an agent against live services: turns, leases, deaths, signals, the example.

import {
  Client,
  ConfigurationError,
  type Decide,
  Driver,
  DriverFailed,
  type DriverOptions,
  InvalidInput,
  type NewRun,
  type Run,
  RunState,
  type StepContext,
  SuretyError,
  Unauthenticated,
  call,
  nextPlan,
  raw,
} from "@surety/client";
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, afterEach, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PATIENCE_MS, Relay, agentPlan, driving, inTime, until } from "./live.js";
import { assertRepaired, createRepair } from "./repair.js";

const client = new Client();
after(() => {
  client.close();
});

/** Writes the file of the step, then ends the step. */
const works = ({ stepId, turn }: StepContext) =>
  turn === 1
    ? call("write_file", { path: `${stepId}.txt`, content: "written\n" })
    : nextPlan(`${stepId}.txt is written`);

/** The run is accepted. */
async function done(run: Run): Promise<Run> {
  const ended = await client.wait(run.id, { timeoutMs: PATIENCE_MS });
  assert.equal(ended.state, RunState.DONE, `run ${run.id}`);
  return ended;
}

/** Works with a run that waits for a driver, and does not outlive the test. */
async function withRun(work: (run: Run) => Promise<void>, options: NewRun = {}): Promise<void> {
  const run = await client.createRun({ plan: agentPlan("a"), driver: "remote", ...options });
  try {
    await work(run);
  } finally {
    await client.cancel(run.id).catch((error: unknown) => {
      assert.equal((error as SuretyError).code, "run_terminal");
    });
  }
}

/** A driver finishes the run. */
const finishes = (decide: Decide, run: Run, options: DriverOptions = {}) =>
  driving(decide, { runId: run.id, ...options }, async () => {
    await done(run);
  });

describe("drivers", () => {
  it("reads every kind of decision", async () => {
    const answers: StepContext["previous"][] = [];
    const usage = { inputTokens: 5, outputTokens: 2, model: "test" };
    const replies = [
      "no decision at all",
      { action: "continue", tool_call: { name: "list_dir", arguments: { path: "." } } },
      call("write_file", { path: "a.txt", content: "a\n" }).using(usage),
      raw('{"action": "next_plan", "goal_check": "it is written"}', usage),
    ];
    const decide = ({ previous, turn }: StepContext) => {
      answers.push(previous);
      return replies[turn - 1] ?? "";
    };
    await withRun(async (run) => {
      await finishes(decide, run);
      assert.equal((await client.getRun(run.id)).counters?.tokens, 14n);
    });
    assert.equal(answers[0], undefined);
    assert.ok(answers[1]?.correction);
    assert.match(answers[3]?.observation ?? "", /a\.txt/);
  });

  it("gives a context that is ready for a chat model", async () => {
    const contexts: StepContext[] = [];
    await withRun(async (run) => {
      await finishes((context) => {
        contexts.push(context);
        return Promise.resolve(works(context));
      }, run);
      const [first, second] = contexts;
      assert.ok(first && second);
      const { runId, stepId, attempt, turn } = first;
      assert.deepEqual([runId, stepId, attempt, turn], [run.id, "a", 1, 1]);
      const roles = second.messages.map(({ role }) => role);
      assert.deepEqual(roles.slice(0, 3), ["system", "user", "assistant"]);
      assert.ok(first.tools.some(({ name }) => name === "write_file"));
      assert.ok(first.traceparent.startsWith("00-") && first.workspace);
    });
  });

  it("drives steps in parallel", async () => {
    let waiting = 0;
    const decide = async (context: StepContext) => {
      if (context.turn === 1) {
        waiting += 1;
        await until("three steps at once", () => waiting === 3);
      }
      return works(context);
    };
    const namespace = "parallel-typescript";
    const plan = { plan: agentPlan("a"), driver: "remote", namespace };
    const runs = await Promise.all([1, 2, 3].map(() => client.createRun(plan)));
    await driving(decide, { maxParallel: 3, namespace }, async () => {
      await Promise.all(runs.map(done));
    });
  });

  it("keeps the lease of a long decision", async () => {
    let kept = false;
    const decide = async (context: StepContext) => {
      if (context.turn === 1) {
        // Longer than the lease of the test's services, which heartbeats extend.
        await sleep(4_000);
        kept = !context.signal.aborted;
      }
      return works(context);
    };
    await withRun((run) => finishes(decide, run));
    assert.ok(kept);
  });

  it("tells the function that its lease is lost", async () => {
    let asked = false;
    let cancelled = false;
    const decide = async ({ signal }: StepContext) => {
      asked = true;
      await once(signal, "abort");
      cancelled = true;
      throw signal.reason as Error;
    };
    await withRun((run) =>
      driving(decide, { runId: run.id }, async () => {
        await until("a question", () => asked);
        await client.cancel(run.id);
        await until("the end of the function", () => cancelled);
      }),
    );
  });

  it("applies a turn once over a broken connection", async () => {
    await Relay.to("SURETY_EXECUTOR_URL", (relay) =>
      withRun(async (run) => {
        const decide = async (context: StepContext) => {
          await relay.close();
          await relay.open();
          return works(context);
        };
        await finishes(decide, run, { executor: relay.url });
        const names: string[] = [];
        for await (const receipt of client.receipts(run.id)) names.push(receipt.name);
        assert.equal(names.filter((name) => name === "write_file").length, 1);
      }),
    );
  });

  it("releases after a failure of the function, and ends after several", async () => {
    const warnings: string[] = [];
    const log = { info: () => undefined, warn: (text: string) => warnings.push(text) };
    const fails = () => {
      throw new RangeError("no model");
    };
    await withRun(async (run) => {
      const driver = new Driver(fails, { runId: run.id, maxFailures: 2, log });
      await assert.rejects(driver.run(), (error) => {
        assert.ok(error instanceof DriverFailed && error.cause instanceof RangeError);
        return true;
      });
      assert.match(warnings.join("\n"), /no model/);
      await finishes(works, run);
    });
  });

  it("ends with what no repeat can change", async () => {
    await assert.rejects(new Driver(works, { token: "unknown-0123456789abcdef" }).run(), Unauthenticated);
    await assert.rejects(new Driver(works, { runId: "x" }).run(), InvalidInput);
    await assert.rejects(new Driver(works, { executor: "executor.test:1" }).run(), ConfigurationError);
    assert.throws(() => new Driver(works, { maxParallel: 0 }), RangeError);
    await withRun(async (run) => {
      await client.cancel(run.id);
      await inTime("the end of the driver", new Driver(works, { runId: run.id }).run());
    });
  });

  it("takes runs of its namespaces and labels", async () => {
    await withRun(async (other) => {
      const options = { labels: { team: "of-this-test", zone: "x" } };
      await withRun(async (wanted) => {
        const selection = { namespaces: ["default"], labels: { team: "of-this-test" } };
        await driving(works, selection, async () => {
          await done(wanted);
        });
      }, options);
      assert.equal((await client.getRun(other.id)).terminal, undefined);
      await finishes(works, other);
    });
  });

  it("ends when it is idle", async () => {
    const driver = new Driver(works, { namespace: "nothing-here" });
    await inTime("the end of the driver", driver.run({ idleMs: 500 }));
  });
});

describe("processes", () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  /** A driver in a process of its own, which was asked for a decision and gives none. */
  async function stuck(
    run: Run,
  ): Promise<{ child: ChildProcess; said: () => string; ended: Promise<unknown> }> {
    const script = join(import.meta.dirname, "stuck_agent.js");
    const child = spawn(process.execPath, [script, run.id], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    let text = "";
    child.stdout.on("data", (data) => (text += String(data)));
    const ended = once(child, "close");
    await until("a question", () => text.includes("asked\n"));
    return { child, said: () => text, ended };
  }

  it("finishes by another driver after one was killed", async () => {
    await withRun(async (run) => {
      const { child, ended } = await stuck(run);
      child.kill("SIGKILL");
      await ended;
      await finishes(works, run);
    });
  });

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it(`releases the step after ${signal}`, async () => {
      await withRun(async (run) => {
        const { child, said, ended } = await stuck(run);
        child.kill(signal);
        assert.deepEqual(await inTime("the end of the process", ended), [0, null], said());
        assert.match(said(), /released step a of run/);
        assert.ok(said().endsWith("ended\n"), said());
        await finishes(works, run);
      });
    });
  }
});

describe("the example", () => {
  it("carries the repair example to its verdict", { timeout: 300_000 }, async () => {
    const run = await createRepair(client);
    // The agent ends with its run.
    const agent = join(import.meta.dirname, "..", "examples", "agent.js");
    const child = spawn(process.execPath, [agent, run.id], { stdio: "inherit" });
    assert.deepEqual(await once(child, "close"), [0, null]);
    await assertRepaired(client, run);
  });
});
