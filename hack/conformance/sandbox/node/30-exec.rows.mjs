// contracts/iii-sandbox.md §3.2, §3.3, §3.6: exec, its concurrency, and run.
import assert from 'node:assert/strict'
import { call, refused, row, table, until, world } from './lib.mjs'

const b64 = (text) => Buffer.from(text).toString('base64')

table('3.2 shapes', 'a command is', [
  ['split without a shell', { cmd: "echo 'a b' $HOME | cat" }, 'a b $HOME | cat\n'], ['a program with arguments', { cmd: 'echo', args: ['a b', '*'] }, 'a b *\n'],
  ['a whole vector', { argv: ['echo', 'a b'] }, 'a b\n'], ['one word', { cmd: 'pwd' }, '/\n'],
], async (t, request, want) => {
  const box = await t.sandbox()
  assert.equal((await box.exec(request)).stdout, want)
})

table('3.2 S001', 'exec refuses', [
  ['no command', {}], ['an empty one', { cmd: '  ' }], ['argv beside cmd', { argv: ['a'], cmd: 'a' }], ['argv beside args', { argv: ['a'], args: ['a'] }],
  ['white space beside args', { cmd: 'a b', args: ['c'] }], ['an open quote', { cmd: "echo 'a" }], ['stdin that is not base64', { cmd: 'cat', stdin: '%%' }],
  ['a name of an env map', { cmd: 'env', env: { 'A-B': '' } }], ['an empty program', { argv: [''] }],
], async (t, request) => {
  const box = await t.sandbox()
  await box.refuses('S001', 'exec', request)
})

row('3.2 answer', 'the answer has exactly its six fields', async (t) => {
  const box = await t.sandbox()
  const got = await box.run('shell', 'echo 3; echo e >&2')
  assert.ok(Number.isInteger(got.duration_ms) && got.duration_ms >= 0)
  delete got.duration_ms
  assert.deepEqual(got, { stdout: '3\n', stderr: 'e\n', exit_code: 0, timed_out: false, success: true })
})

table('3.2 exit', 'exit code', [
  ['of a failing program', ['sh', '-c', 'exit 7'], 7], ['of a killed one', ['sh', '-c', 'kill -TERM $$'], 143], ['of a missing one', ['no-such-program'], 127],
  ['of one that is not executable', ['/etc/passwd'], 126], ['of a missing one by path', ['/no/such'], 127],
], async (t, argv, code) => {
  const box = await t.sandbox()
  const got = await box.exec({ argv })
  assert.deepEqual([got.exit_code, got.success], [code, false])
  if (code === 126 || code === 127) assert.notEqual(got.stderr, '')
})

row('3.2 workdir', 'a program starts in workdir, and a missing one is a missing program', async (t) => {
  const box = await t.sandbox()
  assert.equal((await box.exec({ cmd: 'pwd', workdir: '/var/tmp' })).stdout, '/var/tmp\n')
  assert.equal((await box.exec({ cmd: 'pwd', workdir: '/none' })).exit_code, 127)
})

row('3.2 stdin', 'input arrives whole and ends; without any it ends at once', async (t) => {
  const box = await t.sandbox()
  const text = 'ü\n'.repeat(100_000)
  assert.equal((await box.exec({ cmd: 'cat', stdin: b64(text) })).stdout, text)
  assert.equal((await box.exec({ cmd: 'cat' })).stdout, '')
  assert.equal((await box.exec({ cmd: 'cat', stdin: '' })).stdout, '')
})

row('3.2 env', 'an exec’s environment goes over the sandbox’s, which is clean', async (t) => {
  const box = await t.sandbox({ env: { A: '1', B: '2' } })
  assert.equal((await box.run('shell', 'echo $A $B', [], { env: ['B=3'] })).stdout, '1 3\n')
  assert.equal((await box.run('shell', 'echo $A $B', [], { env: { B: '4' } })).stdout, '1 4\n')
  const names = (await box.exec({ cmd: 'env' })).stdout.trim().split('\n').map((line) => line.split('=')[0])
  assert.deepEqual(names.filter((name) => !['A', 'B', 'HOME', 'LANG', 'PATH'].includes(name)), [])
})

table('3.2 output', 'a stream is cut at 1 MiB without a word', [['stdout', 'stdout'], ['stderr', 'stderr']], async (t, stream) => {
  const box = await t.sandbox()
  const got = await box.run('python', `import sys; sys.${stream}.write('x' * 1500000)`)
  assert.deepEqual([got[stream].length, got.success], [1 << 20, true])
})

row('3.2 lossy', 'what is not UTF-8 becomes replacement characters', async (t) => {
  const box = await t.sandbox()
  assert.equal((await box.run('shell', String.raw`printf 'a\377\360\237b'`)).stdout, 'a\ufffd\ufffdb')
})

row('3.2 S200', 'a timeout is a refusal without output, and its group is gone', async (t) => {
  const box = await t.sandbox()
  const body = await box.refuses('S200', 'exec', { argv: ['sh', '-c', 'trap "" TERM; sleep 877 & echo lost; sleep 877'], timeout_ms: 300 })
  assert.equal(body.message, 'exec timed out after 300 ms')
  assert.equal(body.type, 'execution')
  await until('the end of the group', async () => !(await box.commands()).includes('sleep 877'))
})

