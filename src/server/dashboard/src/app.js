// The whole: login, the frame, and the page of the address.
import { api, database, loginNeeded } from './api.js';
import { html, useEffect, useState } from './lib.js';
import { useStore, useTitle } from './hooks.js';
import { startLive, stopLive } from './live.js';
import { matchRoute, setQuery, useLocation } from './router.js';
import { loadSession, session } from './session.js';
import { Empty, Failure, Page } from './ui/bits.js';
import { Question, Toasts } from './ui/dialog.js';
import { Shell } from './ui/shell.js';
import { Login } from './pages/login.js';
import { routes } from './pages/routes.js';

function NoPage() {
  useTitle('No such page');
  return html`<${Page} title="No such page"><${Empty} title="There is no page at this address">
    Choose one of the list, or search for an id.<//><//>`;
}

// Who uses the page, and which databases there are.
function useStart() {
  const [state, setState] = useState({ loading: true });
  const needed = useStore(loginNeeded);
  const load = async () => {
    try {
      await loadSession();
      const { databases } = await api.get('/databases', {}, false);
      startLive();
      setState({ databases });
    } catch (error) {
      setState(error.status === 401 ? { loading: true } : { error });
    }
  };
  useEffect(() => {
    if (needed) stopLive();
    else load();
  }, [needed]);
  return { ...state, needed, load };
}

// In a group, the address names the database; without a name it is the first one.
function useDatabase(databases, query) {
  const isGroup = databases && databases[0]?.state !== 'single';
  const key = isGroup ? query.get('database') ?? databases[0]?.key ?? null : null;
  if (database.get() !== key) database.set(key);
  useEffect(() => {
    if (isGroup && key !== null && !query.get('database')) setQuery({ database: key });
  }, [isGroup, key, query]);
  return { isGroup, key };
}

export function App() {
  const start = useStart();
  const { path, query } = useLocation();
  const group = useDatabase(start.databases, query);
  const who = useStore(session);
  if (start.needed) return html`<${Login} onDone=${() => loginNeeded.set(false)} />`;
  if (start.error) return html`<main class="alone"><${Failure} error=${start.error}
    retry=${start.load} /></main>`;
  if (!who || !start.databases) return html`<div class="skeleton" aria-busy="true"></div>`;
  const match = matchRoute(routes, path);
  const View = match ? match.component : NoPage;
  return html`<${Shell} path=${path} query=${query} databases=${start.databases} group=${group}>
    <${View} key=${`${path} ${group.key}`} ...${match?.values ?? {}} query=${query}
      databases=${start.databases} />
  <//><${Question} /><${Toasts} />`;
}
