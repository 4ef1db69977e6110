// Tables of any length: only the rows in sight are in the document.
import { classes, html, useEffect, useRef, useState } from '../lib.js';
import { Empty, Failure } from './bits.js';
import { count } from '../format.js';

const row_height = 37;
const overscan = 20;
const window_from = 120;  // shorter tables are shown as a whole

// The part of `total` rows that is in sight.
function useWindow(body, total) {
  const [range, setRange] = useState({ from: 0, to: window_from });
  useEffect(() => {
    if (total <= window_from) return undefined;
    const look = () => {
      if (!body.current) return;
      const top = body.current.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(-top / row_height) - overscan);
      const to = Math.ceil((window.innerHeight - top) / row_height) + overscan;
      setRange((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    look();
    window.addEventListener('scroll', look, { passive: true });
    window.addEventListener('resize', look);
    return () => {
      window.removeEventListener('scroll', look);
      window.removeEventListener('resize', look);
    };
  }, [total]);
  if (total <= window_from) return { from: 0, to: total };
  return { from: Math.min(range.from, total), to: Math.min(range.to, total) };
}

function Gap({ rows, columns }) {
  return rows > 0 && html`<tr class="gap" aria-hidden="true"><td colspan=${columns}
    style=${{ height: `${rows * row_height}px` }}></td></tr>`;
}

function cellClass(column) {
  return classes(column.align === 'end' && 'end', column.optional && `opt-${column.optional}`);
}

function Row({ row, columns, selection, id, label }) {
  const chosen = selection?.has(id);
  return html`<tr class=${classes(chosen && 'chosen')}>
    ${selection && html`<td class="check"><input type="checkbox" checked=${chosen}
      aria-label=${`Select ${label}`} onChange=${() => selection.toggle(id)} /></td>`}
    ${columns.map((column) => html`<td class=${cellClass(column)}>${column.cell(row)}</td>`)}
  </tr>`;
}

// columns: {title, cell(row), width, align: 'end', optional: 1 | 2 (hidden on small screens)}.
export function Table({ columns, rows, rowKey, caption, selection }) {
  const body = useRef(null);
  const { from, to } = useWindow(body, rows.length);
  const all = columns.length + (selection ? 1 : 0);
  return html`<div class="table-box"><table class="table">
    <caption class="hidden">${caption}</caption>
    <colgroup>${selection && html`<col class="check" />`}${columns.map((column) =>
      html`<col class=${cellClass(column)} style=${{ width: column.width ?? 'auto' }} />`)}
    </colgroup>
    <thead><tr>${selection && html`<th class="check"><input type="checkbox"
        aria-label="Select all loaded rows" checked=${selection.all} onChange=${selection.toggleAll}
        /></th>`}${columns.map((column) => html`<th scope="col" class=${cellClass(column)}>${
        column.title || html`<span class="hidden">Actions</span>`}</th>`)}</tr></thead>
    <tbody ref=${body}>
      <${Gap} rows=${from} columns=${all} />
      ${rows.slice(from, to).map((row) => {
        const id = rowKey(row);
        return html`<${Row} key=${id} id=${id} row=${row} columns=${columns}
          selection=${selection} label=${id} />`;
      })}
      <${Gap} rows=${rows.length - to} columns=${all} />
    </tbody></table></div>`;
}

// Reads the next page when its button comes into sight.
function More({ list }) {
  const button = useRef(null);
  useEffect(() => {
    if (!button.current || !('IntersectionObserver' in window)) return undefined;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) list.more();
    }, { rootMargin: '600px' });
    observer.observe(button.current);
    return () => observer.disconnect();
  }, [list.next, list.rows.length]);
  return html`<footer class="table-foot">
    <span class="muted">${count(list.rows.length)} shown</span>
    ${list.next
      ? html`<button type="button" class="small" ref=${button} disabled=${list.loading}
          onClick=${list.more}>${list.cut ? 'Search on' : 'Load more'}</button>`
      : html`<span class="muted">That is all.</span>`}
  </footer>`;
}

// The table of a list of useList(), with its empty and error states.
export function ListTable({ list, columns, rowKey, caption, empty, selection }) {
  if (list.error && !list.rows.length)
    return html`<${Failure} error=${list.error} retry=${list.reload} />`;
  if (!list.rows.length && list.loading)
    return html`<div class="skeleton" role="status" aria-busy="true" aria-label="Loading"></div>`;
  if (!list.rows.length && !list.next) return empty ?? html`<${Empty} title="Nothing here" />`;
  return html`${list.rows.length > 0 && html`<${Table} columns=${columns} rows=${list.rows}
      rowKey=${rowKey} caption=${caption} selection=${selection} />`}
    ${list.cut && html`<p class="notice">The search stopped after 10,000 messages. It goes on where
      it stopped.</p>`}
    ${list.error && html`<p class="notice warn" role="alert">${list.error.message}</p>`}
    <${More} list=${list} />`;
}

// Chosen rows: {has, toggle, toggleAll, all, ids, clear}.
export function useSelection(rows, rowKey) {
  const [ids, setIds] = useState(() => new Set());
  const all = rows.length > 0 && rows.every((row) => ids.has(rowKey(row)));
  return {
    ids: [...ids],
    all,
    has: (id) => ids.has(id),
    clear: () => setIds(new Set()),
    toggle: (id) => setIds((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    }),
    toggleAll: () => setIds(all ? new Set() : new Set(rows.map(rowKey))),
  };
}
