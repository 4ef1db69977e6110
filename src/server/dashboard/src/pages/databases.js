// The databases of the server.
import { html } from '../lib.js';
import { useQuery, useTitle } from '../hooks.js';
import { Link } from '../router.js';
import { count } from '../format.js';
import { Loaded, Page, Panel, State, Text } from '../ui/bits.js';
import { Filters, TextFilter } from '../ui/filters.js';
import { Table } from '../ui/table.js';

const columns = [
  { title: 'Database', cell: (row) => html`<${Link} class="row-link" to="/"
    params=${row.state === 'single' ? {} : { database: row.key }}>
    <${Text} value=${row.key} /><//>` },
  { title: 'State', width: '9rem', cell: (row) => html`<${State} of=${row.state}
    label=${row.state === 'single' ? 'in use' : undefined} />` },
  { title: 'Failures', width: '7rem', align: 'end', cell: (row) => count(row.failures) },
  { title: 'Last error', width: '45%', optional: 1, cell: (row) => html`<${Text}
    value=${row.last_error} />` },
];

export function Databases({ query }) {
  useTitle('Databases');
  const list = useQuery('/databases', {}, { live: 5000 });
  const wanted = (query.get('key') ?? '').toLowerCase();
  return html`<${Page} title="Databases">
    <${Filters} names=${['key']} query=${query}><${TextFilter} name="key" label="Name contains"
      query=${query} wide /><//>
    <${Loaded} query=${list}>${(data) => html`<${Panel} flush><${Table} columns=${columns}
      rows=${data.databases.filter((row) => row.key.toLowerCase().includes(wanted))}
      rowKey=${(row) => row.key} caption="Databases" /><//>`}<//>
  <//>`;
}
