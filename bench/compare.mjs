// The run behind ./bench/compare: contestants in rounds, each in a fresh database, their order turned from round to round.
// A contestant is a program that is told a command and a database, and prints one line of JSON.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { chart } from './compare_chart.mjs';

const quick = process.argv.includes('--quick');
const publish = process.argv.includes('--publish');
const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : '';

const server = process.env.DOVETAIL_TEST_POSTGRES;
const cluster = process.env.DOVETAIL_TEST_POSTGRES_DIR;
const sqliteFile = `${process.env.TMPDIR}/compare.db`;
const programs = 'build/bench';
const default_batch = 50; // WorkerOptions::batch_size
const best_batch = 1000;

const size = quick
  ? { rounds: 1, budget: 110, messages: 40_000, single: 1, latency: 2, snapshot: 4, idle: 3, sqliteMessages: 40_000 }
  : { rounds: 3, budget: 580, messages: 200_000, single: 2, latency: 6, snapshot: 60, idle: 8, sqliteMessages: 200_000 };

const started = Date.now();
const elapsed = () => (Date.now() - started) / 1000;

// --- running programs

function run(command, args, { tolerate = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0 || tolerate) resolve(out);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${code}: ${err.slice(-800)}`));
    });
  });
}

const psql = (url, sql) => run('psql', ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', url, '-c', sql]);
const urlOf = (database) => server.replace(/\/[^/]*$/, `/${database}`);

/// CPU seconds of the server since it was started: the live processes, and those that the postmaster has seen end.
function serverCpu() {
  const postmaster = readFileSync(`${cluster}/data/postmaster.pid`, 'utf8').split('\n')[0];
  const ticks = (pid, from, to) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(from, to).reduce((sum, each) => sum + Number(each), 0);
    } catch {
      return 0; // it has ended meanwhile
    }
  };
  let sum = ticks(postmaster, 11, 15); // its own user and system time, and that of its ended children
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      if (stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === postmaster) sum += ticks(pid, 11, 13);
    } catch {
      // it has ended meanwhile
    }
  }
  return sum / 100;
}

const walPosition = async () => Number(await psql(server, "select pg_current_wal_insert_lsn() - '0/0'"));

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
    const flags = Object.entries(options).flatMap(([key, value]) => (value === true ? [`--${key}`] : [`--${key}`, `${value}`]));
    const measure = what === 'single' ? 'enqueue' : what;
    return JSON.parse(await run(`${programs}/dovetail`, ['bench', measure, '--database', url, '--json', ...flags]))[0];
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

const percentile = (list, share) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(share * list.length))];
const value = (measure, contestant) => median(samples.get(measure)?.get(contestant));

let databases = 0;
/// Calls `body(url)` with a new database, and drops that.
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

/// Measures what `body` costs the server, per message.
async function withCosts(measure, contestant, body) {
  const settled = () => new Promise((resolve) => setTimeout(resolve, 100)); // backends that ended are counted by then
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
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K[${elapsed().toFixed(0)} s] ${text}`);
}

// --- the blocks of a round. Each is a list of [name, work]; the order is turned from round to round.

const drains = [
  { label: 'Dovetail, default batch', contestant: dovetail, options: { batch: default_batch } },
  { label: 'Dovetail', contestant: dovetail, options: { batch: best_batch } },
  { label: 'Dovetail, no history', contestant: dovetail, options: { batch: best_batch, 'no-history': true } },
  { label: 'Graphile Worker', contestant: graphile },
  { label: 'pg-boss', contestant: pgboss },
  { label: 'PgQ', contestant: pgq },
  { label: 'raw, history, default batch', contestant: raw, options: { how: 'history', batch: default_batch } },
  { label: 'raw, history', contestant: raw, options: { how: 'history', batch: best_batch } },
  { label: 'raw, fused, deleted', contestant: raw, options: { how: 'fused', batch: best_batch } },
  { label: 'raw, locked and deleted', contestant: raw, options: { how: 'delete', batch: best_batch } },
];

async function drainOnce({ label, contestant, options = {} }, round) {
  const ours = contestant === dovetail;
  await inFreshDatabase(contestant, async (url) => {
    const messages = size.messages;
    // Raw inserts both ways, by turns.
    const bulkLabel = contestant === raw ? (drains.findIndex((each) => each.label === label) + round) % 2 ? 'raw COPY' : 'raw unnest' : contestant.name;
    const bulkOptions = ours ? { messages, keep: true } : contestant === raw ? { messages, how: bulkLabel.split(' ')[1].toLowerCase() } : { messages };
    await withCosts('bulk enqueue', bulkLabel, () => contestant.call('bulk', url, bulkOptions));
    const drainOptions = ours ? { messages, keep: true, preloaded: true, ...options } : { messages, ...options };
    await withCosts('drain', label, () => contestant.call('drain', url, drainOptions));
  });
}

