// contracts/iii-bus.md §14.2, T2: healthcheck (1) and api-triggers (13); the
// rules are those of §6.5.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { http as streaming } from '@iii-dev/helpers/http'
import { http, lists, row, until } from './lib.mjs'

/** Serves one function under a route of the row. */
async function serve(t, method, route, handler) {
  const worker = t.worker('server')
  const id = t.id('serve')
  const ref = worker.registerFunction(id, handler)
  const config = { api_path: t.path(route), http_method: method }
  const trigger = worker.registerTrigger({ type: 'http', function_id: id, config })
  await lists(worker).bound(id)
  const request = (path = route, options = {}) => fetch(`${http}${t.path(path)}`, { method, ...options })
  return { worker, id, ref, trigger, request }
}

row('14.2 healthcheck 1', '404 before, 200 while, 404 after a route exists', async (t) => {
  assert.equal((await fetch(`${http}${t.path('health')}`)).status, 404)
  const { request, trigger } = await serve(t, 'GET', 'health', async () => ({ status_code: 200, body: { status: 'up' } }))
  const up = await request()
  assert.equal(up.status, 200)
  assert.deepEqual(await up.json(), { status: 'up' })
  trigger.unregister()
  const gone = await until('404', async () => {
    const response = await request()
    return response.status === 404 ? response : undefined
  })
  assert.equal((await gone.json()).error.code, 'NOT_FOUND')
})

row('14.2 api-triggers 1', 'GET answers JSON with status 200 by default', async (t) => {
  const { request } = await serve(t, 'GET', 'plain', async () => ({ body: { ok: true } }))
  const response = await request()
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type'), /application\/json/)
  assert.deepEqual(await response.json(), { ok: true })
})

row('14.2 api-triggers 2', 'POST hands over the parsed JSON body', async (t) => {
  const { request } = await serve(t, 'POST', 'orders', async (r) => ({ status_code: 201, body: { got: r.body } }))
  const response = await request('orders', {
    headers: { 'content-type': 'application/json; charset=utf-8' }, body: JSON.stringify({ qty: 2, note: 'Ærlig' }),
  })
  assert.equal(response.status, 201)
  assert.deepEqual(await response.json(), { got: { qty: 2, note: 'Ærlig' } })
})

row('14.2 api-triggers 3', 'path parameters and the registered pattern', async (t) => {
  const { request } = await serve(t, 'GET', 'shops/:shop/items/:item', async (r) => ({ body: { path: r.path, params: r.path_params, trigger: r.trigger } }))
  const body = await (await request('shops/oslo/items/7')).json()
  assert.equal(body.path, t.path('shops/:shop/items/:item'))
  assert.deepEqual(body.params, { shop: 'oslo', item: '7' })
  assert.deepEqual(body.trigger, { type: 'http', path: t.path('shops/:shop/items/:item'), method: 'GET' })
})

row('14.2 api-triggers 4', 'query parameters and headers', async (t) => {
  const { request } = await serve(t, 'GET', 'search', async (r) => ({ body: { query: r.query_params, h: r.headers['x-tenant'], method: r.method } }))
  const body = await (await request('search?q=a%20b&page=2', { headers: { 'X-Tenant': 't-9' } })).json()
  assert.deepEqual(body, { query: { q: 'a b', page: '2' }, h: 't-9', method: 'GET' })
})

row('14.2 api-triggers 5', 'status and headers of the answer, as object and as lines', async (t) => {
  const { request } = await serve(t, 'DELETE', 'custom/:form', async (r) => ({
    status_code: 418, body: {}, headers: r.path_params.form === 'lines' ? ['X-Kind: teapot'] : { 'X-Kind': 'teapot' },
  }))
  for (const form of ['object', 'lines']) {
    const response = await request(`custom/${form}`)
    assert.equal(response.status, 418)
    assert.equal(response.headers.get('x-kind'), 'teapot')
  }
})

row('14.2 api-triggers 6', 'a large download is streamed', async (t) => {
  const bytes = randomBytes(1 << 20)
  const { request } = await serve(t, 'GET', 'download', streaming(async (_, response) => {
    response.status(206)
    response.headers({ 'content-type': 'application/octet-stream', 'x-length': String(bytes.length) })
    response.stream.end(bytes)
  }))
  const response = await request()
  assert.equal(response.status, 206)
  assert.equal(response.headers.get('x-length'), String(bytes.length))
  assert.ok(bytes.equals(Buffer.from(await response.arrayBuffer())))
})

row('14.2 api-triggers 7', 'a large upload is streamed', async (t) => {
  const bytes = randomBytes(1 << 20)
  const { request } = await serve(t, 'PUT', 'upload', async (r) => {
    const got = await r.request_body.readAll()
    return { body: { length: got.length, same: got.equals(bytes), parsed: r.body } }
  })
  const response = await request('upload', { headers: { 'content-type': 'application/octet-stream' }, body: bytes })
  assert.deepEqual(await response.json(), { length: bytes.length, same: true, parsed: null })
})

