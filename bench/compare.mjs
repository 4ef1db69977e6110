// Runs the contestants in rounds. Each has a new database. The order changes with every round.
// A contestant is a program. Its arguments are a command and a database, and it prints one line of
// JSON.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { chart } from './compare_chart.mjs';
import { appendOf, catchUpMeasure, eventBlocks, eventGoals } from './compare_events.mjs';
import { printDisorder, streamBlocks, streamGoals, streamMeasures } from './compare_streams.mjs';

let [quick, publish, only] = [false, false, ''];
for (let words = process.argv.slice(2); words.length;) {
  const word = words.shift();
  if (word === '--quick') quick = true;
  else if (word === '--publish') publish = true;
  else if (word === '--only' && words.length) only = words.shift();
  else {
    console.error(`compare: unknown argument ${word}; see ./bench/compare --help`);
    process.exit(2);
  }
}

const server = process.env.DOVETAIL_TEST_POSTGRES;
const cluster = process.env.DOVETAIL_TEST_POSTGRES_DIR;
const sqliteFile = `${process.env.COMPARE_WORK}/compare.db`;
const programs = 'build/bench';
const default_batch = 50; // WorkerOptions::batch_size
const best_batch = 1000;

const size = quick
  ? {
      rounds: 1,
      budget: 110,
      messages: 40_000,
      single: 1,
      latency: 2,
      snapshot: 6,
      idle: 3,
      sqliteTurns: 1,
      sqliteMessages: 40_000,
    }
  : {
      rounds: 3,
      budget: 720,
      messages: 200_000,
      single: 2,
      latency: 7,
      snapshot: 120,
      idle: 8,
      sqliteTurns: 4,
      sqliteMessages: 200_000,
    };

const started = Date.now();
const elapsed = () => (Date.now() - started) / 1000;

// --- running programs

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(out);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${code}: ${err.slice(-800)}`));
    });
  });
}

const psql = (url, sql) =>
  run('psql', ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', url, '-c', sql]);
const urlOf = (database) => server.replace(/\/[^/]*$/, `/${database}`);

/// CPU seconds of the server since its start: of its processes, and of its former processes.
function serverCpu() {
  const postmaster = readFileSync(`${cluster}/data/postmaster.pid`, 'utf8').split('\n')[0];
  const ticks = (pid, from, to) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(from, to)
        .reduce((sum, each) => sum + Number(each), 0);
    } catch {
      return 0; // the process has ended
    }
  };
  // The user and system time of the postmaster, and of its children that have ended.
  let sum = ticks(postmaster, 11, 15);
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      if (stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === postmaster)
        sum += ticks(pid, 11, 13);
    } catch {
      // the process has ended
    }
  }
  return sum / 100;
}

const walPosition = async () =>
  Number(await psql(server, "select pg_current_wal_insert_lsn() - '0/0'"));

// --- contestants

/// A program with the command line of bench/raw_postgres.cpp.
const simple = (name, command, ...before) => ({
  name,
  async call(what, url, options = {}) {
    const args = Object.entries(options).map(([key, value]) => `${key}=${value}`);
    return JSON.parse(await run(command, [...before, what, url, ...args]));
  },
});

const dovetail = {
  name: 'Dovetail',
  async call(what, url, options = {}) {
    if (what === 'setup') return {};
    return (await this.all(what, url, options))[0];
  },
  /// All findings of a measure.
  async all(what, url, options = {}) {
    const flags = Object.entries(options).flatMap(([key, value]) =>
      value === true ? [`--${key}`] : [`--${key}`, `${value}`],
    );
    const measure = what === 'single' ? 'enqueue' : what;
    return JSON.parse(
      await run(`${programs}/dovetail`, ['bench', measure, '--database', url, '--json', ...flags]),
    );
  },
};

const graphile = simple('Graphile Worker', process.execPath, 'bench/peers/graphile.mjs');
const pgboss = simple('pg-boss', process.execPath, 'bench/peers/pgboss.mjs');
const pgq = simple('PgQ', `${programs}/bench/raw_pgq`);
const raw = simple('raw libpq', `${programs}/bench/raw_postgres`);
const rawSqlite = simple('raw SQLite', `${programs}/bench/raw_sqlite`);

// --- samples

const samples = new Map(); // measure → contestant → list of numbers

function note(measure, contestant, value) {
  if (!samples.has(measure)) samples.set(measure, new Map());
  const row = samples.get(measure);
  if (!row.has(contestant)) row.set(contestant, []);
  row.get(contestant).push(value);
}

function median(list) {
  if (!list || list.length === 0) return undefined;
  const sorted = [...list].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const percentile = (list, share) =>
  [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(share * list.length))];
const value = (measure, contestant) => median(samples.get(measure)?.get(contestant));

let databases = 0;
/// Calls `body(url)` with a new database, and drops the database.
async function inFreshDatabase(contestant, body) {
  const name = `bench_${++databases}`;
  await psql(server, `create database ${name}`);
  try {
    await contestant.call('setup', urlOf(name));
    await body(urlOf(name));
  } finally {
    await psql(server, `drop database ${name} with (force)`);
  }
}

/// Measures the server's CPU time and WAL per message of `body`.
async function withCosts(measure, contestant, body) {
  // After this time, the postmaster has counted the backends that ended.
  const settled = () => new Promise((resolve) => setTimeout(resolve, 100));
  await psql(server, 'checkpoint');
  await settled();
  const [cpu, wal] = [serverCpu(), await walPosition()];
  const answer = await body();
  await settled();
  note(`${measure}: server CPU`, contestant, ((serverCpu() - cpu) * 1e6) / answer.messages);
  note(`${measure}: WAL`, contestant, ((await walPosition()) - wal) / answer.messages);
  note(measure, contestant, answer.messages / answer.seconds);
}

function say(text) {
  const line = text && `[${elapsed().toFixed(0)} s] ${text}`;
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${line}`);
  else if (line) process.stderr.write(`${line}\n`);
}

