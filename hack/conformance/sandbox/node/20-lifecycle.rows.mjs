// contracts/iii-sandbox.md §3.1, §3.4, §3.5, §3.7, §5: create, stop, list, the
// catalog and the reaper.
import assert from 'node:assert/strict'
import { call, refused, row, table, until, world } from './lib.mjs'

const rowOf = async (id, at) => (await call('sandbox::list', {}, at)).sandboxes.find((s) => s.sandbox_id === id)

row('3.1 answer', 'create answers with a UUID and the image as asked', async (t) => {
  const answer = await call('sandbox::create', { image: 'node' })
  t.adopt(answer.sandbox_id)
  assert.deepEqual(Object.keys(answer).sort(), ['image', 'sandbox_id'])
  assert.equal(answer.image, 'node')
  assert.match(answer.sandbox_id, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
})

table('3.1 image', 'both presets run their interpreter', [['python', 'python', 'python3'], ['node', 'node', 'node']], async (t, image, program) => {
  const box = await t.sandbox({ image })
  assert.equal((await box.exec({ argv: [program, '--version'] })).exit_code, 0)
})

table('3.1 env', 'the environment of a sandbox reaches its programs', [
  ['as a list', ['A=1', 'B=x=y', 'odd-name=2']], ['as a map', { A: '1', B: 'x=y' }],
], async (t, env) => {
  const box = await t.sandbox({ env })
  assert.equal(await box.sh('echo $A $B'), '1 x=y\n')
})

table('3.1 refusals', 'create refuses', [
  ['a name of an env map', 'S001', { env: { '1A': '' } }], ['an unknown image', 'S100', { image: 'ruby' }],
  ['an image outside the allowlist', 'S100', { image: 'forbidden' }], ['more cpus than the image allows', 'S400', { cpus: 3 }],
  ['more memory than the image allows', 'S400', { memory_mb: 1025 }], ['no cpu', 'S300', { cpus: 0 }], ['hardly any memory', 'S300', { memory_mb: 1 }],
], async (_, code, change) => {
  await refused(code, 'sandbox::create', { image: 'python', ...change })
})

row('3.1 S102', 'an image that cannot be installed is a transient fault', async () => {
  const body = await refused('S102', 'sandbox::create', { image: 'absent' })
  assert.ok(body.message.startsWith("auto-install failed for image 'absent'"))
  assert.deepEqual([body.type, body.retryable], ['transient', true])
})

row('3.1 S101', 'without auto_install it is absent', async () => {
  // One place is free, so that the cap does not answer first.
  const body = await refused('S101', 'sandbox::create', { image: 'absent' }, 'strict')
  assert.ok(body.message.startsWith('rootfs missing on disk for image'))
  assert.equal(body.type, 'internal')
})

row('3.1 S400', 'the cap of sandboxes holds in a burst', async (t) => {
  const burst = await Promise.allSettled(Array.from({ length: 6 }, () => t.sandbox({ image: 'node', idle_timeout_secs: 1000 }, 'strict')))
  assert.equal(burst.filter((b) => b.status === 'fulfilled').length, 1)
  assert.ok((await refused('S400', 'sandbox::create', { image: 'node' }, 'strict')).message.startsWith('resource limit exceeded: '))
  assert.equal((await call('sandbox::list', {}, 'strict')).sandboxes.length, 2)
})

row('3.1 resources', 'cpus and memory_mb bound the guest', async (t) => {
  const box = await t.sandbox({ memory_mb: 96 })
  const got = await box.run('python', "x = b'x' * (200 << 20); print('had it')")
  assert.ok(!got.success && !got.stdout.includes('had it'), got.stdout)
  assert.equal((await box.exec({ cmd: 'true' })).success, true)
})

row('3.4 stop', 'stop answers, and all is gone', async (t) => {
  const box = await t.sandbox()
  assert.deepEqual(await call('sandbox::stop', { sandbox_id: box.id, wait: true }), { sandbox_id: box.id, stopped: true })
  assert.equal(await rowOf(box.id), undefined)
  await box.refuses('S002', 'stop', {})
  await box.refuses('S002', 'exec', { cmd: 'true' })
  await box.refuses('S002', 'fs::stat', { path: '/' })
})

row('3.4 running', 'a running program is not waited for', async (t) => {
  const box = await t.sandbox()
  const running = box.run('shell', 'touch /on; sleep 50').then(() => 'answered', (error) => error)
  await until('the program', () => box.fs('stat', { path: '/on' }).then(() => true, () => false))
  await call('sandbox::stop', { sandbox_id: box.id })
  assert.match(String((await running).message), /"code":"S300"/)
})

row('3.5 row', 'list has all fields of a sandbox', async (t) => {
  const box = await t.sandbox({ name: 'labelled' })
  const idle = await rowOf(box.id)
  assert.ok(Number.isInteger(idle.age_secs) && idle.age_secs <= 5)
  delete idle.age_secs
  assert.deepEqual(idle, {
    sandbox_id: box.id, name: 'labelled', image: 'python', exec_in_progress: false, exec_in_flight: 0, exec_slots_free: 4, stopped: false, isolation: world.isolation,
  })
  const running = box.run('shell', 'touch /on; while [ ! -e /off ]; do sleep 0.01; done')
  await until('the program', () => box.fs('stat', { path: '/on' }).then(() => true, () => false))
  const busy = await rowOf(box.id)
  assert.deepEqual([busy.exec_in_progress, busy.exec_in_flight, busy.exec_slots_free], [true, 1, 3])
  await box.write('/off', '')
  assert.equal((await running).success, true)
})

row('3.5 names', 'names are labels: none, or the same twice', async (t) => {
  const boxes = [await t.sandbox(), await t.sandbox({ name: 'twin' }), await t.sandbox({ name: 'twin' })]
  assert.deepEqual(await Promise.all(boxes.map(async (b) => (await rowOf(b.id)).name)), [null, 'twin', 'twin'])
})

row('3.7 catalog', 'presets come first, then custom images, sorted', async () => {
  const { images } = await call('sandbox::catalog::list')
  assert.deepEqual(images, [
    { name: 'python', oci_ref: 'iiidev/python:latest', kind: 'preset' }, { name: 'node', oci_ref: 'iiidev/node:latest', kind: 'preset' },
    { name: 'absent', oci_ref: 'example/absent:1', kind: 'custom' }, { name: 'forbidden', oci_ref: 'example/forbidden:1', kind: 'custom' },
  ])
})

row('5 idle', 'an idle sandbox is removed', async (t) => {
  const box = await t.sandbox({ idle_timeout_secs: world.patience })
  await until('its removal', async () => !(await rowOf(box.id)), 30_000)
  await box.refuses('S002', 'exec', { cmd: 'true' })
}, { slow: true })

row('5 busy', 'a running program keeps its sandbox, a background one does not', async (t) => {
  const [busy, background] = [await t.sandbox({ idle_timeout_secs: world.patience }), await t.sandbox({ idle_timeout_secs: world.patience })]
  await background.sh('sleep 100 >/dev/null 2>&1 </dev/null &')
  const running = busy.run('shell', 'sleep 24; echo survived')
  await until('the removal of the other', async () => !(await rowOf(background.id)), 30_000)
  assert.equal((await running).stdout, 'survived\n')
}, { slow: true })

row('5 file calls', 'file calls keep a sandbox', async (t) => {
  const box = await t.sandbox({ idle_timeout_secs: 2 * world.patience })
  const control = await t.sandbox({ idle_timeout_secs: 2 * world.patience })
  await until('the removal of the other', async () => {
    await box.fs('stat', { path: '/' })
    return !(await rowOf(control.id))
  }, 30_000)
  assert.ok(await rowOf(box.id))
}, { slow: true })

row('5 network', 'use of the network keeps a sandbox', async (t) => {
  const box = await t.sandbox({ idle_timeout_secs: 3 * world.patience, network: true })
  const control = await t.sandbox({ idle_timeout_secs: 3 * world.patience })
  await box.write('/talk.py', `
import socket, time
while True:
    try: socket.create_connection(('100.96.0.1', ${world.openPort}), 5).recv(9)
    except OSError: pass
    time.sleep(0.5)`)
  await box.sh('python3 /talk.py >/dev/null 2>&1 </dev/null &')
  await until('the removal of the other', async () => !(await rowOf(control.id)), 30_000)
  assert.ok(await rowOf(box.id))
}, { slow: true })
