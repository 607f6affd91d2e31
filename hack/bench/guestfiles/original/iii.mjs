// The global `iii` of the original (contracts/code-runner.md §13, §19.3 X21): the
// SDK is parsed with every process, and connects when it is first used.
import { randomUUID } from 'node:crypto';

const loaded = await import('iii-sdk').catch((error) => ({ error }));
let client;

export function install() {
  globalThis.iii = new Proxy({}, {
    get(_target, key) {
      if (typeof key === 'symbol' || key === 'then') return undefined;
      const value = connect()[key];
      return typeof value === 'function' ? value.bind(client) : value;
    },
  });
}

function connect() {
  if (client) return client;
  if (loaded.error) throw new Error(`iii-sdk could not be loaded: ${loaded.error.message}`);
  if (!process.env.III_URL) throw new Error('III_URL is not set');
  silence();
  client = loaded.registerWorker(process.env.III_URL, {
    workerName: `original:${randomUUID()}`, enableMetricsReporting: false, otel: { enabled: false },
  });
  return client;
}

// The SDK's debug lines go to standard output, which holds the result.
function silence() {
  const debug = console.debug;
  console.debug = (...args) => {
    if (!/^\[(iii|OTel)\]/.test(String(args[0]))) debug.apply(console, args);
  };
}

export async function shutdown() {
  await client?.shutdown();
}
