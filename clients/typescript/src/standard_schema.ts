// The part of Standard Schema and Standard JSON Schema (standardschema.dev) that a worker needs. Schemas of zod have it
// from 4.2 on.

import { ToolError } from "./tool_call.js";

/** A schema of a validation library. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Validation<Output> | Promise<Validation<Output>>;
    readonly jsonSchema: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

/** A value as its schema wants it, or why it does not fit. */
export type Validation<Output> =
  { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Whether a schema is one of a validation library, and not a JSON Schema. */
export function isStandard<T>(schema: StandardSchema<T> | object): schema is StandardSchema<T> {
  return "~standard" in schema;
}

/** The value as the schema wants it. Throws for what does not fit, with each path. */
export async function validated<T>(schema: StandardSchema<T>, value: unknown): Promise<T> {
  const found = await schema["~standard"].validate(value);
  if (found.issues === undefined) return found.value;
  const said = found.issues.map(({ message, path = [] }) => {
    const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
    return keys.length > 0 ? `${keys.join(".")}: ${message}` : message;
  });
  throw new ToolError(`the arguments do not fit: ${said.join("; ")}`);
}
