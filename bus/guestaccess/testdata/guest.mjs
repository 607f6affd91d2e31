// A guest that connects to III_URL as it finds it, and tells what it may do.
import { registerWorker } from 'iii-sdk'

const plan = JSON.parse(process.argv[2])
const iii = registerWorker(process.env.III_URL, { workerName: plan.name, enableMetricsReporting: false, otel: { enabled: false } })
const answers = {}
for (const id of plan.registers) iii.registerFunction(id, async () => 'mine')
for (const id of plan.binds) iii.registerTrigger({ type: 'subscribe', function_id: id, config: { topic: 'news' } })
for (const id of plan.calls) {
  answers[id] = await iii.trigger({ function_id: id, payload: {}, timeoutMs: plan.timeoutMs })
    .then((value) => value ?? 'nothing', (error) => String(error.code ?? error.message))
}
console.log(JSON.stringify(answers))
if (plan.stays) process.stdin.on('end', () => process.exit(0)).resume()
else process.exit(0)
