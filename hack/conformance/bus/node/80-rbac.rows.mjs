// contracts/iii-bus.md §14.2, T4: rbac-workers; the rules are those of §9. The
// listeners' functions are served by one trusted worker for all rows.
import assert from 'node:assert/strict'
import { registerWorker } from 'iii-sdk'
import { createChannel } from 'iii-sdk/helpers'
import { bus, guarded, lists, rbac, row, within } from './lib.mjs'

const authority = { grants: {}, handshakes: [], functions: [], triggers: [], types: [], middleware: [] }
let started

/** Starts the trusted worker once; it answers by the tables above. */
async function trust(t, grants = {}) {
  authority.grants[t.prefix] = { context: { row: t.prefix }, ...grants }
  if (started) return
  started = registerWorker(bus, { workerName: 'authority', enableMetricsReporting: false, otel: { enabled: false } })
  started.registerFunction('conformance::auth', async (handshake) => {
    authority.handshakes.push(handshake)
    const token = handshake.query_params.token?.[0] ?? handshake.headers['x-token']
    if (!authority.grants[token]) throw new Error('token rejected')
    return authority.grants[token]
  })
  started.registerFunction('conformance::on-function', async (input) => hook(authority.functions, input, input.function_id))
  started.registerFunction('conformance::on-trigger', async (input) => hook(authority.triggers, input, input.function_id))
  started.registerFunction('conformance::on-type', async (input) => hook(authority.types, input, input.trigger_type_id))
  started.registerFunction('conformance::middleware', async (input) => {
    authority.middleware.push(input)
    const result = await started.trigger({ function_id: input.function_id, payload: input.payload })
    return { through: 'middleware', result }
  })
  await lists(started).has('conformance::middleware')
}

/** Denies ids that say so, rewrites descriptions, and lets the rest pass. */
function hook(seen, input, id) {
  seen.push(input)
  if (id.includes('denied')) return null
  return id.includes('rewritten') ? { description: 'by the hook' } : {}
}

/** Two echo functions on the open port. */
async function served(t) {
  const server = t.worker('server')
  for (const name of ['yes', 'no']) server.registerFunction(t.id(name), async () => name)
  await lists(server).has(t.id('no'))
  return server
}

const guest = (t, name, url = rbac) => t.worker(name, {}, `${url}?token=${t.prefix}`)
const denied = { code: 'FORBIDDEN' }

row('14.2 rbac-workers 1', 'the auth function sees headers, query and address', async (t) => {
  await trust(t)
  const worker = t.worker('guest', { headers: { 'X-Token': t.prefix, 'X-More': 'm' } }, `${rbac}?shard=a&shard=b`)
  await worker.trigger({ function_id: 'engine::log::info', payload: { message: 'hello' } })
  const seen = authority.handshakes.find((h) => h.headers['x-token'] === t.prefix)
  assert.equal(seen.headers['x-more'], 'm')
  assert.deepEqual(seen.query_params.shard, ['a', 'b'])
  assert.equal(seen.ip_address, '127.0.0.1')
})

row('14.2 rbac-workers 2', 'a refused handshake gets AUTH_ERROR and the end', async (t) => {
  await trust(t)
  const raw = await t.raw(`${rbac}?token=wrong`)
  const refusal = await raw.next('error')
  assert.equal(refusal.error.code, 'AUTH_ERROR')
  assert.match(refusal.error.message, /token rejected/)
  await within('the close', raw.closed)
  assert.deepEqual(raw.frames, [])
})

row('14.2 rbac-workers 3', 'allowed_functions are called, others are FORBIDDEN with a reason', async (t) => {
  await trust(t, { allowed_functions: [t.id('yes')] })
  await served(t)
  const worker = guest(t, 'guest')
  assert.equal(await worker.trigger({ function_id: t.id('yes'), payload: {} }), 'yes')
  await assert.rejects(worker.trigger({ function_id: t.id('no'), payload: {} }), (error) => {
    assert.equal(error.code, 'FORBIDDEN')
    assert.match(error.message, /not allowed/)
    return true
  })
})

row('14.2 rbac-workers 4', 'forbidden_functions win over all grants', async (t) => {
  const ids = [t.id('yes'), t.id('no')]
  await trust(t, { allowed_functions: ids, namespaces: { default: [`match("${t.prefix}::*")`] }, forbidden_functions: [t.id('no')] })
  await served(t)
  const worker = guest(t, 'guest')
  assert.equal(await worker.trigger({ function_id: t.id('yes'), payload: {} }), 'yes')
  await assert.rejects(worker.trigger({ function_id: t.id('no'), payload: {} }), denied)
})

