// contracts/iii-bus.md §14.3: the rules most likely to be missed, on raw frames.
import assert from 'node:assert/strict'
import { createChannel } from 'iii-sdk/helpers'
import { bus, lists, row, until, within } from './lib.mjs'

row('14.3 rule 1 first', 'metadata may come first, with nulls', async (t) => {
  const peer = await t.raw()
  peer.send({
    type: 'invokefunction', function_id: 'engine::workers::register', action: { type: 'void' }, invocation_id: null, metadata: null, namespace: null,
    data: { runtime: 'raw', name: t.id('w'), version: null, description: null, os: null, pid: 7, telemetry: null, isolation: null, namespace: null },
  })
  peer.send({ type: 'registerfunction', id: t.id('f'), description: null, request_format: null, response_format: null, metadata: null, invocation: null })
  await lists(t.worker('watcher')).has(t.id('f'))
})

row('14.3 rule 1 last', 'metadata may come last; the registrations before it count', async (t) => {
  const peer = await t.raw()
  peer.send({ type: 'registerfunction', id: t.id('f') })
  peer.send({ type: 'registertrigger', id: t.id('t'), trigger_type: 'subscribe', function_id: t.id('f'), config: { topic: t.id('x') } })
  peer.hello(t.id('w'))
  const watcher = t.worker('watcher')
  await lists(watcher).has(t.id('f'))
  await lists(watcher).bound(t.id('f'))
})

row('14.3 rule 2', 'an executor always gets an invocation id, and answers nobody awaits are dropped', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  executor.send({ type: 'registertrigger', id: t.id('t'), trigger_type: 'subscribe', function_id: t.id('f'), config: { topic: t.id('x') } })
  const caller = await t.peer('caller')
  await lists(t.worker('watcher')).bound(t.id('f'))
  caller.send({ type: 'invokefunction', function_id: t.id('f'), data: { by: 'void' }, action: { type: 'void' } })
  const first = await executor.answer(t.id('f'), { result: 1 })
  await caller.call('publish', { topic: t.id('x'), data: { by: 'trigger' } })
  const second = await executor.answer(t.id('f'), { result: 2 })
  executor.send({ type: 'invocationresult', invocation_id: crypto.randomUUID(), function_id: t.id('f'), result: 'for nobody' })
  await executor.alive()
  await caller.alive()
  for (const call of [first, second]) assert.match(call.invocation_id, /^[0-9a-f-]{36}$/)
  assert.equal(first.action, undefined)
  assert.deepEqual(caller.frames.filter((f) => f.type === 'invocationresult'), [])
})

row('14.3 rule 3', '_caller_worker_id is set on direct and void calls, cannot be forged, and not on deliveries', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  executor.send({ type: 'registertrigger', id: t.id('t'), trigger_type: 'subscribe', function_id: t.id('f'), config: { topic: t.id('x') } })
  const caller = await t.peer('caller')
  await lists(t.worker('watcher')).bound(t.id('f'))
  const answered = caller.call(t.id('f'), { _caller_worker_id: 'forged', n: 1 })
  assert.deepEqual((await executor.answer(t.id('f'), {})).data, { n: 1, _caller_worker_id: caller.workerId })
  await answered
  caller.send({ type: 'invokefunction', function_id: t.id('f'), data: {}, action: { type: 'void' } })
  assert.equal((await executor.answer(t.id('f'), {})).data._caller_worker_id, caller.workerId)
  const list = caller.call(t.id('f'), [1, 2])
  assert.deepEqual((await executor.answer(t.id('f'), {})).data, [1, 2])
  await list
  await caller.call('publish', { topic: t.id('x'), data: { n: 2 } })
  assert.deepEqual((await executor.answer(t.id('f'), {})).data, { n: 2 })
})

