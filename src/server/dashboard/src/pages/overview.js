// The overview: what needs attention, and the work of a queue over time.
import { html, useMemo, useState } from '../lib.js';
import { useQuery, useStore, useTitle } from '../hooks.js';
import { queueIn, recent, sample, useLive } from '../live.js';
import { Link, setQuery } from '../router.js';
import { capped, count, duration, milliseconds, plural, queues, rate, words } from '../format.js';
import { Bar, Empty, Loaded, Page, Panel, Stat, State, Text } from '../ui/bits.js';
import { Chart } from '../ui/chart.js';
import { Table } from '../ui/table.js';
import { Tabs } from '../ui/filters.js';

// The length and the step of each range, in seconds.
const ranges = { '15m': [900, 10], '1h': [3600, 60], '6h': [21600, 120], '24h': [86400, 600],
                 '7d': [604800, 3600] };

const seconds = (time) => Math.floor(Date.parse(time) / 1000);

// Processes write their counts every ten seconds.
const flush_delay = 15;

// The buckets of the range, empty ones included. The last one is left out until it is complete.
function filled(items, step, from, to) {
  const known = new Map(items.map((item) => [seconds(item.begin), item]));
  const rows = [];
  for (let at = Math.ceil(from / step) * step; at + step <= to - flush_delay; at += step)
    rows.push({ at, item: known.get(at) });
  return rows;
}

function chartData(history, [length, step], now) {
  const size = history?.step_seconds ?? step;
  const rows = filled(history?.items ?? [], size, now - length, now);
  const column = (read) => rows.map(({ item }) => (item ? read(item) : 0));
  const times = rows.map(({ at }) => at);
  return {
    work: [times, column((item) => item.enqueued / size), column((item) => item.done / size)],
    failures: [times, column((item) => item.retried), column((item) => item.failed)],
    latency: [times,
      column((item) => (item.calls ? item.handler_seconds / item.calls : 0)),
      column((item) => item.handler_seconds_max)],
  };
}

// Processes count the backlog every ten seconds, and once a minute while it is empty.
const backlog_step = 60;

// The counted backlog, and behind it the live samples. A time in which nobody counted is a gap.
function backlogData(history, [length, step], now, queue) {
  const size = history?.step_seconds ?? step;
  const rows = filled(history?.backlog ?? [], size, now - length, now);
  const end = rows.filter(({ item }) => item).at(-1)?.at ?? 0;
  let last = null;
  const points = rows.filter(({ at }) => at <= end).map(({ at, item }) => {
    if (item) last = { at, ready: item.ready, busy: item.in_progress };
    const { ready = null, busy = null } = last && at - last.at <= backlog_step ? last : {};
    return { at, ready, busy };
  });
  for (const each of recent) {
    const counts = queueIn(each, queue);
    const at = seconds(each.time);
    if (counts && at > end) points.push({ at, ready: counts.ready, busy: counts.in_progress });
  }
  return [points.map(({ at }) => at), points.map(({ ready }) => ready),
    points.map(({ busy }) => busy)];
}

// Sums of the last five minutes.
function lately(history, now) {
  const sum = { done: 0, calls: 0, time: 0 };
  for (const item of history?.items ?? []) {
    if (seconds(item.begin) < now - 300) continue;
    sum.done += item.done;
    sum.calls += item.calls;
    sum.time += item.handler_seconds;
  }
  return sum;
}

function useHistory(queue, range) {
  const [length, step] = ranges[range];
  const [now, setNow] = useState(() => Math.floor(Date.now() / 10000) * 10);
  useLive(() => setNow(Math.floor(Date.now() / 10000) * 10), 10000);
  const from = new Date((now - length) * 1000).toISOString();
  const to = new Date(now * 1000).toISOString();
  const all = useQuery('/history', { queue, from, to, step });
  const topics = useQuery('/history', { queue, from, to, step: length, by_topic: true });
  const [shown, setShown] = useState({});
  const id = `${queue} ${range}`;
  if (all.data && shown.all !== all.data) setShown({ ...shown, id, all: all.data, now });
  if (topics.data && shown.topics !== topics.data) setShown({ ...shown, topics: topics.data });
  const old = shown.id === id ? shown : {};
  return { all: old.all, topics: old.topics ?? topics.data, now: old.now ?? now,
           missing: all.error?.status === 404, error: all.error };
}

