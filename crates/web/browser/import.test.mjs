// @ts-check
// Many sales at once at the desk: a CSV file with a dry run, templates, and duplicates.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PHONE, Service, assertAccessible, assertFits, launch, person, picture, says, until } from "./stage.mjs";

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

/** @param {import("playwright-core").Page} page @param {string | Buffer} text */
const choose = (page, text) => page.setInputFiles("#file",
  { name: "sales.csv", mimeType: "text/csv", buffer: Buffer.from(text) });

/** Errors as line, column and text. @param {import("playwright-core").Page} page */
const wrongOf = async (page) => {
  const rows = await page.locator("#wrong tbody tr").all();
  return Promise.all(rows.map(async (row) => (await row.locator("td").allTextContents()).join(" · ")));
};

const HEADER = "id,title,stock,price,currency,starts_at,ends_at,per_user_limit,description,list_price,requirements";

test("a file is checked first: each error names line and column, and nothing is created", async () => {
  const sally = await person(browser, service, "sally", { role: "seller", viewport: { width: 1_280, height: 800 } });
  const { page } = sally;
  let posted = 0;
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().endsWith("/v1/sales")) posted++;
  });
  await page.goto("/admin");
  await page.click("#import-link");
  assert.equal(await page.isDisabled("#import"), true);
  await choose(page, [HEADER,
    's-1,"Phone, ""black""",100,999.00,CNY,2031-01-15T08:00:00Z,2031-01-15T09:00:00Z,2,"Two\nlines",1299.00,ticket',
    "s-2,,0,9.999,CNY,soon,,1,,,",
    "s-1,Tea,5,300,JPY,2031-01-15T08:00:00Z,2031-01-15T07:00:00Z,9,,200,magic",
    "s-4,Cup,5,300,JPY"].join("\r\n"));
  await says(page, "#outcome", "10 errors. Nothing was created.");
  assert.deepEqual(await wrongOf(page), [
    "4 · title · Enter a value.",
    "4 · stock · Enter a whole number, at least 1.",
    "4 · price · Enter an amount in this currency, such as 12.50.",
    "4 · starts_at · Enter a time such as 2031-01-15T08:00:00Z.",
    "5 · per_user_limit · Enter a number from 1 to the stock.",
    "5 · requirements · This value isn’t known.",
    "5 · list_price · Enter an amount above the unit price.",
    "5 · ends_at · Enter a time after the start, not in the past.",
    "5 · id · Line 2 has the same ID.",
    "6 ·  · The row has 5 cells, the header 11.",
  ].sort((a, b) => Number(a.split(" ")[0]) - Number(b.split(" ")[0])));
  assert.equal(await page.isDisabled("#import"), true);
  await picture(page, "desk-import");
  await assertAccessible(page);
  for (const [text, expected] of [
    ["id,title,stock,price\na,b,1,2", "1 · currency · The column is missing."],
    ["id,title,stock,price,currency,colour\na,b,1,2,CNY,red", "1 · colour · There is no such column."],
    ["id,title,stock,price,currency,id\n", "1 · id · The column is there twice."],
    ['id,title,stock,price,currency\na,"b,1,2.00,CNY', "1 ·  · A quotation mark has no end."],
    ["id,title,stock,price,currency\n", "1 ·  · The file has no rows."],
    ["", "1 · id · The column is missing."],
    ["id,title,stock,price,currency,audience\na,b,1,2.00,CNY,users", "2 · audience · Audiences are not imported"],
  ]) {
    await choose(page, text);
    const told = async () => (await wrongOf(page)).join("|");
    await until(async () => (await wrongOf(page))[0]?.startsWith(expected), told);
  }
  await choose(page, Buffer.from([0x69, 0x64, 0x0a, 0xff, 0xfe]));
  await until(async () => (await wrongOf(page))[0] === "2 ·  · The text is not UTF-8.");
  assert.equal(posted, 0);
  assert.deepEqual(sally.faults, []);
  await sally.context.close();
});

