// JSON that keeps what JavaScript's own would lose: integers beyond 2^53 arrive
// as BigInt and leave with all their digits; lone surrogates, which are no
// text, become U+FFFD (contracts/code-runner.md §18, F28 and F30).
const { parse, stringify } = JSON;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;
const ESCAPES = /\\(?:ud[89a-f][0-9a-f]{2}|.)/g;

/** Parses JSON text; an empty text is undefined. */
export function decode(text) {
  if (text === '') return undefined;
  if (!/\d{16}/.test(text)) return parse(text);
  const mark = marker();
  const marked = text.replace(TOKENS, (token) =>
    LONG_INTEGER.test(token) && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token);
  return parse(marked, (_key, value) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value);
}

/** Serializes a value; throws a TypeError for what has no JSON form. */
export function encode(value) {
  if (value === undefined) return 'null';
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`a ${typeof value} is not JSON-serializable`);
  }
  const text = stringifyAny(value);
  if (text === undefined) throw new TypeError('the value is not JSON-serializable');
  return text.includes('\\ud') ? text.replace(ESCAPES, replaceSurrogate) : text;
}

// stringify escapes a surrogate only when it has no partner.
const replaceSurrogate = (escape) => (/^\\ud[89a-f]/.test(escape) ? '\ufffd' : escape);

// A replacer makes stringify several times slower, so it is used only after
// the plain way has met a BigInt.
function stringifyAny(value) {
  try {
    return stringify(value);
  } catch (error) {
    if (!/BigInt/.test(error?.message ?? '')) throw error;
  }
  const mark = marker();
  const marked = stringify(value, (_key, item) =>
    typeof item === 'bigint' ? `${mark}${item}` : item);
  return marked.replace(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1');
}

const marker = () => `bigint-${crypto.randomUUID()}-`;
