// @ts-check
// Who got what of a campaign, at the operators' desk: a page at a time, and all of it as a file.

import { LINES_MAX, save } from "./csv.js";
import { tell } from "./desk.js";
import { ask, element, facts, grouped, keepFocus, price, say, show } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */
/** @typedef {{ number: number, user: string, amount: Money, created_at: string, id: string, state?: string,
 *   quantity?: number, returned_quantity?: number, reference?: string, metadata?: Record<string, string> }} Line */

const SHOWN = 100;
const ON_PAGE = 1_000;

/** @param {Line} line */
const values = (line) => [line.number, line.id, line.user, line.quantity ?? 1, line.amount.amount,
  line.amount.currency, line.state ?? "", line.created_at, line.returned_quantity ?? 0, line.reference ?? "",
  line.metadata ? JSON.stringify(line.metadata) : ""];
const NAMES = ["number", "id", "user", "quantity", "amount_minor", "currency", "state", "created_at",
  "returned_quantity", "reference", "metadata"];

/** @param {string} path where they are listed @param {string} id */
export function linesOf(path, id) {
  const rows = /** @type {HTMLTableSectionElement} */ (document.querySelector("#lines tbody"));
  const [more, note] = [element("more"), element("lines-note")];
  /** @type {string | undefined} */
  let next = "";

  /** @param {string} after @param {number} limit @returns {Promise<{ data: Line[], next?: string } | null>} */
  const read = async (after, limit) => {
    const answer = await ask("GET", `${path}?limit=${limit}${after && `&after=${after}`}`);
    if (answer?.status === 200) return answer.body;
    show(note, tell(answer));
    return null;
  };

  const showMore = async () => {
    const page = await read(next ?? "", SHOWN);
    if (!page) return;
    for (const line of page.data) {
      const state = line.state ? say(`order_${line.state}`) : "";
      const time = new Date(line.created_at).toLocaleString(facts.language);
      const row = rows.insertRow();
      const { quantity = 1, returned_quantity: returned } = line;
      const units = returned ? say("units_returned", { quantity, returned }) : grouped(quantity);
      for (const text of [grouped(line.number), line.user, units, price(line.amount), state, time]) {
        show(row.insertCell(), text);
      }
    }
    next = page.next;
    more.hidden = next === undefined;
    show(note, rows.rows.length === 0 ? say("nobody_has") : "");
  };

  const again = async () => {
    rows.replaceChildren();
    next = "";
    await showMore();
  };

  const download = async () => {
    /** @type {(string | number)[][]} */
    const lines = [NAMES];
    for (let after = /** @type {string | undefined} */ (""); after !== undefined && lines.length <= LINES_MAX;) {
      const page = await read(after, ON_PAGE);
      if (!page) return;
      lines.push(...page.data.map(values));
      after = page.next;
      show(note, say("lines_read", { count: lines.length - 1 }));
      if (after !== undefined && lines.length > LINES_MAX) show(note, say("lines_many", { count: LINES_MAX }));
    }
    save(id, lines);
  };

  more.addEventListener("click", async () => {
    await showMore();
    keepFocus(more, element("again"));
  });
  element("again").addEventListener("click", () => void again());
  element("csv").addEventListener("click", () => void download());
  element("lines").addEventListener("toggle", () => {
    if (rows.rows.length === 0) void again();
  });
}
