// Data of the API in components.
import { api } from './api.js';
import { useLive } from './live.js';
import { createStore, useCallback, useEffect, useRef, useState } from './lib.js';

export function useStore(store) {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get());
    return store.subscribe(setValue);
  }, [store]);
  return value;
}

// Raised by every change, so that open views read again.
const changes = createStore(0);
export const noteChange = () => changes.set(changes.get() + 1);
export const useChanges = () => useStore(changes);

// Live views accept answers of this age, in seconds.
const shared_age = 1;

// Reads one resource: {data, error, loading, reload}. `live` reads it again at most every so many
// milliseconds while the tab is visible. A path of null reads nothing.
export function useQuery(path, params = {}, { live = 0 } = {}) {
  const key = path === null ? null : api.url(path, params);
  const [state, setState] = useState({ key, loading: true });
  const wanted = useRef(key);
  wanted.current = key;
  const version = useChanges();
  const load = useCallback(async (age) => {
    if (key === null) return;
    try {
      const data = await api.getUrl(key, age);
      if (wanted.current === key) setState({ key, data, loading: false });
    } catch (error) {
      if (wanted.current !== key) return;
      setState((old) => ({ key, data: old.key === key ? old.data : undefined, error,
                           loading: false }));
    }
  }, [key]);
  useEffect(() => {
    setState((old) => (old.key === key ? old : { key, loading: true }));
    load();
  }, [key, version]);
  useLive(() => load(shared_age), live);
  return { ...(state.key === key ? state : { loading: true }), reload: () => load() };
}

// Reads a list page by page: {rows, loading, error, next, cut, more, reload}. While only the first
// page is shown, it is read again when something changed.
export function useList(path, params, field, { live = 0, limit = 200 } = {}) {
  const key = path === null ? null : api.url(path, { ...params, limit });
  const [state, setState] = useState({ key, rows: [], loading: true, pages: 0 });
  const current = useRef(state);
  current.current = state;
  const wanted = useRef(key);
  wanted.current = key;
  const version = useChanges();
  const read = useCallback(async (cursor, age) => {
    if (key === null) return;
    try {
      const url = cursor ? `${key}${key.includes('?') ? '&' : '?'}cursor=${cursor}` : key;
      const data = await api.getUrl(url, age);
      if (wanted.current !== key) return;
      const old = cursor ? current.current : { rows: [], pages: 0 };
      setState({ key, rows: [...old.rows, ...data[field]], next: data.next, cut: data.cut, data,
                 pages: old.pages + 1, loading: false });
    } catch (error) {
      if (wanted.current === key) setState((old) => ({ ...old, key, error, loading: false }));
    }
  }, [key, field]);
  useEffect(() => {
    setState((old) => (old.key === key ? old : { key, rows: [], loading: true, pages: 0 }));
    read();
  }, [key, version]);
  useLive(() => { if (current.current.pages <= 1 && window.scrollY < 200) read(null, shared_age); },
          live);
  const more = useCallback(() => {
    const { next, loading } = current.current;
    if (!next || loading) return;
    setState((old) => ({ ...old, loading: true }));
    read(next);
  }, [read]);
  const shown = state.key === key ? state : { rows: [], loading: true, pages: 0 };
  return { ...shown, more, reload: () => read() };
}

// Calls `action` at most once at a time: [run, busy].
export function useBusy(action) {
  const [busy, setBusy] = useState(false);
  const run = async (...values) => {
    if (busy) return;
    setBusy(true);
    try {
      await action(...values);
    } finally {
      setBusy(false);
    }
  };
  return [run, busy];
}

export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · Dovetail` : 'Dovetail';
  }, [title]);
}
