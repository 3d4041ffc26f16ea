// @ts-check
// What pages keep and say over a visit: invitations, notes that are still true, numbers of one moment, and the focus.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, cancelOrder, launch, person, says, until } from "./stage.mjs";

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

/** A packet of alice's. @param {object} [terms] */
async function packet(terms = {}) {
  await service.deposit("alice", 100_000);
  const total = { amount: 600, currency: "CNY" };
  const usual = { title: "Best wishes", total, shares: 3, split: { rule: "equal" } };
  return (await service.call("POST", "/v1/red-packets", { ...usual, ...terms })).id;
}

const later = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();

/** The element that has the focus: its id or class. @param {Page} page */
const focused = (page) => page.evaluate(() => {
  const it = document.activeElement;
  return it === document.body || !it ? "body" : it.id || it.className;
});

test("an invitation survives the sign-in and a change of the language", async () => {
  const id = await packet({ audience: { invitation: true } });
  const { invitation } = await service.call("POST", `/v1/campaigns/${id}/invitations`, {});
  const context = await browser.newContext({ baseURL: service.url, locale: "en" });
  const page = await context.newPage();
  page.setDefaultTimeout(5_000);
  const wanted = `${service.url}/p/${id}#invitation=${invitation}`;
  await page.goto(wanted);
  await page.click("#sign-in");
  await page.waitForURL(/\/sign-in\?then=/);
  await page.click("#language");
  await until(async () => (await page.getAttribute("html", "lang")) === "zh");
  await page.click("#language");
  await until(async () => (await page.getAttribute("html", "lang")) === "en");
  await page.fill("#as", "ann");
  await page.click("form[action^='/sign-in/as'] button");
  await page.waitForSelector("#open");
  assert.equal(page.url(), wanted);
  await page.click("#language");
  await until(async () => (await page.getAttribute("html", "lang")) === "zh");
  assert.equal(new URL(page.url()).hash, `#invitation=${invitation}`);
  await page.click("#open");
  await says(page, "#outcome", "2.00");
  await context.close();

  // The same with a token, and for a sale whose page needs no sign-in.
  const sale = await service.sale({ audience: { invitation: true } });
  const { invitation: other } = await service.call("POST", `/v1/campaigns/${sale}/invitations`, {});
  const second = await browser.newContext({ baseURL: service.url, locale: "en" });
  const buyer = await second.newPage();
  buyer.setDefaultTimeout(5_000);
  await buyer.goto(`/s/${sale}#invitation=${other}`);
  if (!buyer.url().includes("/sign-in")) await buyer.click("#sign-in");
  await buyer.fill("#token", await service.tokenOf("bob"));
  await buyer.click("#token-form button");
  await buyer.waitForSelector("#buy:not([disabled])");
  await buyer.click("#buy");
  await buyer.waitForSelector(".order .amount");
  await second.close();
});

test("the button to buy stays where it is when the countdown ends", async () => {
  for (const terms of [{ per_user_limit: 3 }, { audience: { passphrase: "sesame" }, per_user_limit: 2 }, {}]) {
    const id = await service.sale({ starts_at: later(600_000), ends_at: later(86_400_000), ...terms });
    const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
    await ann.page.goto(`/s/${id}`);
    await says(ann.page, "#buy", "");
    await ann.page.waitForSelector("#clock b");
    const box = async () => JSON.stringify(await ann.page.locator("#buy").boundingBox());
    const before = await box();
    await service.call("PATCH", `/v1/sales/${id}`, { starts_at: later(1_000) });
    await ann.page.waitForSelector("#buy:not([disabled])");
    assert.equal(await box(), before, JSON.stringify(terms));
    await ann.context.close();
  }
});