const singles = [
  { label: 'Dovetail', contestant: dovetail },
  { label: 'Graphile Worker', contestant: graphile },
  { label: 'pg-boss', contestant: pgboss },
  { label: 'PgQ', contestant: pgq },
  { label: 'raw', contestant: raw },
  { label: 'raw with NOTIFY', contestant: raw, options: { notify: 1 } },
];

async function singleOnce({ label, contestant, options = {} }) {
  await inFreshDatabase(contestant, async (url) => {
    for (const connections of [1, 8]) {
      const keep = contestant === dovetail && connections === 1 ? { keep: true } : contestant === dovetail ? { keep: true, preloaded: true } : {};
      const measure = `single enqueue, ${connections} connection${connections > 1 ? 's' : ''}`;
      await withCosts(measure, label, () => contestant.call('single', url, { connections, seconds: size.single, ...options, ...keep }));
    }
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
  for (const suffix of ['', '-wal', '-shm', '-journal', '.lock']) rmSync(sqliteFile + suffix, { force: true });
}

async function sqliteOnce() {
  const messages = size.sqliteMessages;
  const url = `sqlite:${sqliteFile}`;
  const perSecond = (answer) => answer.messages / answer.seconds;
  const steps = [
    async () => note('SQLite single enqueue', 'raw, one fsync each', perSecond(await rawSqlite.call('single', sqliteFile, { seconds: size.single }))),
    async () => note('SQLite single enqueue', 'Dovetail, 1 thread', perSecond(await dovetail.call('single', url, { connections: 1, seconds: size.single }))),
    async () => note('SQLite single enqueue', 'Dovetail, 8 threads', perSecond(await dovetail.call('single', url, { connections: 8, seconds: size.single }))),
    async () => {
      note('SQLite bulk enqueue', 'raw, batches of 1,000', perSecond(await rawSqlite.call('bulk', sqliteFile, { messages })));
      note('SQLite drain', 'raw, batches of 1,000, history', perSecond(await rawSqlite.call('drain', sqliteFile, { messages, history: 1 })));
    },
    async () => {
      note('SQLite bulk enqueue', 'Dovetail', perSecond(await dovetail.call('bulk', url, { messages, keep: true })));
      note('SQLite drain', 'Dovetail', perSecond(await dovetail.call('drain', url, { messages, keep: true, preloaded: true, batch: best_batch })));
    },
    async () => {
      await dovetail.call('bulk', url, { messages, keep: true });
      note('SQLite drain', 'Dovetail, default batch', perSecond(await dovetail.call('drain', url, { messages, keep: true, preloaded: true, batch: default_batch })));
    },
  ];
  for (const step of steps) {
    removeSqlite();
    await step();
  }
  removeSqlite();
}

const turned = (list, by) => [...list.slice(by % list.length), ...list.slice(0, by % list.length)];
const wanted = (block) => !only || block.includes(only);

async function round(number) {
  for (const each of wanted('drain') ? turned(drains, number * 3) : []) {
    say(`round ${number + 1}: drain, ${each.label}`);
    await drainOnce(each, number);
  }
  for (const each of wanted('enqueue') ? turned(singles, number * 2) : []) {
    say(`round ${number + 1}: single enqueue, ${each.label}`);
    await singleOnce(each);
  }
  const listeners = singles.filter((each) => each.contestant !== pgq && !each.options);
  for (const each of wanted('latency') ? turned(listeners, number) : []) {
    say(`round ${number + 1}: latency, ${each.label}`);
    await latencyOnce(each);
  }
  if (wanted('sqlite')) {
    say(`round ${number + 1}: SQLite`);
    await sqliteOnce();
  }
}

// --- what is measured once

const claimPages = [];
let snapshotRatio;
const idleCost = new Map();

async function measureClaims() {
  say('claims with a long backlog');
  await inFreshDatabase(dovetail, async (url) => {
    const answer = JSON.parse(await run(`${programs}/dovetail`, ['bench', 'claims', '--database', url, '--json']));
    for (const each of answer) claimPages.push({ waiting: each.waiting, pages: each.pages, milliseconds: each.milliseconds });
  });
}

async function measureSnapshot() {
  say('an old snapshot is held');
  await inFreshDatabase(dovetail, async (url) => {
    snapshotRatio = await dovetail.call('snapshot', url, { seconds: size.snapshot, batch: 200 });
  });
}

async function measureIdle({ label, contestant }) {
  say(`idle: ${label}`);
  await inFreshDatabase(contestant, async (url) => {
    // Ours measures itself; of the others, we look at the last seconds of a longer run.
    if (contestant === dovetail) {
      const answer = await contestant.call('idle', url, { seconds: size.idle });
      idleCost.set(label, { transactions: answer.transactions_per_second, cpu: answer.cpu_share });
      return;
    }
    const name = url.slice(url.lastIndexOf('/') + 1);
    const transactions = async () => Number(await psql(server, `select xact_commit + xact_rollback from pg_stat_database where datname = '${name}'`));
    const settle = 4;
    const running = contestant.call('idle', url, { seconds: settle + size.idle + 3 });
    await new Promise((resolve) => setTimeout(resolve, settle * 1000));
    const before = await transactions();
    await new Promise((resolve) => setTimeout(resolve, size.idle * 1000));
    const after = await transactions();
    const answer = await running;
    idleCost.set(label, { transactions: (after - before) / size.idle, cpu: answer.client_cpu_seconds / answer.seconds });
  });
}

// --- the answer

const thousands = (number) => Math.round(number).toLocaleString('en-US');
const rate = (number) => (number === undefined ? '-' : thousands(number));

function printTable(title, headings, rows) {
  const widths = headings.map((heading, column) => Math.max(heading.length, ...rows.map((row) => row[column].length)));
  const line = (cells) => cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]))).join('  ');
  console.log(`\n${title}\n${line(headings)}`);
  for (const row of rows) console.log(line(row));
}

