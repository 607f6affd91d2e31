// Requests that arrive while the process lives: four bytes of length (big
// endian), then what call.mjs reads at once. Waiting for one keeps the process
// alive; while a handler runs, or the source loads, nothing here does, so that a
// promise that can never settle is still found out.
import { Socket } from 'node:net';
import { parse } from './channel.mjs';

// Taken before guest code loads, which may replace it.
const concat = Buffer.concat.bind(Buffer);
const HEADER = 4;

/** Opens descriptor 3. It must come before guest code is loaded. */
export function open() {
  const socket = new Socket({ fd: 3, readable: true, writable: false });
  socket.pause();
  socket.unref();
  const requests = { socket, parts: [], size: 0, ended: false, wake: () => {} };
  socket.on('data', (part) => {
    requests.parts.push(part);
    requests.size += part.length;
    requests.wake();
  });
  for (const event of ['end', 'error', 'close']) {
    socket.on(event, () => {
      requests.ended = true;
      requests.wake();
    });
  }
  return requests;
}

/** Gives the descriptor up: there will be no further request. */
export const close = (requests) => requests.socket.destroy();

/** The next request; undefined when there will be none. */
export async function readNext(requests) {
  const { socket } = requests;
  socket.ref();
  socket.resume();
  const header = await take(requests, HEADER);
  const body = header && await take(requests, header.readUInt32BE(0));
  socket.pause();
  socket.unref();
  return body && parse(body.toString('utf8'));
}

async function take(requests, size) {
  while (requests.size < size) {
    if (requests.ended) return undefined;
    await new Promise((resolve) => { requests.wake = resolve; });
  }
  const all = requests.parts.length === 1 ? requests.parts[0] : concat(requests.parts);
  requests.parts = [all.subarray(size)];
  requests.size -= size;
  return all.subarray(0, size);
}
