// @ts-check
// Operators' desk: look-up of an order or a user. The page's URL contains neither.

import { LINES_MAX, save } from "./csv.js";
import { showActions } from "./desk-actions.js";
import { chip, tell } from "./desk.js";
import { ask, digitsOf, element, facts, field, freshKey, grouped, keepFocus, mark, minor, moment, price, say, show,
  whole } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */

/** An order's id: its sale's, and its number. */
const ORDER = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d{1,10}$/i;

/** Figures that are amounts. */
const MONEY = ["amount", "available", "due", "refunded"];
const amountOf = (/** @type {string} */ text) =>
  Object.assign(document.createElement("span"), { className: "amount", textContent: text });

/** @param {[name: string, value: string | Node][]} figures */
function showFigures(figures) {
  element("figures").replaceChildren(...figures.map(([name, value]) => {
    const [group, term, text] = ["div", "dt", "dd"].map((it) => document.createElement(it));
    show(term, say(name));
    // Each amount stays in one piece.
    const parts = MONEY.includes(name) ? String(value).split(", ") : [];
    text.append(...parts.length ? parts.flatMap((part, i) => [i ? ", " : "", amountOf(part)]) : [value]);
    group.append(term, text);
    return group;
  }));
}

/** What is owed for an order and what was paid back, in each currency that payments came in.
 * @typedef {{ due: Money, refunded: Money }} Owed
 * @param {Owed & { other_currencies?: Owed[] }} refunds @returns {[string, string][]} */
const dueOf = (refunds) => [refunds, ...refunds.other_currencies ?? []].flatMap(({ due, refunded }) =>
  [["due", price(due)], ["refunded", price(refunded)]]);

/** @param {string} id @param {string} sale */
async function showOrder(id, sale) {
  const order = await ask("GET", `/v1/orders/${id}`);
  if (order?.status !== 200) return tell(order);
  const refunds = await ask("GET", `/v1/orders/${id}/refunds`);
  if (refunds?.status !== 200) return tell(refunds);
  const { user, quantity, returned_quantity, amount, state, hold_until } = order.body;
  const returned = returned_quantity;
  const units = returned ? say("units_returned", { quantity, returned }) : grouped(quantity);
  const buyer = Object.assign(document.createElement("button"), { className: "plain", textContent: user });
  buyer.addEventListener("click", () => lookUp(user));
  showFigures([["user", buyer], ["quantity", units], ["amount", price(amount)],
    ["state", chip(state, say(`order_${state}`))],
    .../** @type {[string, string][]} */ (state === "held" ? [["held_until", moment(Date.parse(hold_until))]] : []),
    ...dueOf(refunds.body),
    ["sale", link(`/admin/sales/${sale}`, sale)]]);
  /** @type {Owed} */
  const { due, refunded } = refunds.body;
  // `due` is all that ever was: a refund is of what is left of it.
  showDeeds({ ...order.body, due: { ...due, amount: due.amount - refunded.amount }, refunded });
  return "";
}

// --- Actions on an order.

/** @typedef {{ id: string, quantity: number, returned_quantity?: number, amount: Money, state: string,
 *   due: Money, refunded: Money, created_at: string, hold_until: string, hold_extension_seconds?: number }} Ordered */
/** @typedef {{ scopes: string[], is: (order: Ordered) => boolean, path: string | ((reference: string) => string),
 *   fields: string[], danger?: boolean }} Deed */