test("notes end with what they speak of", async () => {
  /** @type {string[]} */
  const wrong = [];
  // A hold that has run out, while the service has not answered yet.
  const held = await service.sale({ hold_seconds: 2 });
  const ann = await person(browser, service, "ann");
  await ann.page.route("**/v1/orders/*", () => {});
  await ann.page.goto(`/s/${held}`);
  await ann.page.click("#buy");
  await ann.page.waitForSelector(".order");
  await until(async () => !/[1-9]/.test((await ann.page.textContent(".order .hold")) ?? "1"));
  await new Promise((done) => setTimeout(done, 300));
  if (await ann.page.isVisible(".order .pay")) wrong.push("a hold that is over can be paid");
  if (await ann.page.isVisible(".order .cancel")) wrong.push("a hold that is over can be cancelled");
  const told = (await ann.page.textContent("#outcome")) ?? "";
  if (told) wrong.push(`a hold is over, and the page says: ${told}`);
  await ann.context.close();

  // Units that are restocked, and the end.
  const id = await service.sale({ stock: 1 });
  const token = await service.tokenOf("carl");
  const { id: order } = await service.call("POST", `/v1/sales/${id}/orders`, { quantity: 1 }, token);
  const bob = await person(browser, service, "bob");
  await bob.page.goto(`/s/${id}`);
  await until(async () => await bob.page.isDisabled("#buy"));
  await says(bob.page, "#numbers", "0 of 1 left");
  await service.call("POST", `/v1/orders/${order}/cancellation`, undefined, token);
  await bob.page.waitForSelector("#buy:not([disabled])");
  await until(async () => (await bob.page.textContent("#outcome")) !== "");
  await service.call("POST", `/v1/campaigns/${id}/close`, {});
  await until(async () => await bob.page.isDisabled("#buy"));
  const ended = (await bob.page.textContent("#outcome")) ?? "";
  if (ended) wrong.push(`the sale is over, and the page says: ${ended}`);
  await bob.context.close();

  // A cancelled order is not the buyer's, and a button that cannot be pressed is no success.
  const two = await service.sale({ stock: 2, per_user_limit: 2 });
  const dora = await person(browser, service, "dora");
  await dora.page.goto(`/s/${two}`);
  await dora.page.click("#buy");
  await dora.page.waitForSelector(".order[data-state=held]");
  await service.call("POST", `/v1/sales/${two}/orders`, { quantity: 1 });
  await says(dora.page, "#numbers", "0 of 2 left");
  const look = await dora.page.getAttribute("#buy", "class");
  if (look?.includes("mine")) wrong.push("a held order is green");
  await cancelOrder(dora.page);
  await dora.page.waitForSelector(".order[data-state=cancelled]");
  const yours = (await dora.page.textContent(".order .yours")) ?? "";
  if (yours.includes("Yours")) wrong.push(`a cancelled order is headed: ${yours}`);
  await dora.context.close();
  assert.deepEqual(wrong, []);
});

