// A tool worker whose functions say that they were called, and do not end.

import { Worker } from "@surety/client";

const stuck = () => {
  console.log("called");
  return new Promise<never>(() => undefined);
};
const input = { type: "object" };
await new Worker(process.argv[2] ?? "", { maxParallel: 2 })
  .tool("test.ts.once", { description: "Blocks.", input }, stuck)
  .tool("test.ts.again", { description: "Blocks.", input, idempotent: true }, stuck)
  .run();
