// @ts-check
// Operators' desk: sales from a CSV file. The whole file is checked first; an error names line and column, and nothing
// is sent. Keys follow from the file's ids as those of `qiang import sales`, so a repetition makes only what is
// missing.

import { tell } from "./desk.js";
import { ask, digitsOf, element, field, grouped, minor, problem, say, show, sleep, whole } from "./qiang.js";

/** @typedef {{ line: number, cells: Map<string, string> }} Row */
/** @typedef {{ line: number, column: string, error: string }} Wrong */
/** @typedef {{ line: number, id: string, body: Record<string, any> }} NewSale */

const REQUIRED = ["id", "title", "stock", "price", "currency"];
const OPTIONAL = ["starts_at", "ends_at", "per_user_limit", "hold_seconds", "seller", "product_id", "description",
  "image_url", "gallery", "list_price", "ack", "admission_percent", "payment_policy", "payment_tolerance",
  "waiting_room", "requirements", "reference", "metadata"];
/** Columns of exports that have no meaning here. */
const IGNORED = ["audience", "phase", "granted", "remaining", "returned", "withheld", "created_at", "archived_at"];
/** The column of a field of the request, where it has another name. @type {Record<string, string>} */
const COLUMNS = { unit_price: "price" };
/** Rows of a file; `qiang import sales` takes more. */
const ROWS_MAX = 1_000;
/** Errors that are shown. */
const SHOWN = 100;
/** The service limits new campaigns per minute: the next one waits this long. */
const WAIT_MS = 5_000;
const STOCK_MAX = Number.MAX_SAFE_INTEGER;
const ID = /^[!-~]{1,200}$/;
const VISIBLE = /^[!-~]{1,128}$/;
const PICTURE = /^(https:\/\/.|\/(?!\/))/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** Rows of cells (RFC 4180), each with the line at which it begins; null if a quotation mark has no end.
 * @param {string} text @returns {{ line: number, cells: string[] }[] | null} */
export function cellsOf(text) {
  /** @type {{ line: number, cells: string[] }[]} */
  const rows = [];
  let [cells, cell, isQuoted, line, start] = [/** @type {string[]} */ ([]), "", false, 1, 1];
  const end = () => {
    if (cells.length || cell) rows.push({ line: start, cells: [...cells, cell] });
    [cells, cell, start] = [[], "", line];
  };
  // Spreadsheets begin a file with a byte order mark.
  const signs = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  for (let at = 0; at < signs.length; at++) {
    const sign = signs[at];
    if (sign === "\n") line++;
    if (isQuoted) {
      if (sign !== '"') cell += sign;
      else if (signs[at + 1] === '"') cell += signs[at++];
      else isQuoted = false;
    } else if (sign === '"' && cell === "") isQuoted = true;
    else if (sign === ",") [cells, cell] = [[...cells, cell], ""];
    else if (sign === "\n") end();
    else cell += sign;
  }
  if (isQuoted) return null;
  end();
  return rows;
}

/** Rows of a file by column, and what is wrong with its form. @param {string} text */
export function tableOf(text) {
  /** @type {Wrong[]} */
  const wrong = [];
  const all = cellsOf(text);
  const [header, ...lines] = all ?? [];
  const bad = (/** @type {number} */ line, /** @type {string} */ column, /** @type {string} */ name, parts = {}) =>
    wrong.push({ line, column, error: say(name, parts) });
  if (!all) bad(1, "", "bad_quotes");
  const names = header?.cells ?? [];
  names.forEach((name, i) => {
    if (![...REQUIRED, ...OPTIONAL, ...IGNORED].includes(name)) bad(1, name, "bad_column");
    else if (names.indexOf(name) < i) bad(1, name, "bad_column_twice");
  });
  for (const name of REQUIRED) if (all && !names.includes(name)) bad(1, name, "bad_column_missing");
  if (wrong.length === 0 && lines.length === 0) bad(1, "", "bad_file_empty");
  if (lines.length > ROWS_MAX) bad(lines[ROWS_MAX].line, "", "bad_file_long", { count: ROWS_MAX });
  /** @type {Row[]} */
  const rows = [];
  for (const { line, cells } of wrong.length ? [] : lines) {
    if (cells.length !== names.length) bad(line, "", "bad_cells", { count: cells.length, expected: names.length });
    else rows.push({ line, cells: new Map(names.flatMap((name, i) => (cells[i] ? [[name, cells[i]]] : []))) });
  }
  return { rows, wrong };
}

