// @ts-check
// The page of a sale.

import { ask, claim, clock, duration, element, explain, facts, field, keepTime, now, numbers, often, phase,
  price, problem, say, show, sleep, watch, wish } from "./qiang.js";

/** @typedef {import("./qiang.js").Order} Order */

function salePage() {
  const sale = facts.sale;
  const button = /** @type {HTMLButtonElement} */ (element("buy"));
  const outcome = element("outcome");
  const intent = () => wish(sale.id);
  const kept = `qiang:${facts.session?.user}:order:${sale.id}`;
  /** @type {Order | null} */
  let order = null;
  let isAsking = false;
  let wasSoldOut = sale.state.remaining === 0;
  keepTime(sale.state);

  const isOpen = () => order !== null && ["held", "paid"].includes(order.state);

  const showState = () => {
    const { state } = sale;
    const is = phase(state);
    show(element("clock"), clock(state));
    show(element("numbers"), say("left", { remaining: state.remaining, supply: state.supply }));
    numbers(state);
    const soldOut = is === "live" && state.remaining === 0;
    const canBuy = is === "live" && !soldOut && !isOpen();
    button.disabled = !canBuy || isAsking;
    element("quantity-line").hidden = !canBuy || sale.per_user_limit <= 1;
    element("passphrase-line").hidden = !(canBuy && sale.audience === "passphrase");
    const mine = isOpen() && order ? say("yours", { quantity: order.quantity }) : "";
    const wanted = soldOut ? say("sold_out") : is === "over" ? say("over") : say("buy");
    show(button, isAsking ? say("buying") : mine || wanted);
    if (soldOut) wasSoldOut = true;
    else if (wasSoldOut && canBuy) {
      wasSoldOut = false;
      show(outcome, say("came_back", { remaining: state.remaining }));
    }
    if (!isAsking && soldOut && !isOpen()) show(outcome, say("come_back"));
    if (is === "paused") show(outcome, say("paused"));
    showOrder();
  };

  const showOrder = () => {
    element("mine").hidden = order === null;
    if (!order) return;
    show(element("yours"), say("yours", { quantity: order.quantity }));
    const isHeld = order.state === "held";
    const left = Date.parse(order.hold_until ?? sale.state.ends_at) - now();
    /** @type {Record<string, string>} */
    const words = { paid: "paid", cancelled: "cancelled", expired: "expired", returned: "returned" };
    show(element("hold"), isHeld ? `${say("pay_within")} ${duration(left)}` : say(words[order.state] ?? "expired"));
    const pay = element("pay");
    pay.hidden = !isHeld || !(facts.sandbox || facts.payment_url);
    show(pay, say(facts.sandbox ? "pay_sandbox" : "pay", { amount: price(order.amount) }));
    if (isHeld && pay.hidden) show(outcome, say("pay_elsewhere"));
    element("cancel").hidden = !isHeld;
    if (isHeld && left < -1_000 && !isAsking) void lookAgain();
  };

  /** @param {Order | null} fresh */
  const keep = (fresh) => {
    order = fresh;
    if (fresh && isOpen()) localStorage.setItem(kept, fresh.order);
    else {
      // The next wish is another one.
      localStorage.removeItem(kept);
      intent().forget();
    }
    showState();
  };

  /** How the order stands. */
  const look = async () => {
    const id = order?.order ?? localStorage.getItem(kept);
    if (!id) return;
    const answer = await ask("GET", `/v1/orders/${id}`);
    if (answer?.status === 200) keep(answer.body);
    else if (answer?.status === 404) keep(null);
  };

  let isWaiting = false;
  /** The same, once a second at most. */
  const lookAgain = async () => {
    if (isWaiting) return;
    isWaiting = true;
    await look();
    await sleep(1_000);
    isWaiting = false;
  };

  element("order").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isAsking || button.disabled) return;
    isAsking = true;
    show(outcome, "");
    showState();
    const quantity = Math.max(1, Number(field("quantity").value) || 1);
    const answer = await claim("sales", sale, intent().key, { quantity }, (before) => {
      show(outcome, say("in_line", { ahead: before }));
    });
    isAsking = false;
    if (!answer) show(outcome, say("gave_up"));
    else if (answer.status === 200 || answer.status === 201) {
      show(outcome, "");
      keep(answer.body);
    } else {
      if (problem(answer) === "sold-out") sale.state.remaining = answer.body.remaining ?? 0;
      else show(outcome, problem(answer) === "not-admitted" ? say("again_later") : explain(answer));
      intent().forget();
    }
    showState();
  });

  element("pay").addEventListener("click", async () => {
    if (!order) return;
    if (!facts.sandbox) {
      location.assign(facts.payment_url.replace("{order}", encodeURIComponent(order.order)));
      return;
    }
    const answer = await ask("POST", "/sandbox/payments", { body: { order: order.order } });
    if (answer && answer.status >= 400) show(outcome, explain(answer));
    await look();
  });

  element("cancel").addEventListener("click", async () => {
    if (!order) return;
    const answer = await ask("POST", `/v1/orders/${order.order}/cancellation`);
    if (answer?.status === 200) keep(answer.body);
    else if (answer) show(outcome, explain(answer));
  });

  // Another tab of the same user.
  addEventListener("storage", (event) => {
    if (event.key === kept && event.newValue) void look();
  });

  show(element("limit"), sale.per_user_limit > 1 ? say("limit", { limit: sale.per_user_limit }) : "");
  field("quantity").max = String(sale.per_user_limit);
  often(showState);
  void look();
  watch(sale.id, 0, {
    state: (state) => {
      sale.state = state;
      showState();
    },
  });
}

salePage();
