// @ts-check
// The page of a sale.

import { ask, claim, duration, element, explain, facts, field, freshKey, isDecided, keepFocus, keepTime, moment,
  noteTime, now, numbers, often, phase, price, problem, say, show, showClock, signInFor, sleep, standInLine,
  wantedBefore, watch, wish } from "./qiang.js";

/** @typedef {import("./qiang.js").Answer} Answer */
/** @typedef {import("./qiang.js").Order} Order */

/** A start that is farther away is one to be reminded of. */
const SOON_MS = 600_000;
/** A second press of Buy must not pay: it comes within this time. */
const SETTLES_MS = 700;
/** Problems after which money is not spoken of: nothing was asked for, or it is not known yet. */
const SILENT = ["limit-reached", "uncertain", "unauthenticated", "key-reused", "already-waiting", "sold-out",
  "internal", "paused", "ended", "not-started"];

/** A picture that does not load goes; the last one is replaced by the drawing beside it.
 * @param {Element | null} picture */
function replaceIfDead(picture) {
  if (!(picture instanceof HTMLImageElement)) return;
  const replace = () => {
    const place = picture.parentElement;
    picture.remove();
    if (!place?.querySelector("img")) place?.querySelector("svg")?.removeAttribute("hidden");
  };
  // A picture out of sight may not be loaded yet.
  if (picture.loading === "lazy" && !picture.complete) picture.addEventListener("error", replace);
  else picture.decode().catch(replace);
}

/** How long before its end a hold is looked at again. */
const ENDS_SOON_MS = 20_000;
/** How often the numbers are asked for until they have what this user has. */
const LOOKS_MAX = 5;

