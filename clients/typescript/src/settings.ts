// Addresses, tokens and certificates: from arguments, else from the environment of the command line.

import { readFileSync, statSync } from "node:fs";
import { BlockList, isIP, isIPv6 } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { ConfigurationError } from "./errors.js";

const PLANNER = "http://127.0.0.1:7401";
const EXECUTOR = "http://127.0.0.1:7402";
const ADDRESS = /^(?:(https?):\/\/)?(\[[\da-f:.]+\]|[^\s:/?#@[\]]+)(?::(\d{1,5}))?\/*$/i;
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8);
LOOPBACK.addAddress("::1", "ipv6");

/** The roles of which a token file has to name one, so that its token is taken before others. */
export const PERSON: ReadonlySet<string> = new Set(["viewer", "submitter", "operator", "approver"]);
export const DRIVER: ReadonlySet<string> = new Set(["driver"]);
export const WORKER: ReadonlySet<string> = new Set(["worker"]);

/** How services are reached. What is not given is read from the environment. */
export interface Settings {
  /** SURETY_TOKEN. */
  token?: string;
  /** SURETY_TOKEN_FILE. */
  tokenFile?: string;
  /** SURETY_TLS_CA_FILE. */
  caFile?: string;
  /** SURETY_TLS_CERT_FILE. */
  certFile?: string;
  /** SURETY_TLS_KEY_FILE. */
  keyFile?: string;
  /** Hosts beside loopback to which a token may be sent without TLS; SURETY_PLAINTEXT_PEERS. */
  plaintextPeers?: readonly string[];
}

/** The address of a service. */
export interface Address {
  readonly host: string;
  /** As gRPC writes it. */
  readonly target: string;
  readonly tls: boolean;
  /** Whether it is of this machine. */
  readonly loopback: boolean;
}

/** Reads `http://host:port`, `https://host:port` or `host:port`. */
export function readAddress(text: string): Address {
  const [, scheme, written, digits] = ADDRESS.exec(text.trim()) ?? [];
  const tls = scheme?.toLowerCase() === "https";
  const port = digits === undefined ? (tls ? 443 : 0) : Number(digits);
  const host = (written ?? "").toLowerCase().replace(/^\[|\]$/g, "");
  if (host === "" || port < 1 || port > 65535 || (written?.startsWith("[") && !isIPv6(host))) {
    throw new ConfigurationError(
      `${JSON.stringify(text)} is no address of a service; write it as http://host:port or https://host:port`,
    );
  }
  const kind = isIP(host);
  const loopback = host === "localhost" || (kind > 0 && LOOPBACK.check(host, kind === 6 ? "ipv6" : "ipv4"));
  return { host, target: kind === 6 ? `[${host}]:${port}` : `${host}:${port}`, tls, loopback };
}

/** The address of the planner: the argument, SURETY_URL, what `surety up` wrote, or the default. */
export function plannerAddress(given: string | undefined): Address {
  return readAddress(given ?? variable("SURETY_URL") ?? noted() ?? PLANNER);
}

/** The address of the executor: the argument, SURETY_EXECUTOR_URL, or the default. */
export function executorAddress(given: string | undefined): Address {
  return readAddress(given ?? variable("SURETY_EXECUTOR_URL") ?? EXECUTOR);
}

/** The token to send to an address, if there is one and it may be sent there. */
export function secretFor(
  address: Address,
  settings: Settings,
  roles: ReadonlySet<string>,
): string | undefined {
  let secret = givenSecret(settings, roles);
  const local = join(dataFolder(), "token");
  // The token of `surety up` is for this machine: another service must not receive it.
  if (secret === undefined && address.loopback && isFile(local)) secret = readTokenFile(local, roles);
  if (secret === undefined) return undefined;
  if (!/^[\x21-\x7e]+$/.test(secret)) {
    throw new ConfigurationError("the token cannot be sent in a header; it has blanks or is not ASCII");
  }
  if (!address.tls && !address.loopback && !peersOf(settings).has(address.host)) {
    throw new ConfigurationError(
      `a token is not sent to ${address.host} without TLS. Use https://, or name ${address.host} in ` +
        "plaintextPeers (SURETY_PLAINTEXT_PEERS) if another layer encrypts the connection",
      { code: "plaintext_refused" },
    );
  }
  return secret;
}

/** The authorities, the private key and the certificate chain in PEM; null uses the library's default. */
export function certificates(settings: Settings): [Buffer | null, Buffer | null, Buffer | null] {
  const ca = readPem(settings.caFile, "SURETY_TLS_CA_FILE");
  const chain = readPem(settings.certFile, "SURETY_TLS_CERT_FILE");
  const key = readPem(settings.keyFile, "SURETY_TLS_KEY_FILE");
  if ((chain === null) !== (key === null)) {
    throw new ConfigurationError("a client certificate needs both certFile and keyFile");
  }
  return [ca, key, chain];
}

function givenSecret(settings: Settings, roles: ReadonlySet<string>): string | undefined {
  if (settings.token !== undefined) return settings.token.trim();
  if (settings.tokenFile !== undefined) return readTokenFile(settings.tokenFile, roles);
  const token = variable("SURETY_TOKEN");
  if (token !== undefined) return token.trim();
  const path = variable("SURETY_TOKEN_FILE");
  return path === undefined ? undefined : readTokenFile(path, roles);
}

function peersOf(settings: Settings): Set<string> {
  const named = settings.plaintextPeers ?? (variable("SURETY_PLAINTEXT_PEERS") ?? "").split(",");
  return new Set(named.map((peer) => peer.trim().toLowerCase()));
}

// The token of a file: the first with one of the roles, else the first. A line is a token alone, or
// `token name roles namespaces`, as docs/configuration.md describes.
function readTokenFile(path: string, roles: ReadonlySet<string>): string {
  let mode, text;
  try {
    mode = statSync(path).mode;
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigurationError(`the token file ${path} cannot be read: ${reasonOf(error)}`);
  }
  if (process.platform !== "win32" && (mode & 0o007) !== 0) {
    throw new ConfigurationError(`every user may read the token file ${path}; run: chmod 600 ${path}`);
  }
  const written = text.split("\n").map((line) => line.trim());
  const lines = written.filter((line) => line && !line.startsWith("#")).map((line) => line.split(/\s+/));
  const fits = (line: string[]) => line[2]?.split(",").some((role) => roles.has(role));
  const secret = (lines.find(fits) ?? lines[0])?.[0];
  if (secret === undefined) throw new ConfigurationError(`the token file ${path} holds no token`);
  return secret;
}

// Where `surety up` keeps its address and its token.
function dataFolder(): string {
  const named = variable("SURETY_DATA_DIR");
  if (named !== undefined) return named;
  if (process.geteuid?.() === 0) return "/var/lib/surety";
  return join(variable("XDG_DATA_HOME") ?? join(homedir(), ".local", "share"), "surety");
}

function noted(): string | undefined {
  try {
    return readFileSync(join(dataFolder(), "endpoint"), "utf8").trim() || undefined;
  } catch {
    // Without `surety up` there is no such file, or it is another user's.
    return undefined;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function readPem(path: string | undefined, name: string): Buffer | null {
  const named = path ?? variable(name);
  if (named === undefined) return null;
  try {
    return readFileSync(named);
  } catch (error) {
    throw new ConfigurationError(`${named} (${name}) cannot be read: ${reasonOf(error)}`);
  }
}

function variable(name: string): string | undefined {
  const value = process.env[name];
  return value === "" ? undefined : value;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
