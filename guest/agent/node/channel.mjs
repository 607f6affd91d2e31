// The private channel to the agent: descriptor 3 brings the envelope and the
// payload, descriptor 4 takes frames. Standard output is the guest program's
// own, so nothing printed can be taken for a result.
import fs from 'node:fs';

// Taken before guest code loads, which may replace what it finds on `fs`.
const { readFileSync, closeSync, writeSync } = fs;
const from = Buffer.from.bind(Buffer);
const alloc = Buffer.alloc.bind(Buffer);
const concat = Buffer.concat.bind(Buffer);

const IN = 3;
const OUT = 4;

/** Reads the request: one line of JSON, then the payload's JSON, if any. */
export function receive() {
  const text = readFileSync(IN, 'utf8');
  closeSync(IN);
  const end = text.indexOf('\n');
  return { envelope: JSON.parse(text.slice(0, end)), payloadText: text.slice(end + 1) };
}

let sent = false; // the agent takes the first result or failure

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