row('14.3 rule 4', 'registrations are not acknowledged and parked triggers are no error', async (t) => {
  const peer = await t.peer('peer')
  peer.send({ type: 'registerfunction', id: t.id('f') })
  peer.send({ type: 'registertriggertype', id: t.id('type'), description: 'mine' })
  peer.send({ type: 'registertrigger', id: t.id('a'), trigger_type: 'subscribe', function_id: t.id('f'), config: { topic: 'x' } })
  peer.send({ type: 'registertrigger', id: t.id('b'), trigger_type: t.id('unknown'), function_id: t.id('f'), config: {} })
  peer.send({ type: 'unregistertrigger', id: t.id('a'), trigger_type: 'subscribe' })
  peer.send({ type: 'unregisterfunction', id: t.id('f') })
  await peer.alive()
  assert.deepEqual(peer.frames, [])
})

row('14.3 rule 5', 'frames without a required field are dropped in silence, the connection stays', async (t) => {
  const peer = await t.peer('peer')
  peer.send({ type: 'registertriggertype', id: t.id('type') })
  peer.send({ type: 'registertrigger', trigger_type: 'subscribe', function_id: t.id('f'), config: { topic: 'x' } })
  peer.send({ type: 'registerfunction', description: 'no id' })
  peer.send({ type: 'invokefunction', data: {} })
  await peer.alive()
  assert.deepEqual(peer.frames, [])
  assert.deepEqual(await lists(t.worker('watcher')).types({ prefix: t.id('type') }), [])
})

row('14.3 rule 6', 'a client that comes back with reattach evicts its former self and keeps its name', async (t) => {
  const first = await t.raw()
  first.hello(t.id('me'))
  first.send({ type: 'registerfunction', id: t.id('f') })
  const { worker_id, reattach_token } = await first.next('workerregistered')
  const watcher = t.worker('watcher')
  await lists(watcher).has(t.id('f'))
  const second = await t.raw()
  second.send({ type: 'reattach', previous_worker_id: worker_id, reattach_token })
  second.hello(t.id('me'))
  second.send({ type: 'registerfunction', id: t.id('f') })
  const again = await second.next('workerregistered')
  await within('the old connection to end', first.closed)
  await second.alive()
  assert.notEqual(again.worker_id, worker_id)
  assert.notEqual(again.reattach_token, reattach_token)
  const answer = watcher.trigger({ function_id: t.id('f'), payload: {} })
  await second.answer(t.id('f'), { result: 'second' })
  assert.equal(await answer, 'second')
  assert.deepEqual(second.frames.filter((f) => f.type === 'registrationrejected'), [])
})

row('14.3 rule 7', '/otel and /ws/channels share the port', async (t) => {
  const telemetry = await t.raw(`${bus}/otel`)
  telemetry.send(Buffer.from('OTLP{"resourceSpans":[]}'))
  telemetry.send('ignored')
  const channel = await createChannel(t.worker('w'))
  const url = (end) => `${bus}/ws/channels/${end.channel_id}?key=${encodeURIComponent(end.access_key)}&dir=${end.direction}`
  const reader = await t.raw(url(channel.readerRef))
  const writer = await t.raw(url(channel.writerRef))
  writer.send({ type: 'hello' })
  await reader.next('hello')
  writer.socket.close()
  await within('the end of the channel', reader.closed)
  assert.equal(telemetry.socket.readyState, telemetry.socket.OPEN)
  assert.deepEqual(telemetry.frames, [])
})

row('14.3 rule 8', 'no result and null mean the same, and are undefined or null at the caller', async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('f') })
  const client = t.worker('client')
  await lists(client).has(t.id('f'))
  for (const frame of [{}, { result: null }]) {
    const answer = client.trigger({ function_id: t.id('f'), payload: {} })
    await executor.answer(t.id('f'), frame)
    assert.equal((await answer) ?? 'nothing', 'nothing')
  }
  const client2 = t.worker('client2')
  client2.registerFunction(t.id('g'), async () => undefined)
  await lists(client2).has(t.id('g'))
  assert.equal(await client.trigger({ function_id: t.id('g'), payload: {} }), undefined)
  await until('still there', async () => (await lists(client).workers()).length > 0)
})
