// Bundles the installed iii-sdk with its dependencies into one CommonJS file,
// which Node can load synchronously at the first use of the global `iii`, and
// writes a package around it: node bundle.mjs OUTPUT_FOLDER.
// Not minified: an error thrown from a minified bundle prints the whole line.
// It is ASCII, and build.sh compresses it: load.cjs unpacks it so. Processes that load
// it share what V8 made of it.
import { createRequire } from 'node:module';
import { copyFileSync, readFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const output = process.argv[2];
const here = dirname(fileURLToPath(import.meta.url));
const installed = JSON.parse(readFileSync(join(here, 'node_modules/iii-sdk/package.json'), 'utf8'));
const entries = Object.keys(installed.exports)
  .map((path) => path.replace(/^\.\/?/, ''))
  .filter((name) => /^[a-z-]*$/.test(name));

const local = (name) => name.replace(/-/g, '_') || 'index';
const specifier = (name) => (name ? `iii-sdk/${name}` : 'iii-sdk');

mkdirSync(join(output, 'dist'), { recursive: true });
const outfile = join(output, 'dist/bundle.cjs');
await build({
  stdin: {
    contents: entries.map((name) => `exports.${local(name)} = require('${specifier(name)}');`).join('\n'),
    resolveDir: here,
  },
  outfile,
  charset: 'ascii',
  bundle: true,
  platform: 'node',
  target: 'node18',
  format: 'cjs',
  // Optional native accelerators of the WebSocket library.
  external: ['bufferutil', 'utf-8-validate'],
  legalComments: 'eof',
  logLevel: 'warning',
});

// What esbuild has not escaped stands in comments.
writeFileSync(outfile, readFileSync(outfile, 'utf8').replace(/[^\x00-\x7f]/g, '?'));

const manifest = { name: installed.name, version: installed.version, license: installed.license, type: 'module' };
const writeManifest = (more) =>
  writeFileSync(join(output, 'package.json'), `${JSON.stringify({ ...manifest, ...more }, null, 2)}\n`);
writeManifest(); // the SDK reads its version from it as it loads
copyFileSync(join(here, 'load.cjs'), join(output, 'dist/load.cjs'));

const bundle = createRequire(import.meta.url)(outfile);
const exportsMap = {};
for (const name of entries) {
  const file = local(name);
  const names = Object.keys(bundle[file]).filter((key) => /^[A-Za-z_$][\w$]*$/.test(key) && key !== 'default');
  writeFileSync(join(output, `dist/${file}.cjs`), `module.exports = require('./load.cjs').${file};\n`);
  writeFileSync(join(output, `dist/${file}.mjs`),
    `import bundle from './load.cjs';\nexport const { ${names.join(', ')} } = bundle.${file};\n`);
  exportsMap[name ? `./${name}` : '.'] = { import: `./dist/${file}.mjs`, require: `./dist/${file}.cjs` };
}
if (typeof bundle.index.registerWorker !== 'function') throw new Error('the bundle has no registerWorker');

writeManifest({ main: './dist/index.cjs', exports: exportsMap });
