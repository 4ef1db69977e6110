// Dark and light: the system decides, unless the user chose.
import { createStore } from './lib.js';

const key = 'dovetail-theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');

function stored() {
  try {
    return localStorage.getItem(key) ?? 'auto';
  } catch {
    return 'auto';
  }
}

// 'auto', 'light' or 'dark'.
export const theme = createStore(stored());
// 'light' or 'dark'.
export const shownTheme = createStore('light');

function apply() {
  const chosen = theme.get();
  const shown = chosen === 'auto' ? (dark.matches ? 'dark' : 'light') : chosen;
  document.documentElement.dataset.theme = shown;
  shownTheme.set(shown);
}

theme.subscribe((value) => {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser without storage forgets the choice.
  }
  apply();
});
dark.addEventListener('change', apply);
apply();

export const toggleTheme = () => theme.set(shownTheme.get() === 'dark' ? 'light' : 'dark');
