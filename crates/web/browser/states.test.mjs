// @ts-check
// What pages say, and when: every state and every refusal, in both languages, for the ear as well; and the clock.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, assertFits, cancelOrder, launch, person, picture, says, tabTo, until } from
  "./stage.mjs";

/** @typedef {import("playwright-core").Page} Page */

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

/** @param {string} id @param {string} what */
const act = (id, what) => service.call("POST", `/v1/campaigns/${id}/${what}`, {});

test("the button says how things are: not yet, buy, paused, yours, sold out, over", async () => {
  const later = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();
  const id = await service.sale({ stock: 2, starts_at: later(3_600_000), ends_at: later(7_200_000) });
  const [ann, bob] = [await person(browser, service, "ann"), await person(browser, service, "bob")];
  for (const { page } of [ann, bob]) {
    await page.goto(`/s/${id}`);
    assert.equal(await page.getAttribute("#outcome", "role"), "status");
  }
  await says(ann.page, "#buy", "Notify me");
  await service.call("PATCH", `/v1/sales/${id}`, { starts_at: later(1_000) });
  await says(ann.page, "#buy", "Buy");
  await says(ann.page, "#outcome", "The sale has started!");
  await act(id, "pause");
  await says(ann.page, "#buy", "Paused");
  assert.equal(await ann.page.isDisabled("#buy"), true);
  await act(id, "resume");
  await says(ann.page, "#buy", "Buy");
  await ann.page.click("#buy");
  await says(ann.page, "#buy", "Pay ¥5.00 · 1");
  await says(ann.page, "#outcome", "You got it!");
  await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 });
  await says(bob.page, "#buy", "Sold out");
  await says(bob.page, "#outcome", "More may become available");
  await cancelOrder(ann.page);
  await says(bob.page, "#outcome", "1 more available!");
  await says(bob.page, "#buy", "Buy");
  await act(id, "close");
  await says(bob.page, "#buy", "Ended");
  for (const one of [ann, bob]) {
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

/** What users meet, and what pages say of it in English. */
const REFUSALS = [
  [409, "sold-out", ""], [409, "limit-reached", "reached the limit"], [410, "ended", "Ended"],
  [409, "not-started", "hasn’t started yet"], [409, "insufficient-funds", "Insufficient balance"],
  [403, "forbidden", "have permission"], [403, "not-in-audience", "invited users only"],
  [403, "passphrase-wrong", "Wrong passphrase"], [401, "unauthenticated", "Sign in"],
  [422, "invalid", "Check what you entered"], [429, "throttled", "Too many attempts"],
  [429, "creations-throttled", "in a minute"],
  [503, "unavailable", "Temporarily unavailable"], [503, "not-admitted", "High demand"], [503, "paused", "Paused"],
  [503, "queue-full", "High demand"], [503, "uncertain", "charged twice"],
  [403, "order-check-refused", "shop declined"], [500, "something-new", "Something went wrong"],
];

test("refusals are told in both languages, and no English stands on a Chinese page", async () => {
  const id = await service.sale({ stock: 5 });
  for (const locale of ["en", "zh-CN"]) {
    const ann = await person(browser, service, "ann", { locale });
    for (const [status, slug, words] of REFUSALS) {
      await ann.page.goto(`/s/${id}`);
      await ann.page.route("**/orders", (route) => route.fulfill({ status: Number(status),
        contentType: "application/problem+json",
        // The wait is too long for a retry: the page shows the error at once.
        headers: { "Retry-After": "60" },
        body: JSON.stringify({ type: `/problems/${slug}`, title: "An English title", detail: "in detail" }) }));
      await ann.page.click("#buy");
      const asking = locale === "en" ? "Placing your order…" : "正在提交订单…";
      await until(async () => (await ann.page.textContent("#buy")) !== asking);
      const told = (await ann.page.textContent("#outcome")) ?? "";
      if (locale === "en") assert.match(told, new RegExp(String(words)), `${slug}: ${told}`);
      else if (words) assert.match(told, /^[^A-Za-z]+$/, `${slug}: ${told}`);
      await ann.page.unroute("**/orders");
    }
    assert.deepEqual(ann.faults, []);
    await ann.context.close();
  }
});

test("the network is cut in the middle of a click on a sale, and one order comes of it", async () => {
  const id = await service.sale({ stock: 5, per_user_limit: 3 });
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/s/${id}`);
  let lost = 0;
  await ann.page.route(`**/v1/sales/${id}/orders`, async (route) => {
    if (lost++ > 0) return route.continue();
    await route.fetch();
    await route.abort("connectionreset");
  });
  await ann.page.click("#buy");
  await says(ann.page, ".yours", "Yours: 1");
  assert.equal(lost, 2, "it was asked again");
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).granted, 1);
  // The next click is another wish.
  await ann.page.click("#another");
  await ann.page.click("#buy");
  await until(async () => (await ann.page.locator(".order").count()) === 2);
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).granted, 2);
  await ann.context.close();
});

test("a page that is left in the middle of a click replays the wish, as it was wished", async () => {
  const id = await service.sale({ stock: 5, per_user_limit: 3 });
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/s/${id}`);
  let isCut = true;
  const arrived = new Promise((done) => {
    void ann.page.route(`**/v1/sales/${id}/orders`, async (route) => {
      if (!isCut) return route.continue();
      await route.fetch();
      done(null);
    });
  });
  await ann.page.fill("#quantity", "2");
  await ann.page.click("#buy");
  await arrived;
  isCut = false;
  await ann.page.reload();
  await says(ann.page, ".yours", "Yours: 2");
  await ann.page.click("#another");
  await ann.page.click("#buy");
  await says(ann.page, "#outcome", "You got it!");
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).granted, 2);
  assert.equal(await ann.page.locator(".order").count(), 1);
  await ann.context.close();
});

