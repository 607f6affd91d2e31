// Loads the bundle, which lies here compressed: most guests never need it. It is
// ASCII, so that reading it takes a tenth of what UTF-8 does, and less than that even
// with unpacking it. Most of the time is V8 compiling it, so the first process that
// loads it leaves V8's own cache of that beside it, for those that come later: half of
// the time is saved. V8 refuses a cache of another source or of another version of
// itself, and where there is none, or none can be written, the bundle is loaded all
// the same.
'use strict';
const { readFileSync, renameSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');
const { Script } = require('node:vm');
const { gunzipSync } = require('node:zlib');

const file = join(__dirname, 'bundle.cjs');
const cache = join(__dirname, `bundle-${process.version}-${process.arch}.cache`);

function read() {
  try {
    return readFileSync(cache);
  } catch {
    return undefined;
  }
}

// Renamed into place, since others may be reading it.
function write(script) {
  try {
    const temporary = `${cache}-${process.pid}`;
    writeFileSync(temporary, script.createCachedData());
    renameSync(temporary, cache);
  } catch {
    // The folder cannot be written to.
  }
}

// The size in the last four bytes saves unpacking into pieces, which takes twice as long.
function unpack(packed) {
  const size = packed.readUInt32LE(packed.length - 4);
  return gunzipSync(packed, { chunkSize: size + 1 }).toString('latin1');
}

function load() {
  const cachedData = read();
  const source = unpack(readFileSync(`${file}.gz`));
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${source}\n})`, { filename: file, cachedData });
  const loaded = { exports: {} };
  script.runInThisContext()(loaded.exports, createRequire(file), loaded, file, dirname(file));
  if (!cachedData) write(script);
  return loaded.exports;
}

module.exports = load();
