// contracts/iii-bus.md §§1-5 on raw frames, where the published client cannot.
import assert from 'node:assert/strict'
import { row, lists, bus, until, within, signal } from './lib.mjs'

row('1.2 bad frames', 'what does not decode is dropped without a reply', async (t) => {
  const peer = await t.peer('peer')
  const bad = ['', '   ', '{', '[]', '"x"', '{}', '{"type":1}', '{"type":"nosuchthing"}', '{"type":"unregistertriggertype","id":"x"}',
    '{"type":"invokefunction","invocation_id":"not-a-uuid","function_id":"f","data":{}}', '{"type":"registerfunction","id":7}']
  for (const text of bad) peer.socket.send(text)
  peer.socket.send(Buffer.from([0xff, 0xfe, 0x00]))
  await peer.alive()
  assert.deepEqual(peer.frames, [])
})

row('1.2 binary frame', 'a binary frame that is JSON is a message, telemetry is not', async (t) => {
  const peer = await t.peer('peer')
  for (const prefix of ['OTLP', 'MTRC', 'LOGS']) peer.socket.send(Buffer.from(`${prefix}{"a":1}`))
  peer.socket.send(Buffer.from('{"type":"ping"}'))
  await peer.next('pong')
  assert.deepEqual(peer.frames, [])
})

row('1.3 sizes', 'an 8 MiB payload goes both ways', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  const caller = await t.peer('caller')
  await executor.alive()
  const text = 'x'.repeat(8 << 20)
  const answer = caller.call(t.id('f'), { text })
  const call = await executor.answer(t.id('f'), { result: { text } })
  assert.equal(call.data.text.length, text.length)
  assert.equal((await answer).result.text.length, text.length)
})

row('1.4 keep-alive', 'a WebSocket ping gets a pong', async (t) => {
  const raw = await t.raw()
  const pong = signal()
  raw.socket.on('pong', (data) => pong.fire(data.toString()))
  raw.socket.ping('are you there')
  assert.equal(await within('the pong', pong.fired), 'are you there')
})

row('2.1 workerregistered', 'it is the first frame and names worker and token', async (t) => {
  const raw = await t.raw()
  await until('a frame', () => raw.frames.length > 0)
  const [first] = raw.frames
  assert.equal(first.type, 'workerregistered')
  for (const value of [first.worker_id, first.reattach_token]) assert.match(value, /^[0-9a-f-]{36}$/)
})

row('2.12 name conflict', 'a second claimant of a name is rejected and closed', async (t) => {
  const incumbent = await t.peer('twin')
  const second = await t.raw()
  second.hello(`${t.prefix}-twin`)
  const refused = await second.next('registrationrejected')
  assert.equal(refused.code, 'WORKER_NAMESPACE_CONFLICT')
  assert.equal(refused.worker_name, `${t.prefix}-twin`)
  assert.equal(refused.namespace, 'default')
  assert.equal(refused.owner_worker_id, incumbent.workerId)
  await within('the close', second.closed)
  await incumbent.alive()
})

row('2.12 function conflict', 'a second owner of a function is rejected and stays connected', async (t) => {
  const incumbent = await t.peer('incumbent')
  incumbent.send({ type: 'registerfunction', id: t.id('f') })
  await incumbent.alive()
  const second = await t.peer('second')
  second.send({ type: 'registerfunction', id: t.id('f') })
  const refused = await second.next('registrationrejected')
  assert.deepEqual([refused.code, refused.function_id, refused.owner_worker_id],
    ['FUNCTION_NAMESPACE_CONFLICT', t.id('f'), incumbent.workerId])
  const answer = second.call(t.id('f'))
  await incumbent.answer(t.id('f'), { result: 'incumbent' })
  assert.equal((await answer).result, 'incumbent')
})

row('3.2 namespaces', 'ids are per namespace, absent means default, blank is refused', async (t) => {
  const inside = await t.peer('inside', { namespace: t.id('space') })
  inside.send({ type: 'registerfunction', id: t.id('f') })
  await inside.alive()
  const caller = await t.peer('caller')
  const absent = await caller.call(t.id('f'))
  assert.equal(absent.error.code, 'function_not_found')
  assert.ok(absent.error.message.includes(t.id('space')), absent.error.message)
  const answer = caller.call(t.id('f'), {}, { namespace: t.id('space') })
  assert.equal((await inside.answer(t.id('f'), { result: 1 })).namespace, undefined)
  assert.equal((await answer).result, 1)
  assert.equal((await caller.call(t.id('f'), {}, { namespace: ' ' })).error.code, 'INVALID_NAMESPACE')
  inside.send({ type: 'registerfunction', id: 'engine::mine' })
  const refused = await inside.next('registrationrejected')
  assert.deepEqual([refused.code, refused.owner_worker_id], ['FUNCTION_NAMESPACE_CONFLICT', ''])
})

