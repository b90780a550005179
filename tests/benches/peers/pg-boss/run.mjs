// pg-boss: a run is a chain of jobs, each of which creates the next, fetched and completed in
// batches. Its own workers poll for jobs; here notifications wake the waiting ones.

import { PgBoss } from 'pg-boss';
import { measure, mode, versionOf } from '../measure.mjs';

const QUEUE = 'step';
// For runs alone, one job at a time.
const [LOOPS, BATCH] = mode === 'throughput' ? [4, 500] : [1, 1];
const IN_FLIGHT = 500;

const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, schedule: false });
boss.on('error', (error) => {
  throw error;
});
await boss.start();
await boss.createQueue(QUEUE);

const ends = new Map();
let stored = 0;
let over = false;
let told = Promise.withResolvers();

function tell() {
  told.resolve();
  told = Promise.withResolvers();
}

async function insert(jobs) {
  await boss.insert(QUEUE, jobs.map((data) => ({ data })));
  stored++;
  tell();
}

async function work() {
  while (!over) {
    const seen = stored;
    const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
    if (jobs.length > 0) await carryOn(jobs);
    else if (seen === stored && !over) await told.promise;
  }
}

async function carryOn(jobs) {
  const next = jobs.filter(({ data }) => data.left > 1).map(({ data: { run, left } }) => ({ run, left: left - 1 }));
  if (next.length > 0) await insert(next);
  const { affected } = await boss.complete(QUEUE, jobs.map(({ id }) => id));
  if (affected !== jobs.length) throw new Error(`${affected} of ${jobs.length} jobs were completed`);
  for (const { data: { run, left } } of jobs) {
    if (left > 1) continue;
    ends.get(run)();
    ends.delete(run);
  }
}

let begun = [];
let inserting = false;

/** Stores the runs that begin while others are on their way to Postgres in one statement. */
async function begin(run) {
  begun.push(run);
  if (inserting) return;
  inserting = true;
  while (begun.length > 0) await insert(begun.splice(0));
  inserting = false;
}

let made = 0;
const carry = (steps) =>
  new Promise((resolve, reject) => {
    const run = made++;
    ends.set(run, resolve);
    begin({ run, left: steps }).catch(reject);
  });

const loops = Array.from({ length: LOOPS }, work);
await measure(
  { peer: 'pg-boss', version: versionOf('pg-boss', import.meta.url), inFlight: IN_FLIGHT },
  carry,
);
over = true;
tell();
await Promise.all(loops);
await boss.stop();
