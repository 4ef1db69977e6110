// Streams of a queue: messages in order, and streams that are blocked by a failure.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay } from '../session.js';
import { count, queues } from '../format.js';
import { Empty, Facts, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { ChoiceFilter, Filters, TextFilter } from '../ui/filters.js';
import { ListTable } from '../ui/table.js';

function StreamActions({ stream, queue, small }) {
  const path = `/streams/${segment(stream.stream)}`;
  if (stream.state !== 'blocked') return null;
  return html`<${Action} small=${small} label="Resume" done="The stream goes on."
      run=${() => api.post(`${path}/resume`, { queue })} />
    <${Action} small=${small} label="Skip" done="The first message is skipped."
      run=${() => api.post(`${path}/skip`, { queue })} question=${{ title: 'Skip the first message',
        verb: 'Skip', danger: true,
        text: 'The message that blocks the stream stays a dead letter. The stream goes on ' +
          'with the next one, out of order.' }} />`;
}

const columns = (queue, may) => [
  { title: 'Stream', cell: (row) => html`<${Link} to="/streams" class="row-link"
    params=${{ queue, stream: row.stream }}><${Text} value=${row.stream} /><//>` },
  { title: 'State', width: '7.5rem', cell: (row) => html`<${State} of=${row.state} />` },
  { title: 'Messages', width: '6rem', align: 'end', cell: (row) => count(row.messages) },
  { title: 'First message', width: '18%', optional: 1, cell: (row) => html`<${Text}
    value=${row.head_topic} />` },
  { title: 'Attempts', width: '5.5rem', align: 'end', optional: 2,
    cell: (row) => row.head_attempts },
  { title: 'Last error', width: '24%', optional: 1, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
  may && { title: '', width: '9.5rem', align: 'end', cell: (row) => html`<${StreamActions} small
    stream=${row} queue=${queue} />` },
].filter(Boolean);

function One({ name, queue, may }) {
  const stream = useQuery(`/streams/${segment(name)}`, { queue }, { live: 5000 });
  return html`<${Panel} title=${html`<${Text} value=${name} wrap />`}
      actions=${may && stream.data && html`<${StreamActions} stream=${stream.data}
        queue=${queue} />`}>
    <${Loaded} query=${stream}>${(data) => html`<${Facts} items=${[
      ['State', html`<${State} of=${data.state} />`],
      ['Messages', html`<${Link} to="/messages" params=${{ queue, stream: name }}>${count(
        data.messages)} waiting<//>`],
      ['First message', html`<${Id} value=${data.head_id} to=${`/messages/${data.head_id}`} />
        <${Text} value=${data.head_topic} />`],
      ['Attempts', data.head_attempts],
      data.next_attempt_at && ['Next try', html`<${Time} at=${data.next_attempt_at} />`],
      data.blocked_at && ['Blocked', html`<${Time} at=${data.blocked_at} absolute />`],
      data.owner && ['Worker', html`<${Text} value=${data.owner} mono wrap />`],
      data.last_error && ['Last error', html`<${Text} value=${data.last_error} wrap />`],
    ]} />`}<//><//>`;
}

export function Streams({ query }) {
  useTitle('Streams');
  const may = useMay();
  const queue = queues.includes(query.get('queue')) ? query.get('queue') : 'outbox';
  const blocked = query.get('blocked') === 'true';
  const list = useList('/streams', { queue, blocked }, 'streams', { live: 5000 });
  const name = query.get('stream');
  return html`<${Page} title="Streams">
    <${Filters} names=${['queue', 'blocked', 'stream']} query=${query}>
      <${ChoiceFilter} name="queue" label="Queue" query=${query}
        choices=${queues.map((each) => [each, each])} />
      <${ChoiceFilter} name="blocked" label="State" query=${query} none="all streams"
        choices=${[['true', 'blocked']]} />
      <${TextFilter} name="stream" label="Stream" query=${query} wide />
    <//>
    ${name && html`<${One} name=${name} queue=${queue} may=${may} />`}
    <${Panel} flush><${ListTable} list=${list} columns=${columns(queue, may)} caption="Streams"
      rowKey=${(row) => row.stream} empty=${html`<${Empty} title=${blocked
        ? 'No stream is blocked' : 'No streams'}>Messages of one stream are handled in order. A
        stream is shown while it has unfinished messages.<//>`} /><//>
  <//>`;
}
