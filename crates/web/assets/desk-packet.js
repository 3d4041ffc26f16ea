// @ts-check
// Operators' desk: form that sends a red packet from the operator's account.

import { templatesOf } from "./desk-templates.js";
import { sumOf, tell, zoneWords } from "./desk.js";
import { ask, digitsOf, element, facts, field, filledIn, freshKey, mark, minor, price, say, show, whole } from
  "./qiang.js";

/** Fields of the form, and where in the request they are. */
const POINTERS = { title: "/title", total: "/total", currency: "/total/currency", shares: "/shares",
  starts: "/starts_at", ends: "/ends_at", passphrase: "/audience/passphrase" };
const FIELDS = /** @type {(keyof typeof POINTERS)[]} */ (Object.keys(POINTERS));

/** The request that the form stands for, and what is wrong with it, by field. */
function read() {
  const [title, total, currency, shares, starts, ends, passphrase] = FIELDS.map((id) => field(id).value.trim());
  /** @type {Partial<Record<keyof typeof POINTERS, string>>} */
  const bad = {};
  const [isCurrency, count] = [digitsOf(currency) !== undefined, whole(shares)];
  const amount = isCurrency ? minor(total, currency) : 0;
  const begin = starts ? new Date(starts) : new Date();
  const length = [...passphrase].length;
  if (!title || [...title].length > 1_024) bad.title = "bad_title";
  if (!isCurrency) bad.currency = "bad_currency";
  if (!(count >= 1)) bad.shares = "bad_stock";
  if (isCurrency && !Number.isSafeInteger(amount)) bad.total = "bad_price";
  else if (isCurrency && count >= 1 && amount < count) bad.total = "bad_total_small";
  if (ends && !(new Date(ends) > begin && Date.parse(ends) > Date.now())) bad.ends = "bad_ends";
  const least = /^\p{N}*$/u.test(passphrase) ? 6 : 4;
  if (passphrase && (length < least || length > 128)) bad.passphrase = "bad_passphrase";
  const [rule, draws, cover] = ["rule", "draws", "cover"].map((id) => field(id).value);
  const body = { title, total: { amount, currency }, shares: count, split: { rule }, cover,
    ...(starts && { starts_at: begin.toISOString() }),
    ...(ends && !bad.ends && { ends_at: new Date(ends).toISOString() }),
    ...(passphrase && { audience: { passphrase } }), ...(draws !== "everybody" && { draws }) };
  return { body, bad };
}

/** Templates to begin with. @type {Record<string, import("./desk-templates.js").Values>} */
const READY = {
  template_lucky: { total: "200.00", shares: "20", rule: "double_average", cover: "lantern" },
  template_gift: { total: "100.00", shares: "10", rule: "equal" },
  template_wedding: { total: "888.00", shares: "50", rule: "double_average", cover: "wedding" },
};

/** Fills the form with a packet that is to be sent again. Its times are not taken. @param {string} id */
async function copyFrom(id) {
  const answer = await ask("GET", `/v1/red-packets/${id}`);
  if (answer?.status !== 200) {
    show(element("outcome"), tell(answer));
    return;
  }
  const { title, total: { amount, currency }, shares, split, draws, cover } = answer.body;
  const digits = digitsOf(currency) ?? 0;
  const text = String(amount).padStart(digits + 1, "0");
  /** @type {Record<string, string>} */
  const values = { title, total: digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text, currency,
    shares: String(shares), rule: split.rule === "equal" ? "equal" : "double_average", draws, cover };
  for (const [name, value] of Object.entries(values)) field(name).value = value;
  show(element("outcome"), say("copied_packet", { title }));
}

async function packetPage() {
  const outcome = element("outcome");
  show(/** @type {HTMLElement} */ (document.querySelector(".zone")), zoneWords());
  /** @type {Set<string>} */
  const touched = new Set(filledIn(FIELDS));
  const check = () => {
    const { body, bad } = read();
    for (const id of FIELDS) if (touched.has(id)) mark(id, bad[id] ? say(bad[id]) : "");
    return { body, wrong: FIELDS.filter((id) => bad[id]) };
  };
  const form = element("packet");
  form.addEventListener("input", (event) => {
    if (event.target instanceof HTMLElement) touched.add(event.target.id);
    show(outcome, "");
    check();
  });
  templatesOf(form, "packet", READY, () => {
    touched.clear();
    for (const id of FIELDS) mark(id, "");
    check();
  });
  // A browser may have kept what was filled in.
  check();
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
    // Unchanged input keeps its key, so a retry after a lost answer does not send a second packet.
    const wanted = JSON.stringify(body);
    if (wanted !== sent) [sent, key] = [wanted, freshKey()];
    isAsking = true;
    const answer = await ask("POST", "/v1/red-packets", { body, key });
    isAsking = false;
    if (answer && answer.status < 300) {
      show(outcome, say("created"));
      location.assign(`/admin/packets/${answer.body.id}`);
      return;
    }
    show(outcome, tell(answer));
    for (const { pointer, detail } of answer?.body?.errors ?? []) {
      const id = FIELDS.find((it) => pointer?.startsWith(`#${POINTERS[it]}`));
      if (id) mark(id, detail);
    }
  });
  const account = await ask("GET", `/v1/accounts/${encodeURIComponent(facts.session?.user ?? "")}`);
  const all = account?.body?.balances?.map((/** @type {any} */ { available }) => available) ?? [];
  const amount = all.length ? sumOf(all) : price({ amount: 0, currency: "CNY" });
  show(element("balance"), say("paid_from", { amount }));
}

if (document.getElementById("packet")) void packetPage();