function Charts({ queue, range, history, counts }) {
  const { all, now } = history;
  const data = useMemo(() => chartData(all, ranges[range], now), [all, range, now]);
  const backlog = useMemo(() => backlogData(all, ranges[range], now, queue),
    [all, range, now, counts, queue]);
  const span = () => [now - ranges[range][0], now];
  return html`<div class="charts">
    <${Chart} title="Throughput" note="per second" data=${data.work} format=${rate} range=${span}
      series=${[{ label: 'enqueued', colour: 'ready' }, { label: 'done', colour: 'done',
        fill: true }]} />
    <${Chart} title="Failures" format=${count} whole
      note=${`per ${duration(all?.step_seconds ?? 60).replace(/^1 /, '')}`}
      data=${data.failures} range=${span} series=${[{ label: 'retried', colour: 'paused' },
        { label: 'dead letters', colour: 'failed', fill: true }]} />
    <${Chart} title="Time of handlers" note="" data=${data.latency} format=${duration}
      range=${span} series=${[{ label: 'mean', colour: 'accent', fill: true },
        { label: 'longest', colour: 'scheduled' }]} />
    <${Chart} title="Backlog" note="" data=${backlog} format=${count} whole range=${span}
      series=${[{ label: 'ready', colour: 'ready', fill: true }, { label: 'in progress',
        colour: 'in_progress' }]} />
  </div>`;
}

const old_ms = 600000;

function problemsOf(data) {
  const found = [];
  for (const name of queues) {
    const queue = data.queues[name];
    if (queue.failed) found.push(['failed', html`<${Link} to="/dead-letters"
      params=${{ queue: name }}>${`${capped(queue.failed, queue.capped.includes('failed'))} dead ${
        queue.failed === 1 ? 'letter' : 'letters'} in the ${name}`}<//>`,
      'Read the errors, then replay or purge them.']);
    if (queue.oldest_due_ms > old_ms) found.push(['paused', html`<${Link} to=${`/queues/${name}`}>
      The oldest message of the ${name} has waited ${milliseconds(queue.oldest_due_ms)}<//>`,
      'Check that a process handles its topic.']);
    for (const { topic } of queue.paused_topics) found.push(['paused', html`<${Link}
      to=${`/queues/${name}`} params=${{ topic }}>Paused: <${Text} value=${topic} /><//>`,
      `Resume it on the page of the ${name}.`]);
  }
  const shown = data.unhandled_topics.slice(0, 3);
  const rest = data.unhandled_topics.length - shown.length;
  for (const each of shown) found.push(['paused', html`<${Link} to="/messages"
    params=${{ queue: each.queue, topic: each.topic }}>Nobody handles <${Text}
    value=${each.topic} /><//>`, `${plural(each.waiting, 'message waits', 'messages wait')}. ` +
    'Start a process that handles it.']);
  if (rest > 0) found.push(['paused', html`<${Link} to="/instances">Nobody handles ${
    capped(rest, data.unhandled_topics.length >= 100)} more topics<//>`,
    'The page of the instances lists them.']);
  if (data.instances.stale) found.push(['paused', html`<${Link} to="/instances">${plural(
    data.instances.stale, 'instance')} without a heartbeat<//>`,
    'The process ended without saying so, or cannot reach the database.']);
  return found.sort((a, b) => (b[0] === 'failed') - (a[0] === 'failed'));
}

const shown_at_first = 6;

function Attention({ data }) {
  const [all, setAll] = useState(false);
  const found = problemsOf(data);
  if (!found.length)
    return html`<${Panel} title="Attention"><p class="calm"><${State} of="done"
      label="Nothing needs attention." /></p><//>`;
  const shown = all ? found : found.slice(0, shown_at_first);
  return html`<${Panel} title="Attention"><ul class="attention">
    ${shown.map(([state, text, remedy]) => html`<li class=${`state state-${state}`}>
      <i aria-hidden="true"></i><span>${text}</span>
      <span class="muted">${remedy}</span></li>`)}</ul>
    ${found.length > shown.length && html`<p class="panel-foot"><button type="button" class="small"
      onClick=${() => setAll(true)}>Show all ${found.length}</button></p>`}<//>`;
}

const queue_states = ['ready', 'in_progress', 'scheduled', 'paused'];

function QueueRow({ name, counts, live }) {
  const merged = { ...counts, ...(live ?? {}) };
  const over = (state) => merged[state] >= merged.counted_up_to;
  return html`<tr><th scope="row"><${Link} to=${`/queues/${name}`} class="row-link">${name}<//></th>
    ${[...queue_states, 'failed', 'done'].map((state) => html`<td class="end">${merged[state]
      ? html`<${Link} to="/messages" params=${{ queue: name, state }} class=${`plain ${state ===
        'failed' ? 'ink-failed' : ''}`}>${capped(merged[state], over(state))}<//>`
      : html`<span class="muted">0</span>`}</td>`)}
    <td class="end opt-1">${merged.oldest_due_ms === null ? html`<span class="muted">–</span>`
      : milliseconds(merged.oldest_due_ms)}</td>
    <td class="opt-2"><${Bar} parts=${queue_states.map((state) => ({ state,
      value: merged[state] }))} /></td></tr>`;
}

