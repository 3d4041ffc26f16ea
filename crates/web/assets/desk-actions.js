// @ts-check
// Who did what, at the operators' desk.

import { tell } from "./desk.js";
import { ask, element, facts, grouped, price, say, show } from "./qiang.js";

/** @typedef {{ at: string, actor: string, action: string, detail: Record<string, any>,
 *   before?: Record<string, any> }} Action */

/** What is known of an action beside its name, as people read it.
 * @param {Record<string, any>} detail @param {string} [within] @returns {string[]} */
export function details(detail, within = "") {
  const { amount, currency, ...rest } = detail;
  const isMoney = typeof amount === "number" && typeof currency === "string";
  const lines = Object.entries(isMoney ? rest : detail).flatMap(([key, value]) => {
    const name = `${within}${key}`;
    if (value === null) return [`${name}: ${say("nothing")}`];
    if (Array.isArray(value)) return [`${name}: ${value.map(String).join(", ")}`];
    return typeof value === "object" ? details(value, `${name}.`)
      : [`${name}: ${typeof value === "number" ? grouped(value) : value}`];
  });
  if (!isMoney) return lines;
  const name = within ? within.slice(0, -1) : "amount";
  return [`${name}: ${price({ amount, currency })}`, ...lines];
}

/** Actions that are shown: the newest. */
const SHOWN = 1_000;

/**
 * Shows who did what to some things, the newest first, where the page has a place for it.
 * @param {string[]} subjects a campaign's id, an order's, a user, or `the service`
 */
export async function showActions(...subjects) {
  const list = document.getElementById("actions");
  if (!list) return;
  /** @type {Action[]} */
  const actions = [];
  for (const subject of subjects) for (let after = ""; ;) {
    const query = new URLSearchParams({ subject, limit: String(SHOWN) });
    if (after) query.set("after", after);
    const answer = await ask("GET", `/v1/operation-log?${query}`);
    if (answer?.status !== 200) {
      show(element("outcome"), tell(answer));
      return;
    }
    actions.push(...answer.body.data);
    // The newest are at the end: earlier ones may go.
    actions.splice(0, actions.length - SHOWN);
    after = answer.body.next;
    if (!after) break;
  }
  actions.sort((one, other) => one.at.localeCompare(other.at));
  element("no-actions").hidden = actions.length > 0;
  list.replaceChildren(...actions.reverse().map(({ at, actor, action, detail, before }) => {
    const time = document.createElement("time");
    time.dateTime = at;
    show(time, new Date(at).toLocaleString(facts.language));
    const words = document.createElement("span");
    const what = `did_${action}` in facts.texts ? say(`did_${action}`) : action;
    const more = action === "create" ? "" : details(detail).join(", ");
    const was = before ? ` (${say("was", { values: details(before).join(", ") })})` : "";
    show(words, `${actor} ${what}${more && ` · ${more}`}${was}`);
    const item = document.createElement("li");
    item.append(words, time);
    return item;
  }));
}
