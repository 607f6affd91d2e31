// What a guest tries in order to get out, in shell, Node and Python. Each row has
// an expected refusal; where a probe could fail for another reason it is shown to
// work on something that is allowed first.
import assert from 'node:assert/strict'
import { ownsNumbers, row, table, world } from './lib.mjs'

const LANGUAGES = ['shell', 'node', 'python']

/** Prints, as JSON, which of its arguments are folders that could be listed or files of which something could be read. */
const READ = {
  shell: `sep=; printf '['; for p in "$@"; do
    if [ "$(head -c 1 "$p" 2>/dev/null | wc -c)" -gt 0 ] || ls "$p/" >/dev/null 2>&1; then printf '%s"%s"' "$sep" "$p"; sep=,; fi; done; printf ']'`,
  node: `const fs = require('fs'); console.log(JSON.stringify(process.argv.slice(1).filter((p) =>
    [(p) => fs.readSync(fs.openSync(p), Buffer.alloc(1)) > 0, (p) => Boolean(fs.readdirSync(p))].some((f) => { try { return f(p) } catch { return false } }))))`,
  python: `
import json, os, sys
def can(p):
    for look in (lambda: open(p, 'rb').read(1), lambda: [os.listdir(p)]):
        try:
            if look(): return True
        except OSError: pass
    return False
print(json.dumps([p for p in sys.argv[1:] if can(p)]))`,
}

/** Prints, as JSON, which of its arguments could be written to. */
const WRITE = {
  shell: `sep=; printf '['; for p in "$@"; do
    if (echo x >> "$p") 2>/dev/null; then printf '%s"%s"' "$sep" "$p"; sep=,; fi; done; printf ']'`,
  node: `const fs = require('fs'); console.log(JSON.stringify(process.argv.slice(1).filter((p) => {
    try { fs.appendFileSync(p, 'x'); return true } catch { return false } })))`,
  python: `
import json, os, sys
def can(p):
    try: os.write(os.open(p, os.O_WRONLY | os.O_APPEND | os.O_CREAT), b'x'); return True
    except OSError: return False
print(json.dumps([p for p in sys.argv[1:] if can(p)]))`,
}

const probe = async (box, language, code, paths) => JSON.parse((await box.run(language, code, paths)).stdout)
const each = (cases) => cases.map((l) => [l, l])

table('8 host files', 'files of the host cannot be read', each(LANGUAGES), async (t, language) => {
  const box = await t.sandbox()
  assert.deepEqual(await probe(box, language, READ[language], ['/etc/hostname', '/tmp']), ['/etc/hostname', '/tmp'])
  assert.deepEqual(await probe(box, language, READ[language], [...world.secrets, ...world.secrets.map((p) => `/proc/1/root${p}`),
    ...world.secrets.map((p) => `/../../..${p}`), '/etc/shadow', '/etc/machine-id', '/etc/ssh', '/var/lib/dpkg', '/boot', '/sys', '/proc/1/environ', '/proc/1/mem',
    '/proc/1/maps', '/proc/1/fd/0', '/proc/1/cwd/etc', '/proc/kcore', '/dev/vda', '/dev/sda', '/dev/mem', '/dev/kmsg', '/dev/net/tun', '/dev/kvm', '/dev/fuse']), [])
})

table('8 kernel settings', 'nothing of /proc and /sys that concerns others can be written', each(LANGUAGES), async (t, language) => {
  const box = await t.sandbox()
  assert.deepEqual(await probe(box, language, WRITE[language], ['/tmp/mine', '/etc/mine']), ['/tmp/mine', '/etc/mine'])
  assert.deepEqual(await probe(box, language, WRITE[language], ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sys/kernel/modprobe', '/proc/sys/vm/drop_caches',
    '/proc/sys/net/ipv4/ip_forward', '/proc/sys/fs/binfmt_misc/register', '/proc/sysrq-trigger', '/proc/irq/default_smp_affinity', '/proc/1/mem', '/proc/1/uid_map',
    '/proc/self/uid_map', '/proc/self/gid_map', '/sys/kernel/uevent_helper', '/sys/fs/cgroup/cgroup.procs']), [])
})

const COMMANDS = {
  shell: 'for p in /proc/[0-9]*; do cat $p/comm; done',
  node: `const fs = require('fs'); for (const p of fs.readdirSync('/proc')) if (/^[0-9]+$/.test(p)) console.log(fs.readFileSync('/proc/' + p + '/comm', 'utf8').trim())`,
  python: `
import os
for p in os.listdir('/proc'):
    if p.isdigit(): print(open('/proc/%s/comm' % p).read().strip())`,
}

table('8 processes', 'neither the host’s nor a sibling’s processes are seen', each(LANGUAGES), async (t, language) => {
  const [sibling, box] = [await t.sandbox(), await t.sandbox()]
  await sibling.sh('sleep 321 >/dev/null 2>&1 </dev/null &')
  const seen = new Set((await box.run(language, COMMANDS[language])).stdout.trim().split('\n'))
  assert.ok(seen.has('init'), [...seen].join())
  for (const own of ['init', 'sh', 'cat', 'node', 'MainThread', 'python3', 'python3.11']) seen.delete(own)
  assert.deepEqual([...seen].filter((name) => !name.startsWith('python') && !name.startsWith('node')), [])
})

