// @ts-check
// Operators' desk: look-up of an order or a user. The page's URL contains neither.

import { LINES_MAX, save } from "./csv.js";
import { showActions } from "./desk-actions.js";
import { tell } from "./desk.js";
import { ask, element, facts, field, grouped, keepFocus, price, say, show } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */

/** An order's id: its sale's, and its number. */
const ORDER = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d{1,10}$/i;

/** @param {[name: string, value: string | Node][]} figures */
function showFigures(figures) {
  element("figures").replaceChildren(...figures.map(([name, value]) => {
    const [group, term, text] = ["div", "dt", "dd"].map((it) => document.createElement(it));
    show(term, say(name));
    text.append(value);
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
  const { user, quantity, returned_quantity, amount, state } = order.body;
  const returned = returned_quantity;
  const units = returned ? say("units_returned", { quantity, returned }) : grouped(quantity);
  showFigures([["user", user], ["quantity", units], ["amount", price(amount)],
    ["state", say(`order_${state}`)], ...dueOf(refunds.body), ["sale", link(`/admin/sales/${sale}`, sale)]]);
  return "";
}

/** @typedef {{ kind: string, account: string, amount: Money, order?: string, campaign?: string, reference?: string,
 *   at: string }} Posting */
/** @typedef {{ order: string, campaign: string, title: string, quantity: number, returned_quantity: number,
 *   amount: Money, state: string, granted_at: string }} Order */
/** @typedef {{ campaign: string, number: number, amount: Money, granted_at: string }} Draw */

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
    const lines = answer.body[path].map(lineOf);
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
  pages("orders", (/** @type {Order} */ { order, campaign, title, amount, state, granted_at, ...units }) => {
    const { quantity, returned_quantity: returned } = units;
    const words = returned ? say("units_returned", { quantity, returned }) : say("units_words", { quantity });
    const sale = link(`/admin/sales/${campaign}`, title);
    return line(granted_at, sale, words, price(amount), say(`order_${state}`), order);
  }),
  pages("claims", (/** @type {Draw} */ { campaign, number, amount, granted_at }) =>
    line(granted_at, price(amount), link(`/admin/packets/${campaign}`, campaign), say("share_words", { number }))),
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
    lines.push(...answer.body.postings.map((/** @type {Posting} */ it) => [it.at, it.kind, it.account, it.amount.amount,
      it.amount.currency, it.campaign ?? "", it.order ?? "", it.reference ?? ""]));
    show(note, say("lines_read", { count: lines.length - 1 }));
    after = answer.body.next ?? "";
  } while (after && lines.length <= LINES_MAX);
  if (after) show(note, say("lines_many", { count: LINES_MAX }));
  save("postings", lines);
});

let newest = 0;
element("lookup").addEventListener("submit", async (event) => {
  event.preventDefault();
  const one = ++newest;
  const wanted = field("wanted").value.trim();
  element("result").hidden = true;
  show(element("outcome"), say("searching"));
  const sale = wanted.match(ORDER)?.[1];
  const problem = await (sale ? showOrder(wanted, sale) : showAccount(wanted));
  if (one !== newest) return;
  show(element("outcome"), problem);
  show(element("subject"), wanted);
  element("result").hidden = problem !== "";
  element("account").hidden = sale !== undefined;
  if (!problem) await showActions(wanted);
});

// The field is disabled until this script runs, so no early input is lost.
field("wanted").disabled = false;
if (!facts.session?.scopes.includes("read:any")) show(element("outcome"), say("not_you", { scope: "read:any" }));
