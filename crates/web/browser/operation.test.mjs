// @ts-check
// What administrators do at the operators' desk, in a browser: partitions, quarantine, audits, webhooks.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Service, assertAccessible, freePort, launch, person, picture, says, until } from "./stage.mjs";

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

/** Changes one row of the service's file by hand. @param {string} sql */
function change(sql) {
  const script = "import sqlite3, sys\nconn = sqlite3.connect(sys.argv[1], timeout=10)\n"
    + "assert conn.execute(sys.argv[2]).rowcount == 1\nconn.commit()\n";
  execFileSync("python3", ["-c", script, join(service.folder, "qiang.db"), sql]);
}

/** Presses a button, and agrees to what it asks. @param {Page} page @param {string} selector */
async function agree(page, selector) {
  await page.click(selector);
  await page.click("#confirm-yes");
}

test("an audit is asked about, runs, and names what offends; what was refused is settled", async () => {
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  await page.goto("/admin");
  await page.click("#operate");
  await says(page, "#partitions li", "Partition 0: ready");
  assert.equal(await page.isVisible("#not-repairable"), true);
  assert.equal(await page.locator("#repair-0").count(), 0);
  await says(page, "#lag-words", "entries wait");
  await page.click("#audit");
  await page.click("#confirm button[value=no]");
  assert.deepEqual((await service.call("GET", "/v1/audits")).data, []);
  await agree(page, "#audit");
  await says(page, "#outcome", "All checks passed");
  await says(page, "#audits li", "ada");
  await says(page, "#actions li", "ada ran an audit");

  // A share that the ledger cannot find: its grant is refused.
  await service.deposit("alice", 200);
  const total = { amount: 200, currency: "CNY" };
  const packet = { title: "Refused", total, shares: 2, split: { rule: "equal" } };
  const { id } = await service.call("POST", "/v1/red-packets", packet);
  change("UPDATE shares SET number = number + 1000 WHERE number = 1");
  await service.call("POST", `/v1/red-packets/${id}/claims`);
  await says(page, "#quarantine li", "granted 1 alice");
  await until(async () => ((await page.textContent("#partitions")) ?? "").includes("1 refused"));
  const redrive = page.locator("#quarantine button");
  await redrive.click();
  await says(page, "#confirm", "Settle entry 0-");
  await page.click("#confirm-yes");
  await until(async () => !["", "Working…"].includes((await page.textContent("#outcome")) ?? ""));
  assert.equal(await redrive.count(), 1);
  await agree(page, "#audit");
  await says(page, "#outcome", "Some checks failed");
  await page.locator("#audits button").first().click();
  await says(page, "#checks", "nothing_aside: 1");
  await says(page, "#checks", "granted 1 alice");
  await picture(page, "desk-operation");
  await assertAccessible(page);
  change("UPDATE shares SET number = number - 1000 WHERE number > 1000");
  await redrive.click();
  await page.click("#confirm-yes");
  await says(page, "#outcome", "settled");
  await page.waitForSelector("#no-quarantine", { state: "visible" });
  await says(page, "#actions li", "ada retried it");
  const { data: entries } = await service.call("GET", "/v1/quarantine");
  assert.deepEqual(entries, []);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("webhooks are tested and tried again, and postings of an account are listed", async () => {
  const { id } = await service.call("POST", "/v1/webhooks", { url: "https://localhost:9/hook" });
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  await page.goto("/admin/operation");
  await says(page, "#webhooks li", "https://localhost:9/hook");
  await agree(page, `#test-${id}`);
  await says(page, "#outcome", "Test event not delivered");
  // Entries of the quarantine may have been tried again before.
  const { data: actions } = await service.call("GET", "/v1/operation-log?subject=the%20service");
  const before = actions.filter((/** @type {{ action: string }} */ it) => it.action === "redrive").length;
  await agree(page, `#again-${id}`);
  await says(page, "#outcome", "Done.");
  const tried = page.locator("#actions li", { hasText: "ada retried it" });
  await until(async () => (await tried.count()) === before + 1);
  await service.deposit("payee", 4_321);
  await page.goto("/admin/lookup");
  await page.fill("#wanted", "payee");
  await page.keyboard.press("Enter");
  await says(page, "#postings li", "¥43.21 · deposit");
  await assertAccessible(page);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("deliveries of a webhook are listed by state, and an event is delivered again", async () => {
  const sink = `https://localhost:${await freePort()}/hook`;
  const { id } = await service.call("POST", "/v1/webhooks", { url: sink });
  const price = { amount: 100, currency: "CNY" };
  const { id: sale } = await service.call("POST", "/v1/sales", { title: "Lamps", stock: 3, unit_price: price });
  const { id: order } = await service.call("POST", `/v1/sales/${sale}/orders`);
  const list = async (/** @type {string} */ state) =>
    (await service.call("GET", `/v1/webhooks/${id}/deliveries?order=${order}&state=${state}`)).data;
  await until(async () => (await list("failed")).length > 0);
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  await page.goto("/admin/operation");
  await page.click(`#deliveries-${id}`);
  await says(page, "#deliveries-of", sink);
  const own = page.locator("#deliveries li", { hasText: order });
  await until(async () => (await own.count()) > 0);
  const [first] = await list("failed");
  for (const words of ["Failed, another attempt follows", first.event, "order.held", "attempt 1", first.error])
    assert.ok((await own.last().textContent())?.includes(words), words);
  assert.equal(await page.evaluate(() => document.activeElement?.id), "deliveries-title");
  await page.selectOption("#delivery-state", "delivered");
  await page.waitForSelector("#no-deliveries", { state: "visible" });
  assert.equal(await own.count(), 0);
  await page.selectOption("#delivery-state", "failed");
  await until(async () => (await own.count()) > 0);
  const before = (await list("failed")).length;
  await own.last().locator("button").click();
  await says(page, "#confirm-help", first.event);
  await page.click("#confirm-yes");
  await says(page, "#outcome", "The event is due now.");
  await until(async () => (await list("failed")).length > before);
  await assertAccessible(page);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("whoever is no administrator is told so", async () => {
  const olga = await person(browser, service, "olga", { role: "operator" });
  await olga.page.goto("/admin");
  await says(olga.page, "#scopes", "read:any");
  assert.equal(await olga.page.locator("#operate").count(), 0);
  await olga.page.goto("/admin/operation");
  await says(olga.page, "#lacks", "You need the scope admin");
  assert.equal(await olga.page.locator("#audit, #partitions").count(), 0);
  const refused = await olga.page.evaluate(async () => (await fetch("/v1/audits", { method: "POST" })).status);
  assert.equal(refused, 403);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});

test("operation with the keyboard alone, on a phone, in Chinese", async () => {
  const phone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true, locale: "zh-CN" };
  const ada = await person(browser, service, "ada", { ...phone, role: "admin" });
  const { page } = ada;
  await page.goto("/admin/operation");
  await says(page, "#partitions li", "分区 0");
  await says(page, "#partitions li", "正常");
  const isAt = (/** @type {string} */ id) => page.evaluate((wanted) => document.activeElement?.id === wanted, id);
  const tabTo = async (/** @type {string} */ id) => {
    for (let i = 0; i < 60 && !(await isAt(id)); i++) await page.keyboard.press("Tab");
    assert.equal(await isAt(id), true, `the keyboard does not come to #${id}`);
  };
  await tabTo("audit");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#confirm[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#confirm", { state: "hidden" });
  await until(() => isAt("audit"));
  await page.keyboard.press("Enter");
  await page.waitForSelector("#confirm[open]");
  await tabTo("confirm-yes");
  await page.keyboard.press("Enter");
  await says(page, "#outcome", "全部通过");
  await says(page, "#actions li", "ada 审计");
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(isWide, false);
  await assertAccessible(page);
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("whoever asks again before the browser has told of the first answer is heard", async () => {
  const ada = await person(browser, service, "ada", { role: "admin" });
  const { page } = ada;
  await page.goto("/admin/operation");
  await page.waitForSelector("#audit");
  await page.evaluate(() => {
    const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("confirm"));
    document.getElementById("audit")?.click();
    dialog.close();
    document.getElementById("audit")?.click();
  });
  await page.click("#confirm-yes");
  await says(page, "#outcome", "All checks passed");
  assert.deepEqual(ada.faults, []);
  await ada.context.close();
});

test("a partition on Redis that has halted is resumed, and repaired", async () => {
  const port = String(await freePort());
  const options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const server = spawn("redis-server", options, { stdio: "ignore" });
  const redis = (/** @type {string[]} */ ...words) =>
    execFileSync("redis-cli", ["-p", port, ...words]).toString().trim();
  /** @type {Service | undefined} */
  let other;
  try {
    await until(async () => redis("PING") === "PONG");
    other = await Service.start({ QIANG__ENGINE__KIND: "redis", QIANG__REDIS__URLS: `redis://127.0.0.1:${port}`,
      QIANG__REDIS__PARTITIONS: "2", QIANG__REDIS__REPAIR: "manual" });
    const ada = await person(browser, other, "ada", { role: "admin" });
    const { page } = ada;
    await page.goto("/admin/operation");
    await says(page, "#partitions", "Partition 1: ready");
    await page.click("#details-1");
    await says(page, "#detail-1", "observed entry");
    const key = "qiang:{p01}:partition";
    const halt = (/** @type {string[]} */ ...more) => {
      redis("HDEL", key, "open");
      redis("HSET", key, "halted", "the test says so", ...more);
    };
    halt();
    await says(page, "#partitions", "Partition 1: not granting");
    await says(page, "#partitions", "the test says so");
    await page.click("#resume-1");
    await says(page, "#confirm", "Accepts the loss");
    await page.click("#confirm button[value=no]");
    assert.equal(redis("HGET", key, "halted"), "the test says so");
    await agree(page, "#resume-1");
    await says(page, "#outcome", "Granting again");
    await until(async () => ((await page.textContent("#partitions")) ?? "").includes("Partition 1: ready"));
    const last = Number(redis("HGET", key, "seq"));
    halt("lost_from", String(last + 1), "lost_to", String(last + 2));
    await says(page, "#partitions", "Partition 1: not granting");
    await agree(page, "#repair-1");
    await says(page, "#outcome", "Repaired:");
    await until(async () => ((await page.textContent("#partitions")) ?? "").includes("Partition 1: ready"));
    // Reconciliation compares engine and ledger, and the page shows its time.
    await agree(page, "#reconcile-1");
    await says(page, "#outcome", "engine and ledger agree");
    await says(page, "#outcome", "Compared at");
    await until(async () => /Last compared .*; fully compared/.test((await page.textContent("#ran-1")) ?? ""));
    await agree(page, "#release-1");
    await says(page, "#outcome", "0 units released");
    await agree(page, "#audit");
    await says(page, "#outcome", "All checks passed");
    // A release of nothing is no action.
    const all = ["resumed it", "repaired a partition", "reconciled a partition"];
    for (const what of all) {
      await says(page, "#actions", `ada ${what}`);
    }
    await picture(page, "desk-operation-redis");
    await assertAccessible(page);
    assert.deepEqual(ada.faults, []);
    await ada.context.close();
  } finally {
    await other?.stop();
    server.kill();
  }
});
