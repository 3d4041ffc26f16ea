// @ts-check
// Lighthouse's marks for the pages that a crowd opens. It takes a telephone on a slow line.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import lighthouse from "lighthouse";
import { chromium } from "playwright-core";
import { ARGUMENTS, CHROMIUM, Service, person } from "./stage.mjs";

/** The least of each, of 100. Performance depends on the machine as well: it is told, and must be no disaster. */
const LEAST = { accessibility: 100, "best-practices": 95, performance: 80 };

/** @type {Service} */
let service;
/** @type {import("playwright-core").Browser} */
let browser;
let port = 0;

/** A port that nobody has. @returns {Promise<number>} */
const freePort = () => new Promise((done) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address();
    server.close(() => done(typeof address === "object" && address ? address.port : 0));
  });
});

before(async () => {
  service = await Service.start();
  port = await freePort();
  const args = [...ARGUMENTS, `--remote-debugging-port=${port}`];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

/** @param {import("node:test").TestContext} context @param {string} path @param {string} Cookie */
async function judge(context, path, Cookie) {
  const result = await lighthouse(service.url + path, { port, output: "json", logLevel: "error",
    extraHeaders: { Cookie }, onlyCategories: Object.keys(LEAST) });
  assert.ok(result, "Lighthouse says nothing");
  const { categories, audits } = result.lhr;
  for (const [name, least] of Object.entries(LEAST)) {
    const { score, auditRefs } = categories[name];
    const mark = Math.round((score ?? 0) * 100);
    context.diagnostic(`lighthouse ${path.slice(0, 2)} ${name}: ${mark} of 100, at least ${least}`);
    const lost = auditRefs.filter(({ id, weight }) => weight > 0 && (audits[id].score ?? 1) < 0.9);
    assert.ok(mark >= least, `${name}: ${mark}: ${lost.map(({ id }) => `${id}: ${audits[id].displayValue ?? ""}`)}`);
  }
}

test("the sale's and the packet's page have good marks", async (context) => {
  const ann = await person(browser, service, "ann");
  const cookies = (await ann.context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const sale = await service.sale({ title: "Phone", stock: 5 });
  await service.deposit("alice", 1_000);
  const { id: packet } = await service.call("POST", "/v1/red-packets", { title: "恭喜发财", shares: 5,
    total: { amount: 1_000, currency: "CNY" }, split: { rule: "double_average" } });
  await judge(context, `/s/${sale}`, cookies);
  await judge(context, `/p/${packet}`, cookies);
  await ann.context.close();
});
