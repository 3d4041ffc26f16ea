// @ts-check
// Partitions, quarantine, audits and webhooks at the operators' desk. Everything that is done is asked about first.

import { chart, SECONDS } from "./chart.js";
import { details, showActions } from "./desk-actions.js";
import { tell } from "./desk.js";
import { edges } from "./plot.js";
import { ask, element, facts, freshKey, grouped, say, show, sleep } from "./qiang.js";

/** @typedef {{ partition: number, status: string, reason?: string, settlement_lag?: number, settlement_stuck?: string,
 *   refused: number, waiting: number,
 *   reconciliation?: { differences: Record<string, number>, ran_at?: string, passed_at?: string } }} Partition */
/** @typedef {{ node: string, seen_at: string, term: number, observed: number }} SeenNode */
/** @typedef {{ epoch: string, at: string, lost: number, unnamed: number, reason: string }} Repair */
/** @typedef {Partition & { nodes: SeenNode[], repairs: Repair[],
 *   withheld: { units: number, campaign: string, released_at?: string }[] }} Detail */
/** @typedef {{ entry: string, campaign: string, event: string, at: string, reason: string,
 *   waits_for?: number }} Entry */
/** @typedef {{ name: string, ok?: boolean, examined: number, offending: string[], offending_total: number }} Check */
/** @typedef {{ id: string, status: string, actor: string, started_at: string, error?: string,
 *   report?: { subject: string, checks: Check[] } }} Audit */
/** @typedef {{ id: string, url: string, status: string, behind: number, last_error?: string }} Webhook */

/** @typedef {{ id: string, event: string, type: string, campaign: string, order?: string, attempted_at: string,
 *   duration_ms: number, attempt: number, state: string, response_status?: number, response_body?: string,
 *   error?: string, next_attempt_at?: string }} Delivery */

/** How often the page looks. */
const LOOK_MS = 2_000;
/** Entries of the quarantine that are shown. */
const SHOWN = 100;
/** Attempts at deliveries that are shown, newest first. */
const DELIVERIES_SHOWN = 50;
/** Maximum refused payment reports that are shown, newest first. */
const REFUSED_SHOWN = 20;
/** Age in milliseconds up to which they are shown. */
const REFUSED_MS = 7 * 24 * 3_600_000;
/** What was done is written down under these subjects: of webhooks, those that something was done to here. */
const subjects = new Set(["the service"]);

/** @param {string} at */
const time = (at) => new Date(at).toLocaleString(facts.language);
const count = grouped;
/** A word of the API in the page's language, or the word itself. @param {string} word */
const word = (word) => (`is_${word}` in facts.texts ? say(`is_${word}`) : word);

/** @param {string} tag @param {string} text @param {string} [className] */
function made(tag, text, className = "") {
  const one = document.createElement(tag);
  show(one, text);
  one.className = className;
  return one;
}

/**
 * Asks whether to do something, then does it and says how it ended.
 * @param {string} id the button's @param {string} name
 * @param {{ title: string, help: string, act: () => Promise<string> }} what
 */
function button(id, name, { title, help, act }) {
  const one = document.createElement("button");
  one.id = id;
  show(one, name);
  one.addEventListener("click", () => {
    const dialog = /** @type {HTMLDialogElement} */ (element("confirm"));
    show(element("confirm-title"), title);
    show(element("confirm-help"), help);
    show(element("confirm-yes"), name);
    dialog.returnValue = "";
    dialog.onclose = () => {
      if (dialog.open) return; // this event belongs to the previous question
      dialog.onclose = null;
      if (dialog.returnValue === "yes") void perform(id, act);
    };
    dialog.showModal();
  });
  return one;
}

let isBusy = false;

/** @param {string} id @param {() => Promise<string>} act */
async function perform(id, act) {
  if (isBusy) return;
  isBusy = true;
  show(element("outcome"), say("working"));
  show(element("outcome"), await act());
  isBusy = false;
  await look();
  await showActions(...subjects);
  // The list is recreated; restore the keyboard focus.
  if (document.activeElement === document.body) document.getElementById(id)?.focus();
}

/** Puts items into a list, unless they are there already: so the focus stays. @param {string} id @param {object} of
 * @param {() => HTMLElement[]} items */
function fill(id, of, items) {
  const list = element(id);
  const stands = JSON.stringify(of);
  if (list.dataset.stands === stands) return;
  const focused = list.contains(document.activeElement) ? document.activeElement?.id : "";
  list.dataset.stands = stands;
  list.replaceChildren(...items());
  if (focused) document.getElementById(focused)?.focus();
}

/** @param {(string | Node)[]} parts */
function item(...parts) {
  const one = document.createElement("li");
  one.append(...parts);
  return one;
}