const failures = [];
/// A failed contestant does not discard the results of the others.
async function attempt(what, body) {
  say(what);
  try {
    await body();
  } catch (error) {
    failures.push(`${what}: ${error.message}`);
  }
}

// --- the blocks of a round. Measures without a goal run once.

/// A pair to compare. It runs in both orders, because the speed of the machine varies.
const twice = (...pairs) =>
  [...pairs]
    .reverse()
    .flatMap((pair) => [...pair].reverse())
    .map((each) => ({ ...each, again: true }));

const closeDrains = [
  [
    { label: 'Dovetail', contestant: dovetail, options: { batch: best_batch } },
    { label: 'raw, history', contestant: raw, options: { how: 'history', batch: best_batch } },
  ],
  [
    {
      label: 'Dovetail, no history',
      contestant: dovetail,
      options: { batch: best_batch, 'no-history': true },
    },
    { label: 'raw, fused, deleted', contestant: raw, options: { how: 'fused', batch: best_batch } },
  ],
];
const drains = [
  ...closeDrains.flat(),
  { label: 'Graphile Worker', contestant: graphile },
  { label: 'pg-boss', contestant: pgboss },
  { label: 'PgQ', contestant: pgq, once: true },
  { label: 'Dovetail, default batch', contestant: dovetail, options: { batch: default_batch } },
  {
    label: 'raw, history, default batch',
    contestant: raw,
    options: { how: 'history', batch: default_batch },
  },
  {
    label: 'raw, locked and deleted',
    contestant: raw,
    options: { how: 'delete', batch: best_batch },
    once: true,
  },
  ...twice(...closeDrains),
];

