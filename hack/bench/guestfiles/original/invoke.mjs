// The original's handler runner (contracts/code-runner.md §11): an envelope on
// standard input, one frame with the result on standard output.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { install, shutdown } from './iii.mjs';

async function main() {
  const envelope = JSON.parse(readFileSync(0, 'utf8'));
  if (typeof envelope?.sentinel !== 'string') {
    console.error('the envelope has no sentinel');
    return process.exit(1);
  }
  install();
  const { code, line } = await outcome(envelope.payload);
  await shutdown();
  process.stdout.write(`\n${envelope.sentinel}\n${line}\n`, () => process.exit(code));
}

async function outcome(payload) {
  try {
    const { handler } = await import(pathToFileURL(process.argv[2]).href);
    if (typeof handler !== 'function') throw new TypeError('the source must export handler(payload)');
    const result = await handler(payload);
    const line = JSON.stringify(result === undefined ? null : result);
    if (line === undefined) throw new TypeError('the result is not serializable');
    return { code: 0, line };
  } catch (error) {
    return { code: 1, line: JSON.stringify({ error: String(error?.message ?? error) }) };
  }
}

await main();
