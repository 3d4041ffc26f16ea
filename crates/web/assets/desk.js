// @ts-check
// Operators' desk: campaign search. The helpers that other desk pages share come first.

import { ask, element, explain, facts, field, grouped, keepFocus, moment, now, price, problem, say, show } from
  "./qiang.js";

/** @typedef {import("./qiang.js").Answer} Answer */
/** @typedef {import("./qiang.js").State} State */
/** @typedef {{ id: string, title: string, state: State, archived_at?: string, product_id?: string, seller?: string,
 *   sender?: string, admission_percent?: number, updated_at: string, unit_price?: import("./qiang.js").Money,
 *   total?: import("./qiang.js").Money }} Campaign */

/** What pages of the desk are told beside what all pages are. */
export const desk = /** @type {{ sees_all: boolean, campaign: Campaign, leads: boolean,
 *   sees_life: boolean }} */ (
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

/** A chip that names a state. @param {string} name @param {string} [words] */
export function chip(name, words = say(name)) {
  const it = document.createElement("span");
  it.className = "chip";
  it.dataset.state = name;
  show(it, words);
  return it;
}

/** What a campaign's units that users have are worth: the price of each; a packet's shares differ, and have no sum.
 * @param {Campaign} campaign */
const valueOf = ({ unit_price, state }) => unit_price && { ...unit_price, amount: unit_price.amount * state.granted };

/** What rows are sorted by. @type {Record<string, (campaign: Campaign) => string | number>} */
const KEYS = {
  title: ({ title }) => title.toLowerCase(), phase: ({ state, archived_at }) => (archived_at ? "z" : state.phase),
  starts: ({ state }) => state.starts_at, sold: ({ state }) => state.granted / Math.max(1, state.supply),
  value: (campaign) => valueOf(campaign)?.amount ?? 0,
};

/** @param {Campaign} campaign @param {string} kind */
function rowOf(campaign, kind) {
  const row = document.createElement("tr");
  const link = document.createElement("a");
  link.href = `/admin/${kind === "sales" ? "sales" : "packets"}/${campaign.id}`;
  link.append(Object.assign(document.createElement("b"), { textContent: campaign.title }));
  const owner = document.createElement("small");
  show(owner, campaign.seller ?? campaign.sender ?? "");
  const { granted, supply, phase, starts_at, ends_at } = campaign.state;
  const dates = document.createElement("small");
  show(dates, `${moment(Date.parse(starts_at))} –`);
  const end = document.createElement("small");
  show(end, moment(Date.parse(ends_at)));
  const sold = document.createElement("span");
  show(sold, say("of", { part: granted, whole: supply }));
  const bar = Object.assign(document.createElement("progress"), { max: Math.max(1, supply), value: granted });
  bar.setAttribute("aria-label", say("sold"));
  const value = valueOf(campaign) ?? campaign.total;
  row.insertCell().append(link, owner);
  row.insertCell().append(chip(campaign.archived_at ? "archived" : phase));
  row.insertCell().append(dates, end);
  row.insertCell().append(sold, bar);
  const cell = row.insertCell();
  cell.className = "number";
  show(cell, value ? price(value) : "");
  return row;
}

/** The time zone that typed times are in, by name and offset. */
export function zoneWords() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const offset = moment(Date.now()).match(/\((.*)\)/)?.[1] ?? "";
  return say("zone", { name: timeZone, offset });
}

/** A figure with its name. @param {string} name @param {string} text */
export function figure(name, text) {
  const [group, term, value] = ["div", "dt", "dd"].map((it) => document.createElement(it));
  show(term, name);
  show(value, text);
  group.append(term, value);
  return group;
}

/** Sums of money, each in its currency. @param {import("./qiang.js").Money[]} all */
export function sumOf(all) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { amount, currency } of all) sums.set(currency, (sums.get(currency) ?? 0) + amount);
  const texts = [...sums].map(([currency, amount]) => price({ amount, currency }));
  return texts.join(" · ") || "–";
}

/** A campaign of either kind, by its id. @param {string} id */
async function byId(id) {
  for (const kind of ["sales", "red-packets"]) {
    const answer = await ask("GET", `/v1/${kind}/${id}`);
    if (answer?.status === 200) return [{ campaign: /** @type {Campaign} */ (answer.body), kind }];
  }
  return [];
}

const FILTERS = ["kind", "phase", "since", "words", "archived"];

/** @param {string} id */
const chosenIn = (id) => (field(id).type === "checkbox" ? String(field(id).checked) : field(id).value.trim());

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

  /** What was found, and how it is sorted. @type {{ campaign: Campaign, kind: string }[]} */
  let rows = [];
  let [by, isUp] = ["starts", false];

  const showRows = () => {
    const key = KEYS[by];
    const sorted = [...rows].sort((a, b) => {
      const [one, other] = [key(a.campaign), key(b.campaign)];
      const order = one < other ? -1 : one > other ? 1 : 0;
      return isUp ? order : -order;
    });
    list.replaceChildren(...sorted.map(({ campaign, kind }) => rowOf(campaign, kind)));
    for (const button of document.querySelectorAll(".sort")) {
      const is = /** @type {HTMLElement} */ (button).dataset.by === by;
      if (is) button.parentElement?.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      else button.parentElement?.removeAttribute("aria-sort");
    }
    const all = rows.map(({ campaign }) => campaign);
    const count = (/** @type {string} */ phase) => grouped(all.filter(({ state }) => state.phase === phase).length);
    const units = all.reduce((sum, { state }) => sum + state.granted, 0);
    const money = all.flatMap((campaign) => valueOf(campaign) ?? campaign.total ?? []);
    element("sums").replaceChildren(figure(say("sum_live"), count("live")),
      figure(say("sum_coming"), count("scheduled")), figure(say("sum_units"), grouped(units)),
      figure(say("value"), sumOf(money)));
  };

  for (const button of document.querySelectorAll(".sort")) {
    button.addEventListener("click", () => {
      const wanted = /** @type {HTMLElement} */ (button).dataset.by ?? "starts";
      isUp = wanted === by ? !isUp : wanted === "title" || wanted === "phase";
      by = wanted;
      showRows();
    });
  }

  /** Filters, and their values when nothing is chosen. */
  const usual = Object.fromEntries(FILTERS.map((id) => [id, chosenIn(id)]));

  /** Takes the filters from the page's URL. They are in its fragment, because a server must not log users' names. */
  const takeFilters = () => {
    const chosen = new URLSearchParams(location.hash.slice(1));
    for (const id of FILTERS) setValue(id, chosen.get(id) ?? usual[id]);
  };

  /** Has the URL name the filters, so that a link, a reload and Back lead to the same search. */
  const keepFilters = () => {
    const chosen = FILTERS.map((id) => [id, chosenIn(id)]).filter(([id, value]) => value !== usual[id]);
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
    /** @type {{ campaign: Campaign, kind: string }[]} */
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
      const all = answer.body.data;
      const campaigns = all.filter(({ id }) => id >= oldest);
      seen += campaigns.length;
      cards.push(...campaigns.filter(({ title, id, product_id, seller, sender }) =>
        [title, id, product_id, seller, sender].some((text) => text?.toLowerCase().includes(words)))
        .map((campaign) => ({ campaign, kind })));
      behind = answer.body.next ?? "";
      isAll = !behind || campaigns.length < all.length;
    }
    if (one !== newest) return;
    rows = isMore ? [...rows, ...cards] : cards;
    showRows();
    more.hidden = isAll;
    const count = rows.length;
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
