// contracts/iii-bus.md §14.2, T2: middleware (5); the rules are those of §6.5.
import assert from 'node:assert/strict'
import { http, lists, row } from './lib.mjs'

/** A route whose requests pass the named middleware functions first. */
async function guard(t, middlewares) {
  const worker = t.worker('server')
  const calls = []
  for (const [name, decide] of Object.entries(middlewares)) {
    worker.registerFunction(t.id(name), async (input) => { calls.push(name); return decide(input) })
  }
  worker.registerFunction(t.id('serve'), async (r) => { calls.push('handler'); return { body: { id: r.path_params.id } } })
  worker.registerTrigger({
    type: 'http', function_id: t.id('serve'),
    config: { api_path: t.path('guarded/:id'), http_method: 'POST', middleware_function_ids: Object.keys(middlewares).map((n) => t.id(n)) },
  })
  await lists(worker).bound(t.id('serve'))
  const request = (options = {}) => fetch(`${http}${t.path('guarded/7')}?q=1`, { method: 'POST', ...options })
  return { worker, calls, request }
}

const pass = () => ({ action: 'continue' })
const stop = (status_code, body) => () => ({ action: 'respond', response: { status_code, body, headers: { 'x-by': 'middleware' } } })

row('14.2 middleware 1', 'continue lets the request through', async (t) => {
  const { calls, request } = await guard(t, { pass })
  const response = await request()
  assert.equal(response.status, 200)
  assert.deepEqual(await response.json(), { id: '7' })
  assert.deepEqual(calls, ['pass', 'handler'])
})

row('14.2 middleware 2', 'respond answers instead of the handler', async (t) => {
  const { calls, request } = await guard(t, { deny: stop(401, { error: 'who are you' }) })
  const response = await request()
  assert.equal(response.status, 401)
  assert.equal(response.headers.get('x-by'), 'middleware')
  assert.deepEqual(await response.json(), { error: 'who are you' })
  assert.deepEqual(calls, ['deny'])
})

row('14.2 middleware 3', 'several run in order until one responds', async (t) => {
  const { calls, request } = await guard(t, { first: pass, second: stop(403, {}), third: pass })
  assert.equal((await request()).status, 403)
  assert.deepEqual(calls, ['first', 'second'])
})

row('14.2 middleware 4', 'a middleware sees phase, parameters, headers and method', async (t) => {
  let seen
  const { request } = await guard(t, { look: (input) => { seen = input; return pass() } })
  assert.equal((await request({ headers: { 'x-tenant': 't-9' } })).status, 200)
  assert.equal(seen.phase, 'preHandler')
  assert.deepEqual(seen.request.path_params, { id: '7' })
  assert.deepEqual(seen.request.query_params, { q: '1' })
  assert.equal(seen.request.headers['x-tenant'], 't-9')
  assert.equal(seen.request.method, 'POST')
  assert.deepEqual(seen.context, {})
})

row('14.2 middleware 5', 'a failing middleware fails the request closed', async (t) => {
  const { calls, request } = await guard(t, { crash: () => { throw new Error('broken') } })
  const response = await request()
  assert.equal(response.status, 500)
  assert.equal(typeof (await response.json()).error.code, 'string')
  assert.deepEqual(calls, ['crash'])
})
