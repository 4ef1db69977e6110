// The audit: who changed what.
import { html } from '../lib.js';
import { useList, useTitle } from '../hooks.js';
import { count } from '../format.js';
import { Empty, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { ListTable } from '../ui/table.js';

const columns = [
  { title: 'Time', width: '11rem', cell: (row) => html`<${Time} at=${row.at} absolute />` },
  { title: 'Who', width: '7rem', cell: (row) => html`<${Text} value=${row.actor} />` },
  { title: 'What', width: '12.5rem', cell: (row) => html`<${Text} value=${row.action} />` },
  { title: 'Target', cell: (row) => html`<${Text} value=${row.target} />` },
  { title: 'Count', width: '5rem', align: 'end', optional: 1,
    cell: (row) => (row.count === null ? '–' : count(row.count)) },
  { title: 'Result', width: '8rem', optional: 1, cell: (row) => (row.result === 'ok'
    ? html`<${State} of="done" label="ok" />` : html`<span class="ink-failed"><${Text}
      value=${row.result} /></span>`) },
  { title: 'Arguments', width: '20%', optional: 2, cell: (row) => html`<${Text} value=${row.detail}
    mono />` },
];

export function Audit() {
  useTitle('Audit');
  const list = useList('/audit', {}, 'entries', { live: 5000 });
  return html`<${Page} title="Audit"><${Panel} flush><${ListTable} list=${list} columns=${columns}
    rowKey=${(row) => row.audit_id} caption="Audit" empty=${html`<${Empty} title="No changes yet">
      Every change over this server is recorded here for 90 days.<//>`} /><//><//>`;
}
