// What all modules need of Preact.
import { h } from 'preact';
import htm from 'htm';

export { Fragment, h, render } from 'preact';
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
export const html = htm.bind(h);

// Joins the class names that are not false.
export const classes = (...names) => names.filter(Boolean).join(' ');

// A value that components can follow.
export function createStore(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