row('14.2 rbac-workers 5', 'expose_functions open ids by pattern and by metadata', async (t) => {
  await trust(t)
  const server = await served(t)
  server.registerFunction(`exposed::${t.prefix}`, async () => 'by pattern')
  server.registerFunction(t.id('public'), async () => 'by metadata', { metadata: { audience: 'guests' } })
  await lists(server).has(t.id('public'))
  const worker = guest(t, 'guest')
  assert.equal(await worker.trigger({ function_id: `exposed::${t.prefix}`, payload: {} }), 'by pattern')
  assert.equal(await worker.trigger({ function_id: t.id('public'), payload: {} }), 'by metadata')
  await assert.rejects(worker.trigger({ function_id: t.id('no'), payload: {} }), denied)
})

row('14.2 rbac-workers 6', 'infrastructure stays callable: channels, logs, metadata', async (t) => {
  await trust(t)
  const worker = guest(t, 'guest')
  await worker.trigger({ function_id: 'engine::log::warn', payload: { message: 'hello' } })
  const channel = await within('the channel', worker.trigger({ function_id: 'engine::channels::create', payload: {} }))
  assert.equal(channel.writer.direction, 'write')
  await assert.rejects(worker.trigger({ function_id: 'engine::workers::list', payload: {} }), denied)
})

row('14.2 rbac-workers 7', 'a registration prefix is stored, and stripped when the worker is called', async (t) => {
  await trust(t, { function_registration_prefix: t.id('tenant') })
  const raw = await t.peer('guest', { url: `${rbac}?token=${t.prefix}` })
  raw.send({ type: 'registerfunction', id: 'work' })
  const caller = t.worker('caller')
  await lists(caller).has(`${t.id('tenant')}::work`)
  const answer = caller.trigger({ function_id: `${t.id('tenant')}::work`, payload: {} })
  const call = await raw.answer('work', { result: 'done' })
  assert.equal(call.function_id, 'work')
  assert.equal(await answer, 'done')
  raw.send({ type: 'unregisterfunction', id: 'work' })
  await raw.alive()
  await assert.rejects(caller.trigger({ function_id: `${t.id('tenant')}::work`, payload: {} }), { code: 'function_not_found' })
})

row('14.2 rbac-workers 8', 'without allow_function_registration nothing is published', async (t) => {
  await trust(t, { allow_function_registration: false })
  const raw = await t.peer('guest', { url: `${rbac}?token=${t.prefix}` })
  raw.send({ type: 'registerfunction', id: t.id('f') })
  await raw.alive()
  assert.deepEqual(await lists(t.worker('watcher')).functions({ prefix: t.id('f') }), [])
})

row('14.2 rbac-workers 9', 'a trigger of a type not allowed is refused with FORBIDDEN', async (t) => {
  await trust(t, { allowed_trigger_types: ['subscribe'], allowed_functions: [t.id('yes')] })
  const server = await served(t)
  const raw = await t.peer('guest', { url: `${rbac}?token=${t.prefix}` })
  raw.send({ type: 'registertrigger', id: t.id('a'), trigger_type: 'cron', function_id: t.id('yes'), config: { expression: '* * * * * *' } })
  assert.equal((await raw.next('triggerregistrationresult', (f) => f.id === t.id('a'))).error.code, 'FORBIDDEN')
  raw.send({ type: 'registertrigger', id: t.id('b'), trigger_type: 'subscribe', function_id: t.id('no'), config: { topic: 'x' } })
  assert.equal((await raw.next('triggerregistrationresult', (f) => f.id === t.id('b'))).error.code, 'FORBIDDEN')
  raw.send({ type: 'registertrigger', id: t.id('c'), trigger_type: 'subscribe', function_id: t.id('yes'), config: { topic: 'x' } })
  await lists(server).bound(t.id('yes'))
})

row('14.2 rbac-workers 10', 'trigger types need allow_trigger_type_registration', async (t) => {
  await trust(t)
  const without = await t.peer('without', { url: `${rbac}?token=${t.prefix}` })
  without.send({ type: 'registertriggertype', id: t.id('refused'), description: 'x' })
  await without.alive()
  authority.grants[t.prefix].allow_trigger_type_registration = true
  const granted = await t.peer('granted', { url: `${rbac}?token=${t.prefix}` })
  granted.send({ type: 'registertriggertype', id: t.id('taken'), description: 'x' })
  await granted.alive()
  const types = (await lists(t.worker('watcher')).types({ prefix: t.id('') })).map((type) => type.id)
  assert.deepEqual(types, [t.id('taken')])
})

