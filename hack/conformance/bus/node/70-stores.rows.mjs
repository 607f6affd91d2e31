// contracts/iii-bus.md §14.2, T3: pubsub (2) and the basics of state; queue
// (§5.4) and cron (§6.3).
import assert from 'node:assert/strict'
import { TriggerAction } from 'iii-sdk'
import { lists, row, signal, until, within } from './lib.mjs'

row('14.2 pubsub 1', 'a published message reaches every subscriber of its topic', async (t) => {
  const worker = t.worker('w')
  const got = []
  for (const name of ['a', 'b']) {
    worker.registerFunction(t.id(name), async (data) => { got.push([name, data]) })
    worker.registerTrigger({ type: 'subscribe', function_id: t.id(name), config: { topic: t.id('news') } })
    await lists(worker).bound(t.id(name))
  }
  worker.registerFunction(t.id('other'), async () => { got.push(['other']) })
  worker.registerTrigger({ type: 'subscribe', function_id: t.id('other'), config: { topic: t.id('sport') } })
  await lists(worker).bound(t.id('other'))
  const answer = await worker.trigger({ function_id: 'publish', payload: { topic: t.id('news'), data: { n: 1 } } })
  assert.equal(answer ?? null, null)
  await until('both subscribers', () => got.length === 2)
  assert.deepEqual(got.sort(), [['a', { n: 1 }], ['b', { n: 1 }]])
})

row('14.2 pubsub 2', 'an unsubscribed function gets nothing; an empty topic is refused', async (t) => {
  const worker = t.worker('w')
  const got = []
  const triggers = {}
  for (const name of ['stays', 'goes']) {
    worker.registerFunction(t.id(name), async () => { got.push(name) })
    triggers[name] = worker.registerTrigger({ type: 'subscribe', function_id: t.id(name), config: { topic: t.id('news') } })
    await lists(worker).bound(t.id(name))
  }
  triggers.goes.unregister()
  await lists(worker).bound(t.id('goes'), 0)
  await worker.trigger({ function_id: 'publish', payload: { topic: t.id('news'), data: {} } })
  await until('the delivery', () => got.length > 0)
  assert.deepEqual(got, ['stays'])
  await assert.rejects(worker.trigger({ function_id: 'publish', payload: { topic: '', data: {} } }), { code: 'topic_not_set' })
})

/** The state functions on a scope of the row. */
function state(t, worker) {
  const scope = t.id('scope')
  const call = (name, payload) => worker.trigger({ function_id: `state::${name}`, payload: { scope, ...payload } })
  return { scope, call }
}

row('14.2 state 1', 'a first set has no old value, a second has', async (t) => {
  const { call } = state(t, t.worker('w'))
  assert.deepEqual(await call('set', { key: 'k', value: { n: 1 } }), { old_value: null, new_value: { n: 1 } })
  assert.deepEqual(await call('set', { key: 'k', value: 2 }), { old_value: { n: 1 }, new_value: 2 })
  assert.equal(await call('get', { key: 'k' }), 2)
})

row('14.2 state 2', 'an absent value is undefined, not null', async (t) => {
  const { call } = state(t, t.worker('w'))
  assert.equal(await call('get', { key: 'absent' }), undefined)
})

row('14.2 state 3', 'delete gives the old value and removes it', async (t) => {
  const { call } = state(t, t.worker('w'))
  await call('set', { key: 'k', value: 'v' })
  assert.equal(await call('delete', { key: 'k' }), 'v')
  assert.equal(await call('get', { key: 'k' }), undefined)
})

row('14.2 state 4', 'list gives the values of a scope, list_groups the scopes', async (t) => {
  const worker = t.worker('w')
  const { call, scope } = state(t, worker)
  await call('set', { key: 'a', value: { n: 1 } })
  await call('set', { key: 'b', value: { n: 2 } })
  assert.deepEqual((await call('list', {})).map((v) => v.n).sort(), [1, 2])
  const { groups } = await worker.trigger({ function_id: 'state::list_groups', payload: {} })
  assert.ok(groups.includes(scope))
})

