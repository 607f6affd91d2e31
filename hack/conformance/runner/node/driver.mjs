// Workers on the bus made with the published iii-sdk, driven line by line: each
// line of standard input is a command {"id", "do", …}, each line of standard
// output its answer {"id", "value" or "error"} or a call of a function that a
// worker serves {"event", "payload"}.
import { createInterface } from 'node:readline'
import { registerWorker, TriggerAction } from 'iii-sdk'

// The client greets on stdout, which is for answers.
console.log = console.debug = console.info = console.error

const AsyncFunction = (async () => {}).constructor
const workers = new Map()
const bindings = new Map()

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const told = (error) => ({ code: error?.code ?? '', message: String(error?.message ?? error), stacktrace: error?.stacktrace ?? '' })

async function until(probe) {
  const deadline = Date.now() + 10_000
  while (!(await probe())) {
    if (Date.now() > deadline) throw new Error('waited 10 s for the engine to list it')
    await new Promise((resolve) => setTimeout(resolve, 15))
  }
}

const commands = {
  connect({ worker }) {
    workers.set(worker, registerWorker(process.env.III_URL, {
      workerName: worker, enableMetricsReporting: false, otel: { enabled: false }, invocationTimeoutMs: 120_000,
      reconnectionConfig: { initialDelayMs: 50, maxRetries: 1000 },
    }))
  },

  trigger({ worker, function_id, payload, timeout_ms, nowait }) {
    const action = nowait ? TriggerAction.Void() : undefined
    return workers.get(worker).trigger({ function_id, payload, timeoutMs: timeout_ms, action })
  },

  /** Serves a function with the body of an async function of payload and iii. */
  async serve({ worker, function_id, body }) {
    const iii = workers.get(worker)
    const handler = new AsyncFunction('payload', 'iii', body)
    iii.registerFunction(function_id, (payload) => {
      say({ event: function_id, payload })
      return handler(payload, iii)
    })
    await until(async () => (await iii.trigger({ function_id: 'engine::functions::list', payload: { prefix: function_id } }))
      .functions.some((f) => f.function_id === function_id))
  },

  async bind({ worker, binding, type, function_id, config }) {
    const iii = workers.get(worker)
    bindings.set(binding, iii.registerTrigger({ type, function_id, config }))
    await until(async () => (await iii.trigger({ function_id: 'engine::registered-triggers::list', payload: { function_id } }))
      .registered_triggers.length > 0)
  },

  unbind({ binding }) { bindings.get(binding).unregister() },

  async leave({ worker }) {
    await workers.get(worker).shutdown()
    workers.delete(worker)
  },
}

async function obey({ id, do: verb, ...rest }) {
  try {
    say({ id, value: (await commands[verb](rest)) ?? null })
  } catch (error) {
    say({ id, error: told(error) })
  }
}

process.on('unhandledRejection', (error) => console.error('unhandled', error))
for await (const line of createInterface({ input: process.stdin })) obey(JSON.parse(line))
// Sockets of workers that shut down may linger; nothing is left to wait for.
process.exit(0)
