// Calls: a request is repeated under one key until an answer decides it or the deadline has passed.

import { AnswerError, LostConnectionError, NoAnswerError, ProblemError, UsageError, kindOf } from "./errors.js";
import type { QiangError } from "./errors.js";
import type { Call } from "./generated/operations.js";
import type { Problem } from "./generated/types.js";
import { randomKey } from "./random.js";
import type { Turns } from "./turns.js";

const REPEATED = [408, 429, 502, 503, 504];
/** Problem with status 503 that decides the call: a retry at once would not help. */
const DECISIVE = ["paused"];
/** Problems that do not tell whether the request was carried out. Answers of proxies have `about:blank`. */
const UNCERTAIN = ["uncertain", "about:blank"];
/** Codes of connections that were never made. */
const NOT_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];
const KEY = /^[!-~]{1,255}$/;

/** Properties of a client that `withOptions` changes. */
export interface CallOptions {
  /** Bearer token of the user. */
  token?: string | undefined;
  /** Idempotency key for one request and its retries, instead of a new one. */
  key?: string | undefined;
  /** Time limit of a call with all its attempts and pauses. */
  deadlineMs?: number | undefined;
  /** Ends calls at once. A change may still be carried out. */
  signal?: AbortSignal | undefined;
}

/** What clients of one service share. */
export interface Shared {
  base: string;
  fetch: typeof fetch;
  turns: Turns;
  attemptMs: number;
  backoffFirstMs: number;
  backoffMs: number;
}

/** Success of the service. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

interface Sent {
  url: string;
  init: RequestInit;
  key: string | undefined;
  until: number;
}

/** Checks the URL of a service. */
export function baseOf(url: string): string {
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    parsed = undefined;
  }
  const isBare = parsed && !parsed.search && !parsed.hash && !parsed.username && parsed.port !== "0";
  if (!parsed || !isBare || !["http:", "https:"].includes(parsed.protocol) || !/^https?:\/\/[!-~]+$/.test(url)) {
    throw new UsageError(`invalid URL \`${url}\`: use one such as http://127.0.0.1:8080`);
  }
  return parsed.href.replace(/\/+$/, "");
}

/** Checks what a user passed as options. */
export function checkOptions(options: CallOptions): void {
  if (options.token !== undefined && !/^[!-~]+$/.test(options.token)) {
    throw new UsageError("the token contains characters that no header allows");
  }
  if (options.key !== undefined && !KEY.test(options.key)) {
    throw new UsageError("an idempotency key has 1 to 255 visible characters of ASCII");
  }
}

/** Carries a call out and returns its success. */
export async function send(shared: Shared, options: CallOptions, call: Call, until: number): Promise<Answer> {
  const key = call.keyed ? (options.key ?? (await randomKey())) : undefined;
  const sent = { ...request(shared, options, call, key), key, until };
  // Held over attempts and pauses. So while the service is down, callers wait here instead of sending more requests.
  if (!(await shared.turns.acquire(Math.max(0, until - performance.now())))) {
    throw new NoAnswerError(0, false, key, undefined);
  }
  try {
    return await repeat(shared, options.signal, call.method !== "GET", sent);
  } finally {
    shared.turns.release();
  }
}

async function repeat(
  shared: Shared,
  signal: AbortSignal | undefined,
  isChange: boolean,
  { url, init, key, until }: Sent,
): Promise<Answer> {
  let mayHaveHappened = false;
  for (let attempts = 1; ; attempts += 1) {
    let last: QiangError;
    let pauseMs = 0;
    try {
      const answer = await exchange(shared, url, init, Math.min(until, performance.now() + shared.attemptMs), signal);
      if (answer.status >= 200 && answer.status < 300) {
        return answer;
      }
      const refusal = new ProblemError(problemOf(answer), retryAfterMs(answer));
      const kind = kindOf(refusal.problem);
      if (!REPEATED.includes(answer.status) || DECISIVE.includes(kind)) {
        throw refusal;
      }
      mayHaveHappened ||= UNCERTAIN.includes(kind);
      pauseMs = refusal.retryAfterMs ?? 0;
      last = refusal;
    } catch (error) {
      if (!(error instanceof LostConnectionError)) {
        throw error;
      }
      mayHaveHappened ||= error.sent;
      last = error;
    }
    pauseMs += jitterMs(shared, attempts);
    if (pauseMs >= until - performance.now()) {
      throw new NoAnswerError(attempts, mayHaveHappened && isChange, key, last);
    }
    await sleep(pauseMs, signal);
  }
}

