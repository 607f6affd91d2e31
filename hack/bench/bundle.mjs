// Bundles iii-sdk as the original has it (contracts/code-runner.md §10): a package of
// one ES module with all dependencies, not minified, without the native accelerators.
// Ours, which programs load at first use, is another: node bundle.mjs OUTPUT_FOLDER.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const output = resolve(process.argv[2]);
const bundle = join(output, 'dist/index.mjs');
const { name, version } = JSON.parse(readFileSync('node_modules/iii-sdk/package.json', 'utf8'));
const manifest = { name, version, type: 'module', main: './dist/index.mjs', exports: { '.': './dist/index.mjs' } };

mkdirSync(output, { recursive: true });
writeFileSync(join(output, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
await build({
  stdin: { contents: "export * from 'iii-sdk';", resolveDir: process.cwd() },
  outfile: bundle,
  bundle: true,
  platform: 'node',
  target: 'node18',
  format: 'esm',
  external: ['bufferutil', 'utf-8-validate'],
  // The CommonJS among the dependencies requires what Node has built in; dependencies
  // import createRequire by its own name.
  banner: { js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);" },
  logLevel: 'warning',
});

const { registerWorker } = await import(pathToFileURL(bundle).href);
if (typeof registerWorker !== 'function') throw new Error('the bundle has no registerWorker');
process.exit(0); // The SDK may hold the process.
