// A run that repairs examples/repair.

import { type Client, type NewRun, type Run, RunState } from "@surety/client";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PATIENCE_MS } from "./live.js";

/** Creates the run, whose steps an agent decides. */
export async function createRepair(client: Client, options: NewRun = {}): Promise<Run> {
  const steps = ["read", "edit", "test", "changelog"].map((id, at, ids) => ({
    id,
    description: id,
    done_when: `${id} is done`,
    dependencies: ids.slice(Math.max(0, at - 1), at),
  }));
  const project = join(mkdtempSync(join(tmpdir(), "surety-client-")), "project");
  execFileSync("examples/repair/fresh.sh", [project]);
  return await client.createRun({
    plan: {
      title: "Meetings back to back are one block",
      goal: "Make the project's tests pass and say so in the changelog.",
      steps,
    },
    workspace: project,
    checks: [
      { id: "tests-pass", kind: "command_success", target: "cargo test --offline" },
      { id: "something-changed", kind: "workspace_change" },
    ],
    policy: { repeatableCommands: ["cargo test"] },
    driver: "remote",
    ...options,
  });
}

/** The run is accepted by its checks. */
export async function assertRepaired(client: Client, { id }: Run): Promise<void> {
  assert.equal((await client.wait(id, { timeoutMs: PATIENCE_MS })).state, RunState.DONE);
  const { results } = await client.verdict(id);
  for (const name of ["tests-pass", "something-changed"]) {
    assert.ok(results.find((result) => result.name === name)?.passed, name);
  }
}
