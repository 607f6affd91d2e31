// contracts/iii-sandbox.md §1, §2: the daemon as a worker, and its refusals.
import assert from 'node:assert/strict'
import { call, client, refused, refusal, row, table } from './lib.mjs'

const FUNCTIONS = ['sandbox::create', 'sandbox::exec', 'sandbox::stop', 'sandbox::list', 'sandbox::run', 'sandbox::catalog::list',
  ...['ls', 'stat', 'mkdir', 'write', 'read', 'rm', 'chmod', 'mv', 'grep', 'sed'].map((name) => `sandbox::fs::${name}`)]

row('1 functions', 'exactly the sixteen functions are there, of worker iii-sandbox in default', async () => {
  const { functions } = await call('engine::functions::list', { prefix: 'sandbox::' })
  assert.deepEqual(functions.map((f) => f.function_id).sort(), [...FUNCTIONS].sort())
  for (const f of functions) {
    assert.equal(f.worker_name, 'iii-sandbox')
    assert.equal(f.namespace, 'default')
  }
})

table('1 schemas', 'a JSON schema of request and answer is published', FUNCTIONS.map((id) => [id, id]), async (_, id) => {
  const info = await call('engine::functions::info', { function_id: id })
  for (const schema of [info.request_schema ?? info.request_format, info.response_schema ?? info.response_format]) {
    assert.equal(schema.type, 'object')
    assert.ok(schema.properties || id.endsWith('::list'))
  }
})

table('2.1 undecodable', 'a request that does not decode has no S-code', [
  ['null', 'sandbox::list', null], ['a missing field', 'sandbox::create', {}], ['a wrong type', 'sandbox::create', { image: 'node', cpus: 'x' }],
  ['a wrong type below', 'sandbox::exec', { sandbox_id: 'x', args: 'x' }], ['an env of numbers', 'sandbox::create', { image: 'node', env: { A: 1 } }],
  ['negative seconds', 'sandbox::create', { image: 'node', idle_timeout_secs: -1 }], ['no pattern', 'sandbox::fs::grep', { sandbox_id: 'x', path: '/' }],
  ['no lang', 'sandbox::run', { image: 'node', code: '' }],
], async (_, id, payload) => {
  await assert.rejects(client.trigger({ function_id: id, payload }), (error) => {
    assert.match(String(error.message), /serialization error:/)
    assert.ok(!String(error.message).includes('{'))
    return true
  })
})

row('2.1 form', 'a refusal is the text of a JSON object with all its fields', async () => {
  try {
    await call('sandbox::create', { image: 'ruby' })
    assert.fail('it was created')
  } catch (error) {
    const body = refusal(error)
    assert.deepEqual(Object.keys(body).sort(), ['code', 'docs_url', 'fix', 'fix_note', 'message', 'retryable', 'type'])
    assert.equal(body.message, "image 'ruby' not in catalog")
    assert.equal(body.type, 'config')
    assert.equal(body.retryable, false)
    assert.equal(body.fix, null)
    assert.equal(typeof body.fix_note, 'string')
    assert.match(body.docs_url, /#S100$/)
    assert.ok(String(error.message).includes('handler error: {'), error.message)
  }
})

row('1 extra fields', 'unknown fields and the caller’s id are ignored', async (t) => {
  const box = await t.sandbox({ surprise: { a: 1 }, _caller_worker_id: 'x' })
  assert.equal((await box.exec({ cmd: 'true', surprise: 1 })).success, true)
})

row('1 ownership', 'any peer may use any sandbox', async (t) => {
  const box = await t.sandbox()
  // The row's own client made it; a function of the bus sees the same daemon.
  const { sandboxes } = await call('sandbox::list')
  assert.ok(sandboxes.some((s) => s.sandbox_id === box.id))
})

const NOBODY = '3f0c0d4e-0000-4000-8000-000000000000'
const every = ['exec', 'stop', 'fs::ls', 'fs::stat', 'fs::mkdir', 'fs::write', 'fs::read', 'fs::rm', 'fs::chmod', 'fs::mv', 'fs::grep', 'fs::sed']
const full = { cmd: 'true', path: '/x', content: '', mode: '0644', src: '/x', dst: '/y', pattern: 'x', replacement: '' }

table('2.2 S001', 'an id that is none', every.map((name) => [name, name]), async (_, name) => {
  const body = await refused('S001', `sandbox::${name}`, { ...full, sandbox_id: 'none' })
  assert.ok(body.message.startsWith('invalid request: '))
  assert.equal(body.type, 'validation')
})

table('2.2 S002', 'an id that nobody has', every.map((name) => [name, name]), async (_, name) => {
  const body = await refused('S002', `sandbox::${name}`, { ...full, sandbox_id: NOBODY })
  assert.equal(body.message, `sandbox not found: ${NOBODY}`)
  assert.equal(body.retryable, false)
})
