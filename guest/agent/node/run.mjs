// Preloaded before a program: node --import run.mjs PROGRAM. The program itself
// is started by Node, so arguments, exit codes and stack traces are its own.
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { receive, sendDone, sendResult, sendFailure } from './channel.mjs';
import { describe } from './failure.mjs';
import { detach, install, setDeadline, shutdown } from './iii.mjs';
import { encode } from './json.mjs';

const SHUTDOWN_MS = 3000;
const exit = process.exit.bind(process);

// Processes and threads that the program makes inherit the preload option; the
// channel is not theirs.
process.execArgv.length = 0;
if (isMainThread) start();
else install();

function start() {
  const { envelope } = receive();
  install();
  setDeadline(envelope.context?.deadline_ms);
  process.once('beforeExit', close);
  process.once('exit', sendDone);
  // Joins the evaluation that Node starts after this preload; whatever the
  // program throws is Node's to report.
  const source = pathToFileURL(envelope.source).href;
  setImmediate(() => import(source).then((module) => collect(module, source), () => {}));
}

// A client that does not close in time must not keep the process.
async function close() {
  if (!(await shutdown(SHUTDOWN_MS))) exit();
}

async function collect(module, source) {
  detach();
  try {
    const value = await module.default;
    sendResult(typeof value === 'function' ? 'null' : encode(value));
  } catch (error) {
    sendFailure(describe('NotSerializable', error, source));
  }
}