let rawLoads = 0;
async function drainOnce({ label, contestant, options = {} }) {
  const ours = contestant === dovetail;
  await inFreshDatabase(contestant, async (url) => {
    const messages = size.messages;
    // The raw program alternates between COPY and unnest.
    const bulkLabel =
      contestant === raw ? (++rawLoads % 2 ? 'raw COPY' : 'raw unnest') : contestant.name;
    const bulkOptions = ours
      ? { messages, keep: true }
      : contestant === raw
        ? { messages, how: bulkLabel.split(' ')[1].toLowerCase() }
        : { messages };
    await withCosts('bulk enqueue', bulkLabel, () => contestant.call('bulk', url, bulkOptions));
    // Updates the statistics, so that no plan assumes an empty table.
    await psql(url, 'vacuum analyze');
    const drainOptions = ours
      ? { messages, keep: true, preloaded: true, ...options }
      : { messages, ...options };
    await withCosts('drain', label, () => contestant.call('drain', url, drainOptions));
  });
}

const closeSingles = [
  { label: 'Dovetail', contestant: dovetail },
  { label: 'raw', contestant: raw },
];
const singles = [
  ...closeSingles,
  { label: 'Graphile Worker', contestant: graphile },
  { label: 'pg-boss', contestant: pgboss },
  { label: 'PgQ', contestant: pgq, once: true },
  { label: 'raw with NOTIFY', contestant: raw, options: { notify: 1 }, once: true },
  ...twice(closeSingles),
];

async function singleOnce({ label, contestant, options = {}, again = false }) {
  await inFreshDatabase(contestant, async (url) => {
    for (const connections of again ? [8] : [1, 8]) {
      const keep =
        contestant !== dovetail
          ? {}
          : connections === 1 || again
            ? { keep: true }
            : { keep: true, preloaded: true };
      const measure = `single enqueue, ${connections} connection${connections > 1 ? 's' : ''}`;
      await withCosts(measure, label, () =>
        contestant.call('single', url, { connections, seconds: size.single, ...options, ...keep }),
      );
    }
  });
}

// Single enqueues from more callers than connections. The raw program has one caller per
// connection, and runs before and after Dovetail.
const callerCounts = [8, 64, 256];
const rawCallers = { label: 'raw, 8 connections', contestant: raw };
const callers = [
  rawCallers,
  ...callerCounts.map((count) => ({
    label: `Dovetail, ${count} callers`,
    contestant: dovetail,
    options: { callers: count },
  })),
  rawCallers,
];

async function callersOnce({ label, contestant, options = {} }) {
  await inFreshDatabase(contestant, async (url) => {
    await withCosts('single enqueue, callers', label, () =>
      contestant.call('single', url, { connections: 8, seconds: size.single, ...options }),
    );
  });
}

async function latencyOnce({ label, contestant }) {
  await inFreshDatabase(contestant, async (url) => {
    const rate = contestant === dovetail ? {} : { rate: 20 };
    const answer = await contestant.call('latency', url, { seconds: size.latency, ...rate });
    for (const sample of answer.samples) note('latency', label, sample);
  });
}

function removeSqlite() {
  for (const suffix of ['', '-wal', '-shm', '-journal', '-lock'])
    rmSync(sqliteFile + suffix, { force: true });
}

const perSecond = (answer) => answer.messages / answer.seconds;
const sqliteUrl = `sqlite:${sqliteFile}`;
const sqliteSingle = (label, call) => async () =>
  note('SQLite single enqueue', label, perSecond(await call()));
