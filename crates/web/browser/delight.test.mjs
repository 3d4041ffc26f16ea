// @ts-check
// Red packets among people: faces, times, luck, proofs and posters that are passed on; and links seen by strangers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
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

/** A packet of alice's. @param {object} [terms] */
async function packet(terms = {}) {
  await service.deposit("alice", 100_000);
  const total = { amount: 8_888, currency: "CNY" };
  const usual = { title: "恭喜发财", total, shares: 3, split: { rule: "double_average" } };
  return (await service.call("POST", "/v1/red-packets", { ...usual, ...terms })).id;
}

/** Opens it by the API. @param {string} id @param {string[]} users */
async function open(id, ...users) {
  for (const user of users) {
    await service.call("POST", `/v1/red-packets/${id}/claims`, undefined, await service.tokenOf(user));
  }
}

test("a list has faces, times, a crown and ranks, and tells how soon all was opened", async () => {
  const id = await packet();
  const cid = await person(browser, service, "cid", { ...PHONE, locale: "en" });
  const { page } = cid;
  await open(id, "ann", "bob");
  await page.goto(`/p/${id}`);
  await says(page, "#numbers", "1 of 3 left");
  assert.equal(await page.isVisible("#summary"), false);
  await page.click("#open");
  await says(page, "#outcome", "You got");
  await says(page, "#summary", "3 opened in ");
  assert.match((await page.textContent("#summary")) ?? "", /^3 opened in \d+ s · You’re no\. [123] of 3$/);
  const { data: claims } = await service.call("GET", `/v1/red-packets/${id}/claims`);
  const mine = claims.find((/** @type {any} */ it) => it.user === "cid").amount.amount;
  const rank = 1 + claims.filter((/** @type {any} */ it) => it.amount.amount > mine).length;
  await says(page, "#summary", `no. ${rank} of 3`);
  const faces = await page.locator("#draws li").evaluateAll((all) => all.map((it) =>
    [it.getAttribute("data-initial"), it.className.match(/tint-\d/)?.[0]].join(" ")).sort());
  // The same tints as in `avatar.rs`.
  assert.deepEqual(faces, ["A tint-4", "B tint-0", "C tint-6"]);
  assert.match((await page.textContent("#draws li")) ?? "", /\d\d:\d\d:\d\d/);
  assert.equal(await page.locator("#draws .best").count(), 1);
  // The list may be drawn again in between.
  await until(async () => (await page.$eval("#draws .best", (it) => getComputedStyle(it, "::after").clipPath))
    .includes("polygon"));
  await page.waitForSelector("#send-too:not([hidden])");
  await assertFits(page);
  await assertAccessible(page);
  assert.deepEqual(cid.faults, []);
  await cid.context.close();
});

