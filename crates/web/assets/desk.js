// @ts-check
// Operators' desk: campaign search. The helpers that other desk pages share come first.

import { ask, element, explain, facts, field, keepFocus, now, problem, say, show } from "./qiang.js";

/** @typedef {import("./qiang.js").Answer} Answer */
/** @typedef {import("./qiang.js").State} State */
/** @typedef {{ id: string, title: string, state: State, archived_at?: string, product_id?: string, seller?: string,
 *   sender?: string, admission_percent?: number, updated_at: string }} Campaign */

/** What pages of the desk are told beside what all pages are. */
export const desk = /** @type {{ sees_all: boolean, campaign: Campaign, leads: boolean }} */ (
  /** @type {unknown} */ (facts));

/** What to tell of a problem, to an operator. @param {Answer | null} answer */
export function tell(answer) {
  if (!answer) return say("gave_up");
  if (problem(answer) === "forbidden" && answer.body.scope) return say("not_you", { scope: answer.body.scope });
  return problem(answer) === "stock-granted" ? say("stock_granted") : explain(answer);
}

/** Pages that a search reads before it asks whether to go on, and what is on each of them. */
const PAGES = 10;
const ON_PAGE = 100;
/** It asks, too, once it has found as many more. */
const SHOWN = 100;
const DAY_MS = 86_400_000;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The first id of a time: ids begin with when they were made (UUIDv7). @param {number} ms */
function firstId(ms) {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

/** @param {Campaign} campaign @param {string} kind */
function card(campaign, kind) {
  const link = document.createElement("a");
  link.className = "card";
  link.href = `/admin/${kind === "sales" ? "sales" : "packets"}/${campaign.id}`;
  const title = document.createElement("b");
  const { remaining, supply, phase } = campaign.state;
  const parts = [campaign.seller ?? campaign.sender ?? "", say("left", { remaining, supply }),
    say(campaign.archived_at ? "archived" : phase)];
  show(title, campaign.title);
  link.append(title, ...parts.map((part) => Object.assign(document.createElement("span"), { textContent: part })));
  const item = document.createElement("li");
  item.append(link);
  return item;
}

/** A campaign of either kind, by its id. @param {string} id */
async function byId(id) {
  for (const kind of ["sales", "red-packets"]) {
    const answer = await ask("GET", `/v1/${kind}/${id}`);
    if (answer?.status === 200) return [card(answer.body, kind)];
  }
  return [];
}

const FILTERS = ["kind", "phase", "since", "words", "archived"];

/** @param {string} id */
const valueOf = (id) => (field(id).type === "checkbox" ? String(field(id).checked) : field(id).value.trim());

/** @param {string} id @param {string} value */
function setValue(id, value) {
  if (field(id).type === "checkbox") field(id).checked = value === "true";
  else field(id).value = value;
  // A list lacks the value of a URL that was made by hand.
  const list = document.getElementById(id);
  if (list instanceof HTMLSelectElement && list.selectedIndex < 0) list.selectedIndex = 0;
}

function deskPage() {
  const [found, list, more] = [element("found"), element("campaigns"), element("more")];
  /** Counts searches: what an earlier one still finds is not shown. */
  let newest = 0;
  /** How many campaigns were looked at, and behind which one it goes on. */
  let [seen, behind] = [0, ""];

  /** Filters, and their values when nothing is chosen. */
  const usual = Object.fromEntries(FILTERS.map((id) => [id, valueOf(id)]));

  /** Takes the filters from the page's URL. They are in its fragment, because a server must not log users' names. */
  const takeFilters = () => {
    const chosen = new URLSearchParams(location.hash.slice(1));
    for (const id of FILTERS) setValue(id, chosen.get(id) ?? usual[id]);
  };

  /** Has the URL name the filters, so that a link, a reload and Back lead to the same search. */
  const keepFilters = () => {
    const chosen = FILTERS.map((id) => [id, valueOf(id)]).filter(([id, value]) => value !== usual[id]);
    const hash = String(new URLSearchParams(chosen));
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  };

  /** Searches from the newest on, or goes on where it stopped. @param {boolean} isMore */
  const search = async (isMore) => {
    const one = ++newest;
    keepFilters();
    const kind = field("kind").value;
    const words = field("words").value.trim().toLowerCase();
    const days = Number(field("since").value);
    const oldest = days > 0 ? firstId(now() - days * DAY_MS) : "";
    if (!isMore) [seen, behind] = [0, ""];
    more.hidden = true;
    show(found, say("searching"));
    /** @type {HTMLElement[]} */
    const cards = [];
    let isAll = false;
    if (ID.test(words)) {
      cards.push(...await byId(words));
      isAll = true;
    }
    for (let page = 0; page < PAGES && cards.length < SHOWN && !isAll; page++) {
      const query = new URLSearchParams({ order: "newest", limit: String(ON_PAGE) });
      if (desk.sees_all) query.set("all", "true");
      if (field("phase").value) query.set("phase", field("phase").value);
      if (field("archived").checked) query.set("archived", "true");
      if (behind) query.set("after", behind);
      const answer = await ask("GET", `/v1/${kind}?${query}`);
      if (one !== newest) return;
      if (answer?.status !== 200) {
        show(found, tell(answer));
        return;
      }
      /** @type {Campaign[]} */
      const all = answer.body[kind.replace("-", "_")];
      const campaigns = all.filter(({ id }) => id >= oldest);
      seen += campaigns.length;
      cards.push(...campaigns.filter(({ title, id, product_id, seller, sender }) =>
        [title, id, product_id, seller, sender].some((text) => text?.toLowerCase().includes(words)))
        .map((it) => card(it, kind)));
      behind = answer.body.next ?? "";
      isAll = !behind || campaigns.length < all.length;
    }
    if (one !== newest) return;
    if (isMore) list.append(...cards);
    else list.replaceChildren(...cards);
    more.hidden = isAll;
    const count = list.children.length;
    show(found, isAll ? say("found", { count }) : say("found_many", { count, seen }));
    if (isMore) keepFocus(more, found);
  };

  element("search").addEventListener("submit", (event) => {
    event.preventDefault();
    void search(false);
  });
  for (const id of ["kind", "phase", "since", "archived"]) {
    element(id).addEventListener("change", () => void search(false));
  }
  more.addEventListener("click", () => void search(true));
  addEventListener("hashchange", () => {
    takeFilters();
    void search(false);
  });
  takeFilters();
  void search(false);
}

if (document.getElementById("search")) deskPage();
