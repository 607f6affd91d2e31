// What only virtual machines have to show: that each has a kernel, a memory and a
// processor of its own, and that those which start from one saved state are not the
// same afterwards.
import assert from 'node:assert/strict'
import { release } from 'node:os'
import { patient, row, world } from './lib.mjs'

if (world.isolation.startsWith('qemu')) {
  row('10 isolation', 'the word says which processor guests have', async () => {
    assert.match(world.isolation, /^qemu-(kvm|tcg)$/)
  })

  row('10 kernel', 'the kernel is not the host’s', async (t) => {
    assert.notEqual((await (await t.sandbox()).sh('uname -r')).trim(), release())
  })

  row('10 twins', 'guests from one saved state have different randomness', async (t) => {
    const seen = new Set()
    const code = `
import os, random, tempfile, uuid
for text in (open('/proc/sys/kernel/random/uuid').read().strip(), open('/proc/sys/kernel/random/boot_id').read().strip(), os.urandom(16).hex(),
    str(random.getrandbits(128)), str(uuid.uuid4()), str(id(object())), str(hash('x'))): print(text)`
    const outputs = []
    for (let i = 0; i < 3; i++) outputs.push((await (await t.sandbox()).run('python', code)).stdout.trim().split('\n'))
    for (const words of outputs) {
      assert.equal(words.length, 7)
      for (const word of words) {
        assert.ok(!seen.has(word), `${word} came twice`)
        seen.add(word)
      }
    }
  })

  row('10 clock', 'the time is right in a guest from a saved state, and goes on', async (t) => {
    const box = await t.sandbox()
    const off = async () => Number((await box.sh('date +%s%3N')).trim()) - Date.now()
    assert.ok(Math.abs(await off()) < patient(1000), 'at first')
    await new Promise((resolve) => setTimeout(resolve, 2000))
    assert.ok(Math.abs(await off()) < patient(1000), 'after two seconds')
  })

  row('10 hardware', 'memory and processors are those that were asked for', async (t) => {
    const box = await t.sandbox({ cpus: 2, memory_mb: 192 })
    const [memory, processors] = (await box.sh('sed -n "s/MemTotal: *//p" /proc/meminfo; grep -c ^processor /proc/cpuinfo')).trim().split('\n')
    assert.equal(Number(processors), 2)
    assert.ok(parseInt(memory) <= (192 + 112) * 1024 && parseInt(memory) > 192 * 1024, memory)
  })
}
