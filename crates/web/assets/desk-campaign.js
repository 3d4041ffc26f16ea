// @ts-check
// A campaign at the operators' desk: watched and led.

import { chart, SECONDS } from "./chart.js";
import { showActions } from "./desk-actions.js";
import { chip, desk, sumOf, tell } from "./desk.js";
import { lifeOf } from "./desk-life.js";
import { linesOf } from "./desk-orders.js";
import { edges } from "./plot.js";
import {
  ask, clock, element, facts, field, freshKey, grouped, keepTime, moment, now, often, problem, say, show, sleep, watch,
} from "./qiang.js";

/** @typedef {import("./qiang.js").State} State */
/** @typedef {import("./qiang.js").Order} Order */

/** Orders that the funnel reads, in pages. */
const ORDERS_MAX = 20_000;
const ON_PAGE = 1_000;
/** The funnel is counted again this long after a change at the earliest. */
const COUNT_MS = 3_000;
/** Interval at which orders are read again while the list lacks orders that the engine has granted. */
const AGAIN_MS = 500;
/** Maximum repeated reads. */
const TURNS_MAX = 20;
/** Held orders that one request cancels. */
const CANCELLED_MAX = 500;
/** Pause after a cancellation above the limit. */
const WAIT_MS = 5_000;
/** Interval at which the chart of the whole life is drawn again. */
const LIFE_MS = 30_000;
const STAGES = ["held", "paid", "expired", "cancelled", "returned"];

