// contracts/iii-bus.md §14.2, T1: service-triggers (10), the shapes of §7.1.
import assert from 'node:assert/strict'
import { lists, row, signal, until, within } from './lib.mjs'

const schema = { type: 'object', properties: { city: { type: 'string' } } }

/** A worker with one described function and one cron trigger on it. */
async function described(t) {
  const worker = t.worker('server')
  const id = t.id('lookup')
  worker.registerFunction(id, async () => 1, { description: 'looks up', request_format: schema, response_format: { type: 'number' } })
  worker.registerTrigger({ type: 'cron', function_id: id, config: { expression: '0 0 3 1 1 *' }, metadata: { why: 'test' } })
  await lists(worker).bound(id)
  const info = (name, payload) => worker.trigger({ function_id: `engine::${name}::info`, payload })
  return { worker, id, info }
}

row('14.2 service-triggers 1', 'triggers::list includes http and has no schemas', async (t) => {
  const types = await lists(t.worker('w')).types()
  for (const id of ['http', 'cron', 'subscribe']) assert.ok(types.some((type) => type.id === id), id)
  for (const type of types) {
    assert.deepEqual(Object.keys(type).filter((k) => /schema|format/.test(k)), [])
    assert.equal(typeof type.description, 'string')
  }
})

row('14.2 service-triggers 2', 'triggers::info has the schemas of a type and counts its instances', async (t) => {
  const { info, worker, id } = await described(t)
  worker.registerTriggerType({ id: t.id('mail'), description: 'mail', trigger_request_format: schema, call_request_format: { type: 'string' } }, {
    registerTrigger: async () => {}, unregisterTrigger: async () => {},
  })
  worker.registerTrigger({ type: t.id('mail'), function_id: id, config: { city: 'Oslo' } })
  await lists(worker).bound(id, 2)
  const mail = await info('triggers', { id: t.id('mail') })
  assert.deepEqual([mail.id, mail.worker_name, mail.description], [t.id('mail'), `${t.prefix}-server`, 'mail'])
  assert.deepEqual([mail.configuration_schema, mail.request_schema], [schema, { type: 'string' }])
  assert.equal(mail.instance_count, 1)
  assert.ok((await info('triggers', { id: 'cron' })).instance_count >= 1)
  await assert.rejects(info('triggers', { id: t.id('absent') }), { code: 'NOT_FOUND' })
})

row('14.2 service-triggers 3', 'functions::list filters by prefix, worker and search, without schemas', async (t) => {
  const { worker, id } = await described(t)
  await until('the worker filter', async () =>
    (await lists(worker).functions({ worker: `${t.prefix}-server` })).map((f) => f.function_id).join() === id)
  assert.deepEqual((await lists(worker).functions({ prefix: t.id('') })).map((f) => f.function_id), [id])
  const found = await lists(worker).functions({ search: id })
  assert.equal(found[0].function_id, id)
  assert.equal(found[0].request_schema, undefined)
})

row('14.2 service-triggers 4', 'functions::list hides engine and internal functions unless asked', async (t) => {
  const { worker } = await described(t)
  worker.registerFunction(t.id('hidden'), async () => 1, { metadata: { internal: true } })
  await until('the internal function', async () =>
    (await lists(worker).functions({ prefix: t.id('hidden'), include_internal: true })).length === 1)
  const open = (await lists(worker).functions()).map((f) => f.function_id)
  assert.ok(!open.includes(t.id('hidden')))
  assert.ok(!open.includes('engine::functions::list'))
  const all = (await lists(worker).functions({ include_internal: true })).map((f) => f.function_id)
  assert.ok(all.includes('engine::functions::list'))
})

row('14.2 service-triggers 5', 'functions::info has schemas and triggers', async (t) => {
  const { info, id } = await described(t)
  const got = await info('functions', { function_id: id })
  assert.equal(got.function_id, id)
  assert.deepEqual(got.request_schema, schema)
  assert.deepEqual(got.response_schema, { type: 'number' })
  assert.deepEqual(got.registered_triggers.map((r) => [r.trigger_type, r.config.expression]), [['cron', '0 0 3 1 1 *']])
})

row('14.2 service-triggers 6', 'functions::info answers a batch, each missing one by itself', async (t) => {
  const { info, id } = await described(t)
  const { functions } = await info('functions', { function_ids: [id, t.id('absent')] })
  assert.equal(functions[0].function_id, id)
  assert.deepEqual(functions[1], { function_id: t.id('absent'), error: 'not_found' })
  await assert.rejects(info('functions', { function_id: t.id('absent') }), { code: 'NOT_FOUND' })
  const many = Array.from({ length: 33 }, (_, n) => `x${n}`)
  await assert.rejects(info('functions', { function_ids: many }), { code: 'INVALID_ARGUMENTS' })
})

row('14.2 service-triggers 7', 'workers::info names functions and bindings', async (t) => {
  const { info, id, worker } = await described(t)
  const got = await until('the worker', () => info('workers', { name: `${t.prefix}-server` }).catch(() => undefined))
  assert.equal(got.worker.pid, process.pid)
  assert.equal(got.worker.function_count, 1)
  assert.ok(JSON.stringify(got.functions).includes(id))
  assert.equal(got.registered_triggers.length, 1)
  assert.ok(Array.isArray(got.trigger_types))
  await assert.rejects(worker.trigger({ function_id: 'engine::workers::info', payload: { name: 'nobody' } }), { code: 'NOT_FOUND' })
})

row('14.2 service-triggers 8', 'registered-triggers::list summarises long configs', async (t) => {
  const { worker, id } = await described(t)
  worker.registerTrigger({ type: 'subscribe', function_id: id, config: { topic: 't'.repeat(200) } })
  await lists(worker).bound(id, 2)
  const [long] = await lists(worker).triggers({ function_id: id, trigger_type: 'subscribe' })
  assert.equal(long.config.topic.length, 200)
  assert.equal([...long.config_summary].length, 81)
  assert.ok(long.config_summary.endsWith('…'), long.config_summary)
})

row('14.2 service-triggers 9', 'registered-triggers::info gives trigger and function', async (t) => {
  const { worker, id, info } = await described(t)
  const [one] = await lists(worker).triggers({ function_id: id })
  const got = await info('registered-triggers', { id: one.id })
  assert.equal(got.function_id, id)
  assert.deepEqual(got.metadata, { why: 'test' })
  assert.ok(got.trigger && got.function, 'trigger and function')
  await assert.rejects(info('registered-triggers', { id: 'absent' }), { code: 'NOT_FOUND' })
})

row('14.2 service-triggers 10', 'workers-available and functions-available fire', async (t) => {
  const worker = t.worker('watcher')
  const joined = signal()
  const changed = signal()
  worker.registerFunction(t.id('workers'), async (event) => {
    if (event.event === 'worker_connected') joined.fire(event.worker_id)
  })
  worker.registerFunction(t.id('functions'), async (event) => {
    if (event.functions.some((f) => f.function_id === t.id('late'))) changed.fire(event.event)
  })
  worker.registerTrigger({ type: 'engine::workers-available', function_id: t.id('workers'), config: {} })
  worker.registerTrigger({ type: 'engine::functions-available', function_id: t.id('functions'), config: {} })
  await lists(worker).bound(t.id('workers'))
  await lists(worker).bound(t.id('functions'))
  t.worker('newcomer').registerFunction(t.id('late'), async () => 1)
  assert.match(await within('worker_connected', joined.fired), /^[0-9a-f-]{36}$/)
  assert.equal(await within('functions_changed', changed.fired), 'functions_changed')
})
