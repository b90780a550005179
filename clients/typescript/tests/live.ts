// Live services for the tests of the package.
//
// SURETY_URL and SURETY_EXECUTOR_URL are the services' addresses. SURETY_TOKEN_FILE names a person and a driver.

import { Client, type Decide, Driver, type DriverOptions, SuretyError } from "@surety/client";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type AddressInfo, type Server, type Socket, connect, createServer } from "node:net";
import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export const PATIENCE_MS = 90_000;

/** A plan that the runner carries out by itself. */
export const HELLO = {
  title: "Write a greeting",
  steps: [
    {
      id: "write",
      description: "Write hello.txt.",
      script: [{ name: "write_file", arguments: { path: "hello.txt", content: "hello\n" } }],
    },
  ],
  verify: [{ id: "greets", kind: "content_contains", target: "hello.txt", params: { contains: "hello" } }],
};

/** A plan for an agent: its steps do not wait for each other. */
export function agentPlan(...ids: string[]): object {
  const step = (id: string) => ({ id, description: `Write ${id}.txt.`, write_scope: [`${id}.txt`] });
  const check = (id: string) => ({ id, kind: "file_exists", target: `${id}.txt` });
  return { title: "Work for an agent", steps: ids.map(step), verify: ids.map(check) };
}

/** Waits for a condition with a deadline, and answers its value. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
): Promise<Exclude<T, false | null | undefined>> {
  const end = performance.now() + PATIENCE_MS;
  while (performance.now() < end) {
    const value = await condition();
    if (value) return value as Exclude<T, false | null | undefined>;
    await sleep(50);
  }
  throw new assert.AssertionError({ message: `not in time: ${what}` });
}

/** Fails when the promise takes too long. */
export async function inTime<T>(what: string, promise: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = sleep(PATIENCE_MS, undefined, { signal: timer.signal }).then(() => {
    throw new assert.AssertionError({ message: `not in time: ${what}` });
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
    await late.catch(() => undefined);
  }
}

/** Labels that no other run has. */
export const label = (): Record<string, string> => ({ test: randomUUID() });

/** The first token of the token file with a role. */
export function tokenWith(role: string): string {
  const lines = readFileSync(variable("SURETY_TOKEN_FILE"), "utf8").split("\n");
  const words = lines.map((line) => line.split(" "));
  return words.find(([, , roles]) => roles?.split(",").includes(role))?.[0] ?? "";
}

export function variable(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set`);
  return value;
}

type Kind = new (...args: never[]) => SuretyError;

/** The error of a call, which has this class and this code. */
export async function refused(kind: Kind, code: string, call: () => unknown): Promise<SuretyError> {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof kind, String(error));
    assert.equal(error.code, code, error.toString());
    // No error of the library is shown to a caller.
    assert.equal(error.cause, undefined);
    return error;
  }
  assert.fail(`no ${code}`);
}

/** Works while a driver works beside it. */
export async function driving(
  decide: Decide,
  options: DriverOptions,
  work: (driver: Driver) => Promise<void>,
): Promise<void> {
  const driver = new Driver(decide, options);
  const running = driver.run();
  try {
    await Promise.race([work(driver), running.then(() => new Promise<never>(() => undefined))]);
  } finally {
    driver.stop();
    await inTime("the end of the driver", running);
  }
}

/** Works with a client. */
export async function withClient<T>(client: Client, work: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await work(client);
  } finally {
    client.close();
  }
}

/** A TCP relay to a service, of which a test can cut every connection. */
export class Relay {
  readonly #host: string;
  readonly #service: number;
  #port = 0;
  #swallow = false;
  #server: Server | undefined;
  #sockets: Socket[] = [];

  constructor(name: string) {
    const service = new URL(variable(name));
    [this.#host, this.#service] = [service.hostname, Number(service.port)];
  }

  /** Works with a relay that is open. */
  static async to(name: string, work: (relay: Relay) => Promise<void>): Promise<void> {
    const relay = new Relay(name);
    await relay.open();
    try {
      await work(relay);
    } finally {
      await relay.close();
    }
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Listens, after `close` at the same port again. */
  async open(): Promise<void> {
    const server = createServer((socket) => {
      this.#relay(socket);
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  /** Refuses connections, and cuts those that are open. */
  async close(): Promise<void> {
    if (!this.#server) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server = undefined;
    this.cut();
    await closed;
  }

  /** Cuts every open connection. */
  cut(): void {
    this.#swallow = false;
    for (const socket of this.#sockets.splice(0)) socket.destroy();
  }

  /** Forwards no more answers until the next cut. */
  swallow(): void {
    this.#swallow = true;
  }

  #relay(caller: Socket): void {
    const service = connect(this.#service, this.#host);
    this.#sockets.push(caller, service);
    caller.on("data", (data) => {
      service.write(data);
    });
    service.on("data", (data) => {
      if (!this.#swallow) caller.write(data);
    });
    for (const [one, other] of [
      [caller, service],
      [service, caller],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  }
}