/** Scopes of which one is needed, when it can be done, and what it asks for. @type {Record<string, Deed>} */
const DEEDS = {
  payment: { scopes: ["pay"], is: ({ state }) => state === "held", path: "payment", fields: ["reference", "money"] },
  return: { scopes: ["campaigns:write", "campaigns:write:any", "admin"], is: ({ state, amount }) => state === "paid"
    && amount.amount > 0, path: "return", fields: ["units"] },
  refund: { scopes: ["pay"], is: ({ due }) => due.amount > 0, path: "refunds", fields: ["reference", "money"] },
  reversal: { scopes: ["pay"], is: ({ refunded }) => refunded.amount > 0,
    path: (reference) => `refunds/${encodeURIComponent(reference)}/reversal`, fields: ["reference"], danger: true },
  // By as much as may be: the hold of the sale again.
  extend: { scopes: ["campaigns:write", "admin"],
    is: ({ state, hold_extension_seconds: longer }) => state === "held" && !longer, path: "hold-extension",
    fields: [] },
  cancel: {
    scopes: ["admin", "campaigns:write"],
    is: ({ state, amount }) => state === "held" || (state === "paid" && amount.amount === 0),
    path: "cancellation", fields: ["units"], danger: true,
  },
};

/** Hold of an order that is not extended. @param {Ordered} order */
const holdSeconds = (order) => Math.round((Date.parse(order.hold_until) - Date.parse(order.created_at)) / 1_000);

/** What is asked for: an order that is paid, as a free one is, is cancelled whole. @param {string} name
 * @param {Ordered} order */
const fieldsOf = (name, order) => (name === "cancel" && order.state !== "held" ? [] : DEEDS[name].fields);

/** @type {Ordered | undefined} */
let current;
/** What is asked about, and the key of it: a retry after a lost answer has its effect once. */
let [asked, deedKey] = ["", ""];

/** @param {Ordered} order */
function showDeeds(order) {
  current = order;
  const scopes = facts.session?.scopes ?? [];
  /** @type {Set<string>} */
  const lacking = new Set();
  for (const button of document.querySelectorAll("#order-actions [data-deed]")) {
    const it = /** @type {HTMLButtonElement} */ (button);
    const deed = DEEDS[it.dataset.deed ?? ""];
    const may = deed.scopes.some((scope) => scopes.includes(scope));
    it.hidden = !deed.is(order);
    it.disabled = !may;
    if (!it.hidden && !may) lacking.add(deed.scopes[0]);
  }
  show(element("deeds-note"), [...lacking].map((scope) => say("not_you", { scope })).join(" "));
}

const confirm = /** @type {HTMLDialogElement} */ (element("confirm"));

/** @param {string} name */
function askFor(name) {
  const order = current;
  if (!order) return;
  [asked, deedKey] = [name, freshKey()];
  const [{ danger }, fields] = [DEEDS[name], fieldsOf(name, order)];
  const isRefund = name === "refund";
  show(element("confirm-title"), say(`${name}_title`));
  show(element("confirm-help"), say(`${name}_help`));
  for (const id of ["units", "money", "reference"]) {
    element(`${id}-line`).hidden = !fields.includes(id);
    mark(id, "");
  }
  const { amount, currency } = isRefund ? order.due : order.amount;
  const digits = digitsOf(currency) ?? 0;
  const text = String(amount).padStart(digits + 1, "0");
  field("money").value = digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text;
  show(element("money-currency"), `(${currency})`);
  field("units").value = String(order.quantity - (order.returned_quantity ?? 0));
  field("reference").value = "";
  const yes = element("confirm-yes");
  show(yes, say(`${name}_do`));
  yes.className = danger ? "danger" : "main";
  confirm.showModal();
}

