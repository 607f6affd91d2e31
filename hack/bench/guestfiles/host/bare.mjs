// The least that calls a handler: node bare.mjs HANDLER, payload on standard
// input, result on standard output.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { handler } = await import(pathToFileURL(process.argv[2]).href);
const result = await handler(JSON.parse(readFileSync(0, 'utf8')));
process.stdout.write(JSON.stringify(result));
