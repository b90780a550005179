// A driver that never decides. It says when it was asked, and ends by a signal.

import { Driver } from "@surety/client";

const waits = async () => {
  console.log("asked");
  return await new Promise<never>(() => undefined);
};
const log = {
  info: (text: string) => {
    console.log(text);
  },
  warn: (text: string) => {
    console.log(text);
  },
};
await new Driver(waits, { runId: process.argv[2] ?? "", drainMs: 200, log }).run();
console.log("ended");
