// Leases: who holds what.
import { api } from '../api.js';
import { html } from '../lib.js';
import { useList, useTitle } from '../hooks.js';
import { useMay } from '../session.js';
import { Empty, Page, Panel, Text, Time } from '../ui/bits.js';
import { Action } from '../ui/dialog.js';
import { ListTable } from '../ui/table.js';

function Release({ lease }) {
  const { name, slot, owner, token } = lease;
  return html`<${Action} small label="Release" kind="danger"
    run=${() => api.post('/leases/release', { name, slot, owner, token })}
    done=${(answer) => (answer.released ? 'The lease is free.'
      : 'Somebody else has the lease now.')} question=${{ danger: true,
      title: 'Release the lease', verb: 'Release', text: `${owner} may still work under ` +
        `“${name}”. Another owner can take it at once. Release it only if the owner is dead.`,
    }} />`;
}

const columns = (may) => [
  { title: 'Name', cell: (row) => html`<${Text} value=${row.name} />` },
  { title: 'Slot', width: '4rem', align: 'end', optional: 1, cell: (row) => row.slot },
  { title: 'Owner', width: '24%', cell: (row) => html`<${Text} value=${row.owner} mono />` },
  { title: 'Token', width: '5rem', align: 'end', optional: 1, cell: (row) => row.token },
  { title: 'Held since', width: '8rem', optional: 1, cell: (row) => html`<${Time}
    at=${row.acquired_at} />` },
  { title: 'Renewed', width: '7.5rem', optional: 2, cell: (row) => html`<${Time}
    at=${row.renewed_at} />` },
  { title: 'Expires', width: '7rem', cell: (row) => html`<${Time} at=${row.expires_at} />` },
  may && { title: '', width: '6.5rem', align: 'end',
    cell: (row) => html`<${Release} lease=${row} />` },
].filter(Boolean);

export function Leases() {
  useTitle('Leases');
  const may = useMay('admin');
  const list = useList('/leases', {}, 'leases', { live: 5000 });
  return html`<${Page} title="Leases"><${Panel} flush><${ListTable} list=${list}
    columns=${columns(may)} rowKey=${(row) => `${row.name} ${row.slot}`} caption="Leases"
    empty=${html`<${Empty} title="No lease is held">A lease is a lock that expires when its holder
      dies. Expired ones are not shown.<//>`} /><//><//>`;
}
