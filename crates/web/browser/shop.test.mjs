// @ts-check
// What a shop's customers expect of a sale's page: one button all the way, dates, a reminder, and their money.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, assertFits, cancelOrder, launch, person, picture, says, until } from
  "./stage.mjs";

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

const later = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();

test("one button leads from the reminder to the paid order, and stays where it is", async () => {
  const unit_price = { amount: 299_900, currency: "CNY" };
  const id = await service.sale({ unit_price, starts_at: later(3_600_000), ends_at: later(86_400_000) });
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  const { page } = ann;
  await page.goto(`/s/${id}`);
  await says(page, "#buy", "Notify me");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#buy")]);
  assert.match(file.suggestedFilename(), /\.ics$/);
  await says(page, "#buy", "Starts in 59:");
  await says(page, "#outcome", "Reminder saved");
  const top = async () => (await page.locator("#buy").boundingBox())?.y;
  const place = await top();
  await service.call("PATCH", `/v1/sales/${id}`, { starts_at: later(1_000) });
  await says(page, "#buy", "Buy now");
  await page.route("**/orders", async (route) => {
    await new Promise((done) => setTimeout(done, 300));
    await route.continue();
  });
  await page.click("#buy");
  await says(page, "#buy", "Placing your order");
  await says(page, "#buy", "Pay ¥2,999.00 · 1");
  assert.match((await page.textContent("#buy")) ?? "", /^Pay ¥2,999\.00 · 1[45]:\d\d$/);
  assert.equal(await top(), place);
  await assertFits(page);
  await page.click("#buy");
  await until(async () => (await page.textContent("#buy")) === "Paid");
  assert.equal(await page.isDisabled("#buy"), true);
  assert.equal(await page.locator(".order .pay:visible").count(), 0);
  await assertAccessible(page);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a second press of Buy does not pay", async () => {
  const id = await service.sale({});
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto(`/s/${id}`);
  let paid = 0;
  await page.route("**/sandbox/payments", (route) => {
    paid += 1;
    return route.continue();
  });
  await page.waitForSelector("#buy:not([disabled])");
  await page.evaluate(async () => {
    const buy = /** @type {HTMLButtonElement} */ (document.querySelector("#buy"));
    buy.click();
    while (!buy.textContent?.startsWith("Pay")) await new Promise((done) => requestAnimationFrame(done));
    buy.click();
  });
  await page.waitForSelector("#buy[data-deed=pay]");
  assert.equal(paid, 0);
  await ann.context.close();
});

test("the date stands beside the countdown, and the reminder has it", async () => {
  const starts_at = "2030-11-30T12:00:00Z";
  const title = `Pan, 28 cm; ${"a very long name ".repeat(5)}`;
  const id = await service.sale({ title, starts_at, ends_at: "2030-12-01T12:00:00Z" });
  for (const [timezoneId, locale, words] of [["Asia/Shanghai", "en", "Starts Sat 30 Nov 2030, 20:00 (UTC+8)"],
    ["Asia/Kolkata", "en", "17:30 (UTC+5:30)"], ["Asia/Shanghai", "zh-CN", "2030年11月30日周六 20:00 (UTC+8) 开抢"]]) {
    const ann = await person(browser, service, "ann", { timezoneId, locale });
    const { page } = ann;
    await page.goto(`/s/${id}`);
    await says(page, "#when", words);
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("#remind")]);
    const text = readFileSync(await file.path(), "utf8");
    const lines = text.replaceAll("\r\n ", "").split("\r\n");
    assert.ok(text.split("\r\n").every((line) => Buffer.byteLength(line) <= 75), text);
    for (const line of ["DTSTART:20301130T120000Z", `URL:${service.url}/s/${id}`, "TRIGGER:-PT5M"]) {
      assert.ok(lines.includes(line), text);
    }
    assert.match(text, /^BEGIN:VCALENDAR\r\nVERSION:2\.0\r\n[^]*END:VCALENDAR\r\n$/);
    assert.match(lines.join("\n"), /SUMMARY:Pan\\, 28 cm\\; a very/);
    assert.deepEqual(ann.faults, []);
    await ann.context.close();
  }
});