const sqliteDrain = (label, batch) => async () => {
  // Batches of 1,000, like the raw program.
  const options = { messages: size.sqliteMessages, bulk: 1_000, keep: true };
  note(
    'SQLite bulk enqueue',
    'Dovetail',
    perSecond(await dovetail.call('bulk', sqliteUrl, options)),
  );
  note(
    'SQLite drain',
    label,
    perSecond(await dovetail.call('drain', sqliteUrl, { ...options, preloaded: true, batch })),
  );
};
const sqlites = [
  // Alternate the programs, because the speed of the disk varies.
  ...Array.from({ length: size.sqliteTurns }, () => [
    {
      label: 'single',
      run: sqliteSingle('raw, one fsync each', () =>
        rawSqlite.call('single', sqliteFile, { seconds: size.single }),
      ),
    },
    {
      label: 'single, 8 threads',
      run: sqliteSingle('Dovetail, 8 threads', () =>
        dovetail.call('single', sqliteUrl, { connections: 8, seconds: size.single }),
      ),
    },
  ]).flat(),
  {
    label: 'single, 1 thread',
    once: true,
    run: sqliteSingle('Dovetail, 1 thread', () =>
      dovetail.call('single', sqliteUrl, { connections: 1, seconds: size.single }),
    ),
  },
  {
    label: 'raw drain',
    run: async () => {
      const options = { messages: size.sqliteMessages };
      note(
        'SQLite bulk enqueue',
        'raw, batches of 1,000',
        perSecond(await rawSqlite.call('bulk', sqliteFile, options)),
      );
      note(
        'SQLite drain',
        'raw, batches of 1,000, history',
        perSecond(await rawSqlite.call('drain', sqliteFile, { ...options, history: 1 })),
      );
    },
  },
  { label: 'drain', run: sqliteDrain('Dovetail', best_batch) },
  {
    label: 'drain, default batch',
    once: true,
    run: sqliteDrain('Dovetail, default batch', default_batch),
  },
];

const turned = (list, by) => [...list.slice(by % list.length), ...list.slice(0, by % list.length)];
const wanted = (block) => !only || block.includes(only);

const listeners = singles.filter((each) => each.contestant !== pgq && !each.options && !each.again);
const blocks = [
  { name: 'drain', list: drains, shift: 5, work: drainOnce },
  { name: 'single enqueue', list: singles, shift: 2, work: singleOnce },
  { name: 'single enqueue, callers', list: callers, shift: 0, work: callersOnce },
  { name: 'SQLite', list: sqlites, shift: 4, work: (each) => (removeSqlite(), each.run()) },
  { name: 'latency', list: listeners, shift: 1, work: latencyOnce },
  ...streamBlocks({ dovetail, graphile, pgboss, size, best_batch, inFreshDatabase, note }),
  ...eventBlocks({ simple, programs, size, inFreshDatabase, withCosts, note }),
].filter((block) => wanted(block.name.toLowerCase()));

async function runBlock({ name, list, shift, work }, round) {
  for (const each of turned(
    list.filter((one) => round === 0 || !one.once),
    round * shift,
  )) {
    await attempt(`round ${round + 1}: ${name}, ${each.label}`, () => work(each));
  }
  removeSqlite();
}

// --- measures that run once

const claimPages = [];
let snapshotRatio;
const idleCost = new Map();

async function measureClaims() {
  await inFreshDatabase(dovetail, async (url) => {
    const answer = JSON.parse(
      await run(`${programs}/dovetail`, ['bench', 'claims', '--database', url, '--json']),
    );
    for (const each of answer)
      claimPages.push({
        waiting: each.waiting,
        pages: each.pages,
        milliseconds: each.milliseconds,
      });
  });
}

async function measureSnapshot() {
  await inFreshDatabase(dovetail, (url) =>
    inFreshDatabase(dovetail, async (beside) => {
      snapshotRatio = await dovetail.call('snapshot', url, { seconds: size.snapshot, beside });
    }),
  );
}

/// The number of statements in the server's log. It contains every statement of these databases,
/// with the name of the database.
const statementsLogged = (database) =>
  (
    readFileSync(`${cluster}/log`, 'utf8').match(
      new RegExp(`^${database}:LOG: {2}(execute|statement)`, 'gm'),
    ) ?? []
  ).length;

/// CPU seconds of the server's processes that work for a database.
function cpuOf(database) {
  let sum = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(` ${database} `)) continue;
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      sum += stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(11, 13)
        .reduce((all, each) => all + Number(each), 0);
    } catch {
      // the process has ended
    }
  }
  return sum / 100;
}

