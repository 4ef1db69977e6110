// Live events: at most one EventSource for the whole tab.
import { database, loginNeeded } from './api.js';
import { base } from './router.js';
import { createStore, useEffect, useRef } from './lib.js';

// The last sample of the server: {time, databases: [{key, queues}]}.
export const sample = createStore(null);
// 'connecting', 'live', 'trouble' (the database gives no answer) or 'lost'.
export const connection = createStore('connecting');
// The samples since the page was opened, for the chart of the backlog.
export const recent = [];
const most_recent = 900;

// Browsers allow six connections to a server. So the tabs of a browser share one event stream: the
// tab that holds the lock reads it, and tells the others. Without locks (a page without HTTPS on
// another host than this one), each tab has a stream of its own.
const shared = `dovetail-events ${base}`;
const channel = navigator.locks && window.BroadcastChannel ? new BroadcastChannel(shared) : null;
let source = null;
let waiting = null;  // ends the wait for the lock

function take({ state, data }) {
  connection.set(state);
  if (!data) return;
  recent.push(data);
  if (recent.length > most_recent) recent.shift();
  sample.set(data);
}

function tell(news) {
  take(news);
  channel?.postMessage(news);
}

function open() {
  source = new EventSource(`${base}/api/v1/events`);
  source.addEventListener('sample', (event) =>
    tell({ state: 'live', data: JSON.parse(event.data) }));
  source.addEventListener('problem', () => tell({ state: 'trouble' }));
  source.onerror = () => {
    const isLost = source.readyState === EventSource.CLOSED;
    tell({ state: isLost ? 'lost' : 'connecting' });
    if (isLost) restartLater();
  };
}

// Holds the lock until stopLive().
const lead = () => new Promise((release) => {
  waiting.release = release;
  open();
});

export function startLive() {
  if (source || waiting) return;
  if (!channel) {
    open();
    return;
  }
  waiting = new AbortController();
  channel.onmessage = (event) => take(event.data);
  navigator.locks.request(shared, { signal: waiting.signal }, lead).catch(() => {});
}

function restartLater() {
  stopLive();
  setTimeout(() => { if (!loginNeeded.get()) startLive(); }, 5000);
}

export function stopLive() {
  source?.close();
  source = null;
  if (channel) channel.onmessage = null;
  waiting?.release?.();
  waiting?.abort();
  waiting = null;
}

// Calls `action` with the events, at most every `interval` milliseconds, while the tab is visible.
// All tabs do so with the same event, so that they share the answers of the server.
export function useLive(action, interval) {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    if (!interval) return undefined;
    let last = Math.floor(Date.now() / interval);
    const call = () => {
      const now = Math.floor(Date.now() / interval);
      if (document.hidden || now === last) return;
      last = now;
      latest.current();
    };
    document.addEventListener('visibilitychange', call);
    const end = sample.subscribe(call);
    return () => {
      end();
      document.removeEventListener('visibilitychange', call);
    };
  }, [interval]);
}

// The counts of a queue in a sample. A database of a group that is not open has none.
export function queueIn(data, queue) {
  const key = database.get();
  const found = key === null ? data?.databases?.[0]
    : data?.databases?.find((each) => each.key === key);
  return found?.queues?.[queue] ?? null;
}
