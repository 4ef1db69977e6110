// Timers: messages that are created later.
import { api } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link, href, navigate } from '../router.js';
import { useMay } from '../session.js';
import { Copy, Empty, Facts, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { Filters, TextFilter } from '../ui/filters.js';
import { ListTable } from '../ui/table.js';
import { Payload } from './message.js';

function Cancel({ id, small, then }) {
  return html`<${Action} small=${small} label=${small ? 'Cancel' : 'Cancel the timer'}
    kind=${small ? '' : 'danger'} done=${(answer) => (answer.cancelled ? 'The timer is cancelled.'
      : 'The timer has fired already.')}
    run=${() => api.post(`/timers/${id}/cancel`).then((answer) => { then?.(); return answer; })}
    question=${{ danger: true, title: 'Cancel the timer', verb: 'Cancel the timer',
      text: 'It is deleted and never fires. Nobody can undo this.' }} />`;
}

const columns = (may) => [
  { title: 'Timer', width: '10.5rem', cell: (row) => html`<${Id} row value=${row.timer_id}
    to=${`/timers/${row.timer_id}`} />` },
  { title: 'Due', width: '9rem', cell: (row) => html`<${Time} at=${row.next_attempt_at ??
    row.due_at} />` },
  { title: 'Topic', cell: (row) => html`<${Text} value=${row.topic} />` },
  { title: 'State', width: '8rem', optional: 1,
    cell: (row) => html`<${State} of=${row.status} />` },
  { title: 'Unique key', width: '14%', optional: 2, cell: (row) => html`<${Text}
    value=${row.unique_key} />` },
  { title: 'Last error', width: '16%', optional: 2, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
  may && { title: '', width: '6rem', align: 'end', cell: (row) => html`<${Cancel} small
    id=${row.timer_id} />` },
].filter(Boolean);

export function Timers({ query }) {
  useTitle('Timers');
  const may = useMay();
  const topic = query.get('topic');
  const list = useList('/timers', { topic }, 'timers', { live: 5000 });
  return html`<${Page} title="Timers" actions=${html`<${Link} to="/dead-letters"
      params=${{ queue: 'timers' }}>Timers that failed<//>`}>
    <${Filters} names=${['topic']} query=${query}><${TextFilter} name="topic" label="Topic"
      query=${query} wide /><//>
    <${Panel} flush><${ListTable} list=${list} columns=${columns(may)} caption="Timers"
      rowKey=${(row) => row.timer_id} empty=${html`<${Empty}
        title=${topic ? 'No timer of this topic' : 'No timers'}>Schedule one with dovetail timers
        schedule TOPIC --in SECONDS.<//>`} /><//>
  <//>`;
}

export function Timer({ id }) {
  const timer = useQuery(`/timers/${encodeURIComponent(id)}`, {}, { live: 5000 });
  useTitle(timer.data?.topic ?? 'Timer');
  const may = useMay();
  return html`<${Page} lead=${html`<${Link} to="/timers">Timers<//>`} title="Timer"
      text=${timer.data?.topic} actions=${may && timer.data && html`<${Cancel} id=${id}
        then=${() => navigate(href('/timers'))} />`}>
    <${Loaded} query=${timer}>${(data) => html`<div class="columns">
      <${Panel} title="Timer"><${Facts} items=${[
        ['Due', html`<${Time} at=${data.due_at} absolute />`],
        ['State', html`<${State} of=${data.status} />`],
        ['Id', html`<span class="mono">${id}</span> <${Copy} value=${id} />`],
        ['Topic', html`<${Text} value=${data.topic} wrap />`],
        ['Created', html`<${Time} at=${data.created_at} absolute />`],
        ['Next try', html`<${Time} at=${data.next_attempt_at} absolute />`],
        ['Attempts', data.attempts],
        ['Correlation id', html`<${Text} value=${data.correlation_id} wrap />`],
        ['Unique key', html`<${Text} value=${data.unique_key} wrap />`],
        data.last_error && ['Last error', html`<${Text} value=${data.last_error} wrap />`],
      ]} /><//>
      <${Panel} title="Payload"><${Payload} read=${() => api.get(`/timers/${id}`,
        { payload: true })} /><//></div>`}<//>
  <//>`;
}
