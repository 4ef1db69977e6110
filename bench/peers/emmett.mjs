// The peer Emmett, an event store. The commands are described in common.mjs.
import { getPostgreSQLEventStore } from '@event-driven-io/emmett-postgresql'
import { appendEvents, eventData, installedVersion, main, now } from './common.mjs'

async function withStore(url, body) {
  const store = getPostgreSQLEventStore(url)
  try {
    return await body(store)
  } finally {
    await store.close()
  }
}

const eventsOf = list => list.map(data => ({ type: 'OrderPaid', data }))

await main({
  setup: url => withStore(url, async store => {
    await store.schema.migrate()
    return { ok: true, version: installedVersion('@event-driven-io/emmett-postgresql') }
  }),

  append: (url, options) => withStore(url, store =>
    appendEvents(options, (stream, version, events) =>
      store.appendToStream(stream, eventsOf(events), {
        expectedStreamVersion: version === 0 ? 'STREAM_DOES_NOT_EXIST' : BigInt(version),
      }))),

  fill: (url, { events }) => withStore(url, async store => {
    for (let done = 0; done < events; done += 1000)
      await store.appendToStream(
        `fill-${done}`, eventsOf(new Array(Math.min(1000, events - done)).fill(eventData)))
    return { events }
  }),

  catchup: (url, { events }) => withStore(url, async store => {
    const consumer = store.consumer({
      stopWhen: { noMessagesLeft: true }, pulling: { batchSize: 1000, pullingFrequencyInMs: 1 },
    })
    let messages = 0
    consumer.reactor({
      processorId: 'catch-up',
      eachMessage: () => { messages++ },
    })
    const start = now()
    await consumer.start()
    const seconds = now() - start
    if (messages !== events) throw new Error(`${messages} of ${events} events were handled`)
    return { messages, seconds }
  }),
})