function QueueTable({ data, live }) {
  return html`<${Panel} title="Queues" flush><div class="table-box"><table class="table loose">
    <caption class="hidden">Queues</caption>
    <thead><tr><th scope="col">Queue</th>${[...queue_states, 'failed', 'done'].map((state) =>
      html`<th scope="col" class="end">${words(state)}</th>`)}
      <th scope="col" class="end opt-1">oldest due</th>
      <th scope="col" class="opt-2">waiting</th></tr></thead>
    <tbody>${queues.map((name) => html`<${QueueRow} key=${name} name=${name}
      counts=${data.queues[name]} live=${queueIn(live, name)} />`)}</tbody></table></div><//>`;
}

const topic_columns = (queue) => [
  { title: 'Topic', cell: (row) => html`<${Link} to="/messages" class="row-link"
    params=${{ queue, topic: row.topic }}><${Text} value=${row.topic} /><//>` },
  { title: 'Enqueued', width: '6.5rem', align: 'end', optional: 1,
    cell: (row) => count(row.enqueued) },
  { title: 'Done', width: '6.5rem', align: 'end', cell: (row) => count(row.done) },
  { title: 'Retried', width: '6.5rem', align: 'end', optional: 1,
    cell: (row) => count(row.retried) },
  { title: 'Failed', width: '6.5rem', align: 'end', cell: (row) => html`<span
    class=${row.failed ? 'ink-failed' : ''}>${count(row.failed)}</span>` },
  { title: 'Mean time', width: '7rem', align: 'end', optional: 2,
    cell: (row) => (row.calls ? duration(row.time / row.calls) : '–') },
  { title: 'Longest', width: '7rem', align: 'end', optional: 2, cell: (row) => duration(row.max) },
];

function sumByTopic(items) {
  const sums = new Map();
  for (const item of items) {
    const sum = sums.get(item.topic) ??
      { topic: item.topic, enqueued: 0, done: 0, retried: 0, failed: 0, calls: 0, time: 0, max: 0 };
    for (const name of ['enqueued', 'done', 'retried', 'failed', 'calls']) sum[name] += item[name];
    sum.time += item.handler_seconds;
    sum.max = Math.max(sum.max, item.handler_seconds_max);
    sums.set(item.topic, sum);
  }
  return [...sums.values()].sort((a, b) => b.done + b.failed - a.done - a.failed).slice(0, 10);
}

function Topics({ history, queue, range }) {
  const rows = useMemo(() => sumByTopic(history.topics?.items ?? []), [history.topics]);
  return html`<${Panel} title="Busiest topics" note=${`of the ${queue}, last ${range}`} flush>
    ${rows.length ? html`<${Table} columns=${topic_columns(queue)} rows=${rows}
      rowKey=${(row) => row.topic} caption="Busiest topics" />`
    : html`<${Empty} title="No work in this time">A started process writes its history every ten
      seconds.<//>`}<//>`;
}

export function Overview({ query }) {
  useTitle('Overview');
  const queue = queues.includes(query.get('queue')) ? query.get('queue') : 'outbox';
  const range = ranges[query.get('range')] ? query.get('range') : '1h';
  const overview = useQuery('/overview', {}, { live: 5000 });
  const live = useStore(sample);
  const history = useHistory(queue, range);
  const counts = queueIn(live, queue) ?? overview.data?.queues[queue];
  const sum = lately(history.all, history.now);
  const over = (state) => counts?.[state] >= counts?.counted_up_to;
  return html`<${Page} title="Overview" actions=${html`
      <${Tabs} label="Queue" value=${queue} choices=${queues.map((name) => [name, name])}
        onChoose=${(value) => setQuery({ queue: value === 'outbox' ? '' : value })} />
      <${Tabs} label="Time" value=${range} choices=${Object.keys(ranges).map((key) => [key, key])}
        onChoose=${(value) => setQuery({ range: value === '1h' ? '' : value })} />`}>
    <div class="stats">
      <${Stat} label="Throughput" value=${rate(sum.done / 300)} unit="/s" note="last 5 minutes" />
      <${Stat} label="Time of handlers" value=${sum.calls ? duration(sum.time / sum.calls) : '–'}
        note="mean, last 5 minutes" />
      <${Stat} label="Ready" value=${capped(counts?.ready, over('ready'))} to="/messages"
        params=${{ queue, state: 'ready' }} note=${counts?.oldest_due_ms === null || !counts
          ? 'nothing waits' : `oldest ${milliseconds(counts.oldest_due_ms)}`} />
      <${Stat} label="In progress" value=${capped(counts?.in_progress, over('in_progress'))}
        to="/messages" params=${{ queue, state: 'in_progress' }} note="leased by workers" />
      <${Stat} label="Dead letters" value=${capped(counts?.failed, over('failed'))}
        state=${counts?.failed ? 'failed' : ''} to="/dead-letters" params=${{ queue }}
        note=${counts?.failed ? 'need a decision' : 'none'} />
    </div>
    <${Charts} queue=${queue} range=${range} history=${history} counts=${live} />
    <${Loaded} query=${overview}>${(data) => html`
      <${Attention} data=${data} />
      <${QueueTable} data=${data} live=${live} />`}<//>
    <${Topics} history=${history} queue=${queue} range=${range} />
  <//>`;
}
