// @ts-check
// Plots of the last minutes, a sample a second: areas one above the other, and lines.

/** Samples that a plot has at most, and what it is wide. */
export const WIDE = 300;
/** It has room for as many at least. */
const ROOM = 60;
const HIGH = 60;
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{ color: string, dashes?: string }} Look */

/** @param {HTMLElement} picture @param {string} tag @param {Record<string, string>} attributes */
function shape(picture, tag, attributes) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  picture.append(one);
  return one;
}

/** A number of an attribute: short. @param {number} value */
const short = (value) => String(Math.round(value * 100) / 100);

/**
 * What stands at the edges of a chart: above it what its top stands for, below it when it begins and ends. Its caption
 * says the same in words, for those who do not see it.
 * @param {HTMLElement} picture
 */
export function edges(picture) {
  const [top, bottom] = [0, 1].map(() => {
    const edge = document.createElement("div");
    edge.className = "edges";
    edge.setAttribute("aria-hidden", "true");
    edge.append(...[0, 1].map(() => document.createElement("span")));
    return edge;
  });
  picture.before(top);
  picture.after(bottom);
  const places = [...top.children, ...bottom.children];
  /** @param {string} left @param {string} right @param {string} from @param {string} to */
  return (left, right, from, to) => [left, right, from, to].forEach((text, i) => {
    if (places[i].textContent !== text) places[i].textContent = text;
  });
}

/** How many samples the width has room for. @param {number} count */
export const room = (count) => Math.max(ROOM, count);

/** How far samples are apart, so that the newest is at the right end. @param {number} count */
function scale(count) {
  const step = WIDE / room(count);
  return { step, first: WIDE - count * step };
}

/**
 * Draws into an `svg` whose view box is 300 wide and 60 high, the newest sample at its right end.
 * @param {HTMLElement} picture @param {Look[]} looks one for each series
 */
export function areas(picture, looks) {
  const shapes = looks.map(({ color }) => shape(picture, "polygon", { fill: color }));
  /** Returns the most that all of them are together. @param {number[][]} samples of each series */
  return (samples) => {
    const { first, step } = scale(samples.length);
    const most = Math.max(0, ...samples.map((sample) => sample.reduce((sum, one) => sum + one, 0)));
    let under = samples.map(() => 0);
    shapes.forEach((polygon, at) => {
      const over = samples.map((sample, i) => under[i] + (sample[at] ?? 0));
      const corner = (/** @type {number} */ sum, /** @type {number} */ i) =>
        `${short(first + (i + 1) * step)},${short(HIGH - (sum / (most || 1)) * (HIGH - 2))}`;
      const isThere = over.some((sum, i) => sum > under[i]);
      const back = under.map(corner).reverse();
      polygon.setAttribute("points", isThere ? [...over.map(corner), ...back].join(" ") : "");
      under = over;
    });
    return most;
  };
}

/**
 * The same with lines; there is a gap where a series has no value.
 * @param {HTMLElement} picture @param {Look[]} looks
 */
export function lines(picture, looks) {
  const shapes = looks.map(({ color, dashes = "" }) => shape(picture, "path", { fill: "none", stroke: color,
    "stroke-width": "2", "stroke-dasharray": dashes, "vector-effect": "non-scaling-stroke" }));
  /** Returns the most that any of them is. @param {(number | undefined)[][]} samples @param {number} [at_least] */
  return (samples, at_least = 0) => {
    const { first, step } = scale(samples.length);
    const most = Math.max(at_least, ...samples.flat().map((value) => value ?? 0));
    shapes.forEach((path, at) => {
      let was = false;
      const parts = samples.map((sample, i) => {
        const value = sample[at];
        const part = value === undefined ? "" : `${was ? "L" : "M"}${short(first + i * step)},${
          short(HIGH - (value / (most || 1)) * (HIGH - 2))}h${short(step)}`;
        was = value !== undefined;
        return part;
      });
      path.setAttribute("d", parts.join(""));
    });
    return most;
  };
}