row('3.2 ceiling', 'max_exec_timeout_ms bounds what is asked for', async (t) => {
  const box = await t.sandbox({ image: 'node', idle_timeout_secs: 1000 }, 'strict')
  assert.equal((await box.refuses('S200', 'exec', { cmd: 'sleep 60', timeout_ms: 60_000 })).message, `exec timed out after ${world.strictTimeout} ms`)
  assert.equal((await box.refuses('S200', 'exec', { cmd: 'sleep 60' })).message, `exec timed out after ${world.strictTimeout} ms`)
})

row('3.2 streams', 'the call lasts until the streams close; redirected programs live on', async (t) => {
  const box = await t.sandbox()
  const held = await box.sh('(sleep 0.4; echo late) & echo early')
  assert.equal(held, 'early\nlate\n')
  await box.sh('nohup sleep 500 >/dev/null 2>&1 </dev/null & echo $! > /pid')
  assert.equal((await box.run('shell', 'kill -0 $(cat /pid)')).success, true)
})

row('3.3 S003', 'as many programs as slots, and the next is refused at once', async (t) => {
  const box = await t.sandbox()
  const wait = 'touch /on$1; while [ ! -e /off ]; do sleep 0.02; done'
  const running = [1, 2, 3, 4].map((n) => box.run('shell', wait, [String(n)]))
  await until('four programs', async () => (await box.fs('ls', { path: '/' })).entries.filter((e) => /^on\d$/.test(e.name)).length === 4)
  const body = await box.refuses('S003', 'exec', { cmd: 'true' })
  assert.equal(body.message, `sandbox ${box.id} is at its exec concurrency cap`)
  assert.equal(body.retryable, false)
  await box.refuses('S001', 'exec', {}) // checked first
  await box.write('/off', '') // file calls take no slot
  for (const each of await Promise.all(running)) assert.equal(each.success, true)
  assert.equal((await box.exec({ cmd: 'true' })).success, true)
})

row('3.3 zero', 'a cap of 0 is read as 1', async (t) => {
  const box = await t.sandbox({ image: 'node', idle_timeout_secs: 1000 }, 'strict')
  const running = box.run('shell', 'touch /on; while [ ! -e /off ]; do sleep 0.02; done')
  await until('the program', () => box.fs('stat', { path: '/on' }).then(() => true, () => false))
  await box.refuses('S003', 'exec', { cmd: 'true' })
  await box.write('/off', '')
  await running
})

table('3.6 lang', 'run takes', [
  ['node', 'node', 'console.log(6*7)'], ['js', 'js', 'console.log(6*7)'], ['javascript', 'javascript', 'console.log(6*7)'], ['python', 'python', 'print(6*7)'],
  ['py', 'py', 'print(6*7)'], ['shell', 'shell', 'echo $((6*7))'], ['sh', 'sh', 'echo $((6*7))'], ['bash', 'bash', 'echo $((6*7))'],
  ['an interpreter by its path', '/bin/cat', '42\n'],
], async (_, lang, code) => {
  const got = await call('sandbox::run', { image: 'python', lang, code })
  assert.deepEqual(Object.keys(got).sort(), ['duration_ms', 'exit_code', 'stderr', 'stdout', 'success', 'timed_out'])
  assert.deepEqual([got.stdout, got.success], ['42\n', true])
})

row('3.6 whole', 'files, environment and input reach the code; a kept sandbox is told', async (t) => {
  const got = await call('sandbox::run', {
    image: 'python', lang: 'python', keep_sandbox: true, env: { WHO: 'you' }, stdin: b64('in'),
    files: [{ path: 'helper.py', content: 'word = "hello"' }, { path: '/data/x', content: 'data' }],
    code: 'import os, sys, helper; print(helper.word, os.environ["WHO"], sys.stdin.read(), open("/data/x").read())',
  })
  t.adopt(got.sandbox_id)
  assert.equal(got.stdout, 'hello you in data\n')
  assert.equal((await call('sandbox::fs::stat', { sandbox_id: got.sandbox_id, path: '/tmp/run.py' })).mode, '0644')
})

row('3.6 exit', 'a program that fails is an answer, and no sandbox is left', async () => {
  const before = (await call('sandbox::list')).sandboxes.length
  assert.equal((await call('sandbox::run', { image: 'python', lang: 'sh', code: 'exit 3' })).exit_code, 3)
  assert.ok((await call('sandbox::list')).sandboxes.length <= before)
})

table('3.6 steps', 'a failure names its step', [
  ['create', 'S100', 'create', { image: 'ruby' }], ['sibling file', 'S212', 'fs::write (sibling file)', { files: [{ path: '/tmp', content: '' }] }],
  ['code', 'S212', 'fs::write (code)', { files: [{ path: '/tmp/run.py/x', content: '' }] }], ['exec', 'S200', 'exec', { timeout_ms: 200 }],
], async (_, code, step, change) => {
  const body = await refused(code, 'sandbox::run', { image: 'python', lang: 'python', code: 'import time; time.sleep(60)', ...change })
  assert.equal(body.fix.context, `during sandbox::run step \`${step}\``)
  assert.equal(body.fix.inner_code, code)
  assert.equal(body.fix.sandbox_id === '', step === 'create')
  assert.equal(body.fix_note, null)
})
