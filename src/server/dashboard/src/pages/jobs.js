// Jobs: what runs when, and how the last runs went.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay } from '../session.js';
import { local, words } from '../format.js';
import { Empty, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { Filters, TextFilter } from '../ui/filters.js';
import { Table } from '../ui/table.js';

const strip_length = 14;

// The last runs, oldest first: one mark for each, coloured by its end.
export function Strip({ runs }) {
  const shown = runs.slice(0, strip_length).reverse();
  if (!shown.length) return html`<span class="muted">no runs</span>`;
  const failed = shown.filter((run) => run.status === 'failed').length;
  return html`<span class="strip" role="img"
    aria-label=${`${shown.length} last runs, ${failed} failed`}>
    ${shown.map((run) => html`<i key=${run.run_id} class=${`fill-${run.status}`}
      title=${`${local(run.scheduled_time)}: ${words(run.status)}${run.triggered
        ? ', triggered' : ''}`}></i>`)}</span>`;
}

function LastRuns({ job }) {
  const runs = useQuery(`/jobs/${segment(job.name)}/runs`, { limit: strip_length });
  return runs.data ? html`<${Strip} runs=${runs.data.runs} />` : html`<span class="muted">…</span>`;
}

export function JobActions({ job, small }) {
  const path = `/jobs/${segment(job.name)}`;
  return html`<${Action} small=${small} label="Run now" done=${`${job.name} runs.`}
      run=${() => api.post(`${path}/trigger`)} />
    ${job.enabled
      ? html`<${Action} small=${small} label="Disable" done=${`${job.name} is disabled.`}
          run=${() => api.post(`${path}/disable`)} question=${{ title: 'Disable the job',
            verb: 'Disable', text: `${job.name} is not run on its schedule until you enable it. ` +
              'Times that pass meanwhile are not caught up.' }} />`
      : html`<${Action} small=${small} label="Enable" done=${`${job.name} is enabled.`}
          run=${() => api.post(`${path}/enable`)} />`}`;
}

const scheduleOf = ({ description, cron, time_zone: zone }) =>
  `${description ?? cron}${zone === 'UTC' ? '' : `, ${zone}`}`;

const columns = (may) => [
  { title: 'Job', width: '21%', cell: (row) => html`<${Link} class="row-link"
    to=${`/jobs/${segment(row.name)}`}><${Text} value=${row.name} /><//>` },
  { title: 'Schedule', cell: (row) => html`<${Text} value=${scheduleOf(row)} />` },
  { title: 'Next run', width: '7.5rem', cell: (row) => (row.enabled ? html`<${Time}
    at=${row.next_due_at} />` : html`<${State} of="paused" label="disabled" />`) },
  { title: 'Last run', width: '6.5rem', optional: 1, cell: (row) => (row.last_run_status
    ? html`<span title=${row.last_error}><${State} of=${row.last_run_status} /></span>`
    : html`<span class="muted">never</span>`) },
  { title: 'Last runs', width: '8.5rem', optional: 2,
    cell: (row) => html`<${LastRuns} job=${row} />` },
  may && { title: '', width: '11rem', align: 'end', optional: 1,
    cell: (row) => html`<${JobActions} job=${row} small />` },
].filter(Boolean);

export function Jobs({ query }) {
  useTitle('Jobs');
  const may = useMay();
  const jobs = useQuery('/jobs', {}, { live: 10000 });
  const wanted = (query.get('name') ?? '').toLowerCase();
  return html`<${Page} title="Jobs">
    <${Filters} names=${['name']} query=${query}><${TextFilter} name="name" label="Name contains"
      query=${query} wide /><//>
    <${Loaded} query=${jobs}>${(data) => {
      const rows = data.jobs.filter((job) => job.name.toLowerCase().includes(wanted));
      return html`<${Panel} flush>${rows.length ? html`<${Table} columns=${columns(may)}
        rows=${rows} rowKey=${(row) => row.name} caption="Jobs" />`
        : html`<${Empty} title=${wanted ? 'No job contains this text' : 'No jobs'}>Create one with
          dovetail jobs create NAME TOPIC "0 0 2 * * *".<//>`}<//>`;
    }}<//>
  <//>`;
}
