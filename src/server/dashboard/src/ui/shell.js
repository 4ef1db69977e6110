// The frame of all pages: navigation, search, and who uses it.
import { classes, html, useEffect, useRef, useState } from '../lib.js';
import { useStore } from '../hooks.js';
import { api } from '../api.js';
import { connection, queueIn, sample } from '../live.js';
import { Link, href, navigate } from '../router.js';
import { session } from '../session.js';
import { shownTheme, toggleTheme } from '../theme.js';
import { capped } from '../format.js';
import { useKeys } from './keys.js';

const groups = [
  ['', [['/', 'Overview']]],
  ['Work', [['/queues', 'Queues'], ['/messages', 'Messages'], ['/dead-letters', 'Dead letters'],
            ['/joins', 'Joins'], ['/streams', 'Streams']]],
  ['Schedule', [['/timers', 'Timers'], ['/jobs', 'Jobs'], ['/fanouts', 'Fan-outs']]],
  ['Events', [['/event-streams', 'Event streams'], ['/subscriptions', 'Subscriptions']]],
  ['System', [['/instances', 'Instances'], ['/leases', 'Leases'], ['/databases', 'Databases'],
              ['/audit', 'Audit']]],
];

// Of the packages that the dashboard is made with.
const licenses = document.querySelector('link[rel=license]').href;

const isCurrent = (path, target) =>
  (target === '/' ? path === '/' : path === target || path.startsWith(`${target}/`));

// The number of dead letters, beside its link.
function DeadLetters() {
  const data = useStore(sample);
  const counts = ['outbox', 'inbox', 'timers'].map((name) => queueIn(data, name)).filter(Boolean);
  const failed = counts.reduce((sum, each) => sum + each.failed, 0);
  if (!failed) return null;
  const over = counts.some((each) => each.counted_up_to && each.failed >= each.counted_up_to);
  return html`<span class="nav-count">${capped(failed, over)}</span>`;
}

function Navigation({ path, open, onFollow }) {
  return html`<nav id="nav" class=${classes('nav', open && 'open')} aria-label="Pages">
    ${groups.map(([title, links]) => html`<div class="nav-group" key=${title}>
      ${title && html`<p class="nav-title" id=${`nav-${title}`}>${title}</p>`}
      <ul aria-labelledby=${title ? `nav-${title}` : undefined}>${links.map(([to, text]) =>
        html`<li><${Link} to=${to} aria-current=${isCurrent(path, to) ? 'page' : undefined}
          onClickCapture=${onFollow}>${text}${to === '/dead-letters' &&
          html`<${DeadLetters} />`}<//></li>`)}</ul></div>`)}
    <p class="nav-foot"><a href=${licenses} target="_blank" rel="noopener">Licenses</a></p>
  </nav>`;
}

function Search({ input }) {
  const [text, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) navigate(href('/find', { q: text.trim() }));
    setText('');
    input.current.blur();
  };
  return html`<form class="search" role="search" aria-label="Find" onSubmit=${submit}>
    <input ref=${input} type="search" dir="auto" value=${text} aria-label="Find an id or a topic"
      placeholder="Find an id or a topic" onInput=${(event) => setText(event.target.value)} />
    <kbd aria-hidden="true">/</kbd></form>`;
}

const connections = {
  connecting: ['paused', 'Connecting'],
  live: ['done', 'Live'],
  trouble: ['failed', 'The database gives no answer'],
  lost: ['failed', 'The server gives no answer'],
};

function Connection() {
  const [state, text] = connections[useStore(connection)];
  return html`<span class=${`state state-${state} connection`} role="status"><i aria-hidden="true">
    </i><span class="connection-text">${text}</span></span>`;
}

function Databases({ databases, group }) {
  if (!group.isGroup)
    return html`<span class="database" title="Database"><bdi>${databases[0]?.key}</bdi></span>`;
  const choose = (event) => {
    const target = new URL(window.location);
    target.searchParams.set('database', event.target.value);
    navigate(target.pathname + target.search);
  };
  return html`<label class="database"><span class="hidden">Database</span>
    <select onChange=${choose}>${databases.map(({ key, state }) => html`<option value=${key}
      selected=${key === group.key}>${key}${state === 'open' || state === 'idle' ? ''
        : ` (${state})`}</option>`)}</select></label>`;
}

function User() {
  const who = useStore(session);
  const leave = async () => {
    await api.remove('/session').catch(() => {});
    window.location.assign(href('/'));
  };
  return html`<div class="user">
    ${who.read_only && html`<span class="chip">read-only</span>`}
    <span class="chip" title=${`${who.name} has the role ${who.role}`}>${who.authentication
      ? html`<bdi>${who.name}</bdi> · ` : ''}${who.role}</span>
    ${who.can_log_out && html`<button type="button" class="quiet" onClick=${leave}>Log out
      </button>`}
  </div>`;
}

function Theme() {
  const shown = useStore(shownTheme);
  const next = shown === 'dark' ? 'light' : 'dark';
  return html`<button type="button" class="quiet icon" title=${`Use ${next} colours`}
    aria-label=${`Use ${next} colours`} onClick=${toggleTheme}>${shown === 'dark' ? '☀' : '☾'}
  </button>`;
}

export function Shell({ path, databases, group, children }) {
  const [open, setOpen] = useState(false);
  const search = useRef(null);
  useKeys(search);
  useEffect(() => setOpen(false), [path]);
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <button type="button" class="quiet icon menu" aria-expanded=${open} aria-controls="nav"
        aria-label="Pages" onClick=${() => setOpen(!open)}>☰</button>
      <${Link} to="/" class="brand" aria-label="Dovetail, overview"><svg viewBox="0 0 16 16"
        aria-hidden="true"><path d="M1 2h14v12h-4l1.5-6h-9L5 14H1z" /></svg><b>Dovetail</b><//>
      <${Databases} databases=${databases} group=${group} />
      <${Search} input=${search} />
      <${Connection} /><${Theme} /><${User} />
    </header>
    <div class="frame"><${Navigation} path=${path} open=${open} onFollow=${() => setOpen(false)} />
      <main id="main" tabindex="-1">${children}</main></div>`;
}
