// The event store: streams, and the events of one.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link, setQuery } from '../router.js';
import { useSeesPayloads } from '../session.js';
import { count, indented } from '../format.js';
import { Empty, Facts, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Reveal } from '../ui/dialog.js';
import { Filters, Tabs, TextFilter } from '../ui/filters.js';
import { ListTable } from '../ui/table.js';

const stateOf = (stream) => (stream.deleted_at ? html`<${State} of="cancelled" label="deleted" />`
  : stream.closed_at ? html`<${State} of="paused" label="closed" />`
    : html`<${State} of="done" label="open" />`);

const stream_columns = [
  { title: 'Stream', cell: (row) => html`<${Link} class="row-link"
    to=${`/event-streams/${segment(row.stream)}`}><${Text} value=${row.stream} /><//>` },
  { title: 'State', width: '8rem', cell: stateOf },
  { title: 'Version', width: '8rem', align: 'end', cell: (row) => count(row.version) },
  { title: 'First version', width: '8rem', align: 'end', optional: 1,
    cell: (row) => count(row.first_version) },
  { title: 'Created', width: '9rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.created_at} />` },
];

export function EventStreams({ query }) {
  useTitle('Event streams');
  const prefix = query.get('prefix');
  const list = useList('/event-streams', { prefix }, 'streams', { live: 10000 });
  return html`<${Page} title="Event streams">
    <${Filters} names=${['prefix']} query=${query}><${TextFilter} name="prefix" query=${query}
      label="Begins with" wide /><//>
    <${Panel} flush><${ListTable} list=${list} columns=${stream_columns} caption="Event streams"
      rowKey=${(row) => row.stream} empty=${html`<${Empty} title=${prefix
        ? 'No stream begins with this text' : 'No event streams'}>Append an event with dovetail
        events append STREAM TYPE DATA.<//>`} /><//>
  <//>`;
}

// Data of one event: the page of events that begins with it.
function EventData({ stream, event }) {
  const read = async () => {
    const { events } = await api.get(`/event-streams/${segment(stream)}/events`,
      { payload: true, limit: 1, from: event.version });
    return events[0];
  };
  return html`<${Reveal} label="Show" read=${read} show=${(data) => html`<pre dir="auto"
    tabindex="0">${indented(data.data)}</pre>${data.metadata && html`<h3>Metadata</h3><pre
    dir="auto" tabindex="0">${indented(data.metadata)}</pre>`}`} />`;
}

function Event({ stream, event, sees }) {
  return html`<li class="event"><header><span class="mono muted">${count(event.version)}</span>
      <b><${Text} value=${event.type} wrap /></b><span class="muted">
      <${Time} at=${event.at} absolute /></span></header>
    <p class="muted small">${event.position && `Position ${count(event.position)} · `}<${Id}
      value=${event.event_id} />${event.correlation_id && html` · correlation <${Text}
      value=${event.correlation_id} wrap />`}${event.causation_id && html` · caused by <${Text}
      value=${event.causation_id} wrap />`}</p>
    ${sees && html`<${EventData} stream=${stream} event=${event} />`}</li>`;
}

function Events({ stream, backwards }) {
  const list = useList(`/event-streams/${segment(stream)}/events`, { backwards }, 'events',
    { live: 5000, limit: 50 });
  const sees = useSeesPayloads();
  if (list.error && !list.rows.length) return html`<${Loaded} query=${list} />`;
  if (!list.rows.length && !list.loading) return html`<${Empty} title="No events" />`;
  return html`<ul class="events">${list.rows.map((event) => html`<${Event} key=${event.event_id}
      stream=${stream} event=${event} sees=${sees} />`)}</ul>
    ${list.next && html`<p class="panel-foot"><button type="button" disabled=${list.loading}
      onClick=${list.more}>Load more</button></p>`}`;
}

export function EventStream({ stream, query }) {
  useTitle(stream);
  const data = useQuery(`/event-streams/${segment(stream)}`, {}, { live: 5000 });
  const order = query.get('order') === 'oldest' ? 'oldest' : 'newest';
  return html`<${Page} lead=${html`<${Link} to="/event-streams">Event streams<//>`} text=${stream}>
    <${Loaded} query=${data}>${(value) => html`<div class="columns">
      <${Panel} title="Events" actions=${html`<${Tabs} label="Order" value=${order}
        choices=${[['newest', 'newest first'], ['oldest', 'oldest first']]}
        onChoose=${(key) => setQuery({ order: key === 'newest' ? '' : key })} />`}>
        <${Events} stream=${stream} backwards=${order === 'newest'} /><//>
      <${Panel} title="Stream"><${Facts} items=${[
        ['State', stateOf(value)], ['Version', count(value.version)],
        ['First version', count(value.first_version)],
        ['Created', html`<${Time} at=${value.created_at} absolute />`],
        value.closed_at && ['Closed', html`<${Time} at=${value.closed_at} absolute />`],
        value.deleted_at && ['Deleted', html`<${Time} at=${value.deleted_at} absolute />`],
      ]} /><//></div>`}<//>
  <//>`;
}
