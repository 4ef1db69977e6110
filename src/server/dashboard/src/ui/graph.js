// A join as a graph. dagre computes the places; it is read when the first graph is shown.
import { classes, html, useEffect, useMemo, useState } from '../lib.js';
import { Link } from '../router.js';
import { count, words } from '../format.js';

let loading = null;
const library = () => (loading ??= import('@dagrejs/dagre').then((module) => module.default));

const width = 208;
const height = 46;
const most_single = 12;  // more steps of one topic and state become one node

const cut = (text, most = 27) => {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
};

// The steps as nodes: failed ones first and alone, many others together.
function stepNodes(members) {
  const groups = new Map();
  for (const each of members) {
    const topic = each.message?.topic ?? 'not stored any more';
    const key = `${each.status} ${topic}`;
    if (!groups.has(key)) groups.set(key, { topic, status: each.status, members: [] });
    groups.get(key).members.push(each);
  }
  const order = ['failed', 'pending', 'completed'];
  const sorted = [...groups.values()].sort((a, b) => order.indexOf(a.status) -
    order.indexOf(b.status));
  const nodes = [];
  const isLarge = members.length > most_single;
  for (const group of sorted) {
    const single = isLarge ? (group.status === 'failed' ? group.members.slice(0, 6)
      : group.members.length === 1 ? group.members : []) : group.members;
    for (const each of single) nodes.push({ id: each.message_id, title: group.topic,
      state: group.status, to: `/messages/${each.message_id}` });
    const rest = group.members.length - single.length;
    if (rest > 0) nodes.push({ id: `${group.status} ${group.topic}`, title: group.topic,
      state: group.status, sub: `${count(rest)} ${single.length ? 'more ' : ''}${group.status}` });
  }
  return nodes;
}

function continuationNodes(item, join) {
  const takes = join.status === 'failed' && (item.fail_if_any_step_failed || join.reason)
    ? 'fail' : 'complete';
  const nodes = [];
  for (const [path, topic, text] of [['complete', item.on_complete_topic, 'when completed'],
    ['fail', item.on_fail_topic, 'when failed']]) {
    if (!topic) continue;
    const taken = join.status !== 'pending' && join.status !== 'cancelled' && takes === path;
    const next = taken ? item.continuation : null;
    nodes.push({ id: `${path} ${item.message_id}`, title: topic, state: next?.status ?? 'pending',
      sub: next ? words(next.status) : text, dashed: !taken,
      to: next ? `/messages/${next.message_id}` : undefined });
  }
  return nodes;
}

function nodesOf(join, members, more, continuations) {
  const steps = stepNodes(members);
  const missing = join.expected_steps - members.length;
  if (!more && missing > 0) steps.push({ id: 'missing', title: 'not attached yet',
    state: 'pending', sub: `${count(missing)} pending`, dashed: true });
  if (more) steps.push({ id: 'more', title: 'more steps', state: 'pending',
    sub: 'load more below', dashed: true });
  const ended = join.completed_steps + join.failed_steps;
  const main = { id: 'join', title: 'join', state: join.status, main: true,
    sub: `${words(join.status)}: ${count(ended)} of ${count(join.expected_steps)} ended` };
  const next = continuations.flatMap((item) => continuationNodes(item, join));
  return { steps, main, next };
}

function layout(dagre, { steps, main, next }) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 72, marginx: 2, marginy: 2 });
  graph.setDefaultEdgeLabel(() => ({}));
  const all = [...steps, main, ...next];
  for (const node of all) graph.setNode(node.id, { width, height });
  for (const node of steps) graph.setEdge(node.id, main.id);
  for (const node of next) graph.setEdge(main.id, node.id);
  dagre.layout(graph);
  const dashed = new Set(all.filter((node) => node.dashed).map((node) => node.id));
  return {
    size: graph.graph(),
    nodes: all.map((node) => ({ ...node, ...graph.node(node.id) })),
    edges: graph.edges().map((edge) => ({ id: `${edge.v} ${edge.w}`,
      from: graph.node(edge.v), to: graph.node(edge.w),
      dashed: dashed.has(edge.v) || dashed.has(edge.w) })),
  };
}

function Edge({ from, to, dashed }) {
  const x1 = from.x + width / 2;
  const x2 = to.x - width / 2 - 7;
  const middle = (x1 + x2) / 2;
  return html`<path class=${classes('edge', dashed && 'dashed')} d=${`M${x1} ${from.y}C${middle} ${
    from.y} ${middle} ${to.y} ${x2} ${to.y}`} /><path class="arrow"
    d=${`M${x2 + 7} ${to.y}l-8 -4v8z`} />`;
}

function Node({ node }) {
  const body = html`<title>${node.title}</title>
    <rect x=${node.x - width / 2} y=${node.y - height / 2} width=${width} height=${height} rx="6"
      stroke-dasharray=${node.dashed ? '4 4' : undefined} />
    <circle class="dot" cx=${node.x - width / 2 + 14} cy=${node.y - 8} r="4" />
    <text x=${node.x - width / 2 + 26} y=${node.y - 4}>${cut(node.title)}</text>
    <text class="sub" x=${node.x - width / 2 + 26} y=${node.y + 13}>${node.sub ??
      words(node.state)}</text>`;
  const name = classes('node', `state-${node.state}`, node.main && 'main');
  if (!node.to) return html`<g class=${name}>${body}</g>`;
  return html`<${Link} to=${node.to} class=${name} aria-label=${`${node.title}, ${
    node.sub ?? words(node.state)}`}>${body}<//>`;
}

export function JoinGraph({ join, members, more, continuations }) {
  const [dagre, setDagre] = useState(null);
  useEffect(() => { library().then((module) => setDagre(() => module)); }, []);
  const drawn = useMemo(() => dagre && layout(dagre, nodesOf(join, members, more, continuations)),
    [dagre, join, members, more, continuations]);
  if (!drawn) return html`<div class="skeleton" aria-busy="true"></div>`;
  return html`<div class="graph" tabindex="0" role="group" aria-label="Graph of the join"><svg
      width=${drawn.size.width} height=${drawn.size.height}
      viewBox=${`0 0 ${drawn.size.width} ${drawn.size.height}`}>
    ${drawn.edges.map((edge) => html`<${Edge} key=${edge.id} ...${edge} />`)}
    ${drawn.nodes.map((node) => html`<${Node} key=${node.id} node=${node} />`)}
  </svg></div>`;
}
