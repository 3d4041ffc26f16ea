// @ts-check
// Grants and payments of a campaign since its start, at the operators' desk.

import { edges } from "./plot.js";
import { ask, element, moment, now, say, show, sleep } from "./qiang.js";

/** @typedef {{ number: number, created_at: string, paid_at?: string }} Point */
/** @typedef {{ last_number: number, sampled: boolean, points: Point[], settled: boolean }} Timeline */
/** @typedef {import("./qiang.js").State} State */
/** A step of a curve: when, and how many there are from then on. @typedef {[at: number, count: number]} Step */

/** Size of the drawing. */
const [WIDE, HIGH] = [300, 60];
/** A timeline is read again this long after a change at the earliest: the node keeps one as long. */
const AGAIN_MS = 5_200;
const SVG = "http://www.w3.org/2000/svg";

/** Steps of grants and of payments. Of a sampled campaign each point stands for the numbers since the last one.
 * @param {Timeline} timeline @returns {{ granted: Step[], paid: Step[] }} */
export function stepsOf({ last_number, sampled, points }) {
  const granted = points.map(({ created_at, number }, i) =>
    /** @type {Step} */ ([Date.parse(created_at), sampled ? number : i + 1]));
  const stands = sampled ? last_number / points.length : 1;
  const times = points.flatMap(({ paid_at }) => (paid_at ? [Date.parse(paid_at)] : [])).sort((a, b) => a - b);
  return { granted, paid: times.map((at, i) => [at, Math.round((i + 1) * stands)]) };
}

/** @param {Step[]} steps @param {number} from @param {number} until @param {number} most */
function curve(steps, from, until, most) {
  const x = (/** @type {number} */ at) => Math.max(0, ((at - from) / Math.max(1, until - from)) * WIDE).toFixed(2);
  const y = (/** @type {number} */ count) => (HIGH - (count / most) * (HIGH - 2)).toFixed(2);
  const parts = steps.map(([at, count]) => `H${x(at)}V${y(count)}`);
  return `M0 ${HIGH}${parts.join("")}H${WIDE}`;
}

/** Draws the life of a campaign. Returns what draws it again after a change. @param {string} id
 * @param {() => State} stateOf */
export function lifeOf(id, stateOf) {
  const picture = element("life");
  const atLife = edges(picture);
  const isSale = document.getElementById("funnel") !== null;
  const [granted, paid] = ["granted", "paid"].map((name) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    picture.append(path);
    return path;
  });

  /** @param {Timeline} timeline */
  const draw = (timeline) => {
    const steps = stepsOf(timeline);
    const { starts_at, ends_at } = stateOf();
    const times = [...steps.granted, ...steps.paid].map(([at]) => at);
    const last = Math.max(...times, Date.parse(starts_at));
    const from = Math.min(...times, Date.parse(starts_at));
    const until = Math.max(last, Math.min(now(), Date.parse(ends_at)));
    const count = steps.granted.at(-1)?.[1] ?? 0;
    granted.setAttribute("d", curve(steps.granted, from, until, Math.max(1, count)));
    paid.setAttribute("d", curve(steps.paid, from, until, Math.max(1, count)));
    atLife(say("axis_grants", { count }), "", moment(from), moment(until));
    const half = steps.granted.find(([, number]) => number >= count / 2)?.[0];
    const parts = { count, half: half ? moment(half) : "", paid: steps.paid.at(-1)?.[1] ?? 0 };
    const words = isSale ? "life_words" : "life_words_packet";
    show(element("life-words"), half ? say(words, parts) : say("life_none"));
    show(element("life-note"), timeline.sampled ? say("life_sampled", { count: timeline.points.length }) : "");
  };

  let isReading = false;
  let isOld = false;
  return async () => {
    isOld = true;
    if (isReading) return;
    isReading = true;
    while (isOld) {
      isOld = false;
      const answer = await ask("GET", `/v1/campaigns/${id}/grant-timeline`);
      if (answer?.status !== 200) break;
      draw(answer.body);
      isOld ||= !answer.body.settled;
      await sleep(AGAIN_MS);
    }
    isReading = false;
  };
}
