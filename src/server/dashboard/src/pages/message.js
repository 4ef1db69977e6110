// One message: what happened to it, and what it belongs to.
import { api } from '../api.js';
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { useMay, useSeesPayloads } from '../session.js';
import { indented, plural, words } from '../format.js';
import { Copy, Facts, Id, Loaded, Page, Panel, State, Text, Time } from '../ui/bits.js';
import { Action, Reveal } from '../ui/dialog.js';

export function Payload({ read, field = 'payload', label = 'Show the payload' }) {
  if (!useSeesPayloads())
    return html`<p class="muted">Payloads are shown to the roles operator and admin.</p>`;
  return html`<${Reveal} label=${label} read=${read} show=${(data) => {
    const text = data[field];
    if (!text) return html`<p class="muted">It is empty.</p>`;
    return html`<pre dir="auto" tabindex="0">${indented(text)}</pre>
      <p class="panel-foot"><${Copy} value=${text} label="Copy" /></p>`;
  }} />`;
}

const step_states = { created: 'scheduled', due: 'ready', next_attempt: 'paused', done: 'done',
                      failed: 'failed', expires: 'scheduled' };
const step_words = { created: 'Created', due: 'Due', next_attempt: 'Next try', done: 'Done',
                     failed: 'Failed: a dead letter', expires: 'Expires' };

function attemptsText({ attempts, past_attempts }) {
  const now = attempts === 0 ? 'not tried yet' : plural(attempts, 'attempt');
  return past_attempts ? `${now}, and ${past_attempts} before the last replay` : now;
}

const failure_words = { failed: 'failed', lost_lease: 'lost its lease' };

function failureStep({ attempt, at, kind, error, owner }) {
  return { state: 'failed', at, error, owner, text: kind === 'expired'
    ? 'Expired before it was handled' : `Attempt ${attempt} ${failure_words[kind]}` };
}

// The attempts that have failed. The database keeps the newest ones.
function failureSteps({ failures, attempts, past_attempts: past }) {
  const steps = [];
  const first = failures.find(({ kind }) => kind !== 'expired')?.attempt ?? attempts + past + 1;
  const older = first - 1;
  if (older > 0) {
    steps.push({ state: 'failed', text: older === 1 ? 'Attempt 1' : `Attempts 1 to ${older}`,
      note: 'Only the newest failures are kept.' });
  }
  let replayed = past > 0 && older < past;
  for (const failure of failures) {
    if (replayed && failure.attempt > past) {
      steps.push({ state: 'scheduled', text: 'Replayed' });
      replayed = false;
    }
    steps.push(failureStep(failure));
  }
  if (replayed) steps.push({ state: 'scheduled', text: 'Replayed' });
  return steps;
}

// The known times, and the failed attempts between them.
function stepsOf(message) {
  const steps = message.timeline.map(({ what, at }) => ({ what, state: step_states[what], at,
    text: step_words[what] }));
  const at = steps.findIndex(({ what }) => ['next_attempt', 'done', 'failed'].includes(what));
  steps.splice(at < 0 ? steps.length : at, 0, ...failureSteps(message));
  const end = steps.find(({ what }) => what === 'failed');
  if (end && !message.failures.some(({ error }) => error === message.last_error))
    end.error = message.last_error;
  return steps;
}

function Timeline({ message }) {
  const now = Date.now();
  return html`<ul class="timeline">${stepsOf(message).map((step) => html`<li
      class=${`state-${step.state} ${step.at && Date.parse(step.at) > now ? 'later' : ''}`}>
    <i aria-hidden="true"></i><span class="what">${step.text}</span>
    <span class="muted">${step.at && html`<${Time} at=${step.at} absolute />`}</span>
    ${step.note && html`<span class="muted more">${step.note}</span>`}
    ${step.owner && html`<span class="muted more">Worker <${Id} value=${step.owner} /></span>`}
    ${step.error && html`<pre class="error more" dir="auto" tabindex="0">${step.error}</pre>`}
  </li>`)}</ul>`;
}