test("an opened packet counts up under confetti, and its text is exact all the time", async () => {
  const id = await packet({ shares: 1, split: { rule: "equal" } });
  const ann = await person(browser, service, "ann");
  const { page } = ann;
  await page.goto(`/p/${id}`);
  await page.evaluate(() => {
    /** @type {string[]} */
    const seen = /** @type {any} */ (window).seen = [];
    const look = () => {
      const large = document.querySelector("#outcome b");
      if (large) seen.push(`${large.textContent} ${large.className} ${document.querySelectorAll(".confetti").length}`);
      requestAnimationFrame(look);
    };
    look();
  });
  await page.click("#open");
  await page.waitForSelector(".confetti", { state: "attached" });
  await page.waitForSelector(".confetti", { state: "detached" });
  const seen = await page.evaluate(() => /** @type {any} */ (window).seen);
  assert.ok(seen.every((/** @type {string} */ it) => it.startsWith("¥88.88 ")), seen.join("|"));
  assert.ok(seen.some((/** @type {string} */ it) => it === "¥88.88 counting 1"), seen.join("|"));
  assert.equal(await page.getAttribute("#outcome b", "class"), "");
  // A reload shows the amount without a feast.
  await page.reload();
  await says(page, "#outcome", "¥88.88");
  assert.equal(await page.locator(".confetti, .counting").count(), 0);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a finished packet is verified with one tap, and the proof is passed on", async () => {
  const id = await packet();
  const ann = await person(browser, service, "ann", { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = ann;
  await page.goto(`/p/${id}`);
  await says(page, "#numbers", "3 of 3 left");
  assert.equal(await page.isVisible("#fair"), false);
  await open(id, "ann", "bob", "cid");
  await page.click("#fair");
  await says(page, "#fair", "Verified fair");
  await says(page, "#verdict", "all shares follow");
  await assertAccessible(page);
  await picture(page, "packet-fair");
  await page.click("#share-proof");
  await says(page, "#shared", "Copied");
  const text = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(text.endsWith(`${service.url}/p/${id}#fair`), text);
  await ann.context.close();
  // The link that was passed on verifies in the browser of who follows it.
  const bob = await person(browser, service, "bob");
  await bob.page.goto(`/p/${id}#fair`);
  await says(bob.page, "#fair", "Verified fair");
  assert.deepEqual(bob.faults, []);
  await bob.context.close();
});

test("a packet is shared as a link and as a poster", async () => {
  const id = await packet({ title: "恭喜发财，大吉大利，万事如意，身体健康，阖家欢乐" });
  const ann = await person(browser, service, "ann", { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = ann;
  await page.goto(`/p/${id}`);
  await page.click("#share");
  await says(page, "#shared", "Copied");
  assert.ok((await page.evaluate(() => navigator.clipboard.readText())).endsWith(`${service.url}/p/${id}`));
  await page.click("#poster");
  await page.waitForSelector("#poster-box[open]");
  await assertAccessible(page);
  await picture(page, "packet-poster");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  assert.match(file.suggestedFilename(), /\.png$/);
  const bytes = readFileSync(await file.path());
  assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [720, 1_080]);
  assert.ok(bytes.length > 20_000, `${bytes.length} bytes`);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a stranger sees what a link leads to, signs in on the tap, and has it", async () => {
  const [id, sale] = [await packet(), await service.sale({ title: "Teapot", per_user_limit: 3 })];
  const context = await browser.newContext({ baseURL: service.url, locale: "en" });
  const page = await context.newPage();
  page.setDefaultTimeout(8_000);
  await page.goto(`/p/${id}`);
  assert.equal(new URL(page.url()).pathname, `/p/${id}`);
  await says(page, "h1", "恭喜发财");
  await says(page, ".sender", "alice");
  await says(page, "#no-draws", "Sign in to see who got what");
  await assertAccessible(page);
  await page.click("#open");
  await page.waitForURL("**/sign-in?then=*");
  await page.fill("#as", "ann");
  await page.click("form[action='/sign-in/as'] button");
  await says(page, "#outcome", "You got");
  // Nothing is opened or bought again by a reload, and no link does it.
  await page.goto("/");
  await page.click("#sign-out");
  await page.waitForSelector("#sign-in");
  await page.goto(`/s/${sale}`);
  await says(page, "h1", "Teapot");
  await page.fill("#quantity", "2");
  await page.click("#buy");
  await page.waitForURL("**/sign-in?then=*");
  await page.fill("#as", "bob");
  await page.click("form[action='/sign-in/as'] button");
  await says(page, ".yours", "Yours: 2");
  await page.reload();
  await says(page, "#buy", "Pay ¥10.00");
  assert.equal((await service.call("GET", `/v1/campaigns/${sale}/state`)).granted, 2);
  await context.close();
});

test("a link has a preview in chats, with words, a picture and no redirect", async () => {
  const id = await packet({ title: 'Luck "&" <b>joy</b>' });
  const sale = await service.sale({ title: "Teapot", image_url: "/assets/0/icon.svg" });
  const tags = async (/** @type {string} */ path) => {
    const answer = await fetch(service.url + path, { redirect: "manual", headers: { "Accept-Language": "en" } });
    assert.equal(answer.status, 200, path);
    const text = await answer.text();
    const found = text.matchAll(/<meta property="og:(\w+)" content="([^"]*)">/g);
    return Object.fromEntries([...found].map((it) => it.slice(1)));
  };
  const red = await tags(`/p/${id}`);
  assert.equal(red.title, "Luck &quot;&amp;&quot; &lt;b&gt;joy&lt;/b&gt;");
  assert.equal(red.description, "alice sent you a red packet. Tap to open.");
  assert.equal(red.url, `${service.url}/p/${id}`);
  const cover = await fetch(red.image);
  assert.equal(cover.headers.get("content-type"), "image/png");
  assert.equal(Buffer.from(await cover.arrayBuffer()).readUInt32BE(16), 1_200);
  const shop = await tags(`/s/${sale}`);
  assert.equal(shop.image, `${service.url}/assets/0/icon.svg`);
  assert.match(shop.description, /^¥5\.00/);
});

test("the first page lists what is on sale, with a search, and what is one's own", async () => {
  const later = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();
  await service.sale({ title: "Blue boat" });
  const coming = await service.sale({ title: "Red boat", starts_at: later(600_000), ends_at: later(900_000) });
  await service.sale({ title: "For friends", audience: { passphrase: "sesame" } });
  const closed = await service.sale({ title: "Closed boat" });
  await service.call("POST", `/v1/campaigns/${closed}/close`, {});
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  const { page } = ann;
  const bought = await service.sale({ title: "Green boat" });
  await service.call("POST", `/v1/sales/${bought}/orders`, { quantity: 1 }, await service.tokenOf("ann"));
  await page.goto("/");
  const titles = () => page.locator(".deals li:visible b").allTextContents();
  await until(async () => (await titles()).includes("Red boat"));
  const all = await titles();
  assert.ok(all.includes("Blue boat") && all.indexOf("Blue boat") < all.indexOf("Red boat"), all.join());
  assert.ok(!all.includes("For friends") && !all.includes("Closed boat"), all.join());
  await says(page, `.deals a[href='/s/${coming}'] .clock`, "Starts in 09:");
  await says(page, `.deals a[href='/s/${coming}'] .price`, "¥5.00");
  await page.fill("#find", "RED");
  await until(async () => (await titles()).join() === "Red boat");
  await says(page, "#found", "1 sale found");
  await says(page, "#own-orders .card", "Green boat");
  await assertFits(page);
  await assertAccessible(page);
  await page.click(".deals li:visible a");
  await page.waitForURL(`**/s/${coming}`);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("a balance has its statement", async () => {
  await service.deposit("dora", 12_345);
  await service.deposit("dora", 500, "JPY");
  const id = await packet();
  await open(id, "dora");
  const dora = await person(browser, service, "dora");
  const { page } = dora;
  await page.click("a[href='/balance']");
  await says(page, ".sums", "JP¥500");
  await says(page, "#statement", "+¥123.45");
  await says(page, "#statement li", "Red packet opened");
  assert.equal(await page.getAttribute("#statement li a", "href"), `/p/${id}`);
  await picture(page, "balance");
  await assertAccessible(page);
  assert.deepEqual(dora.faults, []);
  await dora.context.close();
});
