// Serves calls that come later: node serve.mjs, requests on descriptor 3, frames
// on 4. The handler is loaded first. A process serves one call, or, where calls
// share it, one after the other until its agent ends it.
import { close, open, readNext } from './requests.mjs';
import { finish } from './channels.mjs';
import { begin, receiveFirst, sendBegun, sendDone, sendReady } from './channel.mjs';
import { call, load, watch } from './handler.mjs';
import { install, preload, setDeadline, shutdown } from './iii.mjs';
import { keepEnvironment, setEnvironment } from './variables.mjs';

const SHUTDOWN_MS = 2000;
const exit = process.exit.bind(process);
const envelope = receiveFirst();
const requests = open();

install();
setDeadline(envelope.context?.deadline_ms);
watch(envelope.source);
main();

async function main() {
  const handler = await load(envelope.source, envelope.handler);
  if (!handler) exit(1);
  if (envelope.shared) keepEnvironment();
  preload(envelope.source);
  sendReady();
  for (;;) {
    const request = await readNext(requests);
    if (!request) exit(0);
    await serve(handler, request);
    sendDone();
    if (!envelope.shared) exit(0);
  }
}

async function serve(handler, { envelope: { env, context }, payloadText }) {
  if (!envelope.shared) close(requests);
  begin();
  setEnvironment(env);
  setDeadline(context.deadline_ms);
  sendBegun();
  await call(handler, payloadText, context);
  await Promise.all([finish(SHUTDOWN_MS), envelope.shared || shutdown(SHUTDOWN_MS)]);
}
