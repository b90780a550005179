// Restate: its server with a log of its own, a service whose steps do nothing, and a client.
// Server, service and client share the machine; the server keeps its log in a temporary folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { createServer } from 'node:http2';
import { createServer as listener } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEndpointHandler, service } from '@restatedev/restate-sdk';
import { measure, mode, versionOf } from '../measure.mjs';

const IN_FLIGHT = 128;
// Partitions are threads of work; on two cores one was fastest, the default of 24 half as fast.
const PARTITIONS = '1';
const PATIENCE_MS = 60_000;

const chain = service({
  name: 'chain',
  handlers: {
    carry: async (ctx, steps) => {
      for (let step = 0; step < steps; step++) await ctx.run(`s${step}`, () => step);
    },
  },
});

const agent = new Agent({ keepAlive: true });

function post(port, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const call = request({ agent, host: '127.0.0.1', port, path, method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('error', reject).on('end', () => {
        if (response.statusCode < 300) resolve(text);
        else reject(new Error(`${path}: ${response.statusCode} ${text}`));
      });
    });
    call.on('error', reject).end(JSON.stringify(body));
  });
}

/** Free ports. */
async function freePorts(count) {
  const servers = Array.from({ length: count }, () => listener().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

async function until(what, attempt) {
  for (const began = performance.now(); ; ) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() - began > PATIENCE_MS) throw new Error(`${what} does not come up`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function startServer(folder, [fabric, ingress, admin]) {
  const platform = `${process.platform}-${process.arch}`;
  const path = `./node_modules/@restatedev/restate-server-${platform}/bin/restate-server`;
  return spawn(fileURLToPath(new URL(path, import.meta.url)), ['--base-dir', folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      RESTATE_NODE_NAME: 'peer',
      RESTATE_LISTEN_MODE: 'tcp',
      RESTATE_BIND_IP: '127.0.0.1',
      RESTATE_ADVERTISED_HOST: '127.0.0.1',
      RESTATE_BIND_PORT: fabric,
      RESTATE_INGRESS__BIND_PORT: ingress,
      RESTATE_ADMIN__BIND_PORT: admin,
      RESTATE_DEFAULT_NUM_PARTITIONS: PARTITIONS,
      RESTATE_DISABLE_TELEMETRY: 'true',
      RESTATE_LOG_FILTER: 'error,octocrab=off',
    },
  });
}

const folder = mkdtempSync(join(tmpdir(), 'restate-'));
const ports = await freePorts(3);
const [, ingress, admin] = ports;
const server = startServer(folder, ports);
process.on('exit', () => {
  server.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
server.on('exit', (code) => {
  console.error(`restate-server ended with ${code}`);
  process.exit(1);
});

const endpoint = createServer(createEndpointHandler({ services: [chain], logger: () => {} }));
await once(endpoint.listen(0, '127.0.0.1'), 'listening');
const uri = `http://127.0.0.1:${endpoint.address().port}`;
await until('restate-server', () => post(admin, '/deployments', { uri }));
const carry = (steps) => post(ingress, '/chain/carry', steps);
await until('the service', () => carry(1));
await measure(
  {
    peer: 'Restate',
    version: versionOf('@restatedev/restate-server', import.meta.url),
    inFlight: mode === 'throughput' ? IN_FLIGHT : 1,
  },
  carry,
);
process.exit(0);
