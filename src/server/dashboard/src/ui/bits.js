// Small parts of pages.
import { classes, createStore, html, useState } from '../lib.js';
import { ago, count, local, words } from '../format.js';
import { Link } from '../router.js';
import { useStore } from '../hooks.js';

// Moves on every ten seconds, so that relative times stay right.
const clock = createStore(Date.now());
setInterval(() => clock.set(Date.now()), 10000);

export function Time({ at, none = '–', absolute = false }) {
  const now = useStore(clock);
  if (!at) return html`<span class="muted">${none}</span>`;
  const relative = ago(at, Math.max(now, Date.now()));
  return html`<time datetime=${at} title=${absolute ? relative : `${local(at)} (${at})`}>${
    absolute ? local(at) : relative}</time>`;
}

// A state: a dot and a word, so that the colour is not the only sign.
export function State({ of, label }) {
  return html`<span class=${`state state-${of}`}><i aria-hidden="true"></i>${
    label ?? words(of)}</span>`;
}

// Text of users: any length, any direction. The whole text is the tooltip.
export function Text({ value, none = '–', mono = false, wrap = false }) {
  if (value === null || value === undefined || value === '')
    return html`<span class="muted">${none}</span>`;
  return html`<bdi dir="auto" class=${classes('text', mono && 'mono', wrap && 'wrap')}
    title=${wrap ? undefined : value}>${value}</bdi>`;
}

// On phones, only the end is shown: it differs most.
const shortId = (id) => html`<span class="id-head">${id.slice(0, 8)}</span>…${id.slice(-6)}`;

// An id, shortened in lists.
export function Id({ value, to, full = false, row = false }) {
  if (!value) return html`<span class="muted">–</span>`;
  const text = full ? value : shortId(value);
  if (!to) return html`<span class="mono" title=${value}>${text}</span>`;
  return html`<${Link} to=${to} class=${classes('mono', row && 'row-link')} title=${value}>${
    text}<//>`;
}

export function Copy({ value, label = 'Copy' }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      return;
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="quiet small" onClick=${copy}>${
    done ? 'Copied' : label}</button>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${
    children && html`<p>${children}</p>`}</div>`;
}

const remedies = {
  0: 'Check that dovetail server runs, then try again.',
  403: 'Ask an administrator of the server for a larger role.',
  404: 'It may have been deleted by the retention. Go back to the list.',
  503: 'The database or the server is busy or not reachable. Try again in a moment.',
};

export function Failure({ error, retry }) {
  return html`<div class="failure" role="alert">
    <p class="empty-title">${error.status === 404 ? 'Not found' : 'This could not be read'}</p>
    <p><${Text} value=${error.message} wrap /></p>
    <p class="muted">${remedies[error.status] ?? 'The log of the server has the details.'}</p>
    ${retry && html`<p><button type="button" onClick=${retry}>Try again</button></p>`}
  </div>`;
}

// A resource under way, missing, or shown: children is called with the data.
export function Loaded({ query, children }) {
  if (query.data) return html`${query.error &&
    html`<p class="notice warn" role="alert">This may be old: ${query.error.message}</p>`}${
    children(query.data)}`;
  if (query.error) return html`<${Failure} error=${query.error} retry=${query.reload} />`;
  return html`<div class="skeleton" role="status" aria-busy="true" aria-label="Loading"></div>`;
}

export function Panel({ title, actions, children, flush, note, id }) {
  return html`<section class=${classes('panel', flush && 'flush')} aria-labelledby=${id}>
    ${(title || actions) && html`<header class="panel-head"><h2 id=${id}>${title}</h2>${
      note && html`<span class="muted small">${note}</span>`}${
      actions && html`<div class="actions">${actions}</div>`}</header>`}
    ${children}
  </section>`;
}

// A list of names and values.
export function Facts({ items }) {
  return html`<dl class="facts">${items.filter(Boolean).map(([name, value]) =>
    html`<div><dt>${name}</dt><dd>${value ?? html`<span class="muted">–</span>`}</dd></div>`)}
  </dl>`;
}

export function Stat({ label, value, unit, note, state, to, params }) {
  const body = html`<span class="stat-label">${label}</span>
    <span class=${classes('stat-value', state && `ink-${state}`)}>${value}${
      unit && html`<small>${unit}</small>`}</span>
    <span class="stat-note">${note ?? ''}</span>`;
  return to ? html`<${Link} to=${to} params=${params} class="stat">${body}<//>`
    : html`<div class="stat">${body}</div>`;
}

// Parts of a whole as one bar.
export function Bar({ parts }) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  if (!total) return html`<div class="bar" aria-hidden="true"></div>`;
  return html`<div class="bar" role="img" aria-label=${parts.filter((part) => part.value)
    .map((part) => `${count(part.value)} ${words(part.state)}`).join(', ')}>
    ${parts.filter((part) => part.value).map((part) => html`<i class=${`fill-${part.state}`}
      style=${{ flexGrow: part.value / total }}></i>`)}</div>`;
}

export function Page({ title, text, lead, actions, children }) {
  return html`<div class="page">
    <header class="page-head"><div class="page-title">${lead && html`<p class="lead">${lead}</p>`}
      <h1>${text ? html`<${Text} value=${text} wrap />` : title}</h1></div>
      ${actions && html`<div class="actions">${actions}</div>`}</header>
    ${children}
  </div>`;
}
