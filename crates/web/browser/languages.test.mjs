// @ts-check
// Languages of the pages: every text, dates, the choice, and writing from right to left.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, assertAccessible, assertFits, launch, person, picture, says, until } from "./stage.mjs";

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;
/** Paths of all pages, each with its most important button. @type {Record<string, string>} */
let buttons;

before(async () => {
  service = await Service.start();
  browser = await launch();
  await service.deposit("alice", 100_000);
  const total = { amount: 8_888, currency: "CNY" };
  const terms = { title: "恭喜發財", total, shares: 9, split: { rule: "double_average" } };
  const red = (await service.call("POST", "/v1/red-packets", terms)).id;
  await service.call("POST", `/v1/red-packets/${red}/claims`, undefined, await service.tokenOf("bob"));
  const sale = await service.sale({ title: "限定版", description: "数量限定", per_user_limit: 2,
    payment_policy: "accept_over" });
  await service.call("POST", `/v1/sales/${sale}/orders`, { quantity: 1 }, await service.tokenOf("ann"));
  buttons = {
    "/": ".places a", "/send": "#send-button", [`/p/${red}`]: "#open", [`/s/${sale}`]: "#buy",
    "/packets": "main .button.main", "/orders": ".button.pay", "/balance": "main .button.main",
    "/sign-in": "#token-form button", "/nope": "main a", "/admin": ".head .button.main",
    "/admin/lookup": "#lookup button", "/admin/live": "#hold", "/admin/operation": "#audit",
    "/admin/sales/import": "#import", "/admin/sales/new": "#create", "/admin/packets/new": "#create",
    [`/admin/sales/${sale}`]: "#pause", [`/admin/packets/${red}`]: "#pause",
  };
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

const PHONE = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };

/** Texts of a page that have a word of Latin letters, without names, ids and scopes.
 * @param {import("playwright-core").Page} page @returns {Promise<string[]>} */
const wordsOf = (page) => page.evaluate(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = (node.textContent ?? "").trim();
    const isOther = node.parentElement?.closest("code, script, #user, #owner, .name, a[lang], .legend, #actions");
    if (/[A-Za-z]{3,}/.test(text) && !isOther) found.push(text);
  }
  return found;
});