/** Signals everything but itself and says what it hit. */
const SIGNAL = {
  shell: 'me=$$; hit=; for p in $(seq 2 600); do [ $p = $me ] || { [ -d /proc/$p ] && continue; kill -9 $p 2>/dev/null && hit="$hit $p"; }; done; for s in 9 15 19 11; do kill -$s 1 2>/dev/null; done; echo "hit$hit"',
  node: `let hit = 'hit'; for (let p = 2; p < 600; p++) { if (p === process.pid || require('fs').existsSync('/proc/' + p)) continue; try { process.kill(p, 'SIGKILL'); hit += ' ' + p } catch {} }
for (const s of ['SIGKILL', 'SIGTERM', 'SIGSTOP', 'SIGSEGV']) try { process.kill(1, s) } catch {}
console.log(hit)`,
  python: `
import os, signal
hit = 'hit'
for p in range(2, 600):
    if p == os.getpid() or os.path.exists('/proc/%d' % p): continue
    try: os.kill(p, signal.SIGKILL); hit += ' %d' % p
    except OSError: pass
for s in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV):
    try: os.kill(1, s)
    except OSError: pass
print(hit)`,
}

table('8 agent', 'the agent cannot be signalled', each(LANGUAGES), async (t, language) => {
  const box = await t.sandbox()
  assert.equal((await box.run(language, SIGNAL[language])).stdout, 'hit\n')
  await box.run('shell', 'kill -KILL -1')
  assert.equal((await box.exec({ cmd: 'echo alive' })).stdout, 'alive\n')
  assert.equal((await box.fs('stat', { path: '/proc/1' })).is_dir, true)
})

row('8 agent traced', 'no process outside of the program’s own can be traced or read', async (t) => {
  const box = await t.sandbox()
  const got = await box.run('python', `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
open_doors = []
for pid in [1, os.getppid()] + list(range(2, 300)):
    if pid == os.getpid(): continue
    for request in (16, 0x4206):
        if libc.ptrace(request, pid, 0, 0) == 0: open_doors.append('ptrace %d' % pid)
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    if libc.process_vm_readv(pid, vector, 1, vector, 1, 0) >= 0: open_doors.append('readv %d' % pid)
for name in ('mem', 'environ', 'maps', 'fd', 'root/', 'cwd/', 'syscall', 'stack'):
    try:
        (os.listdir if name[-1] in '/d' else lambda p: open(p, 'rb').read(1))('/proc/1/' + name)
        open_doors.append(name)
    except OSError: pass
print(open_doors)`)
  const allowed = /^\[('root\/'(, 'cwd\/')?|'fd'(, 'root\/')?(, 'cwd\/')?)?\]\n$/
  assert.match(got.stdout, allowed, got.stdout + got.stderr)
  // What process 1 has open, and its root, are the guest's own.
  assert.deepEqual(await probe(box, 'python', READ.python, [...world.secrets.map((p) => `/proc/1/root${p}`), '/proc/1/fd/3', '/proc/1/exe']), [])
})

table('8 commands', 'refused to root in the guest', [
  'mount -t tmpfs none /mnt', 'mount -t proc none /mnt', 'mount --bind / /mnt', 'mount -o remount,rw /usr', 'umount /proc', 'umount -l /dev', 'unshare -U true', 'unshare -m true', 'unshare -n true', 'unshare -p true',
  'nsenter -t 1 -m true', 'chroot / true', 'pivot_root / /mnt', 'mknod /tmp/disk b 254 0', 'mknod /tmp/null c 1 3', 'swapon /dev/zero', 'hostname evil', 'dmesg', 'date -s 2001-01-01', 'ip link add x type dummy',
  'sysctl -w kernel.panic=1', 'insmod /x.ko', 'losetup /dev/loop0 /etc/passwd', 'reboot -f',
].map((c) => [c, c]), async (t, command) => {
  const box = await t.sandbox()
  const got = await box.run('shell', `${command} 2>&1`)
  assert.notEqual(got.exit_code, 0, got.stdout)
  assert.equal((await box.exec({ cmd: 'echo alive' })).stdout, 'alive\n')
})

row('8 system calls', 'dangerous system calls fail', async (t) => {
  const box = await t.sandbox()
  const got = await box.run('python', `
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {'x86_64': dict(mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308, ptrace=101, bpf=321, perf_event_open=298, keyctl=250, add_key=248, request_key=249,
    userfaultfd=323, io_uring_setup=425, init_module=175, finit_module=313, open_by_handle_at=304, name_to_handle_at=303, reboot=169, swapon=167, kexec_load=246, fsopen=430, open_tree=428,
    move_mount=429, mount_setattr=442, process_vm_readv=310, process_vm_writev=311, pidfd_getfd=438, quotactl=179, acct=163, settimeofday=164, iopl=172, ioperm=173, modify_ldt=154, kcmp=312, lookup_dcookie=212, syslog=103, vhangup=153),
  'aarch64': dict(mount=40, umount2=39, pivot_root=41, chroot=51, unshare=97, setns=268, ptrace=117, bpf=280, keyctl=219, userfaultfd=282, io_uring_setup=425, open_by_handle_at=265, reboot=142, fsopen=430)}
print([name for name, number in numbers[platform.machine()].items() if libc.syscall(number, 0x10000000 if name == 'unshare' else 0, 0, 0, 0, 0) != -1])`)
  assert.equal(got.stdout, '[]\n', got.stderr)
})

