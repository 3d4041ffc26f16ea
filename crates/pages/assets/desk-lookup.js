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
  if (!problem) await showActions(wanted);
});

if (!facts.session?.scopes.includes("read:any")) show(element("outcome"), say("not_you", { scope: "read:any" }));
