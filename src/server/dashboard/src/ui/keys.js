// Keys: / searches, j and k move through a list, g and a letter goes to a page, ? tells them.
import { useEffect } from '../lib.js';
import { href, navigate } from '../router.js';
import { ask } from './dialog.js';

const pages = {
  o: '/', q: '/queues', m: '/messages', d: '/dead-letters', j: '/joins', s: '/streams',
  t: '/timers', b: '/jobs', f: '/fanouts', e: '/event-streams', u: '/subscriptions',
  i: '/instances', l: '/leases', a: '/audit',
};

const isTyping = (target) => target.closest?.('input, select, textarea, dialog') !== null;

function moveRow(step) {
  const links = [...document.querySelectorAll('main .row-link')];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1)
    : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
  links[next].scrollIntoView({ block: 'nearest' });
}

const help = 'Press / to search, j and k to move through a list, Enter to open a row, and g with ' +
  'a letter to go to a page: o overview, q queues, m messages, d dead letters, j joins, ' +
  's streams, t timers, b jobs, f fan-outs, e event streams, u subscriptions, i instances, ' +
  'l leases, a audit.';

export function useKeys(search) {
  useEffect(() => {
    let going = false;
    const press = (event) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      const { key } = event;
      if (going) {
        going = false;
        if (pages[key]) navigate(href(pages[key]));
      } else if (key === 'g') {
        going = true;
        setTimeout(() => { going = false; }, 1000);
      } else if (key === '/') {
        event.preventDefault();
        search.current?.focus();
      } else if (key === 'j' || key === 'k') {
        moveRow(key === 'j' ? 1 : -1);
      } else if (key === '?') {
        ask({ title: 'Keys', text: help, verb: 'Close', only: true });
      }
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, []);
}
