// The least that hands a call to a process that waits for it: node ready.mjs
// HANDLER loads the handler, says "ready", answers one line and ends.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { handler } = await import(pathToFileURL(process.argv[2]).href);
const lines = createInterface({ input: process.stdin });
lines.once('line', async (line) => {
  process.stdout.write(JSON.stringify(await handler(JSON.parse(line))) + '\n', () => process.exit(0));
});
process.stdout.write('ready\n');
