// Subscriptions to the event store.
import { segment } from '../api.js';
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { count, milliseconds } from '../format.js';
import { Empty, Loaded, Page, Panel, State, Text } from '../ui/bits.js';
import { Table } from '../ui/table.js';

export function subscriptionState(row) {
  if (row.stopped_at) return html`<${State} of="failed" label="stopped" />`;
  if (row.paused_at) return html`<${State} of="paused" />`;
  if (row.attempts > 0) return html`<${State} of="paused" label="retrying" />`;
  if (row.held_parts > 0) return html`<${State} of="done" label="running" />`;
  return html`<${State} of="scheduled" label="nobody runs it" />`;
}

const columns = [
  { title: 'Subscription', cell: (row) => html`<${Link} class="row-link"
    to=${`/subscriptions/${segment(row.subscription)}`}><${Text} value=${row.subscription} />
    <//>` },
  { title: 'State', width: '9rem', cell: subscriptionState },
  { title: 'Position', width: '8rem', align: 'end', optional: 1,
    cell: (row) => count(row.position) },
  { title: 'Lag', width: '7rem', align: 'end', cell: (row) => html`<span
    class=${Number(row.lag) ? '' : 'muted'}>${count(row.lag)}</span>` },
  { title: 'Behind', width: '7rem', align: 'end', optional: 1,
    cell: (row) => milliseconds(row.lag_ms) },
  { title: 'Parked', width: '6rem', align: 'end', cell: (row) => html`<span
    class=${row.parked ? 'ink-failed' : 'muted'}>${count(row.parked)}</span>` },
  { title: 'Last error', width: '24%', optional: 2, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
];

export function Subscriptions() {
  useTitle('Subscriptions');
  const list = useQuery('/subscriptions', {}, { live: 5000 });
  return html`<${Page} title="Subscriptions"><${Loaded} query=${list}>${(data) => html`
    <${Panel} flush>
    ${data.subscriptions.length ? html`<${Table} columns=${columns} rows=${data.subscriptions}
      rowKey=${(row) => row.subscription} caption="Subscriptions" />`
    : html`<${Empty} title="No subscriptions">A subscription handles all events in order. It appears
      when its process starts.<//>`}<//>`}<//><//>`;
}