function salePage() {
  const sale = facts.sale;
  const user = facts.session?.user ?? "";
  const button = /** @type {HTMLButtonElement} */ (element("buy"));
  const outcome = element("outcome");
  const intent = () => wish(sale.id, field("quantity").value);
  /** Which orders were made or changed in this browser: the ledger may not have them yet, nor other tabs. */
  const kept = `qiang:${user}:orders:${sale.id}`;
  /** @type {Map<string, Order>} */
  const orders = new Map(facts.orders.map((order) => [order.id, order]));
  /** @type {Map<string, HTMLElement>} */
  const lines = new Map();
  let isAsking = false;
  let isPaying = false;
  /** Whether the buyer wants another order before paying for the last one. */
  let wantsMore = false;
  /** When a fresh order can be paid. */
  let payableAt = 0;
  const reminded = `qiang:reminded:${sale.id}:${sale.state.starts_at}`;
  const title = document.title;
  /** Whether the numbers shown may not have what was just done. */
  let isCounting = false;
  /** @type {number | null} */
  let before = null;
  /** What is told of the last action, and whether it is still true.
   * @type {{ text: () => string, lasts: () => boolean }} */
  let note = { text: () => "", lasts: () => false };
  let was = phase(sale.state);
  let wasSoldOut = sale.state.remaining === 0;
  keepTime(sale.state);

  const isMine = (/** @type {Order} */ order) => order.state === "held" || order.state === "paid";
  /** @param {Order} order */
  const unitsOf = ({ quantity, returned_quantity }) => quantity - (returned_quantity ?? 0);
  const mine = () => [...orders.values()].filter(isMine).reduce((sum, order) => sum + unitsOf(order), 0);

  /** @param {Order} order */
  const untilEnd = (order) => Date.parse(order.hold_until ?? sale.state.ends_at) - now();
  /** Whether it waits for a payment that is still in time. @param {Order} order */
  const isOpen = (order) => order.state === "held" && untilEnd(order) > 0;
  /** The order that is to be paid next. */
  const due = () => [...orders.values()].filter(isOpen).sort((a, b) => untilEnd(a) - untilEnd(b))[0];
  const canPay = facts.sandbox || facts.payment_url !== "";
  /** A hold with its extension, in milliseconds. @param {Order} order */
  const wholeHold = (order) => (sale.hold_seconds + (order.hold_extension_seconds ?? 0)) * 1_000;
  /** However late the answer came, a hold is no longer than it is. @param {Order} order */
  const holdLeft = (order) => duration(Math.min(untilEnd(order), wholeHold(order)));

  /** What the one button does, and what it says. Without a deed it cannot be pressed.
   * @param {ReturnType<typeof phase>} is
   * @returns {{ deed: "" | "buy" | "pay" | "remind", words: string }} */
  const offer = (is) => {
    const none = (/** @type {string} */ words) => ({ deed: /** @type {const} */ (""), words });
    if (before !== null) return none(say("in_line", { ahead: before }));
    if (isAsking) return none(say("buying"));
    if (isPaying) return none(say("paying"));
    const order = due();
    if (order && !wantsMore) {
      const words = canPay ? say("pay", { amount: price(order.amount) }) : say("pay_in_app");
      const isSettled = performance.now() >= payableAt;
      return { deed: canPay && isSettled ? "pay" : "", words: `${words} · ${holdLeft(order)}` };
    }
    if (mine() >= sale.per_user_limit) return none(isAllPaid() ? say("is_paid") : say("yours", { quantity: mine() }));
    if (is === "over") return none(say("over"));
    if (is === "paused") return none(say("paused"));
    if (is === "before") {
      const left = Date.parse(sale.state.starts_at) - now();
      if (left > SOON_MS && !localStorage.getItem(reminded)) return { deed: "remind", words: say("notify_me") };
      return none(`${say("begins_in")} ${duration(left)}`);
    }
    return sale.state.remaining === 0 ? none(say("sold_out")) : { deed: "buy", words: say("buy") };
  };

  const isAllPaid = () =>
    [...orders.values()].filter(isMine).every((it) => it.state === "paid" && it.amount.amount > 0);

  /** Tells something for as long as it is true; a refusal lasts as long as the state of the sale.
   * @param {string | (() => string)} text @param {() => boolean} [lasts] */
  const tell = (text, lasts) => {
    const seen = phase(sale.state);
    note = { text: typeof text === "string" ? () => text : text, lasts: lasts ?? (() => phase(sale.state) === seen) };
  };

  /** What is told beside the button. @param {ReturnType<typeof phase>} is */
  const told = (is) => {
    if (before !== null) return say("in_line_kept", { ahead: before });
    if (isAsking) return "";
    const text = note.lasts() ? note.text() : "";
    if (text) return text;
    if (is === "paused") return say("paused");
    return is === "live" && sale.state.remaining === 0 && mine() < sale.per_user_limit ? say("come_back") : "";
  };

  const showState = () => {
    const { state } = sale;
    const is = phase(state);
    showClock(state);
    const left = say("left", { remaining: state.remaining, supply: state.supply });
    show(element("numbers"), isCounting ? say("counting") : left);
    if (!isCounting) numbers(state);
    if (was === "before" && is === "live") tell(say("begun"));
    was = is;
    if (is === "live" && !isCounting) {
      const soldOut = state.remaining === 0;
      if (soldOut && !wasSoldOut && mine() === 0) tell("");
      const canBuy = () => phase(sale.state) === "live" && sale.state.remaining > 0 && mine() < sale.per_user_limit;
      if (wasSoldOut && canBuy()) tell(() => say("came_back", { remaining: sale.state.remaining }), canBuy);
      wasSoldOut = soldOut;
    }
    const { deed, words } = offer(is);
    button.disabled = deed === "";
    button.dataset.deed = deed;
    button.classList.toggle("settling", performance.now() < payableAt);
    button.formNoValidate = deed !== "buy";
    const isDone = mine() >= sale.per_user_limit;
    button.classList.toggle("mine", before === null && !isAsking && isDone && !due());
    show(button, words);
    // A tab in the background says that something can be bought.
    document.title = document.hidden && deed === "buy" ? `● ${title}` : title;
    const rest = sale.per_user_limit - mine();
    // The rows keep their places: the button must not move as the sale begins, nor as an order is made.
    const canWant = rest > 0 && is !== "over";
    element("quantity-line").classList.toggle("off", !canWant || rest === 1 || (deed === "pay" && !wantsMore));
    const canMore = canWant && is === "live" && sale.state.remaining > 0 && !!due() && !wantsMore && !isAsking;
    element("another").classList.toggle("on", canMore);
    element("remind").hidden = is !== "before";
    const [name, at] = is === "before" ? ["starts_at", sale.state.starts_at] : [is === "over" ? "ended_at" : "ends_at",
      sale.state.ends_at];
    show(element("when"), say(name, { time: moment(Date.parse(at)) }));
    showTally(is);
    const quantity = field("quantity");
    quantity.readOnly = isAsking;
    quantity.max = String(Math.max(1, rest));
    if (Number(quantity.value) > rest) quantity.value = String(Math.max(1, rest));
    element("passphrase-line").hidden = !canWant || sale.audience !== "passphrase";
    show(outcome, told(is));
    showOrders();
  };

  /** A line for an order, made once: what has the focus keeps it. @param {string} id */
  const lineOf = (id) => {
    const known = lines.get(id);
    if (known) return known;
    const template = /** @type {HTMLTemplateElement} */ (document.getElementById("order-line"));
    // A picture of a template belongs to no page, and does not load there.
    const line = /** @type {HTMLElement} */ (document.importNode(template.content, true).firstElementChild);
    const [pay, cancel] = [line.querySelector(".pay"), line.querySelector(".cancel")];
    pay?.addEventListener("click", () => void payFor(id));
    cancel?.addEventListener("click", () => void askToCancel(id));
    for (const picture of document.querySelectorAll(".product .photo > :is(img:first-child, svg)")) {
      line.querySelector(".thumb")?.append(picture.cloneNode(true));
    }
    replaceIfDead(line.querySelector(".thumb img"));
    lines.set(id, line);
    return line;
  };

  const showOrders = () => {
    element("mine").hidden = orders.size === 0;
    const all = [...orders.values()].sort((a, b) => Number(isMine(b)) - Number(isMine(a)));
    const shown = all.map((order) => {
      const line = lineOf(order.id);
      const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (line.querySelector(`.${name}`));
      const { quantity, returned_quantity: returned = 0 } = order;
      const isPart = order.state === "paid" && returned > 0;
      // A hold whose time is over may not be paid any longer, also before the service has ended it.
      const isHeld = isOpen(order);
      const stays = isHeld || order.state === "paid";
      const yours = say(stays ? "yours" : "units_of", { quantity: isPart ? unitsOf(order) : quantity });
      show(part("yours"), yours);
      show(part("amount"), price(order.amount));
      // A free order is paid from the start. Its buyer can cancel it like a held order.
      const isFree = order.state === "paid" && order.amount.amount === 0;
      /** @type {Record<string, string>} */
      const words = { paid: isFree ? "free" : "paid", cancelled: "cancelled", returned: "returned" };
      const stands = isPart ? say("returned_part", { returned, quantity }) : say(words[order.state] ?? "expired");
      show(part("hold"), isHeld ? `${say("pay_within")} ${holdLeft(order)}` : stands);
      line.dataset.state = order.state === "held" && !isHeld ? "expired" : order.state;
      const pay = part("pay");
      // The one button pays for the order whose hold ends first.
      pay.hidden = !isHeld || !canPay || (due() === order && !wantsMore);
      show(pay, say("pay", { amount: price(order.amount) }));
      part("elsewhere").hidden = !isHeld || (canPay && !facts.sandbox);
      show(part("elsewhere"), say(facts.sandbox ? "demo_money" : "pay_elsewhere"));
      const time = moment(Date.parse(order.created_at));
      show(part("made"), say("order_made", { number: order.id.split("-").pop() ?? "", time }));
      part("cancel").hidden = !isHeld && !isFree;
      part("cancel").setAttribute("aria-label", `${say("cancel")}: ${yours}`);
      if (order.state === "held" && untilEnd(order) < -1_000) void lookAgain();
      // The seller may have extended the hold.
      else if (isHeld && untilEnd(order) < ENDS_SOON_MS) void lookAgain(ENDS_SOON_MS / 2);
      return line;
    });
    const list = element("orders");
    if (shown.some((line, i) => list.children[i] !== line)) list.replaceChildren(...shown);
  };

  /** @returns {string[]} */
  const hinted = () => JSON.parse(localStorage.getItem(kept) ?? "{}").orders ?? [];

  /** Takes an order as an answer had it. @param {Order} order @param {boolean} [isChanged] done by this page */
  const keep = (order, isChanged = false) => {
    orders.set(order.id, order);
    // Other tabs look at what is written here, and look again when it has another time.
    const ids = [...new Set([...hinted(), order.id])].slice(-20);
    if (isChanged) localStorage.setItem(kept, JSON.stringify({ orders: ids, at: Date.now() }));
    showState();
  };

  /** Once nothing is left, the published counts show that no unit was sold twice.
   * @param {ReturnType<typeof phase>} is */
  const showTally = (is) => {
    const { supply, granted, remaining, returned, withheld } = sale.state;
    const isWhole = granted + remaining + returned + withheld === supply;
    const isShown = !isCounting && granted > 0 && (is === "over" || remaining === 0) && isWhole;
    element("tally").hidden = !isShown;
    const words = say("sold_tally", { sold: granted, oversold: Math.max(0, granted - supply) });
    show(element("tally"), isShown ? words : "");
  };

  /** The numbers anew, until they have what this user has. */
  const count = async () => {
    isCounting = true;
    showState();
    for (let turn = 0; turn < LOOKS_MAX; turn++) {
      const answer = await ask("GET", `/v1/campaigns/${sale.id}/state`);
      if (answer?.status !== 200) break;
      sale.state = answer.body;
      keepTime(sale.state);
      if (sale.state.granted >= mine()) break;
      await sleep(100 * 2 ** turn);
    }
    isCounting = false;
    showState();
  };

  /** How an order stands. @param {string} id */
  const look = async (id) => {
    const answer = await ask("GET", `/v1/orders/${id}`);
    if (answer?.status === 200) keep(answer.body);
  };

  /** How everything stands that may have changed. */
  const lookAtAll = async () => {
    const held = [...orders.values()].filter(({ state }) => state === "held");
    await Promise.all([...new Set([...held.map(({ id }) => id), ...hinted()])].map(look));
  };

  let isWaiting = false;
  /** The same, once in this time at most. */
  const lookAgain = async (pauseMs = 1_000) => {
    if (isWaiting) return;
    isWaiting = true;
    await lookAtAll();
    await sleep(pauseMs);
    isWaiting = false;
  };

  /** The orders of this user that the service knows of and this page does not. */
  const ordersAnew = async () => {
    for (let turn = 0; turn < LOOKS_MAX; turn++) {
      const answer = await ask("GET", `/v1/accounts/${encodeURIComponent(user)}/orders?limit=1000`);
      if (answer?.status !== 200) return;
      /** @type {Order[]} */
      const all = answer.body.data;
      const others = all.filter((order) => order.campaign === sale.id && !orders.has(order.id));
      await Promise.all(others.map((order) => (order.state === "held" ? look(order.id) : keep(order))));
      if (answer.body.settled) return;
      await sleep(500 * 2 ** turn);
    }
  };

  /** @param {Answer | null} answer @param {boolean} [isOther] to another order than the one that is wished for */
  const decided = async (answer, isOther = false) => {
    isAsking = false;
    before = null;
    if (!answer) tell(say("gave_up"));
    else if (answer.status === 200 || answer.status === 201) {
      const until = new Date(answer.body.hold_until ?? sale.state.ends_at);
      const time = until.toLocaleTimeString(facts.language, { timeStyle: "short" });
      tell(answer.body.state === "held" ? say("granted", { time }) : "", () => [...orders.values()].some(isOpen));
      noteTime(Date.parse(answer.body.created_at));
      isCounting = true;
      wantsMore = false;
      payableAt = performance.now() + SETTLES_MS;
      keep(answer.body, true);
      // Not to the button: it may be pressed twice, and one order is wanted.
      keepFocus(outcome);
      if (!isOther) intent().forget();
      await count();
    } else {
      const isSilent = SILENT.includes(problem(answer)) || sale.unit_price.amount === 0;
      tell(isSilent ? explain(answer) : `${explain(answer)} ${say("not_charged")}`);
      if (isDecided(answer) && !isOther) intent().forget();
      if (problem(answer) === "sold-out") {
        tell("");
        await count();
      }
      if (["limit-reached", "key-reused"].includes(problem(answer))) await ordersAnew();
    }
    showState();
    keepFocus(button, outcome);
  };

  const inLine = (/** @type {number} */ ahead) => {
    before = ahead;
    showState();
  };

  const buy = async () => {
    isAsking = true;
    tell("");
    showState();
    // A key keeps its quantity until the claim is decided.
    const { key, what } = intent();
    const answer = await claim("sales", sale, key, { quantity: Math.max(1, Number(what) || 1) }, inLine);
    // An order of another tab is in line: this one can follow, under its key.
    if (answer && problem(answer) === "already-waiting") await decided(await standInLine(sale.id, null, inLine), true);
    else await decided(answer);
  };

  /** Saves a file that has the visitor's calendar remind of the start. */
  const remind = async () => {
    const { saveReminder } = await import("./calendar.js");
    saveReminder(sale);
    localStorage.setItem(reminded, "yes");
    tell(say("reminder_saved"));
    showState();
    keepFocus(button, element("remind"), outcome);
  };

  element("remind").addEventListener("click", () => void remind());
  element("another").addEventListener("click", () => {
    wantsMore = true;
    showState();
    keepFocus(field("quantity"), button);
  });
  element("order").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isAsking || isPaying || button.disabled) return;
    const order = due();
    if (button.dataset.deed === "remind") await remind();
    else if (button.dataset.deed === "pay" && order) await payFor(order.id);
    else if (!facts.session) signInFor(sale.id, field("quantity").value);
    else await buy();
  });

  /** @param {string} id */
  const payFor = async (id) => {
    if (!facts.sandbox) {
      location.assign(facts.payment_url.replace("{order}", encodeURIComponent(id)));
      return;
    }
    isPaying = true;
    showState();
    const answer = await ask("POST", "/sandbox/payments", { body: { order: id } });
    isPaying = false;
    if (!answer) tell(say("gave_up"));
    else if (answer.status >= 400) tell(`${explain(answer)} ${say("payment_failed")}`);
    else {
      tell(say(answer.body.outcome === "refund_due" ? "paid_late" : "paid"), () => true);
      keep(answer.body.order, true);
    }
    await look(id);
    keepFocus(outcome);
    await count();
  };

  const sure = /** @type {HTMLDialogElement} */ (element("sure"));
  let wanted = "";
  /** @param {string} id */
  const askToCancel = (id) => {
    wanted = id;
    sure.returnValue = "";
    const { state, quantity } = orders.get(id) ?? { state: "", quantity: 1 };
    // Only a held order can be cancelled in parts.
    element("sure-line").hidden = state !== "held" || quantity === 1;
    const units = field("sure-units");
    [units.max, units.value] = [String(quantity), String(quantity)];
    sure.showModal();
  };
  sure.addEventListener("close", () => {
    if (sure.returnValue === "yes") void giveBack(wanted, Number(field("sure-units").value));
  });

  /** Cancels an order, or some of its units. @param {string} id @param {number} units */
  const giveBack = async (id, units) => {
    const left = (orders.get(id)?.quantity ?? units) - units;
    const part = left > 0 ? { body: { quantity: units }, key: freshKey() } : {};
    const answer = await ask("POST", `/v1/orders/${id}/cancellation`, part);
    const done = say(left > 0 ? "did_cancel_units" : "did_cancel", { units, left });
    tell(!answer ? say("gave_up") : answer.status === 200 ? done : explain(answer));
    isCounting = true;
    if (answer?.status === 200) keep(answer.body, true);
    else await look(id);
    // Those are the buyer's own.
    wasSoldOut = false;
    keepFocus(outcome);
    await count();
  };

  // Another tab of the same user.
  addEventListener("storage", (event) => {
    if (event.key === kept && event.newValue) void lookAtAll().then(count);
  });

  for (const picture of document.querySelectorAll(".photo img")) replaceIfDead(picture);
  for (const it of document.querySelectorAll("#related .clock")) {
    const clock = /** @type {HTMLElement} */ (it);
    const at = Date.parse(clock.dataset.starts ?? "");
    show(clock, at > now() ? say("starts_at", { time: moment(at) }) : "");
  }
  show(element("limit"), sale.per_user_limit > 1 ? say("limit", { limit: sale.per_user_limit }) : "");
  often(showState);
  // Orders that this browser knows and the service's list does not have yet.
  void Promise.all(hinted().filter((id) => !orders.has(id)).map(look));
  if (facts.session && !facts.settled) void ordersAnew();
  const quantity = wantedBefore(sale.id);
  if (quantity !== null && !button.disabled && button.dataset.deed === "buy") {
    field("quantity").value = quantity || "1";
    void buy();
  }
  if (facts.place) {
    isAsking = true;
    void standInLine(sale.id, facts.place.ahead, inLine).then((answer) => decided(answer));
  }
  watch(sale.id, 0, {
    state: (state) => {
      sale.state = state;
      showState();
    },
  });
}

salePage();