/** @param {HTMLElement[]} buttons */
function row(...buttons) {
  const one = made("p", "", "row");
  one.append(...buttons);
  return one;
}

// --- Partitions.

const draw = document.getElementById("chart") ? chart(element("chart")) : null;
const atChart = draw ? edges(element("chart")) : null;
let mostLag = 1;

/** @param {Partition} one @param {boolean} repairable */
function partition(one, repairable) {
  const { partition: n, status, reason, refused, waiting, settlement_stuck: stuck, reconciliation } = one;
  const words = [say("quarantine_words", { refused: count(refused), waiting: count(waiting) })];
  if (reconciliation) words.push(differing(reconciliation.differences));
  const ran = made("span", "");
  ran.id = `ran-${n}`;
  const waits = made("span", "");
  waits.id = `lag-${n}`;
  const parts = [made("b", `${say("partition")} ${n}: ${word(status)}`), waits, made("span", words.join(" · ")), ran];
  for (const bad of [reason, stuck]) if (bad) parts.push(made("span", bad, "bad"));
  const details = made("div", "", "details");
  details.id = `detail-${n}`;
  const opener = made("button", say("details"));
  opener.id = `details-${n}`;
  opener.addEventListener("click", () => void showDetail(n));
  const buttons = [opener];
  if (repairable) {
    for (const what of ["reconcile", "repair", "resume", "release"]) {
      const act = async () => {
        const verb = what === "release" ? "release-withheld" : what;
        const answer = await ask("POST", `/v1/partitions/${n}/${verb}`, { key: freshKey() });
        return answer?.status === 200 ? outcome(what, answer.body) : tell(answer);
      };
      const title = say(`${what}_title`, { n });
      buttons.push(button(`${what}-${n}`, say(`${what}_do`), { title, help: say(`${what}_help`), act }));
    }
  }
  return item(...parts, row(...buttons), details);
}

/** How engine and ledger differ, kind by kind. @param {Record<string, number>} differences */
function differing(differences) {
  const all = Object.entries(differences).filter(([, many]) => many > 0);
  return all.map(([kind, many]) => `${kind}: ${count(many)}`).join(", ") || say("no_differences");
}

/** @param {string} what @param {any} body */
function outcome(what, body) {
  if (what === "reconcile") {
    const { ran_at, rows, campaigns, differences, examples, complete } = body;
    const words = say(complete ? "reconciled" : "reconciled_partly", { at: time(ran_at), rows: count(rows),
      campaigns: count(campaigns), found: differing(differences) });
    return [words, ...examples].join("\n");
  }
  if (what === "repair") return say(`repair_${body.result}`, body);
  if (what === "resume") return say(body.resumed ? "resumed" : "not_halted");
  return say("released", { units: count(body.units) });
}

/** @param {number} n */
async function showDetail(n) {
  const answer = await ask("GET", `/v1/partitions/${n}`);
  if (answer?.status !== 200) return show(element("outcome"), tell(answer));
  /** @type {Detail} */
  const { nodes, repairs, withheld } = answer.body;
  const lines = [
    ...nodes.map(({ node, seen_at, observed }) => say("node_words", { node, at: time(seen_at), observed })),
    ...repairs.map(({ at, lost, unnamed, reason }) => say("repair_words", { at: time(at), lost, unnamed, reason })),
    ...withheld.map(({ units, campaign, released_at }) =>
      say(released_at ? "was_withheld" : "withheld_words", { units, campaign })),
  ];
  element(`detail-${n}`).replaceChildren(...(lines.length ? lines : [say("no_details")]).map((it) => made("p", it)));
}

// --- Quarantine.

/** @param {Entry} one */
function quarantined({ entry, campaign, event, at, reason, waits_for }) {
  const parts = [made("b", entry), made("code", event), made("span", `${campaign} · ${time(at)}`),
    made("span", reason, waits_for ? "" : "bad")];
  const act = async () => {
    const answer = await ask("POST", `/v1/quarantine/${entry}/redrive`, { key: freshKey() });
    return answer?.status === 200 ? say("redriven", { entry }) : tell(answer);
  };
  const what = { title: say("redrive_title", { entry }), help: say("redrive_help"), act };
  return item(...parts, row(button(`redrive-${entry}`, say("redrive_do"), what)));
}

// --- Audits.

/** @param {Audit} one */
function audit({ id, status, actor, started_at, error }) {
  const parts = [made("b", word(`audit_${status}`)), made("span", `${actor} · ${time(started_at)}`)];
  if (error) parts.push(made("span", error, "bad"));
  if (status === "ok" || status === "broken") {
    const opener = made("button", say("details"));
    opener.id = `audit-${id}`;
    opener.addEventListener("click", () => void showReport(id));
    parts.push(row(opener));
  }
  return item(...parts);
}