test("every page is in every language, and nothing of it stays English", async () => {
  const english = await person(browser, service, "ann", { role: "admin" });
  /** @type {Map<string, Set<string>>} */
  const known = new Map();
  for (const [path, button] of Object.entries(buttons)) {
    await english.page.goto(path);
    await english.page.waitForSelector(button);
    known.set(path, new Set(await wordsOf(english.page)));
  }
  assert.ok([...known.values()].every((words) => words.size > 1));
  await english.context.close();
  for (const [locale, lang, name] of [["zh-TW", "zh-TW", "taiwan"], ["ja-JP", "ja", "japanese"]]) {
    const ann = await person(browser, service, "ann", { ...PHONE, locale, role: "admin" });
    for (const [path, button] of Object.entries(buttons)) {
      await ann.page.goto(path);
      await ann.page.waitForSelector(button);
      assert.equal(await ann.page.getAttribute("html", "lang"), lang, path);
      const words = (await wordsOf(ann.page)).filter((text) => !["alice", "ann", "bob"].includes(text));
      const same = words.filter((text) => known.get(path)?.has(text));
      assert.deepEqual(same, [], `${locale} ${path}`);
      await assertFits(ann.page);
      if (/^\/[ps]\//.test(path)) await picture(ann.page, `${path[1] === "p" ? "packet" : "sale"}-${name}`);
    }
    await assertAccessible(ann.page);
    assert.deepEqual(ann.faults, []);
    await ann.context.close();
  }
});

test("a share is opened and a unit bought in Japanese and in Traditional Chinese", async () => {
  for (const [locale, opened, bought] of [["ja", "を受け取りました", "を支払う"],
    ["zh-TW", "恭喜你搶到", "付款 ¥5.00"]]) {
    const one = await person(browser, service, `user-${locale}`, { locale });
    const [red, sale] = Object.keys(buttons).filter((path) => /^\/[ps]\//.test(path));
    await one.page.goto(red);
    await one.page.click("#open");
    await says(one.page, "#outcome", opened);
    await one.page.goto(sale);
    await one.page.click("#buy");
    await says(one.page, "#buy", bought);
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

test("a date is written as the language writes it", async () => {
  const id = await service.sale({ starts_at: "2030-11-30T12:00:00Z", ends_at: "2030-12-01T12:00:00Z" });
  for (const [timezoneId, locale, expected] of [
    ["Asia/Taipei", "zh-TW", "2030年11月30日週六 20:00 (UTC+8) 開賣"],
    ["Asia/Tokyo", "ja", "2030年11月30日(土) 21:00 (UTC+9) 開始"],
    ["Asia/Tokyo", "en", "Starts Sat 30 Nov 2030, 21:00 (UTC+9)"],
  ]) {
    const ann = await person(browser, service, "ann", { locale, timezoneId });
    await ann.page.goto(`/s/${id}`);
    await says(ann.page, "#when", expected);
    await ann.context.close();
  }
});

test("the language is the browser's until a link chooses another one", async () => {
  for (const [locale, lang] of [["zh-HK", "zh-TW"], ["zh-CN", "zh"], ["ja-JP", "ja"], ["fr-FR", "en"]]) {
    const one = await person(browser, service, "ann", { locale });
    assert.equal(await one.page.getAttribute("html", "lang"), lang, locale);
    await one.context.close();
  }
  const ann = await person(browser, service, "ann");
  const [path] = Object.keys(buttons).filter((path) => path.startsWith("/p/"));
  await ann.page.goto(`${path}#x=1`);
  for (const [link, lang] of [["日本語", "ja"], ["繁體中文", "zh-TW"], ["简体中文", "zh"], ["English", "en"]]) {
    await ann.page.click(`#languages a:text-is("${link}")`);
    await until(async () => (await ann.page.getAttribute("html", "lang")) === lang);
    assert.equal(new URL(ann.page.url()).hash, "#x=1");
    assert.equal(await ann.page.locator("#languages a").count(), 3);
  }
  await ann.page.click("#languages a[lang=ja]");
  await until(async () => (await ann.page.getAttribute("html", "lang")) === "ja");
  await ann.page.goto("/packets");
  assert.equal(await ann.page.getAttribute("html", "lang"), "ja");
  await ann.context.close();
});

test("written from right to left no page scrolls sideways or loses its button", async () => {
  for (const view of [PHONE, { viewport: { width: 1_280, height: 800 } }]) {
    const ann = await person(browser, service, "ann", { ...view, role: "admin" });
    for (const [path, button] of Object.entries(buttons)) {
      await ann.page.goto(path);
      await ann.page.waitForSelector(button);
      await ann.page.evaluate(() => { document.documentElement.dir = "rtl"; });
      await assertFits(ann.page).catch(() => assert.fail(`${path} is wider than the window`));
      const found = ann.page.locator(button).first();
      await found.scrollIntoViewIfNeeded();
      assert.equal(await found.isVisible(), true, path);
      const box = await found.boundingBox();
      assert.ok(box && box.x >= 0 && box.x + box.width <= view.viewport.width, `${path}: ${JSON.stringify(box)}`);
      // Nothing lies over it.
      const isOnTop = await found.evaluate((it) => {
        const { x, y, width, height } = it.getBoundingClientRect();
        const top = document.elementFromPoint(x + width / 2, y + height / 2);
        return it === top || it.contains(top);
      });
      assert.equal(isOnTop, true, `${path}: the button is covered`);
    }
    const sale = Object.keys(buttons).find((path) => path.startsWith("/s/")) ?? "";
    await ann.page.goto(sale);
    await ann.page.evaluate(() => { document.documentElement.dir = "rtl"; });
    await assertAccessible(ann.page);
    assert.deepEqual(ann.faults, []);
    await ann.context.close();
  }
});
