// Addresses, tokens and errors; no call is sent.

import * as surety from "@surety/client";
import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { refused } from "./live.js";

function tokenFile(text: string, mode = 0o600): string {
  const path = join(mkdtempSync(join(tmpdir(), "surety-client-")), "token");
  writeFileSync(path, text, { mode });
  return path;
}

const made = (options: surety.ClientOptions) => {
  new surety.Client(options).close();
};

describe("settings", () => {
  it("sends a token without TLS to loopback and named peers only", async () => {
    const local = [
      "http://127.0.0.1:1",
      "localhost:1",
      "[::1]:1",
      "[::ffff:127.0.0.1]:1",
      "https://planner.test",
    ];
    for (const address of local) made({ address, token: "t" });
    made({ address: "planner.test:7401", token: "t", plaintextPeers: ["Planner.test"] });
    for (const address of ["http://planner.test:7401", "10.0.0.1:7401", "[2001:db8::1]:7401"]) {
      const error = await refused(surety.ConfigurationError, "plaintext_refused", () => {
        made({ address, token: "t" });
      });
      assert.match(error.message, /SURETY_PLAINTEXT_PEERS/);
    }
  });

  it("refuses what cannot be used", async () => {
    const exposed = tokenFile("t\n", 0o644);
    const wrong: surety.ClientOptions[] = [
      { address: "http://" },
      { address: "ftp://planner.test:1" },
      { address: "planner.test" },
      { address: "127.0.0.1:99999" },
      { address: "http://planner.test:1/path" },
      { address: "127.0.0.1:1", token: "a b" },
      { address: "127.0.0.1:1", token: "ä" },
      { address: "127.0.0.1:1", tokenFile: "/nonexistent" },
      { address: "127.0.0.1:1", tokenFile: exposed },
      { address: "127.0.0.1:1", tokenFile: tokenFile("# nothing\n") },
      { address: "https://planner.test", token: "t", caFile: "/nonexistent" },
      { address: "https://planner.test", token: "t", certFile: exposed },
    ];
    for (const options of wrong) {
      await refused(surety.ConfigurationError, "setting_invalid", () => {
        made(options);
      });
    }
  });

  it("names code, field and advice in an error", () => {
    const fields = { code: "field_missing", field: "goal", advice: "Send one." };
    const error = new surety.InvalidInput("no", fields);
    assert.equal(error.toString(), "field_missing at goal: no; Send one.");
    assert.equal(error.name, "InvalidInput");
    const classes = Object.values(surety).filter((one) => one instanceof Function);
    const kinds = classes.filter((kind) => kind.prototype instanceof surety.SuretyError);
    assert.ok(kinds.length >= 14, kinds.join(", "));
  });
});
