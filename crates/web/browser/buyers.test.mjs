// @ts-check
// What buyers and senders have, in a browser: orders on every device, places in line, lists, and money to begin with.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Service, assertAccessible, cancelOrder, launch, person, picture, says, until } from "./stage.mjs";

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  // One user has more orders here than people make at once.
  service = await Service.start({ QIANG__LIMITS__CLAIMS_PER_USER_BURST: "100" });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** How many orders in a state a page shows. @param {import("playwright-core").Page} page @param {string} state */
const count = (page, state) => page.locator(`.order[data-state=${state}]`).count();

test("an order is there on every device: another one sees it, pays it, buys another and cancels that", async () => {
  const id = await service.sale({ stock: 5, per_user_limit: 2 });
  const [laptop, phone] = [await person(browser, service, "ann"), await person(browser, service, "ann")];
  await laptop.page.goto(`/s/${id}`);
  await says(laptop.page, "#limit", "Limit 2 per person");
  await laptop.page.click("#buy");
  await says(laptop.page, ".yours", "Yours: 1");
  await says(laptop.page, "#outcome", "You got it!");

  await phone.page.goto(`/s/${id}`);
  await says(phone.page, ".hold", "Pay within");
  await phone.page.click("#buy[data-deed=pay]");
  await says(phone.page, ".hold", "Paid");
  // One more may be had, and no more than one.
  await says(phone.page, "#buy", "Buy");
  assert.equal(await phone.page.isHidden("#quantity-line"), true);
  await phone.page.click("#buy");
  await until(async () => (await count(phone.page, "held")) === 1);
  assert.equal(await count(phone.page, "paid"), 1);
  await says(phone.page, "#buy", "Pay ¥5.00");

  await laptop.page.reload();
  await until(async () => (await count(laptop.page, "held")) === 1);
  await assertAccessible(laptop.page);
  await cancelOrder(laptop.page);
  await until(async () => (await count(laptop.page, "cancelled")) === 1);
  await says(laptop.page, "#outcome", "Cancelled");
  await says(laptop.page, "#numbers", "4 of 5 left");
  await says(laptop.page, "#buy", "Buy");
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).granted, 1);
  for (const one of [laptop, phone]) {
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

test("a page that does not know of an order yet hears of it when the limit is reached", async () => {
  const id = await service.sale({ stock: 5 });
  const [laptop, phone] = [await person(browser, service, "ann"), await person(browser, service, "ann")];
  for (const { page } of [laptop, phone]) await page.goto(`/s/${id}`);
  await laptop.page.click("#buy");
  await says(laptop.page, ".yours", "Yours: 1");
  await phone.page.click("#buy");
  await says(phone.page, ".hold", "Pay within");
  await says(phone.page, "#outcome", "reached the limit");
  for (const one of [laptop, phone]) await one.context.close();
});

test("the quantity stays within what is left of the limit", async () => {
  const id = await service.sale({ stock: 9, per_user_limit: 4 });
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/s/${id}`);
  await ann.page.fill("#quantity", "2");
  await ann.page.click("#buy");
  await says(ann.page, ".yours", "Yours: 2");
  await ann.page.click("#another");
  assert.equal(await ann.page.getAttribute("#quantity", "max"), "2");
  await ann.page.fill("#quantity", "4");
  await until(async () => (await ann.page.inputValue("#quantity")) === "2");
  await ann.page.click("#buy");
  await says(ann.page, "#buy", "Pay ¥10.00");
  await until(async () => (await count(ann.page, "held")) === 2);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a reload in line keeps the place, and what is granted out of it is there", async () => {
  const id = await service.sale({ stock: 5, waiting_room: true });
  // The line of a paused sale does not move: the test inserts the places of bob and ann.
  await service.call("POST", `/v1/campaigns/${id}/pause`, {});
  const script = "import sqlite3, sys\nconn = sqlite3.connect(sys.argv[1], timeout=10)\nid = sys.argv[2]\n"
    + "conn.execute('UPDATE waiting_rooms SET last = 2, waiting = 2 WHERE campaign = ?', (id,))\n"
    + "for n, user in ((1, 'bob'), (2, 'ann')):\n"
    + "    place = f'{n} 1700000000000 sale 1 key-{n}'\n"
    + "    conn.execute('INSERT INTO queue_entries (campaign, number, user, place) VALUES (?, ?, ?, ?)',\n"
    + "        (id, n, user, place))\nconn.commit()\n";
  execFileSync("python3", ["-c", script, join(service.folder, "qiang.db"), id]);
  const ann = await person(browser, service, "ann");
  for (let visit = 0; visit < 2; visit++) {
    await ann.page.goto(`/s/${id}`);
    await says(ann.page, "#buy", "In line: 1 ahead of you");
    await says(ann.page, "#outcome", "Your place is saved");
    assert.equal(await ann.page.isDisabled("#buy"), true);
  }
  await service.call("POST", `/v1/campaigns/${id}/resume`, {});
  await says(ann.page, ".yours", "Yours: 1");
  await ann.page.reload();
  await says(ann.page, ".hold", "Pay within");
  assert.equal(await ann.page.locator(".order").count(), 1);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("my orders: the sale, the state, the hold and where to pay, page by page", async () => {
  const id = await service.sale({ title: "Tickets", stock: 50, per_user_limit: 50 });
  for (let i = 0; i < 20; i++) await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 });
  const paid = await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 2 });
  const newest = await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 3 });
  await service.call("POST", `/v1/orders/${newest.id}/cancellation`);
  await service.call("POST", `/v1/orders/${paid.id}/payment`, { reference: "shop-1", amount: paid.amount });
  const alice = await person(browser, service, "alice");
  const { page } = alice;
  await page.click("a[href='/orders']");
  await until(async () => (await page.locator(".order").count()) === 20);
  assert.deepEqual([await count(page, "cancelled"), await count(page, "paid")], [1, 1]);
  assert.match((await page.textContent(".order")) ?? "", /Tickets\s*¥15\.00[^]*Quantity 3 · Cancelled/);
  const held = page.locator(".order[data-state=held]").first();
  // The page's script writes the time in the browser's zone once it has loaded.
  const payBy = /Awaiting payment[^]*Pay by\s*\w+ \d+, \d{4}, \d+:\d\d:\d\d/;
  await until(async () => payBy.test((await held.textContent()) ?? ""));
  await picture(page, "orders");
  await assertAccessible(page);
  await page.click(".more");
  await until(async () => (await page.locator(".order").count()) === 2);
  assert.equal(await page.locator(".more").count(), 0);
  await page.click(".order .pay");
  await page.waitForURL(`**/s/${id}`);
  assert.deepEqual(alice.faults, []);
  await alice.context.close();
  // No user sees the orders of another user.
  const ann = await person(browser, service, "ann-without-orders");
  await ann.page.goto("/orders");
  await says(ann.page, "main", "Nothing here yet.");
  await ann.context.close();
});

test("my red packets: those sent and those opened, with their titles, page by page", async () => {
  await service.deposit("alice", 100_000);
  const dora = await service.tokenOf("dora");
  const split = { rule: "equal" };
  for (let i = 1; i <= 22; i++) {
    const total = { amount: 200, currency: "CNY" };
    const packet = await service.call("POST", "/v1/red-packets", { title: `Luck ${i}`, total, shares: 2, split });
    await service.call("POST", `/v1/red-packets/${packet.id}/claims`, undefined, dora);
  }
  for (const [user, list] of [["alice", "sent"], ["dora", "opened"]]) {
    const one = await person(browser, service, user);
    await one.page.goto("/packets");
    const cards = one.page.locator(`#${list} .card`);
    await until(async () => (await cards.count()) === 20);
    const first = (await cards.first().textContent()) ?? "";
    assert.match(first, list === "sent" ? /Luck 22\s*1 of 2 left[^]*¥2\.00/ : /Luck 22\s*From alice[^]*¥1\.00/);
    await assertAccessible(one.page);
    await one.page.click(`#${list} .more`);
    await until(async () => (await cards.count()) === 2);
    assert.equal(await one.page.locator("main section").count(), 1, "the other list is not there twice");
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

test("the first minute: somebody without money puts some in, and sends", async () => {
  const newcomer = await person(browser, service, "newcomer");
  const { page } = newcomer;
  await picture(page, "home");
  await page.click("a[href='/send']");
  await says(page, "#balance", "¥0.00");
  await page.click("#send-button");
  await says(page, "#outcome", "Insufficient balance");
  // The answer is lost once, and the money comes once.
  let lost = 0;
  await page.route("**/sandbox/deposits", async (route) => {
    if (lost++ > 0) return route.continue();
    await route.fetch();
    await route.abort("connectionreset");
  });
  await page.click("#put-in");
  await says(page, "#outcome", "¥1,000.00 added to your balance");
  await says(page, "#balance", "¥1,000.00");
  assert.equal(lost, 2);
  await page.click("#send-button");
  await page.waitForSelector("#sent:not([hidden])");
  await page.click("#link");
  await page.click("#open");
  await says(page, "#outcome", "You got");
  assert.deepEqual(newcomer.faults, []);
  await newcomer.context.close();
});

test("nobody but who is signed in puts money in, and pages of other sites do not", async () => {
  const deposit = (/** @type {Record<string, string>} */ headers, type = "application/json") =>
    fetch(`${service.url}/sandbox/deposits`, { method: "POST", headers: { "Content-Type": type, ...headers },
      body: JSON.stringify({ amount: 100_000, currency: "CNY" }) });
  assert.equal((await deposit({})).status, 401);
  const cookie = `qiang=${await service.tokenOf("emma")}`;
  // A form of another site cannot send JSON.
  assert.equal((await deposit({ Cookie: cookie }, "text/plain")).status, 415);
  // The key names the deposit, so that a retry puts nothing in twice.
  assert.equal((await deposit({ Cookie: cookie })).status, 400);
  const named = { Cookie: cookie, "Idempotency-Key": "emma-1" };
  assert.deepEqual([(await deposit(named)).status, (await deposit(named)).status], [201, 200]);
  assert.equal((await service.call("GET", "/v1/accounts/emma", undefined, await service.tokenOf("emma")))
    .balances[0].available.amount, 100_000);
});
