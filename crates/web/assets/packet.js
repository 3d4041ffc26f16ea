// @ts-check
// The page of a red packet.

import { ask, claim, element, explain, facts, keepFocus, keepTime, numbers, often, phase, price, problem, say, show,
  share, showClock, signInFor, sleep, tintOf, wantedBefore, watch, wish } from "./qiang.js";

/** @typedef {import("./qiang.js").Money} Money */
/** @typedef {import("./qiang.js").Share} Share */

/** How often the numbers are asked for until they have the draws that are shown. */
const LOOKS_MAX = 5;

/** A time of which the page has the end: it begins as the start of the packet does. @param {string} end */
function completed(end) {
  const start = facts.packet.state.starts_at;
  return start.slice(0, Math.max(0, start.length - end.length)) + end;
}

/** A time on this day, or with its date. @param {string} text */
function openedAt(text) {
  const at = new Date(text);
  const time = at.toLocaleTimeString("en-GB");
  const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString(facts.language);
  return Object.assign(document.createElement("small"), { textContent: ` ${day} ${time}`.replace("  ", " ") });
}

/** The sign that stands for a user without a picture. @param {string} user */
const initialOf = (user) => (user.match(/[\p{L}\p{N}]/u)?.[0] ?? user[0] ?? "").toUpperCase();

/** A length of time in its largest units. @param {number} ms */
function span(ms) {
  const seconds = Math.max(1, Math.round(ms / 1_000));
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600)];
  if (seconds < 60) return say("seconds", { n: seconds });
  const rest = hours ? minutes % 60 : seconds % 60;
  const large = hours ? say("hours", { n: hours }) : say("minutes", { n: minutes });
  return rest ? `${large} ${say(hours ? "minutes" : "seconds", { n: rest })}` : large;
}

