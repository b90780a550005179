// Writes one module that exports all generated code of the API.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const generated = join(import.meta.dirname, "src", "generated");
const names = readdirSync(join(generated, "surety", "v1")).sort();
const lines = names.map((name) => `export * from "./surety/v1/${name.replace(/\.ts$/, ".js")}";\n`);
writeFileSync(join(generated, "v1.ts"), lines.join(""));
