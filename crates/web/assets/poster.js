// @ts-check
// A poster of a red packet: greeting, sender, cover and QR code, drawn in the browser and saved as a picture.

import { element, say } from "./qiang.js";

const [WIDTH, HEIGHT] = [720, 1_080];
/** The page's, which has the signs of its language. */
const FONT = getComputedStyle(document.body).fontFamily;
const LINES_MAX = 3;
const QR = 300;
/** Width of the cover's picture in its own units. */
const MOTIF_WIDTH = 360;

/** Lines of a text that are no wider than this.
 * @param {CanvasRenderingContext2D} brush @param {string} text @param {number} width */
function wrapped(brush, text, width) {
  /** @type {string[]} */
  const lines = [];
  let line = "";
  // Chinese and Japanese break anywhere, other writing at spaces.
  for (const part of text.match(/[\u2e80-\uffff]|[^\s\u2e80-\uffff]+\s*/gu) ?? []) {
    if (line && brush.measureText(line + part).width > width) {
      lines.push(line.trim());
      line = "";
    }
    line += part;
  }
  lines.push(line.trim());
  if (lines.length > LINES_MAX) lines.splice(LINES_MAX, lines.length, `${lines[LINES_MAX - 1]}…`);
  return lines.slice(-LINES_MAX);
}

/** Draws the cover's picture over the flap, in the brush's colours. @param {CanvasRenderingContext2D} brush */
function drawMotif(brush) {
  brush.save();
  brush.scale(WIDTH / MOTIF_WIDTH, WIDTH / MOTIF_WIDTH);
  [brush.globalAlpha, brush.lineWidth, brush.lineCap] = [0.45, 3, "round"];
  for (const path of document.querySelectorAll("#envelope .motif path")) {
    const shape = new Path2D(path.getAttribute("d") ?? "");
    if (path.classList.contains("line")) brush.stroke(shape);
    else brush.fill(shape);
  }
  brush.restore();
}

/** @param {HTMLCanvasElement} canvas @param {{ id: string, title: string, sender: string }} packet */
export async function drawPoster(canvas, { id, title, sender }) {
  [canvas.width, canvas.height] = [WIDTH, HEIGHT];
  const brush = canvas.getContext("2d");
  if (!brush) return;
  const code = new Image();
  code.src = `/p/${id}/qr.svg`;
  await code.decode();
  // The cover's colours and shapes are those of the envelope on the page.
  const look = getComputedStyle(element("envelope"));
  const colour = (/** @type {string} */ name) => look.getPropertyValue(name).trim();
  const ground = brush.createRadialGradient(WIDTH / 2, HEIGHT * 0.6, 80, WIDTH / 2, HEIGHT * 0.6, HEIGHT * 0.75);
  ground.addColorStop(0, colour("--inner"));
  ground.addColorStop(1, colour("--outer"));
  brush.fillStyle = ground;
  brush.fillRect(0, 0, WIDTH, HEIGHT);
  const flap = brush.createLinearGradient(0, 0, 0, 480);
  flap.addColorStop(0, colour("--top"));
  flap.addColorStop(1, colour("--low"));
  brush.beginPath();
  brush.moveTo(0, 0);
  brush.lineTo(WIDTH, 0);
  brush.lineTo(WIDTH, 360);
  brush.quadraticCurveTo(WIDTH / 2, 560, 0, 360);
  brush.closePath();
  brush.fillStyle = flap;
  brush.shadowColor = "rgb(0 0 0 / .45)";
  brush.shadowBlur = 24;
  brush.fill();
  brush.shadowBlur = 0;
  brush.strokeStyle = brush.fillStyle = colour("--gold");
  brush.lineWidth = 4;
  brush.stroke();
  drawMotif(brush);
  brush.textAlign = "center";
  brush.fillStyle = "#fff3d6";
  brush.font = `32px ${FONT}`;
  brush.fillText(`${say("from")} ${sender}`.slice(0, 40), WIDTH / 2, 110, WIDTH - 80);
  brush.font = `700 60px ${FONT}`;
  const lines = wrapped(brush, title, WIDTH - 120);
  lines.forEach((line, i) => brush.fillText(line, WIDTH / 2, 250 + (i - (lines.length - 1) / 2) * 76, WIDTH - 80));
  const [x, y] = [(WIDTH - QR) / 2, 580];
  brush.fillStyle = "#fffaf0";
  brush.beginPath();
  brush.roundRect(x - 30, y - 30, QR + 60, QR + 60, 28);
  brush.fill();
  brush.drawImage(code, x, y, QR, QR);
  brush.fillStyle = "#fff3d6";
  brush.font = `34px ${FONT}`;
  brush.fillText(say("poster_scan"), WIDTH / 2, 1_000, WIDTH - 80);
}

/** Saves the poster as a picture. @param {HTMLCanvasElement} canvas @param {string} name */
export async function savePoster(canvas, name) {
  /** @type {Blob | null} */
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "red-packet"}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
