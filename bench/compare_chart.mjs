// Draws the results as an SVG bar chart, with Dovetail in colour. It suits light and dark pages.

const thousands = (number) => number.toLocaleString('en-US');
const escape = (text) =>
  text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);

/// `answer` is the JSON document of compare.mjs.
export function chart(answer) {
  const groups = [];
  const add = (title, unit, rows) => {
    const there = rows.filter((row) => row.value !== undefined);
    if (there.length > 1) groups.push({ title, unit, rows: there });
  };
  const of = (measure, names) =>
    names.map(([name, label]) => ({
      label: label ?? name,
      value: answer.medians[measure]?.[name],
      ours: name.startsWith('Dovetail'),
    }));
  add(
    `Drain of ${thousands(answer.settings.messages)} waiting messages, completion written`,
    'per s',
    of('drain', [
      ['Dovetail', 'Dovetail, history kept'],
      ['Dovetail, no history'],
      ['Graphile Worker', 'Graphile Worker (keeps none)'],
      ['pg-boss', 'pg-boss (history kept)'],
      ['raw, history', 'raw libpq, history kept'],
      ['PgQ', 'PgQ (acks whole batches)'],
    ]),
  );
  add(
    'Bulk enqueue',
    'per s',
    of('bulk enqueue', [
      ['Dovetail'],
      ['Graphile Worker'],
      ['pg-boss'],
      ['PgQ', 'PgQ (COPY)'],
      ['raw COPY', 'raw libpq, COPY'],
      ['raw unnest', 'raw libpq, unnest'],
    ]),
  );
  add(
    'One message per transaction, 8 connections',
    'per s',
    of('single enqueue, 8 connections', [
      ['Dovetail'],
      ['Graphile Worker'],
      ['pg-boss'],
      ['PgQ'],
      ['raw', 'raw libpq'],
    ]),
  );
  add(
    'Latency at 20 messages a second, p99 (less is better)',
    'ms',
    ['Dovetail', 'Graphile Worker', 'pg-boss'].map((name) => ({
      label: name,
      value: answer.latency[name]?.p99,
      ours: name === 'Dovetail',
    })),
  );

  const [width, labels, bar, step, gap] = [760, 210, 400, 24, 46];
  const parts = [];
  let y = 10;
  for (const { title, unit, rows } of groups) {
    y += 20;
    parts.push(`<text class="title" x="0" y="${y}">${escape(title)}</text>`);
    y += 10;
    const most = Math.max(...rows.map((row) => row.value));
    for (const { label, value, ours } of rows) {
      const length = Math.max(2, (value / most) * bar);
      const shown = value < 100 ? value.toFixed(1) : thousands(Math.round(value));
      const end = (labels + length + 6).toFixed(1);
      parts.push(
        `<text class="label" x="${labels - 8}" y="${y + 15}" text-anchor="end">` +
          `${escape(label)}</text>`,
        `<rect class="${ours ? 'ours' : 'other'}" x="${labels}" y="${y + 3}" ` +
          `width="${length.toFixed(1)}" height="${step - 8}" rx="2"/>`,
        `<text class="value" x="${end}" y="${y + 15}">${shown} ${unit}</text>`,
      );
      y += step;
    }
    y += gap - 30;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}"
  width="${width}" height="${y}" role="img" aria-label="Dovetail compared with other queues">
<style>
  text { font: 13px system-ui, sans-serif; fill: #57606a; }
  .title { font-weight: 600; fill: #24292f; }
  .ours { fill: #1f7a5c; }
  .other { fill: #b6bfc9; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9aa4af; }
    .title { fill: #e6edf3; }
    .ours { fill: #3fb68b; }
    .other { fill: #4b535d; }
  }
</style>
${parts.join('\n')}
</svg>
`;
}
