// Dead letters: grouped by their errors, replayed and purged.
import { api } from '../api.js';
import { html, useState } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link, setQuery } from '../router.js';
import { useMay } from '../session.js';
import { capped, count, plural, queues } from '../format.js';
import { Empty, Id, Loaded, Page, Panel, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { ChoiceFilter, Filters, Tabs, TextFilter, TimeFilter } from '../ui/filters.js';
import { ListTable, Table, useSelection } from '../ui/table.js';
import { ReplayDialog } from './replay_dialog.js';
import { Replays } from './replays.js';

const names = ['queue', 'topic', 'error', 'failed_after', 'failed_before'];

function filterOf(query) {
  const filter = Object.fromEntries(names.map((name) => [name, query.get(name) ?? undefined]));
  return { ...filter, queue: queues.includes(filter.queue) ? filter.queue : 'outbox' };
}

function Groups({ filter }) {
  const { error, ...params } = filter;
  const groups = useQuery('/dead-letters/groups', params, { live: 10000 });
  const columns = [
    { title: 'Error', cell: (row) => html`<${Link} to="/dead-letters" class="row-link"
      params=${{ ...params, topic: row.topic, error: row.error, view: 'list' }}><${Text}
      value=${row.error} none="without an error" /><//>` },
    { title: 'Topic', width: '30%', cell: (row) => html`<${Text} value=${row.topic} />` },
    { title: 'Count', width: '6rem', align: 'end', cell: (row) => count(row.count) },
    { title: 'Oldest', width: '8rem', optional: 1,
      cell: (row) => html`<${Time} at=${row.oldest} />` },
    { title: 'Newest', width: '8rem', optional: 1,
      cell: (row) => html`<${Time} at=${row.newest} />` },
  ];
  return html`<${Loaded} query=${groups}>${(data) => (data.groups.length
    ? html`<${Panel} flush><${Table} columns=${columns} rows=${data.groups} caption="Groups"
        rowKey=${(row) => `${row.topic} ${row.error}`} />
        <footer class="table-foot"><span class="muted">${plural(data.groups.length, 'group')} of ${
          capped(data.letters_read, data.letters_cut)} dead letters${data.letters_cut
          ? ': the newest ones are read' : ''}</span></footer><//>`
    : html`<${Panel}><${NoLetters} filter=${filter} /><//>`)}<//>`;
}

function NoLetters({ filter }) {
  const isFiltered = names.some((name) => name !== 'queue' && filter[name]);
  return isFiltered ? html`<${Empty} title="No dead letter matches">Clear a filter to see more.<//>`
    : html`<${Empty} title=${`The ${filter.queue} has no dead letters`}>A message becomes one after
      its last attempt, or at once if its handler says so.<//>`;
}

const letter_columns = [
  { title: 'Message', width: '10.5rem', cell: (row) => html`<${Id} row value=${row.message_id}
    to=${`/messages/${row.message_id}`} />` },
  { title: 'Topic', width: '26%', cell: (row) => html`<${Text} value=${row.topic} />` },
  { title: 'Error',
    cell: (row) => html`<${Text} value=${row.last_error} none="without an error" />` },
  { title: 'Attempts', width: '5.5rem', align: 'end', optional: 1,
    cell: (row) => row.attempts + (row.past_attempts ?? 0) },
  { title: 'Failed', width: '8rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.processed_at} />` },
];

// Up to this many ids can be sent at once.
const most_ids = 1000;

function Chosen({ selection, queue, mayPurge }) {
  const ids = selection.ids.slice(0, most_ids);
  const body = { queue, message_ids: ids };
  const clear = (answer) => { selection.clear(); return answer; };
  return html`<div class="chosen-bar" role="region" aria-label="Selected dead letters">
    <span>${plural(ids.length, 'dead letter')} selected</span>
    <div class="actions"><button type="button" class="quiet" onClick=${selection.clear}>Clear
      </button>
      ${mayPurge && html`<${Action} label="Purge" kind="danger" question=${{ danger: true,
        title: 'Purge the selected dead letters', verb: `Purge ${count(ids.length)}`,
        text: 'They are deleted with their payloads. Nobody can undo this.' }}
        run=${() => api.post('/dead-letters/purge', body).then(clear)}
        done=${(answer) => `${plural(answer.purged, 'dead letter')} purged.`} />`}
      <${Action} label="Replay" kind="primary"
        run=${() => api.post('/dead-letters/replay', body).then(clear)}
        done=${(answer) => `${plural(answer.replayed, 'message')} ready again.`} />
    </div></div>`;
}

function Letters({ filter, may, mayPurge }) {
  const list = useList('/dead-letters', filter, 'dead_letters', { live: 10000 });
  const selection = useSelection(list.rows, (row) => row.message_id);
  return html`<${Panel} flush><${ListTable} list=${list} columns=${letter_columns}
      rowKey=${(row) => row.message_id} caption="Dead letters" selection=${may ? selection : null}
      empty=${html`<${NoLetters} filter=${filter} />`} /><//>
    ${may && selection.ids.length > 0 && html`<${Chosen} selection=${selection}
      queue=${filter.queue} mayPurge=${mayPurge} />`}`;
}

const views = [['groups', 'By error'], ['list', 'Single'], ['replays', 'Replays']];

export function DeadLetters({ query }) {
  useTitle('Dead letters');
  const [asked, setAsked] = useState(null);
  const may = useMay();
  const mayPurge = useMay('admin');
  const filter = filterOf(query);
  const view = query.get('view') ?? (filter.error ? 'list' : 'groups');
  return html`<${Page} title="Dead letters" actions=${html`
      <${Tabs} label="View" value=${view} choices=${views}
        onChoose=${(value) => setQuery({ view: value })} />
      ${may && view !== 'replays' && html`<button type="button" class="primary"
        onClick=${() => setAsked('replay')}>Replay all that match…</button>`}
      ${mayPurge && view !== 'replays' && html`<button type="button" class="danger"
        onClick=${() => setAsked('purge')}>Purge…</button>`}`}>
    ${view !== 'replays' && html`<${Filters} names=${names} query=${query}>
      <${ChoiceFilter} name="queue" label="Queue" query=${query}
        choices=${queues.map((name) => [name, name])} />
      <${TextFilter} name="topic" label="Topic" query=${query} wide />
      <${TextFilter} name="error" label="Error, exactly" query=${query} wide />
      <${TimeFilter} name="failed_after" label="Failed after" query=${query} />
      <${TimeFilter} name="failed_before" label="Failed before" query=${query} />
    <//>`}
    ${view === 'groups' && html`<${Groups} filter=${filter} />`}
    ${view === 'list' && html`<${Letters} filter=${filter} may=${may} mayPurge=${mayPurge} />`}
    ${view === 'replays' && html`<${Replays} />`}
    ${asked && html`<${ReplayDialog} kind=${asked} filter=${filter}
      onClose=${() => setAsked(null)} />`}
  <//>`;
}
