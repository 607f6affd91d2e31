// contracts/iii-sandbox.md §4: the file functions.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createChannel } from 'iii-sdk/helpers'
import { call, client, ownsNumbers, refusal, row, table } from './lib.mjs'

const sum = (bytes) => createHash('sha256').update(bytes).digest('hex')
const TREE = 'mkdir -p /d/sub/deep; printf "one\\ntwo\\n" > /d/a.txt; printf "two two\\r\\n" > /d/sub/b.py; echo three > /d/.hidden; printf "two\\0" > /d/sub/bin; ln -s /d /to-d; ln -s a.txt /d/link'

async function tree(t) {
  const box = await t.sandbox()
  await box.sh(TREE)
  return box
}

row('4 ls', 'a listing has all entries, hidden ones and links included', async (t) => {
  const { entries } = await (await tree(t)).fs('ls', { path: '/d' })
  const by = Object.fromEntries(entries.map((e) => [e.name, e]))
  assert.deepEqual(Object.keys(by).sort(), ['.hidden', 'a.txt', 'link', 'sub'])
  assert.ok(Math.abs(by['a.txt'].mtime - Date.now() / 1000) < 60)
  delete by['a.txt'].mtime
  assert.deepEqual(by['a.txt'], { name: 'a.txt', is_dir: false, size: 8, mode: '0644', is_symlink: false })
  assert.deepEqual([by.sub.is_dir, by.link.is_dir, by.link.is_symlink], [true, false, true])
})

row('4 stat', 'a description does not follow links', async (t) => {
  const box = await tree(t)
  assert.equal((await box.fs('stat', { path: '/to-d' })).is_symlink, true)
  const got = await box.fs('stat', { path: '/to-d/sub' })
  assert.deepEqual(Object.keys(got).sort(), ['is_dir', 'is_symlink', 'mode', 'mtime', 'name', 'size'])
  assert.deepEqual([got.name, got.is_dir, got.mode], ['sub', true, '0755'])
})

row('4 mkdir', 'folders have exactly their mode, and parents are made', async (t) => {
  const box = await tree(t)
  assert.deepEqual(await box.fs('mkdir', { path: '/x/y/z', parents: true, mode: '0777' }), { created: true })
  assert.deepEqual(await box.fs('mkdir', { path: '/x/y/z', parents: true }), { created: false })
  assert.deepEqual(await box.fs('mkdir', { path: '/plain' }), { created: true })
  assert.equal(await box.sh('stat -c %a /x/y /x/y/z /plain'), '755\n777\n755\n')
})

row('4 rm', 'files, links, empty folders and trees go', async (t) => {
  const box = await tree(t)
  for (const request of [{ path: '/d/link' }, { path: '/d/sub/deep' }, { path: '/to-d', recursive: true }, { path: '/d/sub', recursive: true }]) {
    assert.deepEqual(await box.fs('rm', request), { removed: true })
  }
  assert.equal(await box.sh('ls -A /d'), '.hidden\na.txt\n')
})

row('4 chmod', 'modes and owners change, below folders too, but not of links', async (t) => {
  const box = await tree(t)
  assert.deepEqual(await box.fs('chmod', { path: '/to-d/a.txt', mode: '4711' }), { updated: 1 })
  assert.deepEqual(await box.fs('chmod', { path: '/d', mode: '0750', recursive: true }), { updated: 7 })
  assert.equal(await box.sh('stat -c %a /d /d/a.txt /d/sub/deep'), '750\n750\n750\n')
  const owner = ownsNumbers ? 33 : 0
  assert.deepEqual(await box.fs('chmod', { path: '/d/a.txt', mode: '0640', uid: owner, gid: owner }), { updated: 1 })
  assert.equal(await box.sh('stat -c %u:%g:%a /d/a.txt'), `${owner}:${owner}:640\n`)
})

row('4 mv', 'a rename, over another one, and to another file system', async (t) => {
  const box = await tree(t)
  assert.deepEqual(await box.fs('mv', { src: '/d/a.txt', dst: '/d/sub/c' }), { moved: true })
  assert.deepEqual(await box.fs('mv', { src: '/d/sub/c', dst: '/d/.hidden', overwrite: true }), { moved: true })
  assert.deepEqual(await box.fs('mv', { src: '/d', dst: '/usr/local/d' }), { moved: true })
  assert.equal(await box.sh('cat /usr/local/d/.hidden; readlink /usr/local/d/link; ls / | grep -c "^d$" || true'), 'one\ntwo\na.txt\n0\n')
})

