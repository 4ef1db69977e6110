// The search: an id opens its page, other text is a topic.
import { api } from '../api.js';
import { html, useEffect, useState } from '../lib.js';
import { useTitle } from '../hooks.js';
import { href, navigate } from '../router.js';
import { isUuid } from '../format.js';
import { Empty, Failure, Page, Text } from '../ui/bits.js';

const places = ['/messages', '/joins', '/timers'];

// The first place that knows the id.
async function placeOf(id) {
  for (const place of places) {
    try {
      await api.get(`${place}/${id}`);
      return href(`${place}/${id}`);
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }
  return null;
}

export function Find({ query }) {
  useTitle('Find');
  const text = query.get('q') ?? '';
  const [result, setResult] = useState({});
  useEffect(() => {
    let ended = false;
    if (!isUuid(text)) {
      navigate(href('/messages', { topic: text }), { replace: true });
      return undefined;
    }
    setResult({});
    placeOf(text.toLowerCase()).then(
      (address) => {
        if (ended) return;
        if (address) navigate(address, { replace: true });
        else setResult({ missing: true });
      },
      (error) => { if (!ended) setResult({ error }); });
    return () => { ended = true; };
  }, [text]);
  if (result.error) return html`<${Page} title="Find"><${Failure} error=${result.error} /><//>`;
  return html`<${Page} title="Find">${result.missing ? html`<${Empty} title="Nothing has this id">
      No message, join or timer is <${Text} value=${text} mono />. Done messages are deleted after
      a while.<//>` : html`<p class="muted" aria-busy="true">Searching…</p>`}<//>`;
}
