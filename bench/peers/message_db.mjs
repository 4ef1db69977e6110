// The peer Message DB, an event store of SQL functions. The commands are described in common.mjs.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { appendEvents, eventData, installedVersion, main, now } from './common.mjs'

const FILES = [
  'schema/message-store', 'extensions/pgcrypto', 'tables/messages', 'types/message',
  ...['message-store-version', 'hash-64', 'acquire-lock', 'category', 'is-category', 'id',
    'cardinal-id', 'stream-version', 'write-message', 'get-stream-messages',
    'get-category-messages', 'get-last-stream-message'].map(name => `functions/${name}`),
  ...['id', 'stream', 'category'].map(name => `indexes/messages-${name}`),
]

async function withPool(url, max, body) {
  const pool = new pg.Pool({
    connectionString: url, max, options: '-c search_path=message_store,public',
  })
  pool.on('error', error => console.error(error))
  try {
    return await body(pool)
  } finally {
    await pool.end()
  }
}

const write = (client, stream, event, expected) => client.query({
  name: 'write', text: 'select write_message($1, $2, $3, $4, null, $5)',
  values: [randomUUID(), stream, 'OrderPaid', JSON.stringify(event), expected],
})

async function inTransaction(pool, body) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await body(client)
    await client.query('commit')
  } finally {
    client.release()
  }
}

await main({
  setup: url => withPool(url, 1, async pool => {
    for (const file of FILES)
      await pool.query(readFileSync(new URL(
        `node_modules/@eventide/message-db/database/${file}.sql`, import.meta.url), 'utf8'))
    return { ok: true, version: installedVersion('@eventide/message-db') }
  }),

  // The function stores one event. Its version of a stream without events is -1.
  append: (url, options) => withPool(url, options.connections, pool =>
    appendEvents(options, async (stream, version, events) => {
      if (events.length === 1) return await write(pool, stream, events[0], version - 1)
      await inTransaction(pool, async client => {
        for (const [i, event] of events.entries())
          await write(client, stream, event, version - 1 + i)
      })
    })),

  fill: (url, { events }) => withPool(url, 1, async pool => {
    await pool.query(
      `select count(write_message(gen_random_uuid()::text, 'order-' || i / 100, 'OrderPaid', $1))
         from generate_series(0, $2::integer - 1) i`, [JSON.stringify(eventData), events])
    await pool.query('vacuum analyze message_store.messages')
    return { events }
  }),

  catchup: (url, { events }) => withPool(url, 1, async pool => {
    let messages = 0
    const start = now()
    for (let position = 0n; ;) {
      const { rows } = await pool.query({
        name: 'page', text: 'select * from get_category_messages($1, $2, 1000)',
        values: ['order', String(position)],
      })
      if (rows.length === 0) break
      for (const row of rows) JSON.parse(row.data)
      messages += rows.length
      position = BigInt(rows.at(-1).global_position) + 1n
    }
    const seconds = now() - start
    if (messages !== events) throw new Error(`${messages} of ${events} events were read`)
    return { messages, seconds }
  }),
})
