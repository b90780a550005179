// The client and the loop over TLS; the services present a certificate of SURETY_TLS_CA_FILE.

import { Client, RunState, type StepContext, Unavailable, call, nextPlan } from "@surety/client";
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { mkdtempSync } from "node:fs";
import { rootCertificates } from "node:tls";
import { tmpdir } from "node:os";
import { it } from "node:test";
import { HELLO, PATIENCE_MS, agentPlan, driving, refused, withClient } from "./live.js";

const decide = ({ turn }: StepContext) =>
  turn === 1 ? call("write_file", { path: "a.txt", content: "a" }) : nextPlan();

it("carries a run to its verdict over TLS", () =>
  withClient(new Client(), async (client) => {
    const run = await client.createRun({ plan: agentPlan("a"), driver: "remote" });
    await driving(decide, { runId: run.id }, async () => {
      const ended = await client.wait(run.id, { timeoutMs: PATIENCE_MS });
      assert.equal(ended.state, RunState.DONE);
    });
  }));

it("does not call a service of another authority", async () => {
  const caFile = join(mkdtempSync(join(tmpdir(), "surety-client-")), "ca.pem");
  writeFileSync(caFile, rootCertificates[0] ?? "");
  // A single attempt: one that begins just before the deadline would end by it.
  await withClient(new Client({ retry: { attempts: 1 }, caFile }), (client) =>
    refused(Unavailable, "service_unavailable", () => client.createRun({ plan: HELLO })),
  );
});
