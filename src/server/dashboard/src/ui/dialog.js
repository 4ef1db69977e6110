// Dialogs and short messages.
import { classes, createStore, html, useEffect, useRef, useState } from '../lib.js';
import { noteChange, useBusy, useStore } from '../hooks.js';

// A modal dialog: the browser keeps the focus inside, and Escape closes it.
export function Dialog({ title, onClose, children, wide }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const outside = (event) => { if (event.target === box.current) onClose(); };
  return html`<dialog ref=${box} class=${classes('dialog', wide && 'wide')} aria-label=${title}
    onCancel=${(event) => { event.preventDefault(); onClose(); }} onMouseDown=${outside}>
    <div class="dialog-body"><header class="dialog-head"><h2>${title}</h2>
      <button type="button" class="quiet icon" aria-label="Close" onClick=${onClose}>✕</button>
    </header>${children}</div></dialog>`;
}

const question = createStore(null);

// Asks before a change: {title, text, verb, danger}. Resolves to whether to go on.
export const ask = (options) => new Promise((resolve) => question.set({ ...options, resolve }));

export function Question() {
  const asked = useStore(question);
  if (!asked) return null;
  const answer = (value) => {
    question.set(null);
    asked.resolve(value);
  };
  return html`<${Dialog} title=${asked.title} onClose=${() => answer(false)}>
    <div class="dialog-text">${asked.text}</div>
    <footer class="dialog-foot">
      ${!asked.only && html`<button type="button" autofocus=${asked.danger}
        onClick=${() => answer(false)}>Cancel</button>`}
      <button type="button" autofocus=${!asked.danger} class=${asked.danger ? 'danger' : 'primary'}
        onClick=${() => answer(true)}>${asked.verb}</button>
    </footer><//>`;
}

const toasts = createStore([]);
let number = 0;

export function say(text, kind = 'good') {
  number += 1;
  const toast = { id: number, text, kind };
  toasts.set([...toasts.get(), toast]);
  const time = kind === 'bad' ? 10000 : 4000;
  setTimeout(() => toasts.set(toasts.get().filter((each) => each !== toast)), time);
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">${useStore(toasts).map((toast) =>
    html`<p key=${toast.id} class=${`toast ${toast.kind}`}>${toast.text}</p>`)}</div>`;
}

// Makes a change, says so, and lets the views read again. Returns the answer, or null.
export async function change(action, text) {
  try {
    const answer = await action();
    say(typeof text === 'function' ? text(answer) : text);
    noteChange();
    return answer ?? {};
  } catch (error) {
    say(error.message, 'bad');
    return null;
  }
}

// A button that makes a change, after a question if there is one.
export function Action({ label, question: asked, run, done, kind, small, disabled }) {
  const [call, busy] = useBusy(async () => {
    if (asked && !(await ask(asked))) return;
    await change(run, done);
  });
  return html`<button type="button" class=${classes(kind, small && 'small')}
    disabled=${busy || disabled} onClick=${call}>${label}</button>`;
}

// Something that is read only on request.
export function Reveal({ label, read, show }) {
  const [value, setValue] = useState(null);
  const [call, busy] = useBusy(async () => {
    try {
      setValue({ data: await read() });
    } catch (error) {
      say(error.message, 'bad');
    }
  });
  if (value) return show(value.data);
  return html`<button type="button" disabled=${busy} onClick=${call}>${label}</button>`;
}
