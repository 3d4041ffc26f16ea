// @ts-check
// The desk as a product: a table with figures, orders by state, and actions that ask first.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, assertFits, launch, person, picture, says, until } from "./stage.mjs";

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

/** An order of a user. @param {string} sale @param {string} user @param {number} [quantity] */
const buy = async (sale, user, quantity = 1) =>
  service.call("POST", `/v1/sales/${sale}/orders`, { quantity }, await service.tokenOf(user));

/** @param {any} order @param {string} reference */
const pay = (order, reference) =>
  service.call("POST", `/v1/orders/${order.id}/payment`, { reference, amount: order.amount });

test("campaigns are a table with figures above, and are sorted by their columns", async () => {
  const [cheap, dear] = [await service.sale({ title: "A teapot", stock: 4 }),
    await service.sale({ title: "B kettle", stock: 2, unit_price: { amount: 10_000, currency: "CNY" } })];
  await service.sale({ title: "C cup", starts_at: "2030-01-01T00:00:00Z", ends_at: "2030-01-02T00:00:00Z" });
  await buy(cheap, "ann");
  await buy(dear, "ann");
  const olga = await person(browser, service, "olga", { role: "operator", viewport: { width: 1_280, height: 800 } });
  const { page } = olga;
  await page.goto("/admin");
  // The list has settled numbers.
  await until(async () => {
    await page.click("#search button");
    return /Units sold\s*2/.test((await page.textContent("#sums")) ?? "");
  });
  await says(page, "#sums", "Live now2");
  await says(page, "#sums", "Coming up1");
  await says(page, "#sums", "¥105.00");
  const titles = () => page.locator("#campaigns b").allTextContents();
  assert.equal((await titles())[0], "C cup");
  const sorted = async (/** @type {string} */ by) => {
    await page.click(`.sort[data-by=${by}]`);
    return (await titles()).map((title) => title[0]).join("");
  };
  assert.equal(await sorted("title"), "ABC");
  assert.equal(await sorted("title"), "CBA");
  assert.equal(await sorted("sold"), "BAC");
  assert.equal(await page.getAttribute("th:has(.sort[data-by=sold])", "aria-sort"), "descending");
  assert.equal(await sorted("value"), "BAC");
  const row = (await page.textContent("#campaigns tr")) ?? "";
  assert.match(row, /B kettle.*alice.*live.*UTC.*1 of 2.*¥100\.00/);
  await assertAccessible(page);
  await picture(page, "desk");
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
  const phone = await person(browser, service, "olga", { ...PHONE, locale: "en", role: "operator" });
  await phone.page.goto("/admin");
  await phone.page.waitForSelector("#campaigns tr");
  await assertFits(phone.page);
  await phone.context.close();
});