function campaignPage() {
  const { campaign } = desk;
  let { state } = campaign;
  keepTime(state);

  // --- State and events.

  const draw = chart(element("chart"));
  const atChart = edges(element("chart"));
  const time = (/** @type {number} */ ms) => new Date(ms).toLocaleTimeString(facts.language);
  let before = state.granted;
  const second = () => {
    const rate = Math.max(0, state.granted - before);
    before = state.granted;
    const { remaining, supply } = state;
    const peak = draw.add(rate, remaining, supply);
    show(element("rate"), say("rate", { rate, peak, remaining, supply }));
    atChart(say("axis_rate", { most: Math.max(1, peak) }), say("axis_units", { supply }),
      time(now() - SECONDS * 1_000), time(now()));
  };

  const showState = () => {
    const name = campaign.archived_at ? "archived" : state.phase;
    show(element("phase"), say(name));
    element("phase").dataset.state = name;
    show(element("dates"), [state.starts_at, state.ends_at].map((it) => moment(Date.parse(it))).join(" – "));
    const bar = /** @type {HTMLProgressElement} */ (element("sold-bar"));
    [bar.max, bar.value] = [Math.max(1, state.supply), state.granted];
    const warmth = state.phase === "draft" || state.phase === "scheduled" ? say(`warm_${state.phase}`) : "";
    show(element("warm"), warmth);
    for (const name of /** @type {const} */ (["supply", "granted", "remaining", "returned", "withheld"])) {
      show(element(name), grouped(state[name]));
    }
    for (const id of ["withheld-figure", "withheld-help"]) element(id).hidden = state.withheld === 0;
    show(element("updated"), new Date(campaign.updated_at).toLocaleString(facts.language));
    if (!desk.leads) return;
    const isOver = state.phase === "closed";
    field("pause").disabled = isOver || isBusy || ["draft", "paused", "ended"].includes(state.phase);
    field("resume").disabled = isBusy || state.phase !== "paused";
    field("close").disabled = isOver || isBusy;
    if (campaign.seller) {
      field("start").disabled = isBusy || state.phase !== "scheduled";
      field("cancel-held").disabled = isBusy;
    }
    for (const id of ["change", "change-admission"]) {
      const change = document.getElementById(id);
      if (change instanceof HTMLButtonElement) change.disabled = isOver || isBusy;
    }
  };

  // --- Orders by state.

  let isCounting = false;
  let isOld = false;
  /** Counts orders by state, and what was paid for them. */
  const countOrders = async () => {
    isOld = true;
    if (isCounting || !document.getElementById("funnel")) return;
    isCounting = true;
    for (let turn = 0; isOld; turn++) {
      isOld = false;
      /** @type {Order[]} */
      const orders = [];
      /** @type {string | undefined} */
      let after = "";
      while (after !== undefined && orders.length < ORDERS_MAX) {
        const from = after && `&after=${after}`;
        const answer = await ask("GET", `/v1/sales/${campaign.id}/orders?limit=${ON_PAGE}${from}`);
        if (answer?.status !== 200) {
          show(element("funnel-note"), tell(answer));
          isCounting = false;
          return;
        }
        orders.push(...answer.body.data);
        after = answer.body.next;
      }
      element("funnel").replaceChildren(...STAGES.map((stage) => {
        const some = orders.filter((order) => order.state === stage);
        const item = document.createElement("li");
        item.dataset.stage = stage;
        const bar = Object.assign(document.createElement("progress"), { max: Math.max(1, orders.length),
          value: some.length });
        bar.setAttribute("aria-label", say(`order_${stage}`));
        const count = document.createElement("span");
        show(count, `${grouped(some.length)} · ${sumOf(some.map(({ amount }) => amount))}`);
        item.append(chip(stage, say(`order_${stage}`)), bar, count);
        return item;
      }));
      const paid = orders.filter(({ state }) => state === "paid");
      show(element("revenue"), say("revenue", { amount: sumOf(paid.map(({ amount, quantity, returned_quantity }) =>
        ({ ...amount, amount: amount.amount / quantity * (quantity - (returned_quantity ?? 0)) }))) }));
      // The list is of the ledger, which follows the engine in a moment.
      const isHad = (/** @type {Order} */ { state: it }) => it === "held" || it === "paid";
      const had = orders.filter(isHad).reduce((sum, it) => sum + it.quantity - (it.returned_quantity ?? 0), 0);
      isOld ||= turn < TURNS_MAX && orders.length < ORDERS_MAX && had !== state.granted;
      await sleep(had === state.granted ? COUNT_MS : AGAIN_MS);
    }
    isCounting = false;
  };

  // --- Operator actions.

  let isBusy = false;

  /** Asks for one thing, and shows how it ended.
   * @param {string} method @param {string} path @param {{ body?: object, key?: string }} [more] */
  const act = async (method, path, more) => {
    if (isBusy) return;
    isBusy = true;
    const outcome = element("outcome");
    show(outcome, "");
    showState();
    const answer = await ask(method, path, more);
    isBusy = false;
    if (answer?.status === 200) {
      state = answer.body.state ?? answer.body;
      campaign.updated_at = answer.body.updated_at ?? campaign.updated_at;
      keepTime(state);
    }
    show(outcome, answer?.status === 200 ? say("done") : tell(answer));
    showState();
    await showActions(campaign.id);
  };

  /** Cancels the held orders, part by part. */
  const cancelHeld = async () => {
    if (isBusy) return;
    isBusy = true;
    const outcome = element("outcome");
    show(outcome, "");
    showState();
    let after = "";
    const counts = { cancelled: 0, paid: 0, expired: 0, unknown: 0 };
    const soFar = () => {
      const unknown = counts.unknown > 0 ? ` ${say("cancelled_held_unknown", counts)}` : "";
      return say("cancelled_held", counts) + unknown;
    };
    do {
      const body = { limit: CANCELLED_MAX, ...(after && { after }) };
      const request = { body, key: freshKey() };
      let answer = await ask("POST", `/v1/sales/${campaign.id}/orders/cancel`, request);
      while (answer && problem(answer) === "throttled") {
        await sleep(WAIT_MS);
        answer = await ask("POST", `/v1/sales/${campaign.id}/orders/cancel`, request);
      }
      if (answer?.status !== 200) {
        show(outcome, `${soFar()} ${tell(answer)}`);
        break;
      }
      const { refusals } = answer.body;
      counts.cancelled += answer.body.cancelled;
      counts.paid += refusals.paid + refusals.returned;
      counts.expired += refusals.expired;
      counts.unknown += refusals.unknown;
      after = answer.body.next ?? "";
      show(outcome, soFar());
    } while (after);
    isBusy = false;
    showState();
    await showActions(campaign.id);
  };

  /** @param {string} what @param {string} next the button that comes after it */
  const lead = async (what, next) => {
    await act("POST", `/v1/campaigns/${campaign.id}/${what}`);
    // A button that is disabled loses the focus, and the keyboard its place.
    if (document.activeElement === document.body) element(field(next).disabled ? what : next).focus();
  };

  if (desk.leads) {
    element("pause").addEventListener("click", () => void lead("pause", "resume"));
    element("resume").addEventListener("click", () => void lead("resume", "pause"));
    if (campaign.seller) {
      element("start").addEventListener("click", async () => {
        await act("POST", `/v1/sales/${campaign.id}/start`, { key: freshKey() });
        if (document.activeElement === document.body) element("pause").focus();
      });
      const held = /** @type {HTMLDialogElement} */ (element("confirm-held"));
      element("cancel-held").addEventListener("click", () => {
        held.returnValue = "";
        held.showModal();
      });
      held.addEventListener("close", () => {
        if (held.returnValue === "yes") void cancelHeld();
      });
    }
    const confirm = /** @type {HTMLDialogElement} */ (element("confirm"));
    element("close").addEventListener("click", () => {
      confirm.returnValue = "";
      confirm.showModal();
    });
    confirm.addEventListener("close", () => {
      if (confirm.returnValue === "yes") void lead("close", "close");
    });
    const form = document.getElementById("stock-form");
    if (form) field("stock").value = String(state.supply);
    form?.addEventListener("submit", (event) => {
      event.preventDefault();
      const body = { stock: Number(field("stock").value) };
      void act("PATCH", `/v1/sales/${campaign.id}`, { body, key: freshKey() });
    });
    const admission = document.getElementById("admission-form");
    if (admission) field("admission").value = String(campaign.admission_percent);
    admission?.addEventListener("submit", (event) => {
      event.preventDefault();
      const body = { admission_percent: Number(field("admission").value) };
      void act("PATCH", `/v1/sales/${campaign.id}`, { body, key: freshKey() });
    });
  }

  const showLife = desk.sees_life ? lifeOf(campaign.id, () => state) : async () => {};
  showState();
  void countOrders();
  void showLife();
  second();
  setInterval(second, 1_000);
  // A payment changes no number of the state.
  setInterval(() => document.hidden || void showLife(), LIFE_MS);
  often(() => show(element("clock"), clock(state)));
  if (campaign.seller) linesOf(`/v1/sales/${campaign.id}/orders`, campaign.id);
  else linesOf(`/v1/red-packets/${campaign.id}/claims`, campaign.id);
  void showActions(campaign.id);
  watch(campaign.id, 0, {
    state: (fresh) => {
      const { granted, phase } = state;
      state = fresh;
      const isChanged = fresh.granted !== granted || fresh.phase !== phase;
      showState();
      void countOrders();
      if (isChanged) void showLife();
    },
  });
}

campaignPage();
