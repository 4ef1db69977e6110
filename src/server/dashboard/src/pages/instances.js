// The processes that work on the database, and topics that nobody handles.
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { count, milliseconds } from '../format.js';
import { Empty, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Table } from '../ui/table.js';

function handles({ queues }) {
  return queues.map(({ queue, all_topics: all, topics }) =>
    `${queue}: ${all ? 'all topics' : topics.join(', ') || 'none'}`).join(' · ');
}

const columns = [
  { title: 'Host', width: '18%', cell: (row) => html`<${Text} value=${row.host} />` },
  { title: 'Process', width: '6rem', align: 'end', optional: 1, cell: (row) => row.pid },
  { title: 'State', width: '8rem', cell: (row) => html`<${State} of=${row.stale ? 'stale'
    : row.state === 'running' ? 'done' : row.state} label=${row.stale ? 'no heartbeat'
    : row.state} />` },
  { title: 'Handles', cell: (row) => html`<${Text} value=${handles(row)} none="nothing" />` },
  { title: 'Version', width: '6rem', optional: 2, cell: (row) => row.version },
  { title: 'Started', width: '8rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.started_at} />` },
  { title: 'Heartbeat', width: '8rem', cell: (row) => html`<${Time} at=${row.heartbeat_at} />` },
];

const topic_columns = [
  { title: 'Topic', cell: (row) => html`<${Link} class="row-link" to="/messages"
    params=${{ queue: row.queue, topic: row.topic }}><${Text} value=${row.topic} /><//>` },
  { title: 'Queue', width: '8rem', cell: (row) => row.queue },
  { title: 'Waiting', width: '7rem', align: 'end', cell: (row) => count(row.waiting) },
  { title: 'Oldest', width: '8rem', align: 'end', cell: (row) => milliseconds(row.oldest_due_ms) },
];

export function Instances() {
  useTitle('Instances');
  const list = useQuery('/instances', {}, { live: 5000 });
  return html`<${Page} title="Instances"><${Loaded} query=${list}>${(data) => html`
    <${Panel} title="Processes" flush>${data.instances.length ? html`<${Table} columns=${columns}
      rows=${data.instances} rowKey=${(row) => row.instance_id} caption="Processes" />`
      : html`<${Empty} title="No process is running">Start one that handles messages, such as
        dovetail work.<//>`}<//>
    <${Panel} title="Topics that nobody handles" flush
      note=${data.unhandled_topics.length >= 100 ? 'the 100 that wait longest' : ''}>
      ${data.unhandled_topics.length
      ? html`<${Table} columns=${topic_columns} rows=${data.unhandled_topics}
        rowKey=${(row) => `${row.queue} ${row.topic}`} caption="Topics that nobody handles" />`
      : html`<${Empty} title="None">Every topic that has waiting messages has a handler.<//>`}
    <//>`}<//>
  <//>`;
}
