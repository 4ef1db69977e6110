// A person's ways through the dashboard.
//
// DOVETAIL_SCREENSHOTS=DIR also writes pictures of some pages.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { engine, findings, openPage, ready, start } from './support.mjs';

let world;
before(async () => { world = await start(); });
after(async () => { await world?.stop(); });

const api = async (path, base = world.open) => (await fetch(`${base}/api/v1${path}`)).json();
const button = (page, name) => page.getByRole('button', { name, exact: true });
const link = (page, name) => page.getByRole('link', { name, exact: true });
const table = (page, name) => page.getByRole('table', { name });
const picture = async (page, name) => {
  const folder = process.env.DOVETAIL_SCREENSHOTS;
  if (folder) await page.screenshot({ path: `${folder}/${name}.png` });
};

// Each page, something that it must show, and whether axe looks at it.
const pages = [
  ['/', 'Overview', 'Busiest topics'],
  ['/queues/outbox', 'Queue outbox', 'invoice.print'],
  ['/queues/inbox', 'Queue inbox', 'payment.received'],
  ['/messages', 'Messages', 'parcel.pack'],
  ['/messages?state=scheduled', 'Messages', 'digest.send'],
  ['/dead-letters', 'Dead letters', 'the card was declined'],
  ['/dead-letters?view=list', 'Dead letters', 'the card was declined'],
  ['/dead-letters?queue=inbox', 'Dead letters', 'not a payment'],
  ['/joins', 'Joins', 'customer-7'],
  ['/streams', 'Streams', 'order-42'],
  ['/timers', 'Timers', 'reminder.send'],
  ['/jobs', 'Jobs', 'nightly-cleanup'],
  ['/jobs/nightly-cleanup', 'nightly-cleanup', 'Europe/Berlin'],
  ['/fanouts', 'Fan-outs', 'etl.tenant'],
  ['/fanouts/etl.tenant', 'etl.tenant', 'acme'],
  ['/event-streams', 'Event streams', 'order-1'],
  ['/event-streams/order-1', 'order-1', 'OrderPaid'],
  ['/subscriptions', 'Subscriptions', 'warehouse'],
  ['/subscriptions/warehouse', 'warehouse', 'no such shelf'],
  ['/instances', 'Instances', 'Topics that nobody handles'],
  ['/leases', 'Leases', 'nightly-report'],
  ['/databases', 'Databases', 'in use'],
  ['/audit', 'Audit', 'ada'],
  ['/no/such/page', 'No such page', 'Choose one of the list'],
];

for (const colorScheme of ['light', 'dark']) {
  test(`every page shows its data, and axe finds nothing serious (${colorScheme})`, async () => {
    const page = await openPage(world.browser, world.open, { colorScheme });
    for (const [path, title, text] of pages) {
      await page.see(path);
      assert.equal(await page.locator('h1').innerText(), title, path);
      await page.locator('main').getByText(text).first().waitFor();
      const rules = colorScheme === 'dark' ? ['color-contrast'] : [];
      assert.deepEqual(await findings(page, rules), [], path);
    }
    assert.deepEqual(page.mistakes, []);
    await page.context().close();
  });
}