async function measureIdle({ label, contestant }) {
  await inFreshDatabase(contestant, async (url) => {
    const database = url.slice(url.lastIndexOf('/') + 1);
    // Wait until polls are rare. Dovetail waits as long as it measures.
    const settle = size.idle + 2;
    await psql(server, `alter database ${database} set log_statement = 'all'`);
    const seconds = contestant === dovetail ? settle : 2 * settle;
    const running = contestant.call('idle', url, { seconds });
    await new Promise((resolve) => setTimeout(resolve, (settle + 1) * 1000));
    const [statements, cpu] = [statementsLogged(database), cpuOf(database)];
    await new Promise((resolve) => setTimeout(resolve, size.idle * 1000));
    const counted = {
      statements: (statementsLogged(database) - statements) / size.idle,
      server: (cpuOf(database) - cpu) / size.idle,
    };
    const answer = await running;
    idleCost.set(label, {
      ...counted,
      client: answer.cpu_share ?? answer.client_cpu_seconds / answer.seconds,
    });
  });
}

// --- the report

const thousands = (number) => Math.round(number).toLocaleString('en-US');
const rate = (number) => (number === undefined ? '-' : thousands(number));

function printTable(title, headings, rows) {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column].length)),
  );
  const line = (cells) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
      )
      .join('  ');
  console.log(`\n${title}\n${line(headings)}`);
  for (const row of rows) console.log(line(row));
}

function printMeasure(measure, reference, unit = 'messages/s') {
  const row = samples.get(measure);
  if (!row) return;
  const base = median(row.get(reference));
  const rows = [...row.keys()]
    .sort((a, b) => median(row.get(b)) - median(row.get(a)))
    .map((name) => {
      const here = median(row.get(name));
      const cpu = value(`${measure}: server CPU`, name);
      const wal = value(`${measure}: WAL`, name);
      return [
        name,
        rate(here),
        base ? `${(here / base).toFixed(2)}×` : '-',
        cpu === undefined ? '-' : cpu.toFixed(1),
        wal === undefined ? '-' : thousands(wal),
        `${row.get(name).length}`,
      ];
    });
  printTable(
    `${measure} (medians)`,
    ['', unit, `of ${reference}`, 'server CPU µs', 'WAL bytes', 'runs'],
    rows,
  );
}

function latencyOf(name) {
  const list = samples.get('latency')?.get(name);
  return (
    list && {
      p50: percentile(list, 0.5),
      p95: percentile(list, 0.95),
      p99: percentile(list, 0.99),
      samples: list.length,
    }
  );
}

