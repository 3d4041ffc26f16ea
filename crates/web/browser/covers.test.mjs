// @ts-check
// Covers of red packets: chosen by the sender, and shown on the envelope and on the poster.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, assertFits, launch, person, picture, says, tabTo, until } from "./stage.mjs";

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

const COVERS = ["classic", "blossom", "lantern", "cloud", "birthday", "wedding"];

/** A packet of a sender's. @param {string} [cover] */
async function packet(cover) {
  await service.deposit("alice", 100_000);
  const terms = { title: "Best wishes", total: { amount: 1_000, currency: "CNY" }, shares: 3,
    split: { rule: "double_average" }, ...(cover && { cover }) };
  return (await service.call("POST", "/v1/red-packets", terms)).id;
}

/** Colour at the top of the envelope, and the number of golden points that the poster has on its flap.
 * @param {import("playwright-core").Page} page */
async function looks(page) {
  const top = await page.evaluate(() => {
    const envelope = /** @type {HTMLElement} */ (document.getElementById("envelope"));
    return getComputedStyle(envelope).getPropertyValue("--top").trim();
  });
  await page.click("#poster");
  await page.waitForSelector("#poster-box[open]");
  const poster = await page.evaluate(() => {
    const canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("canvas"));
    const { data } = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).getImageData(0, 0, 720, 340);
    // Beside the golden edge.
    const corner = 4 * (6 * 720 + 6);
    const first = [...data.slice(corner, corner + 3)];
    // The brush is gold over the flap: green is raised above the corner's, and blue is low. Words are in the middle.
    let gold = 0;
    for (let at = 0; at < data.length; at += 4) {
      const isMiddle = Math.abs((at / 4) % 720 - 360) < 210;
      const [red, green, blue] = [data[at], data[at + 1], data[at + 2]];
      if (!isMiddle && red > 120 && green > first[1] + 40 && blue < 160 && red > blue) gold++;
    }
    return { first, gold };
  });
  await page.keyboard.press("Escape");
  return { top, ...poster };
}

test("a sender chooses a cover with the keyboard, and users see it", async () => {
  await service.deposit("sam", 50_000);
  const sam = await person(browser, service, "sam");
  const { page } = sam;
  await page.goto("/send");
  assert.deepEqual(await page.locator("input[name=cover]").evaluateAll((all) =>
    all.map((it) => /** @type {HTMLInputElement} */ (it).value)), COVERS);
  await tabTo(page, "input[value=classic]");
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowDown");
  assert.equal(await page.isChecked("input[value=wedding]"), true);
  await page.click("text=Clouds");
  assert.equal(await page.isChecked("input[value=cloud]"), true);
  await picture(page, "send-cover");
  await assertAccessible(page);
  await page.click("#send-button");
  await page.waitForSelector("#sent:not([hidden])");
  const link = (await page.textContent("#link")) ?? "";
  const sent = await service.call("GET", `/v1/red-packets/${link.split("/").pop()}`);
  assert.equal(sent.cover, "cloud");
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  await ann.page.goto(link);
  await ann.page.waitForSelector("#envelope.cover-cloud .motif path");
  assert.equal(await ann.page.isVisible("#envelope .motif"), true);
  await ann.page.click("#open");
  await says(ann.page, "#outcome", "You got");
  assert.equal(await ann.page.isVisible("#envelope .motif"), false, "an opened flap has no picture");
  for (const one of [sam, ann]) {
    assert.deepEqual(one.faults, []);
    await one.context.close();
  }
});

test("each cover has its own look on the envelope and the poster, and its page stays small", async () => {
  const ann = await person(browser, service, "ann", { ...PHONE, locale: "en" });
  const { page } = ann;
  const seen = new Set();
  let edge = 0;
  for (const cover of COVERS) {
    let bytes = 0;
    /** @type {Set<string>} */
    const asked = new Set();
    /** @param {import("playwright-core").Response} response */
    const count = async (response) => {
      const { pathname } = new URL(response.url());
      if (pathname.endsWith("/events") || pathname.endsWith("icon.svg")) return;
      asked.add(pathname);
      bytes += (await response.body().catch(() => Buffer.alloc(0))).length;
    };
    const id = await packet(cover === "classic" ? undefined : cover);
    page.on("response", count);
    await page.goto(`/p/${id}`, { waitUntil: "load" });
    await says(page, "#numbers", "left");
    page.off("response", count);
    assert.ok(asked.size <= 3, [...asked].join(" "));
    assert.ok(bytes < 50_000, `${cover}: ${bytes} bytes`);
    assert.equal(await page.locator("#envelope").getAttribute("class"), `envelope cover cover-${cover}`);
    await assertFits(page);
    await assertAccessible(page);
    await picture(page, `packet-${cover}`);
    const { top, first, gold } = await looks(page);
    const colour = [1, 3, 5].map((at) => parseInt(top.slice(at, at + 2), 16));
    const isSame = first.every((value, i) => Math.abs(value - colour[i]) < 4);
    assert.ok(isSame, `${cover}: the poster has ${first}, the envelope ${colour}`);
    // The flap has a golden edge, and its picture is golden as well.
    if (cover === "classic") edge = gold;
    else assert.ok(gold > edge + 1_000, `${cover}: ${gold} and ${edge}`);
    seen.add(top);
  }
  assert.equal(seen.size, COVERS.length);
  assert.deepEqual(ann.faults, []);
  await ann.context.close();
});

test("the desk's form offers the covers, and an unknown one is refused", async () => {
  await service.deposit("olga", 10_000);
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/admin/packets/new");
  await page.selectOption("#cover", "birthday");
  await page.fill("#total", "50.00");
  await page.click("#create");
  await page.waitForURL(/\/admin\/packets\/[0-9a-f-]{36}$/);
  const id = page.url().split("/").pop();
  await until(async () => (await service.call("GET", `/v1/red-packets/${id}`)).cover === "birthday");
  await assert.rejects(packet("hologram"), /classic, blossom, lantern, cloud, birthday, wedding/);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});