for (const button of document.querySelectorAll("#order-actions [data-deed]")) {
  button.addEventListener("click", () => askFor(/** @type {HTMLElement} */ (button).dataset.deed ?? ""));
}
element("confirm-no").addEventListener("click", () => confirm.close());
element("confirm-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const order = current;
  if (!order) return;
  const [{ path }, fields] = [DEEDS[asked], fieldsOf(asked, order)];
  const { currency } = asked === "refund" ? order.due : order.amount;
  const [units, amount, reference] = [whole(field("units").value), minor(field("money").value, currency),
    field("reference").value.trim()];
  const left = order.quantity - (order.returned_quantity ?? 0);
  const bad = { units: units >= 1 && units <= left ? "" : "bad_units", money: amount >= 1 ? "" : "bad_price",
    reference: /^[!-~]{1,128}$/.test(reference) ? "" : "bad_id" };
  for (const id of /** @type {(keyof typeof bad)[]} */ (Object.keys(bad))) mark(id, bad[id] ? say(bad[id]) : "");
  const wrong = /** @type {(keyof typeof bad)[]} */ (fields).find((id) => bad[id]);
  if (wrong) {
    field(wrong).focus();
    return;
  }
  const body = { ...(fields.includes("money") && { reference, amount: { amount, currency } }),
    ...(fields.includes("units") && { quantity: units }), ...(asked === "extend" && { seconds: holdSeconds(order) }) };
  const what = typeof path === "string" ? { path, body } : { path: path(reference) };
  const answer = await ask("POST", `/v1/orders/${order.id}/${what.path}`, { body: what.body, key: deedKey });
  confirm.close();
  const isDone = answer !== null && answer.status < 300;
  const sale = order.id.match(ORDER)?.[1] ?? "";
  const wrongNow = await showOrder(order.id, sale);
  await showActions(order.id);
  show(element("outcome"), isDone ? say("done") : tell(answer) || wrongNow);
});

/** @typedef {{ kind: string, account: string, amount: Money, order?: string, campaign?: string, reference?: string,
 *   at: string }} Posting */
/** @typedef {{ id: string, campaign: string, title: string, quantity: number, returned_quantity: number,
 *   amount: Money, state: string, created_at: string }} Order */
/** @typedef {{ campaign: string, number: number, amount: Money, created_at: string }} Draw */

/** What is shown at once, and what one request of a file reads. */
const ON_PAGE = 50;
const ON_FILE = 1_000;
/** Whose account is shown. */
let shown = "";

/**
 * A page of what a user has, the newest first.
 * @param {string} path @param {number} limit @param {string} after
 */
function read(path, limit, after) {
  const query = new URLSearchParams({ limit: String(limit), ...(after && { after }) });
  return ask("GET", `/v1/accounts/${encodeURIComponent(shown)}/${path}?${query}`);
}

/** @param {string} at @param {(string | Node)[]} words */
function line(at, ...words) {
  const [item, text, time] = ["li", "span", "time"].map((it) => document.createElement(it));
  text.append(...words.filter(Boolean).flatMap((word, i) => (i ? [" · ", word] : [word])));
  time.setAttribute("datetime", at);
  show(time, new Date(at).toLocaleString(facts.language));
  item.append(text, time);
  return item;
}

/** @param {string} href @param {string} text */
const link = (href, text) => Object.assign(document.createElement("a"), { href, textContent: text });

/**
 * A list of what a user has, a page at a time. Returns what shows its first page, and says what is wrong.
 * @param {string} path of the list, and the name of it in an answer and of its elements
 * @param {(one: any) => HTMLElement} lineOf
 */
function pages(path, lineOf) {
  const [list, older] = [element(path), element(`older-${path}`)];
  let next = "";
  /** @param {string} after */
  const more = async (after) => {
    const user = shown;
    const answer = await read(path, ON_PAGE, after);
    if (user !== shown) return "";
    if (answer?.status !== 200) return tell(answer);
    const lines = answer.body.data.map(lineOf);
    if (after) list.append(...lines);
    else list.replaceChildren(...lines);
    element(`no-${path}`).hidden = list.children.length > 0;
    next = answer.body.next ?? "";
    older.hidden = !next;
    return "";
  };
  older.addEventListener("click", async () => {
    show(element("outcome"), await more(next));
    keepFocus(older, list);
  });
  return () => more("");
}

