// @ts-check
// Money on the pages: each currency by the service's table, exact input, and amounts that stay in one piece.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, assertAccessible, assertFits, launch, person, says, until } from "./stage.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  // One user creates a sale per currency, and looks at each.
  service = await Service.start({ QIANG__LIMITS__CREATIONS_PER_USER_PER_MINUTE: "0",
    QIANG__LIMITS__CLAIMS_PER_USER_PER_SECOND: "0", QIANG__LIMITS__READS_PER_USER_PER_SECOND: "0" });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** Currencies whose digits differ between ISO 4217 and browsers (CLDR), and some others. */
const DIGITS = {
  AFN: 2, ALL: 2, BHD: 3, BIF: 0, CLF: 4, CLP: 0, CNY: 2, COP: 2, HUF: 2, IDR: 2, IQD: 3, IRR: 2, JPY: 0, KWD: 3,
  LAK: 2, LBP: 2, MGA: 2, MMK: 2, PKR: 2, RSD: 2, SYP: 2, TND: 3, TWD: 2, TZS: 2, UGX: 0, UZS: 2, XAU: 0, YER: 2,
};
/** Codes that the API may take: browsers do not list all of them. */
const CODES = [...new Set([...Intl.supportedValuesOf("currency"), ...Object.keys(DIGITS), "BOV", "CHE", "CHW", "COU",
  "MXV", "USN", "UYI", "UYW", "VED", "XAG", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XTS", "XUA", "XXX",
  "QQQ", "DEM"])];

/** Waits for a second at most, and then tells whether it is so. @param {() => Promise<boolean>} is */
async function soon(is) {
  for (const began = Date.now(); Date.now() - began < 1_000; await new Promise((done) => setTimeout(done, 20))) {
    if (await is()) return true;
  }
  return is();
}

/** Captures the bodies of a request, which is refused. @param {Page} page @param {string} path */
async function captured(page, path) {
  /** @type {any[]} */
  const bodies = [];
  await page.route(path, async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    bodies.push(route.request().postDataJSON());
    await route.fulfill({ status: 409, contentType: "application/problem+json",
      body: JSON.stringify({ type: "/problems/insufficient-funds", title: "Refused" }) });
  });
  return bodies;
}

