// Servers with data, and a browser that watches what pages do.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const { DOVETAIL_COMMAND: command, DOVETAIL_SEED: seed, DOVETAIL_BROWSER: browserPath,
        DOVETAIL_BROWSER_PACKAGES: packages, DOVETAIL_ENGINE: engine,
        DOVETAIL_TEST_POSTGRES: cluster } = process.env;
const require = createRequire(join(packages, 'node_modules', 'index.js'));
const { chromium } = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

function run(program, ...options) {
  const result = spawnSync(program, options, { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`${program} ${options}: ${result.stderr}`);
  return result.stdout.trim();
}

// A new database of the engine. Returns its URL.
function newDatabase(folder) {
  if (engine === 'sqlite') return `sqlite:${join(folder, 'shop.db')}`;
  const name = `browser_${process.pid}`;
  run('psql', '-q', '-X', '-v', 'ON_ERROR_STOP=1', '-c', `create database ${name}`, cluster);
  return cluster.replace(/\/[^/]*$/, `/${name}`);
}

// Starts `dovetail server` on a free port. Resolves to {url, stop}.
function serve(options) {
  const child = spawn(command, ['server', '--port', '0', ...options]);
  return new Promise((resolve, reject) => {
    let text = '';
    child.stderr.on('data', (data) => {
      text += data;
      const found = text.match(/ at (http:\S+) until/);
      if (found) resolve({ url: found[1], stop: () => child.kill('SIGTERM') });
    });
    child.on('exit', (code) => reject(new Error(`dovetail server ended with ${code}: ${text}`)));
  });
}

const passwords = { vera: 'viewer', otto: 'operator', anna: 'admin' };

// Users with the names above; the password of each one is its role.
function configuration(folder) {
  const file = join(folder, 'dovetail.toml');
  const users = Object.entries(passwords).map(([name, role]) => `[auth.users.${name}]
role = "${role}"
password_hash = "${run('openssl', 'passwd', '-6', role)}"
`);
  writeFileSync(file, users.join('\n'));
  return file;
}

// Everything that the tests need: an open server, one with users under a path, a read-only one.
export async function start() {
  const folder = mkdtempSync(join(tmpdir(), 'dovetail-browser-'));
  const database = newDatabase(folder);
  run(seed, database);
  const common = ['-d', database];
  const servers = await Promise.all([
    serve(common),
    serve([...common, '--config', configuration(folder), '--base-path', '/ops/dovetail']),
    serve([...common, '--read-only']),
  ]);
  const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
  const stop = async () => {
    await browser.close();
    for (const server of servers) server.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  const [open, guarded, readOnly] = servers.map(({ url }) => url);
  return { open, guarded, readOnly, browser, stop, database };
}

// A page whose mistakes are collected in `page.mistakes`: errors of the console, requests to other
// hosts, violations of the policy. Errors of `allowed` statuses are expected.
export async function openPage(browser, base, options = {}) {
  const { allowed = [], ...more } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.mistakes = [];
  const origin = new URL(base).origin;
  page.on('request', (request) => {
    const address = request.url();
    if (!address.startsWith(origin) && !address.startsWith('data:'))
      page.mistakes.push(`a request to ${address}`);
  });
  page.on('pageerror', (error) => page.mistakes.push(error.message));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() !== 'error' || allowed.some((status) => text.includes(status))) return;
    page.mistakes.push(`${text} ${message.location().url}`);
  });
  page.see = async (path) => {
    await page.goto(base + path);
    await ready(page);
  };
  return page;
}

// Waits until the page shows its data.
export async function ready(page) {
  await page.waitForSelector('h1');
  await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'));
}

// The serious findings of axe, of all rules or of some.
export async function findings(page, rules = []) {
  await page.evaluate(axeSource);  // not a script element, which the policy forbids
  const options = { resultTypes: ['violations'], ...(rules.length ? { runOnly: rules } : {}) };
  const { violations } = await page.evaluate((chosen) => window.axe.run(document, chosen), options);
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(' ')}`);
}

export { engine };
