// Who uses the page, and what the role may do.
import { api } from './api.js';
import { createStore } from './lib.js';
import { useStore } from './hooks.js';

const roles = ['viewer', 'operator', 'admin'];

// {name, role, can_log_out, authentication, read_only}; null: not known yet.
export const session = createStore(null);

export async function loadSession() {
  session.set(await api.get('/session', {}, false));
}

export const allows = (who, role) =>
  Boolean(who) && !who.read_only && roles.indexOf(who.role) >= roles.indexOf(role);

// Whether the user may make changes that need this role.
export function useMay(role = 'operator') {
  return allows(useStore(session), role);
}

// Payloads are read, not changed: a read-only server shows them.
export function useSeesPayloads() {
  const who = useStore(session);
  return Boolean(who) && roles.indexOf(who.role) >= 1;
}
