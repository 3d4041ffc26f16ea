// Verification of webhooks, as Standard Webhooks specifies.

import { SignatureError, UsageError } from "./errors.js";
import type { WebhookEvent, WebhookEventData, WebhookEventType } from "./generated/types.js";
import { webCrypto } from "./random.js";

/** Time by which a signature may differ from this machine's clock. */
const TOLERANCE_S = 300;
/** Signatures that are compared. The service sends one per valid secret. */
const SIGNATURES_MAX = 16;

/** Webhook whose signature is right. */
export interface Event {
  /** Its id. A retry has the same one: store it, and ignore an id that you have stored. */
  id: string;
  /** Its type. Test events have `webhook.test`, which no endpoint subscribes to. */
  type: WebhookEventType;
  /** Time of the decision. */
  timestamp: string;
  data: WebhookEventData;
}

/** Headers of a request: of `fetch`, or of Node's `http`. */
export type ReceivedHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Verifies a webhook over its raw body, and reads it. `secrets` has one secret, or several during a rotation.
 *
 * Throws `SignatureError` unless a signature matches a secret and its time is within the tolerance. `nowS` is for
 * tests.
 */
export async function verify(
  secrets: string | readonly string[],
  headers: ReceivedHeaders,
  body: string | Uint8Array,
  { toleranceS = TOLERANCE_S, nowS = Date.now() / 1000 }: { toleranceS?: number; nowS?: number } = {},
): Promise<Event> {
  const [id, sentAt, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    headerOf(headers, name),
  ) as [string, string, string];
  if (!/^\d+$/.test(sentAt)) {
    throw new SignatureError("webhook-timestamp is no number of seconds");
  }
  if (Math.abs(nowS - Number(sentAt)) > toleranceS) {
    throw new SignatureError("the signature is too old, or ahead of this machine's clock");
  }
  const encoder = new TextEncoder();
  const raw = typeof body === "string" ? encoder.encode(body) : body;
  const head = encoder.encode(`${id}.${sentAt}.`);
  const signed = new Uint8Array(head.length + raw.length);
  signed.set(head);
  signed.set(raw, head.length);
  if (!(await isSigned(typeof secrets === "string" ? [secrets] : secrets, signatures, signed))) {
    throw new SignatureError("no signature matches");
  }
  return { ...eventOf(new TextDecoder().decode(raw)), id };
}

/** Whether a signature is right. All are verified, each in constant time by Web Cryptography. */
async function isSigned(
  secrets: readonly string[],
  signatures: string,
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  if (secrets.length === 0) {
    throw new UsageError("there is no secret");
  }
  const { subtle } = await webCrypto();
  const given = signatures.split(" ").slice(0, SIGNATURES_MAX);
  let isRight = false;
  for (const secret of secrets) {
    const bytes = decoded(secret.replace(/^whsec_/, ""));
    if (!bytes?.length) {
      throw new UsageError("the secret of a webhook is `whsec_` and base64");
    }
    const key = await subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const one of given) {
      const signature = one.startsWith("v1,") ? decoded(one.slice(3)) : undefined;
      const matches = await subtle.verify("HMAC", key, signature ?? new Uint8Array(32), signed);
      isRight ||= matches && signature !== undefined;
    }
  }
  return isRight;
}

function headerOf(headers: ReceivedHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1];
  if (typeof value !== "string") {
    throw new SignatureError(`the header ${name} is missing`);
  }
  return value;
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function eventOf(body: string): WebhookEvent {
  let event: unknown;
  try {
    event = JSON.parse(body);
  } catch {
    event = undefined;
  }
  const found = event as Partial<WebhookEvent> | null | undefined;
  if (typeof found?.type !== "string" || typeof found.timestamp !== "string" || typeof found.data !== "object") {
    throw new SignatureError("the body is no event");
  }
  return found as WebhookEvent;
}
