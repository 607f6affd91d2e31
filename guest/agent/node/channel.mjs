// The private channel to the agent: descriptor 3 brings the envelope and the
// payload, descriptor 4 takes frames. Standard output is the guest program's
// own, so nothing printed can be taken for a result.
import fs from 'node:fs';

// Taken before guest code loads, which may replace what it finds on `fs`.
const { readFileSync, readSync, closeSync, writeSync } = fs;
const from = Buffer.from.bind(Buffer);
const alloc = Buffer.alloc.bind(Buffer);
const concat = Buffer.concat.bind(Buffer);
const parseJSON = JSON.parse;

const IN = 3;
const OUT = 4;
const NEWLINE = 10;

/** Reads the request: one line of JSON, then the payload's JSON, if any. */
export function receive() {
  const text = readFileSync(IN, 'utf8');
  closeSync(IN);
  return parse(text);
}

/** Splits a request. */
export function parse(text) {
  const end = text.indexOf('\n');
  return { envelope: parseJSON(text.slice(0, end)), payloadText: text.slice(end + 1) };
}

/** Reads the first of several requests, which is one line, and leaves what follows. */
export function receiveFirst() {
  const byte = alloc(1);
  const line = [];
  while (readSync(IN, byte, 0, 1) && byte[0] !== NEWLINE) line.push(byte[0]);
  return parseJSON(from(line).toString('utf8'));
}

let sent = false; // the agent takes the first result or failure

/** Makes way for the next call's result. */
export function begin() {
  sent = false;
}

/** Says that the handler is loaded and may be called. */
export const sendReady = () => send('Y', '{}');

/** Says that the call has arrived and begins now. */
export const sendBegun = () => send('B', '');

/** Sends the handler's result as JSON text. */
export function sendResult(json) {
  sent = true;
  send('R', json);
}

/** Sends a failure: {kind, type, message, stack, line}. */
export function sendFailure(failure) {
  if (sent) return;
  sent = true;
  send('E', JSON.stringify(failure));
}

/** Says that nothing more is worth waiting for. */
export const sendDone = () => send('D', '');

// A frame is one letter, four bytes of length, and the body. Writes block, and
// may be partial, so that process.exit right afterwards loses nothing.
function send(kind, text) {
  const body = from(text, 'utf8');
  const head = alloc(5);
  head.write(kind, 0, 'latin1');
  head.writeUInt32BE(body.length, 1);
  const frame = concat([head, body]);
  for (let at = 0; at < frame.length; ) at += writeSync(OUT, frame, at);
}
