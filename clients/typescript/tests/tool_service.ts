// A service that speaks the protocol of tool workers as a test tells it to, over a real connection.

import { type MessageInitShape, create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import {
  type Announce,
  type ConnectRequest,
  ConnectRequestSchema,
  type ConnectResponse,
  ConnectResponseSchema,
  type ToolInvocationSchema,
  type ToolResult,
} from "@surety/client/v1";
import assert from "node:assert/strict";
import { until } from "./live.js";

type Kind = Exclude<ConnectRequest["message"]["case"], undefined>;
type Sent<K extends Kind> = Extract<ConnectRequest["message"], { case: K }>["value"];
type Wire = ServerDuplexStream<ConnectRequest, ConnectResponse>;

/** One connection of a worker. */
export class Connection {
  readonly #wire: Wire;
  readonly #received: ConnectRequest[] = [];
  #ended = false;

  constructor(wire: Wire) {
    this.#wire = wire;
    wire.on("data", (message: ConnectRequest) => this.#received.push(message));
    wire.on("error", () => (this.#ended = true));
    wire.on("end", () => {
      this.#ended = true;
      // The service ends its side when the worker has.
      wire.end();
    });
  }

  /** Sends a message to the worker. */
  send(message: MessageInitShape<typeof ConnectResponseSchema>["message"]): void {
    this.#wire.write(create(ConnectResponseSchema, message === undefined ? {} : { message }));
  }

  /** Gives a call to the worker. */
  invoke(
    callId: string,
    tool: string,
    args: object = {},
    more: MessageInitShape<typeof ToolInvocationSchema> = {},
  ): void {
    const value = { callId, tool, argumentsJson: JSON.stringify(args), fence: 1n, ...more };
    this.send({ case: "invocation", value });
  }

  /** The next message of the worker, which is of this kind; heartbeats are left out. */
  async next<K extends Kind>(kind: K): Promise<Sent<K>> {
    const found = await until(kind, () => {
      while (kind !== "heartbeat" && this.#received[0]?.message.case === "heartbeat") this.#received.shift();
      return this.#received.shift() ?? this.#ended;
    });
    assert.ok(found !== true, `${kind} expected, not the end`);
    assert.equal(found.message.case, kind);
    return found.message.value as Sent<K>;
  }

  /** The result of a call, which is then stored. */
  async result(callId: string): Promise<ToolResult> {
    const result = await this.next("result");
    assert.equal(result.callId, callId);
    this.send({ case: "stored", value: { callId, fence: result.fence } });
    return result;
  }

  /** The worker has closed its side, and sent nothing else. */
  async closed(): Promise<void> {
    await until("the end", () => this.#ended);
    assert.deepEqual(this.#received, []);
  }

  /** Ends the connection with an error. */
  cut(code: status = status.UNAVAILABLE): void {
    this.#wire.emit("error", { code, details: "cut by the test" });
  }
}

/** The service. */
export class ToolService {
  readonly #server = new Server();
  readonly #connections: Connection[] = [];
  readonly #leaseMs: number;
  readonly #heartbeatMs: number;

  constructor({ leaseMs = 30_000, heartbeatMs = 5_000 } = {}) {
    [this.#leaseMs, this.#heartbeatMs] = [leaseMs, heartbeatMs];
    const connect = {
      path: "/surety.v1.ToolService/Connect",
      requestStream: true,
      responseStream: true,
      requestSerialize: (message: ConnectRequest) => Buffer.from(toBinary(ConnectRequestSchema, message)),
      requestDeserialize: (bytes: Buffer) => fromBinary(ConnectRequestSchema, bytes),
      responseSerialize: (message: ConnectResponse) => Buffer.from(toBinary(ConnectResponseSchema, message)),
      responseDeserialize: (bytes: Buffer) => fromBinary(ConnectResponseSchema, bytes),
    } as const;
    this.#server.addService(
      { connect },
      {
        connect: (wire: Wire) => this.#connections.push(new Connection(wire)),
      },
    );
  }

  /** Listens, and answers the address. */
  async start(): Promise<string> {
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
    return `127.0.0.1:${port}`;
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  /** The next connection of a worker, with its announcement, which is accepted. */
  async connection(): Promise<{ connection: Connection; announce: Announce }> {
    const connection = await until("a connection", () => this.#connections.shift());
    const announce = await connection.next("announce");
    const value = {
      executorId: "test",
      namespaces: ["default"],
      lease: durationFromMs(this.#leaseMs),
      heartbeatInterval: durationFromMs(this.#heartbeatMs),
    };
    connection.send({ case: "announced", value });
    return { connection, announce };
  }
}
