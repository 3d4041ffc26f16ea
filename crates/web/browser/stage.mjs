// @ts-check
// Fixtures of the page tests: a service for this test run, a browser, and signed-in users.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

export const PROGRAM = process.env.QIANG ?? "target/debug/qiang";
const PICTURES = process.env.SCREENSHOTS ?? "target/screenshots";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** A service for development, on a free port. */
export class Service {
  /**
   * @param {string} folder @param {import("node:child_process").ChildProcess} process
   * @param {string} url @param {string} token
   */
  constructor(folder, process, url, token) {
    this.folder = folder;
    this.process = process;
    this.url = url;
    this.token = token;
  }

  /** @param {Record<string, string>} [settings] @returns {Promise<Service>} */
  static async start(settings = {}) {
    const folder = mkdtempSync(join(tmpdir(), "qiang-test-pages-"));
    const args = ["serve", "--dev", "--empty", "--listen", "127.0.0.1:0", "--data", join(folder, "qiang.db")];
    const env = { ...process.env, QIANG__LOG__LEVEL: "error", ...settings };
    const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "inherit"], env });
    const lines = createInterface({ input: child.stdout });
    let url = "";
    for await (const line of lines) {
      url ||= line.match(/http:\/\/[^ ]+/)?.[0] ?? "";
      const token = line.match(/^TOKEN=(.+)$/)?.[1];
      if (token) {
        lines.resume();
        return new Service(folder, child, url, token);
      }
    }
    throw new Error("the service did not start");
  }

  async stop() {
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  /**
   * @param {string} method @param {string} path @param {object} [body] @param {string} [token]
   * @returns {Promise<any>}
   */
  async call(method, path, body, token = this.token) {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** The token of a user, as the page for trying out makes it. @param {string} user @returns {Promise<string>} */
  async tokenOf(user) {
    const body = new URLSearchParams({ user, role: "user" });
    const answer = await fetch(`${this.url}/sign-in/as`, { method: "POST", body, redirect: "manual" });
    const token = answer.headers.get("set-cookie")?.match(/^qiang=([^;]+)/)?.[1];
    assert.ok(token, `${user} is not signed in`);
    return token;
  }

  /** Puts money into an account. @param {string} user @param {number} amount @param {string} [currency] */
  deposit(user, amount, currency = "CNY") {
    return this.call("POST", `/v1/accounts/${user}/deposits`, { reference: randomUUID(), amount, currency });
  }

  /** A sale of alice's. @param {object} terms */
  async sale(terms) {
    const usual = { title: "Phone", stock: 5, unit_price: { amount: 500, currency: "CNY" }, admission_percent: 0 };
    return (await this.call("POST", "/v1/sales", { ...usual, ...terms })).id;
  }
}

export const ARGUMENTS = ["--no-sandbox", "--disable-background-networking"];

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });

/**
 * Somebody with a browser of their own, who is signed in.
 * @param {import("playwright-core").Browser} browser @param {Service} service @param {string} user
 * @param {import("playwright-core").BrowserContextOptions & { role?: string }} [options]
 */
export async function person(browser, service, user, { role = "user", ...options } = {}) {
  const usual = { baseURL: service.url, locale: "en", viewport: { width: 960, height: 760 } };
  const context = await browser.newContext({ ...usual, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  /** @type {string[]} */
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    if (message.text().includes("Content Security Policy")) faults.push(message.text());
  });
  await page.goto("/sign-in");
  await page.fill("#as", user);
  await page.selectOption("#role", role);
  await page.click("form[action='/sign-in/as'] button");
  await page.waitForSelector("#user");
  return { context, page, faults };
}

/**
 * Takes a picture of a page as it is once everything has come to rest.
 * @param {import("playwright-core").Page} page @param {string} name
 */
export async function picture(page, name) {
  mkdirSync(PICTURES, { recursive: true });
  await until(async () => (await page.locator("#numbers").allTextContents()).every((text) => text !== "…"));
  await page.evaluate(async () => {
    scrollTo(0, 0);
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
    const animations = document.getAnimations();
    const ending = animations.filter(({ effect }) => Number.isFinite(Number(effect?.getComputedTiming().endTime)));
    await Promise.all(ending.map(({ finished }) => finished.catch(() => {})));
  });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

/** Nothing serious is wrong for people with disabilities. @param {import("playwright-core").Page} page */
export async function assertAccessible(page) {
  // The policy of pages forbids foreign scripts. `page.evaluate` is not subject to the policy.
  await page.evaluate(AXE);
  const result = await page.evaluate(() => /** @type {any} */ (window).axe.run());
  const serious = result.violations.filter((/** @type {any} */ it) => ["serious", "critical"].includes(it.impact));
  const told = serious.map((/** @type {any} */ it) => `${it.id}: ${it.nodes.map((/** @type {any} */ n) => n.html)}`);
  assert.deepEqual(told, []);
}

/** Waits until something is so. @param {() => Promise<boolean>} is @param {() => Promise<string>} [otherwise] */
export async function until(is, otherwise) {
  for (const began = Date.now(); !(await is().catch(() => false)); await new Promise((done) => setTimeout(done, 50))) {
    if (Date.now() - began > 15_000) throw new Error(`it did not come about: ${is} ${await otherwise?.()}`);
  }
}

/** A phone of somebody who reads Chinese. */
export const PHONE = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true, locale: "zh-CN" };

/** Nothing is wider than the window. @param {import("playwright-core").Page} page */
export async function assertFits(page) {
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(isWide, false, "it is wider than the window");
}

/** Goes to an element with the keyboard alone. @param {import("playwright-core").Page} page @param {string} id */
export async function tabTo(page, id) {
  for (let i = 0; i < 40; i++) {
    if (await page.evaluate((id) => document.activeElement?.matches(id), id)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`the keyboard does not come to ${id}`);
}

/**
 * Waits until an element has a text.
 * @param {import("playwright-core").Page} page @param {string} selector @param {string} text
 */
export async function says(page, selector, text) {
  const said = async () => (await page.locator(selector).first().textContent({ timeout: 1_000 })) ?? "";
  const told = async () => `${selector} says ${await said()} and not ${text}`;
  await until(async () => (await said()).includes(text), told);
}

/** Cancels an order, and says yes to the question. @param {import("playwright-core").Page} page
 * @param {string} [order] */
export async function cancelOrder(page, order = ".order[data-state=held]") {
  await page.click(`${order} .cancel`);
  await page.click("#sure-yes");
}

/** A port that nobody listens on. @returns {Promise<number>} */
export function freePort() {
  return new Promise((done) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => done(typeof address === "object" ? address?.port ?? 0 : 0));
    });
  });
}
