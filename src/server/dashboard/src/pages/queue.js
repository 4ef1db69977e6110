// A queue: its states, and its topics.
import { api, segment } from '../api.js';
import { html } from '../lib.js';
import { useList, useQuery, useStore, useTitle } from '../hooks.js';
import { queueIn, sample } from '../live.js';
import { Link, href, navigate } from '../router.js';
import { useMay } from '../session.js';
import { capped, count, milliseconds, queues, states, words } from '../format.js';
import { Empty, Loaded, Page, Panel, Stat, State, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { Filters, Tabs, TextFilter } from '../ui/filters.js';
import { ListTable, Table } from '../ui/table.js';

const notes = { ready: 'due now', scheduled: 'due later', in_progress: 'leased by workers',
                paused: 'of paused topics', failed: 'dead letters', done: 'kept for a while' };

function States({ name, data }) {
  const live = queueIn(useStore(sample), name);
  const counts = { ...data, ...(live ?? {}) };
  return html`<div class="stats">${states.map((state) => html`<${Stat} label=${words(state)}
    key=${state} value=${capped(counts[state], counts[state] >= counts.counted_up_to)}
    state=${state === 'failed' && counts.failed ? 'failed' : ''} note=${notes[state]}
    to=${state === 'failed' ? '/dead-letters' : '/messages'}
    params=${state === 'failed' ? { queue: name } : { queue: name, state }} />`)}
    <${Stat} label="Oldest due" value=${milliseconds(counts.oldest_due_ms)}
      note=${counts.oldest_due_ms === null ? 'nothing waits' : 'has waited'} /></div>`;
}

function PauseButton({ queue, topic, paused }) {
  const path = `/queues/${segment(queue)}/topics/${segment(topic)}`;
  if (paused) return html`<${Action} small label="Resume" done=${`${topic} is resumed.`}
    run=${() => api.post(`${path}/resume`)} />`;
  return html`<${Action} small label="Pause" done=${`${topic} is paused.`}
    run=${() => api.post(`${path}/pause`)} question=${{
      title: 'Pause the topic', verb: 'Pause',
      text: html`<p>No process handles messages of <b><${Text} value=${topic} wrap /></b> until
        you resume it. Messages that are in progress end as usual. New messages are stored.</p>`,
    }} />`;
}

const number = (title, name, queue, extra = {}) => ({
  title, width: '6.5rem', align: 'end', ...extra,
  cell: (row) => (row[name] ? html`<${Link} class=${`plain ${name === 'failed' ? 'ink-failed'
    : ''}`} to=${name === 'failed' ? '/dead-letters' : '/messages'}
    params=${name === 'failed' ? { queue, topic: row.topic }
      : { queue, topic: row.topic, state: name }}>${count(row[name])}<//>`
    : html`<span class="muted">0</span>`),
});

function topicColumns(queue, paused, may) {
  return [
    { title: 'Topic', cell: (row) => html`<${Link} to="/messages" class="row-link"
      params=${{ queue, topic: row.topic }}><${Text} value=${row.topic} /><//>` },
    { title: '', width: '5.5rem', cell: (row) => paused.has(row.topic) &&
      html`<${State} of="paused" />` },
    number('Ready', 'ready', queue),
    number('In progress', 'in_progress', queue, { optional: 1 }),
    number('Scheduled', 'scheduled', queue, { optional: 1 }),
    number('Failed', 'failed', queue),
    number('Done', 'done', queue, { optional: 1 }),
    may && { title: '', width: '6.5rem', align: 'end', cell: (row) => html`<${PauseButton}
      queue=${queue} topic=${row.topic} paused=${paused.has(row.topic)} />` },
  ].filter(Boolean);
}

function PausedTopics({ queue, topics, may }) {
  if (!topics.length) return null;
  const columns = [
    { title: 'Topic', cell: (row) => html`<${Link} to="/messages" class="row-link"
      params=${{ queue, topic: row.topic }}><${Text} value=${row.topic} /><//>` },
    { title: 'Paused', width: '10rem', cell: (row) => html`<${Time} at=${row.since} />` },
    may && { title: '', width: '6.5rem', align: 'end', cell: (row) => html`<${PauseButton}
      queue=${queue} topic=${row.topic} paused />` },
  ].filter(Boolean);
  return html`<${Panel} title="Paused topics" flush><${Table} columns=${columns} rows=${topics}
    rowKey=${(row) => row.topic} caption="Paused topics" /><//>`;
}

// A topic of the filter, also if it has no messages: so that it can be paused before they come.
function ChosenTopic({ queue, topic, paused, may }) {
  if (!topic || !may) return null;
  return html`<${PauseButton} queue=${queue} topic=${topic} paused=${paused.has(topic)} />`;
}

function Topics({ queue, paused, query, may }) {
  const list = useList(`/queues/${queue}/topics`, {}, 'topics', { live: 5000 });
  const wanted = (query.get('topic') ?? '').toLowerCase();
  const rows = list.rows.filter((row) => row.topic.toLowerCase().includes(wanted));
  return html`<${Panel} title="Topics" flush
      note=${list.cut ? 'of the last 10,000 messages of each state' : ''}
      actions=${html`<${Filters} names=${['topic']} query=${query}><${TextFilter} name="topic"
        label="Topic contains" query=${query} wide bare /><${ChosenTopic} queue=${queue} may=${may}
        topic=${query.get('topic')} paused=${paused} /><//>`}>
    <${ListTable} list=${{ ...list, rows, cut: false }} columns=${topicColumns(queue, paused, may)}
      rowKey=${(row) => row.topic} caption="Topics" empty=${html`<${Empty}
        title=${wanted ? 'No topic contains this text' : 'No topics'}>A topic appears with its first
        message.<//>`} /><//>`;
}

export function Queue({ queue = 'outbox', query }) {
  useTitle(queue);
  const may = useMay();
  const data = useQuery(`/queues/${segment(queue)}`, {}, { live: 5000 });
  return html`<${Page} title=${html`Queue ${queue}`} actions=${html`<${Tabs} label="Queue"
      value=${queue} choices=${queues.map((name) => [name, name])}
      onChoose=${(name) => navigate(href(`/queues/${name}`))} />`}>
    <${Loaded} query=${data}>${(value) => {
      const paused = new Set(value.paused_topics.map((each) => each.topic));
      return html`<${States} name=${queue} data=${value} />
        <p class="muted small">A message is tried up to ${value.max_attempts} times. Done messages
          are kept ${milliseconds(value.retain_done_ms)}.</p>
        <${PausedTopics} queue=${queue} topics=${value.paused_topics} may=${may} />
        <${Topics} queue=${queue} paused=${paused} query=${query} may=${may} />`;
    }}<//>
  <//>`;
}
