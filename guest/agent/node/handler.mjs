// Loads a handler and calls it. The two are apart, so that a process may load
// first and be called later; whatever goes wrong is sent as the one failure.
import { pathToFileURL } from 'node:url';
import { open } from './channels.mjs';
import { sendResult, sendFailure } from './channel.mjs';
import { describe, lineIn } from './failure.mjs';
import { decode, encode } from './json.mjs';

let source; // the URL of the guest's file
let stage = 'loading the source';
let uncaught;

/** Names the cause when the process ends before there is a result. */
export function watch(path) {
  source = pathToFileURL(path).href;
  process.on('uncaughtExceptionMonitor', (error) => { uncaught ??= error; });
  process.on('beforeExit', () => sendFailure(stuck()));
  process.on('exit', (code) => sendFailure(ended(code)));
}

/** Imports the source and returns the handler; undefined after a failure. */
export async function load(path, name, checking) {
  let module;
  try {
    module = await import(source);
  } catch (error) {
    return sendFailure(await loadFailure(error, path, checking));
  }
  const handler = module[name];
  stage = 'waiting for a call';
  if (typeof handler === 'function') return handler;
  const message = `the source must export a function ${name}(payload)`;
  return sendFailure({ kind: 'HandlerMissing', type: 'TypeError', message });
}

/** Calls the handler and sends its result or failure. */
export async function call(handler, payloadText, context) {
  stage = 'waiting for the handler';
  let value;
  try {
    value = await handler(open(decode(payloadText), payloadText), context);
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
async function loadFailure(error, path, checking) {
  const failure = describe('LoadFailed', error, source);
  if (failure.type !== 'SyntaxError' || failure.line || !checking) return failure;
  const { spawnSync } = await import('node:child_process');
  const checked = spawnSync(process.execPath, ['--check', path], { encoding: 'utf8' });
  failure.line = lineIn(checked.stderr, source) || lineIn(checked.stderr, path);
  failure.stack = checked.stderr.split('\n    at ')[0].trimEnd();
  return failure;
}

function stuck() {
  const message = stage === 'loading the source'
    ? 'the source waits at its top level for a promise that can never settle'
    : 'the handler returned a promise that can never settle';
  return { kind: 'NoResult', type: 'PendingPromise', message };
}

function ended(code) {
  if (uncaught !== undefined) return describe('Thrown', uncaught, source);
  const message = `the process exited with code ${code} while ${stage}`;
  return { kind: 'NoResult', type: 'ProcessExit', message, exitCode: code };
}
