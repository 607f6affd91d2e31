// What a guest does to exhaust its host: each is bounded to the guest, whose next
// program runs, and whose neighbour notices nothing.
import assert from 'node:assert/strict'
import { call, patient, row, until, world } from './lib.mjs'

async function aliveAfter(box, neighbour) {
  assert.equal((await neighbour.exec({ cmd: 'echo alive' })).stdout, 'alive\n')
  await until('the guest’s next program', async () => {
    try {
      return (await box.exec({ cmd: 'echo alive', timeout_ms: patient(5000) })).stdout === 'alive\n'
    } catch {
      return false
    }
  })
}

/** Runs a bomb until its timeout, or its own end. */
async function explode(box, language, code, timeout_ms = 1500) {
  try {
    return await box.run(language, code, [], { timeout_ms })
  } catch (error) {
    assert.match(String(error.message), /"code":"S(200|300)"/)
    return undefined
  }
}

const FORK = {
  shell: 'f() { f | f & }; f; while :; do sleep 1; done',
  python: `
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.01)`,
  node: `const { spawn } = require('child_process'); setInterval(() => { for (let i = 0; i < 50; i++) spawn('sleep', ['100']).on('error', () => {}) }, 10)`,
}
for (const [language, code] of Object.entries(FORK)) {
  row('9 fork bomb', language, async (t) => {
    const [box, neighbour] = [await t.sandbox(), await t.sandbox()]
    await explode(box, language, code)
    await aliveAfter(box, neighbour)
    await until('the bomb is within its bound', async () => (await box.commands()).length <= 520)
  })
}

const MEMORY = {
  python: 'x = []\nwhile True: x.append(bytearray(b"x" * (8 << 20)))',
  node: 'const x = []; for (;;) x.push(Buffer.alloc(8 << 20, 1))',
  shell: 'x=x; while :; do x=$x$x; done',
}
for (const [language, code] of Object.entries(MEMORY)) {
  row('9 memory bomb', language, async (t) => {
    const [box, neighbour] = [await t.sandbox({ memory_mb: 128 }), await t.sandbox()]
    const got = await explode(box, language, code, 10_000)
    assert.ok(!got || !got.success, got && got.stderr)
    await aliveAfter(box, neighbour)
  })
}

row('9 disk fill', 'all folders together are bounded, and can be emptied again', async (t) => {
  const [box, neighbour] = [await t.sandbox({ memory_mb: 128 }), await t.sandbox()]
  const got = await box.run('shell', 'for d in /tmp /usr/local /var/tmp /dev/shm /; do cat /dev/zero > $d/full; stat -c %s $d/full; done 2>/dev/null')
  const total = got.stdout.trim().split('\n').map(Number).reduce((a, b) => a + b, 0)
  assert.ok(total > 8 << 20 && total <= 128 << 20, String(total))
  await box.refuses('S216', 'fs::write', { path: '/opt/more', content: 'x'.repeat(500_000) })
  await box.sh('rm -f /tmp/full /usr/local/full /var/tmp/full /dev/shm/full /full; echo again > /tmp/x')
  await aliveAfter(box, neighbour)
})

row('9 inodes', 'the number of files is bounded', async (t) => {
  const [box, neighbour] = [await t.sandbox({ memory_mb: 128 }), await t.sandbox()]
  const got = await box.run('python', `
import os
os.mkdir('/many'); n = 0
try:
    while n < 2000000: os.mkdir('/many/%d' % n); n += 1
except OSError: pass
print(n)`)
  assert.ok(Number(got.stdout) < 100_000, got.stdout)
  await aliveAfter(box, neighbour)
})

row('9 output flood', 'endless output is read and dropped', async (t) => {
  const [box, neighbour] = [await t.sandbox(), await t.sandbox()]
  const got = await box.run('shell', 'head -c 300000000 /dev/zero; head -c 30000000 /dev/zero >&2')
  assert.deepEqual([got.stdout.length, got.stderr.length, got.success], [1 << 20, 1 << 20, true])
  await box.refuses('S200', 'exec', { cmd: 'yes', timeout_ms: 500 })
  await aliveAfter(box, neighbour)
})

row('9 descriptors', 'a program that takes all descriptors harms only itself', async (t) => {
  const [box, neighbour] = [await t.sandbox(), await t.sandbox()]
  const got = await box.run('python', `
import os, resource
n = 0
try:
    while n < 10000000: os.open('/dev/null', 0); n += 1
except OSError as e: print(n, e.errno)`)
  const [n, errno] = got.stdout.trim().split(' ').map(Number)
  assert.ok(n <= 65536 && errno === 24, got.stdout + got.stderr)
  await aliveAfter(box, neighbour)
})

row('9 zombies', 'orphans are reaped, and the zombies of a living parent go with it', async (t) => {
  const [box, neighbour] = [await t.sandbox(), await t.sandbox()]
  await box.sh('for i in $(seq 300); do (true & ) ; done')
  await explode(box, 'python', `
import os, time
try:
    while True:
        if os.fork() == 0: os._exit(0)
except OSError: time.sleep(60)`, 1000)
  await aliveAfter(box, neighbour)
  await until('no zombies', async () => (await box.sh("cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -c1 | grep -c Z || true")) === '0\n')
})

row('9 SIGTERM', 'a program that ignores signals ends at its timeout and at stop', async (t) => {
  const box = await t.sandbox()
  const stubborn = 'trap "" TERM INT HUP QUIT; while :; do sleep 1; done'
  await box.refuses('S200', 'exec', { argv: ['sh', '-c', stubborn], timeout_ms: 300 })
  await box.sh(`sh -c '${stubborn}' >/dev/null 2>&1 </dev/null &`)
  const began = Date.now()
  await call('sandbox::stop', { sandbox_id: box.id })
  assert.ok(Date.now() - began < patient(3000))
})

row('9 daemonized', 'a child in a session of its own outlives its exec, but not its sandbox', async (t) => {
  const box = await t.sandbox()
  await box.sh("setsid sh -c 'trap \"\" HUP TERM; while :; do date +%s%N > /beat; sleep 0.02; done' >/dev/null 2>&1 </dev/null &")
  const first = await until('a beat', () => box.text('/beat').catch(() => ''))
  await until('another beat', async () => { const next = await box.text('/beat'); return next && next !== first })
  await call('sandbox::stop', { sandbox_id: box.id })
  await box.refuses('S002', 'fs::stat', { path: '/' })
})

row('9 processor', 'a spinning guest leaves its neighbour time', async (t) => {
  const [box, neighbour] = [await t.sandbox(), await t.sandbox()]
  await box.sh('for i in 1 2 3 4 5 6 7 8; do sh -c "while :; do :; done" >/dev/null 2>&1 </dev/null & done')
  const began = Date.now()
  await neighbour.run('python', 'sum(range(3000000))')
  assert.ok(Date.now() - began < patient(5000), `${Date.now() - began} ms`)
})

row('9 sockets', 'a guest with a network that opens all it can harms only itself', async (t) => {
  const [box, neighbour] = [await t.sandbox({ network: true }), await t.sandbox({ network: true })]
  await explode(box, 'python', `
import socket
kept = []
while True:
    s = socket.socket(); s.setblocking(False); s.connect_ex(('100.96.0.1', ${world.openPort})); kept.append(s)
    if len(kept) > 3000: break`, 5000)
  const got = await neighbour.run('python', `
import socket
print(socket.create_connection(('100.96.0.1', ${world.openPort}), 10).recv(9))`)
  assert.equal(got.stdout, "b'secret'\n", got.stderr)
  await aliveAfter(box, neighbour)
})