function printMeasure(measure, reference, unit = 'messages/s') {
  const row = samples.get(measure);
  if (!row) return;
  const base = median(row.get(reference));
  const rows = [...row.keys()].sort((a, b) => median(row.get(b)) - median(row.get(a))).map((name) => {
    const here = median(row.get(name));
    const cpu = value(`${measure}: server CPU`, name);
    const wal = value(`${measure}: WAL`, name);
    return [name, rate(here), base ? `${(here / base).toFixed(2)}×` : '-', cpu === undefined ? '-' : cpu.toFixed(1), wal === undefined ? '-' : thousands(wal), `${row.get(name).length}`];
  });
  printTable(`${measure} (medians)`, ['', unit, `of ${reference}`, 'server CPU µs', 'WAL bytes', 'runs'], rows);
}

function latencyOf(name) {
  const list = samples.get('latency')?.get(name);
  return list && { p50: percentile(list, 0.5), p95: percentile(list, 0.95), p99: percentile(list, 0.99), samples: list.length };
}

/// The bars we set ourselves: [what, measured, the least or most it may be].
function bars() {
  const ratio = (measure, ours, theirs) => {
    const [a, b] = [value(measure, ours), value(measure, theirs)];
    return a !== undefined && b !== undefined ? a / b : undefined;
  };
  const list = [];
  const atLeast = (what, number, least) => number !== undefined && list.push({ what, number, bar: `≥ ${least}`, reached: number >= least });
  const below = (what, number, most) => number !== undefined && most !== undefined && list.push({ what, number, bar: `< ${most.toFixed(2)}`, reached: number < most });
  const rawBulk = Math.max(...['raw COPY', 'raw unnest'].map((name) => value('bulk enqueue', name) ?? 0)) || undefined;
  const ourBulk = value('bulk enqueue', 'Dovetail');
  atLeast('drain with history / Graphile Worker (keeps none)', ratio('drain', 'Dovetail', 'Graphile Worker'), 1.3);
  atLeast('drain with history / pg-boss', ratio('drain', 'Dovetail', 'pg-boss'), 2.5);
  atLeast('drain with history / raw with history', ratio('drain', 'Dovetail', 'raw, history'), 0.75);
  atLeast('drain with history, default batch / raw, same batch', ratio('drain', 'Dovetail, default batch', 'raw, history, default batch'), 0.75);
  atLeast('drain without history / Graphile Worker', ratio('drain', 'Dovetail, no history', 'Graphile Worker'), 1.5);
  atLeast('drain without history / raw fused', ratio('drain', 'Dovetail, no history', 'raw, fused, deleted'), 0.75);
  atLeast('bulk enqueue / Graphile Worker', ratio('bulk enqueue', 'Dovetail', 'Graphile Worker'), 2);
  atLeast('bulk enqueue / the faster raw way', rawBulk && ourBulk / rawBulk, 0.7);
  atLeast('single enqueue, 8 connections / Graphile Worker', ratio('single enqueue, 8 connections', 'Dovetail', 'Graphile Worker'), 3);
  atLeast('single enqueue, 8 connections / raw without NOTIFY', ratio('single enqueue, 8 connections', 'Dovetail', 'raw'), 0.8);
  const ours = latencyOf('Dovetail');
  for (const peer of ['Graphile Worker', 'pg-boss']) {
    const theirs = latencyOf(peer);
    if (!ours || !theirs) continue;
    below(`latency p50, ms / ${peer}`, ours.p50, theirs.p50);
    below(`latency p99, ms / ${peer}`, ours.p99, theirs.p99);
  }
  if (claimPages.length) below('pages per claim, 1 million / 1 thousand waiting', claimPages.at(-1).pages / claimPages[0].pages, 1.1);
  atLeast('rate with an old snapshot / without', snapshotRatio?.ratio, 0.9);
  atLeast('SQLite single enqueue, 8 threads / one fsync each', ratio('SQLite single enqueue', 'Dovetail, 8 threads', 'raw, one fsync each'), 5);
  atLeast('SQLite drain / raw, batches of 1,000', ratio('SQLite drain', 'Dovetail', 'raw, batches of 1,000, history'), 0.6);
  below('idle, transactions/s', idleCost.get('Dovetail')?.transactions, 3);
  return list;
}

