// Starts a replay or a purge of all dead letters that match: first a preview, then the change.
import { api } from '../api.js';
import { html, useEffect, useState } from '../lib.js';
import { useBusy } from '../hooks.js';
import { href, navigate } from '../router.js';
import { capped, duration, local } from '../format.js';
import { Facts, Id, Text } from '../ui/bits.js';
import { Dialog, change } from '../ui/dialog.js';

const paths = { replay: '/dead-letters/replays', purge: '/dead-letters/purges' };

function bodyOf(filter, limit, rate) {
  const { queue, ...rest } = filter;
  const chosen = Object.fromEntries(Object.entries(rest).filter(([, value]) => value));
  const body = { queue, filter: chosen };
  if (Number(limit) > 0) body.limit = Number(limit);
  if (Number(rate) > 0) body.rate = Number(rate);
  return body;
}

// What the change would do, asked again when the limit changes.
function usePreview(kind, body) {
  const [state, setState] = useState({});
  const key = JSON.stringify(body);
  useEffect(() => {
    let ended = false;
    const timer = setTimeout(() => {
      api.post(paths[kind], { ...body, dry_run: true }).then(
        (data) => { if (!ended) setState({ data }); },
        (error) => { if (!ended) setState({ error }); });
    }, 150);
    return () => { ended = true; clearTimeout(timer); };
  }, [key]);
  return state;
}

function FilterText({ filter }) {
  return html`<${Facts} items=${[
    ['Queue', filter.queue],
    ['Topic', html`<${Text} value=${filter.topic} none="all topics" wrap />`],
    ['Error', html`<${Text} value=${filter.error} none="all errors" wrap />`],
    filter.failed_after && ['Failed after', local(filter.failed_after)],
    filter.failed_before && ['Failed before', local(filter.failed_before)],
  ]} />`;
}

function Preview({ preview, kind, rate }) {
  if (preview.error) return html`<p class="notice warn" role="alert">${preview.error.message}</p>`;
  if (!preview.data) return html`<p class="muted" aria-busy="true">Counting…</p>`;
  const { would_change: number, capped: isCapped, message_ids: ids } = preview.data;
  const time = Number(rate) > 0 && number ? `, in about ${duration(number / Number(rate))}` : '';
  return html`<div class="preview" aria-live="polite">
    <p><span class="big">${capped(number, isCapped)}</span> ${number === 1 ? 'dead letter'
      : 'dead letters'} ${kind === 'purge' ? 'would be deleted' : 'would become ready again'}${
      isCapped ? '' : time}.</p>
    ${ids.length > 0 && html`<p class="muted small">The first ones: ${ids.slice(0, 3).map((id, i) =>
      html`${i > 0 && ', '}<${Id} value=${id} to=${`/messages/${id}`} />`)}</p>`}</div>`;
}

export function ReplayDialog({ kind, filter, onClose }) {
  const [limit, setLimit] = useState('');
  const [rate, setRate] = useState(kind === 'replay' ? '100' : '');
  const body = bodyOf(filter, limit, rate);
  const preview = usePreview(kind, bodyOf(filter, limit, ''));
  const isPurge = kind === 'purge';
  const [start, busy] = useBusy(async () => {
    const answer = await change(() => api.post(paths[kind], body),
      isPurge ? 'The purge runs.' : 'The replay runs.');
    if (!answer) return;
    onClose();
    navigate(href('/dead-letters', { view: 'replays' }));
  });
  const number = preview.data?.would_change ?? 0;
  return html`<${Dialog} wide onClose=${onClose}
      title=${isPurge ? 'Purge dead letters' : 'Replay dead letters'}>
    <${FilterText} filter=${filter} />
    <div class="dialog-fields">
      <label class="field"><span>At most</span><input type="number" min="1" value=${limit}
        placeholder="all" onInput=${(event) => setLimit(event.target.value)} /></label>
      <label class="field"><span>Per second</span><input type="number" min="1" value=${rate}
        placeholder="as fast as possible" onInput=${(event) => setRate(event.target.value)} />
      </label>
    </div>
    <${Preview} preview=${preview} kind=${kind} rate=${rate} />
    <p class="muted small">${isPurge
      ? 'They are deleted with their payloads. Nobody can undo this. The audit keeps who did it.'
      : 'It runs in the background, and can be cancelled. The audit keeps who did it.'}</p>
    <footer class="dialog-foot">
      <button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class=${isPurge ? 'danger' : 'primary'} disabled=${busy || !number}
        onClick=${start}>${isPurge ? 'Purge' : 'Replay'} ${number
          ? capped(number, preview.data.capped) : ''}</button>
    </footer><//>`;
}
