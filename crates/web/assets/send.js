// @ts-check
// Sending a red packet.

import { ask, digitsOf, element, explain, facts, field, isDecided, mark, minor, price, say, show, whole, wish } from
  "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */

/** What the sandbox puts in at a time. @type {Money} */
const DEPOSIT = { amount: 100_000, currency: "CNY" };
/** Fields of the form, and where in the request they are. */
const POINTERS = { currency: "#/total/currency", amount: "#/total", shares: "#/shares", greeting: "#/title" };
const FIELDS = /** @type {(keyof typeof POINTERS)[]} */ (Object.keys(POINTERS));

/**
 * The least and the most that one share may be: no draw is outside.
 * @param {{ total: Money, shares: number, split: { rule: string, max?: number } }} wanted
 */
function boundsOf({ total: { amount }, shares, split: { rule, max = Infinity } }) {
  const mean = amount / shares;
  if (rule === "equal") return [Math.floor(mean), Math.ceil(mean)];
  // All others may have the least, or the most.
  const most = Math.min(max, amount - (shares - 1));
  return [Math.max(1, amount - (shares - 1) * most), most];
}

async function sendPage() {
  const form = /** @type {HTMLFormElement} */ (element("send"));
  const outcome = element("outcome");
  /** @param {{ balances: { available: Money }[] } | null} account */
  const showBalance = (account) => {
    const balance = account?.balances.map(({ available }) => price(available)).join(", ");
    show(element("balance"), account ? say("balance", { amount: balance || price({ ...DEPOSIT, amount: 0 }) }) : "");
  };
  showBalance(facts.account);
  const { hex, shares } = await import("./split.js");

  /** The request of the form, and the reasons why it is impossible, by field. */
  const read = () => {
    const [text, currency, rule] = ["amount", "currency", "rule"].map((id) => field(id).value);
    const [amount, count] = [minor(text, currency), whole(field("shares").value)];
    const digits = digitsOf(currency);
    /** @type {Partial<Record<typeof FIELDS[number], string>>} */
    const bad = {};
    if (digits === undefined) bad.currency = say("bad_currency");
    else if (Number.isNaN(amount)) {
      bad.amount = say("bad_amount", { example: digits ? `12.${"50".padEnd(digits, "0")}` : "1250" });
    }
    if (!(count >= 1)) bad.shares = say("bad_shares");
    else if (amount < count) bad.amount = say("too_little_each", { least: price({ amount: count, currency }) });
    const title = field("greeting").value;
    if (!title) bad.greeting = say("bad_greeting");
    const mean = amount / count;
    const min = rule === "equal" ? {} : { min: 1 };
    const max = rule === "normal" ? { max: Math.max(1, Math.ceil(2 * mean) - 1) } : {};
    const split = /** @type {{ rule: string, max?: number }} */ ({ rule, ...min, ...max });
    const cover = new FormData(form).get("cover");
    return { bad, wanted: { title, total: { amount, currency }, shares: count, split, cover } };
  };

  /** Reads the form, and marks what is wrong. */
  const check = () => {
    const form = read();
    for (const id of FIELDS) mark(id, form.bad[id] ?? "");
    return form;
  };

  const draw = () => {
    const { bad, wanted } = check();
    const picture = element("spread");
    picture.replaceChildren();
    if (bad.amount || bad.currency || bad.shares) {
      show(element("spread-words"), "");
      return;
    }
    const count = Math.min(wanted.shares, 200);
    const split = {
      total: BigInt(Math.round((wanted.total.amount * count) / wanted.shares)), count: BigInt(count),
      rule: wanted.split.rule, min: 1n, max: BigInt(wanted.split.max ?? 0),
    };
    /** @type {number[]} */
    const drawn = [];
    while (drawn.length < 2_000) {
      for (const share of shares(crypto.getRandomValues(new Uint8Array(32)), split)) drawn.push(Number(share));
    }
    drawn.sort((a, b) => a - b);
    const at = (/** @type {number} */ part) => drawn[Math.floor(part * (drawn.length - 1))];
    const [low, high] = [at(0.01), at(0.99)];
    const bars = new Array(40).fill(0);
    for (const share of drawn) bars[Math.min(39, Math.max(0, Math.floor(((share - low) / (high - low + 1)) * 40)))]++;
    const tallest = Math.max(...bars);
    bars.forEach((height, i) => {
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const tall = (height / tallest) * 56;
      for (const [name, value] of Object.entries({ x: 5 * i, y: 60 - tall, width: 4.5, height: tall })) {
        bar.setAttribute(name, String(value));
      }
      picture.append(bar);
    });
    const money = (/** @type {number} */ amount) => price({ amount, currency: wanted.total.currency });
    const [least, most] = boundsOf(wanted);
    const parts = { low: money(least), high: money(most), from: money(at(0.25)), to: money(at(0.75)) };
    show(element("spread-words"), say(least === most ? "spread_one" : "spread_help", parts));
  };

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let later;
  form.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(draw, 150);
  });
  /** @param {string} key */
  const placeOf = (key) => `qiang:${facts.session?.user}:seed:${key}`;

  /**
   * The client seed, and the hash of the server seed. A retry of a wish sends the same. Empty if the service has no
   * server seeds; null if it did not answer.
   * @param {string} key
   */
  const partsOf = async (key) => {
    const kept = localStorage.getItem(placeOf(key));
    if (kept) return JSON.parse(kept);
    const answer = await ask("POST", "/v1/red-packets/server-seeds");
    if (!answer) return null;
    const client_seed = hex(crypto.getRandomValues(new Uint8Array(32)));
    const parts = answer.status === 200 ? { ...answer.body, client_seed } : {};
    localStorage.setItem(placeOf(key), JSON.stringify(parts));
    return parts;
  };

  const deposit = /** @type {HTMLButtonElement | null} */ (document.getElementById("put-in"));
  if (deposit) show(deposit, say("put_in", { amount: price(DEPOSIT) }));
  deposit?.addEventListener("click", async () => {
    deposit.disabled = true;
    const intent = wish("put-in");
    const answer = await ask("POST", "/sandbox/deposits", { body: DEPOSIT, key: intent.key });
    deposit.disabled = false;
    deposit.focus();
    if (answer && isDecided(answer)) intent.forget();
    if (!answer) show(outcome, say("gave_up"));
    else if (answer.status >= 300) show(outcome, explain(answer));
    else {
      show(outcome, say("put_in_done", { amount: price(DEPOSIT) }));
      const account = await ask("GET", `/v1/accounts/${encodeURIComponent(facts.session?.user ?? "")}`);
      if (account?.status === 200) showBalance(account.body);
    }
  });
  /** @param {string} id */
  const showSent = (id) => {
    const link = /** @type {HTMLAnchorElement} */ (element("link"));
    link.href = `/p/${id}`;
    show(link, link.href);
    field("qr").src = `/p/${id}/qr.svg`;
    form.hidden = true;
    element("sent").hidden = false;
    link.focus();
  };

  let isSending = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isSending) return;
    const { bad, wanted } = check();
    const wrong = FIELDS.find((id) => bad[id]);
    if (wrong) {
      field(wrong).focus();
      return;
    }
    isSending = true;
    show(outcome, "");
    show(element("send-button"), say("sending"));
    // The same wish until it is answered, or changed.
    const intent = wish(`send:${JSON.stringify(wanted)}`);
    const parts = await partsOf(intent.key);
    const answer = parts && await ask("POST", "/v1/red-packets", { body: { ...wanted, ...parts }, key: intent.key });
    isSending = false;
    show(element("send-button"), say("send"));
    if (answer && isDecided(answer)) {
      intent.forget();
      localStorage.removeItem(placeOf(intent.key));
    }
    if (!answer || answer.status >= 300) {
      show(outcome, answer ? explain(answer) : say("gave_up"));
      // The service may refuse more than this page knows of, such as the largest amount.
      for (const { pointer, detail } of answer?.body?.errors ?? []) {
        const id = FIELDS.find((it) => pointer?.startsWith(POINTERS[it]));
        if (id) mark(id, facts.language === "en" ? detail : say("impossible_wish"));
      }
      return;
    }
    // A reload shows the link again.
    history.replaceState(null, "", `#sent=${answer.body.id}`);
    showSent(answer.body.id);
  });
  element("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(element("link").textContent ?? "");
    show(element("copy"), say("copied"));
  });
  draw();
  const sent = new URLSearchParams(location.hash.slice(1)).get("sent") ?? "";
  if (/^[0-9a-f-]{36}$/.test(sent)) showSent(sent);
}

void sendPage();
