// The peer Graphile Worker. The commands are described in common.mjs.
import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker'
import pg from 'pg'
import {
  enqueueInBulk, enqueueSingly, expectWaiting, installedVersion, main, measureIdle, measureLatency,
  now, orderedHandler, payload, sleep,
} from './common.mjs'

const TASK = 'bench'

// The default logger writes a line for every job. This one writes only warnings and errors.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(`${level}: ${message}`)
})

// Calls body(pool) with a pool of `max` open connections, and closes the pool.
async function withPool(url, max, body) {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on('error', error => console.error(error))
  pool.on('connect', client => client.on('error', error => console.error(error)))
  try {
    const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()))
    for (const client of clients) client.release()
    return await body(pool)
  } finally {
    await pool.end()
  }
}

// Calls body(utils) with the library's object for enqueueing.
async function withUtils(pgPool, body) {
  const utils = await makeWorkerUtils({ pgPool, logger })
  try {
    return await body(utils)
  } finally {
    await utils.release()
  }
}

const waiting = async pool =>
  +(await pool.query('select count(*) from graphile_worker._private_jobs')).rows[0].count

// Calls body() while `count` workers run with these settings of preset.worker. Each job calls
// handler(payload).
async function withWorkers(pgPool, count, settings, handler, body) {
  const runners = []
  try {
    for (let i = 0; i < count; i++)
      runners.push(await run({
        pgPool, logger, noHandleSignals: true, parsedCronItems: [],
        taskList: { [TASK]: handler }, preset: { worker: settings },
      }))
    const stopped = Promise.race(runners.map(runner => runner.promise)).then(() => {
      throw new Error('a worker has stopped by itself')
    })
    return await Promise.race([body(), stopped])
  } finally {
    await Promise.all(runners.map(runner => runner.stop()))
  }
}

// For latency, the defaults are best: LISTEN/NOTIFY wakes the worker, and one job runs at a time.
const latencySettings = options => ({ concurrentJobs: options.concurrency ?? 1 })

await main({
  async setup(url) {
    await runMigrations({ connectionString: url, logger })
    return { ok: true, version: installedVersion('graphile-worker') }
  },

  single: (url, options) => withPool(url, options.connections, pool => withUtils(pool, utils =>
    enqueueSingly(options, number => utils.addJob(TASK, payload(number))))),

  // Calls the documented SQL function like addJobs, but does not read the rows that addJobs
  // returns. via=api measures addJobs.
  bulk(url, { messages, batch = 5000, calls = 3, via = 'sql' }) {
    return withPool(url, calls, pool => withUtils(pool, utils =>
      enqueueInBulk({ messages, batch, calls }, payloads => {
        const specs = payloads.map(payload => ({ identifier: TASK, payload }))
        if (via === 'api') return utils.addJobs(specs)
        return utils.withPgClient(client => client.query(`
          select count(*) from graphile_worker.add_jobs(
            array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`,
          [JSON.stringify(specs)]))
      })))
  },

  // Several workers, because a local queue fetches only when it is empty: a single worker would
  // wait for every fetch.
  async drain(url, { messages, size = 1000, concurrency = 10, workers = 3 }) {
    const settings = {
      concurrentJobs: concurrency, maxPoolSize: concurrency + 2, localQueue: { size },
      completeJobBatchDelay: 0, failJobBatchDelay: 0,
    }
    return await withPool(url, concurrency + 2, async pool => {
      expectWaiting(await waiting(pool), messages)
      let handled = 0
      let allHandled
      const whenAllHandled = new Promise(resolve => { allHandled = resolve })
      const start = now()
      const handler = () => { if (++handled === messages) allHandled() }
      return await withWorkers(pool, workers, settings, handler, async () => {
        await whenAllHandled
        // A completed job is deleted. The query does not slow the workers, which are idle now.
        while (await waiting(pool) > 0) await sleep(5)
        const seconds = now() - start
        if (handled !== messages)
          throw new Error(`${handled} calls of the handler for ${messages} messages`)
        return { messages, seconds, settings: { workers, ...settings } }
      })
    })
  },

  // Jobs with the same queueName run one at a time. The local queue does not take such jobs in
  // batches, so it is off.
  async streams(url, options) {
    const { messages, concurrency = 10, workers = 3 } = options
    const order = orderedHandler(options)
    const settings = { concurrentJobs: concurrency, maxPoolSize: concurrency + 2 }
    return await withPool(url, concurrency + 2, pool => withUtils(pool, async utils => {
      await enqueueInBulk({ messages, batch: 5000, calls: 1 }, payloads =>
        utils.addJobs(payloads.map(payload => ({
          identifier: TASK, payload, queueName: order.streamOf(payload),
        }))))
      await pool.query('vacuum analyze')
      const start = now()
      return await withWorkers(pool, workers, settings, order.handle, async () => {
        await order.handled
        while (await waiting(pool) > 0) await sleep(5)
        return {
          messages, seconds: now() - start, ...order.found, settings: { workers, ...settings },
        }
      })
    }))
  },

  latency: (url, options) => withPool(url, 10, pool =>
    withPool(url, 4, senders => withUtils(senders, async utils => {
      expectWaiting(await waiting(pool), 0)
      let arrived
      const start = async handler => { arrived = handler; await sleep(500) }
      return await withWorkers(pool, 1, latencySettings(options), payload => arrived(payload), () =>
        measureLatency(options, start, payload => utils.addJob(TASK, payload)))
    }))),

  idle: (url, options) => withPool(url, 10, async pool => {
    expectWaiting(await waiting(pool), 0)
    const settings = latencySettings(options)
    return await withWorkers(pool, 1, settings, () => {}, () => measureIdle(options))
  }),
})
