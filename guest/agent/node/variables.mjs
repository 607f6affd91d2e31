// The part of the environment that is a call's own, such as TRACEPARENT: it comes
// with the call, as the process was started before.
let kept;

/** Remembers the environment for calls that share the process: what one call was
 * given is not there at the next. */
export function keepEnvironment() {
  kept = new Map();
}

/** Sets a call's variables. */
export function setEnvironment(variables = {}) {
  for (const [name, value] of kept ?? []) restore(name, value);
  kept?.clear();
  for (const [name, value] of Object.entries(variables)) {
    kept?.set(name, process.env[name]);
    process.env[name] = value;
  }
}

function restore(name, value) {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