function report(reached) {
  printMeasure('drain', 'Dovetail');
  printMeasure('bulk enqueue', 'Dovetail');
  printMeasure('single enqueue, 1 connection', 'Dovetail');
  printMeasure('single enqueue, 8 connections', 'Dovetail');
  const listeners = [...(samples.get('latency')?.keys() ?? [])];
  if (listeners.length) {
    printTable('latency at 20 messages a second, enqueue to handler, ms', ['', 'p50', 'p95', 'p99', 'samples'],
      listeners.map((name) => [name, ...['p50', 'p95', 'p99'].map((share) => latencyOf(name)[share].toFixed(2)), `${latencyOf(name).samples}`]));
  }
  if (claimPages.length) {
    printTable('a claim of 50', ['waiting', 'pages', 'ms'], claimPages.map((each) => [thousands(each.waiting), `${each.pages}`, each.milliseconds.toFixed(2)]));
  }
  if (snapshotRatio) {
    printTable(`enqueue and drain together; an old snapshot is held for ${2 * size.snapshot} s`, ['', 'messages/s'],
      [['without', rate(snapshotRatio.clean_per_second)], ['with', rate(snapshotRatio.per_second)]]);
  }
  printMeasure('SQLite single enqueue', 'raw, one fsync each');
  printMeasure('SQLite bulk enqueue', 'raw, batches of 1,000');
  printMeasure('SQLite drain', 'raw, batches of 1,000, history');
  if (idleCost.size) {
    printTable('idle', ['', 'transactions/s', 'client CPU, % of a core'],
      [...idleCost].map(([name, cost]) => [name, cost.transactions.toFixed(2), (cost.cpu * 100).toFixed(2)]));
  }
  printTable('bars', ['', 'measured', 'bar', ''], reached.map((each) => [each.what, each.number.toFixed(2), each.bar, each.reached ? 'reached' : 'NOT REACHED']));
}

if (!existsSync(`${programs}/dovetail`)) throw new Error(`${programs}/dovetail is missing: call ./bench/compare`);
let longest = 0;
const once = (wanted('snapshot') ? 3 * size.snapshot + 10 : 0) + (wanted('claims') ? 15 : 0) + (wanted('idle') ? 4 * size.idle + 12 : 0);
for (let number = 0; number < size.rounds; ++number) {
  if (number > 0 && elapsed() + longest + once > size.budget) break;
  const before = elapsed();
  await round(number);
  longest = Math.max(longest, elapsed() - before);
}
if (wanted('claims')) await measureClaims();
if (wanted('snapshot')) await measureSnapshot();
if (wanted('idle')) for (const each of singles.slice(0, 3)) await measureIdle(each);
say('');
const reached = bars();
report(reached);
const answer = {
  settings: { ...size, default_batch, best_batch, elapsed_seconds: elapsed() },
  medians: Object.fromEntries([...samples].filter(([measure]) => measure !== 'latency').map(([measure, row]) => [measure, Object.fromEntries([...row].map(([name, list]) => [name, median(list)]))])),
  latency: Object.fromEntries([...(samples.get('latency')?.keys() ?? [])].map((name) => [name, latencyOf(name)])),
  claims: claimPages,
  snapshot: snapshotRatio,
  idle: Object.fromEntries(idleCost),
  bars: reached,
  samples: Object.fromEntries([...samples].map(([measure, row]) => [measure, Object.fromEntries(row)])),
};
mkdirSync('build/compare', { recursive: true });
writeFileSync('build/compare/compare.json', JSON.stringify(answer, null, 1));
const svg = chart(answer);
writeFileSync('build/compare/compare.svg', svg);
if (publish) writeFileSync('docs/performance.svg', svg);
console.log(`\n${elapsed().toFixed(0)} s; build/compare/compare.json, build/compare/compare.svg`);