test("the numbers of a packet are of one moment", async () => {
  const id = await packet();
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/p/${id}`);
  const full = "3 of 3 left · ¥6.00 of ¥6.00 left";
  await says(ann.page, "#numbers", full);
  // The stream tells of a share before the page has asked for the money.
  /** @type {(value: unknown) => void} */
  let letGo = () => {};
  const gone = new Promise((done) => { letGo = done; });
  const asked = new Promise((done) => {
    void ann.page.route(`**/v1/red-packets/${id}`, async (route) => {
      done(null);
      await gone;
      await route.continue();
    });
  });
  await service.call("POST", `/v1/red-packets/${id}/claims`, undefined, await service.tokenOf("bob"));
  await asked;
  await new Promise((done) => setTimeout(done, 600));
  assert.equal(await ann.page.textContent("#numbers"), full);
  letGo(null);
  await says(ann.page, "#numbers", "2 of 3 left · ¥4.00 of ¥6.00 left");
  await ann.context.close();
});

test("the focus stays with what was pressed, or goes to what came of it", async () => {
  /** @type {string[]} */
  const wrong = [];
  const id = await packet();
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  const press = async (/** @type {string} */ selector, /** @type {() => Promise<unknown>} */ done) => {
    await page.focus(selector);
    await page.keyboard.press("Enter");
    await done();
    await new Promise((done) => setTimeout(done, 300));
    if ((await focused(page)) === "body") wrong.push(`${selector} loses the focus`);
  };
  await page.goto(`/p/${id}`);
  await page.waitForSelector("#open:not([hidden])");
  await press("#open", () => page.waitForSelector(".opened"));
  const sale = await service.sale({ stock: 5, per_user_limit: 2 });
  await page.goto(`/s/${sale}`);
  await page.waitForSelector("#buy:not([disabled])");
  await press("#buy", () => page.waitForSelector(".order"));
  await press(".cancel", () => page.waitForSelector("#sure[open]"));
  await press("#sure-yes", () => page.waitForSelector(".order[data-state=cancelled]"));
  await press("#buy", () => page.waitForSelector(".order[data-state=held]"));
  await press("#buy[data-deed=pay]", () => page.waitForSelector(".order[data-state=paid]"));
  // The second unit reaches the limit, so the button cannot be pressed again.
  await press("#buy", () => page.waitForSelector(".order[data-state=held]"));
  // A refusal leaves the focus on the button.
  const other = await service.sale({ audience: { passphrase: "sesame" } });
  await page.goto(`/s/${other}`);
  await page.fill("#passphrase", "wrong!");
  await press("#buy", () => says(page, "#outcome", "passphrase"));
  assert.deepEqual(wrong, []);
  await ann.context.close();
});

test("a page that does not exist is a page", async () => {
  const ann = await person(browser, service, "ann");
  for (const path of ["/nope", "/p", "/admin/nope", "/s/1/2"]) {
    const response = await ann.page.goto(path);
    assert.equal(response?.status(), 404, path);
    assert.match(response?.headers()["content-type"] ?? "", /^text\/html/, path);
    assert.match(response?.headers()["content-security-policy"] ?? "", /default-src 'none'/, path);
    assert.equal(await ann.page.locator("main a[href='/']").count(), 1, path);
    assert.equal(await ann.page.textContent("#user"), "ann", path);
  }
  await assertAccessible(ann.page);
  // Programs get problem details, and so does every path of the API.
  for (const [path, accept] of [["/nope", "application/json"], ["/nope", "*/*"], ["/v1/nope", "text/html"]]) {
    const answer = await fetch(service.url + path, { headers: { Accept: accept } });
    assert.equal(answer.status, 404);
    assert.match(answer.headers.get("content-type") ?? "", /problem\+json/, `${path} ${accept}`);
  }
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("whoever was signed out elsewhere is led to the sign-in, and back", async () => {
  const [id, sale] = [await packet(), await service.sale({})];
  for (const [path, button] of [[`/p/${id}#x=1`, "#open"], [`/s/${sale}#x=1`, "#buy"]]) {
    const ann = await person(browser, service, "ann");
    await ann.page.goto(path);
    await ann.page.waitForSelector(`${button}:not([disabled]):not([hidden])`);
    const tab = await ann.context.newPage();
    await tab.goto("/");
    await tab.click("#sign-out");
    await tab.waitForSelector("#sign-in");
    await ann.page.click(button);
    await ann.page.click("#signed-out a", { timeout: 5_000 });
    await assertAccessible(ann.page);
    await ann.page.fill("#as", "ann");
    await ann.page.click("form[action^='/sign-in/as'] button");
    await ann.page.waitForURL(`**${path}`);
    await ann.page.click(button);
    await says(ann.page, "main", button === "#open" ? "¥2.00" : "¥5.00");
    await ann.context.close();
  }
});

test("a sent packet's link and code survive a reload", async () => {
  await service.deposit("sam", 50_000);
  const sam = await person(browser, service, "sam");
  const { page } = sam;
  await page.goto("/send");
  await page.click("#send-button");
  await page.waitForSelector("#sent:not([hidden])");
  const link = await page.textContent("#link");
  assert.match(link ?? "", /\/p\/[0-9a-f-]{36}$/);
  await page.reload();
  await page.waitForSelector("#sent:not([hidden])", { timeout: 5_000 });
  assert.equal(await page.textContent("#link"), link);
  await page.locator("#qr").evaluate((image) => /** @type {HTMLImageElement} */ (image).decode());
  assert.equal(await page.isVisible("#send"), false);
  await page.click("#link");
  await page.waitForURL("**/p/*");
  await page.goBack();
  await page.waitForSelector("#sent:not([hidden])");
  await page.click("a[href='/send']");
  await page.waitForSelector("#send:not([hidden])");
  assert.equal(await page.isVisible("#sent"), false);
  assert.deepEqual(sam.faults, []);
  await sam.context.close();
});

