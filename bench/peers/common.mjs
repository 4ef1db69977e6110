// Shared by the peers: the command line, the payload, the clock, and the measurements.
//
//   node PEER.mjs setup   URL                          creates the schema and the queues
//   node PEER.mjs single  URL connections=C seconds=S  enqueues one message per transaction
//   node PEER.mjs bulk    URL messages=N               enqueues messages in batches
//   node PEER.mjs drain   URL messages=N               handles the N messages of the queue
//   node PEER.mjs latency URL seconds=S rate=R         times from the enqueue to the handler, in ms
//   node PEER.mjs idle    URL seconds=S                the CPU time of a client without messages
//   node PEER.mjs streams URL messages=N streams=S     enqueues N messages of S streams, and
//                                                      handles each stream in order
//
// Event stores:
//
//   node PEER.mjs append  URL connections=C seconds=S size=E  appends E events per transaction
//   node PEER.mjs fill    URL events=N                        stores N events
//   node PEER.mjs catchup URL events=N                        reads them in pages of 1,000
//
// Use the node that ./install prints. The result is one line of JSON; all other output goes to
// standard error. The defaults of each peer are the fastest settings found on two cores; further
// options let you try other settings.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export { sleep }

// Only the result is written to standard output.
console.log = console.info = console.debug = console.error

export const now = () => performance.now() / 1000  // in seconds

// An object that serializes to 100 bytes of JSON, for numbers below 900,000.
export const payload = number => ({ order: 100000 + number, note: 'x'.repeat(74) })

export const installedVersion = name =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version

// The options that a command requires.
const REQUIRED = {
  single: ['connections', 'seconds'],
  bulk: ['messages'],
  drain: ['messages'],
  latency: ['seconds', 'rate'],
  idle: ['seconds'],
  streams: ['messages', 'streams'],
  append: ['connections', 'seconds', 'size'],
  fill: ['events'],
  catchup: ['events'],
}

// node FILE COMMAND URL key=value...: calls commands[COMMAND](URL, options) and prints the result
// as one line of JSON. Values that look like numbers are converted to numbers.
export async function main(commands) {
  const [command, url, ...pairs] = process.argv.slice(2)
  try {
    if (!Object.hasOwn(commands, command ?? '') || !url)
      throw new Error(`usage: ${Object.keys(commands).join('|')} URL key=value...`)
    const options = {}
    for (const pair of pairs) {
      const [, key, value] = /^(\w+)=(.*)$/.exec(pair) ?? []
      if (!key) throw new Error(`not key=value: ${pair}`)
      options[key] = value !== '' && Number.isFinite(+value) ? +value : value
    }
    for (const key of REQUIRED[command] ?? [])
      if (!(options[key] > 0)) throw new Error(`${command} needs ${key}=NUMBER`)
    const result = await commands[command](url, options)
    process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0))
  } catch (error) {
    console.error(error)
    process.exit(1)
  }
}

// A message of an earlier measurement would falsify the next one.
export function expectWaiting(count, expected) {
  if (count !== expected) throw new Error(`the queue holds ${count} messages, not ${expected}`)
}

// Runs `connections` loops. Each awaits enqueue(number, loop) repeatedly until the time is over.
// Messages of the first half second do not count, because connections are opened in that time.
export async function enqueueSingly({ connections, seconds }, enqueue) {
  let number = 0
  let messages = 0
  const start = now() + Math.min(0.5, seconds / 4)
  const end = start + seconds
  await Promise.all(Array.from({ length: connections }, async (_, loop) => {
    for (let begun = now(); begun < end; begun = now()) {
      await enqueue(number++, loop)
      if (begun >= start) messages++
    }
  }))
  return { messages, seconds: now() - start }
}

// Counts how often two messages of a stream run at once, or out of order. `handled` resolves after
// the last message.
export function orderedHandler({ messages, streams }) {
  const last = new Map()
  const active = new Set()
  const found = { at_once: 0, out_of_order: 0 }
  let left = messages
  let finish
  const handled = new Promise(resolve => { finish = resolve })
  return {
    found,
    handled,
    streamOf: ({ order }) => `stream-${(order - 100000) % streams}`,
    async handle({ order }) {
      const stream = (order - 100000) % streams
      if (active.has(stream)) found.at_once++
      if (last.get(stream) > order) found.out_of_order++
      active.add(stream)
      last.set(stream, order)
      await null
      active.delete(stream)
      if (--left === 0) finish()
    },
  }
}

// Calls append(stream, version, events) repeatedly, with the version that the stream has. A stream
// has 20 appends, as in bench/events.cpp.
export async function appendEvents(options, append) {
  const calls = new Array(options.connections).fill(0)
  const events = Array.from({ length: options.size }, () => eventData)
  return await enqueueSingly(options, async (_, loop) => {
    const call = calls[loop]++
    const stream = `order-${loop}x${Math.floor(call / 20)}`
    await append(stream, (call % 20) * options.size, events)
  })
}
export const eventData =
  { amount: 12345, currency: 'EUR', order: 'order-4711', note: 'paid' }

// Enqueues `messages` in batches with enqueueBatch([payload, ...]), `calls` batches at a time.
export async function enqueueInBulk({ messages, batch, calls }, enqueueBatch) {
  let next = 0
  const start = now()
  await Promise.all(Array.from({ length: calls }, async () => {
    while (next < messages) {
      const first = next
      next = Math.min(messages, first + batch)
      await enqueueBatch(Array.from({ length: next - first }, (_, i) => payload(first + i)))
    }
  }))
  return { messages, seconds: now() - start }
}

// Enqueues `rate` messages a second at equal intervals with enqueue(payload), and does not wait for
// one before it enqueues the next. Returns the time from each enqueue to the start of its handler,
// in milliseconds, in the order of the enqueues. startWorker receives a function that it must call
// with the payload when a handler starts.
export async function measureLatency({ seconds, rate }, startWorker, enqueue) {
  const warmUp = 20
  const total = warmUp + Math.round(seconds * rate)
  const taken = new Array(total)
  let handled = 0
  await startWorker(({ order, at }) => {
    const time = process.hrtime.bigint() - BigInt(at)
    if (taken[order] === undefined) handled++
    taken[order] ??= Number(time) / 1e6
  })
  const start = now()
  const sent = []
  for (let order = 0; order < total; order++) {
    const wait = start + order / rate - now()
    if (wait > 0) await sleep(wait * 1000)
    sent.push(enqueue({ order, at: String(process.hrtime.bigint()), note: 'x'.repeat(50) }))
  }
  await Promise.all(sent)
  for (const deadline = now() + 60; handled < total; await sleep(20))
    if (now() > deadline)
      throw new Error(`${total - handled} of ${total} messages have not reached the handler`)
  return { samples: taken.slice(warmUp).map(ms => +ms.toFixed(4)) }
}

// The CPU time of this process in `seconds`, after a pause in which its worker starts.
export async function measureIdle({ seconds }) {
  await sleep(2000)
  const start = now()
  const before = process.cpuUsage()
  await sleep(seconds * 1000)
  const { user, system } = process.cpuUsage(before)
  return { seconds: now() - start, client_cpu_seconds: (user + system) / 1e6 }
}
