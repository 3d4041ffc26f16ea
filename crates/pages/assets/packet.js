// @ts-check
// The page of a red packet.

import { ask, claim, clock, element, explain, facts, keepTime, numbers, often, phase, price, problem, say,
  show, watch, wish } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */
/** @typedef {import("./qiang.js").Share} Share */

function packetPage() {
  let packet = facts.packet;
  const me = facts.session?.user;
  const button = /** @type {HTMLButtonElement} */ (element("open"));
  const outcome = element("outcome");
  /** @type {Map<number, Share>} */
  const draws = new Map((facts.draws?.claims ?? []).map((share) => [share.number, share]));
  let next = facts.draws?.next;
  let shown = 100;
  /** @type {Money | undefined} */
  let mine;
  let isOpening = false;
  let isRefused = false;
  keepTime(packet.state);

  const showDraws = () => {
    const all = [...draws.values()].sort((a, b) => b.number - a.number);
    const lines = all.slice(0, shown).map((share) => {
      const line = document.createElement("li");
      const [user, amount] = [document.createElement("span"), document.createElement("span")];
      const isBest = packet.luckiest?.number === share.number;
      user.textContent = isBest ? `${share.user} · ${say("luckiest")}` : share.user;
      amount.textContent = price(share.amount);
      line.classList.toggle("best", isBest);
      line.classList.toggle("mine", share.user === me);
      line.append(user, amount);
      return line;
    });
    element("draws").replaceChildren(...lines);
    element("more").hidden = all.length <= shown && next === undefined;
    show(element("no-draws"), facts.draws === null ? say("draws_hidden") : all.length === 0 ? say("nobody_yet") : "");
    const own = all.find((share) => share.user === me);
    if (own && !mine) got(own.amount);
  };

  /** @param {Money} amount */
  const got = (amount) => {
    mine = amount;
    button.hidden = true;
    outcome.classList.add("got");
    show(outcome, say("you_got", { amount: price(amount) }));
  };

  const showState = () => {
    const { state } = packet;
    const is = phase(state);
    const parts = [say("left", { remaining: state.remaining, supply: state.supply })];
    parts.push(say("money_left", { remaining: price(packet.remaining), total: price(packet.total) }));
    show(element("numbers"), parts.join(" · "));
    numbers(state);
    show(element("back"), packet.refunded.amount > 0 ? say("went_back", { amount: price(packet.refunded) }) : "");
    show(element("clock"), clock(state));
    const canOpen = !mine && !isRefused && is === "live" && state.remaining > 0;
    button.hidden = !(canOpen || isOpening);
    element("passphrase-line").hidden = !(canOpen && packet.audience === "passphrase");
    if (mine || isOpening || isRefused) return;
    if (state.remaining === 0) show(outcome, say("all_taken"));
    else if (is === "over") show(outcome, say("ended"));
    else show(outcome, is === "paused" ? say("paused") : "");
  };

  const showProof = () => {
    if (!packet.seed) return;
    show(element("seed"), packet.seed);
    /** @type {HTMLButtonElement} */ (element("check")).disabled = false;
  };

  /** Everything of the packet, anew. */
  const reload = async () => {
    const answer = await ask("GET", `/v1/red-packets/${packet.id}`);
    if (answer?.status !== 200) return;
    packet = answer.body;
    keepTime(packet.state);
    showState();
    showProof();
    showDraws();
  };

  /** The next draws of the list. */
  const readMore = async () => {
    const last = next ?? Math.max(0, ...draws.keys());
    const answer = await ask("GET", `/v1/red-packets/${packet.id}/claims?limit=1000&after=${last}`);
    if (answer?.status !== 200) return false;
    for (const share of answer.body.claims) draws.set(share.number, share);
    next = answer.body.next;
    return true;
  };

  element("claim").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isOpening || mine) return;
    isOpening = true;
    button.disabled = true;
    button.classList.add("busy");
    show(outcome, say("opening"));
    const answer = await claim("red-packets", packet, wish(packet.id).key, {}, (before) => {
      show(outcome, say("in_line", { ahead: before }));
    });
    isOpening = false;
    button.disabled = false;
    button.classList.remove("busy");
    if (!answer) show(outcome, say("gave_up"));
    else if (answer.status === 200 || answer.status === 201) got(answer.body.amount);
    else if (["sold-out", "ended"].includes(problem(answer))) await reload();
    else {
      show(outcome, explain(answer));
      isRefused = ["not-named", "invitation-invalid"].includes(problem(answer));
    }
  });

  element("more").addEventListener("click", async () => {
    shown += 500;
    if (next !== undefined) await readMore();
    showDraws();
  });

  element("check").addEventListener("click", async () => {
    const { shares, commitment, madeOf, promise, unhex } = await import("./split.js");
    while (next !== undefined || draws.size < packet.state.granted) {
      const before = draws.size;
      if (!(await readMore()) || draws.size === before) break;
    }
    const seed = unhex(packet.seed ?? "");
    const split = {
      total: BigInt(packet.total.amount), count: BigInt(packet.shares), rule: packet.split.rule,
      min: BigInt(packet.split.min ?? 1), max: BigInt(packet.split.max ?? 0),
    };
    const verdict = element("verdict");
    const bound = packet.commitment_version > 1 ? { id: packet.id, currency: packet.total.currency } : undefined;
    if (commitment(seed, split, bound) !== packet.commitment) {
      show(verdict, say("proof_bad_commitment"));
      return;
    }
    const { secret = "", entropy } = packet;
    if (entropy && (promise(packet.id, secret) !== packet.promise || madeOf(secret, entropy) !== packet.seed)) {
      show(verdict, say("proof_bad_promise"));
      return;
    }
    const promised = shares(seed, split);
    const wrong = [...draws.values()].find((share) => promised[share.number - 1] !== BigInt(share.amount.amount));
    show(verdict, wrong ? say("proof_bad_share", { number: wrong.number }) : say(entropy ? "proof_good_both" : "proof_good", { count: draws.size }));
  });

  often(showState);
  showDraws();
  showProof();
  watch(packet.id, Math.max(0, ...draws.keys()), {
    state: (state) => {
      const before = packet.state;
      packet.state = state;
      // How much money is left is told with the whole packet.
      if (state.granted !== before.granted || state.phase !== before.phase) void reload();
    },
    draws: ({ claims }) => {
      for (const share of claims) draws.set(share.number, share);
      showDraws();
    },
  });
}

packetPage();
