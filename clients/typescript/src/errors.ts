// Errors of calls.

import type { Problem, ProblemType } from "./generated/types.js";

/** Error of a call. */
export class QiangError extends Error {
  override name = "QiangError";

  constructor(
    message: string,
    /** Problem that the service reported; after retries, the last one. */
    readonly problem?: Problem | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Kind of the problem: the last word of its type, such as `sold-out`. Kinds are stable. */
  get kind(): string | undefined {
    return this.problem && kindOf(this.problem);
  }
}

/** The caller passed an invalid URL, token or value. Nothing was sent. */
export class UsageError extends QiangError {
  override name = "UsageError";
}

/** The service refused the request. A retry now would not help. */
export class ProblemError extends QiangError {
  override name = "ProblemError";
  declare readonly problem: Problem;

  constructor(
    problem: Problem,
    /** Milliseconds after which the service expects a retry, if it said so. */
    readonly retryAfterMs?: number,
  ) {
    const fields = problem.errors?.map((one) => `${one.pointer ?? one.parameter}: ${one.detail}`) ?? [];
    const details = [problem.detail, ...fields].filter((one) => one);
    super([`${problem.status} ${problem.title}`, ...details].join("; "), problem);
  }

  /** Type of the problem. Compare it with known types, and expect others. */
  get type(): ProblemType {
    return this.problem.type;
  }
}

/** No answer decided the request before the deadline. `cause` is the error of the last attempt. */
export class NoAnswerError extends QiangError {
  override name = "NoAnswerError";
  declare readonly cause: QiangError | undefined;

  constructor(
    /** Number of attempts; 0 if too many other calls were in flight. */
    readonly attempts: number,
    /** Whether the service may still have carried the request out. */
    readonly mayHaveHappened: boolean,
    /** Idempotency key. Repeat the request with `client.withOptions({ key })` to find out. */
    readonly key: string | undefined,
    last: QiangError | undefined,
  ) {
    const reason = last ? `: ${last.message}` : "";
    super(`no decisive answer after ${attempts} attempts${reason}`, last?.problem, { cause: last });
  }
}

/** No connection, a broken connection, or no answer in time. `NoAnswerError` has it as its cause. */
export class LostConnectionError extends QiangError {
  override name = "LostConnectionError";

  constructor(
    message: string,
    /** Whether the service may have received the request. */
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, undefined, { cause });
  }
}

/** The service answered a success that this client does not understand. The request was carried out. */
export class AnswerError extends QiangError {
  override name = "AnswerError";
}

/** A webhook is not signed with the secret, or not at this time. Answer it with status 400. */
export class SignatureError extends QiangError {
  override name = "SignatureError";
}

/** Last word of a problem's type. */
export function kindOf(problem: Problem): string {
  return problem.type.slice(problem.type.lastIndexOf("/") + 1);
}
