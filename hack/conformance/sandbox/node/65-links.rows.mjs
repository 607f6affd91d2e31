// Tricks with links, names and races against the file functions: they work in the
// guest's root as it is, and never outside of it or of what was named.
import assert from 'node:assert/strict'
import { row, table, world } from './lib.mjs'

const secret = world.secrets[0]

table('8 link out', 'a link to a host’s file leads nowhere', [
  ['read', 'S211', 'read', { path: '/out' }], ['read by a long way up', 'S211', 'read', { path: `/tmp/../../../..${secret}` }], ['read by a link to a folder', 'S211', 'read', { path: '/up/secret-file' }],
  ['grep', 'S211', 'grep', { path: '/out', pattern: 'secret' }], ['chmod', 'S211', 'chmod', { path: '/out', mode: '0777' }], ['ls through process 1', /S21[25]/, 'ls', { path: '/proc/1/root/' }],
], async (t, code, name, request) => {
  const box = await t.sandbox()
  await box.sh(`ln -s ${secret} /out; ln -s ../../../../../.. /up`)
  try {
    const answer = await box.fs(name, request)
    assert.fail(JSON.stringify(answer))
  } catch (error) {
    assert.match(String(error.message), code instanceof RegExp ? code : new RegExp(`"code":"${code}"`))
  }
})

row('8 write links', 'writing replaces a link, removing removes it, moving moves it', async (t) => {
  const box = await t.sandbox()
  await box.sh('echo target > /target; for n in 1 2 3; do ln -s /target /link$n; done; ln -s /dir /to-dir; mkdir /dir; echo x > /dir/x')
  await box.write('/link1', 'new')
  await box.fs('rm', { path: '/link2', recursive: true })
  await box.fs('mv', { src: '/link3', dst: '/moved' })
  await box.fs('rm', { path: '/to-dir', recursive: true })
  assert.equal(await box.sh('cat /target /link1; readlink /moved; cat /dir/x'), 'target\nnew/target\nx\n')
})

row('8 hard links', 'a hard link is written apart from its twin, and none leads to the host’s files', async (t) => {
  const box = await t.sandbox()
  await box.sh('echo twin > /a; ln /a /b')
  await box.write('/a', 'new')
  assert.equal(await box.sh('cat /b'), 'twin\n')
  // On the guest's own layer a link to the image's file is a copy; on a bare one it is refused.
  await box.run('shell', 'ln /usr/bin/wc /usr/bin/wc2; echo changed > /usr/bin/wc2')
  const next = await t.sandbox()
  assert.equal(await next.sh('head -c 4 /usr/bin/wc | tail -c 3'), 'ELF')
})

row('8 special files', 'pipes, sockets and devices neither hang nor feed a file function', async (t) => {
  const box = await t.sandbox()
  await box.sh('mkdir /s; mkfifo /s/pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'/s/sock\')"; ln -s /dev/zero /s/zero')
  for (const path of ['/s/pipe', '/s/zero', '/dev/zero']) await box.refuses('S212', 'fs::read', { path })
  assert.deepEqual((await box.fs('grep', { path: '/s', pattern: 'x' })).matches, [])
  assert.deepEqual((await box.fs('sed', { files: ['/s/pipe', '/dev/full'], pattern: 'x', replacement: 'y' })).results.map((r) => r.success), [false, false])
  assert.equal((await box.fs('chmod', { path: '/s', mode: '0700', recursive: true })).updated, 3)
  assert.deepEqual(await box.fs('rm', { path: '/s', recursive: true }), { removed: true })
})

row('8 races', 'a folder that is swapped for a link all the time is never left', async (t) => {
  const box = await t.sandbox()
  await box.sh('mkdir -p /victim/deep /swap/deep; echo safe > /victim/file; echo safe > /victim/deep/file; echo x > /swap/file; ln -s /victim /link; chmod 755 /victim /victim/deep; chmod 644 /victim/file')
  const swapping = box.run('python', `
import ctypes, os
libc = ctypes.CDLL(None)
while not os.path.exists('/off'): libc.renameat2(-100, b'/swap', -100, b'/link', 2)`)
  const tries = []
  for (let i = 0; i < 60; i++) {
    for (const [name, request] of [['rm', { path: '/swap', recursive: false }], ['chmod', { path: '/', mode: '0711', recursive: false }],
      ['sed', { path: '/swap/deep', pattern: 'safe', replacement: 'evil' }], ['mv', { src: '/swap', dst: '/other' }]]) {
      if (name === 'rm' || name === 'mv') continue // they would end the game; rows above have them
      tries.push(box.fs(name, request).catch(() => {}))
    }
    tries.push(box.fs('grep', { path: '/', pattern: 'safe', include_glob: ['file'], exclude_glob: ['proc', 'usr', 'victim', 'link'] }).then(
      ({ matches }) => assert.ok(matches.every((m) => m.path.startsWith('/swap') && m.path === '/swap/file'), JSON.stringify(matches))))
    await Promise.all(tries.splice(0))
  }
  await box.write('/off', '')
  await swapping
  assert.equal(await box.sh('cat /victim/file; stat -c %a /victim /victim/file'), 'safe\n755\n644\n')
})

row('8 recursive links', 'a recursive act does not go through links below', async (t) => {
  const box = await t.sandbox()
  await box.sh('mkdir -p /victim /tree/a; echo safe > /victim/file; chmod 600 /victim/file; chmod 755 /victim; ln -s /victim /tree/a/link; ln -s .. /tree/a/loop')
  assert.equal((await box.fs('chmod', { path: '/tree', mode: '0777', recursive: true })).updated, 2)
  assert.deepEqual((await box.fs('grep', { path: '/tree', pattern: 'safe' })).matches, [])
  assert.equal((await box.fs('sed', { path: '/tree', pattern: 'safe', replacement: 'evil' })).total_replacements, 0)
  await box.fs('rm', { path: '/tree', recursive: true })
  assert.equal(await box.sh('cat /victim/file; stat -c %a /victim /victim/file'), 'safe\n755\n600\n')
})

row('8 deep tree', 'a very deep tree is handled or refused, never crashes the guest', async (t) => {
  const box = await t.sandbox()
  await box.run('python', `
import os
os.mkdir('/deep'); os.chdir('/deep')
for _ in range(3000): os.mkdir('d'); os.chdir('d')`)
  assert.equal((await box.fs('chmod', { path: '/deep', mode: '0700', recursive: true })).updated, 3001)
  assert.deepEqual((await box.fs('grep', { path: '/deep', pattern: 'x' })).matches, [])
  assert.deepEqual(await box.fs('rm', { path: '/deep', recursive: true }), { removed: true })
})