test("sales of a file are created once, however often it is imported", async () => {
  const sally = await person(browser, service, "sue", { role: "seller" });
  const { page } = sally;
  await page.goto("/admin/sales/import");
  const file = `\ufeff${HEADER}\n`
    + 't-1,"Phone, ""black""",100,999.00,CNY,2031-01-15T08:00:00Z,2031-01-15T09:00:00Z,2,"Two\nlines",1299.00,ticket\n'
    + "t-2,Tea,5,300,JPY,,,,,,\n";
  await choose(page, file);
  await says(page, "#outcome", "2 sales without an error. Nothing was created yet.");
  await page.click("#import");
  await says(page, "#outcome", "2 created, 0 present already, 0 refused.");
  const token = (await sally.context.cookies()).find(({ name }) => name === "qiang")?.value;
  const { data } = await service.call("GET", "/v1/sales", undefined, token);
  const [phone, tea] = data;
  assert.deepEqual([phone.title, phone.stock, phone.unit_price.amount, phone.per_user_limit, phone.description,
    phone.list_price.amount, phone.requirements, phone.state.starts_at],
  ['Phone, "black"', 100, 99_900, 2, "Two\nlines", 129_900, ["ticket"], "2031-01-15T08:00:00.000Z"]);
  assert.deepEqual([tea.title, tea.unit_price], ["Tea", { amount: 300, currency: "JPY" }]);
  await page.click("#import");
  await says(page, "#outcome", "0 created, 2 present already, 0 refused.");
  // The service may refuse more than this page knows of: line and column are named as well.
  await choose(page, file.replace("t-1", "t-3").replace("t-2,Tea", "t-4,Tea").replace(",ticket", ",order_check"));
  await page.click("#import");
  await says(page, "#outcome", "1 created, 0 present already, 1 refused.");
  assert.match((await wrongOf(page))[0], /^2 · requirements · /);
  assert.equal((await service.call("GET", "/v1/sales", undefined, token)).data.length, 3);
  assert.deepEqual(sally.faults, []);
  await sally.context.close();
});

test("a form begins with a template, and keeps the operator's own", async () => {
  await service.deposit("olga", 100_000);
  const olga = await person(browser, service, "olga", { role: "operator", ...PHONE, locale: "en" });
  const { page } = olga;
  await page.goto("/admin/sales/new");
  await page.selectOption("#template", "template_drop");
  assert.deepEqual([await page.inputValue("#stock"), await page.isChecked("#line"), await page.isChecked("#ticket")],
    ["10", true, true]);
  await page.fill("#title", "Friday drop");
  await page.fill("#passphrase", "sesame");
  await page.click("#template-save");
  await says(page, "#template-note", "Friday drop");
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("sesame")), false);
  await assertFits(page);
  await assertAccessible(page);
  await page.selectOption("#template", "");
  assert.deepEqual([await page.inputValue("#title"), await page.inputValue("#stock"), await page.isChecked("#line")],
    ["", "100", false]);
  await page.reload();
  await page.selectOption("#template", { label: "Friday drop" });
  assert.deepEqual([await page.inputValue("#title"), await page.inputValue("#stock"), await page.isChecked("#line")],
    ["Friday drop", "10", true]);
  await page.click("#create");
  await page.waitForURL(/\/admin\/sales\/[0-9a-f-]{36}$/);
  await page.goto("/admin/sales/new");
  await page.selectOption("#template", { label: "Friday drop" });
  await page.click("#template-remove");
  await says(page, "#template-note", "Template deleted.");
  assert.equal(await page.locator("#template option").count(), 4);

  // A packet, and its duplicate.
  await page.goto("/admin/packets/new");
  await page.selectOption("#template", "template_wedding");
  await page.fill("#total", "88.80");
  await page.click("#create");
  await page.waitForURL(/\/admin\/packets\/[0-9a-f-]{36}$/);
  await page.click("#duplicate");
  await says(page, "#outcome", "Copied from");
  assert.deepEqual([await page.inputValue("#total"), await page.inputValue("#shares"), await page.inputValue("#cover")],
    ["88.80", "50", "wedding"]);
  assert.deepEqual(olga.faults, []);
  await olga.context.close();
});
