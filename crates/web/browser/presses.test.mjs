// @ts-check
// Buttons that are pressed twice: one request, or requests with one key, and one effect.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, launch, person, says, until } from "./stage.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  service = await Service.start({ QIANG__LIMITS__READS_PER_USER_PER_SECOND: "0" });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** Records the keys of all changes that a page sends, by path. @param {Page} page */
const watchChanges = (page) => {
  /** @type {Map<string, string[]>} */
  const keys = new Map();
  page.on("request", (request) => {
    if (request.method() === "GET") return;
    const path = `${request.method()} ${new URL(request.url()).pathname}`;
    keys.set(path, [...keys.get(path) ?? [], request.headers()["idempotency-key"] ?? ""]);
  });
  return keys;
};

/** Presses a button twice, without a pause. @param {Page} page @param {string} button */
const press = async (page, button) => {
  await page.waitForSelector(`${button}:not([disabled])`);
  await page.evaluate((button) => {
    const found = /** @type {HTMLButtonElement} */ (document.querySelector(button));
    for (let i = 0; i < 2; i++) found.click();
  }, button);
};

/** Each of these changes was sent once, or with one key. @param {Map<string, string[]>} keys @param {string[]} paths */
const assertSentOnce = (keys, ...paths) => {
  for (const path of paths) {
    const sent = keys.get(path) ?? [];
    assert.equal(new Set(sent).size, 1, `${path}: ${[...keys.keys()]}`);
    assert.ok(sent.length === 1 || sent[0], `${path} has no key`);
  }
};

test("money is added and a packet sent once, however often it is pressed", async () => {
  const sam = await person(browser, service, "sam");
  const { page } = sam;
  const keys = watchChanges(page);
  await page.goto("/send");
  await press(page, "#put-in");
  await says(page, "#balance", "1,000.00");
  await page.fill("#amount", "8.88");
  await page.fill("#shares", "3");
  await press(page, "#send-button");
  await page.waitForSelector("#sent:not([hidden])");
  assertSentOnce(keys, "POST /sandbox/deposits", "POST /v1/red-packets");
  const { balances } = await service.call("GET", "/v1/accounts/sam");
  assert.equal(balances[0].available.amount, 100_000 - 888);
  assert.deepEqual(sam.faults, []);
  await sam.context.close();
});

test("an order is cancelled once, however often it is pressed", async () => {
  const id = await service.sale({ title: "Kite", stock: 5, per_user_limit: 3 });
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  const order = await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 }, await service.tokenOf("ann"));
  const keys = watchChanges(page);
  await page.goto(`/s/${id}`);
  await page.click(".order[data-state=held] .cancel");
  await press(page, "#sure-yes");
  await page.waitForSelector(".order[data-state=cancelled]");
  assertSentOnce(keys, `POST /v1/orders/${order.id}/cancellation`);
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).remaining, 5);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a sale is made, paused, resumed, changed and closed once, however often it is pressed", async () => {
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  const keys = watchChanges(page);
  await page.goto("/admin/sales/new");
  await page.fill("#title", "Pressed twice");
  await page.fill("#price", "5");
  await press(page, "#create");
  await page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}/);
  assertSentOnce(keys, "POST /v1/sales");
  const id = new URL(page.url()).pathname.split("/").at(-1);
  await says(page, "#phase", "live");
  await press(page, "#pause");
  await says(page, "#phase", "paused");
  await press(page, "#resume");
  await says(page, "#phase", "live");
  await page.fill("#stock", "7");
  await press(page, "#change");
  await says(page, "#supply", "7");
  await page.click("#close");
  await press(page, "#close-yes");
  await says(page, "#phase", "closed");
  const campaign = `/v1/campaigns/${id}`;
  assertSentOnce(keys, `POST ${campaign}/pause`, `POST ${campaign}/resume`, `PATCH /v1/sales/${id}`,
    `POST ${campaign}/close`);
  const { data } = await service.call("GET", `/v1/operation-log?subject=${id}`);
  assert.equal(data.length, 5, JSON.stringify(data));
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("an order is returned and refunded once, however often it is pressed", async () => {
  const id = await service.sale({ title: "Lamps", stock: 9, per_user_limit: 5 });
  const order = await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 3 }, await service.tokenOf("rich"));
  await service.call("POST", `/v1/orders/${order.id}/payment`, { reference: "bank-78", amount: order.amount });
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  const keys = watchChanges(page);
  await page.goto("/admin/lookup");
  await page.selectOption("#by", "payment");
  await page.fill("#wanted", "bank-78");
  await page.keyboard.press("Enter");
  await page.click("[data-deed=return]");
  await page.fill("#units", "1");
  await press(page, "#confirm-yes");
  await says(page, "#figures", "3 units, 1 returned");
  await page.click("[data-deed=refund]");
  await page.fill("#reference", "bank-back-2");
  await press(page, "#confirm-yes");
  await until(async () => (await service.call("GET", `/v1/orders/${order.id}/refunds`)).refunded.amount > 0);
  assertSentOnce(keys, `POST /v1/orders/${order.id}/return`, `POST /v1/orders/${order.id}/refunds`);
  const { due, refunded } = await service.call("GET", `/v1/orders/${order.id}/refunds`);
  assert.deepEqual([due.amount, refunded.amount], [500, 500]);
  assert.equal((await service.call("GET", `/v1/orders/${order.id}`)).returned_quantity, 1);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});
