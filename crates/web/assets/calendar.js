// @ts-check
// A reminder of a sale for the visitor's calendar (RFC 5545), made in the browser.

import { say } from "./qiang.js";

/** How long before the start the calendar reminds, and how long the entry is. */
const ALARM = "-PT5M";
const LASTS_MS = 900_000;
/** Bytes of a line; longer ones are folded. */
const LINE_MAX = 73;

/** @param {number} ms */
const utc = (ms) => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, "");

/** @param {string} text */
const escaped = (text) => text.replace(/[\\;,]/g, "\\$&").replace(/\r?\n/g, "\\n");

/** A line, folded between characters. @param {string} line */
function folded(line) {
  const encoder = new TextEncoder();
  let [all, length] = ["", 0];
  for (const sign of line) {
    const bytes = encoder.encode(sign).length;
    if (length + bytes > LINE_MAX) [all, length] = [`${all}\r\n `, 1];
    [all, length] = [all + sign, length + bytes];
  }
  return all;
}

/** The file. @param {import("./qiang.js").Sale} sale @param {string} url @param {number} at */
export function reminderOf(sale, url, at) {
  const start = Date.parse(sale.state.starts_at);
  const name = escaped(say("reminder_title", { title: sale.title }));
  return ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Qiang//Sale//EN", "METHOD:PUBLISH", "BEGIN:VEVENT",
    `UID:${sale.id}@${new URL(url).host}`, `DTSTAMP:${utc(at)}`, `DTSTART:${utc(start)}`,
    `DTEND:${utc(start + LASTS_MS)}`, `SUMMARY:${name}`, `URL:${url}`, `DESCRIPTION:${escaped(url)}`,
    "BEGIN:VALARM", "ACTION:DISPLAY", `DESCRIPTION:${name}`, `TRIGGER:${ALARM}`, "END:VALARM", "END:VEVENT",
    "END:VCALENDAR"].map((line) => `${folded(line)}\r\n`).join("");
}

/** Saves the file. @param {import("./qiang.js").Sale} sale */
export function saveReminder(sale) {
  const text = reminderOf(sale, location.origin + location.pathname, Date.now());
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/calendar;charset=utf-8" }));
  link.download = `${sale.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "sale"}.ics`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