test("a picture that does not load is replaced by a drawing", async () => {
  const [dead, live] = [await service.sale({ image_url: "/assets/0/no-such.png" }),
    await service.sale({ image_url: "/assets/0/icon.svg" })];
  const ann = await person(browser, service, "ann");
  await ann.page.goto(`/s/${live}`);
  await ann.page.waitForSelector(".photo img");
  assert.equal(await ann.page.isVisible(".photo svg"), false);
  await ann.page.goto(`/s/${dead}`);
  await ann.page.waitForSelector(".photo svg:not([hidden])", { timeout: 5_000 });
  assert.equal(await ann.page.locator(".photo img").count(), 0);
  await ann.context.close();
});

test("the own share and the luckiest come first, however many there are", async () => {
  const id = await packet({ shares: 160, total: { amount: 16_000, currency: "CNY" },
    split: { rule: "normal", min: 1, max: 150 } });
  const users = Array.from({ length: 160 }, (_, i) => `user-${i + 1}`);
  for (const user of users) {
    await service.call("POST", `/v1/red-packets/${id}/claims`, undefined, await service.tokenOf(user));
  }
  const { luckiest } = await service.call("GET", `/v1/red-packets/${id}`);
  // A user whose share is beyond the first page of draws, and is not the luckiest.
  const me = users.findLast((user) => user !== luckiest.user) ?? "";
  const own = await person(browser, service, me);
  const { page } = own;
  await page.goto(`/p/${id}`);
  const lines = page.locator("#draws li");
  await until(async () => (await lines.count()) >= 100);
  await says(page, "#outcome", "You got");
  await until(async () => (await lines.nth(1).textContent())?.includes("luckiest") ?? false);
  assert.match((await lines.nth(0).textContent()) ?? "", new RegExp(`^${me}`));
  assert.equal(await page.locator("#draws .mine").count(), 1);
  assert.equal(await page.locator("#draws .best").count(), 1);
  // Nothing is listed twice, also once everything is there.
  await until(async () => {
    if ((await lines.count()) === 160) return true;
    // The button may go before it is pressed.
    await page.click("#more", { timeout: 500 }).catch(() => {});
    return false;
  });
  const all = await page.locator("#draws li span:first-child").allTextContents();
  assert.equal(new Set(all).size, 160);
  assert.deepEqual(own.faults, []);
  await own.context.close();
  // A user without a share sees the luckiest first.
  const other = await person(browser, service, "other");
  await other.page.goto(`/p/${id}`);
  await says(other.page, "#draws li", "luckiest");
  await other.context.close();
});

test("filters of the desk are in the URL, and Back and a reload keep them", async () => {
  const blue = await service.sale({ title: "Blue boat" });
  await service.sale({ title: "Red boat" });
  await service.call("POST", `/v1/campaigns/${blue}/pause`);
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/admin");
  await page.fill("#words", "boat");
  await page.selectOption("#since", "7");
  await page.check("#archived");
  await page.selectOption("#phase", "paused");
  const shown = async () => {
    const fields = ["#kind", "#phase", "#since", "#words"].map((id) => page.inputValue(id));
    const cards = await page.locator("#campaigns b").allTextContents();
    return [...(await Promise.all(fields)), await page.isChecked("#archived"), cards.join("|")].join(" ");
  };
  const expected = "sales paused 7 boat true Blue boat";
  const isShown = () => until(async () => {
    if ((await shown()) === expected) return true;
    await page.click("#search button");
    return false;
  }, shown);
  await isShown();
  await page.click("#campaigns a");
  await page.waitForURL("**/admin/sales/*");
  await page.goBack();
  await says(page, "#found", "found");
  assert.equal(await shown(), expected);
  await page.reload();
  await says(page, "#found", "found");
  assert.equal(await shown(), expected);
  const url = page.url();
  await page.goto("/");
  await page.goto(url);
  await says(page, "#found", "found");
  assert.equal(await shown(), expected);
  assert.equal(new URL(url).search, "");
  await page.click("#campaigns-link");
  await page.waitForURL("**/admin");
  await says(page, "#found", "found");
  assert.match(await shown(), /^sales {2}31 {2}false /);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});
