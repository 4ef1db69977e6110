// One join, drawn: its steps, the join, and its continuation.
import { api } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay } from '../session.js';
import { count, plural } from '../format.js';
import { Copy, Empty, Facts, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { JoinGraph } from '../ui/graph.js';
import { ListTable } from '../ui/table.js';
import { Payload } from './message.js';

const columns = [
  { title: 'Message', width: '10.5rem', cell: (row) => html`<${Id} row value=${row.message_id}
    to=${`/messages/${row.message_id}`} />` },
  { title: 'Step', width: '8rem', cell: (row) => html`<${State} of=${row.status} />` },
  { title: 'Topic', cell: (row) => html`<${Text} value=${row.message?.topic}
    none="not stored any more" />` },
  { title: 'Attempts', width: '6rem', align: 'end', optional: 1,
    cell: (row) => row.message?.attempts ?? '–' },
  { title: 'Last error', width: '34%', optional: 1, cell: (row) => html`<${Text}
    value=${row.message?.last_error} />` },
];

function Cancel({ join }) {
  if (!useMay() || join.status !== 'pending') return null;
  return html`<${Action} label="Cancel the join" kind="danger" done="The join is cancelled."
    run=${() => api.post(`/joins/${join.join_id}/cancel`)} question=${{ danger: true,
      title: 'Cancel the join', verb: 'Cancel the join',
      text: 'Its steps go on, but nothing continues after them. Nobody can undo this.' }} />`;
}

function Continuations({ items, more }) {
  if (!items.length)
    return html`<p class="muted">${more ? 'It was not found: its message may be deleted already.'
      : 'No message waits for this join.'}</p>`;
  return html`${items.map((item) => html`<${Facts} key=${item.message_id} items=${[
    ['When completed', html`<${Text} value=${item.on_complete_topic} none="nothing" wrap />`],
    ['When failed', html`<${Text} value=${item.fail_if_any_step_failed ? item.on_fail_topic
      : item.on_complete_topic} none="nothing" wrap />`],
    ['Waits', html`<${Id} value=${item.message_id} to=${`/messages/${item.message_id}`} />
      ${' '}<${State} of=${item.status} />`],
    ['Continued with', item.continuation && html`<${Id} value=${item.continuation.message_id}
      to=${`/messages/${item.continuation.message_id}`} />${' '}<${State}
      of=${item.continuation.status} />`],
  ]} />`)}`;
}

function View({ join, id }) {
  const members = useList(`/joins/${id}/members`, { messages: true }, 'members', { live: 5000 });
  const items = join.waiting;
  const ended = join.completed_steps + join.failed_steps;
  return html`<${Panel} title="Graph" note=${`${count(ended)} of ${plural(join.expected_steps,
      'step')} ended`}><${JoinGraph} join=${join} members=${members.rows} more=${members.next}
      continuations=${items} /><//>
    <div class="columns"><div class="stack"><${Panel} title="Join"><${Facts} items=${[
          ['State', html`<${State} of=${join.status} />`],
          join.reason && ['Reason', html`<${Text} value=${join.reason} wrap />`],
          ['Id', html`<span class="mono">${id}</span> <${Copy} value=${id} />`],
          ['Grouping key', join.grouping_key && html`<${Link} to="/joins"
            params=${{ grouping_key: join.grouping_key }}><${Text} value=${join.grouping_key} wrap
            /><//>`],
          ['Created', html`<${Time} at=${join.created_at} absolute />`],
          ['Changed', html`<${Time} at=${join.last_updated_at} absolute />`],
          ['Ended', html`<${Time} at=${join.finished_at} absolute />`],
          ['Deadline', html`<${Time} at=${join.deadline} absolute none="none" />`],
        ]} /><//></div>
      <div class="stack"><${Panel} title="Continuation"><${Continuations} items=${items}
          more=${join.status !== 'pending'} /><//>
        <${Panel} title="Metadata"><${Payload} field="metadata" label="Show the metadata"
          read=${() => api.get(`/joins/${id}`, { payload: true })} /><//>
      </div></div>
    <${Panel} title="Steps" flush><${ListTable} list=${members}
        columns=${columns} rowKey=${(row) => row.message_id} caption="Steps" empty=${html`<${Empty}
        title="No steps are attached">The join waits for ${plural(join.expected_steps,
          'step')}.<//>`} /><//>`;
}

export function Join({ id }) {
  useTitle('Join');
  const join = useQuery(`/joins/${encodeURIComponent(id)}`, {}, { live: 5000 });
  return html`<${Page} lead=${html`<${Link} to="/joins">Joins<//>`} title="Join"
      text=${join.data?.grouping_key} actions=${join.data && html`<${Cancel} join=${join.data} />`}>
    <${Loaded} query=${join}>${(data) => html`<${View} join=${data} id=${id} />`}<//>
  <//>`;
}