row('4 grep', 'lines are found with path, number and content', async (t) => {
  const box = await tree(t)
  const find = async (request) => {
    const { matches, truncated } = await box.fs('grep', { path: '/d', ...request })
    return [matches.map((m) => `${m.path}:${m.line}:${m.content}`), truncated]
  }
  assert.deepEqual(await find({ pattern: 't.o' }), [['/d/a.txt:2:two', '/d/sub/b.py:1:two two'], false])
  assert.deepEqual(await find({ pattern: 'TWO$', ignore_case: true, include_glob: ['*.py'] }), [['/d/sub/b.py:1:two two'], false])
  assert.deepEqual(await find({ pattern: 'two', exclude_glob: ['sub/**'] }), [['/d/a.txt:2:two'], false])
  assert.deepEqual(await find({ pattern: 'two', include_glob: ['**/b.*'] }), [['/d/sub/b.py:1:two two'], false])
  assert.deepEqual(await find({ pattern: 'o', max_matches: 1, max_line_bytes: 2 }), [['/d/a.txt:1:on'], true])
  assert.deepEqual(await find({ path: '/d/.hidden', pattern: 'h', recursive: false }), [['/d/.hidden:1:three'], false])
})

row('4 sed', 'lines are replaced, by expression or literally', async (t) => {
  const box = await tree(t)
  assert.deepEqual(await box.fs('sed', { path: '/d', pattern: '(t)wo', replacement: '${1}2', include_glob: ['*.py'] }),
    { results: [{ path: '/d/sub/b.py', replacements: 2, success: true }], total_replacements: 2 })
  assert.equal(await box.text('/d/sub/b.py'), 't2 t2\r\n')
  assert.deepEqual(await box.fs('sed', { files: ['/d/sub/b.py', '/none'], pattern: 'T2', replacement: '$1', regex: false, first_only: true, ignore_case: true }),
    { results: [{ path: '/d/sub/b.py', replacements: 1, success: true }, { path: '/none', replacements: 0, success: false, error: 'no such file or directory' }], total_replacements: 1 })
  assert.equal(await box.text('/d/sub/b.py'), '$1 t2\r\n')
})

table('4 refusals', 'a file function refuses', [
  ['ls of nothing', 'S211', 'ls', { path: '/none' }, 'file not found: /none'], ['ls of a file', 'S212', 'ls', { path: '/d/a.txt' }, 'not a directory or wrong type: /d/a.txt'],
  ['ls of a link to a folder', 'S212', 'ls', { path: '/to-d' }, 'not a directory or wrong type: /to-d'], ['stat of nothing', 'S211', 'stat', { path: '/none' }, 'file not found: /none'],
  ['a relative path', 'S210', 'stat', { path: 'd' }, 'path "d"'], ['mkdir in nothing', 'S211', 'mkdir', { path: '/none/x' }, 'parent directory not found: /none'],
  ['mkdir of what is there', 'S213', 'mkdir', { path: '/d' }, 'already exists: /d'], ['mkdir with a bad mode', 'S210', 'mkdir', { path: '/x', mode: '8' }, 'mode "8"'],
  ['rm of nothing', 'S211', 'rm', { path: '/none' }, 'file not found: /none'], ['rm of a full folder', 'S214', 'rm', { path: '/d' }, 'directory not empty: /d'],
  ['rm of the root', 'S210', 'rm', { path: '/', recursive: true }, 'the root'], ['chmod of nothing', 'S211', 'chmod', { path: '/none', mode: '0644' }, 'file not found: /none'],
  ['chmod with a bad mode', 'S210', 'chmod', { path: '/d', mode: 'u+x' }, 'mode "u+x"'], ['mv of nothing', 'S211', 'mv', { src: '/none', dst: '/x' }, 'file not found: /none'],
  ['mv onto another', 'S213', 'mv', { src: '/d/a.txt', dst: '/d/.hidden' }, 'already exists: /d/.hidden'], ['mv into nothing', 'S211', 'mv', { src: '/d', dst: '/none/x' }, 'parent directory not found: /none'],
  ['grep of a bad pattern', 'S217', 'grep', { path: '/d', pattern: '(' }, 'invalid regex pattern: '], ['grep of a folder alone', 'S210', 'grep', { path: '/d', pattern: 'x', recursive: false }, 'path is a directory'],
  ['sed of two targets', 'S210', 'sed', { path: '/d', files: ['/d'], pattern: 'x', replacement: '' }, 'give exactly one'], ['sed of none', 'S210', 'sed', { pattern: 'x', replacement: '' }, 'give exactly one'],
  ['sed of an empty literal', 'S210', 'sed', { path: '/d', pattern: '', replacement: '', regex: false }, 'pattern is empty'], ['sed of a bad pattern', 'S217', 'sed', { path: '/d', pattern: '[', replacement: '' }, 'invalid regex pattern: '],
  ['read of nothing', 'S211', 'read', { path: '/none' }, 'file not found: /none'], ['read of a folder', 'S212', 'read', { path: '/d' }, 'not a directory or wrong type: /d'],
  ['write over a folder', 'S212', 'write', { path: '/d', content: '' }, 'not a directory or wrong type: /d'], ['write with a bad mode', 'S210', 'write', { path: '/x', content: '', mode: 'x' }, 'mode "x"'],
  ['write without content', 'S001', 'write', { path: '/x' }, 'invalid request: '], ['write of two contents', 'S001', 'write', { path: '/x', content: '', content_b64: '' }, 'invalid request: '],
  ['write of what is not base64', 'S001', 'write', { path: '/x', content_b64: '%' }, 'invalid request: '], ['chmod of what is the kernel’s', 'S215', 'chmod', { path: '/proc/sys/kernel/hostname', mode: '0777' }, 'permission denied: '],
], async (t, code, name, request, text) => {
  const body = await (await tree(t)).refuses(code, `fs::${name}`, request)
  assert.ok(body.message.startsWith(text), body.message)
  assert.deepEqual([body.type, body.fix], [code === 'S001' ? 'validation' : 'filesystem', null])
})

