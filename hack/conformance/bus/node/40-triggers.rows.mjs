// contracts/iii-bus.md §14.2, T1: trigger-fault-tolerance (2) and
// trigger-type-lifecycle (3); the rules are those of §6.1.
import assert from 'node:assert/strict'
import { TriggerAction } from 'iii-sdk'
import { lists, row, signal, until, within } from './lib.mjs'

/** Makes a worker the provider of a type and records what it is told. */
function provide(worker, type, refuse) {
  const told = { bound: [], unbound: [] }
  worker.registerTriggerType({ id: type, description: 'a mailbox' }, {
    registerTrigger: async (binding) => {
      told.bound.push(binding)
      if (refuse) throw new Error(refuse)
    },
    unregisterTrigger: async (binding) => { told.unbound.push(binding.id) },
  })
  return told
}

row('14.2 trigger-fault-tolerance 1', 'a trigger waits for its provider and is then activated', async (t) => {
  const consumer = t.worker('consumer')
  consumer.registerFunction(t.id('handle'), async () => 1)
  consumer.registerTrigger({ type: t.id('mail'), function_id: t.id('handle'), config: { box: 'in' }, metadata: { m: 1 } })
  await lists(consumer).has(t.id('handle'))
  assert.deepEqual(await lists(consumer).triggers({ function_id: t.id('handle') }), [])
  const told = provide(t.worker('provider'), t.id('mail'))
  await lists(consumer).bound(t.id('handle'))
  assert.deepEqual(told.bound.map((b) => [b.function_id, b.config, b.metadata]), [[t.id('handle'), { box: 'in' }, { m: 1 }]])
})

row('14.2 trigger-fault-tolerance 2', "a provider's refusal parks the trigger and reaches its owner", async (t) => {
  const owner = await t.peer('owner')
  provide(t.worker('provider'), t.id('mail'), 'mailbox unknown')
  const watcher = t.worker('watcher')
  await until('the type', async () => (await lists(watcher).types({ prefix: t.id('mail') })).length === 1)
  owner.send({ type: 'registertrigger', id: t.id('b'), trigger_type: t.id('mail'), function_id: t.id('f'), config: {} })
  const refused = await owner.next('triggerregistrationresult')
  assert.equal(refused.id, t.id('b'))
  assert.equal(refused.error.code, 'trigger_registration_failed')
  assert.match(refused.error.message, /mailbox unknown/)
  assert.deepEqual(await lists(watcher).triggers({ trigger_type: t.id('mail') }), [])
})

row('14.2 trigger-type-lifecycle 1', 'bindings survive a restart of the provider', async (t) => {
  const consumer = t.worker('consumer')
  consumer.registerFunction(t.id('handle'), async () => 1)
  const first = t.worker('provider')
  provide(first, t.id('mail'))
  consumer.registerTrigger({ type: t.id('mail'), function_id: t.id('handle'), config: { box: 'a' } })
  await lists(consumer).bound(t.id('handle'))
  await first.shutdown()
  await lists(consumer).bound(t.id('handle'), 0)
  const told = provide(t.worker('provider-again'), t.id('mail'))
  await lists(consumer).bound(t.id('handle'))
  assert.deepEqual(told.bound.map((b) => b.config), [{ box: 'a' }])
})

row('14.2 trigger-type-lifecycle 2', 'a disconnected consumer costs the provider exactly one unregister', async (t) => {
  const told = provide(t.worker('provider'), t.id('mail'))
  const watcher = t.worker('watcher')
  const consumer = t.worker('consumer')
  consumer.registerFunction(t.id('handle'), async () => 1)
  consumer.registerTrigger({ type: t.id('mail'), function_id: t.id('handle'), config: {} })
  await lists(watcher).bound(t.id('handle'))
  await consumer.shutdown()
  await until('the unregister', () => told.unbound.length > 0)
  await lists(watcher).bound(t.id('handle'), 0)
  assert.deepEqual(told.unbound, told.bound.map((b) => b.id))
})

row('14.2 trigger-type-lifecycle 3', 'a provider fires, and an unregistered trigger reaches it', async (t) => {
  const provider = t.worker('provider')
  const told = provide(provider, t.id('mail'))
  const consumer = t.worker('consumer')
  const got = signal()
  consumer.registerFunction(t.id('handle'), async (data, metadata) => { got.fire({ data, metadata }) })
  const trigger = consumer.registerTrigger({ type: t.id('mail'), function_id: t.id('handle'), config: {}, metadata: { m: 1 } })
  await lists(consumer).bound(t.id('handle'))
  // The engine lists a trigger once it has told the provider, not once that has
  // heard it.
  await until('the binding', () => told.bound.length > 0)
  const [binding] = told.bound
  await provider.trigger({
    function_id: binding.function_id, payload: { mail: 'hi' }, metadata: binding.metadata, action: TriggerAction.Void(),
  })
  const { data, metadata } = await within('the firing', got.fired)
  assert.equal(data.mail, 'hi')
  assert.deepEqual(metadata, { m: 1 })
  trigger.unregister()
  await until('the unregister', () => told.unbound.length === 1)
  assert.equal(told.unbound[0], binding.id)
})

row('6.1 replaced provider', 'a new provider of the same type takes over all bindings', async (t) => {
  const consumer = t.worker('consumer')
  consumer.registerFunction(t.id('handle'), async () => 1)
  provide(t.worker('old'), t.id('mail'))
  consumer.registerTrigger({ type: t.id('mail'), function_id: t.id('handle'), config: { n: 1 } })
  await lists(consumer).bound(t.id('handle'))
  const told = provide(t.worker('new'), t.id('mail'))
  await until('the replay', () => told.bound.length === 1)
  assert.deepEqual(told.bound[0].config, { n: 1 })
})

row('6.2 register_trigger', 'an ownerless trigger survives its caller and is taken back by id', async (t) => {
  const told = provide(t.worker('provider'), t.id('mail'))
  const watcher = t.worker('watcher')
  const caller = t.worker('caller')
  await until('the type', async () => (await lists(watcher).types({ prefix: t.id('mail') })).length === 1)
  const { id } = await caller.trigger({
    function_id: 'engine::register_trigger', payload: { trigger_type: t.id('mail'), function_id: t.id('f'), config: { n: 2 } },
  })
  await caller.shutdown()
  await lists(watcher).bound(t.id('f'))
  assert.deepEqual(told.bound.map((b) => b.id), [id])
  assert.deepEqual(await watcher.trigger({ function_id: 'engine::unregister_trigger', payload: { id } }), { removed: true })
  await until('the unregister', () => told.unbound.includes(id))
})
