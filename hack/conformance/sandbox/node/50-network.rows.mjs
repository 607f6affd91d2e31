// contracts/iii-sandbox.md §6: network and file system of a guest.
import assert from 'node:assert/strict'
import { row, table, world } from './lib.mjs'

/** Reads from an address; exit code 1 is "no connection". */
const FETCH = {
  node: `const [host, port] = process.argv.slice(1); let text = ''
const s = require('net').connect({ host, port: +port, timeout: 4000 }, () => {})
s.on('data', (d) => text += d).on('timeout', () => s.destroy(new Error('timeout'))).on('error', () => process.exit(1)).on('end', () => { if (!text) process.exit(1); process.stdout.write(text) })`,
  python: `
import socket, sys
try: text = socket.create_connection((sys.argv[1], int(sys.argv[2])), 4).recv(99)
except OSError: sys.exit(1)
sys.stdout.write(text.decode()); sys.exit(not text)`,
  shell: 'exec bash -c \'exec 3<>/dev/tcp/$0/$1 && cat <&3\' "$1" "$2" 2>/dev/null',
}
const LANGUAGES = Object.keys(FETCH)
const GATEWAY = '100.96.0.1'

table('6 gateway', 'with a network the declared port of the host answers', LANGUAGES.map((l) => [l, l]), async (t, language) => {
  const box = await t.sandbox({ network: true })
  assert.equal((await box.run(language, FETCH[language], [GATEWAY, String(world.openPort)])).stdout, 'secret')
})

table('6 closed', 'with a network nothing else of the host answers', LANGUAGES.map((l) => [l, l]), async (t, language) => {
  const box = await t.sandbox({ network: true })
  for (const [host, port] of [[GATEWAY, world.closedPort], ['127.0.0.1', world.closedPort], ['127.0.0.1', world.openPort], ['localhost', world.closedPort]]) {
    const got = await box.run(language, FETCH[language], [host, String(port)])
    assert.ok(!got.success && got.stdout === '', `${host}:${port} said ${got.stdout}`)
  }
})

table('6 off', 'without a network nothing of the host answers', LANGUAGES.map((l) => [l, l]), async (t, language) => {
  const box = await t.sandbox()
  for (const [host, port] of [[GATEWAY, world.openPort], ['127.0.0.1', world.openPort], ['127.0.0.1', world.closedPort]]) {
    const got = await box.run(language, FETCH[language], [host, String(port)])
    assert.ok(!got.success && got.stdout === '', `${host}:${port} said ${got.stdout}`)
  }
})

row('6 interfaces', 'without a network there is only the loopback, and it works', async (t) => {
  const box = await t.sandbox()
  assert.equal(await box.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), 'lo\n')
  assert.equal((await box.run('python', `
import socket
l = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(l.getsockname()); l.accept()[0].send(b'x'); print(c.recv(1))`)).stdout, "b'x'\n")
})

row('6 addresses', 'a guest has the contract’s addresses', async (t) => {
  const box = await t.sandbox({ network: true })
  const want = /internet is unavailable/.test(world.network) ? GATEWAY : '100.96.0.2'
  assert.equal((await box.run('python', `
import socket
s = socket.create_connection(('${GATEWAY}', ${world.openPort})); print(s.getsockname()[0])`)).stdout, `${want}\n`)
})

table('6 internal', 'private addresses are out of reach', ['10.0.0.1', '192.168.1.1', '169.254.169.254', '172.16.0.1'].map((host) => [host, host]), async (t, host) => {
  const box = await t.sandbox({ network: true })
  assert.ok(!(await box.run('python', FETCH.python, [host, '80'])).success)
})

row('6 rewriting', 'loopback addresses in URLs of create’s environment become the gateway', async (t) => {
  const env = { A: 'ws://localhost:1/x', B: 'http://127.0.0.1:2', C: 'localhost:3', D: 'ws://example.org:4' }
  const print = 'echo $A $B $C $D'
  const on = await t.sandbox({ network: true, env })
  assert.equal(await on.sh(print), `ws://${GATEWAY}:1/x http://${GATEWAY}:2 localhost:3 ws://example.org:4\n`)
  assert.equal((await on.run('shell', 'echo $A', [], { env })).stdout, 'ws://localhost:1/x\n')
  assert.equal(await (await t.sandbox({ env })).sh(print), 'ws://localhost:1/x http://127.0.0.1:2 localhost:3 ws://example.org:4\n')
})

row('6 siblings', 'guests do not reach each other', async (t) => {
  const [one, other] = [await t.sandbox({ network: true }), await t.sandbox({ network: true })]
  await one.sh(`python3 -c "
import socket
l = socket.create_server(('0.0.0.0', 8123)); open('/on', 'w')
while True: l.accept()[0].send(b'secret')" >/dev/null 2>&1 </dev/null & until [ -e /on ]; do sleep 0.02; done`)
  for (const host of ['100.96.0.2', '100.96.0.6', GATEWAY]) {
    assert.ok(!(await other.run('python', FETCH.python, [host, '8123'])).success, host)
  }
})

row('6.1 folders', 'the usual folders are there and can be written', async (t) => {
  const box = await t.sandbox()
  await box.sh('for d in / /tmp /run /dev/shm /etc /home /root /var /opt /srv /mnt /media /usr /usr/local/bin; do echo x > $d/mark || exit 1; done')
})
