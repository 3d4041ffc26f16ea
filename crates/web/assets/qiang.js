// @ts-check
// Browser code of the pages. They call the public API in the session of the signed-in user, and show nothing that
// the service has not confirmed.

/** @typedef {{ amount: number, currency: string }} Money */
/** @typedef {{ phase: string, supply: number, granted: number, remaining: number, returned: number,
 *   withheld: number,
 *   starts_at: string, ends_at: string, now: string }} State */
/** @typedef {{ number: number, user: string, amount: Money, created_at?: string }} Share */
/** A share in a page: number, user, minor units, time. @typedef {[number, string, number, string]} ShortShare */
/** @typedef {{ id: string, sender: string, title: string, total: Money, shares: number, state: State,
 *   commitment: string, seed?: string, server_seed_hash?: string, server_seed?: string, client_seed?: string,
 *   luckiest?: Share, claimed: Money, remaining: Money, refunded: Money, audience?: string, requirements: string[],
 *   split: { rule: string, min?: number, max?: number } }} Packet */
/** @typedef {{ id: string, title: string, state: State, per_user_limit: number, unit_price: Money,
 *   hold_seconds: number, audience?: string, requirements: string[] }} Sale */
/** @typedef {{ id: string, campaign: string, quantity: number, amount: Money, state: string, created_at: string,
 *   hold_until?: string, hold_extension_seconds?: number, returned_quantity?: number }} Order */
/** @typedef {{ texts: Record<string, string>, language: string, session: { user: string, scopes: string[] } | null,
 *   desk?: Record<string, string>, packet: Packet, draws: { data: ShortShare[], next?: string } | null,
 *   own: Share | null, sale: Sale,
 *   orders: Order[], settled: boolean, place: { ahead: number } | null, sandbox: boolean,
 *   payment_url: string, then: string, account: { balances: { available: Money }[] } | null }} Facts */
/** @typedef {{ status: number, body: any, headers: Headers }} Answer */

/**
 * The element with an id, which the page has.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function element(id) {
  return /** @type {T} */ (/** @type {unknown} */ (document.getElementById(id)));
}

/** @type {Facts} */
export const facts = JSON.parse(element("facts").textContent ?? "{}");
const texts = Object.assign(facts.texts, facts.desk);

/** A number in groups of three digits. @param {number} number */
export const grouped = (number) => number.toLocaleString("en", { maximumFractionDigits: 20 });

/**
 * A text of the page's language: `{part}` is a value, and `{part:one|more}` is a word for 1 or for another number.
 * @param {string} name @param {Record<string, string | number>} [parts]
 */
export function say(name, parts = {}) {
  return texts[name].replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (_, part, one, more) => {
    const value = parts[part];
    if (more !== undefined) return String(value) === "1" ? one : more;
    return typeof value === "number" ? grouped(value) : value;
  });
}

