// The lazy global `iii` (contracts/code-runner.md §13): reading, printing,
// probing and serializing it never connects; calling one of its methods does.
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { readFileSync } from 'node:fs';
import { bus } from './bus.mjs';

// What the pinned SDK's client offers. Only a call of one of these connects, so
// probes such as JSON.stringify's for toJSON find nothing and cost nothing.
const PUBLIC = ['registerFunction', 'registerTrigger', 'registerTriggerType',
  'unregisterTriggerType', 'trigger', 'shutdown'];
// Used by createChannel and createStream of 'iii-sdk/helpers'.
const SURFACE = new Set([...PUBLIC, '__helpers_create_channel', '__helpers_create_stream']);
const DEFAULT_TIMEOUT_MS = 30_000;
// An inner call ends this share of the whole time before the deadline, within the
// bounds, so that its error can still be handled and the answer be sent.
const MIN_MARGIN_MS = 200;
const MAX_MARGIN_MS = 5_000;
const MARGIN_SHARE = 0.2;
const require = createRequire(import.meta.url);
const HINT = '[lazy iii-sdk client: connects to the bus when one of its methods is called]';

let client;
let deadline = Infinity;
let margin = 0;
let detached = false;

/** Makes `iii` global. */
export function install() {
  globalThis.iii = new Proxy(target(), handlers);
}

/** Bounds the calls made through `iii`: Unix time in ms; 0 or nothing leaves them. */
export function setDeadline(deadlineMs) {
  if (!deadlineMs) return;
  deadline = deadlineMs;
  const share = Math.trunc((deadline - Date.now()) * MARGIN_SHARE);
  margin = Math.min(Math.max(share, MIN_MARGIN_MS), MAX_MARGIN_MS);
}

function target() {
  const hint = () => HINT;
  const hidden = (value) => ({ value, configurable: true, writable: true, enumerable: false });
  return Object.defineProperties({}, {
    [inspect.custom]: hidden(hint), [Symbol.toPrimitive]: hidden(hint), toString: hidden(hint),
  });
}

const handlers = {
  get(object, key) {
    if (key === Symbol.toPrimitive) return object[key];
    if (typeof key === 'symbol' || key === 'then') return undefined;
    if (SURFACE.has(key)) return (...args) => invoke(key, args);
    const value = client && key in client ? client[key] : object[key];
    return typeof value === 'function' && key !== 'constructor' ? value.bind(client ?? object) : value;
  },
  has: (_object, key) => typeof key === 'string' && client !== undefined && key in client,
  ownKeys: () => (client ? [...new Set([...Object.keys(client), ...inherited(client)])] : []),
  getOwnPropertyDescriptor(_object, key) {
    if (!client || typeof key !== 'string' || !(key in client)) return undefined;
    return { value: client[key], configurable: true, enumerable: true, writable: true };
  },
};

const inherited = (value) =>
  Object.getOwnPropertyNames(Object.getPrototypeOf(value)).filter((name) => name !== 'constructor');

function invoke(name, args) {
  if (name === 'shutdown' && !client) return Promise.resolve();
  const method = connect()[name];
  return name === 'trigger' ? method.call(client, clamp(args[0])) : method.apply(client, args);
}

// An inner call must end before the call or run it is part of.
function clamp(request) {
  if (request === null || typeof request !== 'object' || request.action) return request;
  const wanted = request.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  return { ...request, timeoutMs: Math.max(1, Math.min(wanted, deadline - Date.now() - margin)) };
}

function connect() {
  if (client) return client;
  const at = bus();
  if (!at) throw new Error('III_URL is not set: this runtime has no access to the bus');
  const { registerWorker } = loadSDK('iii-sdk');
  silence();
  const given = process.env.III_WORKER_NAME;
  const name = uniqueName(given);
  client = registerWorker(at.url, {
    headers: at.headers,
    workerName: name,
    enableMetricsReporting: false,
    otel: { enabled: false },
  });
  introduce(client, given, name);
  if (detached) detach();
  return client;
}

