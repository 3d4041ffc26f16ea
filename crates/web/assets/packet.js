// @ts-check
// The page of a red packet.

import { ask, claim, element, explain, facts, keepFocus, keepTime, numbers, often, phase, price, problem, say, show,
  showClock, sleep, watch, wish } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */
/** @typedef {import("./qiang.js").Share} Share */

/** How often the numbers are asked for until they have the draws that are shown. */
const LOOKS_MAX = 5;

function packetPage() {
  let packet = facts.packet;
  /** The numbers of one answer: shares and money fit each other. */
  let counted = facts.packet;
  const me = facts.session?.user;
  const button = /** @type {HTMLButtonElement} */ (element("open"));
  const outcome = element("outcome");
  /** @type {Map<number, Share>} */
  const draws = new Map((facts.draws?.claims ?? []).map((share) => [share.number, share]));
  let next = facts.draws?.next;
  let shown = 100;
  /** This user's share, as far as it is known. */
  let own = facts.own;
  /** @type {Money | undefined} */
  let mine;
  let isOpening = false;
  /** Whether the numbers shown may not have what was just opened. */
  let isCounting = false;
  let isRefused = false;
  /** What is told of a refusal, and the phase that it was of. */
  let note = "";
  let notePhase = "";
  keepTime(packet.state);

  const showDraws = () => {
    own ??= [...draws.values()].find((share) => share.user === me) ?? null;
    // The own share and the luckiest come first, also if the list does not reach them yet.
    const best = packet.luckiest;
    const first = [own, best?.number === own?.number ? null : best].flatMap((share) => share ?? []);
    const rest = [...draws.values()].filter(({ number }) => first.every((share) => share.number !== number));
    const all = [...first, ...rest.sort((a, b) => b.number - a.number)];
    const lines = all.slice(0, shown).map((share) => {
      const line = document.createElement("li");
      const [user, amount] = [document.createElement("span"), document.createElement("span")];
      const isBest = packet.luckiest?.number === share.number;
      user.textContent = isBest ? `${share.user} · ${say("luckiest")}` : share.user;
      amount.textContent = price(share.amount);
      line.classList.toggle("first", first.includes(share));
      line.classList.toggle("best", isBest);
      line.classList.toggle("mine", share.user === me);
      line.append(user, amount);
      return line;
    });
    element("draws").replaceChildren(...lines);
    element("more").hidden = all.length <= shown && next === undefined;
    show(element("no-draws"), facts.draws === null ? say("draws_hidden") : all.length === 0 ? say("nobody_yet") : "");
    if (own && !mine) got(own.amount);
  };

  /** @param {Money} amount */
  const got = (amount) => {
    mine = amount;
    button.hidden = true;
    element("envelope").classList.add("opened");
    const large = document.createElement("b");
    large.textContent = price(amount);
    outcome.classList.add("got");
    const [words, rest = ""] = say("you_got", { amount: "\n" }).split("\n");
    outcome.replaceChildren(words, large, rest);
    const length = large.textContent?.length ?? 0;
    outcome.classList.toggle("long", length > 9 && length <= 14);
    outcome.classList.toggle("longest", length > 14);
  };

  const showState = () => {
    const { state } = packet;
    const is = phase(state);
    const { remaining, supply, granted: taken } = counted.state;
    const [left, claimed, total] = [counted.remaining, counted.claimed, counted.total].map(price);
    const counts = say("packet_counts", { remaining, taken, supply, money_left: left, money_taken: claimed, total });
    show(element("numbers"), isCounting ? say("counting") : counts);
    if (!isCounting) numbers(counted.state);
    show(element("back"), packet.refunded.amount > 0 ? say("went_back", { amount: price(packet.refunded) }) : "");
    showClock(state);
    const canOpen = !mine && !isRefused && is === "live" && state.remaining > 0;
    button.hidden = !(canOpen || isOpening);
    element("passphrase-line").hidden = !(canOpen && packet.audience === "passphrase");
    if (mine || isOpening || isRefused) return;
    const isEmpty = counted.state.remaining === 0 || is === "over";
    element("envelope").classList.toggle("empty", isEmpty);
    if (isEmpty || is !== notePhase) note = "";
    if (note) show(outcome, note);
    else if (is === "before") show(outcome, say("not_yet"));
    else if (counted.state.remaining === 0) show(outcome, say("all_taken"));
    else if (is === "over") show(outcome, say("ended"));
    else show(outcome, is === "paused" ? say("paused") : "");
  };

  const showProof = () => {
    if (!packet.seed) return;
    show(element("seed"), packet.seed);
    /** @type {HTMLButtonElement} */ (element("check")).disabled = false;
  };

  let isReading = false;
  let isOld = false;
  /** Everything of the packet, anew, until the numbers have the draws that are shown. */
  const reload = async () => {
    isOld = true;
    if (isReading) return;
    isReading = true;
    for (let turn = 0; isOld && turn < LOOKS_MAX; turn++) {
      isOld = false;
      const answer = await ask("GET", `/v1/red-packets/${packet.id}`);
      if (answer?.status !== 200) break;
      packet = counted = answer.body;
      keepTime(packet.state);
      if (packet.state.granted >= Math.max(draws.size, mine ? 1 : 0)) isCounting = false;
      else {
        isOld = true;
        await sleep(100 * 2 ** turn);
      }
      showProof();
      showDraws();
      showState();
    }
    isReading = isCounting = false;
    showState();
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
    note = "";
    notePhase = phase(packet.state);
    show(outcome, say("opening"));
    const answer = await claim("red-packets", packet, wish(packet.id).key, {}, (before) => {
      show(outcome, say("in_line", { ahead: before }));
    });
    isOpening = false;
    button.disabled = false;
    button.classList.remove("busy");
    if (!answer) note = say("gave_up");
    else if (answer.status === 200 || answer.status === 201) {
      got(answer.body.amount);
      isCounting = true;
      const { number, amount } = answer.body;
      own = { number, user: me ?? "", amount };
      if (facts.draws) draws.set(number, own);
      showDraws();
      showState();
      keepFocus(outcome);
      await reload();
    } else if (["sold-out", "ended"].includes(problem(answer))) await reload();
    else {
      note = explain(answer);
      isRefused = ["not-in-audience", "invitation-invalid"].includes(problem(answer));
      if (isRefused) show(outcome, note);
    }
    showState();
    keepFocus(button, outcome);
  });

  element("more").addEventListener("click", async () => {
    shown += 500;
    if (next !== undefined) await readMore();
    showDraws();
    keepFocus(element("draws"));
  });

  element("check").addEventListener("click", async () => {
    const { shares, commitment, knows, madeOf, serverSeedHash, unhex } = await import("./split.js");
    // Draws may be missing between the draws that the stream delivered.
    if (next === undefined && draws.size < packet.state.granted) next = 0;
    while (next !== undefined && (await readMore()));
    const seed = unhex(packet.seed ?? "");
    const split = {
      total: BigInt(packet.total.amount), count: BigInt(packet.shares), rule: packet.split.rule,
      min: BigInt(packet.split.min ?? 1), max: BigInt(packet.split.max ?? 0),
    };
    const verdict = element("verdict");
    // A page that is older than the service must not accuse a packet whose rule it does not know.
    if (!knows(split.rule)) {
      show(verdict, say("proof_unknown_rule"));
      return;
    }
    const bound = { id: packet.id, currency: packet.total.currency };
    if (commitment(seed, split, bound) !== packet.commitment) {
      show(verdict, say("proof_bad_commitment"));
      return;
    }
    const { server_seed: serverSeed = "", client_seed: clientSeed } = packet;
    if (clientSeed && (serverSeedHash(packet.id, serverSeed) !== packet.server_seed_hash
      || madeOf(serverSeed, clientSeed) !== packet.seed)) {
      show(verdict, say("proof_bad_promise"));
      return;
    }
    const promised = shares(seed, split);
    const wrong = [...draws.values()].find((share) => promised[share.number - 1] !== BigInt(share.amount.amount));
    const good = clientSeed ? "proof_good_both" : "proof_good";
    show(verdict, wrong ? say("proof_bad_share", { number: wrong.number }) : say(good, { count: draws.size }));
  });

  showDraws();
  often(showState);
  showProof();
  if (counted.state.granted < draws.size) void reload();
  watch(packet.id, Math.max(0, ...draws.keys()), {
    state: (state) => {
      const before = packet.state;
      // The numbers shown are of one answer: only the whole packet contains the remaining amount.
      packet = { ...packet, state };
      if (state.granted !== before.granted || state.phase !== before.phase) void reload();
    },
    draws: ({ claims }) => {
      for (const share of claims) draws.set(share.number, share);
      showDraws();
      if (counted.state.granted < draws.size) void reload();
    },
  });
}

packetPage();
