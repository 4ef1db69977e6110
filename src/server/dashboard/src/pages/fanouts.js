// Fan-outs: the same work for many, and how far each one is.
import { api, segment } from '../api.js';
import { html, useState } from '../lib.js';
import { useBusy, useList, useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay } from '../session.js';
import { milliseconds } from '../format.js';
import { Empty, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action, Dialog, change } from '../ui/dialog.js';
import { Filters, TextFilter } from '../ui/filters.js';
import { ListTable, Table } from '../ui/table.js';

const path = (row) => `/fanouts/${segment(row.topic)}`;
const keyed = (row, more = {}) => (row.work_key === null ? more
  : { work_key: row.work_key, ...more });

function CadenceDialog({ row, onClose }) {
  const [seconds, setSeconds] = useState(String(row.every_ms / 1000));
  const [save, busy] = useBusy(async (every) => {
    const body = keyed(row, every ? { every_ms: Math.round(Number(every) * 1000) } : {});
    const answer = await change(() => api.post(`${path(row)}/cadence`, body),
      every ? 'The cadence is set.' : 'The cadence is as registered.');
    if (answer) onClose();
  });
  return html`<${Dialog} title="Cadence" onClose=${onClose}>
    <p>How often each one of <b><${Text} value=${row.topic} wrap /></b> is due.${' '}
      ${row.default_every_ms !== null &&
        `Registered: every ${milliseconds(row.default_every_ms)}.`}</p>
    <label class="field"><span>Seconds</span><input type="number" min="0.001" step="any"
      value=${seconds} onInput=${(event) => setSeconds(event.target.value)} /></label>
    <footer class="dialog-foot">
      ${row.set_by_operator && html`<button type="button" disabled=${busy}
        onClick=${() => save(null)}>As registered</button>`}
      <button type="button" class="primary" disabled=${busy || !(Number(seconds) > 0)}
        onClick=${() => save(seconds)}>Set</button></footer><//>`;
}

function FanoutActions({ row }) {
  const [open, setOpen] = useState(false);
  return html`<${Action} small label="Run now" done="The fan-out runs."
      run=${() => api.post(`${path(row)}/run`, keyed(row))} />
    <button type="button" class="small" onClick=${() => setOpen(true)}>Cadence…</button>
    ${open && html`<${CadenceDialog} row=${row} onClose=${() => setOpen(false)} />`}`;
}

const columns = (may) => [
  { title: 'Topic', cell: (row) => html`<${Link} class="row-link" to=${path(row)}><${Text}
    value=${row.topic} /><//>` },
  { title: 'Work key', width: '20%', cell: (row) => html`<${Text} value=${row.work_key}
    none="all" />` },
  { title: 'Every', width: '7rem', align: 'end', cell: (row) => milliseconds(row.every_ms) },
  { title: 'Set by', width: '8rem', optional: 1, cell: (row) => (row.set_by_operator ? 'an operator'
    : 'its process') },
  { title: 'Job', width: '20%', optional: 2, cell: (row) => (row.job ? html`<${Link}
    to=${`/jobs/${segment(row.job)}`}><${Text} value=${row.job} /><//>` : '–') },
  may && { title: '', width: '11.5rem', align: 'end', optional: 1,
    cell: (row) => html`<${FanoutActions} row=${row} />` },
].filter(Boolean);

export function Fanouts() {
  useTitle('Fan-outs');
  const may = useMay();
  const list = useQuery('/fanouts', {}, { live: 10000 });
  return html`<${Page} title="Fan-outs"><${Loaded} query=${list}>${(data) => html`<${Panel} flush>
    ${data.fanouts.length ? html`<${Table} columns=${columns(may)} rows=${data.fanouts}
      rowKey=${(row) => `${row.topic} ${row.work_key}`} caption="Fan-outs" />`
    : html`<${Empty} title="No fan-outs">A fan-out does the same work for many tenants on a
      schedule. It appears when its process starts.<//>`}<//>`}<//><//>`;
}

const cursor_columns = [
  { title: 'Shard', cell: (row) => html`<${Text} value=${row.shard_key} />` },
  { title: 'Work key', width: '18%', optional: 1,
    cell: (row) => html`<${Text} value=${row.work_key} />` },
  { title: 'State', width: '8rem', cell: (row) => html`<${State} of=${row.status} />` },
  { title: 'Done up to', width: '11rem', cell: (row) => html`<${Time} at=${row.last_completed_at}
    none="never" />` },
  { title: 'Message', width: '10.5rem', optional: 1, cell: (row) => html`<${Id} row
    value=${row.message_id} to=${`/messages/${row.message_id}`} />` },
  { title: 'Last error', width: '24%', optional: 2, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
];

export function Fanout({ topic, query }) {
  useTitle(topic);
  const workKey = query.get('work_key');
  const list = useList(`/fanouts/${segment(topic)}/cursors`, { work_key: workKey }, 'cursors',
    { live: 5000 });
  return html`<${Page} lead=${html`<${Link} to="/fanouts">Fan-outs<//>`} text=${topic}>
    <${Filters} names=${['work_key']} query=${query}><${TextFilter} name="work_key"
      label="Work key" query=${query} wide /><//>
    <${Panel} flush><${ListTable} list=${list} columns=${cursor_columns} caption="Cursors"
      rowKey=${(row) => `${row.work_key} ${row.shard_key}`} empty=${html`<${Empty}
      title="No cursors">A cursor appears when the fan-out has run for the first time.<//>`} /><//>
  <//>`;
}
