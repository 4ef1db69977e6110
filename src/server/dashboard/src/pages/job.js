// One job: its schedule in words, its next runs and its last ones.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useTitle } from '../hooks.js';
import { Link, href, navigate } from '../router.js';
import { useMay } from '../session.js';
import { duration, milliseconds, words } from '../format.js';
import { Empty, Facts, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { ListTable } from '../ui/table.js';
import { JobActions, Strip } from './jobs.js';
import { Payload } from './message.js';

const took = (run) => (run.started_at && run.ended_at
  ? duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000) : '–');

// The message of a run has the id of the run.
const columns = [
  { title: 'Scheduled', width: '11rem', cell: (row) => html`<${Link} class="row-link"
    to=${`/messages/${row.run_id}`}><${Time} at=${row.scheduled_time} absolute /><//>` },
  { title: 'State', width: '8rem', cell: (row) => html`<${State} of=${row.status} />` },
  { title: 'Took', width: '6rem', align: 'end', cell: took },
  { title: 'Result', cell: (row) => html`<${Text} value=${row.last_error ?? row.output ??
    (row.triggered ? 'triggered by hand' : '')} />` },
];

function NextRuns({ job }) {
  if (!job.enabled) return html`<p class="muted">The job is disabled.</p>`;
  if (!job.next_runs.length) return html`<p class="muted">It has no further run.</p>`;
  return html`<${Facts} items=${job.next_runs.map((at) => [html`<${Time} at=${at} />`,
    html`<${Time} at=${at} absolute />`])} />`;
}

function Remove({ job }) {
  if (!useMay('admin')) return null;
  return html`<${Action} label="Remove" kind="danger" done="The job is removed."
    run=${() => api.remove(`/jobs/${segment(job.name)}`).then(() => navigate(href('/jobs')))}
    question=${{ danger: true, title: 'Remove the job', verb: 'Remove',
      text: `${job.name} is deleted. Its past runs are kept. A process that creates the job at ` +
        'its start creates it again.' }} />`;
}

function View({ job, name }) {
  const runs = useList(`/jobs/${segment(name)}/runs`, {}, 'runs', { live: 5000, limit: 100 });
  return html`${job.last_error && html`<p class="notice warn">
    <${Text} value=${job.last_error} wrap /></p>`}
    <div class="columns"><${Panel} title="Runs" flush actions=${html`<${Strip}
      runs=${runs.rows} />`}><${ListTable} list=${runs} columns=${columns}
      rowKey=${(row) => row.run_id} caption="Runs" empty=${html`<${Empty} title="No runs yet">Run it
        now, or wait for its schedule.<//>`} /><//>
    <div class="stack"><${Panel} title="Schedule"><${Facts} items=${[
        ['In words', html`<${Text} value=${job.description} none="not a valid schedule" wrap />`],
        ['Cron', html`<span class="mono">${job.cron}</span>`],
        ['Time zone', job.time_zone],
        ['State', html`<${State} of=${job.enabled ? 'enabled' : 'paused'}
          label=${job.enabled ? 'enabled' : 'disabled'} />`],
        ['Topic', html`<${Link} to="/messages" params=${{ topic: job.topic }}><${Text}
          value=${job.topic} wrap /><//>`],
        ['Missed runs', `${words(job.misfire)}${job.misfire_limit ? `, at most ${
          job.misfire_limit}` : ''}`],
        ['At the same time', job.max_concurrent_runs || 'any number'],
        job.jitter_ms > 0 && ['Jitter', `up to ${milliseconds(job.jitter_ms)}`],
      ]} /><//>
      <${Panel} title="Next runs"><${NextRuns} job=${job} /><//>
      <${Panel} title="Payload"><${Payload} read=${() => api.get(`/jobs/${segment(name)}`,
        { payload: true })} /><//>
    </div></div>`;
}

export function Job({ name }) {
  useTitle(name);
  const job = useQuery(`/jobs/${segment(name)}`, {}, { live: 5000 });
  const may = useMay();
  return html`<${Page} lead=${html`<${Link} to="/jobs">Jobs<//>`} text=${name}
      actions=${job.data && may && html`<${JobActions} job=${job.data} /><${Remove}
        job=${job.data} />`}>
    <${Loaded} query=${job}>${(data) => html`<${View} job=${data} name=${name} />`}<//>
  <//>`;
}