test("each currency that the API takes is shown and read with the service's digits", async () => {
  const [ann, olga] = [await person(browser, service, "ann"), await person(browser, service, "olga",
    { role: "operator" })];
  const [send, desk] = [await ann.context.newPage(), olga.page];
  await send.goto("/send");
  await desk.goto("/admin/sales/new");
  await desk.fill("#title", "Exchange");
  const sent = await captured(send, "**/v1/red-packets");
  const opened = await captured(desk, "**/v1/sales");
  /** @type {string[]} */
  const wrong = [];
  let known = 0;
  for (const currency of CODES) {
    const unit_price = { amount: 1_234_567, currency };
    const id = await service.sale({ unit_price }).catch(() => "");
    if (!id) {
      // The forms refuse the currencies that the API refuses.
      for (const page of [send, desk]) {
        await page.fill("#currency", currency);
        const isRefused = await soon(async () => (await page.textContent("#currency-bad")) !== "");
        if (!isRefused) wrong.push(`${currency} is taken`);
      }
      continue;
    }
    known += 1;
    await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 }, await service.tokenOf("ann"));
    await ann.page.goto(`/s/${id}`);
    await ann.page.waitForSelector(".order .amount");
    const texts = [await ann.page.textContent(".price"), await ann.page.textContent(".order .amount")];
    if (texts[0] !== texts[1]) wrong.push(`${texts.join(" and ")} on one page`);
    const [number = ""] = (texts[0] ?? "").match(/\d[\d,.]*/) ?? [];
    const digits = number.split(".")[1]?.length ?? 0;
    const expected = Object.entries(DIGITS).find(([code]) => code === currency)?.[1] ?? digits;
    if (digits !== expected) wrong.push(`${currency} has ${digits} digits`);
    // A shown amount that is typed is the same amount.
    const typed = number.replaceAll(",", "");
    for (const [page, amount, button, bodies] of /** @type {[Page, string, string, any[]][]} */ ([
      [send, "#amount", "#send-button", sent], [desk, "#price", "#create", opened]])) {
      bodies.length = 0;
      await page.fill("#currency", currency);
      await page.fill(amount, typed);
      await page.click(button);
      await soon(async () => bodies.length > 0);
      const read = bodies[0]?.total ?? bodies[0]?.unit_price;
      if (read?.amount !== unit_price.amount || read?.currency !== currency) {
        wrong.push(`${typed} ${currency} is read as ${JSON.stringify(read)} with ${button}`);
      }
      await soon(async () => (await page.textContent("#outcome")) !== "");
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(known > 170, `${known} currencies`);
  for (const one of [ann, olga]) {
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

test("an amount that is typed is sent exactly, or refused beside its field", async () => {
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto("/send");
  const sent = await captured(page, "**/v1/red-packets");
  /** @type {string[]} */
  const wrong = [];
  for (const [currency, text, expected] of /** @type {[string, string, number | null][]} */ ([
    ["CNY", "10.005", null], ["CNY", "10.5", 1_050], ["CNY", "10.", 1_000], ["JPY", "88.5", null], ["JPY", "88", 88],
    ["CNY", "0x10", null], ["CNY", "1e3", null], ["CNY", "1,000", null], ["CNY", "1，000", null], ["CNY", "-5", null],
    ["CNY", "１００", 10_000], ["CNY", "１０．５", 1_050], ["CNY", " 12.30 ", 1_230], ["CNY", "", null],
    ["CNY", "12 30", null], ["CNY", "9007199254740993", null], ["CNY", "90071992547409.93", null],
    ["CNY", "9999999999999.99", 999_999_999_999_999], ["KWD", "1.234", 1_234], ["KWD", "1.2345", null],
  ])) {
    await page.fill("#currency", currency);
    await page.fill("#amount", text);
    sent.length = 0;
    await page.click("#send-button");
    const refused = () => page.$$eval("#amount-bad", (found) => found.map((one) => one.textContent).join());
    await soon(async () => sent.length > 0 || Boolean(await refused()));
    const read = sent[0]?.total.amount ?? null;
    if (read !== expected) wrong.push(`${JSON.stringify(text)} ${currency} is sent as ${read}`);
    if (expected === null && !(await refused())) wrong.push(`${JSON.stringify(text)} ${currency}: no reason is told`);
    if (expected === null && (await page.getAttribute("#amount", "aria-invalid")) !== "true") {
      wrong.push(`${JSON.stringify(text)} ${currency}: the field is not marked`);
    }
  }
  assert.deepEqual(wrong, []);
  // Each reason is beside its own field.
  await page.fill("#currency", "CNY");
  await page.fill("#amount", "0.05");
  await page.fill("#shares", "6");
  await says(page, "#amount-bad", "at least ¥0.06");
  await page.fill("#amount", "10");
  await page.fill("#shares", "1.5");
  await says(page, "#shares-bad", "whole number");
  assert.equal(await page.textContent("#amount-bad"), "");
  await page.fill("#shares", "6");
  await page.fill("#currency", "DEM");
  await says(page, "#currency-bad", "such as CNY");
  await assertAccessible(page);
  sent.length = 0;
  await page.click("#send-button");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "currency");
  assert.equal(sent.length, 0);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

/** Amounts that are broken into several lines, or that leave their box. @param {Page} page */
const broken = (page) => page.evaluate(() => {
  /** @type {string[]} */
  const wrong = [];
  const walker = document.createTreeWalker(document.querySelector("main") ?? document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent ?? "";
    const parent = node.parentElement;
    if (!parent?.checkVisibility()) continue;
    for (const match of text.matchAll(/(?:[A-Z]{3}\u00a0|[A-Z]{0,2}[¥€$£₹])[\d,.]*\d/g)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      const place = parent.className || parent.id || parent.tagName;
      if (lines.size > 1) wrong.push(`${match[0]} has ${lines.size} lines in ${place}`);
      const box = parent.closest(".panel, .card, .order, .envelope, .about, main")?.getBoundingClientRect();
      const { left, right } = range.getBoundingClientRect();
      const isOut = box && (left < box.left - 1 || right > box.right + 1);
      if (isOut && !parent.closest(".wide")) wrong.push(`${match[0]} leaves its box in ${place}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is wider than ${innerWidth}`);
  return wrong;
});

test("the longest amounts stay in their cards, on a phone as well", async () => {
  const [currency, title] = ["IDR", "A-gift-with-a-long-name-for-all"];
  const most = { amount: 1_000_000_000_000_000, currency };
  await service.deposit("alice", most.amount, currency);
  const packet = await service.call("POST", "/v1/red-packets", { title, total: most, shares: 1,
    split: { rule: "equal" } });
  const sale = await service.sale({ title, stock: 5, unit_price: { amount: 999_999_999_999_999, currency },
    payment_policy: "accept_with_tolerance", payment_tolerance: { amount: 9_999_999_999_999, currency } });
  const user = `user-${"0123456789".repeat(5)}`;
  const desk = [`/admin/sales/${sale}`, `/admin/packets/${packet.id}`, "/admin/lookup"];
  /** @type {string[]} */
  const wrong = [];
  for (const width of [360, 768, 1_440]) {
    const ann = await person(browser, service, user, { viewport: { width, height: 800 } });
    const { page } = ann;
    const check = async (/** @type {string} */ name) =>
      wrong.push(...(await broken(page)).map((it) => `${name} at ${width}: ${it}`));
    await page.goto(`/p/${packet.id}`);
    if (width === 360) {
      await says(page, "#numbers", "IDR");
      await check("the packet");
      await page.click("#open");
    }
    await says(page, "#outcome", "IDR");
    await check("the opened packet");
    await page.goto(`/s/${sale}`);
    if (width === 360) await page.click("#buy");
    await page.waitForSelector(".order .amount");
    await check("the sale");
    // A late payment is money in the account.
    for (const path of ["/send", "/packets", "/orders"]) {
      await page.goto(path);
      await page.waitForSelector(path === "/send" ? "#balance" : ".amount");
      await check(path);
    }
    await ann.context.close();
    const olga = await person(browser, service, "olga", { role: "operator", viewport: { width, height: 800 } });
    for (const path of desk) {
      await olga.page.goto(path);
      if (path === "/admin/lookup") {
        await olga.page.fill("#wanted", user);
        await olga.page.keyboard.press("Enter");
        await olga.page.waitForSelector("#postings li");
      } else {
        await olga.page.click("#lines summary");
        await olga.page.waitForSelector("#lines tbody td");
        const tall = await olga.page.locator("#lines tbody td").evaluateAll((cells) => cells.filter((cell) =>
          cell.getBoundingClientRect().height > 40).map((cell) => cell.textContent));
        if (tall.length) wrong.push(`${path.slice(0, 14)} at ${width} breaks ${tall[0]}`);
      }
      wrong.push(...(await broken(olga.page)).map((it) => `${path.slice(0, 14)} at ${width}: ${it}`));
      await assertFits(olga.page).catch((error) => wrong.push(`${path}: ${error.message}`));
    }
    await olga.context.close();
  }
  assert.deepEqual(wrong, []);
});

test("currencies in one line have different signs", async () => {
  for (const currency of ["CNY", "JPY"]) {
    await service.deposit("ann", 1_000, currency);
  }
  const ann = await person(browser, service, "ann");
  await ann.page.goto("/send");
  await says(ann.page, "#balance", "¥10.00");
  const balance = (await ann.page.textContent("#balance")) ?? "";
  const signs = [...balance.matchAll(/([^\s\d:,.]+)\s?\d/g)].map(([, sign]) => sign);
  assert.deepEqual(new Set(signs), new Set(["¥", "JP¥"]), balance);
  await ann.context.close();
});

test("what a share may be is stated by bounds that no draw leaves", async () => {
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto("/send");
  await page.fill("#amount", "10");
  await page.fill("#shares", "5");
  for (const [rule, least, most] of [["double_average", "¥0.01", "¥9.96"], ["lazy", "¥0.01", "¥9.96"],
    ["normal", "¥0.01", "¥3.99"], ["equal", "¥2.00", "¥2.00"]]) {
    await page.selectOption("#rule", rule);
    const said = async () => (await page.textContent("#spread-words")) ?? "";
    await until(async () => (await said()).includes(least === most ? `is ${least}.` : `between ${least} and ${most}.`),
      async () => `${rule}: ${await said()}`);
  }
  await ann.context.close();
});

test("numbers are grouped in one way, and one unit is no units", async () => {
  const sale = await service.sale({ title: "Grouped", stock: 1_234_567 });
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  const { id: order } = await service.call("POST", `/v1/sales/${sale}/orders`, { quantity: 1 });
  await page.goto(`/s/${sale}`);
  await says(page, "#numbers", "1,234,566 of 1,234,567 left");
  await page.goto(`/admin/sales/${sale}`);
  await says(page, "#rate", "1,234,566 of 1,234,567 remain");
  await page.goto("/admin");
  await says(page, "#campaigns", "1 of 1,234,567");
  await page.goto("/admin/lookup");
  await page.fill("#wanted", "alice");
  await page.keyboard.press("Enter");
  await until(async () => (await page.textContent("#orders"))?.includes(order) ?? false);
  await says(page, "#orders li", "1 unit ·");
  await olga.context.close();
});