/** @param {string} id */
async function showReport(id) {
  const answer = await ask("GET", `/v1/audits/${id}`);
  if (answer?.status !== 200) return show(element("outcome"), tell(answer));
  /** @type {Audit} */
  const { status, started_at, report } = answer.body;
  const checks = report?.checks ?? [];
  const broken = checks.filter(({ ok }) => ok === false);
  show(element("report-title"), `${word(`audit_${status}`)} · ${time(started_at)}`);
  const possible = checks.filter(({ ok }) => ok !== undefined);
  const counts = say("checks_words", { made: possible.length, broken: broken.length });
  show(element("report-subject"), `${report?.subject ?? ""} · ${counts}`);
  element("checks").replaceChildren(...broken.map(({ name, offending, offending_total }) => {
    const lines = offending.map((line) => made("code", line));
    const rest = offending_total - offending.length;
    const more = rest > 0 ? [made("span", say("and_more", { rest: count(rest) }))] : [];
    return item(made("b", `${name}: ${count(offending_total)}`), ...lines, ...more);
  }));
  element("report").hidden = false;
  element("report-title").focus();
}

async function startAudit() {
  const answer = await ask("POST", "/v1/audits");
  if (answer?.status !== 200 && answer?.status !== 201) return tell(answer);
  const { id } = answer.body;
  for (;;) {
    const now = await ask("GET", `/v1/audits/${id}`);
    if (now?.status !== 200) return tell(now);
    if (now.body.status !== "running") return word(`audit_${now.body.status}`);
    await lookAtAudits();
    await sleep(500);
  }
}

async function lookAtAudits() {
  const answer = await ask("GET", "/v1/audits");
  if (answer?.status !== 200) return;
  /** @type {Audit[]} */
  const all = answer.body.data;
  fill("audits", all, () => all.map(audit));
}

// --- Webhooks.

/** @param {Webhook} one */
function webhook({ id, url, status, behind, last_error }) {
  const parts = [made("b", word(`webhook_${status}`)), made("code", url),
    made("span", say("behind_words", { behind: count(behind) }))];
  if (last_error) parts.push(made("span", last_error, "bad"));
  const test = async () => {
    const answer = await ask("POST", `/v1/webhooks/${id}/test`);
    if (answer?.status !== 200) return tell(answer);
    return answer.body.delivered ? say("test_delivered") : say("test_failed", { why: answer.body.error });
  };
  const redrive = async () => {
    subjects.add(id);
    const answer = await ask("POST", `/v1/webhooks/${id}/redrive`);
    return answer?.status === 200 ? say("done") : tell(answer);
  };
  const opener = made("button", say("deliveries"));
  opener.id = `deliveries-${id}`;
  opener.addEventListener("click", () => void showDeliveries(id, url));
  return item(...parts, row(opener,
    button(`test-${id}`, say("test_do"), { title: say("test_title"), help: url, act: test }),
    button(`again-${id}`, say("again_do"), { title: say("again_title"), help: say("again_help"), act: redrive })));
}

// --- Deliveries of one webhook.

/** The webhook whose deliveries are shown. */
let ofWebhook = "";

/** @param {Delivery} one */
function delivery({ id, event, type, campaign, order, attempted_at, duration_ms, attempt, state, response_status,
  response_body, error, next_attempt_at }) {
  const lines = [
    `${type} · ${order ?? campaign} · ${time(attempted_at)}`,
    say("attempt_words", { attempt, ms: count(duration_ms), status: response_status ?? "–" }),
  ];
  if (next_attempt_at) lines.push(say("next_attempt", { at: time(next_attempt_at) }));
  const isBad = state === "delivered" ? "" : "bad";
  const parts = [made("b", word(`delivery_${state}`)), made("code", event), ...lines.map((it) => made("span", it))];
  for (const why of [error, response_body]) if (why) parts.push(made("span", why, isBad));
  const act = async () => {
    subjects.add(ofWebhook);
    const answer = await ask("POST", `/v1/webhooks/${ofWebhook}/redeliver`, { body: { event }, key: freshKey() });
    return answer?.status === 200 ? say("redelivered") : tell(answer);
  };
  const what = { title: say("redeliver_title"), help: say("redeliver_help", { event }), act };
  return item(...parts, row(button(`redeliver-${id}`, say("redeliver_do"), what)));
}

