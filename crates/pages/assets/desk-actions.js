// @ts-check
// Who did what, at the operators' desk.

import { tell } from "./desk.js";
import { ask, element, facts, say, show } from "./qiang.js";

/** @typedef {{ at: string, actor: string, action: string, detail: object }} Action */

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
    const answer = await ask("GET", `/v1/actions?${query}`);
    if (answer?.status !== 200) {
      show(element("outcome"), tell(answer));
      return;
    }
    actions.push(...answer.body.actions);
    // The newest are at the end: earlier ones may go.
    actions.splice(0, actions.length - SHOWN);
    after = answer.body.next;
    if (!after) break;
  }
  actions.sort((one, other) => one.at.localeCompare(other.at));
  element("no-actions").hidden = actions.length > 0;
  list.replaceChildren(...actions.reverse().map(({ at, actor, action, detail }) => {
    const time = document.createElement("time");
    time.dateTime = at;
    show(time, new Date(at).toLocaleString(facts.language));
    const words = document.createElement("span");
    const what = `did_${action}` in facts.texts ? say(`did_${action}`) : action;
    const more = action === "create" || Object.keys(detail).length === 0 ? "" : JSON.stringify(detail);
    show(words, `${actor} ${what} ${more}`);
    const item = document.createElement("li");
    item.append(words, time);
    return item;
  }));
}
