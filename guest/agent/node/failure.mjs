// Errors in the form that both languages share: {kind, type, message, stack, line}.
const MAX_STACK = 8192;

/** Describes whatever was thrown. `source` is the URL of the guest's file. */
export function describe(kind, thrown, source) {
  if (!(thrown instanceof Error) && typeof thrown?.message !== 'string') {
    return { kind, type: typeof thrown, message: text(thrown) };
  }
  const stack = typeof thrown.stack === 'string' ? thrown.stack.slice(0, MAX_STACK) : '';
  const failure = { kind, type: typeName(thrown), message: text(thrown.message), stack };
  const line = lineIn(stack, source);
  if (line) failure.line = line;
  return failure;
}

// A class that extends Error inherits the name "Error"; its own says more.
function typeName(error) {
  const name = text(error.name || 'Error');
  return name === 'Error' ? error.constructor?.name || name : name;
}

function text(value) {
  try {
    return String(value);
  } catch {
    return 'a value without text form';
  }
}

/** Finds the first mention of source:LINE in text. */
export function lineIn(text, source) {
  const at = text.indexOf(`${source}:`);
  return at < 0 ? 0 : parseInt(text.slice(at + source.length + 1), 10) || 0;
}