test("a user with a Chinese name signs in, buys, pays and finds the order", async () => {
  const id = await service.sale({ title: "Tea" });
  const ming = await person(browser, service, "小明");
  const { page } = ming;
  await page.goto(`/s/${id}`);
  await page.click("#buy");
  await says(page, "#buy", "Pay ");
  await page.click(".order .pay:not([hidden]), #buy");
  await says(page, ".order .hold", "Paid");
  const [order] = (await service.call("GET", `/v1/sales/${id}/orders`)).data;
  assert.equal(order.user, "小明");
  for (const path of ["/orders", "/balance", "/packets", "/"]) {
    const answer = await page.goto(path);
    assert.equal(answer?.status(), 200, path);
  }
  await page.goto("/orders");
  await says(page, "main", "Tea");
  assert.deepEqual(ming.faults, []);
  await ming.context.close();
});

test("some units of a held order are cancelled, and the rest is paid", async () => {
  const id = await service.sale({ title: "Cups", stock: 3, per_user_limit: 3 });
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto(`/s/${id}`);
  await page.fill("#quantity", "3");
  await page.click("#buy");
  await says(page, ".order .yours", "Yours: 3");
  await says(page, ".order .amount", "¥15.00");
  await page.click(".order .cancel");
  assert.equal(await page.inputValue("#sure-units"), "3");
  await assertAccessible(page);
  // More than there are: the browser says so, and nothing happens.
  await page.fill("#sure-units", "4");
  await page.click("#sure-yes");
  assert.ok(await page.isVisible("#sure"));
  await page.fill("#sure-units", "1");
  await page.click("#sure-yes");
  await says(page, "#outcome", "1 cancelled. 2 left in this order.");
  await says(page, ".order .yours", "Yours: 2");
  await says(page, ".order .amount", "¥10.00");
  const state = async () => service.call("GET", `/v1/campaigns/${id}/state`);
  await until(async () => (await state()).remaining === 1);
  await page.click(".order .pay:not([hidden]), #buy");
  await says(page, ".order .hold", "Paid");
  const [order] = (await service.call("GET", `/v1/sales/${id}/orders`)).data;
  assert.deepEqual([order.state, order.quantity, order.amount.amount], ["paid", 2, 1_000]);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("an order has a picture, a number and a date, and is cancelled only after a question", async () => {
  const id = await service.sale({ title: "Teapot", per_user_limit: 2 });
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto(`/s/${id}`);
  await says(page, ".photo svg:not([hidden]) text", "T");
  await page.click("#buy");
  await says(page, ".order .made", "Order no. 1 · ");
  assert.match((await page.textContent(".order .made")) ?? "", /\w{3} \d+ \w{3}, \d\d:\d\d \(UTC.*\)/);
  await says(page, ".order .thumb svg:not([hidden]) text", "T");
  await page.click(".order .cancel");
  await says(page, "#sure", "Cancel this order?");
  await assertAccessible(page);
  await page.keyboard.press("Escape");
  await page.waitForSelector("#sure", { state: "hidden" });
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).granted, 1);
  await cancelOrder(page);
  await says(page, "#outcome", "There’s nothing to pay");
  await until(async () => (await service.call("GET", `/v1/campaigns/${id}/state`)).granted === 0);
  // Another one can be bought before the first is paid.
  await page.click("#buy");
  await says(page, "#buy", "Pay ");
  await page.click("#another");
  await says(page, "#buy", "Buy now");
  await page.click("#buy");
  await until(async () => (await page.locator(".order[data-state=held]").count()) === 2);
  // The one button pays for the order whose time ends first; the other has its own.
  await until(async () => (await page.locator(".order .pay:visible").count()) === 1);
  await assertAccessible(page);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a refusal says what happened to the money", async () => {
  const id = await service.sale({});
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  for (const [status, slug, isSaid] of [[403, "order-check-refused", true], [503, "not-admitted", true],
    [503, "uncertain", false]]) {
    await page.goto(`/s/${id}`);
    await page.route("**/orders", (route) => route.fulfill({ status: Number(status),
      contentType: "application/problem+json", headers: { "Retry-After": "60" },
      body: JSON.stringify({ type: `/problems/${slug}`, title: "Refused" }) }));
    await page.click("#buy");
    await says(page, "#outcome", isSaid ? "You haven’t been charged." : "charged twice");
    await page.unroute("**/orders");
  }
  await page.goto(`/s/${id}`);
  await page.route("**/sandbox/payments", (route) => route.fulfill({ status: 409,
    contentType: "application/problem+json",
    body: JSON.stringify({ type: "/problems/forbidden", title: "Refused" }) }));
  await page.click("#buy");
  await page.click("#buy[data-deed=pay]");
  await says(page, "#outcome", "haven’t been charged. Your order is still held");
  await ann.context.close();
});

