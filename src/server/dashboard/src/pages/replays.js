// Replays and purges: their progress, and those of the past.
import { api } from '../api.js';
import { html } from '../lib.js';
import { useList } from '../hooks.js';
import { useMay } from '../session.js';
import { count } from '../format.js';
import { Empty, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { ListTable } from '../ui/table.js';

function what({ filter, queue }) {
  const parts = [queue, filter.topic, filter.error && `“${filter.error}”`].filter(Boolean);
  return parts.join(' · ');
}

function progress(row) {
  const more = row.limit ? ` of at most ${count(row.limit)}` : '';
  return `${count(row.changed)}${more}`;
}

const columns = (may) => [
  { title: 'Kind', width: '6rem', cell: (row) => row.kind },
  { title: 'State', width: '8rem', cell: (row) => html`<span title=${row.failure}><${State}
    of=${row.state} /></span>` },
  { title: 'Dead letters', cell: (row) => html`<${Text} value=${what(row)} />` },
  { title: 'Changed', width: '8rem', align: 'end', cell: progress },
  { title: 'Per second', width: '6.5rem', align: 'end', optional: 1,
    cell: (row) => (row.rate ? count(row.rate) : '–') },
  { title: 'Started', width: '8rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.started_at} />` },
  { title: 'By', width: '8rem', optional: 2, cell: (row) => html`<${Text} value=${row.actor} />` },
  may && { title: '', width: '6rem', align: 'end', cell: (row) => row.state === 'running' &&
    html`<${Action} small label="Cancel" done="It is cancelled."
      run=${() => api.post(`/dead-letters/replays/${row.replay_id}/cancel`)} />` },
].filter(Boolean);

export function Replays() {
  const may = useMay();
  const list = useList('/dead-letters/replays', {}, 'replays', { live: 2000, limit: 50 });
  return html`<${Panel} flush><${ListTable} list=${list} columns=${columns(may)}
    rowKey=${(row) => row.replay_id} caption="Replays and purges" empty=${html`<${Empty}
      title="No replays yet">Filter the dead letters, then choose “Replay all that match”.<//>`} />
  <//>`;
}
