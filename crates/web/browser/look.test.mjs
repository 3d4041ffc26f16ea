// @ts-check
// How pages look: pictures, light and dark, one way to write money, and how much comes over the line.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, assertAccessible, assertFits, launch, person, picture, says, until } from "./stage.mjs";

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  service = await Service.start();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** @param {object} [terms] */
async function packet(terms = {}) {
  await service.deposit("alice", 100_000);
  const total = { amount: 8_888, currency: "CNY" };
  const usual = { title: "恭喜发财", total, shares: 3, split: { rule: "double_average" } };
  return (await service.call("POST", "/v1/red-packets", { ...usual, ...terms })).id;
}

test("in the dark every page can be read", async () => {
  const [red, sale] = [await packet(), await service.sale({ title: "Camera", per_user_limit: 2 })];
  const ann = await person(browser, service, "ann", { colorScheme: "dark" });
  const { page } = ann;
  for (const path of ["/", "/send", `/p/${red}`, `/s/${sale}`, "/orders", "/packets", "/sign-in"]) {
    await page.goto(path);
    await assertAccessible(page);
    await assertFits(page);
  }
  await page.goto(`/p/${red}`);
  await page.click("#open");
  await says(page, "#outcome", "You got");
  await picture(page, "packet-dark");
  await assertAccessible(page);
  await page.goto(`/s/${sale}`);
  await page.click("#buy");
  await says(page, ".hold", "Pay within");
  await picture(page, "sale-dark");
  await assertAccessible(page);
  for (const path of ["/orders", "/packets"]) {
    await page.goto(path);
    await page.waitForSelector(path === "/orders" ? ".order" : ".card");
    await assertAccessible(page);
  }
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a packet and a sale in Chinese", async () => {
  const [red, sale] = [await packet(), await service.sale({ title: "限量手机", description: "售完即止。" })];
  const bo = await person(browser, service, "bo", { locale: "zh-CN" });
  await bo.page.goto(`/p/${red}`);
  await says(bo.page, "#open", "开");
  await picture(bo.page, "packet-chinese");
  await bo.page.goto(`/s/${sale}`);
  await says(bo.page, "#buy", "抢购");
  await picture(bo.page, "sale-chinese");
  await assertAccessible(bo.page);
  await bo.context.close();
});

test("where motion is unwelcome nothing moves", async () => {
  const red = await packet();
  const ann = await person(browser, service, "ann", { reducedMotion: "reduce" });
  await ann.page.goto(`/p/${red}`);
  await ann.page.click("#open");
  await says(ann.page, "#outcome", "You got");
  assert.equal(await ann.page.evaluate(() => document.getAnimations().length), 0);
  await ann.context.close();
});

test("the service and the browser write money in the same way", async () => {
  const ann = await person(browser, service, "ann");
  for (const [currency, amount, expected] of [["CNY", 500, "¥5.00"], ["CNY", 123_456_789, "¥1,234,567.89"],
    ["JPY", 1_234, "JP¥1,234"], ["KWD", 1_234, "KWD\u00a01.234"], ["EUR", 5, "€0.05"],
    ["CHF", 100_000, "CHF\u00a01,000.00"]]) {
    const id = await service.sale({ unit_price: { amount, currency } });
    await ann.page.goto(`/s/${id}`);
    assert.equal(await ann.page.textContent(".price"), expected);
    await ann.page.click("#buy");
    await says(ann.page, ".amount", String(expected));
    assert.equal(await ann.page.textContent(".amount"), expected);
  }
  await ann.context.close();
});

test("a packet with 100 draws and a sale with orders stay small", async () => {
  const red = await packet({ shares: 200, total: { amount: 88_888, currency: "CNY" } });
  for (let i = 0; i < 100; i++) {
    const token = await service.tokenOf(`a-user-with-a-long-name-${i}`);
    await service.call("POST", `/v1/red-packets/${red}/claims`, undefined, token);
  }
  const sale = await service.sale({ stock: 50, per_user_limit: 50 });
  const ann = await person(browser, service, "ann");
  const token = await service.tokenOf("ann");
  for (let i = 0; i < 10; i++) await service.call("POST", `/v1/sales/${sale}/orders`, { quantity: 1 }, token);
  for (const [path, lines, count] of [[`/p/${red}`, "#draws li", 100], [`/s/${sale}`, ".order", 10]]) {
    const page = await ann.context.newPage();
    /** @type {Map<string, number>} */
    const sizes = new Map();
    page.on("response", async (response) => {
      const { pathname } = new URL(response.url());
      if (pathname.endsWith("/events") || pathname.endsWith("icon.svg")) return;
      sizes.set(pathname, (await response.body().catch(() => Buffer.alloc(0))).length);
    });
    await page.goto(String(path), { waitUntil: "load" });
    await until(async () => (await page.locator(String(lines)).count()) === count);
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    assert.ok(bytes < 50_000, `${bytes} bytes: ${[...sizes].join(" ")}`);
    assert.ok(sizes.size <= 3, [...sizes.keys()].join(" "));
    await page.close();
  }
  await ann.context.close();
});
