// @ts-check
// What pages do in the browser. They call the public API, in the session of whoever is signed in, and show nothing that
// the service has not confirmed.

/** @typedef {{ amount: number, currency: string }} Money */
/** @typedef {{ phase: string, supply: number, granted: number, remaining: number, returned: number,
 *   starts_at: string, ends_at: string, now: string }} State */
/** @typedef {{ number: number, user: string, amount: Money, granted_at: string }} Share */
/** @typedef {{ id: string, sender: string, title: string, total: Money, shares: number, state: State,
 *   commitment: string, commitment_version: number, seed?: string, promise?: string, secret?: string, entropy?: string,
 *   luckiest?: Share, remaining: Money, refunded: Money, audience?: string, requirements: string[],
 *   split: { rule: string, min?: number, max?: number } }} Packet */
/** @typedef {{ id: string, title: string, state: State, per_user_limit: number, unit_price: Money, audience?: string,
 *   requirements: string[] }} Sale */
/** @typedef {{ order: string, quantity: number, amount: Money, state: string, hold_until?: string }} Order */
/** @typedef {{ texts: Record<string, string>, language: string, session: { user: string, scopes: string[] } | null,
 *   desk?: Record<string, string>, packet: Packet, draws: { claims: Share[], next?: number } | null, sale: Sale,
 *   sandbox: boolean,
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

/** A text of the page's language. @param {string} name @param {Record<string, string | number>} [parts] */
export function say(name, parts = {}) {
  return texts[name].replace(/\{(\w+)\}/g, (_, part) => String(parts[part]));
}

/** @param {HTMLElement} target @param {string} text */
export function show(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** @param {Money} money */
export function price({ amount, currency }) {
  const options = /** @type {const} */ ({ style: "currency", currency, currencyDisplay: "narrowSymbol" });
  const format = new Intl.NumberFormat(facts.language, options);
  return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2));
}

/** @param {number} ms */
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// --- Asking the service.

const PATIENCE_MS = 30_000;

/**
 * Sends a request until it is answered. What is sent again has the same key, so that it has its effect once.
 * @param {string} method @param {string} path
 * @param {{ body?: object, key?: string, headers?: Record<string, string> }} [more]
 * @returns {Promise<Answer | null>} null if no answer came in time
 */
export async function ask(method, path, { body, key, headers = {} } = {}) {
  const lines = new Headers({ Accept: "application/json", ...headers });
  if (body) lines.set("Content-Type", "application/json");
  if (key) lines.set("Idempotency-Key", key);
  const until = Date.now() + PATIENCE_MS;
  for (let attempt = 0; ; attempt++) {
    let wait = Math.min(4_000, 250 * 2 ** attempt) * (0.5 + Math.random());
    try {
      const signal = AbortSignal.timeout(10_000);
      const response = await fetch(path, { method, headers: lines, body: body && JSON.stringify(body), signal });
      const text = await response.text();
      const answer = { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : null };
      const slug = String(answer.body?.type ?? "").split("/").pop() ?? "";
      const isDecided = response.status < 500 && response.status !== 429;
      if (isDecided || slug === "paused") {
        show(element("status"), "");
        return answer;
      }
      wait = Math.max(wait, Number(response.headers.get("Retry-After") ?? 0) * 1_000);
    } catch {
      // The answer may be lost on its way: asking again under the same key finds out.
    }
    if (Date.now() + wait > until) {
      show(element("status"), "");
      return null;
    }
    if (attempt > 0) show(element("status"), say("still_trying"));
    await sleep(wait);
  }
}

/** The name of the problem that was answered. @param {Answer} answer */
export function problem(answer) {
  return String(answer.body?.type ?? "").split("/").pop() ?? "";
}

/** What to tell of a problem. @param {Answer} answer */
export function explain(answer) {
  switch (problem(answer)) {
    case "not-named": case "invitation-invalid": case "forbidden": return say("not_for_you");
    case "paused": return say("paused");
    case "limit-reached": return say("limit_reached");
    default: return say("unknown_problem", { title: answer.body?.detail || answer.body?.title || answer.status });
  }
}

/** A key for one wish. */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A key that stands for one wish of this user, whatever happens to the page. @param {string} id */
export function wish(id) {
  const name = `qiang:${facts.session?.user}:${id}`;
  let key = localStorage.getItem(name);
  if (!key) {
    key = freshKey();
    localStorage.setItem(name, key);
  }
  return { key, forget: () => localStorage.removeItem(name) };
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
  if (answer?.status !== 202) return answer;
  for (inLine(answer.body.ahead); ; await sleep(1_000)) {
    const place = await ask("GET", `/v1/campaigns/${campaign.id}/place`);
    if (!place || place.status !== 200) return place;
    if (place.body.state === "granted") return { ...place, body: place.body.grant };
    inLine(place.body.ahead);
  }
}

/** @param {Packet | Sale} campaign */
function credentials(campaign) {
  if (campaign.audience === "passphrase") {
    return { passphrase: element("passphrase") instanceof HTMLInputElement ? field("passphrase").value : "" };
  }
  // It stands behind the `#`, which browsers send to nobody.
  const invitation = new URLSearchParams(location.hash.slice(1)).get("invitation");
  return campaign.audience === "invitation" && invitation ? { invitation } : {};
}

/** @param {string} id */
export const field = (id) => /** @type {HTMLInputElement} */ (element(id));

// --- What happens, as it happens.

/** How much the service's clock is before this one, in milliseconds. */
let ahead = 0;

/** @param {State} state */
export function keepTime(state) {
  ahead = Date.parse(state.now) - Date.now();
}

export const now = () => Date.now() + ahead;

/**
 * @param {string} id @param {number} after
 * @param {{ state: (state: State) => void, draws?: (draws: { claims: Share[], gap?: boolean }) => void }} listener
 */
export function watch(id, after, listener) {
  let newest = after;
  const begin = () => {
    const events = new EventSource(`/v1/campaigns/${id}/events?after=${newest}`);
    events.addEventListener("state", (event) => {
      const state = JSON.parse(event.data);
      keepTime(state);
      listener.state(state);
    });
    events.addEventListener("draws", (event) => {
      newest = Number(event.lastEventId) || newest;
      listener.draws?.(JSON.parse(event.data));
    });
    // Browsers connect again by themselves, unless they were refused.
    events.addEventListener("error", () => {
      if (events.readyState === EventSource.CLOSED) setTimeout(begin, 2_000 + 3_000 * Math.random());
    });
  };
  begin();
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const days = Math.floor(seconds / 86_400);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const clock = `${two(Math.floor(seconds / 3_600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days > 0 ? `${days} ${say("day")} ${clock}` : clock;
}

/** What a campaign is in, by the service's clock: its phase changes with the time alone. @param {State} state */
export function phase(state) {
  if (state.phase === "closed" || now() >= Date.parse(state.ends_at)) return "over";
  if (state.phase === "paused") return "paused";
  return now() < Date.parse(state.starts_at) ? "before" : "live";
}

/** @param {State} state */
export function clock(state) {
  switch (phase(state)) {
    case "before": return `${say("begins_in")} ${duration(Date.parse(state.starts_at) - now())}`;
    case "over": return say("over");
    default: return `${say("ends_in")} ${duration(Date.parse(state.ends_at) - now())}`;
  }
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

document.getElementById("sign-out")?.addEventListener("click", async () => {
  await ask("DELETE", "/v1/session");
  location.assign("/");
});
