// Shared code of the peers on Node: the amount of work, the times, and the output.
//
//   node PEER/run.mjs throughput | latency [--runs N] [--in-flight N]
//
// Warms up, prints {"ready":true}, and measures once a line (or the end) arrives on standard input,
// so that the caller can read the processors' clocks exactly around the work. Prints one line of
// JSON, and ends when standard input has the next line or ends.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

export const STEPS = 10;
const LONE_RUNS = 100;
const WARM_UP = 100;

export const { mode, runs, inFlight } = parsed();

function parsed() {
  const options = { runs: { type: 'string' }, 'in-flight': { type: 'string' } };
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const [mode] = positionals;
  if (mode !== 'throughput' && mode !== 'latency') {
    throw new Error(`measure throughput or latency, not ${mode}`);
  }
  return { mode, runs: Number(values.runs ?? 1000), inFlight: Number(values['in-flight']) || undefined };
}

/** The version of a package that is installed beside the program at `url`. */
export function versionOf(name, url) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, url), 'utf8')).version;
}

/** Calls `carry(steps)` for every run; its promise settles when that run has ended. */
export async function measure({ peer, version, inFlight: best }, carry) {
  const sideBySide = inFlight ?? best;
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const warm = Math.min(WARM_UP, runs);
  await (mode === 'latency' ? oneByOne(warm, carry, STEPS) : together(warm, sideBySide, carry));
  console.log('{"ready":true}');
  await lines.next();
  const result = { peer, version, node: process.version, mode, steps: STEPS };
  if (mode === 'throughput') {
    const seconds = await together(runs, sideBySide, carry);
    Object.assign(result, { runs, in_flight: sideBySide, seconds, steps_per_second: (runs * STEPS) / seconds });
  } else {
    const rounds = Math.min(LONE_RUNS, runs);
    const began = performance.now();
    const ten = await oneByOne(rounds, carry, STEPS);
    const empty = await oneByOne(rounds, carry, 0);
    Object.assign(result, { runs: 2 * rounds, seconds: (performance.now() - began) / 1000 });
    Object.assign(result, { p50_ms: percentile(ten, 50), p99_ms: percentile(ten, 99) });
    Object.assign(result, { empty_p50_ms: percentile(empty, 50), empty_p99_ms: percentile(empty, 99) });
  }
  console.log(JSON.stringify(result));
  await lines.next();
  // Or the open pipe would keep the process from ending.
  process.stdin.destroy();
}

async function together(count, sideBySide, carry) {
  const began = performance.now();
  let left = count;
  const worker = async () => {
    while (left-- > 0) await carry(STEPS);
  };
  await Promise.all(Array.from({ length: Math.min(sideBySide, count) }, worker));
  return (performance.now() - began) / 1000;
}

async function oneByOne(count, carry, steps) {
  const times = [];
  for (let run = 0; run < count; run++) {
    const began = performance.now();
    await carry(steps);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b);
}

function percentile(sorted, percent) {
  return sorted[Math.min(Math.floor((sorted.length * percent) / 100), sorted.length - 1)];
}
