// @ts-check
// Operators' desk: form that opens a sale. It checks input while the operator types.

import { templatesOf } from "./desk-templates.js";
import { tell, zoneWords } from "./desk.js";
import { ask, digitsOf, element, field, filledIn, freshKey, mark, minor, moment, price, say, show, tintOf,
  whole } from "./qiang.js";

/** Fields of the form, and where in the request they are. */
const POINTERS = {
  title: "/title", stock: "/stock", price: "/unit_price/amount", currency: "/unit_price/currency",
  limit: "/per_user_limit", hold: "/hold_seconds", starts: "/starts_at", ends: "/ends_at",
  description: "/description", product: "/product_id", picture: "/image_url", seller: "/seller",
  passphrase: "/audience/passphrase", policy: "/payment_policy", tolerance: "/payment_tolerance",
  list: "/list_price", gallery: "/gallery",
};
const FIELDS = /** @type {(keyof typeof POINTERS)[]} */ (Object.keys(POINTERS));
const PICTURE = /^(https:\/\/.|\/)/;
/** Most further pictures. */
const PICTURES_MAX = 8;
const VISIBLE = /^[!-~]{1,128}$/;
const USER = /^\S{1,128}$/u;

/** Templates to begin with. @type {Record<string, import("./desk-templates.js").Values>} */
const READY = {
  template_flash: { stock: "100", limit: "1", hold: "15" },
  template_drop: { stock: "10", limit: "1", hold: "5", ticket: true, line: true },
  template_free: { stock: "50", price: "0", limit: "1" },
};

/** The request that the form stands for, and what is wrong with it, by field. */
function read() {
  const [title, stock, price, currency, limit, hold, starts, ends, description, product, picture, seller, passphrase,
    policy, tolerance, list, gallery] = FIELDS.map((id) => field(id).value.trim());
  /** @type {Partial<Record<keyof typeof POINTERS, string>>} */
  const bad = {};
  const length = (/** @type {string} */ text) => [...text].length;
  const units = whole(stock);
  const isCurrency = digitsOf(currency) !== undefined;
  const amount = isCurrency ? minor(price, currency) : 0;
  const begin = starts ? new Date(starts) : new Date();
  if (length(title) < 1 || length(title) > 1_024) bad.title = "bad_title";
  if (!Number.isSafeInteger(units) || units < 1) bad.stock = "bad_stock";
  if (!isCurrency) bad.currency = "bad_currency";
  if (!Number.isSafeInteger(amount)) bad.price = "bad_price";
  else if (!bad.stock && BigInt(amount) * BigInt(units) > Number.MAX_SAFE_INTEGER) bad.price = "bad_total";
  const isTolerant = policy === "accept_with_tolerance";
  const difference = isCurrency ? minor(tolerance, currency) : 0;
  if (policy !== "owed" && amount === 0) bad.policy = "bad_policy";
  // Without a price or a currency there is nothing to compare with.
  else if (isTolerant && !bad.price && !bad.currency && !(difference < amount)) bad.tolerance = "bad_tolerance";
  if (!(whole(limit) >= 1 && whole(limit) <= Math.min(units || 0, 2 ** 32 - 1))) bad.limit = "bad_limit";
  if (!(whole(hold) >= 1 && whole(hold) * 60 < 2 ** 32)) bad.hold = "bad_hold";
  if (ends && !(new Date(ends) > begin && Date.parse(ends) > Date.now())) bad.ends = "bad_ends";
  if (length(description) > 4_096) bad.description = "bad_description";
  if (product && !VISIBLE.test(product)) bad.product = "bad_id";
  if (picture && !PICTURE.test(picture)) bad.picture = "bad_picture";
  const pictures = gallery.split(/\s+/).filter(Boolean);
  if (pictures.length > PICTURES_MAX || !pictures.every((url) => PICTURE.test(url))) bad.gallery = "bad_gallery";
  const before = list && isCurrency ? minor(list, currency) : 0;
  if (list && !bad.price && !(before > amount)) bad.list = "bad_list_price";
  if (seller && !USER.test(seller)) bad.seller = "bad_id";
  const said = passphrase.trim();
  const least = /^\p{N}*$/u.test(said) ? 6 : 4;
  if (passphrase && (length(said) < least || length(said) > 128)) bad.passphrase = "bad_passphrase";
  const body = {
    title, stock: units, unit_price: { amount, currency }, per_user_limit: whole(limit), hold_seconds: 60 * whole(hold),
    ...(starts && { starts_at: begin.toISOString() }),
    ...(ends && !bad.ends && { ends_at: new Date(ends).toISOString() }),
    ...(description && { description }), ...(product && { product_id: product }),
    ...(policy !== "owed" && { payment_policy: policy }),
    ...(isTolerant && { payment_tolerance: { amount: difference, currency } }),
    ...(picture && { image_url: picture }), ...(pictures.length && { gallery: pictures }),
    ...(list && { list_price: { amount: before, currency } }), ...(seller && { seller }),
    ...(passphrase && { audience: { passphrase } }),
    ...(field("ticket").checked && { requirements: ["ticket"] }), ...(field("line").checked && { waiting_room: true }),
  };
  return { body, bad };
}

