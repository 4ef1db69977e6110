// Filters, which live in the address.
import { classes, html, useEffect, useRef, useState } from '../lib.js';
import { setQuery } from '../router.js';

// A text filter: it applies with Enter, when it is left, or after a pause.
export function TextFilter({ name, label, query, wide, bare }) {
  const given = query.get(name) ?? '';
  const [value, setValue] = useState(given);
  const timer = useRef(0);
  useEffect(() => setValue(given), [given]);
  const apply = (text) => {
    clearTimeout(timer.current);
    if (text !== given) setQuery({ [name]: text });
  };
  const input = (event) => {
    const text = event.target.value;
    setValue(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => apply(text), 600);
  };
  return html`<label class=${classes('field', wide && 'wide')}><span
      class=${bare ? 'hidden' : ''}>${label}</span>
    <input type="text" dir="auto" value=${value} placeholder=${bare ? label : ''} spellcheck="false"
      autocomplete="off" onInput=${input} onChange=${(event) => apply(event.target.value)} />
  </label>`;
}

export function ChoiceFilter({ name, label, query, choices, none }) {
  return html`<label class="field"><span>${label}</span>
    <select onChange=${(event) => setQuery({ [name]: event.target.value })}>
      ${none !== undefined && html`<option value="" selected=${!query.get(name)}>${none}</option>`}
      ${choices.map(([value, text]) => html`<option value=${value}
        selected=${(query.get(name) ?? (none === undefined ? choices[0][0] : '')) === value}>${
        text}</option>`)}
    </select></label>`;
}

// Times are given as local times, and are UTC in the address.
const toLocal = (text) => {
  const at = new Date(text);
  if (!text || Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
const toUtc = (text) => (text ? `${new Date(text).toISOString().slice(0, 19)}Z` : '');

export function TimeFilter({ name, label, query }) {
  return html`<label class="field"><span>${label}</span>
    <input type="datetime-local" value=${toLocal(query.get(name))}
      onChange=${(event) => setQuery({ [name]: toUtc(event.target.value) })} /></label>`;
}

export function Filters({ children, names, query }) {
  const used = names.filter((name) => query.get(name));
  const [open, setOpen] = useState(false);
  const clear = () => setQuery(Object.fromEntries(names.map((name) => [name, ''])));
  return html`<form class=${classes('filters', open && 'open', names.length > 2 && 'many')}
      role="search" aria-label="Filters" onSubmit=${(event) => event.preventDefault()}>
    <button type="button" class="filters-toggle" aria-expanded=${open}
      onClick=${() => setOpen(!open)}>Filters${used.length ? ` (${used.length})` : ''}</button>
    ${children}
    ${used.length > 0 && html`<button type="button" class="quiet" onClick=${clear}>Clear filters
      </button>`}</form>`;
}

// One of a few views, as a row of buttons.
export function Tabs({ label, value, choices, onChoose }) {
  return html`<div class="tabs" role="group" aria-label=${label}>${choices.map(([key, text]) =>
    html`<button type="button" aria-pressed=${key === value} onClick=${() => onChoose(key)}>${
      text}</button>`)}</div>`;
}
