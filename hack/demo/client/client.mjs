// A worker on the bus made with the published iii-sdk, driven line by line: each
// line of standard input is a call {"id", "function", "payload", "timeoutMs"},
// each line on descriptor 3 its answer {"id", "value" or "error", "ms"}. Standard
// output stays free for what the SDK may print.
import { createInterface } from 'node:readline';
import { writeSync } from 'node:fs';
import { registerWorker } from 'iii-sdk';

const answers = 3;
const iii = registerWorker(process.env.III_URL, {
  workerName: 'demo-client',
  otel: { enabled: false },
  enableMetricsReporting: false,
});

async function call({ id, function: function_id, payload, timeoutMs }) {
  const began = performance.now();
  let answer;
  try {
    answer = { value: (await iii.trigger({ function_id, payload, timeoutMs })) ?? null };
  } catch (error) {
    answer = { error: `${error?.code ?? error?.name}: ${error?.message ?? error}` };
  }
  writeSync(answers, `${JSON.stringify({ id, ...answer, ms: performance.now() - began })}\n`);
}

const pending = [];
for await (const line of createInterface({ input: process.stdin })) pending.push(call(JSON.parse(line)));
await Promise.all(pending);
await iii.shutdown();
