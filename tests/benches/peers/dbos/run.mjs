// DBOS TypeScript: a workflow whose steps do nothing, started directly, not by its polled queues.

import { DBOS } from '@dbos-inc/dbos-sdk';
import { measure, versionOf } from '../measure.mjs';

// Where throughput peaked on two cores; a smaller pool or more at once was slower.
const POOL = 20;
const IN_FLIGHT = 16;

const chain = DBOS.registerWorkflow(
  async (steps) => {
    for (let step = 0; step < steps; step++) {
      await DBOS.runStep(async () => step, { name: `s${step}` });
    }
  },
  { name: 'chain' },
);

DBOS.setConfig({
  name: 'peer',
  systemDatabaseUrl: process.env.DATABASE_URL,
  systemDatabasePoolSize: POOL,
  runAdminServer: false,
  logLevel: 'warn',
});
await DBOS.launch();
await measure(
  { peer: 'DBOS TypeScript', version: versionOf('@dbos-inc/dbos-sdk', import.meta.url), inFlight: IN_FLIGHT },
  (steps) => chain(steps),
);
await DBOS.shutdown();