test("a campaign shows its orders by state, and red is for the close alone", async () => {
  const id = await service.sale({ title: "Phones", stock: 9, hold_seconds: 2, per_user_limit: 2 });
  const late = await buy(id, "late");
  await pay(await buy(id, "ann", 2), "bank-1");
  const olga = await person(browser, service, "olga", { role: "operator", viewport: { width: 1_280, height: 900 } });
  const { page } = olga;
  await page.goto(`/admin/sales/${id}`);
  await says(page, "[data-stage=paid]", "1 · ¥10.00");
  await says(page, "#revenue", "Paid: ¥10.00");
  await until(async () => (await service.call("GET", `/v1/orders/${late.id}`)).state === "expired");
  await says(page, "[data-stage=expired]", "1 · ¥5.00");
  assert.deepEqual(await page.locator(".danger:visible").evaluateAll((all) => all.map((it) => it.id)), ["close"]);
  // The actions are in reach wherever the page is scrolled to.
  const box = await page.locator("#pause").boundingBox();
  assert.ok(box && box.y + box.height <= 900, JSON.stringify(box));
  await assertAccessible(page);
  await page.click("#duplicate");
  await page.waitForURL("**/admin/sales/new#from=*");
  await says(page, "#outcome", "Copied from “Phones”");
  assert.deepEqual(await Promise.all(["title", "stock", "price", "limit"].map((it) => page.inputValue(`#${it}`))),
    ["Phones", "9", "5.00", "2"]);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("a new sale has a preview and a named time zone", async () => {
  const olga = await person(browser, service, "olga", { role: "operator", timezoneId: "Asia/Shanghai" });
  const { page } = olga;
  await page.goto("/admin/sales/new");
  await says(page, ".zone", "Times are in Asia/Shanghai (UTC+8).");
  await page.fill("#title", "teapot");
  await page.fill("#price", "1234.5");
  await page.fill("#starts", "2030-11-30T20:00");
  await page.fill("#limit", "2");
  await says(page, "#peek .face", "T");
  await says(page, "#peek .tag", "¥1,234.50");
  await says(page, "#peek .when", "Starts Sat 30 Nov 2030, 20:00 (UTC+8)");
  await says(page, "#peek .more", "100 units · limit 2 per person");
  await page.fill("#price", "1.234");
  await says(page, "#peek .tag", "–");
  await page.fill("#picture", "/assets/0/icon.svg");
  await page.waitForSelector("#peek img");
  await assertAccessible(page);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("an order is found by its payment, returned in part, refunded and paid, each after a question", async () => {
  const id = await service.sale({ title: "Lamps", stock: 9, per_user_limit: 5 });
  const paid = await buy(id, "rich", 3);
  await pay(paid, "bank-77");
  const held = await buy(id, "poor", 2);
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  await page.goto("/admin/lookup");
  await page.selectOption("#by", "payment");
  await page.fill("#wanted", "bank-77");
  await page.keyboard.press("Enter");
  await says(page, "#subject", paid.id);
  await page.click("[data-deed=return]");
  await says(page, "#confirm", "Return units of this order?");
  await page.fill("#units", "4");
  await page.click("#confirm-yes");
  await says(page, "#units-bad", "1 to the units");
  await assertAccessible(page);
  await page.fill("#units", "2");
  await page.click("#confirm-yes");
  await says(page, "#figures", "3 units, 2 returned");
  await says(page, "#figures", "¥10.00");
  await page.click("[data-deed=refund]");
  assert.equal(await page.inputValue("#money"), "10.00");
  await page.fill("#money", "4.00");
  await page.fill("#reference", "bank-back-1");
  await page.click("#confirm-yes");
  await says(page, "#outcome", "Done.");
  await until(async () => {
    const { due, refunded } = await service.call("GET", `/v1/orders/${paid.id}/refunds`);
    return due.amount === 1_000 && refunded.amount === 400;
  });
  assert.equal((await service.call("GET", `/v1/orders/${paid.id}`)).returned_quantity, 2);
  // The rest is offered next.
  await page.click("[data-deed=refund]");
  assert.equal(await page.inputValue("#money"), "6.00");
  await page.click("#confirm-no");
  // A held order: no answer is no payment twice.
  await page.selectOption("#by", "id");
  await page.fill("#wanted", held.id);
  await page.click("#lookup .main");
  await says(page, "#figures", "held");
  assert.equal(await page.isVisible("[data-deed=return]"), false);
  await page.click("[data-deed=cancel]");
  await says(page, "#confirm", "can’t be undone");
  assert.equal(await page.inputValue("#units"), "2");
  await page.click("#confirm-no");
  assert.equal((await service.call("GET", `/v1/orders/${held.id}`)).state, "held");
  // Some of its units.
  await page.click("[data-deed=cancel]");
  await page.fill("#units", "1");
  await page.click("#confirm-yes");
  await says(page, "#outcome", "Done.");
  const { state, quantity } = await service.call("GET", `/v1/orders/${held.id}`);
  assert.deepEqual([state, quantity], ["held", 1]);
  await says(page, "#figures", "held");
  await page.click("[data-deed=payment]");
  await page.fill("#reference", "bank-78");
  await page.click("#confirm-yes");
  await says(page, "#figures", "paid");
  await picture(page, "desk-order");
  await assertAccessible(page);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
  // Without the scope, the desk says which one it needs.
  const olga = await person(browser, service, "olga", { role: "operator" });
  await olga.page.goto("/admin/lookup");
  const other = await buy(id, "late");
  await olga.page.fill("#wanted", other.id);
  await olga.page.keyboard.press("Enter");
  await says(olga.page, "#deeds-note", "You need the scope pay");
  assert.equal(await olga.page.isDisabled("[data-deed=payment]"), true);
  await olga.context.close();
});

test("a red packet is sent from the desk", async () => {
  await service.deposit("olga", 10_000);
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/admin/packets/new");
  await says(page, "#balance", "¥100.00");
  await page.fill("#total", "0.05");
  await page.click("#create");
  await says(page, "#total-bad", "per share");
  await page.fill("#total", "50.00");
  await page.fill("#passphrase", "sesame");
  await page.selectOption("#draws", "sender");
  await assertAccessible(page);
  await page.click("#create");
  await page.waitForURL(/\/admin\/packets\/[0-9a-f-]{36}$/);
  const packet = await service.call("GET", `/v1/red-packets/${page.url().split("/").pop()}`);
  assert.deepEqual([packet.total.amount, packet.shares, packet.audience, packet.draws],
    [5_000, 10, "passphrase", "sender"]);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("the whole life of a campaign is drawn from its grants and payments", async () => {
  const id = await service.sale({ title: "Kettle", stock: 20 });
  const orders = [];
  for (const user of ["ann", "bob", "cid", "dan"]) orders.push(await buy(id, user));
  await pay(orders[1], "life-1");
  const olga = await person(browser, service, "olga", { role: "operator", viewport: { width: 1_280, height: 800 } });
  const { page } = olga;
  await page.goto(`/admin/sales/${id}`);
  await says(page, "#life-words", "4 orders, half of them by");
  await says(page, "#life-words", "1 paid.");
  // One step up for each grant, and the line continues until now.
  const steps = async (/** @type {string} */ name) =>
    ((await page.getAttribute(`#life .${name}`, "d")) ?? "").match(/V/g)?.length ?? 0;
  assert.deepEqual([await steps("granted"), await steps("paid")], [4, 1]);
  assert.match((await page.getAttribute("#life .granted", "d")) ?? "", /H300$/);
  assert.equal(await page.textContent("#life-note"), "");
  // A later grant is drawn soon.
  await buy(id, "eve");
  await until(async () => (await steps("granted")) === 5);
  await assertAccessible(page);
  await picture(page, "desk-life");
  assert.deepEqual(olga.faults, []);
  await olga.context.close();

  // A sample stands for all: its payments are an estimate, and the page says so.
  const one = await person(browser, service, "olga", { role: "operator", locale: "zh-TW" });
  const at = (/** @type {number} */ s) => new Date(Date.now() - 60_000 + 1_000 * s).toISOString();
  const points = [1, 2, 3, 4].map((n) =>
    ({ number: 1_000 * n, created_at: at(n), paid_at: n % 2 ? at(n + 9) : undefined }));
  await one.page.route("**/grant-timeline", (route) => route.fulfill({ json: { campaign: id, last_number: 4_000,
    sampled: true, points, settled: true } }));
  await one.page.goto(`/admin/sales/${id}`);
  await says(one.page, "#life-words", "共 4,000 筆訂單");
  await says(one.page, "#life-words", "已付款 2,000 筆");
  await says(one.page, "#life-note", "4 個等距樣本");
  await one.context.close();

  // A seller sees the life of the own sales, and a campaign without grants says so.
  const seller = await person(browser, service, "sally", { role: "seller" });
  await seller.page.goto("/admin/sales/new");
  await seller.page.fill("#title", "Cup");
  await seller.page.click("#create");
  await seller.page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}$/);
  await says(seller.page, "#life-words", "Nothing granted yet.");
  assert.deepEqual(seller.faults, []);
  await seller.context.close();
});

test("pictures and a list price are part of a new sale", async () => {
  const sally = await person(browser, service, "sally", { role: "seller" });
  const { page } = sally;
  await page.goto("/admin/sales/new");
  await page.fill("#title", "Kettle");
  await page.fill("#list", "99.00");
  await page.fill("#gallery", "/b.png\nftp://x");
  await page.click("#create");
  await says(page, "#list-bad", "above the unit price");
  await says(page, "#gallery-bad", "up to 8 URLs");
  await page.fill("#list", "129.00");
  await page.fill("#gallery", "/b.png\nhttps://cdn.example/c.png\n");
  await page.click("#create");
  await page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}$/);
  const sale = await service.call("GET", `/v1/sales/${page.url().split("/").pop()}`);
  assert.deepEqual([sale.list_price.amount, sale.gallery], [12_900, ["/b.png", "https://cdn.example/c.png"]]);
  // A copy has them too.
  await page.click("#duplicate");
  await says(page, "#outcome", "Copied from");
  assert.equal(await page.inputValue("#list"), "129.00");
  assert.equal(await page.inputValue("#gallery"), "/b.png\nhttps://cdn.example/c.png");
  assert.deepEqual(sally.faults, []);
  await sally.context.close();
});