row('3.2 grace', 'a worker that never says its name is registered after the grace', async (t) => {
  const raw = await t.raw()
  raw.send({ type: 'registerfunction', id: t.id('f') })
  await lists(t.worker('watcher')).has(t.id('f'))
})

row('4.2 lost executor', 'a call under way fails with invocation_stopped', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  const caller = await t.peer('caller')
  await executor.alive()
  const answer = caller.call(t.id('f'))
  await executor.next('invokefunction')
  executor.socket.terminate()
  assert.equal((await answer).error.code, 'invocation_stopped')
  assert.equal((await caller.call(t.id('f'))).error.code, 'function_not_found')
})

row('4.3 stolen token', 'reattach with a wrong token evicts nobody', async (t) => {
  const owner = await t.raw()
  owner.hello(t.id('owner'))
  const { worker_id } = await owner.next('workerregistered')
  const thief = await t.raw()
  thief.send({ type: 'reattach', previous_worker_id: worker_id, reattach_token: crypto.randomUUID() })
  thief.send({ type: 'reattach', previous_worker_id: worker_id })
  await thief.alive()
  await owner.alive()
})

row('4.3 reconnect', 'the published client replays all when its socket breaks', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('f'), async () => 'back')
  server.registerTrigger({ type: 'subscribe', function_id: t.id('f'), config: { topic: t.id('x') } })
  const client = t.worker('client')
  await lists(client).bound(t.id('f'))
  const before = (await lists(client).workers()).find((w) => w.name === `${t.prefix}-server`).id
  server.ws.terminate()
  await until('a new connection', async () =>
    (await lists(client).workers()).some((w) => w.name === `${t.prefix}-server` && w.id !== before))
  await lists(client).bound(t.id('f'))
  assert.equal(await client.trigger({ function_id: t.id('f'), payload: {} }), 'back')
})

row('5.1 concurrency', 'answers find their callers whatever their order', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('wait'), async ({ n }) => {
    await new Promise((resolve) => setTimeout(resolve, (n * 7) % 40))
    return n
  })
  const client = t.worker('client')
  await lists(client).has(t.id('wait'))
  const numbers = Array.from({ length: 200 }, (_, n) => n)
  assert.deepEqual(await Promise.all(numbers.map((n) => client.trigger({ function_id: t.id('wait'), payload: { n } }))), numbers)
})

row('5.8 tracing', 'traceparent, baggage and metadata reach the executor unchanged', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  const caller = await t.peer('caller')
  await executor.alive()
  const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', baggage: 'tenant=t9' }
  const answer = caller.call(t.id('f'), {}, { ...trace, metadata: { side: [1] } })
  const call = await executor.answer(t.id('f'), { result: 1, ...trace })
  assert.deepEqual([call.traceparent, call.baggage, call.metadata], [trace.traceparent, trace.baggage, { side: [1] }])
  assert.equal((await answer).traceparent, trace.traceparent)
})

row('5.2 missing data', 'data that a client leaves out is null or the frame is dropped', async (t) => {
  const peer = await t.peer('peer')
  peer.send({ type: 'registerfunction', id: t.id('f') })
  peer.send({ type: 'invokefunction', invocation_id: crypto.randomUUID(), function_id: t.id('f') })
  await peer.alive()
  const [call] = peer.frames.filter((f) => f.type === 'invokefunction')
  assert.ok(call === undefined || call.data === null, JSON.stringify(call))
})

row('8 channel credentials', 'a wrong key or id is 404, a second taker is closed', async (t) => {
  const peer = await t.peer('peer')
  const { writer, reader } = (await peer.call('engine::channels::create', { buffer_size: 2 })).result
  const url = (id, key, dir) => `${bus}/ws/channels/${id}?key=${encodeURIComponent(key)}&dir=${dir}`
  for (const bad of [url('absent', writer.access_key, 'write'), url(writer.channel_id, 'wrong', 'write')]) {
    await assert.rejects(t.raw(bad), /404/)
  }
  const first = await t.raw(url(reader.channel_id, reader.access_key, 'read'))
  const second = await t.raw(url(reader.channel_id, reader.access_key, 'read'))
  await within('the second reader to be closed', second.closed)
  const out = await t.raw(url(writer.channel_id, writer.access_key, 'write'))
  out.send({ type: 'still', n: 1 })
  assert.equal((await first.next('still')).n, 1)
})

row('1.4 telemetry', 'a client with its telemetry on works, and its second socket is no worker', async (t) => {
  const worker = t.worker('reporting', { otel: { enabled: true }, enableMetricsReporting: true })
  worker.registerFunction(t.id('f'), async (data, metadata) => metadata)
  const client = t.worker('client')
  await lists(client).has(t.id('f'))
  assert.deepEqual(await worker.trigger({ function_id: t.id('f'), payload: {}, metadata: { m: 1 } }), { m: 1 })
  const names = (await lists(client).workers()).map((w) => w.name).filter((name) => name.startsWith(`${t.prefix}-`))
  assert.deepEqual(names, [`${t.prefix}-client`, `${t.prefix}-reporting`])
})