function BelongsTo({ message }) {
  const { stream, job_run_id: run, joins = [], awaited_join: awaited } = message.belongs_to;
  const job = message.headers['dovetail-job'];
  const parts = [
    stream && ['Stream', html`<${Link} to="/streams" params=${{ queue: message.queue, stream }}>
      <${Text} value=${stream} wrap /><//>`],
    run && ['Job run', job ? html`<${Link} to=${`/jobs/${encodeURIComponent(job)}`}><${Text}
      value=${job} wrap /><//>` : html`<${Id} value=${run} full />`],
    awaited && ['Waits for', html`<${Id} value=${awaited} to=${`/joins/${awaited}`} full />`],
    ...joins.map((join) => ['Join', html`<${Id} value=${join} to=${`/joins/${join}`} full />`]),
    message.correlation_id && ['Correlation id', html`<${Link} to="/messages"
      params=${{ queue: message.queue, correlation_id: message.correlation_id }}><${Text}
      value=${message.correlation_id} wrap /><//>`],
  ].filter(Boolean);
  if (!parts.length) return html`<p class="muted">It belongs to no join, stream or job.</p>`;
  return html`<${Facts} items=${parts} />`;
}

function Actions({ message }) {
  const may = useMay();
  const mayPurge = useMay('admin');
  if (message.status !== 'failed') return null;
  const body = { queue: message.queue, message_ids: [message.message_id] };
  return html`${may && html`<${Action} label="Replay" kind="primary"
      run=${() => api.post('/dead-letters/replay', body)} done="The message is ready again." />`}
    ${mayPurge && html`<${Action} label="Purge" kind="danger" done="The message is deleted."
      run=${() => api.post('/dead-letters/purge', body)} question=${{ title: 'Purge the message',
        verb: 'Purge', danger: true, text: 'It is deleted with its payload. Nobody can undo this.',
      }} />`}`;
}

function Headers({ headers }) {
  const items = Object.entries(headers);
  if (!items.length) return html`<p class="muted">None.</p>`;
  return html`<${Facts} items=${items.map(([name, value]) => [html`<${Text} value=${name} wrap />`,
    html`<${Text} value=${value} mono wrap />`])} />`;
}

function stateOf(message) {
  if (message.status === 'ready' && Date.parse(message.next_attempt_at ?? message.due_at) >
      Date.now()) return 'scheduled';
  return message.status;
}

function View({ message, id }) {
  const read = () => api.get(`/messages/${id}`, { queue: message.queue, payload: true });
  return html`<div class="columns"><div class="stack">
      <${Panel} title="Timeline"><${Timeline} message=${message} /><//>
      <${Panel} title="Payload"><${Payload} read=${read} /><//>
    </div><div class="stack">
      <${Panel} title="Message"><${Facts} items=${[
        ['State', html`<${State} of=${stateOf(message)} />`],
        ['Id', html`<span class="mono">${message.message_id}</span> <${Copy}
          value=${message.message_id} />`],
        ['Topic', html`<${Link} to="/messages" params=${{ queue: message.queue,
          topic: message.topic }}><${Text} value=${message.topic} wrap /><//>`],
        ['Queue', html`<${Link} to=${`/queues/${message.queue}`}>${message.queue}<//>`],
        ['Attempts', attemptsText(message)],
        ['Priority', message.priority],
        message.unique_key && ['Unique key', html`<${Text} value=${message.unique_key} wrap />`],
        message.processed_by && ['Ended by', html`<${Text} value=${message.processed_by} wrap />`],
        message.stages?.length && ['Stages', message.stages.map(words).join(', ')],
      ]} /><//>
      <${Panel} title="Belongs to"><${BelongsTo} message=${message} /><//>
      <${Panel} title="Headers"><${Headers} headers=${message.headers} /><//>
    </div></div>`;
}

export function Message({ id }) {
  const message = useQuery(`/messages/${encodeURIComponent(id)}`, {}, { live: 3000 });
  useTitle(message.data?.topic ?? 'Message');
  return html`<${Page} lead=${html`<${Link} to="/messages">Messages<//>`} title="Message"
      text=${message.data?.topic} actions=${message.data &&
        html`<${Actions} message=${message.data} />`}>
    <${Loaded} query=${message}>${(data) => html`<${View} message=${data} id=${id} />`}<//>
  <//>`;
}