function packetPage() {
  let packet = facts.packet;
  /** The numbers of one answer: shares and money fit each other. */
  let counted = facts.packet;
  const me = facts.session?.user;
  const button = /** @type {HTMLButtonElement} */ (element("open"));
  const outcome = element("outcome");
  /** @type {Map<number, Share>} */
  const draws = new Map((facts.draws?.data ?? []).map(([number, user, minor, end]) => [number,
    { number, user, amount: { amount: minor, currency: packet.total.currency }, created_at: completed(end) }]));
  let next = facts.draws?.next;
  let shown = 100;
  /** This user's share, as far as it is known. */
  let own = facts.own;
  /** @type {Money | undefined} */
  let mine;
  let isOpening = false;
  /** Time of the last opening, as far as it is known. */
  let lastAt = 0;
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
      if (share.created_at) user.append(openedAt(share.created_at));
      line.dataset.initial = initialOf(share.user);
      line.classList.add(`tint-${tintOf(share.user)}`);
      amount.textContent = price(share.amount);
      line.classList.toggle("first", first.includes(share));
      line.classList.toggle("best", isBest);
      line.classList.toggle("mine", share.user === me);
      line.append(user, amount);
      return line;
    });
    element("draws").replaceChildren(...lines);
    element("more").hidden = all.length <= shown && next === undefined;
    const hidden = say(facts.session ? "draws_hidden" : "draws_signed_out");
    show(element("no-draws"), facts.draws === null ? hidden : all.length === 0 ? say("nobody_yet") : "");
    if (own && !mine) got(own.amount);
    showSummary();
  };

  /** How long it took until all was opened, and this user's place by amount, once it is over. */
  const showSummary = () => {
    const isAll = draws.size >= packet.state.granted;
    const isOver = !!packet.seed && packet.state.granted > 0;
    if (isAll) lastAt = Math.max(0, ...[...draws.values()].map(({ created_at }) => Date.parse(created_at ?? "") || 0));
    /** @type {string[]} */
    const parts = [];
    const count = packet.state.granted;
    if (isOver && lastAt) {
      parts.push(say("opened_in", { count, time: span(lastAt - Date.parse(packet.state.starts_at)) }));
    }
    if (isOver && isAll && own && count > 1) {
      const [{ amount: { amount } }, all] = [own, [...draws.values()]];
      parts.push(say("your_rank", { rank: 1 + all.filter((share) => share.amount.amount > amount).length, count }));
    }
    element("summary").hidden = parts.length === 0;
    show(element("summary"), parts.join(" · "));
    if (isOver && !isAll && !lastAt && facts.draws) void readLast();
  };

  let isReadingLast = false;
  const readLast = async () => {
    if (isReadingLast) return;
    isReadingLast = true;
    const answer = await ask("GET", `/v1/red-packets/${packet.id}/claims?limit=1&from_number=${packet.state.granted}`);
    lastAt = Date.parse(answer?.body?.data?.[0]?.created_at ?? "") || 0;
    if (lastAt) showSummary();
  };

  /** @param {Money} amount @param {boolean} [isFresh] */
  const got = (amount, isFresh = false) => {
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
    element("send-too").hidden = false;
    if (isFresh && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      void import("./joy.js").then(({ confetti, countUp }) => {
        countUp(large, amount.amount, (minor) => price({ ...amount, amount: minor }));
        confetti(element("envelope"));
      });
    }
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
    if (is === "over") element("send-too").hidden = false;
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
    element("fair").hidden = false;
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
    const after = next ? `&after=${next}` : "";
    const answer = await ask("GET", `/v1/red-packets/${packet.id}/claims?limit=1000${after}`);
    if (answer?.status !== 200) return false;
    for (const share of answer.body.data) draws.set(share.number, share);
    next = answer.body.next;
    return true;
  };

  element("claim").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isOpening || mine) return;
    if (!facts.session) {
      signInFor(packet.id);
      return;
    }
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
      got(answer.body.amount, true);
      isCounting = true;
      const { number, amount, created_at } = answer.body;
      own = { number, user: me ?? "", amount, created_at };
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

  /** Whether the split is proved to be fair; shows why not. @returns {Promise<boolean>} */
  const verify = async () => {
    // Draws may be missing between the draws that the stream delivered.
    if (next === undefined && draws.size < packet.state.granted) next = "";
    while (next !== undefined && (await readMore()));
    const { verdictOf } = await import("./proof.js");
    const { isGood, words } = verdictOf(packet, [...draws.values()]);
    show(element("verdict"), words);
    return isGood;
  };

  const showVerdict = async () => {
    const isGood = await verify();
    show(element("fair"), say(isGood ? "fair_good" : "fair_bad"));
    element("fair").classList.toggle("good", isGood);
    element("fair").classList.toggle("bad", !isGood);
    element("share-proof").hidden = !isGood;
  };
  const openProof = () => {
    /** @type {HTMLDetailsElement} */ (/** @type {unknown} */ (element("proof"))).open = true;
    void showVerdict();
  };
  element("check").addEventListener("click", () => void showVerdict());
  element("fair").addEventListener("click", openProof);

  const link = location.origin + location.pathname;
  const shareWith = (/** @type {string} */ text, /** @type {string} */ url) => async () => {
    show(element("shared"), await share(packet.title, text, url) ? say("copied") : "");
  };
  element("share").addEventListener("click", shareWith(say("share_words", { title: packet.title }), link));
  const proofWords = say("proof_words", { title: packet.title });
  element("share-proof").addEventListener("click", shareWith(proofWords, `${link}#fair`));
  const canvas = /** @type {HTMLCanvasElement} */ (/** @type {unknown} */ (element("canvas")));
  element("poster").addEventListener("click", async () => {
    const { drawPoster } = await import("./poster.js");
    await drawPoster(canvas, packet);
    /** @type {HTMLDialogElement} */ (element("poster-box")).showModal();
  });
  element("save").addEventListener("click", async () => {
    const { savePoster } = await import("./poster.js");
    await savePoster(canvas, packet.title);
  });

  showDraws();
  often(showState);
  showProof();
  if (location.hash === "#fair" && packet.seed) openProof();
  if (wantedBefore(packet.id) !== null && !button.hidden) {
    if (packet.audience === "passphrase") element("passphrase").focus();
    else /** @type {HTMLFormElement} */ (element("claim")).requestSubmit();
  }
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