/// The goals: [name, measured value, limit].
function goals() {
  const ratio = (measure, ours, theirs) => {
    const [a, b] = [value(measure, ours), value(measure, theirs)];
    return a !== undefined && b !== undefined ? a / b : undefined;
  };
  const list = [];
  const atLeast = (what, number, least) =>
    number !== undefined &&
    list.push({ what, number, goal: `≥ ${least}`, reached: number >= least });
  const below = (what, number, most) =>
    number !== undefined &&
    most !== undefined &&
    list.push({ what, number, goal: `< ${most.toFixed(2)}`, reached: number < most });
  const rawBulk =
    Math.max(...['raw COPY', 'raw unnest'].map((name) => value('bulk enqueue', name) ?? 0)) ||
    undefined;
  const ourBulk = value('bulk enqueue', 'Dovetail');
  atLeast(
    'drain with history / Graphile Worker (keeps none)',
    ratio('drain', 'Dovetail', 'Graphile Worker'),
    1.3,
  );
  atLeast('drain with history / pg-boss', ratio('drain', 'Dovetail', 'pg-boss'), 2.5);
  atLeast(
    'drain with history / raw with history',
    ratio('drain', 'Dovetail', 'raw, history'),
    0.75,
  );
  atLeast(
    'drain with history, default batch / raw, same batch',
    ratio('drain', 'Dovetail, default batch', 'raw, history, default batch'),
    0.75,
  );
  atLeast(
    'drain without history / Graphile Worker',
    ratio('drain', 'Dovetail, no history', 'Graphile Worker'),
    1.5,
  );
  atLeast(
    'drain without history / raw fused',
    ratio('drain', 'Dovetail, no history', 'raw, fused, deleted'),
    0.75,
  );
  atLeast(
    'bulk enqueue / Graphile Worker',
    ratio('bulk enqueue', 'Dovetail', 'Graphile Worker'),
    2,
  );
  atLeast('bulk enqueue / the faster raw way', rawBulk && ourBulk / rawBulk, 0.7);
  atLeast(
    'single enqueue, 8 connections / Graphile Worker',
    ratio('single enqueue, 8 connections', 'Dovetail', 'Graphile Worker'),
    3,
  );
  atLeast(
    'single enqueue, 8 connections / raw without NOTIFY',
    ratio('single enqueue, 8 connections', 'Dovetail', 'raw'),
    0.8,
  );
  for (const [count, least] of [
    [8, 1.1],
    [64, 3],
    [256, 5],
  ]) {
    atLeast(
      `single enqueue, ${count} callers / raw`,
      ratio('single enqueue, callers', `Dovetail, ${count} callers`, rawCallers.label),
      least,
    );
  }
  const ours = latencyOf('Dovetail');
  for (const peer of ['Graphile Worker', 'pg-boss']) {
    const theirs = latencyOf(peer);
    if (!ours || !theirs) continue;
    below(`latency p50, ms / ${peer}`, ours.p50, theirs.p50);
    below(`latency p99, ms / ${peer}`, ours.p99, theirs.p99);
  }
  if (claimPages.length)
    below(
      'pages per claim, 1 million / 1 thousand waiting',
      claimPages.at(-1).pages / claimPages[0].pages,
      1.1,
    );
  atLeast('rate with an old snapshot / without', snapshotRatio?.ratio, 0.9);
  atLeast(
    'SQLite single enqueue, 8 threads / one fsync each',
    ratio('SQLite single enqueue', 'Dovetail, 8 threads', 'raw, one fsync each'),
    5,
  );
  atLeast(
    'SQLite drain / raw, batches of 1,000',
    ratio('SQLite drain', 'Dovetail', 'raw, batches of 1,000, history'),
    0.6,
  );
  streamGoals({ ratio, value, atLeast });
  eventGoals({ ratio, samples, percentile, atLeast, below });
  const idle = idleCost.get('Dovetail');
  below('idle, statements/s', idle?.statements, 3);
  below('idle, client and server, % of a core', idle && 100 * (idle.client + idle.server), 1);
  return list;
}

function report(reached) {
  printMeasure('drain', 'Dovetail');
  printMeasure('bulk enqueue', 'Dovetail');
  printMeasure('single enqueue, 1 connection', 'Dovetail');
  printMeasure('single enqueue, 8 connections', 'Dovetail');
  printMeasure('single enqueue, callers', rawCallers.label);
  const listeners = [...(samples.get('latency')?.keys() ?? [])];
  if (listeners.length) {
    printTable(
      'latency at 20 messages a second, enqueue to handler, ms',
      ['', 'p50', 'p95', 'p99', 'samples'],
      listeners.map((name) => [
        name,
        ...['p50', 'p95', 'p99'].map((share) => latencyOf(name)[share].toFixed(2)),
        `${latencyOf(name).samples}`,
      ]),
    );
  }
  if (claimPages.length) {
    printTable(
      'a claim of 50',
      ['waiting', 'pages', 'ms'],
      claimPages.map((each) => [
        thousands(each.waiting),
        `${each.pages}`,
        each.milliseconds.toFixed(2),
      ]),
    );
  }
  if (snapshotRatio) {
    printTable(
      `enqueue and drain together; an old snapshot is held for ${size.snapshot} s`,
      ['', 'messages/s'],
      [
        ['without', rate(snapshotRatio.clean_per_second)],
        ['with', rate(snapshotRatio.per_second)],
      ],
    );
  }
  printMeasure('SQLite single enqueue', 'raw, one fsync each');
  printMeasure('SQLite bulk enqueue', 'raw, batches of 1,000');
  printMeasure('SQLite drain', 'raw, batches of 1,000, history');
  for (const measure of streamMeasures) printMeasure(measure, 'Dovetail');
  printDisorder({ samples, median, printTable });
  for (const count of [1, 10]) printMeasure(appendOf(count), 'raw', 'appends/s');
  printMeasure(catchUpMeasure, 'raw', 'events/s');
  if (idleCost.size) {
    printTable(
      'idle',
      ['', 'statements/s', 'client CPU, % of a core', 'server CPU, %'],
      [...idleCost].map(([name, cost]) => [
        name,
        cost.statements.toFixed(2),
        (cost.client * 100).toFixed(2),
        (cost.server * 100).toFixed(2),
      ]),
    );
  }
  printTable(
    quick ? 'goals (of the full run; in a quick run, the start has more weight)' : 'goals',
    ['', 'measured', 'goal', ''],
    reached.map((each) => [
      each.what,
      each.number.toFixed(2),
      each.goal,
      each.reached ? 'reached' : 'NOT REACHED',
    ]),
  );
}

