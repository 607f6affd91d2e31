// Calls one handler: node call.mjs, request on descriptor 3, frames on 4.
// In mode "check" it stops after making sure that there is a handler.
import { pathToFileURL } from 'node:url';
import { receive, hasSent, sendResult, sendFailure, sendDone } from './channel.mjs';
import { describe, lineIn } from './failure.mjs';
import { install, shutdown } from './iii.mjs';
import { decode, encode } from './json.mjs';

const SHUTDOWN_MS = 2000;

const { envelope, payloadText } = receive();
const source = pathToFileURL(envelope.source).href;
const exit = process.exit.bind(process);
let stage = 'loading the source';
let uncaught;

process.on('uncaughtExceptionMonitor', (error) => { uncaught ??= error; });
process.on('beforeExit', () => sendFailure(stuck()));
process.on('exit', (code) => sendFailure(ended(code)));

install(envelope.context?.deadline_ms);
main();

async function main() {
  const handler = await load();
  if (handler && envelope.mode !== 'check') await call(handler);
  else if (handler) sendResult('null');
  await shutdown(SHUTDOWN_MS);
  sendDone();
  exit(0);
}

async function load() {
  let module;
  try {
    module = await import(source);
  } catch (error) {
    return sendFailure(await loadFailure(error));
  }
  const handler = module[envelope.handler];
  if (typeof handler === 'function') return handler;
  const message = `the source must export a function ${envelope.handler}(payload)`;
  return sendFailure({ kind: 'HandlerMissing', type: 'TypeError', message });
}

async function call(handler) {
  stage = 'waiting for the handler';
  let value;
  try {
    value = await handler(decode(payloadText), envelope.context);
  } catch (error) {
    return sendFailure(describe('Thrown', error, source));
  }
  try {
    sendResult(encode(value));
  } catch (error) {
    sendFailure(describe('NotSerializable', error, source));
  }
}

// The parser tells where a syntax error is only when Node itself prints it.
async function loadFailure(error) {
  const failure = describe('LoadFailed', error, source);
  if (failure.type !== 'SyntaxError' || failure.line || envelope.mode !== 'check') return failure;
  const { spawnSync } = await import('node:child_process');
  const checked = spawnSync(process.execPath, ['--check', envelope.source], { encoding: 'utf8' });
  failure.line = lineIn(checked.stderr, source) || lineIn(checked.stderr, envelope.source);
  failure.stack = checked.stderr.split('\n    at ')[0].trimEnd();
  return failure;
}

function stuck() {
  const message = stage === 'waiting for the handler'
    ? 'the handler returned a promise that can never settle'
    : 'the source waits at its top level for a promise that can never settle';
  return { kind: 'NoResult', type: 'PendingPromise', message };
}

function ended(code) {
  if (uncaught !== undefined) return describe('Thrown', uncaught, source);
  const message = `the process exited with code ${code} while ${stage}`;
  return { kind: 'NoResult', type: 'ProcessExit', message, exitCode: code };
}
