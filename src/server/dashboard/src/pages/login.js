import { api } from '../api.js';
import { html, useState } from '../lib.js';
import { useBusy, useTitle } from '../hooks.js';

export function Login({ onDone }) {
  useTitle('Log in');
  const [problem, setProblem] = useState('');
  const [submit, busy] = useBusy(async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      await api.post('/session', { user: form.get('user'), password: form.get('password') }, false);
      onDone();
    } catch (error) {
      setProblem(error.message);
    }
  });
  return html`<main class="alone"><form class="login panel" onSubmit=${submit}>
    <h1>Dovetail</h1>
    <p class="muted">This server needs a login.</p>
    <label class="field"><span>User</span><input name="user" autocomplete="username" required
      autofocus /></label>
    <label class="field"><span>Password</span><input name="password" type="password" required
      autocomplete="current-password" /></label>
    ${problem && html`<p class="notice warn" role="alert">${problem}</p>`}
    <button class="primary" disabled=${busy}>Log in</button>
    <p class="muted small">A server that has only tokens has no login: use its API.</p>
  </form></main>`;
}
