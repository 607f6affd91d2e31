// What all rows share: registering and running them, workers and raw sockets
// that end with their row, and waiting for something to become true.
import { readdirSync } from 'node:fs'
import { registerWorker } from 'iii-sdk'
import { WebSocket } from 'ws'

/** Where the engine listens: open, restricted and guarded worker ports, and HTTP. */
export const { bus, rbac, guarded, http } = JSON.parse(process.env.CONFORMANCE_URLS)

const ROW_MS = 20_000
const WAIT_MS = 10_000
const rows = []

/** Adds a row: the contract's id, what must hold, and the check, which gets a Row. */
export function row(id, name, check) {
  rows.push({ id, name, check })
}

/** Polls until probe gives something truthy and returns that. */
export async function until(what, probe, ms = WAIT_MS) {
  const deadline = Date.now() + ms
  for (;;) {
    const value = await probe()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`waited ${ms} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 15))
  }
}

/** Bounds a promise that may never settle. */
export function within(what, promise, ms = WAIT_MS) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** A promise with its resolve function. */
export function signal() {
  let fire
  const fired = new Promise((resolve) => { fire = resolve })
  return { fire, fired }
}

/** The row's own names, clients and clean-up. */
class Row {
  constructor(number) {
    this.prefix = `row${number}`
    this.cleanups = []
  }

  /** A function id, topic or route segment no other row uses. */
  id(name) { return `${this.prefix}::${name}` }

  path(name) { return `/${this.prefix}/${name}` }

  after(cleanup) { this.cleanups.push(cleanup) }

  /** A worker of the published client, connected to the open port by default. */
  worker(name, options = {}, url = bus) {
    const client = registerWorker(url, {
      workerName: `${this.prefix}-${name}`, enableMetricsReporting: false, otel: { enabled: false },
      invocationTimeoutMs: WAIT_MS, reconnectionConfig: { initialDelayMs: 50, maxRetries: 100 }, ...options,
    })
    this.after(() => client.shutdown())
    return client
  }

  /** A raw socket; it has sent nothing yet. */
  async raw(url = bus, options = {}) {
    const raw = new Raw(url, options)
    this.after(() => raw.socket.terminate())
    await within('the socket to open', raw.opened)
    return raw
  }

  /** A raw socket that has said its name. */
  async peer(name, { namespace, url } = {}) {
    const raw = await this.raw(url)
    raw.hello(`${this.prefix}-${name}`, namespace === undefined ? {} : { namespace })
    raw.workerId = (await raw.next('workerregistered')).worker_id
    return raw
  }

  async end() {
    for (const cleanup of this.cleanups.reverse()) await cleanup()
  }
}

/** A WebSocket that speaks frames. */
export class Raw {
  constructor(url, options) {
    this.frames = []
    this.socket = new WebSocket(url, options)
    this.socket.on('message', (data) => this.frames.push(JSON.parse(data.toString())))
    this.socket.on('error', () => {})
    this.opened = new Promise((resolve, reject) => {
      this.socket.on('open', resolve)
      this.socket.on('error', reject)
    })
    this.closed = new Promise((resolve) => this.socket.on('close', resolve))
  }

  send(frame) { this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame)) }

  hello(name, more = {}) {
    const data = { runtime: 'raw', version: '1', name, os: 'test', pid: process.pid, ...more }
    this.send({ type: 'invokefunction', function_id: 'engine::workers::register', action: { type: 'void' }, data })
  }

  /** Takes the next frame of a type (that fits), in order of arrival. */
  async next(type, fits = () => true) {
    return until(`a frame ${type}`, () => {
      const at = this.frames.findIndex((f) => f.type === type && fits(f))
      return at < 0 ? undefined : this.frames.splice(at, 1)[0]
    })
  }

  /** Calls a function and gives the whole invocationresult frame. */
  async call(function_id, data = {}, more = {}) {
    const invocation_id = crypto.randomUUID()
    this.send({ type: 'invokefunction', invocation_id, function_id, data, ...more })
    return this.next('invocationresult', (f) => f.invocation_id === invocation_id)
  }

  /** Answers one call and gives its frame. */
  async answer(function_id, result) {
    const call = await this.next('invokefunction', (f) => f.function_id === function_id)
    this.send({ type: 'invocationresult', invocation_id: call.invocation_id, function_id, ...result })
    return call
  }

  /** Whether the engine still serves this socket: its answer comes after all that was sent before. */
  async alive() {
    this.send({ type: 'ping' })
    await this.next('pong')
  }
}

/** Lists of the engine, as any worker may ask for them. */
export const lists = (client) => {
  const ask = async (id, payload, field) => (await client.trigger({ function_id: id, payload }))[field]
  return {
    functions: (payload = {}) => ask('engine::functions::list', payload, 'functions'),
    workers: (payload = {}) => ask('engine::workers::list', payload, 'workers'),
    types: (payload = {}) => ask('engine::triggers::list', payload, 'triggers'),
    triggers: (payload = {}) => ask('engine::registered-triggers::list', payload, 'registered_triggers'),
    /** Waits until the engine lists the function. */
    has: (id) => until(`function ${id}`, async () =>
      (await ask('engine::functions::list', { prefix: id }, 'functions')).some((f) => f.function_id === id)),
    /** Waits until the engine lists this many bindings of the function. */
    bound: (id, count = 1) => until(`${count} triggers of ${id}`, async () =>
      (await ask('engine::registered-triggers::list', { function_id: id }, 'registered_triggers')).length === count),
  }
}

/** Runs all rows in order and writes a line of JSON for each. */
export async function runAll() {
  for (const file of readdirSync(new URL('.', import.meta.url)).sort()) {
    if (file.endsWith('.rows.mjs')) await import(`./${file}`)
  }
  report({ plan: rows.length })
  for (const [number, { id, name, check }] of rows.entries()) {
    const began = Date.now()
    report({ id, name, ...(await runOne(number, name, check)), ms: Date.now() - began })
  }
}

async function runOne(number, name, check) {
  const current = new Row(number)
  let outcome = { ok: true }
  try {
    await within(name, check(current), ROW_MS)
  } catch (error) {
    outcome = { ok: false, error: String(error?.stack ?? error) }
  }
  try {
    await within('the clean-up', current.end())
  } catch (error) {
    outcome = { ok: false, error: `${outcome.error ?? ''} clean-up: ${error}` }
  }
  return outcome
}

const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
