// A tool worker with two tools, with the package `@surety/client` and zod.
//
// node worker.ts NAME; SURETY_EXECUTOR_URL and SURETY_TOKEN_FILE say where, and as which worker. The policy of the
// namespace has to let it serve the tools, see docs/workers.md. It ends with Ctrl-C or SIGTERM after its calls.

import { ToolError, Worker } from "@surety/client";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

const worker = new Worker(process.argv[2] ?? "example", { maxParallel: 4, log: console });

const note = z.object({
  kind: z.enum(["added", "changed", "fixed", "removed"]),
  text: z.string().describe("what a user notices, as one sentence"),
});

worker.tool(
  "release_note",
  {
    description: "Writes a line for a changelog in the style of the house.",
    input: note,
    readOnly: true,
    openWorld: false,
    returnSample: "- Fixed: meetings back to back are one block.",
  },
  ({ kind, text }) => {
    const line = text.trim().split(/\s+/).join(" ").replace(/\.+$/, "");
    if (line === "") throw new ToolError("the text is empty; say what a user notices");
    const [first = "", ...rest] = line;
    return `- ${kind.charAt(0).toUpperCase()}${kind.slice(1)}: ${first.toLowerCase()}${rest.join("")}.`;
  },
);

worker.tool(
  "wait_for_file",
  {
    description: "Waits until a file of the workspace exists.",
    input: z.object({ path: z.string(), seconds: z.number().default(60) }),
    readOnly: true,
    openWorld: false,
    timeoutMs: 3_600_000,
  },
  async ({ path, seconds }, call) => {
    for (let waited = 0; waited < seconds; waited += 1) {
      const found = await stat(join(call.workspace, path)).catch(() => undefined);
      if (found) return { path, bytes: found.size };
      call.progress(`${path} does not exist yet`, Math.trunc((100 * waited) / seconds));
      await sleep(1_000, undefined, { signal: call.signal });
    }
    throw new ToolError(`${path} did not appear within ${seconds} s`, { retryable: true });
  },
);

await worker.run();
