// @ts-check
// The first page: countdowns of sales, and a search among them.

import { clockParts, element, facts, field, keepTime, often, say, show } from "./qiang.js";

/** @typedef {import("./qiang.js").State} State */

function homePage() {
  const at = /** @type {{ now?: string }} */ (/** @type {unknown} */ (facts)).now;
  if (at) keepTime({ now: at });
  const items = [...document.querySelectorAll(".deals li")].map((it) => /** @type {HTMLElement} */ (it));
  const clocks = items.map((item) => /** @type {HTMLElement} */ (item.querySelector(".clock")));
  often(() => {
    for (const clock of clocks) {
      const { starts = "", ends = "", paused } = clock.dataset;
      const state = /** @type {State} */ ({ phase: paused === undefined ? "live" : "paused", starts_at: starts,
        ends_at: ends });
      const [words, time] = clockParts(state);
      show(clock, `${words} ${time}`.trim());
      clock.classList.toggle("on", words === say("ends_in"));
    }
  });
  for (const picture of document.querySelectorAll(".deals img")) {
    // A picture that does not load is replaced by the drawing after it.
    picture.addEventListener("error", () => {
      picture.nextElementSibling?.removeAttribute("hidden");
      picture.remove();
    });
  }
  if (!document.getElementById("find") || items.length === 0) return;
  element("find").addEventListener("input", () => {
    const words = field("find").value.trim().toLowerCase();
    for (const item of items) item.hidden = !item.querySelector("b")?.textContent?.toLowerCase().includes(words);
    const count = items.filter((item) => !item.hidden).length;
    show(element("found"), words ? say("sales_found", { count }) : "");
  });
}

homePage();
