// @ts-check
// The list of the visitor's orders: times as the browser's place has them.

import { facts } from "./qiang.js";

function ordersPage() {
  const format = new Intl.DateTimeFormat(facts.language, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of document.querySelectorAll("time")) time.textContent = format.format(new Date(time.dateTime));
}

ordersPage();