/** The request of a row, and what is wrong with it. @param {Row} row */
function saleOf({ line, cells }) {
  /** @type {Wrong[]} */
  const wrong = [];
  const bad = (/** @type {string} */ column, /** @type {string} */ name, parts = {}) =>
    wrong.push({ line, column, error: say(name, parts) });
  const text = (/** @type {string} */ name) => cells.get(name);
  for (const name of REQUIRED) if (!text(name)) bad(name, "bad_missing");
  /** The value of a cell, if it is there and right. @template T
   * @param {string} name @param {(text: string) => T | undefined} read @param {string} why
   * @returns {T | undefined} */
  const value = (name, read, why) => {
    const cell = text(name);
    const is = cell === undefined ? undefined : read(cell);
    if (cell !== undefined && is === undefined) bad(name, why);
    return is;
  };
  const number = (/** @type {number} */ least, /** @type {number} */ most) => (/** @type {string} */ cell) =>
    whole(cell) >= least && whole(cell) <= most ? whole(cell) : undefined;
  const matches = (/** @type {RegExp} */ form) => (/** @type {string} */ cell) => (form.test(cell) ? cell : undefined);
  const oneOf = (/** @type {string[]} */ ...words) => (/** @type {string} */ cell) =>
    words.includes(cell) ? cell : undefined;
  const currency = value("currency", (cell) => (digitsOf(cell) === undefined ? undefined : cell), "bad_currency");
  const money = (/** @type {string} */ name) => value(name, (cell) => {
    const amount = currency ? minor(cell, currency) : 0;
    return Number.isNaN(amount) ? undefined : { amount, currency };
  }, "bad_price");
  const time = (/** @type {string} */ name) =>
    value(name, (cell) => (TIME.test(cell) && !Number.isNaN(Date.parse(cell)) ? cell : undefined), "bad_time");
  const length = (/** @type {number} */ most) => (/** @type {string} */ cell) =>
    (cell.trim() && [...cell].length <= most ? cell : undefined);
  const stock = value("stock", number(1, STOCK_MAX), "bad_stock");
  const urls = (/** @type {string} */ cell) => {
    const all = cell.split(/\s+/).filter(Boolean);
    return all.length <= 8 && all.every((url) => PICTURE.test(url)) ? all : undefined;
  };
  const words = (/** @type {string} */ cell) => {
    const all = cell.split(/[ ,]+/).filter(Boolean);
    return all.every((word) => word === "ticket" || word === "order_check") ? all : undefined;
  };
  const object = (/** @type {string} */ cell) => {
    try {
      const all = JSON.parse(cell);
      const isObject = typeof all === "object" && all !== null && !Array.isArray(all);
      return isObject && Object.values(all).every((it) => typeof it === "string") ? all : undefined;
    } catch {
      return undefined;
    }
  };
  const body = {
    title: value("title", length(1_024), "bad_title"), stock, unit_price: money("price"),
    starts_at: time("starts_at"), ends_at: time("ends_at"),
    per_user_limit: value("per_user_limit", number(1, Math.min(stock ?? STOCK_MAX, 2 ** 32 - 1)), "bad_limit"),
    hold_seconds: value("hold_seconds", number(1, 2_592_000), "bad_hold_seconds"),
    seller: value("seller", matches(/^\S{1,128}$/u), "bad_id"),
    product_id: value("product_id", matches(VISIBLE), "bad_id"),
    description: value("description", length(4_096), "bad_description"),
    image_url: value("image_url", matches(PICTURE), "bad_picture"),
    gallery: value("gallery", urls, "bad_gallery"), list_price: money("list_price"),
    ack: value("ack", oneOf("memory", "replica", "fsync", "ledger"), "bad_word"),
    admission_percent: value("admission_percent", (cell) => number(0, 0)(cell) ?? number(100, 10_000)(cell),
      "bad_word"),
    payment_policy: value("payment_policy", oneOf("owed", "accept_over", "accept_with_tolerance"), "bad_word"),
    payment_tolerance: money("payment_tolerance"),
    waiting_room: value("waiting_room", (cell) => (oneOf("true", "false")(cell) ? cell === "true" : undefined),
      "bad_word"),
    requirements: value("requirements", words, "bad_word"),
    reference: value("reference", length(128), "bad_word"), metadata: value("metadata", object, "bad_word"),
  };
  const id = value("id", matches(ID), "bad_id") ?? "";
  const price = body.unit_price?.amount ?? 0;
  if (stock && BigInt(price) * BigInt(stock) > Number.MAX_SAFE_INTEGER) bad("price", "bad_total");
  if (body.list_price && !(body.list_price.amount > price)) bad("list_price", "bad_list_price");
  const isTolerant = body.payment_policy === "accept_with_tolerance";
  if (isTolerant !== !!body.payment_tolerance || (body.payment_tolerance?.amount ?? -1) >= Math.max(1, price)) {
    bad("payment_tolerance", "bad_tolerance");
  }
  if ((body.payment_policy ?? "owed") !== "owed" && price === 0) bad("payment_policy", "bad_policy");
  const begin = body.starts_at ? Date.parse(body.starts_at) : Date.now();
  if (body.ends_at && Date.parse(body.ends_at) <= Math.max(begin, Date.now())) bad("ends_at", "bad_ends");
  // Without its audience, every user could claim.
  if (text("audience")) bad("audience", "bad_audience");
  return { sale: /** @type {NewSale} */ ({ line, id, body }), wrong };
}

