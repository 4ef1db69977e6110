// The peer pg-boss. The commands are described in common.mjs.
import { PgBoss } from 'pg-boss'
import {
  enqueueInBulk, enqueueSingly, expectWaiting, installedVersion, main, measureIdle, measureLatency,
  now, orderedHandler, payload, sleep,
} from './common.mjs'

const QUEUE = 'bench'
// An insert into this queue sends a NOTIFY, which lowers the throughput: for latency only.
const NOTIFYING_QUEUE = 'bench_notifying'
const ORDERED_QUEUE = 'bench_ordered'

// The supervisor, the scheduler and migrations do not run while throughput is measured.
const QUIET = { supervise: false, schedule: false, migrate: false }

// Calls body(boss) with a started instance whose pool has up to `max` connections, and stops the
// instance. An error that the instance reports ends the program.
async function withBoss(url, max, options, body) {
  const boss = new PgBoss({ connectionString: url, max, ...options })
  const failed = new Promise((_, reject) => boss.on('error', reject))
  boss.on('warning', warning => console.error('warning:', warning.message))
  await boss.start()
  try {
    // Open all connections before the measurement.
    await Promise.all(Array.from({ length: max }, () => boss.getDb().executeSql('select 1')))
    return await Promise.race([body(boss), failed])
  } finally {
    await boss.stop({ graceful: true, timeout: 2000 })
  }
}

const WAITING = "state < 'active'"
const COMPLETED = "state = 'completed'"
const count = async (boss, condition) => +(await boss.getDb().executeSql(
  `select count(*) from pgboss.job where name = any($1) and ${condition}`,
  [[QUEUE, NOTIFYING_QUEUE]])).rows[0].count

// For latency, LISTEN/NOTIFY wakes the worker. The batch is larger than one, because several
// messages may share a wake-up.
const LISTENING = { useListenNotify: true }
const LATENCY_WORKER = { batchSize: 10, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }

await main({
  async setup(url) {
    return await withBoss(url, 2, { supervise: false, schedule: false }, async boss => {
      await boss.createQueue(QUEUE)
      await boss.createQueue(NOTIFYING_QUEUE, { notify: true })
      await boss.createQueue(ORDERED_QUEUE, { policy: 'key_strict_fifo' })
      return { ok: true, version: installedVersion('pg-boss') }
    })
  },

  single: (url, options) => withBoss(url, options.connections, QUIET, boss =>
    enqueueSingly(options, number => boss.send(QUEUE, payload(number)))),

  bulk: (url, { messages, batch = 5000, calls = 3 }) => withBoss(url, calls, QUIET, boss =>
    enqueueInBulk({ messages, batch, calls }, payloads =>
      boss.insert(QUEUE, payloads.map(data => ({ data }))))),

  // via=work: workers that fetch again at once after a full batch. via=fetch: loops of fetch and
  // complete.
  async drain(url, { messages, batch = 1000, workers = 3, via = 'work' }) {
    return await withBoss(url, workers + 1, QUIET, async boss => {
      expectWaiting(await count(boss, WAITING), messages)
      const completedBefore = await count(boss, COMPLETED)

      let handled = 0
      const start = now()
      if (via === 'work') {
        let allHandled
        const whenAllHandled = new Promise(resolve => { allHandled = resolve })
        await boss.work(QUEUE, {
          batchSize: batch, localConcurrency: workers, burstWhenBatchFull: true,
          pollingIntervalSeconds: 0.5,
        }, async jobs => { if ((handled += jobs.length) >= messages) allHandled() })
        await whenAllHandled
        // Returns after the last batch is completed in the database.
        await boss.offWork(QUEUE, { wait: true })
      } else {
        await Promise.all(Array.from({ length: workers }, async () => {
          for (;;) {
            const jobs = await boss.fetch(QUEUE, { batchSize: batch })
            if (jobs.length === 0) return
            handled += jobs.length
            await boss.complete(QUEUE, jobs.map(job => job.id))
          }
        }))
      }
      const seconds = now() - start

      const completed = await count(boss, COMPLETED) - completedBefore
      if (completed !== messages || handled !== messages)
        throw new Error(`${messages} messages, ${handled} handled, ${completed} completed`)
      const settings = { via, batchSize: batch, workers, burstWhenBatchFull: true }
      return { messages, seconds, settings }
    })
  },

  // Loops of fetch and complete, because work() pauses after a batch that is not full.
  async streams(url, options) {
    const { messages, batch = 1000, workers = 3 } = options
    const order = orderedHandler(options)
    return await withBoss(url, workers + 1, QUIET, async boss => {
      await enqueueInBulk({ messages, batch: 5000, calls: 1 }, payloads =>
        boss.insert(ORDERED_QUEUE, payloads.map(data => ({
          data, singletonKey: order.streamOf(data),
        }))))
      await boss.getDb().executeSql('vacuum analyze')
      let over = false
      order.handled.then(() => { over = true })
      const start = now()
      await Promise.all(Array.from({ length: workers }, async () => {
        while (!over) {
          const jobs = await boss.fetch(ORDERED_QUEUE, { batchSize: batch })
          if (jobs.length === 0) await sleep(1)
          for (const job of jobs) await order.handle(job.data)
          if (jobs.length > 0) await boss.complete(ORDERED_QUEUE, jobs.map(job => job.id))
        }
      }))
      return {
        messages, seconds: now() - start, ...order.found, settings: { batchSize: batch, workers },
      }
    })
  },

  latency: (url, options) => withBoss(url, 4, LISTENING, boss => withBoss(url, 4, QUIET, sender =>
    measureLatency(options, async arrived => {
      expectWaiting(await count(boss, WAITING), 0)
      await boss.work(NOTIFYING_QUEUE, LATENCY_WORKER, async jobs => {
        for (const job of jobs) arrived(job.data)
      })
      await sleep(500)
    }, payload => sender.send(NOTIFYING_QUEUE, payload)))),

  // The worker that latency uses, together with the maintenance of a normal instance.
  idle: (url, options) => withBoss(url, 4, LISTENING, async boss => {
    expectWaiting(await count(boss, WAITING), 0)
    await boss.work(NOTIFYING_QUEUE, LATENCY_WORKER, async () => {})
    return await measureIdle(options)
  }),
})
