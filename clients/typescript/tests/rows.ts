// The conformance rows, read so that no digit of a number is lost.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

// scripts/clients.sh runs the tests in the project's folder.
const OWN = join(process.cwd(), "tests", "conformance");

/** A value of JSON text: objects are Maps, so that no key is special. */
export type Value = string | boolean | null | Numeral | Value[] | Row;
export type Row = Map<string, Value>;

// A number in its own spelling.
export class Numeral {
  readonly text: string;

  constructor(text: string | number) {
    this.text = String(text);
  }
}

const TOKEN = /\s*([{}[\]:,]|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)\s*/y;

/** JSON text as a value. */
export function parse(text: string): Value {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text);
    if (!found?.[1]) throw new Error(`no JSON: ${text}`);
    tokens.push(found[1]);
  }
  let at = 0;
  const next = () => tokens[at++] ?? "";
  const value = (): Value => {
    const token = next();
    if (token === "{") return members();
    if (token === "[") return items();
    if (token === "true") return true;
    if (token === "false") return false;
    if (token === "null") return null;
    return token.startsWith('"') ? textOf(token) : new Numeral(token);
  };
  const members = () => {
    const object: Row = new Map();
    if (tokens[at] === "}") at += 1;
    else
      do {
        const key = textOf(next());
        next();
        object.set(key, value());
      } while (next() === ",");
    return object;
  };
  const items = () => {
    const list: Value[] = [];
    if (tokens[at] === "]") at += 1;
    else
      do {
        list.push(value());
      } while (next() === ",");
    return list;
  };
  return value();
}

const textOf = (token: string) => JSON.parse(token) as string;

/** JSON text of a value. */
export function write(value: Value): string {
  if (value instanceof Numeral) return value.text;
  if (value instanceof Map)
    return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}:${write(item)}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  return JSON.stringify(value);
}

// One text for all values that are the same: keys sorted, every digit kept.
export function canonical(value: Value): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    const members = [...value].sort(([left], [right]) => (left < right ? -1 : 1));
    return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
  }
  return write(value);
}

/** The rows of a file, from the project's folder and from the one SURETY_CONFORMANCE_DIR names. */
export function rows(name: string): Row[] {
  const folders = [OWN, process.env.SURETY_CONFORMANCE_DIR ?? ""].filter(Boolean);
  const paths = folders.map((folder) => join(folder, name)).filter((path) => existsSync(path));
  const lines = paths.flatMap((path) => readFileSync(path, "utf8").split("\n"));
  return lines.filter((line) => line.trim()).map((line) => parse(line) as Row);
}