/** Sales of a file, and all that is wrong with it. @param {string} text */
export function salesOf(text) {
  const { rows, wrong } = tableOf(text);
  /** @type {Map<string, number>} */
  const lines = new Map();
  const sales = rows.map((row) => {
    const { sale, wrong: more } = saleOf(row);
    const first = lines.get(sale.id);
    if (sale.id && first) more.push({ line: row.line, column: "id", error: say("bad_same_id", { line: first }) });
    else lines.set(sale.id, row.line);
    wrong.push(...more);
    return sale;
  });
  return { sales, wrong: wrong.sort((one, other) => one.line - other.line) };
}

/** Imported rows are refused at a field of the request: the column of its name. @param {string} [pointer] */
function columnOf(pointer = "") {
  const name = pointer.split("/")[1] ?? "";
  return COLUMNS[name] ?? name;
}

function importPage() {
  const [outcome, button] = [element("outcome"), field("import")];
  const rows = /** @type {HTMLTableSectionElement} */ (document.querySelector("#wrong tbody"));
  /** @type {NewSale[]} */
  let sales = [];
  let isImporting = false;

  /** @param {Wrong[]} wrong */
  const showWrong = (wrong) => {
    element("wrong").hidden = wrong.length === 0;
    rows.replaceChildren();
    for (const { line, column, error } of wrong.slice(0, SHOWN)) {
      const row = rows.insertRow();
      for (const text of [grouped(line), column, error]) show(row.insertCell(), text);
    }
  };

  /** Checks a file, and sends nothing. @param {File} file */
  const check = async (file) => {
    const text = await file.text();
    const found = salesOf(text);
    // The browser replaces bytes that are not UTF-8 by this sign.
    const isBroken = text.includes("\ufffd");
    const wrong = isBroken ? [{ line: text.split("\ufffd")[0].split("\n").length, column: "", error: say("bad_utf8") }]
      : found.wrong;
    sales = wrong.length ? [] : found.sales;
    showWrong(wrong);
    button.disabled = sales.length === 0;
    const count = wrong.length ? wrong.length : sales.length;
    show(outcome, say(wrong.length ? "file_wrong" : "file_good", { count }));
  };

  field("file").addEventListener("change", () => {
    const file = field("file").files?.[0];
    if (file && !isImporting) void check(file);
  });

  element("import-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isImporting || sales.length === 0) return;
    isImporting = true;
    button.disabled = field("file").disabled = true;
    const counts = { created: 0, present: 0, refused: 0 };
    /** @type {Wrong[]} */
    const refused = [];
    for (const { line, id, body } of sales) {
      show(outcome, say("importing", { count: counts.created + counts.present + counts.refused, all: sales.length }));
      let answer = await ask("POST", "/v1/sales", { body, key: `import-${id}` });
      while (answer && problem(answer) === "creations-throttled") {
        await sleep(WAIT_MS);
        answer = await ask("POST", "/v1/sales", { body, key: `import-${id}` });
      }
      if (answer?.status === 201) counts.created++;
      else if (answer?.status === 200) counts.present++;
      else {
        counts.refused++;
        const [first] = answer?.body?.errors ?? [];
        refused.push({ line, column: columnOf(first?.pointer), error: first?.detail ?? tell(answer) });
        // Without an answer or a right, the further rows would fare the same.
        if (!answer || ["unauthenticated", "forbidden"].includes(problem(answer))) break;
      }
    }
    showWrong(refused);
    show(outcome, say("imported", counts));
    isImporting = false;
    // The same file may be imported again: what is there stays.
    button.disabled = field("file").disabled = false;
  });
}

if (document.getElementById("import-form")) importPage();
