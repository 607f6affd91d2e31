// What all rows share: registering and running them, calling the daemon through
// the published client, and sandboxes that end with their row.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { registerWorker } from 'iii-sdk'
import { ChannelReader } from 'iii-sdk/channel'

// The client greets on stdout, which is for rows.
console.log = console.debug = console.info = console.error

/** What the suite knows of the host; see mode.go. */
export const world = JSON.parse(process.env.CONFORMANCE_WORLD)

export const isRoot = world.mode === 'root'
/** Whether guests' programs may change owners, in the back end's own words. */
export const ownsNumbers = /capabilities over its own files/.test(world.layers)

/** How long something may take with this back end that takes so long with the quickest. */
export const patient = (ms) => ms * world.patience

const ROW_MS = patient(60_000)
const CALL_MS = patient(45_000)
const rows = []

/**
 * Adds a row: the contract's id, what must hold, and the check, which gets a Row.
 * Slow rows run beside all others from the start and are left out of short runs.
 */
export function row(id, name, check, { slow = false } = {}) {
  rows.push({ id, name, check, slow })
}

/** One row for each of several cases, each an array: a name, then what check gets. */
export function table(id, name, cases, check, options) {
  for (const [what, ...values] of cases) row(id, `${name}: ${what}`, (t) => check(t, ...values), options)
}

/** Polls until probe gives something truthy and returns that. */
export async function until(what, probe, ms = 20_000) {
  const deadline = Date.now() + patient(ms)
  for (;;) {
    const value = await probe()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`waited ${patient(ms)} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

function within(what, promise, ms) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const options = { enableMetricsReporting: false, otel: { enabled: false }, invocationTimeoutMs: CALL_MS }
const clients = {
  bus: registerWorker(world.bus, { workerName: 'conformance', ...options }),
  strict: registerWorker(world.strict, { workerName: 'conformance-strict', ...options }),
}
export const client = clients.bus

/** Calls a function of the roomy daemon, or of the strict one. */
export const call = (id, payload = {}, at = 'bus') => clients[at].trigger({ function_id: id, payload })

/** The JSON object inside a refusal, which must have the contract's form (§2.1). */
export function refusal(error) {
  const text = String(error?.message ?? error)
  const start = text.indexOf('handler error: {')
  assert.ok(start >= 0, `not a refusal of the daemon: ${text}`)
  return JSON.parse(text.slice(start + 'handler error: '.length))
}

/** Calls a function that must refuse with the code, and gives the refusal. */
export async function refused(code, id, payload, at) {
  let answer
  try {
    answer = await call(id, payload, at)
  } catch (error) {
    const body = refusal(error)
    assert.equal(body.code, code, JSON.stringify(body))
    return body
  }
  assert.fail(`${id} answered ${JSON.stringify(answer).slice(0, 500)}, want ${code}`)
}

/** What one row made. */
class Row {
  sandboxes = []

  /** A sandbox that ends with the row. */
  async sandbox(request = {}, at = 'bus') {
    const answer = await call('sandbox::create', { image: 'python', ...request }, at)
    const box = new Sandbox(answer.sandbox_id, at)
    this.sandboxes.push(box)
    return box
  }

  adopt(id, at = 'bus') { this.sandboxes.push(new Sandbox(id, at)) }

  async end() {
    for (const box of this.sandboxes) {
      try {
        await call('sandbox::stop', { sandbox_id: box.id }, box.at)
      } catch (error) {
        assert.equal(refusal(error).code, 'S002')
      }
    }
  }
}

/** A sandbox as its owner calls it. */
class Sandbox {
  constructor(id, at) {
    this.id = id
    this.at = at
  }

  exec(request) { return call('sandbox::exec', { sandbox_id: this.id, ...request }, this.at) }

  fs(name, request) { return call(`sandbox::fs::${name}`, { sandbox_id: this.id, ...request }, this.at) }

  refuses(code, name, request) { return refused(code, `sandbox::${name}`, { sandbox_id: this.id, ...request }, this.at) }

  /** Runs a program in one of the languages of the suite; the answer as it is. */
  run(language, code, args = [], more = {}) {
    const argv = { shell: ['/bin/sh', '-c', code, 'sh'], node: ['node', '-e', code], python: ['python3', '-c', code] }[language]
    return this.exec({ argv: [...argv, ...args], timeout_ms: patient(30_000), ...more })
  }

  /** Runs a shell script that must succeed and gives its output. */
  async sh(code, ...args) {
    const got = await this.run('shell', code, args)
    assert.equal(got.exit_code, 0, `${code}: ${got.stdout}${got.stderr}`)
    return got.stdout
  }

  /** Command lines of all processes of the guest. */
  async commands() {
    return (await this.sh(`for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done`)).split('\n').map((line) => line.trim())
  }

  write(path, content, more = {}) { return this.fs('write', { path, content, parents: true, ...more }) }

  async text(path) { return (await this.fs('read', { path })).body }

  /** Reads a channel that an answer of fs::read names. */
  async receive(answer) {
    return new ChannelReader(this.at === 'bus' ? world.bus : world.strict, answer.content).readAll()
  }
}

/** What a short run of a slow back end keeps: a row or two of each part that is its own. */
const CORE = ['1 functions', '2.1 form', '3.1 image', '3.1 resources', '3.2 exit', '3.2 S200', '3.3 S003', '3.4 stop', '3.5 row', '4 mv', '4.1 channel', '4.2 body',
  '6 gateway', '6 closed', '6 off', '6 interfaces', '8 host files', '8 image', '8 commands', '8 system calls', '9 memory bomb', '10 kernel', '10 twins', '10 clock']

/** Leaves the first row of each id in CORE. */
function core(all) {
  return CORE.flatMap((id) => all.filter((r) => r.id === id).slice(0, 1))
}

/** Rows of this run, in the order of the files' names. */
async function selectRows() {
  for (const file of readdirSync(new URL('.', import.meta.url)).sort()) {
    if (file.endsWith('.rows.mjs')) await import(`./${file}`)
  }
  const all = world.short && world.patience > 1 ? core(rows) : rows
  return all.filter((r) => !(world.short && r.slow) && `${r.id} ${r.name}`.includes(world.only))
}

/** Runs the rows and writes a line of JSON for each. */
export async function runAll() {
  const selected = await selectRows()
  report({ plan: selected.length })
  await until('the daemons', async () => (await registered('bus')) && registered('strict'))
  const keep = await new Row().sandbox({ image: 'node', idle_timeout_secs: 100_000 })
  const keepStrict = await new Row().sandbox({ image: 'node', idle_timeout_secs: 100_000 }, 'strict')
  await Promise.all([keep, keepStrict].map((box) => box.exec({ argv: ['/bin/sh', '-c', 'sleep 1000 >/dev/null 2>&1 </dev/null &'] })))
  const slow = selected.filter((r) => r.slow).map(runOne)
  for (const r of selected.filter((each) => !each.slow)) report(await runOne(r))
  for (const outcome of slow) report(await outcome)
}

const registered = async (at) => (await call('engine::functions::list', { prefix: 'sandbox::' }, at)).functions.length >= 16

async function runOne({ id, name, check }) {
  const began = Date.now()
  const t = new Row()
  let outcome = { ok: true }
  try {
    await within(name, check(t), ROW_MS)
  } catch (error) {
    outcome = { ok: false, error: String(error?.stack ?? error) }
  }
  try {
    await within('the clean-up', t.end(), ROW_MS)
  } catch (error) {
    outcome = { ok: false, error: `${outcome.error ?? ''} clean-up: ${error}` }
  }
  return { id, name, ...outcome, ms: Date.now() - began }
}

const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
