// Client of one service.

import type { Answer, CallOptions, Shared } from "./call.js";
import { baseOf, checkOptions, isReplay, read, send, sleep } from "./call.js";
import type { ClaimResult } from "./claims.js";
import { refused, solve } from "./claims.js";
import { AnswerError, ProblemError, UsageError } from "./errors.js";
import type { Call } from "./generated/operations.js";
import { Operations } from "./generated/operations.js";
import type {
  ChallengeAnswer,
  Claim,
  Credentials,
  GrabTicket,
  NewOrder,
  Order,
  Page,
  Place,
} from "./generated/types.js";
import { Pager } from "./pager.js";
import { randomKey } from "./random.js";
import { Turns } from "./turns.js";

const DEADLINE_MS = 30_000;
/** Tickets per call: the first, and another one if it expires during retries. */
const TICKETS_MAX = 2;
/** Largest work in bits. A harder challenge is refused. */
const WORK_BITS_MAX = 32;
/** Time between two reads of a queue entry. */
const LOOK_EVERY_MS = 1000;

/** Properties of a client. */
export interface ClientOptions extends CallOptions {
  /** Time limit of one attempt; default 10 s. After it the request is repeated under the same key. */
  attemptMs?: number;
  /** Calls in flight, with their pauses; default 64. Further ones wait. */
  inFlightMax?: number;
  /** Maximum of the first random pause; default 50 ms. It doubles with each attempt. */
  backoffFirstMs?: number;
  /** Maximum of all random pauses; default 2 s. */
  backoffMs?: number;
  /** In place of the environment's `fetch`. */
  fetch?: typeof fetch;
}

/**
 * Client of the service at a URL. A path in the URL precedes all paths of the API.
 *
 * Every change has an idempotency key. The client repeats it under that key if the connection fails or the answer is
 * late, and on status 408, 429, 502, 503 and 504, after `Retry-After` and a random pause, until the deadline. So no
 * change happens twice.
 */
export class Client extends Operations {
  readonly #shared: Shared;
  readonly #options: CallOptions;