/** Sends a request and reads its whole answer. */
async function exchange(
  shared: Shared,
  url: string,
  init: RequestInit,
  until: number,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  signal?.throwIfAborted();
  const attempt = new AbortController();
  const end = (): void => attempt.abort();
  signal?.addEventListener("abort", end);
  const timer = setTimeout(end, Math.max(0, until - performance.now()));
  try {
    const response = await shared.fetch(url, { ...init, signal: attempt.signal });
    return { status: response.status, headers: response.headers, text: await response.text() };
  } catch (error) {
    signal?.throwIfAborted();
    const isLate = attempt.signal.aborted;
    const sent = isLate || !NOT_SENT.includes(codeOf(error));
    throw new LostConnectionError(isLate ? "no answer in time" : "the connection was lost", sent, error);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

function request(
  shared: Shared,
  options: CallOptions,
  call: Call,
  key: string | undefined,
): { url: string; init: RequestInit } {
  const headers: Record<string, string> = { Accept: "application/json", ...call.headers };
  if (options.token !== undefined) {
    headers["Authorization"] = `Bearer ${options.token}`;
  }
  if (key !== undefined) {
    headers["Idempotency-Key"] = key;
  }
  // A redirect would lose the body or show the token to another host.
  const init: RequestInit = { method: call.method, headers, redirect: "manual", cache: "no-store" };
  if (call.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(call.body);
  }
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined && value !== null) {
      query.set(name, String(value));
    }
  }
  const text = query.toString();
  return { url: `${shared.base}${call.path}${text && `?${text}`}`, init };
}

/** Body of an answer. */
export function read<T>(answer: Answer): T {
  if (answer.status === 204) {
    return undefined as T;
  }
  try {
    return JSON.parse(answer.text) as T;
  } catch (error) {
    throw new AnswerError(`cannot read the answer with status ${answer.status}: ${String(error)}`);
  }
}

/** Whether an answer repeats that of an earlier request. */
export function isReplay(answer: Answer): boolean {
  return answer.headers.get("idempotency-replayed") === "true";
}

/** Problem that an answer describes. Answers of proxies have no description. */
function problemOf(answer: Answer): Problem {
  if (answer.headers.get("content-type")?.startsWith("application/problem+json")) {
    try {
      const problem = JSON.parse(answer.text) as Partial<Problem> | null;
      if (typeof problem?.type === "string" && typeof problem.title === "string") {
        return { ...problem, type: problem.type, title: problem.title, status: answer.status };
      }
    } catch {
      // It is described as an answer of a proxy.
    }
  }
  const title = `status ${answer.status} without a description`;
  return { type: "about:blank", title, status: answer.status, request_id: answer.headers.get("x-request-id") };
}

function retryAfterMs(answer: Answer): number | undefined {
  const text = answer.headers.get("retry-after")?.trim() ?? "";
  return /^\d+$/.test(text) ? Number(text) * 1000 : undefined;
}

/** Random pause; its maximum doubles with each attempt (full jitter). */
function jitterMs(shared: Shared, attempts: number): number {
  return Math.random() * Math.min(shared.backoffMs, shared.backoffFirstMs * 2 ** Math.min(attempts - 1, 30));
}

/** Code of the system's error below an error of `fetch`. */
function codeOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code: unknown = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? code : "";
}

/** Waits, unless the signal ends the call. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