/** Shows the sale as buyers will see it. @param {ReturnType<typeof read>} form */
function preview({ body, bad }) {
  const peek = element("peek");
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (peek.querySelector(name));
  const face = element("face");
  show(part(".face b"), (body.title.match(/[\p{L}\p{N}]/u)?.[0] ?? "").toUpperCase());
  face.className = `face tint-${tintOf(body.title)}`;
  const url = bad.picture ? "" : body.image_url ?? "";
  const shown = face.querySelector("img");
  if (shown?.getAttribute("src") !== url) {
    shown?.remove();
    if (url) {
      const image = Object.assign(document.createElement("img"), { src: url, alt: "" });
      image.addEventListener("error", () => image.remove());
      face.append(image);
    }
  }
  show(part(".tag"), bad.price || bad.currency ? "–" : price(body.unit_price));
  show(part(".title"), body.title || say("title"));
  const start = body.starts_at ? Date.parse(body.starts_at) : NaN;
  show(part(".when"), Number.isNaN(start) ? say("starts_now") : say("starts_on", { time: moment(start) }));
  const units = bad.stock ? "–" : say("units_words", { quantity: body.stock });
  show(part(".more"), bad.limit ? units : `${units} · ${say("limit_words", { limit: body.per_user_limit })}`);
}

/** A time as a field has it, in the browser's time zone. @param {string} text */
function localTime(text) {
  const at = new Date(text);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Fills the form with a sale that is to be held again. Its times are not taken. @param {string} id */
async function copyFrom(id) {
  const answer = await ask("GET", `/v1/sales/${id}`);
  if (answer?.status !== 200) {
    show(element("outcome"), tell(answer));
    return;
  }
  const sale = answer.body;
  const plain = (/** @type {{ amount: number, currency: string }} */ money) => {
    const digits = digitsOf(money.currency) ?? 0;
    const text = String(money.amount).padStart(digits + 1, "0");
    return digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text;
  };
  /** @type {Record<string, string>} */
  const values = { title: sale.title, stock: String(sale.stock), price: plain(sale.unit_price),
    currency: sale.unit_price.currency, limit: String(sale.per_user_limit),
    hold: String(Math.ceil(sale.hold_seconds / 60)),
    description: sale.description ?? "", product: sale.product_id ?? "", picture: sale.image_url ?? "",
    policy: sale.payment_policy };
  if (sale.payment_tolerance) values.tolerance = plain(sale.payment_tolerance);
  if (sale.list_price) values.list = plain(sale.list_price);
  values.gallery = (sale.gallery ?? []).join("\n");
  // A sale that is still to come keeps its times.
  if (Date.parse(sale.state.starts_at) > Date.now()) {
    values.starts = localTime(sale.state.starts_at);
    values.ends = localTime(sale.state.ends_at);
  }
  for (const [name, value] of Object.entries(values)) field(name).value = value;
  field("ticket").checked = sale.requirements.includes("ticket");
  field("line").checked = sale.waiting_room;
  show(element("outcome"), say("copied_from", { title: sale.title }));
}

function salePage() {
  const outcome = element("outcome");
  /** @type {Set<string>} */
  const touched = new Set(filledIn(FIELDS));
  const check = () => {
    const { body, bad } = read();
    preview({ body, bad });
    element("tolerance-line").hidden = field("policy").value !== "accept_with_tolerance";
    for (const id of FIELDS) if (touched.has(id)) mark(id, bad[id] ? say(bad[id]) : "");
    return { body, wrong: FIELDS.filter((id) => bad[id]) };
  };
  const form = element("sale");
  form.addEventListener("input", (event) => {
    if (event.target instanceof HTMLElement) touched.add(event.target.id);
    show(outcome, "");
    check();
  });
  templatesOf(form, "sale", READY, () => {
    touched.clear();
    for (const id of FIELDS) mark(id, "");
    check();
  });
  // A browser may have kept what was chosen.
  check();
  show(/** @type {HTMLElement} */ (document.querySelector(".zone")), zoneWords());
  const from = new URLSearchParams(location.hash.slice(1)).get("from") ?? "";
  if (/^[0-9a-f-]{36}$/.test(from)) void copyFrom(from).then(check);
  let isAsking = false;
  let [sent, key] = ["", ""];
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isAsking) return;
    for (const id of FIELDS) touched.add(id);
    const { body, wrong } = check();
    if (wrong.length > 0) {
      show(outcome, say("check_fields"));
      field(wrong[0]).focus();
      return;
    }
    // Unchanged input keeps its key, so a retry after a lost answer does not open a second sale.
    const wanted = JSON.stringify(body);
    if (wanted !== sent) [sent, key] = [wanted, freshKey()];
    isAsking = true;
    const answer = await ask("POST", "/v1/sales", { body, key });
    isAsking = false;
    if (answer && answer.status < 300) {
      show(outcome, say("created"));
      location.assign(`/admin/sales/${answer.body.id}`);
      return;
    }
    show(outcome, tell(answer));
    for (const { pointer, detail } of answer?.body?.errors ?? []) {
      const id = FIELDS.find((it) => pointer?.startsWith(`#${POINTERS[it]}`));
      if (id) mark(id, detail);
    }
  });
}

if (document.getElementById("sale")) salePage();