const lists = [
  pages("orders", (/** @type {Order} */ { id, campaign, title, amount, state, created_at, ...units }) => {
    const { quantity, returned_quantity: returned } = units;
    const words = returned ? say("units_returned", { quantity, returned }) : say("units_words", { quantity });
    const sale = link(`/admin/sales/${campaign}`, title);
    const number = Object.assign(document.createElement("button"), { className: "plain", textContent: id });
    number.addEventListener("click", () => lookUp(id));
    return line(created_at, sale, words, price(amount), say(`order_${state}`), number);
  }),
  pages("claims", (/** @type {Draw} */ { campaign, number, amount, created_at }) =>
    line(created_at, price(amount), link(`/admin/packets/${campaign}`, campaign), say("share_words", { number }))),
  pages("postings", (/** @type {Posting} */ { kind, amount, order, campaign, reference, at }) =>
    line(at, price(amount), `moved_${kind}` in facts.texts ? say(`moved_${kind}`) : kind, order ?? campaign ?? "",
      reference ?? "")),
];

/** @param {string} user */
async function showAccount(user) {
  shown = user;
  const account = await ask("GET", `/v1/accounts/${encodeURIComponent(user)}`);
  if (account?.status !== 200) return tell(account);
  /** @type {{ available: Money, refunds_due: Money }[]} */
  const balances = account.body.balances;
  const all = (/** @type {"available" | "refunds_due"} */ which) =>
    balances.map((balance) => price(balance[which])).join(", ") || say("nothing");
  showFigures([["user", user], ["available", all("available")], ["due", all("refunds_due")]]);
  for (const begin of lists) {
    const problem = await begin();
    if (problem) return problem;
  }
  return "";
}

const NAMES = ["at", "kind", "account", "amount_minor", "currency", "campaign", "order", "reference"];

element("csv").addEventListener("click", async () => {
  const [user, note] = [shown, element("outcome")];
  /** @type {(string | number)[][]} */
  const lines = [NAMES];
  let after = "";
  do {
    const answer = await read("postings", ON_FILE, after);
    if (user !== shown) return;
    if (answer?.status !== 200) return show(note, tell(answer));
    lines.push(...answer.body.data.map((/** @type {Posting} */ it) => [it.at, it.kind, it.account, it.amount.amount,
      it.amount.currency, it.campaign ?? "", it.order ?? "", it.reference ?? ""]));
    show(note, say("lines_read", { count: lines.length - 1 }));
    after = answer.body.next ?? "";
  } while (after && lines.length <= LINES_MAX);
  if (after) show(note, say("lines_many", { count: LINES_MAX }));
  save("postings", lines);
});

/** Looks up an order or a user that the page names. @param {string} wanted */
function lookUp(wanted) {
  field("by").value = "id";
  field("wanted").value = wanted;
  /** @type {HTMLFormElement} */ (element("lookup")).requestSubmit();
}

/** The order that a payment is of; empty if it is of none. @param {string} reference */
async function orderOfPayment(reference) {
  const answer = await ask("GET", `/v1/payments/${encodeURIComponent(reference)}`);
  if (answer?.status !== 200) return { order: "", problem: tell(answer) };
  return { order: String(answer.body.order ?? ""), problem: answer.body.order ? "" : say("no_order_of_payment") };
}

let newest = 0;
element("lookup").addEventListener("submit", async (event) => {
  event.preventDefault();
  const one = ++newest;
  let wanted = field("wanted").value.trim();
  element("result").hidden = true;
  show(element("outcome"), say("searching"));
  let problem = "";
  if (field("by").value === "payment") {
    const found = await orderOfPayment(wanted);
    [wanted, problem] = [found.order || wanted, found.problem];
  }
  const sale = wanted.match(ORDER)?.[1];
  if (!problem) problem = await (sale ? showOrder(wanted, sale) : showAccount(wanted));
  if (one !== newest) return;
  element("order-actions").hidden = problem !== "" || sale === undefined;
  show(element("outcome"), problem);
  show(element("subject"), wanted);
  element("result").hidden = problem !== "";
  element("account").hidden = sale !== undefined;
  if (!problem) await showActions(wanted);
});

// The field is disabled until this script runs, so no early input is lost.
field("wanted").disabled = false;
if (!facts.session?.scopes.includes("read:any")) show(element("outcome"), say("not_you", { scope: "read:any" }));
