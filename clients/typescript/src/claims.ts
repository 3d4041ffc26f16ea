// Outcomes of claims, and the proof of work for grab tickets.

import { LostConnectionError, ProblemError } from "./errors.js";
import type { Place, Problem, RefusedOutcome } from "./generated/types.js";
import { sha256 } from "./sha256.js";

/** Result of a claim that was decided, or that waits in a queue. Other refusals are errors. */
export type ClaimResult<T> =
  | {
      result: "granted";
      /** The order, or the share of a red packet. */
      grant: T;
      /** Whether an earlier request made the grant. A retry of a lost attempt of this call counts as one. */
      isReplay: boolean;
    }
  /** The campaign has a queue, and the claim has an entry in it. `waitForPlace` waits for its result. */
  | { result: "waiting"; place: Place }
  /** Nothing was granted: for example the campaign is sold out. */
  | { result: "refused"; outcome: RefusedOutcome; problem: Problem };

/** Numbers tried between two looks at the clock. */
const TRIED_AT_ONCE = 4096;

/** The refusal of a claim, if it is its outcome. Throws other errors. */
export function refused(error: unknown): { result: "refused"; outcome: RefusedOutcome; problem: Problem } {
  if (error instanceof ProblemError && error.problem.outcome != null) {
    return { result: "refused", outcome: error.problem.outcome, problem: error.problem };
  }
  throw error;
}

/**
 * Solves a proof of work: finds a number such that SHA-256 over the nonce, `:` and its digits begins with this number
 * of zero bits. It takes 2^bits hashes on average. Other tasks run in between.
 */
export async function solve(nonce: string, bits: number, until: number): Promise<string> {
  const encoder = new TextEncoder();
  for (let number = 0; performance.now() < until; ) {
    for (let tried = 0; tried < TRIED_AT_ONCE; tried += 1) {
      if (startsWithZeros(sha256(encoder.encode(`${nonce}:${number}`)), bits)) {
        return String(number);
      }
      number += 1;
    }
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  throw new LostConnectionError("the proof of work for a ticket took longer than the deadline", false);
}

function startsWithZeros(hash: Int32Array, bits: number): boolean {
  const whole = bits >> 5;
  const rest = bits & 31;
  const isZero = hash.subarray(0, whole).every((word) => word === 0);
  return isZero && (rest === 0 || (hash[whole] ?? 0) >>> (32 - rest) === 0);
}
