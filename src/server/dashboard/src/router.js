// Addresses: every view has one, below the base path of the server.
import { createStore, html, useEffect, useState } from './lib.js';

export const base = document.querySelector('meta[name="dovetail-base"]')?.content ?? '';

function read() {
  const { pathname, search } = window.location;
  const inside = base && pathname.startsWith(base) ? pathname.slice(base.length) : pathname;
  return { path: inside || '/', query: new URLSearchParams(search) };
}

const place = createStore(read());
window.addEventListener('popstate', () => place.set(read()));

export function useLocation() {
  const [value, setValue] = useState(place.get());
  useEffect(() => place.subscribe(setValue), []);
  return value;
}

// An address inside the dashboard: href('/messages', {state: 'failed'}).
export function href(path, params = {}) {
  const query = new URLSearchParams();
  const database = place.get().query.get('database');
  for (const [name, value] of Object.entries({ database, ...params })) {
    if (value !== undefined && value !== null && value !== '' && value !== false)
      query.set(name, value);
  }
  const text = query.toString();
  return `${base}${path}${text ? `?${text}` : ''}`;
}

export function navigate(address, { replace = false } = {}) {
  if (replace) window.history.replaceState(null, '', address);
  else window.history.pushState(null, '', address);
  const before = place.get().path;
  place.set(read());
  if (place.get().path !== before) {
    window.scrollTo(0, 0);
    document.getElementById('main')?.focus({ preventScroll: true });
  }
}

// Changes parts of the query. A value of '' or null removes one.
export function setQuery(values) {
  const { path, query } = read();
  const merged = { ...Object.fromEntries(query), ...values };
  navigate(href(path, merged), { replace: true });
}

function isPlainClick(event) {
  return !(event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey ||
           event.shiftKey || event.altKey);
}

export function Link({ to, params, children, ...rest }) {
  const address = href(to, params);
  const follow = (event) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(address);
  };
  return html`<a href=${address} onClick=${follow} ...${rest}>${children}</a>`;
}

// The first route whose pattern fits: [pattern, component]; `:name` is one segment.
export function matchRoute(routes, path) {
  const given = path.split('/').filter(Boolean);
  for (const [pattern, component] of routes) {
    const wanted = pattern.split('/').filter(Boolean);
    if (wanted.length !== given.length) continue;
    const values = {};
    const fits = wanted.every((part, i) => {
      if (!part.startsWith(':')) return part === given[i];
      values[part.slice(1)] = decode(given[i]);
      return true;
    });
    if (fits) return { component, values };
  }
  return null;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
