// contracts/iii-bus.md §14.1: what the Go suite exercises.
import assert from 'node:assert/strict'
import { createChannel } from 'iii-sdk/helpers'
import { TriggerAction } from 'iii-sdk'
import { http, lists, row, signal, until, within } from './lib.mjs'

row('14.1 TestConnectSuccessfully', 'a worker connects and lists functions', async (t) => {
  const listed = await t.worker('w').trigger({ function_id: 'engine::functions::list', payload: {} })
  assert.ok(Array.isArray(listed.functions))
})

row('14.1 TestRegisterAndInvokeFunction', 'a registered function answers a call', async (t) => {
  const server = t.worker('server')
  const client = t.worker('client')
  server.registerFunction(t.id('double'), async ({ n }) => ({ n: 2 * n }))
  await lists(client).has(t.id('double'))
  assert.deepEqual(await client.trigger({ function_id: t.id('double'), payload: { n: 21 } }), { n: 42 })
})

row('14.1 TestInvokeFireAndForget', 'a void call arrives and answers nothing', async (t) => {
  const server = t.worker('server')
  const arrived = signal()
  server.registerFunction(t.id('note'), async ({ n }) => { arrived.fire(n) })
  await lists(server).has(t.id('note'))
  const answer = await t.worker('client').trigger({ function_id: t.id('note'), payload: { n: 5 }, action: TriggerAction.Void() })
  assert.equal(answer, undefined)
  assert.equal(await within('the call', arrived.fired), 5)
})

row('14.1 TestHTTPTriggerRoundtrip', 'an http trigger reaches its function', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('hello'), async (request) => ({ status_code: 200, body: { hello: request.query_params.name } }))
  server.registerTrigger({ type: 'http', function_id: t.id('hello'), config: { api_path: t.path('hello'), http_method: 'GET' } })
  await lists(server).bound(t.id('hello'))
  const response = await fetch(`${http}${t.path('hello')}?name=Bergen`)
  assert.equal(response.status, 200)
  assert.deepEqual(await response.json(), { hello: 'Bergen' })
})

row('14.1 TestConflictingRouteStructureIsRejected', 'of two routes of one shape the first survives', async (t) => {
  const server = t.worker('server')
  const bind = (param) => server.registerTrigger({
    type: 'http', function_id: t.id('item'), config: { api_path: t.path(`items/:${param}`), http_method: 'GET' },
  })
  server.registerFunction(t.id('item'), async (request) => ({ body: request.path_params }))
  bind('id')
  await lists(server).bound(t.id('item'))
  bind('name')
  assert.deepEqual(await (await fetch(`${http}${t.path('items/7')}`)).json(), { id: '7' })
  const survivors = await lists(server).triggers({ function_id: t.id('item') })
  assert.deepEqual(survivors.map((s) => s.config.api_path), [t.path('items/:id')])
})

row('14.1 TestChannelStreamSenderToProcessor', 'a sender streams to a processor over a channel', async (t) => {
  const processor = t.worker('processor')
  const sender = t.worker('sender')
  processor.registerFunction(t.id('length'), async ({ label, reader }) => ({ label, length: (await reader.readAll()).length }))
  await lists(sender).has(t.id('length'))
  const channel = await createChannel(sender)
  const answer = sender.trigger({ function_id: t.id('length'), payload: { label: 'x', reader: channel.readerRef } })
  channel.writer.stream.write(Buffer.alloc(100_000, 1))
  channel.writer.stream.end(Buffer.alloc(50_000, 2))
  assert.deepEqual(await answer, { label: 'x', length: 150_000 })
})

row('14.1 TestHandlerErrorSurfacesAsInvocationError', 'a failed handler is an error of code invocation_failed', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('fail'), async () => { throw new Error('out of stock') })
  await lists(server).has(t.id('fail'))
  await assert.rejects(t.worker('client').trigger({ function_id: t.id('fail'), payload: {} }), (error) => {
    assert.equal(error.name, 'InvocationError')
    assert.equal(error.code, 'invocation_failed')
    assert.match(error.message, /out of stock/)
    assert.ok(error.stacktrace)
    return true
  })
})

row('14.1 TestTypedInvocationErrorPropagates', "a handler's own code passes unchanged", async (t) => {
  const executor = await t.peer('executor')
  executor.send({ type: 'registerfunction', id: t.id('gate') })
  const client = t.worker('client')
  await lists(client).has(t.id('gate'))
  const answer = client.trigger({ function_id: t.id('gate'), payload: {} })
  await executor.answer(t.id('gate'), { error: { code: 'FORBIDDEN', message: 'not yours' } })
  await assert.rejects(answer, { code: 'FORBIDDEN', message: 'FORBIDDEN: not yours' })
})

row('14.1 TestInvokeUnknownFunctionErrors', 'an unknown function is function_not_found', async (t) => {
  await assert.rejects(t.worker('w').trigger({ function_id: t.id('absent'), payload: {} }), (error) => {
    assert.equal(error.code, 'function_not_found')
    assert.ok(error.message.includes(t.id('absent')), error.message)
    return true
  })
})

row('14.1 TestRegistrationDoesNotDuplicate', 'an id registered again is listed once', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('once'), async () => 1).unregister()
  server.registerFunction(t.id('once'), async () => 2)
  await lists(server).has(t.id('once'))
  const peer = await t.peer('peer')
  peer.send({ type: 'registerfunction', id: t.id('twice'), description: 'first' })
  peer.send({ type: 'registerfunction', id: t.id('twice'), description: 'second' })
  await peer.alive()
  assert.equal((await lists(server).functions({ prefix: t.id('once') })).length, 1)
  assert.deepEqual((await lists(server).functions({ prefix: t.id('twice') })).map((f) => f.description), ['second'])
})

row('14.1 TestRegisterTriggerUnknownType', 'a trigger of an unknown type parks and harms nothing', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('f'), async () => 'here')
  server.registerTrigger({ type: t.id('nobody-provides'), function_id: t.id('f'), config: {} })
  await lists(server).has(t.id('f'))
  assert.equal(await server.trigger({ function_id: t.id('f'), payload: {} }), 'here')
  assert.deepEqual(await lists(server).triggers({ function_id: t.id('f') }), [])
})

row('14.1 TestWorkerRegistersWithGoRuntime', 'a worker is listed with what it says of itself', async (t) => {
  const client = t.worker('me', { workerDescription: 'tests' })
  const me = await until('the worker to be listed', async () =>
    (await lists(client).workers({ runtime: 'node' })).find((w) => w.name === `${t.prefix}-me`))
  assert.equal(me.status, 'connected')
  assert.equal(me.version, '0.22.1')
  assert.equal(me.description, 'tests')
  assert.ok(me.os)
  assert.match(me.id, /^[0-9a-f-]{36}$/)
})
