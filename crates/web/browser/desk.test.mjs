// @ts-check
// What operators do at their desk, in a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Service, assertAccessible, launch, person, picture, says, until } from "./stage.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;

before(async () => {
  service = await Service.start({ QIANG__LIMITS__CLAIMS_PER_USER_PER_SECOND: "0" });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** How tall the tallest bar of the chart is. @param {Page} page */
const tallest = (page) =>
  page.locator("#chart rect").evaluateAll((bars) => Math.max(...bars.map((bar) => Number(bar.getAttribute("height")))));

/** Where the line of what remains ends: lower is less. @param {Page} page */
const level = async (page) => {
  const points = (await page.getAttribute("#chart polyline", "points")) ?? "";
  return Number(points.split(" ").pop()?.split(",")[1]);
};

/** What was done, the newest first. @param {Page} page */
const done = (page) => page.locator("#actions li span").allTextContents();

/** Goes on to an element by the keyboard alone. @param {Page} page @param {string} id */
async function tabTo(page, id) {
  for (let i = 0; i < 60; i++) {
    if (await page.evaluate((wanted) => document.activeElement?.id === wanted, id)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`the keyboard does not come to #${id}`);
}

test("an operator opens a sale, watches it, pauses, changes its stock and closes it", async () => {
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/");
  await page.click("a[href='/admin']");
  await says(page, "#scopes", "campaigns:write:any");
  await page.click("#new");
  // The form checks input while the operator types.
  await page.fill("#title", "Phones");
  await page.fill("#stock", "many");
  await says(page, "#stock-bad", "whole number");
  assert.equal(await page.getAttribute("#stock", "aria-invalid"), "true");
  await page.fill("#stock", "10");
  await until(async () => (await page.textContent("#stock-bad")) === "");
  await page.fill("#limit", "11");
  await page.fill("#price", "9.999");
  await says(page, "#limit-bad", "1 to the stock");
  await says(page, "#price-bad", "amount");
  await page.fill("#ends", "2020-01-01T00:00");
  await says(page, "#ends-bad", "not in the past");
  // The tolerance is asked for where there is one.
  assert.equal(await page.isVisible("#tolerance"), false);
  await page.selectOption("#policy", "accept_with_tolerance");
  assert.equal(await page.isVisible("#tolerance"), true);
  await page.fill("#price", "9.99");
  await page.fill("#tolerance", "9.99");
  await says(page, "#tolerance-bad", "less than the unit price");
  await page.fill("#price", "9.999");
  await picture(page, "desk-sale");
  await assertAccessible(page);
  await page.click("#create");
  await says(page, "#outcome", "Correct the marked fields");
  await page.fill("#limit", "2");
  await page.fill("#price", "9.99");
  await page.fill("#tolerance", "0.05");
  await page.fill("#ends", "");
  await page.click("#create");
  await page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}$/);
  const id = page.url().split("/").pop() ?? "";
  const opened = await service.call("GET", `/v1/sales/${id}`);
  assert.equal(opened.seller, "olga");
  assert.deepEqual(opened.unit_price, { amount: 999, currency: "CNY" });
  assert.equal(opened.per_user_limit, 2);
  assert.equal(opened.payment_policy, "accept_with_tolerance");
  assert.deepEqual(opened.payment_tolerance, { amount: 5, currency: "CNY" });
  await says(page, "#policy", "small differences (± ¥0.05)");
  await says(page, "#phase", "live");
  await says(page, "#actions li", "olga created it");

  // The chart moves while people buy.
  await says(page, "#remaining", "10");
  assert.equal(await tallest(page), 0);
  const full = await level(page);
  for (const quantity of [1, 1]) await service.call("POST", `/v1/sales/${id}/orders`, { quantity });
  const own = await page.evaluate(async (path) => {
    const headers = { "Content-Type": "application/json" };
    return (await fetch(path, { method: "POST", headers, body: '{"quantity":1}' })).status;
  }, `/v1/sales/${id}/orders`);
  assert.equal(own, 201);
  await says(page, "#remaining", "7");
  await until(async () => (await tallest(page)) > 10 && (await level(page)) > full);
  // The chart's edges say what its top stands for, and when it begins and ends.
  const edges = await page.locator("figure:has(#chart) .edges span").allTextContents();
  assert.match(edges.join("|"), /^[123] per second\|10 remain\|\d+:\d\d:\d\d.[AP]M\|\d+:\d\d:\d\d.[AP]M$/);
  await says(page, "#rate", "7 of 10 remain");
  await picture(page, "desk-campaign");
  await assertAccessible(page);

  await page.click("#pause");
  await says(page, "#phase", "paused");
  assert.equal(await page.isDisabled("#pause"), true);
  const paused = await service.call("GET", `/v1/campaigns/${id}/state`);
  assert.equal(paused.phase, "paused");
  await page.click("#resume");
  await says(page, "#phase", "live");

  await page.fill("#stock", "2");
  await page.click("#change");
  await says(page, "#outcome", "Users already have more units");
  await page.fill("#stock", "20");
  await page.click("#change");
  await says(page, "#supply", "20");
  await says(page, "#remaining", "17");

  assert.equal(await page.inputValue("#admission"), "150");
  await page.fill("#admission", "99");
  await page.click("#change-admission");
  await says(page, "#outcome", "100");
  await page.fill("#admission", "300");
  await page.click("#change-admission");
  await says(page, "#outcome", "Done");
  assert.equal((await service.call("GET", `/v1/sales/${id}`)).admission_percent, 300);

  // To close it is asked about first.
  await page.click("#close");
  await page.click("#confirm button[value=no]");
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).phase, "live");
  await page.click("#close");
  await page.click("#close-yes");
  await says(page, "#phase", "closed");
  await says(page, "#actions li", "olga closed it");
  assert.equal((await service.call("GET", `/v1/campaigns/${id}/state`)).phase, "closed");
  for (const button of ["#pause", "#resume", "#close", "#change"]) assert.equal(await page.isDisabled(button), true);
  const all = (await done(page)).map((line) => line.split(" ")[1]);
  assert.deepEqual([all.at(0), all.at(-1)], ["closed", "created"]);
  for (const what of ["paused", "resumed", "changed"]) assert.ok(all.includes(what), `${what}: ${all}`);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("who got what is listed, and saved as a file that no spreadsheet takes for formulas", async () => {
  const id = await service.sale({ title: "Listed", stock: 200, per_user_limit: 200 });
  for (const formula of ["=1+1", "a;=1+1;+2"]) { // the second one where `;` separates cells
    const eve = await person(browser, service, formula);
    const bought = await eve.page.evaluate(async (path) => {
      const headers = { "Content-Type": "application/json" };
      return (await fetch(path, { method: "POST", headers, body: JSON.stringify({ quantity: 3 }) })).status;
    }, `/v1/sales/${id}/orders`);
    assert.equal(bought, 201);
    await eve.context.close();
  }
  for (let i = 0; i < 101; i++) await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 });
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto(`/admin/sales/${id}`);
  await page.click("#lines summary");
  const rows = page.locator("#lines tbody tr");
  await until(async () => {
    if ((await rows.count()) === 100 && (await page.isVisible("#more"))) return true;
    await page.click("#again");
    return false;
  });
  assert.match((await rows.first().textContent()) ?? "", /^1=1\+13¥15.00held/);
  await page.click("#more");
  await until(async () => (await rows.count()) === 103);
  assert.equal(await page.isVisible("#more"), false);
  await assertAccessible(page);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#csv")]);
  assert.equal(file.suggestedFilename(), `${id}.csv`);
  const text = readFileSync(await file.path(), "utf8");
  assert.equal(text[0], "\ufeff", "Excel needs the mark of UTF-8");
  const lines = text.slice(1).trimEnd().split("\r\n");
  assert.equal(lines.length, 104);
  assert.match(lines[2], new RegExp(`^2,${id}-2,"a;'=1\\+1;'\\+2",3,`));
  for (const line of lines) assert.doesNotMatch(line, /(^|[,;])"?[=+@-]/);
  assert.equal(lines[0], "number,id,user,quantity,amount_minor,currency,state,created_at,returned_quantity,"
    + "reference,metadata");
  assert.match(lines[1], new RegExp(`^1,${id}-1,'=1\\+1,3,1500,CNY,held,20`));
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("campaigns are found by words, state, kind and id, and nothing of it stands in a URL", async () => {
  const [live, other] = [await service.sale({ title: "Blue bicycle" }), await service.sale({ title: "Red bicycle" })];
  await service.call("POST", `/v1/campaigns/${other}/pause`);
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/admin");
  // The list is of the ledger, which follows in a moment.
  const find = async (/** @type {string} */ words, /** @type {RegExp} */ expected) => {
    await page.fill("#words", words);
    await until(async () => {
      await page.click("#search button");
      await says(page, "#found", "found");
      const cards = await page.locator("#campaigns tr").allTextContents();
      return expected.test(cards.join("|"));
    }, async () => `${words}: ${await page.textContent("#campaigns")}`);
  };
  await find("BICYCLE", /^Red bicycle.*paused.*\|Blue bicycle.*live.*$/);
  await find("alice", /Blue bicycle/);
  await find(live, /^Blue bicycle[^|]*$/);
  await page.selectOption("#phase", "paused");
  await find("bicycle", /^Red bicycle[^|]*$/);
  await assertAccessible(page);
  await page.selectOption("#kind", "red-packets");
  await find("bicycle", /^$/);
  assert.equal(new URL(page.url()).search, "");
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("the newest campaigns are looked at first, and a search goes on where it stopped", async () => {
  const title = (/** @type {number} */ n) => `Round ${String(n).padStart(2, "0")}`;
  /** @type {string[]} */
  const ids = [];
  // Ids of one millisecond are in any order: these are of one each.
  const first = Date.now() + 1_000;
  for (let n = 0; n < 22; n++) {
    const time = (first + n).toString(16).padStart(12, "0");
    const id = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${time}`;
    ids.push(await service.sale({ id, title: title(n) }));
  }
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await until(async () => (await service.call("GET", "/v1/sales?order=newest&limit=1")).data[0].id === ids[21]);
  // A page of each list has one campaign, so that a search asks after ten.
  await page.route("**/v1/sales?*", (route) =>
    route.continue({ url: route.request().url().replace("limit=100", "limit=1") }));
  const cards = () => page.locator("#campaigns b").allTextContents();
  await page.goto("/admin");
  await says(page, "#found", "10 found in the newest 10");
  assert.deepEqual((await cards()).slice(0, 10), Array.from({ length: 10 }, (_, n) => title(21 - n)));
  await page.fill("#words", "round 02");
  await page.keyboard.press("Enter");
  await says(page, "#found", "0 found in the newest 10");
  await page.click("#more");
  await says(page, "#found", "1 found in the newest 20");
  assert.deepEqual(await cards(), [title(2)]);
  // A packet is found by its id, whichever kind is looked for; and so is a part of an id.
  await service.deposit("alice", 100);
  const total = { amount: 100, currency: "CNY" };
  const packet = { title: "By its id", total, shares: 2, split: { rule: "equal" } };
  const { id } = await service.call("POST", "/v1/red-packets", packet);
  await page.fill("#words", id);
  await page.keyboard.press("Enter");
  await says(page, "#campaigns", "By its id");
  await says(page, "#found", "1 found.");
  assert.equal(await page.isVisible("#more"), false);
  assert.equal(await page.getAttribute("#campaigns a", "href"), `/admin/packets/${id}`);
  await page.fill("#words", ids[21].slice(10));
  await page.keyboard.press("Enter");
  await says(page, "#campaigns", title(21));
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("every page of the desk leads to the others, and uses the width that there is", async () => {
  const id = await service.sale({ title: "Wide" });
  const wide = { viewport: { width: 1_400, height: 900 } };
  const ada = await person(browser, service, "ada", { ...wide, role: "admin" });
  const { page } = ada;
  const places = ["/admin", "/admin/sales/new", "/admin/lookup", "/admin/live", "/admin/operation"];
  for (const path of [...places, `/admin/sales/${id}`]) {
    await page.goto(path);
    const links = page.locator("#desk-nav a");
    assert.deepEqual(await links.evaluateAll((all) => all.map((it) => it.getAttribute("href"))), places);
    const here = page.locator("#desk-nav [aria-current=page]");
    assert.equal(await here.count(), places.includes(path) ? 1 : 0, path);
    if (places.includes(path)) assert.equal(await here.getAttribute("href"), path);
    const box = await page.locator("main").boundingBox();
    assert.ok((box?.width ?? 0) > 1_000, `${path} is ${box?.width} wide`);
  }
  // Disabled buttons look different from enabled buttons.
  await says(page, "#phase", "live");
  const look = (/** @type {string} */ button) => page.$eval(button, (it) => getComputedStyle(it).borderTopStyle);
  assert.deepEqual([await look("#pause"), await look("#resume")], ["solid", "dashed"]);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("what is not open yet says whether the engine has it", async () => {
  const starts_at = new Date(Date.now() + 3_600_000).toISOString();
  const ends_at = new Date(Date.now() + 7_200_000).toISOString();
  const id = await service.sale({ title: "Soon", starts_at, ends_at });
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto(`/admin/sales/${id}`);
  await says(page, "#phase", "scheduled");
  await says(page, "#warm", "Warm: the engine has it");
  // Text of the page while the service waits for its engine.
  await page.route(`**/admin/sales/${id}`, async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replaceAll('"phase":"scheduled"', '"phase":"draft"');
    await route.fulfill({ response, body });
  });
  await page.route("**/events?*", (route) => route.abort());
  await page.goto(`/admin/sales/${id}`);
  await says(page, "#phase", "draft");
  await says(page, "#warm", "Waiting for the engine");
  assert.equal(await page.isDisabled("#pause"), true);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("whoever lacks a scope is told so, and refused", async () => {
  const id = await service.sale({ title: "Alice’s" });
  // A seller sees the own campaigns, and may not lead others'.
  const bob = await person(browser, service, "bob", { role: "seller" });
  await bob.page.goto("/admin");
  await says(bob.page, "main", "To see all, you need the scope read:any");
  await says(bob.page, "#found", "0 found");
  await bob.page.goto(`/admin/sales/${id}`);
  await says(bob.page, "#lacks", "campaigns:write:any");
  assert.equal(await bob.page.locator("#pause, #close, #stock").count(), 0);
  await says(bob.page, "main", "scope read:any to see the activity log");
  const refused = await bob.page.evaluate(async (path) => (await fetch(path, { method: "POST" })).status,
    `/v1/campaigns/${id}/pause`);
  assert.equal(refused, 403);
  // The service refuses a sale for another seller, and the form names the missing scope.
  await bob.page.goto("/admin/sales/new");
  await bob.page.fill("#title", "Not mine");
  await bob.page.fill("#seller", "carol");
  await bob.page.click("#create");
  await says(bob.page, "#outcome", "scope campaigns:write:any");
  assert.deepEqual(bob.faults, []);
  await bob.context.close();

  // A signed-out user must sign in first. Without a scope, the desk is not shown.
  const context = await browser.newContext({ baseURL: service.url, locale: "en" });
  const stranger = await context.newPage();
  for (const path of ["/admin", "/admin/sales/new", `/admin/sales/${id}`]) {
    await stranger.goto(path);
    assert.equal(new URL(stranger.url()).search, `?then=${path}`);
  }
  assert.equal(await stranger.inputValue("#role"), "operator");
  await stranger.goto("/admin/operation");
  assert.equal(await stranger.inputValue("#role"), "admin");
  await context.close();
  const eve = await person(browser, service, "eve");
  assert.equal(await eve.page.locator("a[href='/admin']").count(), 0);
  for (const path of ["/admin", "/admin/sales/new", `/admin/sales/${id}`]) {
    const response = await eve.page.goto(path);
    assert.equal(response?.status(), 403);
    await says(eve.page, "main", "This desk is for operators");
    await says(eve.page, "main", "You have: claim, send");
    assert.doesNotMatch((await response?.text()) ?? "", /Alice/);
  }
  await assertAccessible(eve.page);
  assert.deepEqual(eve.faults, []);
  await eve.context.close();
});

test("an order and a user are looked up, and neither stands in a URL", async () => {
  const sale = await service.sale({ title: "Looked up", per_user_limit: 5 });
  const { id: order } = await service.call("POST", `/v1/sales/${sale}/orders`, { quantity: 1 });
  const { id: deposit } = await service.deposit("rich", 12_345);
  const rich = await person(browser, service, "rich");
  const post = (/** @type {string} */ path, /** @type {object} */ body) =>
    rich.page.evaluate(async ([url, text]) => {
      const headers = { "Content-Type": "application/json" };
      return (await fetch(url, { method: "POST", headers, body: text })).status;
    }, [path, JSON.stringify(body)]);
  for (const quantity of [1, 2]) assert.equal(await post(`/v1/sales/${sale}/orders`, { quantity }), 201);
  const total = { amount: 700, currency: "CNY" };
  await service.deposit("alice", 700);
  const sent = { title: "For the rich", total, shares: 1, split: { rule: "equal" } };
  const { id: packet } = await service.call("POST", "/v1/red-packets", sent);
  assert.equal(await post(`/v1/red-packets/${packet}/claims`, {}), 201);
  await rich.context.close();
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  /** @type {string[]} */
  const visited = [];
  page.on("framenavigated", (frame) => visited.push(frame.url()));
  await page.goto("/admin");
  await page.click("#look");
  await page.fill("#wanted", order);
  await page.keyboard.press("Enter");
  await says(page, "#figures", "alice");
  await says(page, "#figures", "held");
  await says(page, "#figures", "¥5.00");
  assert.equal(await page.getAttribute("#figures a", "href"), `/admin/sales/${sale}`);
  await page.fill("#wanted", "rich");
  await page.keyboard.press("Enter");
  await says(page, "#figures", "¥130.45");
  await says(page, "#orders li", "Looked up · 2 units · ¥10.00 · held");
  await says(page, "#claims li", `¥7.00 · ${packet} · share 1`);
  await says(page, "#postings li", "¥7.00 · share of a red packet");
  // Details are words, and no JSON.
  await says(page, "#actions li", "alice deposited · amount: ¥123.45");
  assert.doesNotMatch((await page.textContent("#actions")) ?? "", /[{}"]/);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#csv")]);
  const lines = readFileSync(await file.path(), "utf8").slice(1).trimEnd().split("\r\n");
  assert.equal(lines[0], "at,kind,account,amount_minor,currency,campaign,order,reference");
  assert.match(lines[1], new RegExp(`^20[^,]+,grant,\\w+,700,CNY,${packet},,$`));
  assert.match(lines.at(-1) ?? "", new RegExp(`^20[^,]+,deposit,\\w+,12345,CNY,,,${deposit}$`));
  await picture(page, "desk-lookup");
  await assertAccessible(page);
  // Each list loads older rows separately.
  await page.route("**/v1/accounts/rich/orders?*", (route) =>
    route.continue({ url: route.request().url().replace("limit=50", "limit=1") }));
  await page.click("#lookup button");
  await until(async () => (await page.locator("#orders li").count()) === 1);
  await page.click("#older-orders");
  await until(async () => (await page.locator("#orders li").count()) === 2);
  assert.equal(await page.isVisible("#older-orders"), false);
  await page.fill("#wanted", `${sale}-77`);
  await page.keyboard.press("Enter");
  await says(page, "#outcome", "there is no such order");
  assert.equal(await page.isVisible("#result"), false);
  for (const url of visited) assert.doesNotMatch(url, /rich|alice|\?/);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
  // If the user lacks the scope, the page says so.
  const bob = await person(browser, service, "bob", { role: "seller" });
  await bob.page.goto("/admin/lookup");
  await says(bob.page, "#outcome", "You need the scope read:any");
  await bob.page.fill("#wanted", "rich");
  await bob.page.keyboard.press("Enter");
  await says(bob.page, "#outcome", "You need the scope read:any");
  assert.equal(await bob.page.isVisible("#result"), false);
  await bob.context.close();
});

test("a script in a title stays text at the desk", async () => {
  const title = "</script><script>document.title='bad'</script><img src=x onerror=alert(1)>";
  const id = await service.sale({ title });
  const olga = await person(browser, service, "olga", { role: "operator" });
  await olga.page.goto(`/admin/sales/${id}`);
  await says(olga.page, "#phase", "live");
  assert.equal(await olga.page.textContent("h1"), title);
  await olga.page.goto("/admin");
  await olga.page.fill("#words", "onerror");
  await until(async () => {
    await olga.page.click("#search button");
    return (await olga.page.locator("#campaigns b").allTextContents()).includes(title);
  });
  assert.equal(await olga.page.locator("main img").count(), 0);
  assert.notEqual(await olga.page.title(), "bad");
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("the desk with the keyboard alone, on a phone, in Chinese", async () => {
  const phone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true, locale: "zh-CN" };
  const olga = await person(browser, service, "olga", { ...phone, role: "operator" });
  const { page } = olga;
  const assertFits = async () => {
    const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(isWide, false, `${page.url()} is wider than the phone`);
  };
  await page.goto("/admin");
  await assertFits();
  await tabTo(page, "new");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/admin/sales/new");
  await tabTo(page, "title");
  await page.keyboard.type("手机");
  await assertFits();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}$/);
  await says(page, "#phase", "进行中");
  await assertFits();
  await tabTo(page, "pause");
  await page.keyboard.press("Enter");
  await says(page, "#phase", "已暂停");
  await until(() => page.evaluate(() => document.activeElement?.id === "resume"));
  await picture(page, "desk-phone");
  await tabTo(page, "close");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#confirm[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#confirm", { state: "hidden" });
  await says(page, "#phase", "已暂停");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#confirm[open]");
  await tabTo(page, "close-yes");
  await page.keyboard.press("Enter");
  await says(page, "#phase", "已关闭");
  await assertAccessible(page);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("an operator starts a scheduled sale, and cancels its held orders", async () => {
  const starts_at = new Date(Date.now() + 3_600_000).toISOString();
  const id = await service.sale({ title: "Later", stock: 9, per_user_limit: 9, starts_at });
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto(`/admin/sales/${id}`);
  await says(page, "#phase", "scheduled");
  await page.click("#start");
  await says(page, "#phase", "live");
  assert.equal(await page.isDisabled("#start"), true);
  await says(page, "#actions li", "olga started it");
  for (const quantity of [1, 2]) await service.call("POST", `/v1/sales/${id}/orders`, { quantity });
  // Nothing is cancelled until it is confirmed.
  await page.click("#cancel-held");
  await page.click("#confirm-held button[value=no]");
  await says(page, "#granted", "3");
  await page.click("#cancel-held");
  await page.click("#held-yes");
  await says(page, "#outcome", "2 cancelled; 0 were paid");
  await says(page, "#granted", "0");
  await assertAccessible(page);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});
