// @ts-check
// The joy of an opened packet: its amount counts up, and confetti falls. Nothing here is needed to read the amount.

const COUNT_MS = 700;
const CONFETTI_MS = 1_600;
const PIECES = 90;
const COLOURS = ["#f7d774", "#fff3d6", "#ff8a4c", "#ffffff", "#e8526a"];

/** Calls with the part of the time that has passed, from 0 to 1.
 * @param {number} ms @param {(part: number) => void} draw */
function during(ms, draw) {
  const began = performance.now();
  const frame = () => {
    const part = Math.min(1, (performance.now() - began) / ms);
    draw(part);
    if (part < 1) requestAnimationFrame(frame);
  };
  frame();
}

/** Counts up to an amount. Its text is the exact amount all the time: only the look counts.
 * @param {HTMLElement} target @param {number} amount @param {(amount: number) => string} written */
export function countUp(target, amount, written) {
  target.classList.add("counting");
  during(COUNT_MS, (part) => {
    target.dataset.shown = written(Math.round(amount * (1 - (1 - part) ** 3)));
    if (part === 1) target.classList.remove("counting");
  });
}

/** @param {HTMLElement} place */
export function confetti(place) {
  const canvas = Object.assign(document.createElement("canvas"), { className: "confetti" });
  canvas.setAttribute("aria-hidden", "true");
  place.append(canvas);
  [canvas.width, canvas.height] = [canvas.clientWidth, canvas.clientHeight];
  const brush = canvas.getContext("2d");
  const pieces = Array.from({ length: PIECES }, (_, i) => ({ x: Math.random(), up: 0.3 + Math.random() * 0.5,
    drift: Math.random() - 0.5, turn: Math.random() * 6, colour: COLOURS[i % COLOURS.length] }));
  during(CONFETTI_MS, (part) => {
    if (part === 1) canvas.remove();
    if (!brush) return;
    brush.clearRect(0, 0, canvas.width, canvas.height);
    brush.globalAlpha = Math.min(1, 2 * (1 - part));
    for (const { x, up, drift, turn, colour } of pieces) {
      brush.save();
      // Thrown up from the middle, and pulled down.
      brush.translate((0.5 + (x - 0.5) * part * 1.6 + drift * part * 0.3) * canvas.width,
        (0.55 - up * 2 * part + 2.1 * part * part) * canvas.height);
      brush.rotate(turn + part * 8 * drift);
      brush.fillStyle = colour;
      brush.fillRect(-4, -2, 8, 5);
      brush.restore();
    }
  });
}