test('no page is wider than a phone', async () => {
  const page = await openPage(world.browser, world.open, { viewport: { width: 375, height: 700 } });
  for (const [path] of pages) {
    await page.see(path);
    const over = await page.evaluate(() =>
      document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(over <= 0, `${path} is ${over} px too wide`);
  }
  await button(page, 'Pages').click();
  await link(page, 'Timers').click();
  await page.getByRole('heading', { name: 'Timers' }).waitFor();
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('the licenses of the packages are shown', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/');
  const address = await link(page, 'Licenses').getAttribute('href');
  const text = await (await fetch(address)).text();
  for (const name of ['preact', 'htm', 'uplot', '@dagrejs/dagre']) assert.ok(text.includes(name));
  assert.ok(text.includes('Permission is hereby granted'));
  await page.context().close();
});

test('a message shows its error, what it belongs to, and its payload on request', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/messages?topic=mail.send');
  await page.locator('.row-link').first().click();
  await page.getByRole('heading', { name: 'mail.send', level: 1 }).waitFor();
  assert.equal(await page.getByText('hunter2').count(), 0);
  await button(page, 'Show the payload').click();
  await page.locator('pre', { hasText: '[redacted]' }).waitFor();
  await page.getByRole('link', { name: /^customer-/ }).click();
  await page.waitForURL(/correlation_id=customer-/);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('the timeline of a message has every failed attempt', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/messages?topic=report.render&state=failed');
  await page.locator('.row-link').first().click();
  const steps = page.locator('.timeline li');
  await steps.filter({ hasText: 'Attempt 1 failed' }).getByText('no renderer answered').waitFor();
  await steps.filter({ hasText: 'Attempt 2 failed' }).getByText('HTTP 502').waitFor();
  assert.match(await steps.last().innerText(), /^Failed: a dead letter/);
  await picture(page, 'message');
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('a failed join is found, and its failed step opened from the graph', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/joins?status=failed&grouping_key=customer-7');
  await page.locator('.row-link').first().click();
  const graph = page.getByRole('group', { name: 'Graph of the join' });
  await graph.getByText('failed: 3 of 3 ended').waitFor();
  await graph.getByRole('link', { name: /^etl.failed/ }).waitFor();
  await picture(page, 'join');
  assert.deepEqual(await findings(page), []);
  await graph.getByRole('link', { name: 'etl.extract, failed' }).click();
  await page.locator('pre', { hasText: 'the table products is locked' }).waitFor();
  await page.getByRole('link', { name: /^[0-9a-f-]{36}$/ }).click();  // back to its join
  await graph.waitFor();
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('a filtered set of dead letters is previewed, replayed with a rate, and audited', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/dead-letters');
  await picture(page, 'dead-letters');
  await link(page, 'the card was declined').click();
  await page.waitForURL(/error=the\+card/);
  await button(page, 'Replay all that match…').click();
  const dialog = page.getByRole('dialog', { name: 'Replay dead letters' });
  await dialog.getByText('24').first().waitFor();
  await dialog.getByLabel('At most').fill('20');
  await dialog.getByLabel('Per second').fill('1000');
  assert.deepEqual(await findings(page), []);
  await picture(page, 'replay');
  await button(dialog, 'Replay 20').click();
  await table(page, 'Replays and purges').getByText('done').or(
    table(page, 'Replays and purges').getByText('finished')).or(
    table(page, 'Replays and purges').getByText('completed')).first().waitFor();
  const letters = await api('/dead-letters?topic=payment.book');
  assert.equal(letters.dead_letters.length, 4);
  await page.see('/audit');
  await table(page, 'Audit').getByText('dead_letters.start_replay').first().waitFor();
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('selected dead letters are purged after a question', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/dead-letters?view=list&topic=report.render');
  const boxes = page.locator('tbody input[type=checkbox]');
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  const bar = page.getByRole('region', { name: 'Selected dead letters' });
  await button(bar, 'Purge').click();
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await button(bar, 'Purge').click();
  await button(page.getByRole('dialog'), 'Purge 2').click();
  await page.getByText('2 dead letters purged.').waitFor();
  assert.equal((await api('/dead-letters?topic=report.render')).dead_letters.length, 3);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('a job is triggered, disabled and enabled', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/jobs/nightly-cleanup');
  const runs = (await api('/jobs/nightly-cleanup/runs')).runs.length;
  await button(page, 'Run now').click();
  await page.getByText('nightly-cleanup runs.').waitFor();
  await button(page, 'Disable').click();
  await button(page.getByRole('dialog'), 'Disable').click();
  await page.getByText('The job is disabled.').waitFor();
  await button(page, 'Enable').click();
  await button(page, 'Disable').waitFor();
  assert.equal((await api('/jobs/nightly-cleanup/runs')).runs.length, runs + 1);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('topics, streams, subscriptions, timers and leases are operated', async () => {
  const page = await openPage(world.browser, world.open);
  await page.see('/queues/outbox');
  const paused = page.getByRole('region', { name: 'Paused topics' }).or(
    page.locator('section', { hasText: 'Paused topics' })).first();
  await button(paused, 'Resume').first().click();
  await page.getByText('invoice.print is resumed.').waitFor();
  await page.see('/streams?blocked=true');
  await button(page, 'Resume').click();
  await page.getByText('No stream is blocked').waitFor();
  await page.see('/subscriptions/invoices');
  await button(page, 'Pause').click();
  await button(page, 'Resume').waitFor();
  await page.see('/timers');
  await button(page, 'Cancel').first().click();
  await button(page.getByRole('dialog'), 'Cancel the timer').click();
  await page.getByText('The timer is cancelled.').waitFor();
  await page.see('/leases');
  await button(page, 'Release').click();
  await button(page.getByRole('dialog'), 'Release').click();
  await page.getByText('No lease is held').waitFor();
  const entries = (await api('/audit')).entries.map(({ action }) => action);
  for (const action of ['topic.resume', 'stream.resume', 'subscription.pause', 'timer.cancel',
    'lease.release']) assert.ok(entries.includes(action), action);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('keys search, move through a list, and go to pages', async () => {
  const page = await openPage(world.browser, world.open, { allowed: ['404'] });
  await page.see('/messages');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  const second = await page.locator('.row-link').nth(1).getAttribute('href');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('href')), second);
  await page.keyboard.press('/');
  await page.keyboard.type((await api('/joins')).joins[0].join_id);
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/joins\//);
  await ready(page);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  await page.waitForURL(/\/jobs$/);
  await page.reload();
  await ready(page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent),
    'Skip to the content');
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('the overview is live, and a tab has one event stream', async () => {
  const page = await openPage(world.browser, world.open);
  const streams = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/events')) streams.push(request.url());
  });
  await page.see('/');
  await page.getByText('Live', { exact: true }).waitFor();
  const ready = page.locator('.stat', { hasText: 'oldest' }).locator('.stat-value');
  const shown = Number(await ready.innerText());
  for (let i = 0; i < 5; i += 1) {
    await fetch(`${world.open}/api/v1/messages`, { method: 'POST',
      body: '{"topic":"nobody.listens"}', headers: { 'Content-Type': 'application/json' } });
  }
  await page.waitForFunction((number) => [...document.querySelectorAll('.stat-value')].some(
    (each) => Number(each.textContent) === number), shown + 5);
  await page.waitForFunction(() => document.querySelectorAll('.uplot').length === 4);
  await picture(page, 'overview');
  await link(page, 'Messages').click();
  await ready.waitFor({ state: 'detached' });
  assert.equal(streams.length, 1);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

async function logIn(page, name, password) {
  await page.getByLabel('User').fill(name);
  await page.getByLabel('Password').fill(password);
  await button(page, 'Log in').click();
}

test('under a path, a viewer logs in, sees data, and no controls', async () => {
  const page = await openPage(world.browser, world.guarded, { allowed: ['401'] });
  await page.goto(`${world.guarded}/dead-letters?view=list`);
  await logIn(page, 'vera', 'wrong');
  await page.getByText('the user name or the password is wrong').waitFor();
  assert.deepEqual(await findings(page), []);
  await logIn(page, 'vera', 'viewer');
  await page.getByText('the table products is locked').first().waitFor();
  assert.equal(await page.locator('input[type=checkbox]').count(), 0);
  assert.equal(await page.getByRole('button', { name: /Replay|Purge/ }).and(
    page.locator(':not(.tabs button)')).count(), 0);
  await page.locator('.row-link').first().click();
  await page.getByText('Payloads are shown to the roles operator and admin.').waitFor();
  for (const path of ['/jobs/backup', '/timers', '/leases', '/subscriptions/warehouse']) {
    await page.goto(world.guarded + path);
    await ready(page);
    assert.equal(await page.locator('main button').filter({ hasText:
      /Run now|Cancel|Release|Pause|Rebuild|Disable/ }).count(), 0, path);
  }
  await button(page, 'Log out').click();
  await page.getByLabel('User').waitFor();
  await logIn(page, 'otto', 'operator');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  assert.ok(page.url().startsWith(world.guarded));
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('a read-only server shows data and no controls', async () => {
  const page = await openPage(world.browser, world.readOnly);
  await page.see('/jobs/backup');
  await page.getByText('read-only').waitFor();
  assert.equal(await button(page, 'Run now').count(), 0);
  await page.see('/dead-letters?view=list');
  assert.equal(await page.locator('input[type=checkbox]').count(), 0);
  assert.deepEqual(page.mistakes, []);
  await page.context().close();
});

test('missing things and broken requests are explained', async () => {
  const page = await openPage(world.browser, world.open, { allowed: ['404', '400', '503'] });
  await page.see('/messages/01a1ed59-dbbf-7679-8848-664b1adf584a');
  await page.getByText('Not found').waitFor();
  await page.see('/messages?topic=none');
  await page.getByText('No message matches').waitFor();
  await page.route('**/api/v1/jobs', (route) => route.fulfill({ status: 503,
    contentType: 'application/problem+json', body: '{"detail":"the database is locked"}' }));
  await page.see('/jobs');
  await page.getByText('the database is locked').waitFor();
  await page.unroute('**/api/v1/jobs');
  await button(page, 'Try again').click();
  await page.getByText('nightly-cleanup').waitFor();
  assert.deepEqual(page.mistakes, [], engine);
  await page.context().close();
});