test("a sale on a phone, in Chinese, with the keyboard alone", async () => {
  const id = await service.sale({ title: "限量手机", stock: 3, per_user_limit: 2 });
  const ann = await person(browser, service, "ann", PHONE);
  const { page } = ann;
  await page.goto(`/s/${id}`);
  await says(page, "#buy", "抢购");
  await says(page, "#numbers", "剩余 3/3 件");
  await assertFits(page);
  await tabTo(page, "#quantity");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("2");
  await page.keyboard.press("Enter");
  await says(page, ".yours", "已抢到 2 件");
  await says(page, "#outcome", "前付款");
  await picture(page, "sale-phone");
  await assertFits(page);
  await assertAccessible(page);
  await page.waitForSelector("#buy[data-deed=pay]");
  await tabTo(page, "#buy");
  await page.keyboard.press("Enter");
  await says(page, ".hold", "已付款");
  const words = ((await page.textContent("main")) ?? "").replaceAll("UTC", "");
  assert.doesNotMatch(words, /[A-Za-z]{2}/, words);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("sending on a phone, in Chinese, with the keyboard alone", async () => {
  const eve = await person(browser, service, "eve", PHONE);
  const { page } = eve;
  await page.goto("/send");
  await says(page, "#balance", "余额：¥0.00");
  await tabTo(page, "#put-in");
  await page.keyboard.press("Enter");
  await says(page, "#outcome", "¥1,000.00 已充值");
  await assertFits(page);
  await tabTo(page, "#amount");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("66.66");
  await tabTo(page, "#rule");
  await page.keyboard.press("ArrowDown");
  await says(page, "#spread-words", "约一半在");
  await picture(page, "send-phone");
  await assertAccessible(page);
  await tabTo(page, "#send-button");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#sent:not([hidden])");
  await assertFits(page);
  assert.equal(await page.evaluate(() => document.activeElement?.id), "link");
  await page.keyboard.press("Enter");
  await says(page, "#numbers", "¥66.66");
  assert.deepEqual(eve.faults, []);
  await eve.context.close();
});

/** Has the page's stream tell one state. @param {Page} page @param {object} state */
async function stream(page, state) {
  await page.route("**/events?*", (route) => route.fulfill({ contentType: "text/event-stream",
    body: `retry: 60000\nevent: state\ndata: ${JSON.stringify(state)}\n\n` }));
}

/** Seconds that the page's clock shows. @param {Page} page */
async function seconds(page) {
  const parts = ((await page.textContent("#clock b")) ?? "").split(":").map(Number);
  return parts.reduce((sum, part) => sum * 60 + part, 0);
}

test("an old view does not set the clock back", async () => {
  const id = await service.sale({ stock: 5, starts_at: new Date(Date.now() + 600_000).toISOString() });
  const state = await service.call("GET", `/v1/campaigns/${id}/state`);
  const ann = await person(browser, service, "ann");
  // Further state requests of the page get no answer.
  await ann.page.route(`**/v1/campaigns/${id}/state`, () => {});
  for (const old of [9_000, 3_600_000]) {
    // The numbers show that it was heard.
    const now = new Date(Date.now() - old).toISOString();
    await stream(ann.page, { ...state, supply: 77, now });
    const began = Date.now();
    await ann.page.goto(`/s/${id}`);
    await until(async () => (await ann.page.textContent("#numbers"))?.includes("of 77") ?? false);
    const left = Math.ceil((Date.parse(state.starts_at) - began) / 1_000);
    assert.ok((await seconds(ann.page)) <= left, `${await seconds(ann.page)} s and not ${left} s`);
    await ann.page.unroute("**/events?*");
  }
  await ann.context.close();
});

test("what has ended is over, before its window is and before it is closed", async () => {
  const id = await service.sale({ stock: 5 });
  const state = await service.call("GET", `/v1/campaigns/${id}/state`);
  const ann = await person(browser, service, "ann");
  await stream(ann.page, { ...state, phase: "ended", now: new Date(Date.now() + 1_000).toISOString() });
  await ann.page.goto(`/s/${id}`);
  await says(ann.page, "#clock", "Ended");
  await says(ann.page, "#buy", "Ended");
  await ann.context.close();
});

test("a view that is older than the page's own numbers does not replace them", async () => {
  const id = await service.sale({ stock: 5 });
  const state = await service.call("GET", `/v1/campaigns/${id}/state`);
  const ann = await person(browser, service, "ann");
  const heard = new Promise((done) => {
    void ann.page.route(`**/v1/campaigns/${id}/state`, async (route) => {
      done(await ann.page.textContent("#numbers"));
      await route.continue();
    });
  });
  await stream(ann.page, { ...state, supply: 77, now: new Date(Date.now() - 3_000).toISOString() });
  await ann.page.goto(`/s/${id}`);
  assert.equal(await heard, "5 of 5 left");
  await says(ann.page, "#numbers", "5 of 5 left");
  await ann.context.close();
});

test("a clock that is set is noticed", async () => {
  const id = await service.sale({ stock: 5, starts_at: new Date(Date.now() + 600_000).toISOString() });
  const state = await service.call("GET", `/v1/campaigns/${id}/state`);
  const ann = await person(browser, service, "ann");
  // The browser's clock is an hour behind when the page comes, and right when the stream tells something.
  await ann.page.addInitScript(() => {
    const real = Date.now;
    Date.now = () => real() + (/** @type {any} */ (window).isRight ? 0 : -3_600_000);
  });
  await ann.page.route("**/events?*", async (route) => {
    await ann.page.evaluate(() => { /** @type {any} */ (window).isRight = true; });
    const now = new Date().toISOString();
    await route.fulfill({ contentType: "text/event-stream",
      body: `retry: 60000\nevent: state\ndata: ${JSON.stringify({ ...state, now })}\n\n` });
  });
  const asked = ann.page.waitForRequest(`**/v1/campaigns/${id}/state`);
  await ann.page.goto(`/s/${id}`);
  await asked;
  await until(async () => Math.abs((await seconds(ann.page)) - (Date.parse(state.starts_at) - Date.now()) / 1_000) < 5);
  await ann.context.close();
});

test("a hold does not begin above its length", async () => {
  const id = await service.sale({ stock: 5 });
  const ann = await person(browser, service, "ann");
  // The later `hold_until` simulates a page that estimates the service's clock as too early.
  await ann.page.route(`**/v1/sales/${id}/orders`, async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    const later = (/** @type {string} */ time) => new Date(Date.parse(time) + 60_000).toISOString();
    await route.fulfill({ response: answer, json: { ...body, hold_until: later(body.hold_until) } });
  });
  await ann.page.goto(`/s/${id}`);
  await ann.page.click("#buy");
  await says(ann.page, ".hold", "Pay within 15:00");
  await ann.context.close();
});

/** Holds a request up until it is let go. @param {Page} page @param {string} path */
async function heldUp(page, path) {
  /** @type {(value: unknown) => void} */
  let letGo = () => {};
  const gone = new Promise((done) => { letGo = done; });
  await page.route(path, async (route) => {
    await gone;
    await route.continue();
  });
  return () => letGo(null);
}

test("numbers that lack what was just had are not shown beside it", async () => {
  await service.deposit("alice", 1_000);
  const terms = { title: "Luck", total: { amount: 300, currency: "CNY" }, shares: 3, split: { rule: "equal" } };
  const red = (await service.call("POST", "/v1/red-packets", terms)).id;
  const sale = await service.sale({ stock: 3 });
  for (const [path, asked, button, left] of [
    [`/p/${red}`, `**/v1/red-packets/${red}`, "#open", "2 of 3 left · ¥2.00 of ¥3.00 left"],
    [`/s/${sale}`, `**/v1/campaigns/${sale}/state`, "#buy", "2 of 3 left"],
  ]) {
    const ann = await person(browser, service, "ann");
    await ann.page.goto(path);
    const letGo = await heldUp(ann.page, asked);
    await ann.page.click(button);
    await says(ann.page, "main", button === "#open" ? "You got" : "You got it!");
    assert.equal(await ann.page.textContent("#numbers"), "…");
    letGo();
    await says(ann.page, "#numbers", left);
    await ann.context.close();
  }
});

/** Another hexadecimal number. @param {string} digits */
const otherThan = (digits) => digits.slice(0, -1) + (digits.endsWith("0") ? "1" : "0");

test("a packet that is not what was promised is found out", async () => {
  await service.deposit("alice", 1_000);
  const promised = await service.call("POST", "/v1/red-packets/server-seeds");
  const terms = { title: "Best wishes", shares: 2, split: { rule: "double_average" }, client_seed: "5a".repeat(32) };
  const total = { amount: 1_000, currency: "CNY" };
  const { id } = await service.call("POST", "/v1/red-packets", { ...terms, ...promised, total });
  /** @type {any[]} */
  const draws = [];
  for (const user of ["ann", "bob"]) {
    const token = await service.tokenOf(user);
    draws.push(await service.call("POST", `/v1/red-packets/${id}/claims`, undefined, token));
  }
  const shown = await service.call("GET", `/v1/red-packets/${id}`);
  const one = await person(browser, service, "cid");
  /** What the page says if everything that it is told has another text in the place of one. */
  const check = async (/** @type {string} */ text, /** @type {string} */ other, /** @type {string} */ words) => {
    const told = (/** @type {URL} */ url) => url.pathname.includes(id) && !url.pathname.includes("events");
    await one.page.route(told, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replaceAll(text, other) });
    });
    await one.page.goto(`/p/${id}`);
    await one.page.click("#proof summary");
    await one.page.click("#check");
    await says(one.page, "#verdict", words);
    await one.page.unroute(told);
  };
  for (const field of ["commitment", "server_seed_hash", "server_seed", "client_seed", "seed"]) {
    const isBound = ["commitment", "seed"].includes(field);
    const words = isBound ? "fingerprint doesn’t match" : "not made from what the service and the sender published";
    await check(shown[field], otherThan(shown[field]), words);
  }
  const [{ number, amount }] = draws;
  const other = [amount.amount, amount.amount + 1].map((minor) => `[${number},"ann",${minor},`);
  await check(other[0], other[1], `share ${number} isn’t what the seed gives`);
  await check(id, id, "Neither the service nor the sender could choose it alone");
  assert.deepEqual(one.faults, []);
  await one.context.close();
});
