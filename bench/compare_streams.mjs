// The block of ordered streams in ./bench/compare.
const shapes = [
  { label: '1,000 streams', streams: 1_000, share: 0.6 },
  { label: 'one stream', streams: 1, share: 0.4 },
  { label: '2 messages per stream', perStream: 2, share: 0.4 },
];
/// The share of messages that ran out of order, or beside another message of their stream.
const disorderOf = (answer) => (answer.out_of_order + answer.at_once) / answer.messages;
const measureOf = (shape) => `drain, ${shape.label}`;

/// `tools`: the functions of compare.mjs.
export function streamBlocks(tools) {
  const { dovetail, graphile, pgboss, size, best_batch, inFreshDatabase, note } = tools;
  const ours = () =>
    inFreshDatabase(dovetail, async (url) => {
      const answers = await dovetail.all('streams', url, {
        messages: size.messages,
        batch: best_batch,
        'no-history': true,
      });
      for (const answer of answers) {
        const rate = answer.messages / answer.seconds;
        const shape = shapes.find((each) => answer.setting.startsWith(each.label));
        if (shape) {
          note(measureOf(shape), 'Dovetail', rate);
          note(`${measureOf(shape)} / unordered`, 'Dovetail', answer.of_unordered);
        }
      }
    });
  // Few messages: Graphile Worker handles less than 200 of them a second.
  const peer = (contestant, most) => async () => {
    for (const shape of shapes) {
      const messages = shape.streams === 1 ? 500 : most;
      const streams = shape.streams ?? messages / shape.perStream;
      await inFreshDatabase(contestant, async (url) => {
        const answer = await contestant.call('streams', url, { messages, streams });
        note(measureOf(shape), contestant.name, answer.messages / answer.seconds);
        note(`${measureOf(shape)}: disorder`, contestant.name, disorderOf(answer));
      });
    }
  };
  const list = [
    { label: 'Dovetail', run: ours },
    { label: graphile.name, run: peer(graphile, 1_000), once: true },
    { label: pgboss.name, run: peer(pgboss, size.messages / 10), once: true },
  ];
  return [{ name: 'ordered streams', list, shift: 1, work: (each) => each.run() }];
}

export const streamMeasures = shapes.map(measureOf);

/// The peers enqueue in bulk, in few transactions; Dovetail's order is checked by its tests.
export function printDisorder({ samples, median, printTable }) {
  const rows = streamMeasures.flatMap((measure) =>
    [...(samples.get(`${measure}: disorder`) ?? [])].map(([name, list]) => [
      `${measure}, ${name}`,
      `${(100 * median(list)).toFixed(1)} %`,
    ]),
  );
  if (rows.length) printTable('messages that ran out of order', ['', 'share'], rows);
}

/// Adds the goals of ordered streams.
export function streamGoals({ ratio, value, atLeast }) {
  for (const shape of shapes) {
    const measure = measureOf(shape);
    const share = value(`${measure} / unordered`, 'Dovetail');
    atLeast(`${measure} / without streams`, share, shape.share);
    for (const peer of ['Graphile Worker', 'pg-boss'])
      atLeast(`${measure} / ${peer}`, ratio(measure, 'Dovetail', peer), 10);
  }
}
