// @ts-check
// What a node does, as it happens, at the operators' desk.

import { areas, edges, lines, room, WIDE } from "./plot.js";
import { element, facts, say, show } from "./qiang.js";

/** @typedef {{ number: number, at: string, claims_per_s: number, outcomes_per_s: Record<string, number>,
 *   latency_ms?: { p50: number, p90: number, p99: number }, gate_pass_ratio?: number,
 *   settlement_lag_entries: number, queue_length: number, queue_entries: number }} Stats */

/** What claims end in, from the bottom of the chart, and its color there. */
const ENDS = {
  granted: "#2e8b57", already_granted: "#7fb08f", sold_out: "#c8102e", limit_reached: "#e08a00", paused: "#7a6ff0",
  not_started: "#4a90d9", ended: "#8a6d5f", unknown_campaign: "#a08cc0", throttled: "#c9a400", failed: "#ff2d95",
  unmet: "#b0603c", waiting: "#3fa7a0",
};
const NAMES = /** @type {(keyof typeof ENDS)[]} */ (Object.keys(ENDS));
/** Seconds that the table has. */
const ROWS = 30;
/** Where motion is unwelcome, the charts are drawn this often. */
const SELDOM_MS = 5_000;

/** @type {Stats[]} */
let stats = [];
/** Who has taken them. */
let taker = "";
const drawEnds = areas(element("ends"), NAMES.map((name) => ({ color: ENDS[name] })));
const drawLatency = lines(element("latency"), [{ color: "#2e8b57" }, { color: "#e08a00", dashes: "6 3" },
  { color: "#c8102e", dashes: "2 2" }]);
const drawLag = areas(element("lag"), [{ color: "#c8102e" }]);
const drawAdmitted = lines(element("admitted"), [{ color: "#4a90d9" }]);
const [atEnds, atLatency, atLag, atAdmitted] = ["ends", "latency", "lag", "admitted"].map((id) => edges(element(id)));
const isCalm = matchMedia("(prefers-reduced-motion: reduce)");
let drawnAt = -Infinity;
let isHeld = false;

/** @param {number | undefined} value @param {number} [digits] */
const count = (value, digits = 0) => value === undefined ? "–"
  : value.toLocaleString(facts.language, { maximumFractionDigits: digits });
/** @param {number | undefined} share */
const percent = (share) => share === undefined ? "–" : `${count(share * 100, 1)} %`;
/** Below ten the tenths count. @param {number} rate */
const rated = (rate) => count(rate, rate < 10 ? 1 : 0);

function draw() {
  const last = stats.at(-1);
  if (!last) return;
  drawnAt = performance.now();
  const clock = (/** @type {number} */ ms) => new Date(ms).toLocaleTimeString(facts.language);
  const end = Date.parse(last.at);
  const [from, to] = [clock(end - room(stats.length) * 1_000), clock(end)];
  const most = drawEnds(stats.map(({ outcomes_per_s }) => NAMES.map((name) => outcomes_per_s[name] ?? 0)));
  const ends = NAMES.filter((name) => last.outcomes_per_s[name])
    .map((name) => `${say(`end_${name}`)} ${rated(last.outcomes_per_s[name])}`);
  atEnds(say("axis_rate", { most: rated(most) }), "", from, to);
  show(element("ends-words"), say("ends_words", { rate: rated(last.claims_per_s), most: rated(most),
    ends: ends.join(", ") || say("nothing") }));
  const worst = drawLatency(stats.map(({ latency_ms }) => [latency_ms?.p50, latency_ms?.p90, latency_ms?.p99]));
  atLatency(`${count(worst, 2)} ms`, "", from, to);
  const { p50, p90, p99 } = last.latency_ms ?? {};
  show(element("latency-words"), p50 === undefined ? say("latency_none")
    : say("latency_words", { p50: count(p50, 2), p90: count(p90, 2), p99: count(p99, 2), most: count(worst, 2) }));
  const deepest = drawLag(stats.map(({ settlement_lag_entries }) => [settlement_lag_entries]));
  atLag(say("axis_entries", { most: count(deepest) }), "", from, to);
  show(element("lag-words"), say("lag_chart", { lag: count(last.settlement_lag_entries), peak: count(deepest) }));
  drawAdmitted(stats.map(({ gate_pass_ratio }) => [gate_pass_ratio]), 1);
  atAdmitted("100 %", "", from, to);
  const share = last.gate_pass_ratio;
  show(element("admitted-words"), say(share === undefined ? "admitted_none" : "admitted_words",
    { share: percent(share), queue: last.queue_length, places: last.queue_entries }));
  if (/** @type {HTMLDetailsElement} */ (element("numbers")).open) fillTable();
}

function fillTable() {
  const body = element("numbers").querySelector("tbody");
  body?.replaceChildren(...stats.slice(-ROWS).reverse().map((it) => {
    const row = document.createElement("tr");
    row.append(...[new Date(it.at).toLocaleTimeString(facts.language), rated(it.claims_per_s),
      rated(it.outcomes_per_s.granted ?? 0), count(it.latency_ms?.p50, 2), count(it.latency_ms?.p99, 2),
      percent(it.gate_pass_ratio), count(it.settlement_lag_entries)].map((text) => {
      const cell = document.createElement("td");
      show(cell, text);
      return cell;
    }));
    return row;
  }));
}

/** @param {{ process: string, stats: Stats[] }} more */
function take({ process, stats: more }) {
  // A node that was started again, or another one behind a balancer, has counted for itself.
  if (process !== taker) stats = [];
  taker = process;
  stats = [...stats, ...more].slice(-WIDE);
  const isSoon = isCalm.matches && performance.now() - drawnAt < SELDOM_MS;
  if (!isHeld && !isSoon) draw();
}

function begin() {
  const events = new EventSource("/v1/stats");
  events.addEventListener("stats", (event) => {
    show(element("outcome"), "");
    take(JSON.parse(event.data));
  });
  events.addEventListener("error", () => {
    show(element("outcome"), say("live_lost"));
    // Browsers reconnect automatically unless the service refused the connection.
    if (events.readyState === EventSource.CLOSED) setTimeout(begin, 2_000 + 3_000 * Math.random());
  });
}

const hold = element("hold");
hold.addEventListener("click", () => {
  isHeld = !isHeld;
  hold.setAttribute("aria-pressed", String(isHeld));
  if (!isHeld) draw();
});
element("numbers").addEventListener("toggle", fillTable);
const legend = NAMES.map((name) => {
  const item = document.createElement("li");
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const square = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width: "12", height: "12", fill: ENDS[name] })) {
    square.setAttribute(key, value);
  }
  mark.setAttribute("width", "12");
  mark.setAttribute("height", "12");
  mark.setAttribute("aria-hidden", "true");
  mark.append(square);
  item.append(mark, ` ${say(`end_${name}`)}`);
  return item;
});
element("legend").replaceChildren(...legend);
begin();
