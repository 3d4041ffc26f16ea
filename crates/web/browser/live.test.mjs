// @ts-check
// What a node does, as operators see it: the charts move while people buy.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PROGRAM, Service, assertAccessible, freePort, launch, person, picture, says, until } from "./stage.mjs";

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

/** The shape that a chart has. @param {Page} page @param {string} id */
const drawn = (page, id) => page.$$eval(`#${id} polygon, #${id} path`, (shapes) =>
  shapes.map((shape) => shape.getAttribute("points") ?? shape.getAttribute("d") ?? "").join(";"));

test("claims, latency, lag and the admitted share are drawn as they happen", async () => {
  const sale = await service.sale({ title: "Watched", stock: 3, per_user_limit: 3 });
  const olga = await person(browser, service, "olga", { role: "operator" });
  const { page } = olga;
  await page.goto("/admin");
  await page.click("#live");
  await says(page, "#ends-words", "claims this second");
  assert.equal(await page.textContent("#latency-words"), "No claims this second.");
  assert.doesNotMatch((await page.textContent("main")) ?? "", /– (ms|of)/);
  const before = await drawn(page, "ends");
  // Three are sold, and then there is nothing left. It stays in the chart.
  const order = { quantity: 1 };
  for (let i = 0; i < 3; i++) await service.call("POST", `/v1/sales/${sale}/orders`, order);
  await assert.rejects(service.call("POST", `/v1/sales/${sale}/orders`, order));
  await until(async () => (await drawn(page, "ends")) !== before);
  const green = () => page.getAttribute("#ends polygon[fill='#2e8b57']", "points");
  assert.notEqual(await green(), "");
  assert.notEqual(await drawn(page, "latency"), ";;");
  assert.notEqual(await drawn(page, "admitted"), "");
  await says(page, "#legend", "sold out");
  for (const id of ["ends", "latency", "lag", "admitted"]) {
    const edges = page.locator(`figure:has(#${id}) .edges span`);
    assert.match((await edges.allTextContents()).join("|"), /^\d[^|]*\|\|\d+:\d\d:\d\d.[AP]M\|\d+:\d\d:\d\d.[AP]M$/);
  }
  await page.click("#numbers summary");
  await says(page, "#numbers tbody", " %");
  // The chart includes samples from before the page was loaded.
  await page.reload();
  await until(async () => ((await green()) ?? "") !== "");
  // For the picture there is something to see.
  const crowd = await service.sale({ title: "Crowd", stock: 60, per_user_limit: 60 });
  for (let second = 0; second < 8; second++) {
    const orders = Array.from({ length: 4 + 5 * (second % 3) + 2 * second }, () =>
      service.call("POST", `/v1/sales/${crowd}/orders`, order).catch(() => {}));
    await Promise.all([...orders, new Promise((done) => setTimeout(done, 900))]);
  }
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, "desk-live");
  await assertAccessible(page);

  // Held charts stop, and continue after release.
  await page.click("#hold");
  assert.equal(await page.getAttribute("#hold", "aria-pressed"), "true");
  const held = await drawn(page, "ends");
  await new Promise((done) => setTimeout(done, 2_500));
  assert.equal(await drawn(page, "ends"), held);
  await page.click("#hold");
  await until(async () => (await drawn(page, "ends")) !== held);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("where motion is unwelcome the charts change seldom; a phone shows them in Chinese; others see none", async () => {
  const calm = { reducedMotion: /** @type {const} */ ("reduce"), viewport: { width: 360, height: 640 } };
  const olga = await person(browser, service, "olga", { ...calm, locale: "zh-CN", role: "operator" });
  await olga.page.goto("/admin/live");
  await says(olga.page, "#ends-words", "本秒");
  await olga.page.click("#numbers summary");
  let rows = await olga.page.textContent("#numbers tbody");
  const changed = async () => {
    await until(async () => (await olga.page.textContent("#numbers tbody")) !== rows);
    rows = await olga.page.textContent("#numbers tbody");
    return Date.now();
  };
  const first = await changed();
  assert.ok((await changed()) - first > 3_500, "it changes all the time");
  const isWide = await olga.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(isWide, false, "it is wider than the phone");
  await assertAccessible(olga.page);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
  const bob = await person(browser, service, "bob", { role: "seller" });
  await bob.page.goto("/admin");
  assert.equal(await bob.page.locator("#live").count(), 0);
  await bob.page.goto("/admin/live");
  await says(bob.page, "#lacks", "read:any");
  const refused = await bob.page.evaluate(async () => (await fetch("/v1/stats")).status);
  assert.equal(refused, 403);
  assert.deepEqual(bob.faults, []);
  await bob.context.close();
});

test("charts go on when the node is started again, and begin anew", async () => {
  const [folder, port] = [mkdtempSync(join(tmpdir(), "qiang-test-again-")), await freePort()];
  const secret = join(folder, "secret");
  writeFileSync(secret, "0123456789abcdef".repeat(4));
  const url = `http://127.0.0.1:${port}`;
  // The secret survives a restart, so users stay signed in.
  const start = async () => {
    const env = { ...process.env, QIANG__LOG__LEVEL: "error", QIANG__AUTH__HS256_SECRET_FILE: secret,
      QIANG__ADMIN__LISTEN: "server", QIANG__SERVER__DRAIN_DELAY_MS: "0" };
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--data", join(folder, "qiang.db")];
    const node = spawn(PROGRAM, args, { stdio: "inherit", env });
    await until(async () => (await fetch(`${url}/healthz`)).ok);
    return node;
  };
  const stop = async (/** @type {import("node:child_process").ChildProcess} */ node) => {
    const ended = new Promise((done) => node.once("exit", done));
    node.kill("SIGTERM");
    await ended;
  };
  let node = await start();
  try {
    const words = ["token", "--sub", "olga", "--scope", "read:any", "--secret-file", secret];
    const value = execFileSync(PROGRAM, words).toString().trim();
    const context = await browser.newContext({ baseURL: url, locale: "en" });
    await context.addCookies([{ name: "qiang", value, url }]);
    const page = await context.newPage();
    await page.goto("/admin/live");
    await page.click("#numbers summary");
    const times = () => page.locator("#numbers tbody td:first-child").allTextContents();
    await until(async () => (await times()).length >= 7);
    await stop(node);
    await says(page, "#outcome", "Connection to the node lost");
    const before = new Set(await times());
    node = await start();
    // None of the earlier process's stats stay, and those of this one are not left out until it has as many.
    await until(async () => {
      const now = await times();
      return now.length > 0 && now.length < before.size && now.every((time) => !before.has(time));
    }, async () => `${await times()} after ${[...before]}`);
    await until(async () => (await page.textContent("#outcome")) === "");
    await context.close();
  } finally {
    await stop(node);
    rmSync(folder, { recursive: true, force: true });
  }
});