async function lookAtDeliveries() {
  if (!ofWebhook) return;
  const { value } = /** @type {HTMLSelectElement} */ (element("delivery-state"));
  const asked = ofWebhook;
  const query = `limit=${DELIVERIES_SHOWN}${value && `&state=${value}`}`;
  const answer = await ask("GET", `/v1/webhooks/${asked}/deliveries?${query}`);
  if (answer?.status !== 200 || asked !== ofWebhook) return;
  /** @type {Delivery[]} */
  const all = answer.body.data;
  fill("deliveries", all, () => all.map(delivery));
  element("no-deliveries").hidden = all.length > 0;
  element("more-deliveries").hidden = !answer.body.next;
}

/** @param {string} id @param {string} url */
async function showDeliveries(id, url) {
  ofWebhook = id;
  show(element("deliveries-of"), url);
  await lookAtDeliveries();
  element("deliveries-part").hidden = false;
  element("deliveries-title").focus();
}

// --- Refused payment reports.

/** @param {import("./desk-actions.js").Action & { subject: string }} one */
function refusedReport({ at, subject, detail }) {
  const { reference, problem, outcome: _, ...rest } = detail;
  return item(made("b", `${reference}: ${problem}`), made("code", subject),
    made("span", [...details(rest), time(at)].join(" · ")));
}

async function lookAtRefusedReports() {
  const query = `action=pay&outcome=refused&order=newest&limit=${REFUSED_SHOWN}`;
  const answer = await ask("GET", `/v1/operation-log?${query}`);
  if (answer?.status !== 200) return;
  /** @type {(import("./desk-actions.js").Action & { subject: string })[]} */
  const all = answer.body.data;
  const recent = all.filter(({ at }) => Date.now() - Date.parse(at) < REFUSED_MS);
  fill("refused", recent, () => recent.map(refusedReport));
  element("no-refused").hidden = recent.length > 0;
}

// --- All of it.

async function look() {
  const answer = await ask("GET", "/v1/partitions");
  if (answer?.status !== 200) return show(element("outcome"), tell(answer));
  const { partitions, repairable, settlement_lag: lag, queue_length: queue, upkeep_stuck: upkeep } = answer.body;
  show(element("lag"), count(lag));
  show(element("queue"), count(queue));
  show(element("upkeep"), upkeep ?? "");
  mostLag = Math.max(mostLag, lag);
  const peak = draw?.add(lag, 0, mostLag) ?? 0;
  const clock = (/** @type {number} */ ms) => new Date(ms).toLocaleTimeString(facts.language);
  atChart?.(say("axis_entries", { most: count(Math.max(1, peak)) }), "", clock(Date.now() - SECONDS * LOOK_MS),
    clock(Date.now()));
  show(element("lag-words"), say("lag_chart", { lag: count(lag), peak: count(peak) }));
  element("not-repairable").hidden = repairable;
  // Opened details of a partition stay open until its data changes.
  fill("partitions", partitions.map((/** @type {Partition} */ it) => ({ ...it, settlement_lag: 0, reconciliation:
    it.reconciliation?.differences })), () =>
    partitions.map((/** @type {Partition} */ it) => partition(it, repairable)));
  for (const { partition: n, settlement_lag: waits, reconciliation } of /** @type {Partition[]} */ (partitions)) {
    show(element(`lag-${n}`), waits === undefined ? "" : say("lag_words", { lag: count(waits) }));
    const { passed_at: passed } = reconciliation ?? {};
    // A pass without live campaigns compares no rows.
    const ran = reconciliation?.ran_at ?? passed;
    const at = ran ? say("ran_words", { at: time(ran), passed: passed ? time(passed) : say("not_yet") }) : "";
    show(element(`ran-${n}`), at);
  }
  const list = await ask("GET", `/v1/quarantine?limit=${SHOWN}`);
  if (list?.status === 200) {
    /** @type {Entry[]} */
    const entries = list.body.data;
    fill("quarantine", entries, () => entries.map(quarantined));
    element("no-quarantine").hidden = entries.length > 0;
    element("more-quarantine").hidden = !list.body.next;
  }
  await lookAtAudits();
  await lookAtRefusedReports();
  const hooks = await ask("GET", "/v1/webhooks");
  if (hooks?.status === 200) {
    /** @type {Webhook[]} */
    const all = hooks.body.data;
    fill("webhooks", all, () => all.map(webhook));
    element("no-webhooks").hidden = all.length > 0;
  }
  await lookAtDeliveries();
}

async function operationPage() {
  const start = button("audit", say("audit_start"),
    { title: say("audit_title"), help: say("audits_help"), act: startAudit });
  start.className = "main";
  element("audit").replaceWith(start);
  element("delivery-state").addEventListener("change", () => void lookAtDeliveries());
  void showActions(...subjects);
  for (;; await sleep(LOOK_MS)) if (!document.hidden && !isBusy) await look();
}

if (!document.getElementById("lacks")) void operationPage();
