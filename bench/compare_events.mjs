// The blocks of event stores in ./bench/compare: appends, catching up, and the time from a commit
// to the handler.

/// `tools`: the functions of compare.mjs.
export function eventBlocks({ simple, programs, size, inFreshDatabase, withCosts, note }) {
  const ours = simple('Dovetail', `${programs}/bench/bench_events`, 'dovetail');
  const raw = simple('raw', `${programs}/bench/bench_events`, 'raw');
  const peer = (name, file) => simple(name, process.execPath, `bench/peers/${file}`);
  const many = 5 * size.messages; // the start of a subscription has little weight
  const contestants = [
    { contestant: ours, events: many },
    { contestant: raw, events: many },
    { contestant: peer('Emmett', 'emmett.mjs'), events: size.messages / 10 }, // slow
    { contestant: peer('Message DB', 'message_db.mjs'), events: many },
  ].map((each) => ({ ...each, label: each.contestant.name }));
  const pair = contestants.slice(0, 2).reverse(); // again, in the other order

  const append = async ({ label, contestant }) => {
    for (const count of [1, 10]) {
      await inFreshDatabase(contestant, (url) =>
        withCosts(appendOf(count), label, () =>
          contestant.call('append', url, { connections: 8, seconds: size.single, size: count }),
        ),
      );
    }
  };
  const catchUp = ({ label, contestant, events }) =>
    inFreshDatabase(contestant, async (url) => {
      await contestant.call('fill', url, { events });
      const answer = await contestant.call('catchup', url, { events });
      note(catchUpMeasure, label, answer.messages / answer.seconds);
    });
  const latency = ({ label, options }) =>
    inFreshDatabase(ours, async (url) => {
      const answer = await ours.call('latency', url, { seconds: size.latency, ...options });
      for (const sample of answer.samples) note(feedLatency, label, sample);
    });
  return [
    { name: 'events: append', list: [...contestants, ...pair], shift: 1, work: append },
    { name: 'events: catch-up', list: [...contestants, ...pair], shift: 1, work: catchUp },
    {
      name: 'events: feed latency',
      list: [
        { label: 'alone', options: {} },
        { label: 'beside an open transaction', options: { foreign: 1 } },
      ],
      shift: 1,
      work: latency,
    },
  ];
}

export const appendOf = (count) => `append, ${count} event${count > 1 ? 's' : ''}`;
export const catchUpMeasure = 'catch-up';
export const feedLatency = 'feed latency';

/// Adds the goals of event stores.
export function eventGoals({ ratio, samples, percentile, atLeast, below }) {
  atLeast('append 1 event / raw versioned insert', ratio(appendOf(1), 'Dovetail', 'raw'), 0.8);
  for (const peer of ['Emmett', 'Message DB'])
    atLeast(`append 1 event / ${peer}`, ratio(appendOf(1), 'Dovetail', peer), 2.5);
  atLeast('append 10 events / raw', ratio(appendOf(10), 'Dovetail', 'raw'), 0.85);
  atLeast('catch-up / raw by sequence', ratio(catchUpMeasure, 'Dovetail', 'raw'), 0.5);
  for (const peer of ['Emmett', 'Message DB'])
    atLeast(`catch-up / ${peer}`, ratio(catchUpMeasure, 'Dovetail', peer), 3);
  for (const [label, list] of samples.get(feedLatency) ?? []) {
    below(`feed latency p50, ms, ${label}`, percentile(list, 0.5), 3);
    below(`feed latency p99, ms, ${label}`, percentile(list, 0.99), 15);
  }
}
