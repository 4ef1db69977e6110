// One subscription: its lag, its parts, and the events that it parked.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay } from '../session.js';
import { count, milliseconds, words } from '../format.js';
import { Facts, Loaded, Page, Panel, Stat, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { Table } from '../ui/table.js';
import { subscriptionState } from './subscriptions.js';

function Skip({ name, position, small, label = 'Skip' }) {
  return html`<${Action} small=${small} label=${label} done=${`Event ${position} is skipped.`}
    run=${() => api.post(`/subscriptions/${segment(name)}/skip`, { position: String(position) })}
    question=${{ title: 'Skip the event', verb: 'Skip', danger: true,
      text: `${name} never handles the event at position ${position}.` }} />`;
}

function Rebuild({ name }) {
  if (!useMay('admin')) return null;
  return html`<${Action} label="Rebuild" kind="danger" done="It starts again at the first event."
    run=${() => api.post(`/subscriptions/${segment(name)}/rebuild`, { position: '0' })}
    question=${{ title: 'Rebuild the subscription', verb: 'Rebuild', danger: true,
      text: `${name} handles all events again, from the first one. Its handler must be ready for ` +
        'that: empty what it has written before.' }} />`;
}

function Actions({ data, name }) {
  const path = `/subscriptions/${segment(name)}`;
  const isPaused = data.paused_at || data.stopped_at;
  return html`${isPaused
      ? html`<${Action} label="Resume" kind="primary" run=${() => api.post(`${path}/resume`)}
          done=${`${name} goes on.`} />`
      : html`<${Action} label="Pause" run=${() => api.post(`${path}/pause`)}
          done=${`${name} is paused.`} />`}
    ${data.stopped_at && html`<${Skip} name=${name} position=${Number(data.position) + 1}
      label="Skip the next event" />`}
    ${data.parked > 0 && html`<${Action} label="Resume the parked"
      done="The parked events are tried again."
      run=${() => api.post(`${path}/resume`, { parked: true })} />`}
    <${Rebuild} name=${name} />`;
}

const part_columns = [
  { title: 'Part', width: '4rem', cell: (row) => row.part },
  { title: 'Position', width: '8rem', align: 'end', cell: (row) => count(row.position) },
  { title: 'Owner', cell: (row) => html`<${Text} value=${row.owner} mono none="nobody" />` },
  { title: 'Moved', width: '8rem', optional: 1,
    cell: (row) => html`<${Time} at=${row.moved_at} />` },
  { title: 'Attempts', width: '6rem', align: 'end', optional: 1, cell: (row) => row.attempts },
  { title: 'Last error', width: '30%', optional: 1, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
];

const parked_columns = (name, may) => [
  { title: 'Stream', width: '26%', cell: (row) => html`<${Link} class="row-link"
    to=${`/event-streams/${segment(row.stream)}`}><${Text} value=${row.stream} /><//>` },
  { title: 'Position', width: '8rem', align: 'end', cell: (row) => count(row.position) },
  { title: 'Why', width: '8rem', optional: 1, cell: (row) => words(row.kind) },
  { title: 'Error', cell: (row) => html`<${Text} value=${row.error} />` },
  { title: 'Parked', width: '8rem', optional: 1,
    cell: (row) => html`<${Time} at=${row.parked_at} />` },
  may && { title: '', width: '5rem', align: 'end', cell: (row) => html`<${Skip} small name=${name}
    position=${row.position} />` },
].filter(Boolean);

function View({ data, name }) {
  const may = useMay();
  return html`<div class="stats">
      <${Stat} label="Lag" value=${count(data.lag)} unit=" events" note=${data.lag_ms === null
        ? 'up to date' : `${milliseconds(data.lag_ms)} behind`} />
      <${Stat} label="Position" value=${count(data.position)} note=${`of ${count(data.head)}`} />
      <${Stat} label="Parked" value=${count(data.parked)} state=${data.parked ? 'failed' : ''}
        note=${data.parked ? 'wait for a decision' : 'none'} />
      <${Stat} label="Parts" value=${count(data.parts)} note=${`${count(data.held_parts)} held`} />
    </div>
    ${data.last_error && html`<pre class="error" dir="auto" tabindex="0">${data.last_error}</pre>`}
    ${data.parked_events.length > 0 && html`<${Panel} title="Parked events" flush><${Table}
      columns=${parked_columns(name, may)} rows=${data.parked_events} caption="Parked events"
      rowKey=${(row) => row.position} /><//>`}
    <${Panel} title="Parts" flush><${Table} columns=${part_columns} rows=${data.part_list}
      rowKey=${(row) => row.part} caption="Parts" /><//>
    <${Panel} title="Subscription"><${Facts} items=${[
      ['State', subscriptionState(data)],
      ['Types', html`<${Text} value=${data.types?.join(', ')} none="all types" wrap />`],
      ['Streams', html`<${Text} value=${data.prefixes?.join(', ')} none="all streams" wrap />`],
      ['After failures', words(data.on_failure)],
      ['Created', html`<${Time} at=${data.created_at} absolute />`],
      data.paused_at && ['Paused', html`<${Time} at=${data.paused_at} absolute />`],
      data.stopped_at && ['Stopped', html`<${Time} at=${data.stopped_at} absolute />`],
    ]} /><//>`;
}

export function Subscription({ name }) {
  useTitle(name);
  const may = useMay();
  const data = useQuery(`/subscriptions/${segment(name)}`, {}, { live: 3000 });
  return html`<${Page} lead=${html`<${Link} to="/subscriptions">Subscriptions<//>`} text=${name}
      actions=${may && data.data && html`<${Actions} data=${data.data} name=${name} />`}>
    <${Loaded} query=${data}>${(value) => html`<${View} data=${value} name=${name} />`}<//>
  <//>`;
}
