// A tool worker whose calls note that they began, and are open until a file says that they may end.

import { ToolError, Worker } from "@surety/client";
import { access, appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

const deadlineMs = 120_000;
const folder = process.argv[2] ?? "";

await new Worker("open", { maxParallel: 8 })
  .tool(
    "note",
    { description: "Notes a text, and waits.", input: z.object({ text: z.string() }) },
    async ({ text }) => {
      await appendFile(join(folder, "began"), `${text}\n`);
      const end = Date.now() + deadlineMs;
      for (;;) {
        const found = await access(join(folder, "go")).then(
          () => true,
          () => false,
        );
        if (found) return text;
        if (Date.now() > end) throw new ToolError("the call may not end");
        await sleep(20);
      }
    },
  )
  .run();
