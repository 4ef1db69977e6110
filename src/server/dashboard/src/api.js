// Requests to the API below the base path. Nothing else is asked.
import { base } from './router.js';
import { createStore } from './lib.js';

// The database of a group that is shown; null: the server has one database.
export const database = createStore(null);
// Whether the server wants a login.
export const loginNeeded = createStore(false);

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// The path, with a query of the values that are set.
function url(path, params = {}, own = true) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '' && value !== false)
      query.set(name, value);
  }
  if (own && database.get() !== null) query.set('database', database.get());
  const text = query.toString();
  return `${base}/api/v1${path}${text ? `?${text}` : ''}`;
}

async function problemOf(response) {
  const text = await response.text();
  try {
    return new ApiError(response.status, JSON.parse(text).detail || response.statusText);
  } catch {
    return new ApiError(response.status, `The server answered ${response.status}.`);
  }
}

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, { ...options, credentials: 'same-origin' });
  } catch {
    throw new ApiError(0, 'The server does not answer.');
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = await problemOf(response);
  if (response.status === 401 && options?.method !== 'POST') loginNeeded.set(true);
  throw problem;
}

function send(method, path, body = {}, own = true) {
  return request(url(path, {}, own), {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

// One segment of a path.
export const segment = (name) => encodeURIComponent(name);

export const api = {
  url,
  // `age`: an answer may be this many seconds old. Tabs share such answers.
  getUrl: (address, age = 0) => request(address, { headers: { Accept: 'application/json',
    ...(age ? { 'Cache-Control': `max-age=${age}` } : {}) } }),
  get: (path, params, own) => api.getUrl(url(path, params, own)),
  post: (path, body, own) => send('POST', path, body, own),
  remove: (path) => send('DELETE', path),
  // Health is not below /api/v1; 503 has a body, too.
  async health() {
    const response = await fetch(`${base}/health`, { credentials: 'same-origin' });
    if (response.status !== 200 && response.status !== 503) throw await problemOf(response);
    return response.json();
  },
};
