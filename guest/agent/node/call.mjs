// Calls one handler: node call.mjs, request on descriptor 3, frames on 4.
// In mode "check" it stops after making sure that there is a handler.
import { finish } from './channels.mjs';
import { receive, sendResult, sendDone } from './channel.mjs';
import { call, load, watch } from './handler.mjs';
import { install, setDeadline, shutdown } from './iii.mjs';

const SHUTDOWN_MS = 2000;
const exit = process.exit.bind(process);
const { envelope, payloadText } = receive();
const checking = envelope.mode === 'check';

install();
setDeadline(envelope.context?.deadline_ms);
watch(envelope.source);
main();

async function main() {
  const handler = await load(envelope.source, envelope.handler, checking);
  if (handler && checking) sendResult('null');
  else if (handler) await call(handler, payloadText, envelope.context);
  await Promise.all([finish(SHUTDOWN_MS), shutdown(SHUTDOWN_MS)]);
  sendDone();
  exit(0);
}
