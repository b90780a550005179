// Graphile Worker: a run is a chain of jobs, each of which enqueues the next.

import { Logger, run } from 'graphile-worker';
import { measure, mode, versionOf } from '../measure.mjs';

const CONCURRENCY = 24;
// More than the batches take. Tried from 24 to 500 on a busy machine only, where 24 cost most.
const IN_FLIGHT = 250;
// Jobs are fetched and completed in batches where many wait; alone that would only delay them.
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0 };

// A line for every job would be measured as well.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});

const ends = new Map();

const runner = await run({
  preset: {
    worker: {
      logger,
      connectionString: process.env.DATABASE_URL,
      concurrentJobs: CONCURRENCY,
      maxPoolSize: CONCURRENCY + 2,
      ...(mode === 'throughput' ? BATCHED : {}),
    },
  },
  noHandleSignals: true,
  taskList: {
    step: async ({ run, left }, { addJob }) => {
      if (left > 1) await addJob('step', { run, left: left - 1 });
    },
  },
});

// The run has ended when its last job is stored as done.
runner.events.on('job:complete', ({ job, error }) => {
  if (error) throw error;
  const { run, left } = job.payload;
  if (left <= 1) {
    ends.get(run)();
    ends.delete(run);
  }
});

let made = 0;
const carry = (steps) =>
  new Promise((resolve, reject) => {
    const run = made++;
    ends.set(run, resolve);
    runner.addJob('step', { run, left: steps }).catch(reject);
  });

await measure(
  { peer: 'Graphile Worker', version: versionOf('graphile-worker', import.meta.url), inFlight: IN_FLIGHT },
  carry,
);
await runner.stop();
