// Drives an engine with the published iii-sdk client and prints one line for
// each check that held: "ok <name>". The first that fails ends the program.
import assert from 'node:assert/strict'
import { http } from '@iii-dev/helpers/http'
import { registerWorker, TriggerAction } from 'iii-sdk'
import { createChannel } from 'iii-sdk/helpers'

const [busURL, httpURL] = process.argv.slice(2)

const server = registerWorker(busURL, { workerName: 'node-server' })
const client = registerWorker(busURL, { workerName: 'node-client' })

/** Polls until probe gives something truthy; the caller's deadline ends it. */
async function until(probe) {
  for (;;) {
    const value = await probe()
    if (value) return value
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const list = async (id, payload, field) => (await client.trigger({ function_id: id, payload }))[field]
const functions = (payload) => list('engine::functions::list', payload, 'functions')
const triggers = (payload) => list('engine::registered-triggers::list', payload, 'registered_triggers')

let lastVoid
let published
server.registerFunction('node::echo', async (input, metadata) => ({ input, metadata }), { description: 'gives back' })
server.registerFunction('node::own', async () => 'mine')
server.registerFunction('node::fail', async () => { throw new Error('as asked') })
server.registerFunction('node::nothing', async () => undefined)
server.registerFunction('node::void', async (input) => { lastVoid = input.n })
server.registerFunction('node::sum', async ({ reader }) => {
  const bytes = await reader.readAll()
  return { bytes: bytes.length, sum: bytes.reduce((a, b) => a + b, 0) }
})
server.registerFunction('node::subscriber', async (input) => { published = input })
server.registerFunction('node::http', async (req) => ({
  status_code: 201,
  headers: { 'x-path': req.path },
  body: { id: req.path_params.id, dry: req.query_params.dry, got: req.body },
}))
server.registerFunction('node::stream', http(async (req, res) => {
  const body = await req.request_body.readAll()
  res.status(206)
  res.headers({ 'content-type': 'text/plain', 'x-length': String(body.length) })
  res.stream.write('first ')
  res.stream.end(body.toString().toUpperCase())
}))
server.registerTrigger({ type: 'http', function_id: 'node::http', config: { api_path: '/orders/:id', http_method: 'POST' } })
server.registerTrigger({ type: 'http', function_id: 'node::stream', config: { api_path: '/stream', http_method: 'PUT' } })
server.registerTrigger({ type: 'subscribe', function_id: 'node::subscriber', config: { topic: 'news' } })

const checks = {
  async 'own function before metadata'() {
    assert.equal(await server.trigger({ function_id: 'node::own', payload: {} }), 'mine')
  },
  async 'functions listed'() {
    const found = await until(async () => (await functions({ prefix: 'node::echo' }))[0])
    assert.equal(found.worker_name, 'node-server')
    assert.equal(found.description, 'gives back')
  },
  async 'call with metadata'() {
    const answer = await client.trigger({ function_id: 'node::echo', payload: { a: [1, 'ü'] }, metadata: { tenant: 't' } })
    assert.deepEqual(answer.input.a, [1, 'ü'])
    assert.deepEqual(answer.metadata, { tenant: 't' })
    assert.match(answer.input._caller_worker_id, /^[0-9a-f-]{36}$/)
  },
  async 'no value'() {
    assert.equal(await client.trigger({ function_id: 'node::nothing', payload: {} }), undefined)
  },
  async 'large payload'() {
    const text = 'x'.repeat(4 << 20)
    const answer = await client.trigger({ function_id: 'node::echo', payload: { text } })
    assert.equal(answer.input.text.length, text.length)
  },
  async 'void'() {
    await client.trigger({ function_id: 'node::void', payload: { n: 7 }, action: TriggerAction.Void() })
    await until(() => lastVoid === 7)
  },
  async 'handler error'() {
    await assert.rejects(client.trigger({ function_id: 'node::fail', payload: {} }), (e) =>
      e.code === 'invocation_failed' && /as asked/.test(e.message))
  },
  async 'error code of another worker'() {
    await assert.rejects(client.trigger({ function_id: 'go::fail', payload: {} }), (e) =>
      e.code === 'S211' && /no such sandbox/.test(e.message))
  },
  async 'unknown function'() {
    await assert.rejects(client.trigger({ function_id: 'node::absent', payload: {} }), { code: 'function_not_found' })
  },
  async 'channel'() {
    const channel = await createChannel(client, 4)
    const answer = client.trigger({ function_id: 'node::sum', payload: { reader: channel.readerRef } })
    channel.writer.stream.end(Buffer.alloc(1 << 20, 3))
    assert.deepEqual(await answer, { bytes: 1 << 20, sum: 3 << 20 })
  },
  async 'publish'() {
    await until(async () => (await triggers({ trigger_type: 'subscribe' })).length === 1)
    await client.trigger({ function_id: 'publish', payload: { topic: 'news', data: { n: 1 } } })
    await until(() => published)
    assert.deepEqual(published, { n: 1 })
  },
  async 'http returned'() {
    await until(async () => (await triggers({ trigger_type: 'http' })).length === 2)
    const response = await fetch(`${httpURL}/orders/7?dry=1`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ qty: 2 }),
    })
    assert.equal(response.status, 201)
    assert.equal(response.headers.get('x-path'), '/orders/:id')
    assert.deepEqual(await response.json(), { id: '7', dry: '1', got: { qty: 2 } })
  },
  async 'http streamed'() {
    const response = await fetch(`${httpURL}/stream`, { method: 'PUT', body: 'raw bytes' })
    assert.equal(response.status, 206)
    assert.equal(response.headers.get('x-length'), '9')
    assert.equal(await response.text(), 'first RAW BYTES')
  },
  async 'workers listed'() {
    const workers = await list('engine::workers::list', { runtime: 'node' }, 'workers')
    assert.deepEqual(workers.map((w) => [w.name, w.status, w.version]), [
      ['node-client', 'connected', '0.22.1'], ['node-server', 'connected', '0.22.1'],
    ])
    const info = await client.trigger({ function_id: 'engine::workers::info', payload: { name: 'node-server' } })
    assert.equal(info.worker.pid, process.pid)
  },
  async 'function described'() {
    const info = await client.trigger({ function_id: 'engine::functions::info', payload: { function_id: 'node::http' } })
    assert.equal(info.worker_name, 'node-server')
    assert.equal(info.registered_triggers[0].trigger_type, 'http')
  },
  async 'custom trigger type'() {
    const provided = {}
    const type = client.registerTriggerType({ id: 'mailbox', description: 'mail' }, {
      registerTrigger: async (t) => { provided.id = t.id; provided.config = t.config },
      unregisterTrigger: async (t) => { provided.removed = t.id },
    })
    const trigger = server.registerTrigger({ type: type.id, function_id: 'node::void', config: { box: 'in' } })
    await until(() => provided.id)
    assert.deepEqual(provided.config, { box: 'in' })
    trigger.unregister()
    await until(() => provided.removed === provided.id)
  },
  async 'unregistered function'() {
    server.registerFunction('node::gone', async () => 1).unregister()
    await until(async () => (await functions({ prefix: 'node::gone' })).length === 0)
  },
}

for (const [name, check] of Object.entries(checks)) {
  await check()
  console.log(`ok ${name}`)
}
await client.shutdown()
await server.shutdown()
// With two workers in a process the client leaves one telemetry socket open.
process.exit(0)