row('14.2 api-triggers 8', 'upload and download at once', async (t) => {
  const { request } = await serve(t, 'POST', 'upper', streaming(async (r, response) => {
    response.status(200)
    response.headers({ 'content-type': 'text/plain' })
    for await (const chunk of r.request_body.stream) response.stream.write(chunk.toString().toUpperCase())
    response.stream.end()
  }))
  const text = 'abc def '.repeat(20_000)
  assert.equal(await (await request('upper', { body: text })).text(), text.toUpperCase())
})

row('14.2 api-triggers 9', 'server-sent events arrive one by one', async (t) => {
  let finish
  const { request } = await serve(t, 'GET', 'events', streaming(async (_, response) => {
    response.status(200)
    response.headers({ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.stream.write('data: one\n\n')
    await new Promise((resolve) => { finish = resolve })
    response.stream.end('data: two\n\n')
  }))
  const response = await request()
  assert.match(response.headers.get('content-type'), /text\/event-stream/)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  assert.equal((await reader.read()).value, 'data: one\n\n')
  finish()
  assert.equal((await reader.read()).value, 'data: two\n\n')
  assert.equal((await reader.read()).done, true)
})

row('14.2 api-triggers 10', 'a multipart body arrives raw', async (t) => {
  const { request } = await serve(t, 'POST', 'form', async (r) => {
    const body = await r.request_body.readAll()
    const form = await new Response(body, { headers: { 'content-type': r.headers['content-type'] } }).formData()
    return { body: { field: form.get('field'), file: await form.get('file').text(), parsed: r.body } }
  })
  const form = new FormData()
  form.set('field', 'value')
  form.set('file', new Blob(['content of the file']), 'a.txt')
  assert.deepEqual(await (await request('form', { body: form })).json(), { field: 'value', file: 'content of the file', parsed: null })
})

row('14.2 api-triggers 11', 'a raw text body is answered raw', async (t) => {
  const { request } = await serve(t, 'POST', 'raw', async (r) => ({
    headers: { 'content-type': 'text/plain' }, body: `got ${(await r.request_body.readAll()).toString()}`,
  }))
  const response = await request('raw', { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'a=1&b=2' })
  assert.match(response.headers.get('content-type'), /text\/plain/)
  assert.equal(await response.text(), 'got a=1&b=2')
})

row('14.2 api-triggers 12', 'an XML body goes through untouched', async (t) => {
  const { request } = await serve(t, 'POST', 'xml', async (r) => ({
    headers: { 'content-type': 'application/xml' }, body: (await r.request_body.readAll()).toString(),
  }))
  const xml = '<?xml version="1.0"?><a b="c">ø</a>'
  const response = await request('xml', { headers: { 'content-type': 'application/xml' }, body: xml })
  assert.match(response.headers.get('content-type'), /application\/xml/)
  assert.equal(await response.text(), xml)
})

row('14.2 api-triggers 13', 'a conflicting route is reported to its worker', async (t) => {
  const { worker, id, request } = await serve(t, 'GET', 'c/:a', async (r) => ({ body: r.path_params }))
  const reported = []
  const original = console.error
  console.error = (...args) => { reported.push(args.join(' ')); original(...args) }
  t.after(() => { console.error = original })
  worker.registerTrigger({ type: 'http', function_id: id, config: { api_path: t.path('c/:b'), http_method: 'GET' } })
  await until('the report', () => reported.some((line) => /conflicts with already-registered route/.test(line)))
  assert.deepEqual(await (await request('c/1')).json(), { a: '1' })
})

row('6.5 same route again', 'the same method and path replaces the binding', async (t) => {
  const { worker, request } = await serve(t, 'GET', 'again', async () => ({ body: 'old' }))
  worker.registerFunction(t.id('new'), async () => ({ body: 'new' }))
  worker.registerTrigger({ type: 'http', function_id: t.id('new'), config: { api_path: t.path('again'), http_method: 'GET' } })
  await until('the new answer', async () => (await (await request()).json()) === 'new')
})

row('6.5 handler error', 'a failed handler is a 500 with an error body', async (t) => {
  const { request } = await serve(t, 'GET', 'fail', async () => { throw new Error('broken') })
  const response = await request()
  assert.equal(response.status, 500)
  const { error } = await response.json()
  assert.equal(typeof error.code, 'string')
  assert.equal(typeof error.message, 'string')
})

row('6.5 condition', 'a false condition is 422 and skips the handler', async (t) => {
  const worker = t.worker('server')
  let ran = false
  worker.registerFunction(t.id('serve'), async () => { ran = true; return {} })
  worker.registerFunction(t.id('allow'), async (r) => r.query_params.go === 'yes')
  worker.registerTrigger({
    type: 'http', function_id: t.id('serve'),
    config: { api_path: t.path('guarded'), http_method: 'GET', condition_function_id: t.id('allow') },
  })
  await lists(worker).bound(t.id('serve'))
  const refused = await fetch(`${http}${t.path('guarded')}`)
  assert.equal(refused.status, 422)
  const body = await refused.json()
  assert.equal(body.error.code, 'CONDITION_NOT_MET')
  assert.equal(ran, false)
  assert.equal((await fetch(`${http}${t.path('guarded')}?go=yes`)).status, 200)
})