test("a sale that is sold out shows that nothing was sold twice", async () => {
  const id = await service.sale({ stock: 2, per_user_limit: 2 });
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/s/${id}`);
  await ann.page.waitForSelector("#buy:not([disabled])");
  assert.equal(await ann.page.isVisible("#tally"), false);
  for (const user of ["bob", "cid"]) {
    await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 }, await service.tokenOf(user));
  }
  await says(ann.page, "#tally", "2 sold, 0 oversold");
  await says(ann.page, "#outcome", "Keep this page open");
  await picture(ann.page, "sale-tally");
  await assertAccessible(ann.page);
  await ann.context.close();
});

test("a sale that is sold out leads to others: of its product, of its seller, then any", async () => {
  const money = { amount: 7_700, currency: "CNY" };
  const gone = await service.sale({ title: "Lamp, first round", stock: 1, product_id: "lamp" });
  const round = await service.sale({ title: "Lamp, second round", product_id: "lamp", unit_price: money,
    starts_at: later(3_600_000), ends_at: later(86_400_000) });
  await service.sale({ title: "Empty", stock: 1, product_id: "lamp", per_user_limit: 1 })
    .then(async (id) => service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 }, await service.tokenOf("bob")));
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  const { page } = ann;
  await page.goto(`/s/${gone}`);
  await page.waitForSelector("#buy:not([disabled])");
  assert.equal(await page.locator("#related").count(), 0);
  await service.call("POST", `/v1/sales/${gone}/orders`, { quantity: 1 }, await service.tokenOf("bob"));
  await says(page, "#buy", "Sold out");
  /** @type {Set<string>} */
  const asked = new Set();
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    // The numbers are no part of the page.
    if (!/\/events$|\/state$|icon\.svg$/.test(pathname)) asked.add(pathname);
  });
  // The list of open sales is read every five seconds, and follows the ledger.
  await until(async () => {
    asked.clear();
    await page.reload();
    return (await page.locator("#related b").allTextContents())[0] === "Lamp, second round";
  });
  assert.ok(asked.size <= 3, [...asked].join(" "));
  const titles = await page.locator("#related b").allTextContents();
  assert.ok(titles.length <= 4 && !titles.includes("Empty") && !titles.includes("Lamp, first round"), titles.join());
  await says(page, "#related li .price", "¥77.00");
  await says(page, "#related li .clock", "Starts ");
  await assertFits(page);
  await assertAccessible(page);
  await picture(page, "sale-related");
  await page.click("#related a");
  await page.waitForURL(`**/s/${round}`);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("further pictures are swiped through, and a list price shows what is saved", async () => {
  const { origin } = new URL(service.url);
  const { pathname } = new URL(await (await fetch(`${origin}/`)).text().then((text) =>
    text.match(/\/assets\/[^"]+icon\.svg/)?.[0] ?? ""), origin);
  const id = await service.sale({ title: "Kettle", image_url: pathname, gallery: [pathname, "/assets/0/no-such.png"],
    unit_price: { amount: 9_900, currency: "CNY" }, list_price: { amount: 12_900, currency: "CNY" } });
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  const { page } = ann;
  await page.goto(`/s/${id}`);
  await says(page, ".was s", "¥129.00");
  await says(page, ".was b", "Save ¥30.00");
  const photo = page.locator(".product .photo");
  assert.equal(await photo.getAttribute("role"), "region");
  await assertFits(page);
  await assertAccessible(page);
  await picture(page, "sale-gallery");
  const scrolled = () => photo.evaluate((it) => it.scrollLeft);
  await photo.focus();
  await page.keyboard.press("ArrowRight");
  await until(async () => (await scrolled()) > 0);
  // A further picture that does not load goes, and the first one stays.
  await photo.evaluate((it) => it.scrollTo({ left: it.scrollWidth }));
  await until(async () => (await page.locator(".product .photo img").count()) === 2);
  assert.equal(await page.isVisible(".product .photo svg"), false);
  await page.click("#buy");
  await page.waitForSelector(".order .thumb img");
  assert.equal(await page.locator(".order .thumb img").count(), 1);
  // A price that was raised above the list price leaves nothing to save.
  await service.call("PATCH", `/v1/sales/${id}`, { unit_price: { amount: 12_900, currency: "CNY" } });
  await page.reload();
  await says(page, ".strip .price", "¥129.00");
  assert.equal(await page.locator(".was").count(), 0);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});