table('8 raw sockets', 'raw and foreign sockets cannot be made', [['without a network', false], ['with one', true]], async (t, network) => {
  const box = await t.sandbox({ network })
  const got = await box.run('python', `
import socket
made = []
for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 3), (17, 2, 3), (38, 5, 0), (40, 1, 0), (16, 3, 16), (44, 3, 0), (29, 3, 1), (31, 3, 1)):
    try: s = socket.socket(family, kind, protocol); s.close(); made.append((family, kind))
    except OSError: pass
print(made)`)
  // A guest may ask netlink about its own network.
  assert.equal(got.stdout, '[(16, 3)]\n', got.stderr)
})

const DEVICE = {
  shell: 'for d in "b 254 0" "c 1 1" "c 10 200"; do mknod /tmp/dev $d 2>/dev/null && echo made; done; true',
  node: `const { spawnSync } = require('child_process'); for (const d of [['b', '254', '0'], ['c', '1', '1']]) if (spawnSync('mknod', ['/tmp/dev', ...d]).status === 0) console.log('made')`,
  python: `
import os
for mode, device in ((0o60600, os.makedev(254, 0)), (0o20600, os.makedev(1, 1)), (0o20600, os.makedev(10, 200))):
    try: os.mknod('/tmp/dev', mode, device); print('made')
    except OSError: pass`,
}
table('8 devices', 'device nodes cannot be made', each(LANGUAGES), async (t, language) => {
  const got = await (await t.sandbox()).run(language, DEVICE[language])
  assert.deepEqual([got.stdout, got.success], ['', true])
})

row('8 setuid', 'set-user-id programs give nothing', async (t) => {
  const box = await t.sandbox()
  await box.sh('cp /usr/bin/id /opt/id && chmod 4755 /opt/id')
  assert.equal(await box.sh('grep NoNewPrivs /proc/self/status'), 'NoNewPrivs:\t1\n')
  if (!ownsNumbers) return // there is no other user to be
  const got = await box.run('python', `
import os, subprocess
os.setgid(1000); os.setuid(1000)
print(subprocess.run(['/opt/id', '-u'], capture_output=True, text=True).stdout.strip(), subprocess.run(['su', '-c', 'id -u'], capture_output=True, text=True).stdout.strip())
try: os.setuid(0); print('root again')
except OSError: print('refused')`)
  assert.equal(got.stdout, '1000 \nrefused\n', got.stderr)
})

table('8 image', 'what is written into the image is in no other sandbox', each(LANGUAGES), async (t, language) => {
  const [one, sibling] = [await t.sandbox(), await t.sandbox()]
  const paths = ['/usr/bin/mark', '/usr/lib/mark', '/usr/local/lib/mark', '/etc/mark', '/opt/mark', '/root/mark', '/var/lib/mark', '/mark', '/tmp/mark', '/dev/shm/mark']
  assert.deepEqual(await probe(one, language, WRITE[language], paths), paths)
  await one.sh('rm /usr/bin/env; echo changed > /usr/bin/wc; echo "evil::0:0::/:/bin/sh" >> /etc/passwd')
  const next = await t.sandbox()
  for (const other of [sibling, next]) {
    assert.deepEqual(await probe(other, language, READ[language], paths), [])
    assert.equal(await other.sh('ls /usr/bin/env; head -c 3 /usr/bin/wc | tail -c 2; grep -c evil /etc/passwd || true'), '/usr/bin/env\nEL0\n')
  }
  assert.deepEqual(await probe(one, language, READ[language], ['/usr/bin/env']), [])
})

table('8 shared memory', 'sandboxes share no memory, queue, name or socket', each(['python']), async (t) => {
  const [one, other] = [await t.sandbox(), await t.sandbox()]
  await one.write('/serve.py', `
import ctypes, socket
libc = ctypes.CDLL(None)
assert libc.shmget(4242, 4096, 0o1666) >= 0 and libc.msgget(4242, 0o1666) >= 0
s = socket.socket(socket.AF_UNIX); s.bind('\\0conformance'); s.listen()
open('/on', 'w')
while True: s.accept()`)
  await one.sh('python3 /serve.py >/dev/null 2>&1 </dev/null & until [ -e /on ]; do sleep 0.02; done')
  const look = `
import ctypes, socket
libc = ctypes.CDLL(None); s = socket.socket(socket.AF_UNIX)
print(libc.shmget(4242, 4096, 0) >= 0, libc.msgget(4242, 0) >= 0, s.connect_ex('\\0conformance') == 0)`
  assert.equal((await one.run('python', look)).stdout, 'True True True\n')
  assert.equal((await other.run('python', look)).stdout, 'False False False\n')
})
