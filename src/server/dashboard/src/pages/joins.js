// Joins, with how far they are.
import { html } from '../lib.js';
import { useList, useTitle } from '../hooks.js';
import { count } from '../format.js';
import { Bar, Empty, Id, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from '../ui/filters.js';
import { ListTable } from '../ui/table.js';

const names = ['status', 'grouping_key', 'created_after', 'created_before'];
export const join_states = ['pending', 'completed', 'failed', 'cancelled'];

export const stepParts = (join) => [
  { state: 'completed', value: join.completed_steps },
  { state: 'failed', value: join.failed_steps },
  { state: 'pending', value: Math.max(0, join.expected_steps - join.completed_steps -
    join.failed_steps) },
];

const columns = [
  { title: 'Join', width: '10.5rem', cell: (row) => html`<${Id} row value=${row.join_id}
    to=${`/joins/${row.join_id}`} />` },
  { title: 'State', width: '8rem', cell: (row) => html`<${State} of=${row.status} />` },
  { title: 'Grouping key', cell: (row) => html`<${Text} value=${row.grouping_key} />` },
  { title: 'Steps', width: '12rem', optional: 1, cell: (row) => html`<${Bar}
    parts=${stepParts(row)} />` },
  { title: 'Ended', width: '7rem', align: 'end', cell: (row) =>
    `${count(row.completed_steps + row.failed_steps)} / ${count(row.expected_steps)}` },
  { title: 'Failed', width: '5rem', align: 'end', cell: (row) => html`<span
    class=${row.failed_steps ? 'ink-failed' : 'muted'}>${count(row.failed_steps)}</span>` },
  { title: 'Created', width: '8rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.created_at} />` },
  { title: 'Deadline', width: '8rem', optional: 2, cell: (row) => html`<${Time}
    at=${row.deadline} />` },
];

export function Joins({ query }) {
  useTitle('Joins');
  const params = Object.fromEntries(names.map((name) => [name, query.get(name)]));
  const list = useList('/joins', params, 'joins', { live: 5000 });
  return html`<${Page} title="Joins">
    <${Filters} names=${names} query=${query}>
      <${ChoiceFilter} name="status" label="State" query=${query} none="all states"
        choices=${join_states.map((state) => [state, state])} />
      <${TextFilter} name="grouping_key" label="Grouping key" query=${query} wide />
      <${TimeFilter} name="created_after" label="Created after" query=${query} />
      <${TimeFilter} name="created_before" label="Created before" query=${query} />
    <//>
    <${Panel} flush><${ListTable} list=${list} columns=${columns} rowKey=${(row) => row.join_id}
      caption="Joins" empty=${html`<${Empty} title=${names.some((name) => query.get(name))
        ? 'No join matches' : 'No joins'}>A join waits for the end of several messages. Ended joins
        are kept for 30 days.<//>`} /><//>
  <//>`;
}