  constructor(url: string, options: ClientOptions = {}) {
    super();
    const { attemptMs = 10_000, inFlightMax = 64, backoffFirstMs = 50, backoffMs = 2000, ...rest } = options;
    if (!(inFlightMax >= 1)) {
      throw new UsageError("inFlightMax must be at least 1");
    }
    checkOptions(rest);
    this.#options = rest;
    const own = rest.fetch ?? fetch;
    this.#shared = {
      base: baseOf(url),
      // The function of browsers must not be called as a method.
      fetch: (input, init) => own(input, init),
      turns: new Turns(inFlightMax),
      attemptMs,
      backoffFirstMs,
      backoffMs,
    };
  }

  /**
   * Client for another user, with a chosen idempotency key, or with another deadline or signal. It shares the limit of
   * calls in flight.
   *
   * Use a key for one request and its retries. Store it before the first attempt if you must find out about the result
   * after a crash of your process.
   */
  withOptions(options: CallOptions): Client {
    const { base, fetch, turns, attemptMs, backoffFirstMs, backoffMs } = this.#shared;
    const other = new Client(base, { ...this.#options, ...options, fetch, attemptMs, backoffFirstMs, backoffMs });
    other.#shared.turns = turns;
    return other;
  }

  /**
   * Orders units of a sale; one unit unless the body says more. Scope `claim`.
   *
   * Retries of this call return the same order. Another call makes another order or is refused, unless both have the
   * same key (`withOptions`). If the sale needs a grab ticket, the client solves the challenge and gets one.
   */
  order(saleId: string, body?: NewOrder, ticket?: GrabTicket): Promise<ClaimResult<Order>> {
    return this.#claim(`/v1/sales/${encodeURIComponent(saleId)}`, "orders", body, ticket);
  }

  /** Claims a share of a red packet. A repeated claim returns the same share. Scope `claim`. */
  claim(redPacketId: string, body?: Credentials, ticket?: GrabTicket): Promise<ClaimResult<Claim>> {
    return this.#claim(`/v1/red-packets/${encodeURIComponent(redPacketId)}`, "claims", body, ticket);
  }

  /** Gets a ticket for orders of a sale in advance. Orders also get their tickets automatically. */
  getSaleTicket(saleId: string): Promise<GrabTicket> {
    return this.#ticket(`/v1/sales/${encodeURIComponent(saleId)}`, this.#until());
  }

  /** Gets a ticket for claims of a red packet in advance. Claims also get their tickets automatically. */
  getRedPacketTicket(redPacketId: string): Promise<GrabTicket> {
    return this.#ticket(`/v1/red-packets/${encodeURIComponent(redPacketId)}`, this.#until());
  }

  /**
   * Waits for the result of the caller's queue entry. It is `waiting` if there is no result in time. The entry stays in
   * the queue: call again to wait longer.
   */
  async waitForPlace(campaignId: string, patienceMs: number): Promise<ClaimResult<Order | Claim>> {
    const until = performance.now() + patienceMs;
    for (;;) {
      let place: Place;
      try {
        place = await this.getPlace(campaignId);
      } catch (error) {
        return refused(error);
      }
      const grant = place.order ?? place.claim;
      if (grant) {
        return { result: "granted", grant, isReplay: true };
      }
      const restMs = until - performance.now();
      if (place.state !== "waiting" || restMs <= 0) {
        return { result: "waiting", place };
      }
      await sleep(Math.min(LOOK_EVERY_MS, restMs), this.#options.signal);
    }
  }

  protected override async json<T>(call: Call): Promise<T> {
    return read<T>(await this.#send(call, this.#until()));
  }

  protected override pages<T>(call: Call): Pager<T> {
    const { after, ...rest } = (call.query ?? {}) as { after?: string };
    const fetchPage = (cursor: string | undefined): Promise<Page<T>> =>
      this.json({ ...call, query: { ...rest, after: cursor } });
    return new Pager(fetchPage, after, call.endless ?? false);
  }

  #until(): number {
    return performance.now() + (this.#options.deadlineMs ?? DEADLINE_MS);
  }

  #send(call: Call, until: number, key?: string): Promise<Answer> {
    return send(this.#shared, { ...this.#options, key: key ?? this.#options.key }, call, until);
  }

  async #claim<T>(path: string, list: string, body: object | undefined, given?: GrabTicket): Promise<ClaimResult<T>> {
    const until = this.#until();
    // All attempts have one key: that with a ticket is the same claim as that without.
    const key = this.#options.key ?? (await randomKey());
    let ticket = given;
    for (let tried = 0; ; tried += 1) {
      const headers: Record<string, string> = ticket ? { "Grab-Ticket": ticket.ticket } : {};
      const call = { method: "POST", path: `${path}/${list}`, body, keyed: true, headers };
      try {
        const answer = await this.#send(call, until, key);
        return answer.status === 202
          ? { result: "waiting", place: read<Place>(answer) }
          : { result: "granted", grant: read<T>(answer), isReplay: isReplay(answer) };
      } catch (error) {
        const kind = error instanceof ProblemError ? error.kind : undefined;
        if (!["ticket-missing", "ticket-expired"].includes(kind ?? "") || tried === TICKETS_MAX) {
          return refused(error);
        }
        ticket = await this.#ticket(path, until);
      }
    }
  }

  async #ticket(path: string, until: number): Promise<GrabTicket> {
    const call = { method: "POST", path: `${path}/tickets` };
    let answer = await this.#send(call, until);
    if (answer.status === 200) {
      const { challenge } = read<ChallengeAnswer>(answer);
      const bits = challenge.difficulty ?? 0;
      if (challenge.kind !== "proof-of-work" || bits > WORK_BITS_MAX) {
        throw new AnswerError(`this client cannot solve the challenge \`${challenge.kind}\` of ${bits} bits`);
      }
      const body = { nonce: challenge.nonce, solution: await solve(challenge.nonce, bits, until) };
      answer = await this.#send({ ...call, body }, until);
    }
    return read<GrabTicket>(answer);
  }
}