// The engine names the caller in payloads that are objects only. The baggage does
// so for others, so that a call that would wait for its own caller is found out
// (contracts/code-runner.md §19.1, W2). It reaches into the client for want of an
// option; another version may lack the method, and then only that is missing. In a
// process that calls share, each call has a name of its own and the client the first.
function introduce(to, given, name) {
  const send = to.sendMessage;
  if (!name || typeof send !== 'function') return;
  const present = () => {
    const now = process.env.III_WORKER_NAME;
    return `sandbox-worker=${encodeURIComponent(now && now !== given ? now : name)}`;
  };
  to.sendMessage = function sendMessage(type, message, ...rest) {
    const waits = type === 'invokefunction' && !message.action;
    return send.call(this, type, waits ? { ...message, baggage: joined(message.baggage, present()) } : message, ...rest);
  };
}

const joined = (...members) => members.filter(Boolean).join(',');

// The engine refuses a second worker of one name, and two processes of one
// function may run at the same time (contracts/code-runner.md §19.3, X25).
function uniqueName(name) {
  const { randomBytes } = require('node:crypto');
  return name && `${name}:${randomBytes(4).toString('hex')}`;
}

/**
 * Loads the SDK ahead of the first use of `iii`, in a process that waits for its
 * call: the SDK takes longer to load than Node takes to start. Only for sources
 * that seem to use it, which is told by the name.
 */
export function preload(source) {
  try {
    if (/\biii\b/.test(readFileSync(source, 'utf8'))) loadSDK('iii-sdk');
  } catch {
    // Whoever uses it is told.
  }
}

/** Loads the SDK or a part of it, synchronously. */
export function loadSDK(part) {
  try {
    return require(part);
  } catch (error) {
    throw new Error(`iii-sdk could not be loaded: ${error.message}`, { cause: error });
  }
}

// The SDK's debug lines go to standard output, which is the program's.
function silence() {
  const debug = console.debug;
  console.debug = (...args) => {
    if (!/^\[(iii|OTel)\]/.test(String(args[0]))) debug.apply(console, args);
  };
}

/**
 * Lets the process end although the client is connected: a program is finished
 * when nothing but the client keeps it alive. The client has no such switch, so
 * its socket and timers are let go one by one; the SDK's version is pinned.
 */
export function detach() {
  detached = true;
  if (!client) return;
  const { connect: reconnect, onSocketOpen, scheduleReconnect } = Object.getPrototypeOf(client);
  const release = () => {
    const request = client.ws?._req; // there only while the connection is being made
    request?.on('socket', (socket) => socket.unref());
    for (const handle of [request?.socket, client.ws?._socket, client.heartbeatInterval,
      client.idleTimeout, client.reconnectTimeout]) handle?.unref?.();
  };
  const thenRelease = (method) => function released() {
    method.call(client);
    release();
  };
  client.connect = thenRelease(reconnect);
  client.onSocketOpen = thenRelease(onSocketOpen);
  client.scheduleReconnect = thenRelease(scheduleReconnect);
  client.ws?.on('open', release);
  release();
}

/** Closes the client, if there is one; false if that takes over limitMs. */
export async function shutdown(limitMs) {
  if (!client) return true;
  let timer;
  const limit = new Promise((resolve) => { timer = setTimeout(resolve, limitMs, false); });
  const closed = close().then(() => true, () => true);
  const inTime = await Promise.race([closed, limit]);
  clearTimeout(timer);
  return inTime;
}

// Messages wait inside the client until its first connection stands, and its
// shutdown would drop them; a void trigger just before the end must not be lost.
async function close() {
  const socket = client.ws;
  while (client.messagesToSend?.length && client.connectionState === 'connecting') {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await client.shutdown();
  if (socket && socket.readyState !== socket.constructor.CLOSED) {
    await new Promise((resolve) => socket.once('close', resolve));
  }
}