/** @param {HTMLElement} target @param {string} text */
export function show(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Digits of each currency's minor unit. The service writes its table here. @type {Map<string, number>} */
const DIGITS = new Map("{digits of currencies}".split("|").flatMap((group) => {
  const [digits, ...codes] = group.split(" ");
  return codes.map((code) => /** @type {[string, number]} */ ([code, Number(digits)]));
}));
/** Signs of currencies; others are shown by code. @type {Record<string, string>} */
const SIGNS = Object.fromEntries("{signs of currencies}".split(" ").map((it) => [it.slice(0, 3), it.slice(3)]));

/** Digits of the minor unit; undefined if the service does not know the currency. @param {string} currency */
export const digitsOf = (currency) => DIGITS.get(currency);

/** As `money.rs` writes it. @param {Money} money */
export function price({ amount, currency }) {
  const digits = digitsOf(currency) ?? 0;
  const text = String(Math.abs(amount)).padStart(digits + 1, "0");
  const [whole, rest] = [text.slice(0, text.length - digits), text.slice(text.length - digits)];
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${amount < 0 ? "-" : ""}${SIGNS[currency] ?? `${currency}\u00a0`}${grouped}${digits ? "." : ""}${rest}`;
}

/** Minor units; NaN if the text is no exact amount of the currency. @param {string} text @param {string} currency */
export function minor(text, currency) {
  const digits = digitsOf(currency);
  // Input methods may write digits in full width.
  const [, units, rest = ""] = text.normalize("NFKC").trim().match(/^(\d{1,16})(?:\.(\d*))?$/) ?? [];
  if (digits === undefined || units === undefined || rest.length > digits) return NaN;
  const amount = Number(units + rest.padEnd(digits, "0"));
  return Number.isSafeInteger(amount) ? amount : NaN;
}

/** A number that is written as whole; NaN if it is none. @param {string} text */
export function whole(text) {
  const digits = text.normalize("NFKC").trim();
  return /^\d{1,15}$/.test(digits) ? Number(digits) : NaN;
}

/** Marks a field as wrong. @param {string} id @param {string} text reason; empty if the field is right */
export function mark(id, text) {
  show(element(`${id}-bad`), text);
  if (text) field(id).setAttribute("aria-invalid", "true");
  else field(id).removeAttribute("aria-invalid");
}

/**
 * Fields that were filled in before the script ran, by a fast person or by the browser. A choice has no default text.
 * @template {string} Id @param {Id[]} ids
 */
export const filledIn = (ids) =>
  ids.filter((id) => field(id).defaultValue !== undefined && field(id).value !== field(id).defaultValue);

/**
 * Gives the focus that an action took from its own button to the first of these elements that can have it.
 * @param {HTMLElement[]} places
 */
export function keepFocus(...places) {
  const has = document.activeElement;
  const canHave = (/** @type {Element} */ it) => it.checkVisibility() && !it.matches(":disabled");
  if (has && has !== document.body && canHave(has)) return;
  const place = places.find(canHave);
  if (place && place.tabIndex < 0) place.tabIndex = -1;
  place?.focus({ preventScroll: true });
}

/** The number of a name's tint, as `avatar.rs` has it. @param {string} name */
export const tintOf = (name) =>
  [...name].reduce((hash, sign) => (hash * 31 + (sign.codePointAt(0) ?? 0)) % 4_099, 0) % 8;

/** Shares a link by the means of the device, or copies it. Returns whether it was copied.
 * @param {string} title @param {string} text @param {string} url */
export async function share(title, text, url) {
  if (navigator.share) {
    await navigator.share({ title, text, url }).catch(() => {});
    return false;
  }
  await navigator.clipboard.writeText(`${text} ${url}`);
  return true;
}

/** @param {number} ms */
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// --- Asking the service.

const PATIENCE_MS = 30_000;

/**
 * Sends a request until it is answered. What is sent again has the same key, so that it has its effect once.
 * @param {string} method @param {string} path
 * @param {{ body?: object, key?: string, headers?: Record<string, string> }} [more]
 * @returns {Promise<Answer | null>} what refused it last if it was not decided in time; null if no answer came
 */
export async function ask(method, path, { body, key, headers = {} } = {}) {
  const lines = new Headers({ Accept: "application/json", ...headers });
  if (body) lines.set("Content-Type", "application/json");
  if (key) lines.set("Idempotency-Key", key);
  const until = Date.now() + PATIENCE_MS;
  /** @type {Answer | null} */
  let last = null;
  for (let attempt = 0; ; attempt++) {
    let wait = Math.min(4_000, 250 * 2 ** attempt) * (0.5 + Math.random());
    try {
      const signal = AbortSignal.timeout(10_000);
      const response = await fetch(path, { method, headers: lines, body: body && JSON.stringify(body), signal });
      const text = await response.text();
      const answer = { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : null };
      // The sign-in itself says what is wrong with a token.
      if (answer.status === 401 && path !== "/v1/session") offerSignIn();
      if (isDecided(answer) || problem(answer) === "paused") {
        show(element("status"), "");
        return answer;
      }
      last = answer;
      wait = Math.max(wait, Number(response.headers.get("Retry-After") ?? 0) * 1_000);
    } catch {
      last = null;
      // The answer may be lost in flight: a retry with the same key returns it.
    }
    if (Date.now() + wait > until) {
      show(element("status"), "");
      return last;
    }
    if (attempt > 0) show(element("status"), say("still_trying"));
    await sleep(wait);
  }
}

/** Whether nothing else will be answered to the same request. @param {Answer} answer */
export const isDecided = ({ status }) => status < 500 && status !== 429;

/** The name of the problem that was answered. @param {Answer} answer */
export function problem(answer) {
  return String(answer.body?.type ?? "").split("/").pop() ?? "";
}

/** What to tell of problems: texts by their names. @type {Record<string, string>} */
const PROBLEMS = {
  "address-throttled": "too_often", "already-waiting": "changed",
  "challenge-failed": "check_failed",
  "creations-throttled": "sent_too_many", ended: "over", forbidden: "may_not", "insufficient-funds": "too_little",
  internal: "did_not_work", invalid: "impossible_wish", "invitation-invalid": "not_for_you", "key-reused": "changed",
  "ledger-incomplete": "not_now", "limit-reached": "limit_reached", "queue-full": "again_later",
  "no-queue-entry": "again_later", "not-admitted": "again_later", "not-found": "no_such", "not-in-audience":
  "not_for_you", "not-started": "not_begun", "order-check-refused": "shop_refuses", "order-check-unavailable":
  "again_later", "order-conflict": "changed", overloaded: "again_later", "passphrase-wrong": "passphrase_wrong",
  "passphrases-throttled": "too_often", paused: "paused", "phase-conflict": "changed", "sold-out": "sold_out", stopping:
  "not_now", throttled: "too_often", "ticket-expired": "check_failed", "ticket-invalid": "check_failed",
  "ticket-missing": "check_failed", "too-many-connections": "too_often", "too-many-streams": "too_often",
  unauthenticated: "signed_out", unavailable: "not_now", uncertain: "gave_up", "unknown-campaign": "no_such",
  "user-mismatch": "changed",
};

/**
 * What to tell of a problem. Details are in English: operators have them, others on English pages.
 * @param {Answer} answer
 */
export function explain(answer) {
  const known = PROBLEMS[problem(answer)];
  if (known && !facts.desk) return say(known);
  const title = answer.body?.detail || answer.body?.title;
  return title && (facts.desk || facts.language === "en") ? say("unknown_problem", { title }) : say("did_not_work");
}

/** A key for one wish. */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * A key that stands for one wish of this user, whatever happens to the page, and what was wished under it at first.
 * @param {string} id @param {string} [what]
 */
export function wish(id, what = "") {
  const name = `qiang:${facts.session?.user}:${id}`;
  const kept = localStorage.getItem(name) ?? `${freshKey()} ${what}`;
  localStorage.setItem(name, kept);
  const [key, wished = ""] = kept.split(" ");
  return { key, what: wished || what, forget: () => localStorage.removeItem(name) };
}

/**
 * The ticket that a claim needs, where it needs one: its challenge is solved here.
 * @param {string} path
 * @returns {Promise<{ headers: Record<string, string> } | { refused: Answer | null }>}
 */
async function ticket(path) {
  let answer = await ask("POST", path);
  if (answer?.body?.challenge) {
    const { nonce, difficulty } = answer.body.challenge;
    const { sha256 } = await import("./split.js");
    const encoder = new TextEncoder();
    for (let attempt = 0; ; attempt++) {
      /** @type {Uint8Array} */
      const hash = sha256(encoder.encode(`${nonce}:${attempt}`));
      let bits = 0;
      for (const byte of hash) {
        bits += byte ? Math.clz32(byte) - 24 : 8;
        if (byte) break;
      }
      if (bits >= difficulty) {
        answer = await ask("POST", path, { body: { nonce, solution: String(attempt) } });
        break;
      }
      if (attempt % 2_000 === 1_999) await sleep(0);
    }
  }
  if (answer?.status === 201) return { headers: { "Grab-Ticket": answer.body.ticket } };
  if (answer && problem(answer) === "ticket-not-needed") return { headers: {} };
  return { refused: answer };
}

/**
 * Claims, with everything that the campaign asks for, and waits in line where there is one.
 * @param {"red-packets" | "sales"} kind @param {Packet | Sale} campaign @param {string} key @param {object} body
 * @param {(ahead: number) => void} inLine
 * @returns {Promise<Answer | null>}
 */
export async function claim(kind, campaign, key, body, inLine) {
  const path = `/v1/${kind}/${campaign.id}`;
  /** @type {Record<string, string>} */
  let headers = {};
  if (campaign.requirements.includes("ticket")) {
    const got = await ticket(`${path}/tickets`);
    if ("refused" in got) return got.refused;
    headers = got.headers;
  }
  const sent = { ...body, ...credentials(campaign) };
  const answer = await ask("POST", `${path}/${kind === "sales" ? "orders" : "claims"}`, { key, headers, body: sent });
  return answer?.status === 202 ? await standInLine(campaign.id, answer.body.ahead, inLine) : answer;
}

/**
 * Waits in a line until it is decided.
 * @param {string} id @param {number | null} before null if it is not known @param {(ahead: number) => void} inLine
 * @returns {Promise<Answer | null>}
 */
export async function standInLine(id, before, inLine) {
  if (before !== null) inLine(before);
  for (; ; await sleep(1_000)) {
    const place = await ask("GET", `/v1/campaigns/${id}/queue-entry`);
    if (!place || place.status !== 200) return place;
    if (place.body.state === "granted") return { ...place, body: place.body.order ?? place.body.claim };
    inLine(place.body.ahead);
  }
}

/** @param {Packet | Sale} campaign */
function credentials(campaign) {
  if (campaign.audience === "passphrase") {
    return { passphrase: element("passphrase") instanceof HTMLInputElement ? field("passphrase").value : "" };
  }
  // The invitation is in the URL fragment, which browsers never send.
  const invitation = new URLSearchParams(location.hash.slice(1)).get("invitation");
  return campaign.audience === "invitation" && invitation ? { invitation } : {};
}

/** @param {string} id */
export const field = (id) => /** @type {HTMLInputElement} */ (element(id));

// --- Live events.

/** The most that a view of those who watch may be older than when it comes. */
const VIEW_AGE_MAX_MS = 6_000;
/** What the clocks may differ by more than before: then one of them was set. */
const CLOCK_SET_MS = 60_000;

/** How much the service's clock is before this one, in milliseconds, as far as is known. @type {number | null} */
let ahead = null;
/** The time of the newest numbers that an answer had. */
let newestAt = 0;

/** @param {number} at */
function isClockSet(at) {
  return ahead !== null && Math.abs(at - Date.now() - ahead) > CLOCK_SET_MS;
}

/**
 * What says the time was on its way for a while, or lay somewhere: the service's clock is no less ahead than that.
 * @param {number} at
 */
export function noteTime(at) {
  ahead = Math.max(ahead ?? -Infinity, at - Date.now());
}

/** Takes the time from an answer. @param {{ now: string }} answer */
export function keepTime({ now: text }) {
  const at = Date.parse(text);
  if (isClockSet(at)) ahead = null;
  noteTime(at);
  newestAt = at;
}

export const now = () => Date.now() + (ahead ?? 0);

/**
 * @param {string} id @param {number} after
 * @param {{ state: (state: State) => void, draws?: (draws: { claims: Share[], gap?: boolean }) => void }} listener
 */
export function watch(id, after, listener) {
  let newest = after;
  let isAsking = false;
  /** Asks for the numbers themselves. */
  const look = async () => {
    if (isAsking) return;
    isAsking = true;
    const answer = await ask("GET", `/v1/campaigns/${id}/state`);
    isAsking = false;
    if (answer?.status !== 200) return;
    keepTime(answer.body);
    listener.state(answer.body);
  };
  const begin = () => {
    const events = new EventSource(`/v1/campaigns/${id}/events?after=${newest}`);
    events.addEventListener("state", (event) => {
      /** @type {State} */
      const state = JSON.parse(event.data);
      const at = Date.parse(state.now);
      // Numbers that have not changed for long have an old time, too: by it alone the clock is not set.
      const isOlder = at < newestAt && newestAt - at <= VIEW_AGE_MAX_MS;
      if (!isClockSet(at)) noteTime(at);
      if (isOlder || isClockSet(at)) void look();
      if (!isOlder) listener.state(state);
    });
    events.addEventListener("draws", (event) => {
      newest = Number(event.lastEventId) || newest;
      listener.draws?.(JSON.parse(event.data));
    });
    // Browsers reconnect automatically unless refused. If refused, the page polls the state until a stream opens.
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return;
      void look();
      setTimeout(begin, 2_000 + 3_000 * Math.random());
    });
  };
  begin();
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const days = Math.floor(seconds / 86_400);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const minutes = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  const clock = seconds < 3_600 ? minutes : `${two(Math.floor(seconds / 3_600) % 24)}:${minutes}`;
  return days > 0 ? `${days} ${say("day")} ${clock}` : clock;
}

/** `Sat 28 Nov, 20:00 (UTC+8)`, in the browser's time zone. @param {number} at */
export function moment(at) {
  const date = new Date(at);
  const year = date.getFullYear() === new Date(now()).getFullYear() ? {} : { year: /** @type {const} */ ("numeric") };
  const isEnglish = facts.language === "en";
  const day = date.toLocaleDateString(isEnglish ? "en-GB" : facts.language,
    { weekday: "short", day: "numeric", month: "short", ...year }).replace(",", "");
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const [east, minutes] = [date.getTimezoneOffset() <= 0, Math.abs(date.getTimezoneOffset())];
  const offset = `${east ? "+" : "−"}${Math.floor(minutes / 60)}${minutes % 60 ? `:${minutes % 60}` : ""}`;
  return `${day}${isEnglish ? ", " : " "}${time} (UTC${minutes ? offset : ""})`;
}

/** What a campaign is in, by the service's clock: its phase changes with the time alone. @param {State} state */
export function phase(state) {
  if (["closed", "ended"].includes(state.phase) || now() >= Date.parse(state.ends_at)) return "over";
  if (state.phase === "paused") return "paused";
  return now() < Date.parse(state.starts_at) ? "before" : "live";
}

/** What a clock shows: words, and time where some is left. @param {State} state @returns {[string, string]} */
export function clockParts(state) {
  switch (phase(state)) {
    case "before": return [say("begins_in"), duration(Date.parse(state.starts_at) - now())];
    case "over": return [say("over"), ""];
    default: return [say("ends_in"), duration(Date.parse(state.ends_at) - now())];
  }
}

/** @param {State} state */
export const clock = (state) => clockParts(state).join(" ").trim();

/** Shows it with the time in large digits. @param {State} state */
export function showClock(state) {
  const target = element("clock");
  const [words, time] = clockParts(state);
  const [label = target.appendChild(document.createElement("span")), ...rest] = target.children;
  if (rest.length === 0) target.append(" ", document.createElement("b"));
  show(/** @type {HTMLElement} */ (label), words);
  show(/** @type {HTMLElement} */ (target.lastElementChild), time);
}

/** Calls again and again, and at once. @param {() => void} tick */
export function often(tick) {
  tick();
  setInterval(tick, 250);
}

/** @param {State} state */
export function numbers(state) {
  const bar = /** @type {HTMLProgressElement} */ (element("bar"));
  bar.max = Math.max(1, state.supply);
  bar.value = state.remaining;
}

// --- Links that keep the place: the query, and the fragment, which may have an invitation.

/** Path of the sign-in, which leads back to this page. Browsers keep the fragment beside it. */
export const signInPath = () =>
  `/sign-in?then=${encodeURIComponent(location.pathname + location.search)}${location.hash}`;

/** A wish that began before the sign-in is made after it, unless it was longer ago than this. */
const WISH_LASTS_MS = 600_000;

/** Leads to the sign-in, and then back to what was wanted. @param {string} id @param {string} [what] */
export function signInFor(id, what = "") {
  sessionStorage.setItem(`qiang:wanted:${id}`, `${Date.now()} ${what}`);
  location.assign(signInPath());
}

/** What this tab wanted of a campaign before the sign-in; null if nothing. @param {string} id */
export function wantedBefore(id) {
  if (!facts.session) return null;
  const [at, what] = (sessionStorage.getItem(`qiang:wanted:${id}`) ?? "0 ").split(" ");
  sessionStorage.removeItem(`qiang:wanted:${id}`);
  return Date.now() - Number(at) < WISH_LASTS_MS ? what : null;
}

/** Shows the way to the sign-in to a user whose session ended, for instance in another tab. */
function offerSignIn() {
  if (document.getElementById("signed-out")) return;
  const bar = Object.assign(document.createElement("p"), { id: "signed-out" });
  bar.setAttribute("role", "alert");
  const link = Object.assign(document.createElement("a"), { className: "button main", href: signInPath() });
  show(link, say("sign_in"));
  bar.append(`${say("signed_out")} `, link);
  element("status").before(bar);
}

/** Has a link lead to where it is when it is followed. @param {string} links @param {(lang: string) => string} path */
function leadTo(links, path) {
  for (const it of document.querySelectorAll(links)) {
    const link = /** @type {HTMLElement} */ (it);
    for (const type of ["click", "auxclick"]) {
      link.addEventListener(type, () => link.setAttribute("href", path(link.lang)));
    }
  }
}

leadTo("a[lang]", (language) => {
  const url = new URL(location.href);
  url.searchParams.set("language", language);
  return url.href;
});
if (location.pathname !== "/sign-in") leadTo("#sign-in", signInPath);

document.getElementById("sign-out")?.addEventListener("click", async () => {
  await ask("DELETE", "/v1/session");
  location.assign("/");
});
