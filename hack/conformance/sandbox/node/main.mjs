// Runs every *.rows.mjs beside it. Rows go to stdout, all other output to stderr.
import { runAll } from './lib.mjs'

process.on('unhandledRejection', (error) => console.error('unhandled', error))
await runAll()
// Sockets of workers that shut down may linger; nothing is left to wait for.
process.exit(0)
