// An agent that repairs examples/repair, with the package `@surety/client`.
//
// node agent.ts [RUN]; SURETY_EXECUTOR_URL and SURETY_TOKEN_FILE say where, and as which driver. The run needs
// `driver: remote`. With a run the agent ends when the run has ended, else with Ctrl-C.

import { Driver, type StepContext, call, nextPlan } from "@surety/client";

const FIXED = "- Fixed: meetings back to back are one block.\n";

// What a model would decide: the calls of each step, in order.
const calls = new Map([
  ["read", [call("read_file", { path: "src/lib.rs" })]],
  [
    "edit",
    [
      call("edit_file", {
        path: "src/lib.rs",
        old_text: "if meeting.start < last.end =>",
        new_text: "if meeting.start <= last.end =>",
      }),
    ],
  ],
  ["test", [call("run_command", { argv: ["cargo", "test", "--offline"], timeout_s: 300 })]],
  [
    "changelog",
    [
      call("edit_file", {
        path: "CHANGELOG.md",
        old_text: "## Unreleased\n",
        new_text: `## Unreleased\n\n${FIXED}`,
      }),
    ],
  ],
]);

/**
 * Decides one turn. Put the call of a chat model here, and return `raw(reply)`. `context.messages` is the
 * conversation, and `context.tools` are the tools that the step may call.
 */
function decide(context: StepContext) {
  const decision = calls.get(context.stepId)?.[context.turn - 1];
  return decision ?? nextPlan(context.step.doneWhen || "it is done");
}

const runId = process.argv[2] ?? "";
await new Driver(decide, { maxParallel: 2, runId, log: console }).run();