table('4.1 inline', 'a file is written from', [
  ['text', { content: 'añ' }, Buffer.from('añ')], ['nothing', { content: '' }, Buffer.alloc(0)], ['base64', { content_b64: Buffer.from([0, 255, 10]).toString('base64') }, Buffer.from([0, 255, 10])],
], async (t, content, want) => {
  const box = await t.sandbox()
  assert.deepEqual(await box.fs('write', { path: '/p/f', parents: true, mode: '0751', ...content }), { bytes_written: want.length, path: '/p/f' })
  assert.equal(await box.sh('stat -c %a /p/f; sha256sum < /p/f'), `751\n${sum(want)}  -\n`)
})

row('4.1 fix', 'a missing parent comes with its fix', async (t) => {
  const body = await (await t.sandbox()).refuses('S211', 'fs::write', { path: '/no/f', content: '' })
  assert.deepEqual([body.message, body.fix], ['parent directory not found: /no', { parents: true }])
  assert.equal(typeof body.fix_note, 'string')
})

row('4.1 channel', 'a file is written from a channel, larger than its buffer', async (t) => {
  const box = await t.sandbox()
  const bytes = randomBytes(9 << 20)
  const channel = await createChannel(client)
  const answer = box.fs('write', { path: '/up', content: channel.readerRef })
  channel.writer.stream.end(bytes)
  assert.deepEqual(await answer, { bytes_written: bytes.length, path: '/up' })
  assert.equal(await box.sh('sha256sum < /up'), `${sum(bytes)}  -\n`)
})

row('4.1 atomic', 'readers see the old content or the new one, whole', async (t) => {
  const box = await t.sandbox()
  await box.write('/f', 'a'.repeat(300_000))
  const watch = box.run('python', `
import os
while not os.path.exists('/off'):
    text = open('/f').read()
    assert len(text) == 300000 and len(set(text)) == 1, len(text)
print('whole')`)
  for (let i = 0; i < 30; i++) await box.write('/f', 'ab'[i % 2].repeat(300_000))
  await box.write('/off', '')
  const got = await watch
  assert.equal(got.stdout, 'whole\n', got.stderr)
})

row('4.1 S218', 'an upload that pauses fails and leaves the old file', async (t) => {
  const box = await t.sandbox()
  await box.write('/f', 'old')
  const channel = await createChannel(client)
  const answer = call('sandbox::fs::write', { sandbox_id: box.id, path: '/f', content: channel.readerRef })
  channel.writer.stream.write(Buffer.from('half'))
  await assert.rejects(answer, (error) => {
    const body = refusal(error)
    assert.deepEqual([body.code, body.type, body.retryable], ['S218', 'transient', true])
    assert.ok(body.message.startsWith('fs channel aborted: '))
    return true
  })
  channel.writer.close()
  assert.equal(await box.sh('cat /f; ls -A / | grep -c write- || true'), 'old0\n')
}, { slow: true })

row('4.2 body', 'a small text comes in the answer and by channel', async (t) => {
  const box = await tree(t)
  const got = await box.fs('read', { path: '/to-d/link' })
  assert.deepEqual([got.body, got.size, got.mode], ['one\ntwo\n', 8, '0644'])
  assert.ok(Math.abs(got.mtime - Date.now() / 1000) < 60)
  assert.equal(got.content.direction, 'read')
  assert.equal(String(await box.receive(got)), 'one\ntwo\n')
})

table('4.2 channel', 'by channel alone comes', [['a large file', 'head -c 9000000 /dev/urandom > /f'], ['what is not UTF-8', "printf 'a\\377' > /f"], ['exactly 1 MiB of text', "head -c 1048576 /dev/zero | tr '\\0' x > /f"]], async (t, make) => {
  const box = await t.sandbox()
  const want = await box.sh(`${make}; sha256sum < /f`)
  const got = await box.fs('read', { path: '/f' })
  assert.ok(!('body' in got))
  const bytes = await box.receive(got)
  assert.equal(bytes.length, got.size)
  assert.equal(`${sum(bytes)}  -\n`, want)
})