row('14.2 state 5', 'update sets, merges, counts, appends and removes', async (t) => {
  const { call } = state(t, t.worker('w'))
  await call('set', { key: 'k', value: { n: 1, gone: true, inner: { a: 1 }, list: ['x'] } })
  const { old_value, new_value } = await call('update', { key: 'k', ops: [
    { type: 'set', path: 'name', value: 'Kari' },
    { type: 'increment', path: 'n', by: 4 },
    { type: 'decrement', path: 'n', by: 2 },
    { type: 'remove', path: 'gone' },
    { type: 'merge', path: 'inner', value: { b: 2 } },
    { type: 'append', path: 'list', value: 'y' },
  ] })
  assert.equal(old_value.n, 1)
  assert.deepEqual(new_value, { n: 3, name: 'Kari', inner: { a: 1, b: 2 }, list: ['x', 'y'] })
  assert.deepEqual(await call('get', { key: 'k' }), new_value)
})

row('14.2 state 6', 'a state trigger reports created, updated and deleted', async (t) => {
  const worker = t.worker('w')
  const { call, scope } = state(t, worker)
  const events = []
  worker.registerFunction(t.id('changed'), async (event) => { events.push(event) })
  worker.registerTrigger({ type: 'state', function_id: t.id('changed'), config: { scope, key: 'k' } })
  await lists(worker).bound(t.id('changed'))
  await call('set', { key: 'other', value: 0 })
  for (const [change, payload] of [['set', { key: 'k', value: 1 }], ['set', { key: 'k', value: 2 }], ['delete', { key: 'k' }]]) {
    const before = events.length
    await call(change, payload)
    await until('the event', () => events.length > before)
  }
  assert.deepEqual(events.map((e) => [e.type, e.event_type, e.key, e.old_value ?? null, e.new_value ?? null]), [
    ['state', 'state:created', 'k', null, 1], ['state', 'state:updated', 'k', 1, 2], ['state', 'state:deleted', 'k', 2, null],
  ])
})

row('5.4 enqueue', 'an enqueued call answers with a receipt and runs later', async (t) => {
  const worker = t.worker('w')
  const got = signal()
  worker.registerFunction(t.id('job'), async (data) => { got.fire(data) })
  await lists(worker).has(t.id('job'))
  const receipt = await worker.trigger({
    function_id: t.id('job'), payload: { n: 3 }, action: TriggerAction.Enqueue({ queue: t.id('jobs') }),
  })
  assert.equal(typeof receipt.messageReceiptId, 'string')
  assert.deepEqual(await within('the job', got.fired), { n: 3 })
})

row('6.3 durable:subscriber', 'a durable message is retried until it is handled', async (t) => {
  const worker = t.worker('w')
  let attempts = 0
  const handled = signal()
  worker.registerFunction(t.id('handle'), async (data) => {
    attempts += 1
    if (attempts < 3) throw new Error('not yet')
    handled.fire(data)
  })
  worker.registerTrigger({
    type: 'durable:subscriber', function_id: t.id('handle'),
    config: { topic: t.id('durable'), queue_config: { maxRetries: 5, backoffType: 'fixed', backoffDelayMs: 20 } },
  })
  await lists(worker).bound(t.id('handle'))
  await worker.trigger({ function_id: 'iii::durable::publish', payload: { topic: t.id('durable'), data: { n: 1 } } })
  assert.deepEqual(await within('the third attempt', handled.fired), { n: 1 })
  assert.equal(attempts, 3)
})

row('6.3 cron', 'a cron trigger fires each second', async (t) => {
  const worker = t.worker('w')
  const events = []
  worker.registerFunction(t.id('tick'), async (event) => { events.push(event) })
  worker.registerTrigger({ type: 'cron', function_id: t.id('tick'), config: { expression: '* * * * * *' } })
  await until('two ticks', () => events.length >= 2)
  assert.equal(events[0].trigger, 'cron')
  assert.equal(typeof events[0].job_id, 'string')
  assert.ok(Date.parse(events[1].scheduled_time) > Date.parse(events[0].scheduled_time))
  assert.ok(!Number.isNaN(Date.parse(events[0].actual_time)))
})