if (!existsSync(`${programs}/dovetail`))
  throw new Error(`${programs}/dovetail is missing: call ./bench/compare`);
const once =
  (wanted('snapshot') ? size.snapshot + 15 : 0) +
  (wanted('claims') ? 15 : 0) +
  (wanted('idle') ? 2 * size.idle + 10 : 0);
// The first round runs all blocks. Later rounds skip blocks that exceed the time limit.
for (let round = 0; round < size.rounds; ++round) {
  for (const block of blocks) {
    const before = elapsed();
    if (round > 0 && before + block.took + once > size.budget) continue;
    await runBlock(block, round);
    block.took = Math.max(block.took ?? 0, elapsed() - before);
    block.rounds = round + 1;
  }
}
if (wanted('claims')) await attempt('claims with a long backlog', measureClaims);
if (wanted('snapshot')) await attempt('an old snapshot is held', measureSnapshot);
if (wanted('idle')) {
  // Idle programs do not disturb each other, so they run together.
  const idlers = listeners.filter((one) => one.contestant !== raw);
  await Promise.all(idlers.map((each) => attempt(`idle: ${each.label}`, () => measureIdle(each))));
}
say('');
const reached = goals();
report(reached);
const answer = {
  settings: {
    ...size,
    rounds: Object.fromEntries(blocks.map((block) => [block.name, block.rounds])),
    default_batch,
    best_batch,
    elapsed_seconds: elapsed(),
  },
  failures,
  medians: Object.fromEntries(
    [...samples]
      .filter(([measure]) => !measure.includes('latency'))
      .map(([measure, row]) => [
        measure,
        Object.fromEntries([...row].map(([name, list]) => [name, median(list)])),
      ]),
  ),
  latency: Object.fromEntries(
    [...(samples.get('latency')?.keys() ?? [])].map((name) => [name, latencyOf(name)]),
  ),
  claims: claimPages,
  snapshot: snapshotRatio,
  idle: Object.fromEntries(idleCost),
  goals: reached,
  samples: Object.fromEntries(
    [...samples].map(([measure, row]) => [measure, Object.fromEntries(row)]),
  ),
};
mkdirSync('build/compare', { recursive: true });
writeFileSync('build/compare/compare.json', JSON.stringify(answer, null, 1));
const svg = chart(answer);
writeFileSync('build/compare/compare.svg', svg);
if (publish) writeFileSync('docs/performance.svg', svg);
for (const each of failures) console.log(`\nFAILED ${each}`);
if (failures.length) process.exitCode = 1;
console.log(`\n${elapsed().toFixed(0)} s; build/compare/compare.json, build/compare/compare.svg`);
