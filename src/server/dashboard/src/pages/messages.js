// Messages in every state.
import { html } from '../lib.js';
import { useList, useTitle } from '../hooks.js';
import { queues, states, words } from '../format.js';
import { Empty, Id, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from '../ui/filters.js';
import { ListTable } from '../ui/table.js';

const names = ['queue', 'state', 'topic', 'correlation_id', 'stream', 'created_after',
               'created_before', 'finished_after', 'finished_before'];

const times = { done: ['Done', 'processed_at'], failed: ['Failed', 'processed_at'],
                scheduled: ['Next try', 'next_attempt_at'] };

function columnsOf(queue, state) {
  const [title, field] = times[state] ?? ['Due', 'due_at'];
  return [
    { title: 'Message', width: '10.5rem', cell: (row) => html`<${Id} row value=${row.message_id}
      to=${`/messages/${row.message_id}`} />` },
    { title: 'State', width: '7rem', cell: (row) => html`<${State} of=${row.state} />` },
    { title: 'Topic', cell: (row) => html`<${Text} value=${row.topic} />` },
    { title: 'Created', width: '7.5rem', optional: 1, cell: (row) => html`<${Time}
      at=${row.created_at} />` },
    { title, width: '7.5rem', optional: 1, cell: (row) => html`<${Time} at=${row[field] ??
      row.next_attempt_at} />` },
    { title: 'Attempts', width: '5.5rem', align: 'end', optional: 1, cell: (row) => row.attempts },
    { title: 'Last error', width: '20%', optional: 2, cell: (row) => html`<${Text}
      value=${row.last_error} />` },
  ];
}

export function Messages({ query }) {
  useTitle('Messages');
  const params = Object.fromEntries(names.map((name) => [name, query.get(name)]));
  const list = useList('/messages', params, 'messages', { live: 5000 });
  const isFiltered = names.some((name) => name !== 'queue' && query.get(name));
  const ended = ['done', 'failed'].includes(params.state);
  return html`<${Page} title="Messages">
    <${Filters} names=${names} query=${query}>
      <${ChoiceFilter} name="queue" label="Queue" query=${query}
        choices=${queues.map((name) => [name, name])} />
      <${ChoiceFilter} name="state" label="State" query=${query} none="all states"
        choices=${states.map((state) => [state, words(state)])} />
      <${TextFilter} name="topic" label="Topic" query=${query} wide />
      <${TextFilter} name="correlation_id" label="Correlation id" query=${query} />
      <${TextFilter} name="stream" label="Stream" query=${query} />
      <${TimeFilter} name=${ended ? 'finished_after' : 'created_after'} query=${query}
        label=${ended ? 'Ended after' : 'Created after'} />
      <${TimeFilter} name=${ended ? 'finished_before' : 'created_before'} query=${query}
        label=${ended ? 'Ended before' : 'Created before'} />
    <//>
    <${Panel} flush><${ListTable} list=${list} columns=${columnsOf(params.queue, params.state)}
      rowKey=${(row) => row.message_id} caption="Messages" empty=${html`<${Empty}
        title=${isFiltered ? 'No message matches' : 'No messages'}>${isFiltered
          ? 'Filters compare the whole text. Clear one of them to see more.'
          : 'Enqueue one with dovetail enqueue TOPIC PAYLOAD.'}<//>`} /><//>
  <//>`;
}
