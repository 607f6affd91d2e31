// Data channels in payloads (contracts/iii-bus.md §8): a reference also offers
// what the SDK's ChannelReader or ChannelWriter does, as in a worker's handler.
// The SDK is loaded when that is used; as data, the reference is what it was.
import { bus } from './bus.mjs';
import { loadSDK } from './iii.mjs';

const SURFACE = {
  read: new Set(['stream', 'readAll', 'onMessage', 'close']),
  write: new Set(['stream', 'sendMessage', 'close']),
};

const writers = [];

/** Makes the references in a payload usable, if there is a bus to reach. */
export function open(payload, text) {
  return text.includes('"channel_id"') && bus() ? replace(payload) : payload;
}

function replace(value) {
  if (value === null || typeof value !== 'object') return value;
  if (isReference(value)) return channelOf(value);
  for (const key of Object.keys(value)) value[key] = replace(value[key]);
  return value;
}

const isReference = (value) => typeof value.channel_id === 'string' && typeof value.access_key === 'string'
  && Object.hasOwn(SURFACE, value.direction);

function channelOf(reference) {
  const surface = SURFACE[reference.direction];
  let channel;
  return new Proxy(reference, {
    get(target, key) {
      if (key in target || !surface.has(key)) return target[key];
      channel ??= connect(target);
      const value = channel[key];
      return typeof value === 'function' ? value.bind(channel) : value;
    },
  });
}

function connect(reference) {
  const { ChannelReader, ChannelWriter } = loadSDK('iii-sdk/channel');
  // A channel has a key of its own, so it needs the address only.
  const { url } = bus();
  if (reference.direction === 'read') return new ChannelReader(url, reference);
  const writer = new ChannelWriter(url, reference);
  writers.push(writer);
  return writer;
}

/** Lets what was written arrive, for limitMs at most: the process ends then. */
export async function finish(limitMs) {
  if (!writers.length) return;
  let timer;
  const limit = new Promise((resolve) => { timer = setTimeout(resolve, limitMs); });
  await Promise.race([Promise.all(writers.splice(0).map(close)), limit]);
  clearTimeout(timer);
}

function close(writer) {
  const socket = writer.ws;
  if (!socket || socket.readyState === socket.constructor.CLOSED) return undefined;
  return new Promise((resolve) => {
    socket.once('close', resolve);
    socket.once('error', resolve);
    if (!writer.stream.writableEnded) writer.stream.end();
  });
}
