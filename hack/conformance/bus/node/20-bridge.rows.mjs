// contracts/iii-bus.md §14.2, T1: bridge (5) and data-channels (2).
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { TriggerAction } from 'iii-sdk'
import { createChannel } from 'iii-sdk/helpers'
import { lists, row, signal, until, within } from './lib.mjs'

row('14.2 bridge 1', 'two workers connect and see each other', async (t) => {
  const one = t.worker('one')
  t.worker('two')
  await until('both workers', async () => {
    const names = (await lists(one).workers()).map((w) => w.name)
    return names.includes(`${t.prefix}-one`) && names.includes(`${t.prefix}-two`)
  })
})

row('14.2 bridge 2', 'a function of one worker is called by another', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('greet'), async ({ who }) => `hello ${who}`)
  const client = t.worker('client')
  await lists(client).has(t.id('greet'))
  assert.equal(await client.trigger({ function_id: t.id('greet'), payload: { who: 'Åse' } }), 'hello Åse')
})

row('14.2 bridge 3', 'a void call from another worker runs the function', async (t) => {
  const server = t.worker('server')
  const got = signal()
  server.registerFunction(t.id('log'), async (data) => { got.fire(data) })
  const client = t.worker('client')
  await lists(client).has(t.id('log'))
  await client.trigger({ function_id: t.id('log'), payload: { line: 'x' }, action: TriggerAction.Void() })
  assert.equal((await within('the call', got.fired)).line, 'x')
})

row('14.2 bridge 4', 'functions are listed with description and owner', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('described'), async () => 1, { description: 'says one', metadata: { team: 'ops' } })
  await lists(server).has(t.id('described'))
  const [found] = await lists(server).functions({ prefix: t.id('described') })
  assert.equal(found.description, 'says one')
  assert.deepEqual(found.metadata, { team: 'ops' })
  assert.equal(found.namespace, 'default')
  await until('the owner', async () =>
    (await lists(server).functions({ prefix: t.id('described') }))[0].worker_name === `${t.prefix}-server`)
})

row('14.2 bridge 5', 'a worker that shuts down takes its functions along', async (t) => {
  const server = t.worker('server')
  server.registerFunction(t.id('brief'), async () => 1)
  const client = t.worker('client')
  await lists(client).has(t.id('brief'))
  await server.shutdown()
  await until('the function to be gone', async () => (await lists(client).functions({ prefix: t.id('brief') })).length === 0)
  await assert.rejects(client.trigger({ function_id: t.id('brief'), payload: {} }), { code: 'function_not_found' })
})

row('14.2 data-channels 1', 'a caller streams bytes to a function', async (t) => {
  const server = t.worker('server')
  const client = t.worker('client')
  server.registerFunction(t.id('hash'), async ({ reader }) => (await reader.readAll()).toString('base64'))
  await lists(client).has(t.id('hash'))
  const channel = await createChannel(client, 4)
  const bytes = randomBytes(1 << 20)
  const answer = client.trigger({ function_id: t.id('hash'), payload: { reader: channel.readerRef } })
  channel.writer.stream.end(bytes)
  assert.equal(await answer, bytes.toString('base64'))
})

row('14.2 data-channels 2', 'a function streams messages and bytes back, in order', async (t) => {
  const server = t.worker('server')
  const client = t.worker('client')
  server.registerFunction(t.id('produce'), async ({ writer }) => {
    writer.sendMessage(JSON.stringify({ part: 1 }))
    writer.stream.write(Buffer.from('first '))
    writer.stream.write(Buffer.alloc(200_000, 'x'))
    writer.sendMessage(JSON.stringify({ part: 2 }))
    writer.stream.end(Buffer.from(' last'))
    return { sent: true }
  })
  await lists(client).has(t.id('produce'))
  const channel = await createChannel(client)
  const messages = []
  channel.reader.onMessage((m) => messages.push(JSON.parse(m)))
  const read = channel.reader.readAll()
  assert.deepEqual(await client.trigger({ function_id: t.id('produce'), payload: { writer: channel.writerRef } }), { sent: true })
  const text = (await within('the end of the channel', read)).toString()
  assert.equal(text.length, 200_011)
  assert.ok(text.startsWith('first x') && text.endsWith('x last'))
  assert.deepEqual(messages, [{ part: 1 }, { part: 2 }])
})
