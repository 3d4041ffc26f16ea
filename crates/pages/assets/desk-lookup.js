// @ts-check
// What an order or a user has, at the operators' desk. Neither stands in the page's URL.

import { showActions } from "./desk-actions.js";
import { tell } from "./desk.js";
import { ask, element, facts, field, price, say, show } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */

/** An order's id: its sale's, and its number. */
const ORDER = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d{1,10}$/;

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

/** @param {string} id @param {string} sale */
async function showOrder(id, sale) {
  const order = await ask("GET", `/v1/orders/${id}`);
  if (order?.status !== 200) return tell(order);
  const refunds = await ask("GET", `/v1/orders/${id}/refunds`);
  if (refunds?.status !== 200) return tell(refunds);
  const { user, quantity, amount, state } = order.body;
  const link = Object.assign(document.createElement("a"), { href: `/admin/sales/${sale}`, textContent: sale });
  showFigures([["user", user], ["quantity", String(quantity)], ["amount", price(amount)],
    ["state", say(`order_${state}`)], ["due", price(refunds.body.due)],
    ["refunded", price(refunds.body.refunded)], ["sale", link]]);
  return "";
}

/** @param {string} user */
async function showAccount(user) {
  const account = await ask("GET", `/v1/accounts/${encodeURIComponent(user)}`);
  if (account?.status !== 200) return tell(account);
  /** @type {{ available: Money, refunds_due: Money }[]} */
  const balances = account.body.balances;
  const all = (/** @type {"available" | "refunds_due"} */ which) =>
    balances.map((balance) => price(balance[which])).join(", ") || say("nothing");
  showFigures([["user", user], ["available", all("available")], ["due", all("refunds_due")]]);
  return showPostings(user, "");
}

/** @typedef {{ kind: string, amount: Money, order?: string, campaign?: string, reference?: string,
 *   at: string }} Posting */

/** Postings on a page. */
const ON_PAGE = 50;
let older = "";

/** Shows what moved in a user's accounts, the newest first. @param {string} user @param {string} after */
async function showPostings(user, after) {
  const query = new URLSearchParams({ limit: String(ON_PAGE), ...(after && { after }) });
  const answer = await ask("GET", `/v1/accounts/${encodeURIComponent(user)}/postings?${query}`);
  if (answer?.status !== 200) return tell(answer);
  /** @type {Posting[]} */
  const postings = answer.body.postings;
  const lines = postings.map(({ kind, amount, order, campaign, reference, at }) => {
    const [item, words, time] = ["li", "span", "time"].map((it) => document.createElement(it));
    const what = `moved_${kind}` in facts.texts ? say(`moved_${kind}`) : kind;
    show(words, [price(amount), what, order ?? campaign ?? "", reference ?? ""].filter(Boolean).join(" · "));
    time.setAttribute("datetime", at);
    show(time, new Date(at).toLocaleString(facts.language));
    item.append(words, time);
    return item;
  });
  const list = element("postings");
  if (after) list.append(...lines);
  else list.replaceChildren(...lines);
  element("no-postings").hidden = list.children.length > 0;
  older = answer.body.next ?? "";
  element("older").hidden = !older;
  return "";
}

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

element("older").addEventListener("click", async () => {
  show(element("outcome"), await showPostings(element("subject").textContent ?? "", older));
});

// What is asked before this script is there would be lost.
field("wanted").disabled = false;
if (!facts.session?.scopes.includes("read:any")) show(element("outcome"), say("not_you", { scope: "read:any" }));
