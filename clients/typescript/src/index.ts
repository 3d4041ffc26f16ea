// Typed client of Qiang's HTTP API: red packets and flash sales.

export type { CallOptions } from "./call.js";
export type { ClaimResult } from "./claims.js";
export { Client } from "./client.js";
export type { ClientOptions } from "./client.js";
export {
  AnswerError,
  LostConnectionError,
  NoAnswerError,
  ProblemError,
  QiangError,
  SignatureError,
  UsageError,
} from "./errors.js";
export type * from "./generated/types.js";
export { Pager } from "./pager.js";
export { verify } from "./webhooks.js";
export type { Event, ReceivedHeaders } from "./webhooks.js";
