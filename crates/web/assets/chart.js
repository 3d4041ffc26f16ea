// @ts-check
// A chart of a campaign: bars for what is granted in each second, and a line for what remains.

/** Samples that it shows, and keeps: of a campaign a second each. */
export const SECONDS = 120;
const HEIGHT = 40;
const SVG = "http://www.w3.org/2000/svg";

/**
 * Draws into an `svg` whose view box is 120 wide and 40 high.
 * @param {HTMLElement} picture
 */
export function chart(picture) {
  /** @type {{ rate: number, remaining: number }[]} */
  const samples = [];
  const bars = Array.from({ length: SECONDS }, () => document.createElementNS(SVG, "rect"));
  const line = document.createElementNS(SVG, "polyline");
  picture.append(...bars, line);
  let supply = 1;

  const draw = () => {
    const peak = Math.max(1, ...samples.map(({ rate }) => rate));
    const first = SECONDS - samples.length;
    bars.forEach((bar, x) => {
      const tall = ((samples[x - first]?.rate ?? 0) / peak) * (HEIGHT - 2);
      const shape = { x: x + 0.1, y: HEIGHT - tall, width: 0.8, height: tall };
      for (const [name, value] of Object.entries(shape)) bar.setAttribute(name, value.toFixed(2));
    });
    const level = (/** @type {number} */ remaining) => HEIGHT - (remaining / Math.max(1, supply)) * (HEIGHT - 2);
    const points = samples.map(({ remaining }, i) => `${first + i + 0.5},${level(remaining).toFixed(2)}`);
    line.setAttribute("points", points.join(" "));
  };

  return {
    /** Adds a second, and returns the highest rate of those that are shown.
     * @param {number} rate @param {number} remaining @param {number} of the supply */
    add(rate, remaining, of) {
      supply = of;
      samples.push({ rate, remaining });
      if (samples.length > SECONDS) samples.shift();
      draw();
      return Math.max(...samples.map((sample) => sample.rate));
    },
  };
}