row('14.2 rbac-workers 11', 'registration hooks see, rewrite and silently deny', async (t) => {
  await trust(t, { allow_trigger_type_registration: true, namespaces: { default: [`${t.prefix}::*`] } })
  const raw = await t.peer('guest', { url: `${rbac}?token=${t.prefix}` })
  raw.send({ type: 'registerfunction', id: t.id('plain'), description: 'mine', metadata: { m: 1 } })
  raw.send({ type: 'registerfunction', id: t.id('rewritten'), description: 'mine' })
  raw.send({ type: 'registerfunction', id: t.id('denied') })
  raw.send({ type: 'registertriggertype', id: t.id('type'), description: 'box' })
  raw.send({ type: 'registertriggertype', id: t.id('type-denied'), description: 'box' })
  raw.send({ type: 'registertrigger', id: t.id('t'), trigger_type: 'subscribe', function_id: t.id('plain'), config: { topic: 'x' } })
  raw.send({ type: 'registertrigger', id: t.id('u'), trigger_type: 'subscribe', function_id: t.id('denied'), config: { topic: 'x' } })
  const watcher = t.worker('watcher')
  await lists(watcher).bound(t.id('plain'))
  await raw.alive()
  const functions = await lists(watcher).functions({ prefix: t.id('') })
  assert.deepEqual(functions.map((f) => [f.function_id, f.description]), [[t.id('plain'), 'mine'], [t.id('rewritten'), 'by the hook']])
  assert.deepEqual((await lists(watcher).types({ prefix: t.id('') })).map((x) => x.id), [t.id('type')])
  assert.deepEqual(await lists(watcher).triggers({ function_id: t.id('denied') }), [])
  assert.deepEqual(raw.frames, [])
  const seen = authority.functions.find((f) => f.function_id === t.id('plain'))
  assert.deepEqual([seen.description, seen.metadata, seen.context], ['mine', { m: 1 }, { row: t.prefix }])
  const trigger = authority.triggers.find((f) => f.trigger_id === t.id('t'))
  assert.deepEqual([trigger.trigger_type, trigger.config, trigger.context], ['subscribe', { topic: 'x' }, { row: t.prefix }])
  const type = authority.types.find((f) => f.trigger_type_id === t.id('type'))
  assert.deepEqual([type.description, type.context], ['box', { row: t.prefix }])
})

row('14.2 rbac-workers 12', "a listener's middleware makes the call and its result", async (t) => {
  await trust(t, { allowed_functions: [t.id('yes')] })
  await served(t)
  const worker = guest(t, 'guest', guarded)
  assert.deepEqual(await worker.trigger({ function_id: t.id('yes'), payload: { n: 1 } }), { through: 'middleware', result: 'yes' })
  const seen = authority.middleware.find((m) => m.function_id === t.id('yes'))
  assert.deepEqual(seen.payload, { n: 1 })
  assert.deepEqual(seen.context, { row: t.prefix })
  const channel = await createChannel(worker)
  assert.ok(channel.writerRef.channel_id, 'engine functions bypass the middleware')
  assert.ok(!authority.middleware.some((m) => m.function_id.startsWith('engine::')))
})

row('14.2 rbac-workers 13', 'namespace grants bound what a session joins and calls', async (t) => {
  const space = t.id('space')
  await trust(t, { namespaces: { [space]: ['work::*'] } })
  const inside = await t.peer('inside', { namespace: space })
  inside.send({ type: 'registerfunction', id: 'work::a' })
  inside.send({ type: 'registerfunction', id: 'rest::b' })
  await inside.alive()
  const raw = await t.raw(`${rbac}?token=${t.prefix}`)
  const call = raw.call('work::a', {}, { namespace: space })
  await inside.answer('work::a', { result: 1 })
  assert.equal((await call).result, 1)
  assert.equal((await raw.call('rest::b', {}, { namespace: space })).error.code, 'FORBIDDEN')
  const register = (namespace) => raw.call('engine::workers::register', { runtime: 'raw', name: t.id('x'), pid: 7, namespace })
  assert.ok((await register(t.id('elsewhere'))).error, 'a namespace without a grant')
})

row('9.2 discovery', 'a restricted worker lists only what it may call', async (t) => {
  await trust(t, { allowed_functions: [t.id('yes'), 'engine::functions::list'] })
  await served(t)
  const listed = (await lists(guest(t, 'guest')).functions({ prefix: t.id('') })).map((f) => f.function_id)
  assert.deepEqual(listed, [t.id('yes')])
})

row('9 open listener', 'the open port asks for nothing', async (t) => {
  await served(t)
  assert.equal(await t.worker('any').trigger({ function_id: t.id('no'), payload: {} }), 'no')
})
