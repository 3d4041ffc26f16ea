// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

/** Any other text. Later services may answer values that this client does not know. */
export type Unknown = string & Record<never, never>;

/** Acknowledgement level: the failure that a grant survives once it is acknowledged. */
export type AckLevel =
  | "memory"
  | "replica"
  | "fsync"
  | "ledger"
  | Unknown;

/** Kind of action. */
export type ActionKind =
  | "deposit"
  | "create"
  | "change"
  | "pause"
  | "resume"
  | "start"
  | "close"
  | "archive"
  | "pay"
  | "refund"
  | "withdraw"
  | "reverse"
  | "transfer"
  | "cancel"
  | "extend_hold"
  | "return"
  | "delete"
  | "redrive"
  | "repair"
  | "reconcile"
  | "release"
  | "audit"
  | "discard"
  | "run"
  | Unknown;

/** Condition for users to claim. */
export type AudienceKind =
  | "users"
  | "invitation"
  | "passphrase"
  | Unknown;

/** Status of an audit. */
export type AuditStatus =
  | "running"
  | "ok"
  | "broken"
  | "failed"
  | Unknown;

/** Meaning of a refusal for the other campaigns of a batch. */
export type BatchMode =
  | "each"
  | "all"
  | Unknown;

/** Look of a red packet's envelope on the pages. */
export type Cover =
  | "classic"
  | "blossom"
  | "lantern"
  | "cloud"
  | "birthday"
  | "wedding"
  | Unknown;

/** Result of one creation of a batch. */
export type CreationResult =
  | "created"
  | "replayed"
  | "refused"
  | Unknown;

/** Users who may see the claimed shares of a red packet. */
export type Draws =
  | "everybody"
  | "grabbers"
  | "sender"
  | Unknown;

/** Kind of an object. */
export type ObjectKind =
  | "sale"
  | "red_packet"
  | "order"
  | "claim"
  | "payment"
  | "deposit"
  | "reversal"
  | "refund_reversal"
  | "transfer"
  | "withdrawal"
  | "refund"
  | Unknown;

/** State of an order. */
export type OrderState =
  | "held"
  | "paid"
  | "cancelled"
  | "expired"
  | "returned"
  | Unknown;

/** Outcome of a payment. */
export type PaymentOutcome =
  | "paid"
  | "reinstated"
  | "refund_due"
  | Unknown;

/** Payments that pay an order of a sale although they differ from its price. */
export type PaymentPolicy =
  | "owed"
  | "accept_over"
  | "accept_with_tolerance"
  | Unknown;

/** Outcome of a reported payment. */
export type PaymentRecordOutcome =
  | "paid"
  | "reinstated"
  | "refund_due"
  | "refused"
  | Unknown;

/** Phase of a campaign. */
export type Phase =
  | "draft"
  | "scheduled"
  | "live"
  | "paused"
  | "ended"
  | "closed"
  | Unknown;

/** State of a queue entry. */
export type PlaceState =
  | "waiting"
  | "granted"
  | "sold_out"
  | "limit_reached"
  | "ended"
  | "unknown_campaign"
  | "key_reused"
  | "none"
  | Unknown;

/** Kind of posting. */
export type PostingKind =
  | "deposit"
  | "fund"
  | "grant"
  | "refund"
  | "residue"
  | "payment"
  | "refund_due"
  | "return"
  | "refund_paid"
  | "withdrawal"
  | "reversal"
  | "refund_reversal"
  | "transfer"
  | Unknown;

/** Type of the problem. It is stable, so clients may match on it. */
export type ProblemType =
  | "/problems/bad-request"
  | "/problems/unauthenticated"
  | "/problems/forbidden"
  | "/problems/cross-site"
  | "/problems/not-found"
  | "/problems/method-not-allowed"
  | "/problems/body-timeout"
  | "/problems/precondition-failed"
  | "/problems/weak-entity-tag"
  | "/problems/too-large"
  | "/problems/uri-too-long"
  | "/problems/head-too-large"
  | "/problems/media-type"
  | "/problems/invalid"
  | "/problems/ack-unavailable"
  | "/problems/key-reused"
  | "/problems/key-pending"
  | "/problems/superseded"
  | "/problems/user-mismatch"
  | "/problems/seller-mismatch"
  | "/problems/payment-used"
  | "/problems/refund-exceeds-due"
  | "/problems/cancellation-exceeds-order"
  | "/problems/return-exceeds-order"
  | "/problems/hold-extended"
  | "/problems/hold-over"
  | "/problems/too-many-extensions"
  | "/problems/too-many-returns"
  | "/problems/reversal-exceeds-deposit"
  | "/problems/reference-used"
  | "/problems/insufficient-funds"
  | "/problems/id-used"
  | "/problems/reference-taken"
  | "/problems/phase-conflict"
  | "/problems/order-conflict"
  | "/problems/unknown-campaign"
  | "/problems/paused"
  | "/problems/not-started"
  | "/problems/ended"
  | "/problems/limit-reached"
  | "/problems/sold-out"
  | "/problems/throttled"
  | "/problems/address-throttled"
  | "/problems/creations-throttled"
  | "/problems/too-many-connections"
  | "/problems/too-many-streams"
  | "/problems/queue-full"
  | "/problems/already-waiting"
  | "/problems/no-queue-entry"
  | "/problems/overloaded"
  | "/problems/unavailable"
  | "/problems/uncertain"
  | "/problems/ledger-incomplete"
  | "/problems/order-changed"
  | "/problems/stopping"
  | "/problems/not-admitted"
  | "/problems/stock-granted"
  | "/problems/internal"
  | "/problems/ticket-missing"
  | "/problems/ticket-invalid"
  | "/problems/ticket-expired"
  | "/problems/ticket-of-another-user"
  | "/problems/ticket-of-another-campaign"
  | "/problems/ticket-not-needed"
  | "/problems/challenge-failed"
  | "/problems/order-check-refused"
  | "/problems/order-check-unavailable"
  | "/problems/not-in-audience"
  | "/problems/invitation-invalid"
  | "/problems/passphrase-wrong"
  | "/problems/passphrases-throttled"
  | "/problems/draws-hidden"
  | "/problems/not-by-invitation"
  | "/problems/not-for-engine"
  | "/problems/development-only"
  | "/problems/not-quarantined"
  | "/problems/still-refused"
  | "/problems/return-period-over"
  | Unknown;

/** Readiness of a partition. */
export type ReadinessStatus =
  | "ready"
  | "degraded"
  | "not_ready"
  | Unknown;

/** Outcome of a claim that was not granted. */
export type RefusedOutcome =
  | "unknown_campaign"
  | "paused"
  | "not_started"
  | "ended"
  | "limit_reached"
  | "sold_out"
  | Unknown;

/** Result of a repair. */
export type RepairResult =
  | "whole"
  | "waiting"
  | "repaired"
  | Unknown;

/** Requirement of a claim beside a token. */
export type Requirement =
  | "ticket"
  | "order_check"
  | Unknown;

/** Rule that splits a total into shares. */
export type SplitRuleName =
  | "normal"
  | "double_average"
  | "equal"
  | "lazy"
  | Unknown;

/** One of a user's two accounts in a currency. */
export type UserAccount =
  | "available"
  | "refunds_due"
  | Unknown;

/** State of a webhook event after an attempt to deliver it. */
export type WebhookDeliveryState =
  | "delivered"
  | "failed"
  | "given_up"
  | Unknown;

/** Type of a webhook event. */
export type WebhookEventType =
  | "share.granted"
  | "order.held"
  | "order.paid"
  | "order.cancelled"
  | "order.expired"
  | "order.hold_extended"
  | "order.returned"
  | "order.refund_due"
  | "order.refunded"
  | "campaign.opened"
  | "campaign.sold_out"
  | "campaign.changed"
  | "campaign.closed"
  | Unknown;

/** Delivery status of a webhook. */
export type WebhookStatus =
  | "ok"
  | "failing"
  | "disabled"
  | Unknown;

/** Account of a user. */
export interface Account {
  /** The user. */
  user: string;
  /** Balances, one per currency. */
  balances: Balance[];
  /** Whether the balances include all grants from before the request. If not, read them again later. */
  settled: boolean;
}

/** Change that a user or operator requested. It is recorded before the engine decides, so it may have been refused. */
export interface Action {
  /** Its id. */
  id: string;
  /** Time of the request. */
  at: string;
  /** Subject of the request's token, or the name given on the command line. */
  actor: string;
  /** Kind of action. */
  action: ActionKind;
  /** Id of the changed object. */
  subject: string;
  /** Id of the request; empty for actions from the command line. */
  request_id: string;
  /** Content of the request. */
  detail: Record<string, unknown>;
  /** Earlier values of the changed fields, as read just before the change. Texts such as the title are left out. */
  before?: Record<string, unknown> | null;
}

/** Notification of Alipay. Further parameters are signed, and ignored. */
export interface AlipayNotification {
  /** Id of the application. */
  app_id: string;
  /** State of the trade. */
  trade_status: string;
  /** Alipay's number of the trade. */
  trade_no: string;
  /** Amount of the order, in yuan. */
  total_amount: string;
  /** Id of the order. */
  passback_params: string;
  /** The signature. */
  sign: string;
}

/** Audience: exactly one of these. */
export interface Audience {
  /** Users with an invitation of `POST /v1/campaigns/{id}/invitations`. */
  invitation?: boolean;
  /**
   * Users who send this passphrase: 4 to 128 characters, at least 6 if all of them are digits. It is stored as a hash.
   * Width of characters, blanks at the ends and composed accents make no difference.
   */
  passphrase?: string | null;
  /** These users only; at most 5000. */
  users?: string[] | null;
}

/** Audit of the node that was asked, with its status. */
export interface Audit {
  /** Its id. */
  id: string;
  /** Its status. */
  status: AuditStatus;
  /** The user who requested it. */
  actor: string;
  /** Time of its start. */
  started_at: string;
  ended_at?: string | null;
  /** Error of a failed audit. */
  error?: string | null;
  /** Its report; absent in lists. */
  report?: AuditReport | null;
}

/** Result of one check. */
export interface AuditCheck {
  /** Name of the check. */
  name: string;
  /** Number of rows examined. */
  examined: number;
  /** The first breaches, one line each. */
  offending: string[];
  /** Total number of breaches. */
  offending_total: number;
  /** Reason why the check does not apply. */
  not_applicable?: string | null;
  /** Whether the check found no breach; absent if it does not apply here. */
  ok?: boolean | null;
  /** Remedy for operators; absent unless there are breaches. */
  remedy?: string | null;
}

/** Findings of an audit. */
export interface AuditReport {
  /** The audited data. */
  subject: string;
  /** Entries that the ledger refused. */
  refused: number;
  /** Entries that wait for refused ones. */
  waiting: number;
  /** All checks, in order of execution. */
  checks: AuditCheck[];
  /** Unsettled entries in the engine's log; absent if no engine was audited. */
  in_flight?: number | null;
}

/** Balance of a user in one currency. */
export interface Balance {
  /** Money that the user can spend. */
  available: Money;
  /** Total of refunds due. */
  refunds_due: Money;
}

/** Users who may claim of a campaign. */
export interface CampaignAudience {
  /** Condition that users must meet; absent if all users may claim. */
  audience?: AudienceKind | null;
  /** The named users, for an audience of named users. */
  users?: string[] | null;
}

/** An event, in the fields of server-sent events. */
export interface CampaignEvent {
  /** state or draws. */
  event: string;
  /**
   * JSON. For `state` a State. For `draws` an object with `claims`, shares ordered by number, and `gap`, which is true
   * if shares are missing between these and the last event. The list of claims has them.
   */
  data: string;
  /** With `draws`: the number of the newest draw. */
  id?: string | null;
}

/** Orders that a cancellation did not change, by reason. */
export interface CancellationRefusals {
  /** They were paid at that moment. */
  paid: number;
  /** They had expired at that moment. */
  expired: number;
  /** They were paid and returned at that moment. */
  returned: number;
  /** The engine does not have them, though the ledger does: `qiang reconcile` compares the two. */
  unknown: number;
}

/** A challenge. */
export interface Challenge {
  /** `proof-of-work`, unless the installation has its own challenge. */
  kind: string;
  /** Nonce to send back with the solution. */
  nonce: string;
  /** Time until which a solution is accepted. */
  expires_at: string;
  /** For `proof-of-work`: the number of zero bits. */
  difficulty?: number | null;
}

/** Challenge to solve before a ticket. */
export interface ChallengeAnswer {
  challenge: Challenge;
}

/** Parameters of a challenge. An installation's own challenge may have others. */
export interface ChallengeParameters {
  /** For `proof-of-work`: the number of zero bits. */
  difficulty?: number | null;
}

/** Solution of a challenge. */
export interface ChallengeSolution {
  /** Nonce of the challenge, unchanged. */
  nonce?: string;
  /**
   * For `proof-of-work`: a text of at most 128 bytes. SHA-256 over nonce, `:` and this text must start with
   * `difficulty` zero bits.
   */
  solution?: string;
}

/** Share of a red packet that a user has. A repeated claim gets the same one. */
export interface Claim {
  /** Its id: that of its red packet, and its number. */
  id: string;
  /** `claim`. */
  object: ObjectKind;
  /** The red packet. */
  campaign: string;
  /** Its number in the red packet, from 1. */
  number: number;
  /** The user who has it. */
  user: string;
  /** Its money. */
  amount: Money;
  /** Time of the decision. */
  created_at: string;
  /** Acknowledgement level that it has reached. Only in the answer to a claim. */
  ack?: AckLevel | null;
}

/** Latency of claims, in milliseconds. */
export interface ClaimLatency {
  /** 50th percentile. */
  p50: number;
  /** 90th percentile. */
  p90: number;
  /** 99th percentile. */
  p99: number;
}

/** Clock of a service for development. */
export interface ClockReading {
  /** The time of the service. */
  now: string;
  /** Seconds by which requests have moved it. */
  advanced_seconds: number;
}

/** A step of the clock. */
export interface ClockStep {
  /** Seconds by which the clock moves forward. */
  advance_seconds: number;
}

/** Credentials of a claim for the audience. */
export interface Credentials {
  /** Invitation, for campaigns by invitation. */
  invitation?: string | null;
  /** Passphrase, for campaigns by passphrase. */
  passphrase?: string | null;
}

/** A deposit that was made, and how much of it was reversed. */
export interface Deposit {
  /** Its id. */
  id: string;
  /** `deposit`. */
  object: ObjectKind;
  /** The user whose account was credited. */
  user: string;
  /** Its money. */
  amount: Money;
  /** Time of the deposit. */
  created_at: string;
  /** Whether all of it was reversed. */
  reversed: boolean;
  /** Reversed amount. */
  reversed_amount: Money;
  /** Metadata of the shop. Absent unless the caller may read it. */
  metadata?: Record<string, string>;
  /** Reference of the payment service; absent if it was made without one. */
  reference?: string | null;
}

/** Wrong field of a body, or wrong parameter: of the path, of the query, or a header. */
export interface FieldError {
  /** The error. */
  detail: string;
  /** The name of the parameter. */
  parameter?: string | null;
  /** Position of the field in the body: `#` and a JSON pointer (RFC 6901). */
  pointer?: string | null;
}

/** A grab ticket. */
export interface GrabTicket {
  /** Value of the header `Grab-Ticket` in claims. */
  ticket: string;
  /** Time until which it is valid. */
  expires_at: string;
}

/** Grant of a timeline. */
export interface GrantPoint {
  /** Its number, which counts the grants up to this one, unless numbers were skipped. */
  number: number;
  /** Time of the decision. */
  created_at: string;
  paid_at?: string | null;
}

/** Grants of a campaign over its whole life, each with its number and its times. */
export interface GrantTimeline {
  /** The campaign. */
  campaign: string;
  /** Highest number that a grant may have: of an order so far, or the number of shares. */
  last_number: number;
  /** Whether only evenly spaced grants are listed, because there are more. */
  sampled: boolean;
  /** The grants, ordered by number. */
  points: GrantPoint[];
  /** Whether all grants from before the request are included. If not, read it again later. */
  settled: boolean;
}

/** Invitation to a campaign. It admits any user who presents it. */
export interface Invitation {
  /** Text that a claim must present. */
  invitation: string;
  /** Time from which it is invalid. */
  expires_at: string;
}

/** A red packet to send, under its key. */
export interface KeyedRedPacket {
  /**
   * Idempotency key, with the meaning of the header `Idempotency-Key` of a single packet. The same key identifies the
   * same packet on both routes.
   */
  idempotency_key: string;
  red_packet: NewRedPacket;
}

/** A sale to open, under its key. */
export interface KeyedSale {
  /**
   * Idempotency key, with the meaning of the header `Idempotency-Key` of a single sale. The same key identifies the
   * same sale on both routes.
   */
  idempotency_key: string;
  sale: NewSale;
}

/** A red packet in a list. */
export interface ListedRedPacket {
  /** Its id. */
  id: string;
  /** `red_packet`. */
  object: ObjectKind;
  /** The sender. */
  sender: string;
  /** Title that users see. */
  title: string;
  /** Total money of all shares. */
  total: Money;
  /** Number of shares. */
  shares: number;
  /** Rule that splits the total into shares. */
  split: SplitRule;
  /** Look of the envelope on the pages. */
  cover: Cover;
  /** Time of its creation. */
  created_at: string;
  /** Time of the last change of phase, stock, settings or details. */
  updated_at: string;
  /** Its counters, as settled. */
  state: State;
  archived_at?: string | null;
  /** Metadata of the shop. Absent unless the caller may read it. */
  metadata?: Record<string, string>;
  /** The shop's own number. Absent unless the caller may read the metadata. */
  reference?: string | null;
}

/** Metadata of a campaign or an order. */
export interface Metadata {
  /** Id of the campaign or the order. */
  id: string;
  /** `sale`, `red_packet` or `order`. */
  object: ObjectKind;
  /** Texts of the shop by name. */
  metadata?: Record<string, string>;
  /** The shop's own number. */
  reference?: string | null;
  /** Whether no other object of this kind and owner can have the reference as a unique one. */
  unique_reference?: boolean;
}

/** A change of metadata. Absent fields and names do not change. */
export interface MetadataChange {
  /** New values by name; null removes a name. An object has at most 20 names. */
  metadata?: Record<string, string | null>;
  /**
   * The shop's own number of the object; null removes it. Several objects may have the same one, unless it is unique.
   */
  reference?: string | null;
  /**
   * Whether the reference is unique, with `reference`: if another campaign of the owner, or another order of the
   * seller, has it as a unique one, the change is refused. Default: as before.
   */
  unique_reference?: boolean | null;
}

/** Money in whole minor units (fen, cents) of one currency. */
export interface Money {
  /** Whole minor units. */
  amount: number;
  /** ISO 4217 code. */
  currency: string;
}

/** Units of an order to cancel. */
export interface NewCancellation {
  /**
   * At least 1, at most the order's quantity. Default: all units. A request with a quantity needs an `Idempotency-Key`.
   */
  quantity?: number | null;
}

/** Money from outside. */
export interface NewDeposit {
  /** Whole minor units, at least 1. */
  amount: number;
  /** ISO 4217 code. */
  currency: string;
  /**
   * The payment service's reference of the deposit, kept forever. The same deposit with it is a replay, at any time and
   * from any caller; another deposit with it is refused. If two services may use the same references, prefix them.
   */
  reference: string;
  /** Up to 20 texts of the shop by name. Users do not see them. */
  metadata?: Record<string, string>;
}

/** Extension of the hold of an order. */
export interface NewHoldExtension {
  /** Seconds after the present end of the hold: at least 1, and at most the `hold_seconds` of the sale. */
  seconds: number;
}

/** An invitation to sign. */
export interface NewInvitation {
  /** Time from which it is not valid; default: the end of the campaign. */
  expires_at?: string | null;
}

/** An order of units. */
export interface NewOrder {
  /** Invitation, for sales by invitation. */
  invitation?: string | null;
  /** Passphrase, for sales by passphrase. */
  passphrase?: string | null;
  /** Units, at least 1. */
  quantity?: number;
}

/** Held orders of a sale to cancel. Without a filter these are all of them. */
export interface NewOrderCancellations {
  /** Only orders after this cursor: `next` of the part before. */
  after?: string | null;
  /** Only orders from this time on. */
  created_after?: string | null;
  /** Only orders from before this time. */
  created_before?: string | null;
  /** Cancel at most this many orders; default 100. */
  limit?: number | null;
  /** Only orders of this buyer. */
  user?: string | null;
}

/** A payment that arrived. */
export interface NewPayment {
  /**
   * The payment service's reference of the payment. A report with the same reference is a replay: the money of the
   * first report counts, and other money is not recorded. A further payment of the order is refunded. A reference pays
   * one order: for another order it is refused.
   */
  reference: string;
  /**
   * Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
   * `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not change.
   */
  amount: Money;
  /**
   * Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
   * reported a little later. Default: now.
   */
  paid_at?: string | null;
  /** User who paid. If the order is another user's, the report is refused and nothing is recorded. */
  user?: string | null;
}

/** A red packet to send. */
export interface NewRedPacket {
  /** Title that users see. */
  title: string;
  /** Amount that is taken from the sender's account and split. */
  total: Money;
  /** Number of shares. A user gets at most one. */
  shares: number;
  split: NewSplitRule;
  /** Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis). */
  ack?: AckLevel | null;
  /** Users who may take part; default: all users. */
  audience?: Audience | null;
  /** 32 random bytes of the sender, as 64 hexadecimal digits. All users will see them. */
  client_seed?: string | null;
  /** Look of the envelope on the pages; default: `classic`. */
  cover?: Cover | null;
  /** Users who may see the draws; default: all users. */
  draws?: Draws;
  /**
   * Time at which unclaimed money returns to the sender. Default: `packets.refund_after_ms` of the configuration after
   * the start, which is 24 hours unless configured otherwise.
   */
  ends_at?: string | null;
  /**
   * The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it finds
   * the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
   */
  id?: string | null;
  /** Up to 20 texts of the shop by name. Users do not see them. */
  metadata?: Record<string, string>;
  /**
   * The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
   * see it.
   */
  reference?: string | null;
  /**
   * Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
   * Default: none.
   */
  requirements?: Requirement[];
  /** Hash of the server seed for this `id`; needs `client_seed`. With both, neither side alone chooses the split. */
  server_seed_hash?: string | null;
  /** Default: now. */
  starts_at?: string | null;
  /**
   * Whether the reference is unique: if another campaign of the sender has it as a unique one, this one is refused.
   * Default: no.
   */
  unique_reference?: boolean | null;
  /** Whether claims wait in a queue and are decided in order of arrival; default: no. */
  waiting_room?: boolean | null;
}

/** Red packets to send: 1 to 100, with at most as many shares together as one packet may have (`limits.shares_max`). */
export interface NewRedPackets {
  red_packets: KeyedRedPacket[];
  /**
   * `each`: a refused packet does not affect the others. `all`: if one packet is refused, none is sent, and the whole
   * request is refused. Default: `each`.
   */
  mode?: BatchMode | null;
}

/** A refund that was paid to the buyer of an order. */
export interface NewRefund {
  /**
   * The payment service's reference of the refund. The same refund with it is a replay; another refund with it is
   * refused.
   */
  reference: string;
  /** Amount: at least 1 minor unit, at most what is still due for the order in this currency. */
  amount: Money;
}

/** Units of an order to return. */
export interface NewReturn {
  /**
   * At least 1, at most what is not returned yet. Default: all of that. A request with a quantity needs an
   * `Idempotency-Key`.
   */
  quantity?: number | null;
}

/** Amount of a deposit to reverse. */
export interface NewReversal {
  /**
   * At least 1 minor unit, at most what is not reversed yet, in the deposit's currency. Default: all of that. A request
   * with an amount needs an `Idempotency-Key`.
   */
  amount?: Money | null;
}

/** A sale to open. */
export interface NewSale {
  /** Title that users see. */
  title: string;
  /** Units for sale. Their total price is at most 9007199254740991 minor units. */
  stock: number;
  unit_price: Money;
  /** Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis). */
  ack?: AckLevel | null;
  /**
   * Users admitted to a decision at a time for each 100 units that are left: 100 to 10000, or 0 for all; default 150.
   * Other claims wait, and most of them end with sold out. A sale that is spread over partitions admits all and ignores
   * this value.
   */
  admission_percent?: number | null;
  /** Users who may take part; default: all users. */
  audience?: Audience | null;
  /** Description of the product; may contain line breaks. */
  description?: string | null;
  /** Default: 24 hours after the start. */
  ends_at?: string | null;
  /** Further pictures of the product, at most 8, in their order. Each is like `image_url`. */
  gallery?: string[];
  /** Seconds for which an unpaid order keeps its units; default 900. */
  hold_seconds?: number | null;
  /**
   * The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it finds
   * the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
   */
  id?: string | null;
  /** Image of the product: `https://…`, or a path of the shop's own site, which begins with `/`. */
  image_url?: string | null;
  /** Price of one unit before the discount: above `unit_price`, in its currency. Buyers see the difference. */
  list_price?: Money | null;
  /** Up to 20 texts of the shop by name. Users do not see them. */
  metadata?: Record<string, string>;
  /**
   * Payments other than the price that pay an order. `owed`: none; another amount is refunded. `accept_over`: each
   * larger amount. `accept_with_tolerance`: amounts that differ from the price by at most `payment_tolerance`. The
   * seller receives the whole payment; if the order is returned, all of it is refunded. The policy never changes. A
   * sale at 0 has `owed`. Default: `owed`.
   */
  payment_policy?: PaymentPolicy | null;
  /**
   * For `accept_with_tolerance` only: 0 or more, below the unit price, in its currency. It applies to the whole order,
   * for any number of units. An order with an amount not above the tolerance accepts its exact amount only.
   */
  payment_tolerance?: Money | null;
  /** Units that one user may have; default 1. */
  per_user_limit?: number | null;
  /** The seller's id of the product. Sales of one product are its rounds. Visible ASCII characters. */
  product_id?: string | null;
  /**
   * The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
   * see it.
   */
  reference?: string | null;
  /**
   * Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
   * Default: none.
   */
  requirements?: Requirement[];
  /** Seller; default: the caller. Another seller needs the scope `campaigns:write:any`. */
  seller?: string | null;
  /** Default: now. */
  starts_at?: string | null;
  /**
   * Whether the reference is unique: if another campaign of the seller has it as a unique one, this one is refused.
   * Default: no.
   */
  unique_reference?: boolean | null;
  /** Whether claims wait in a queue and are decided in order of arrival; default: no. */
  waiting_room?: boolean | null;
}

/** Sales to open: 1 to 100. */
export interface NewSales {
  sales: KeyedSale[];
  /**
   * `each`: a refused sale does not affect the others. `all`: if one sale is refused, none is created, and the whole
   * request is refused. Default: `each`.
   */
  mode?: BatchMode | null;
}

/** Rule that splits the total into shares. */
export interface NewSplitRule {
  /** normal, double_average, equal or lazy. */
  rule: SplitRuleName;
  /** The largest share, in minor units; `normal` needs it, the others have none. */
  max?: number | null;
  /** The smallest share, in minor units; default 1. Not for `equal`. */
  min?: number | null;
}

/** Money to move to another user. */
export interface NewTransfer {
  /** Your reference of the transfer. The same transfer with it is a replay; another one with it is refused. */
  reference: string;
  /** The user who gets the money. */
  to: string;
  /** Whole minor units, at least 1, at most the user's available balance. */
  amount: number;
  /** ISO 4217 code. */
  currency: string;
}

/** An endpoint that receives events. */
export interface NewWebhook {
  /** URL of the endpoint: `https:` with a host on the public internet. */
  url: string;
  /** Campaigns of events that it receives, at most 100; empty for all campaigns. */
  campaigns?: string[];
  /** Sender or seller of the campaigns of events that it receives. Without the scope `admin` it is the caller. */
  owner?: string | null;
  /** Types of events that it receives; empty for all types. */
  types?: WebhookEventType[];
}

/** A withdrawal from a user's account. */
export interface NewWithdrawal {
  /**
   * The payment service's reference of the withdrawal. The same withdrawal with it is a replay; another one with it is
   * refused.
   */
  reference: string;
  /** Whole minor units, at least 1, at most the user's available balance. */
  amount: number;
  /** ISO 4217 code. */
  currency: string;
}

/** Node as a partition sees it. */
export interface NodeSighting {
  /** Its name. */
  node: string;
  /** Time of its last presence call, by the engine's clock. */
  seen_at: string;
  /** The term in which it has reported. */
  term: number;
  /** The last entry that it has observed. */
  observed: number;
}

/** Receipt of a payment service's notification. */
export interface NotificationReceipt {
  /** Reports of payments and refunds that are recorded, by this notification or an earlier one. */
  recorded: number;
  /** Reason why a notification without reports is acknowledged. */
  ignored?: string | null;
}

/** Order of a sale. A repeated claim gets the same one. */
export interface Order {
  /** Its id: that of its sale, and its number. */
  id: string;
  /** `order`. */
  object: ObjectKind;
  /** The sale. */
  campaign: string;
  /** Its number in the sale, from 1. */
  number: number;
  /** The buyer. */
  user: string;
  /** Number of units that were granted. */
  quantity: number;
  /** Units that were returned after the order was paid. */
  returned_quantity: number;
  /** Units cancelled while the order was held. `quantity` and `amount` are without them. */
  cancelled_quantity: number;
  /** The price of all granted units. */
  amount: Money;
  /** Its state. */
  state: OrderState;
  /** Time of the decision. */
  created_at: string;
  /** Acknowledgement level that it has reached. Only in the answer to a claim. */
  ack?: AckLevel | null;
  /**
   * Seconds by which the seller extended the hold: `hold_until` includes them. Absent if the hold was not extended, and
   * in lists.
   */
  hold_extension_seconds?: number | null;
  hold_until?: string | null;
  /** Metadata of the shop. Only in lists, for callers who may read it. */
  metadata?: Record<string, string>;
  /** The shop's own number. Only in lists, for callers who may read the metadata. */
  reference?: string | null;
  /** Number of its payments with a refund due. Absent in lists and in the answer to a claim. */
  refundable_payments?: number | null;
  /** Title of the sale. Only in lists of several sales' orders. */
  title?: string | null;
}

/** Result of one part of a cancellation of many orders. */
export interface OrderCancellations {
  /** Orders of this part, which were found held. */
  matched: number;
  /** Orders of this part that are cancelled. */
  cancelled: number;
  /** Orders of this part that did not change: the sum of `refusals`. */
  unchanged: number;
  /** Orders of this part that did not change, by reason. */
  refusals: CancellationRefusals;
  /** Whether the ledger had all orders. If not, repeat the cancellation later for the newest ones. */
  settled: boolean;
  /** Cursor of the next part; absent after the last one. */
  next?: string | null;
}

/** Refunds of an order in one currency. */
export interface OwedMoney {
  /** Total that ever became due. */
  due: Money;
  /** Amount refunded so far. */
  refunded: Money;
}

/** Order with an unpaid refund in one currency. */
export interface OwedOrder {
  /** The order. */
  order: string;
  /** The buyer. */
  user: string;
  /** Total that ever became due. */
  due: Money;
  /** Amount refunded so far. */
  refunded: Money;
  /** Amount still due. */
  outstanding: Money;
}

/** A partition. */
export interface Partition {
  /** Its number. */
  partition: number;
  /** Its readiness. */
  status: ReadinessStatus;
  /** Its entries that the ledger refused. */
  refused: number;
  /** Its entries that wait for refused ones. */
  waiting: number;
  /** Reason of a status other than ready. */
  reason?: string | null;
  /** Differences between engine and ledger; absent if this process does not reconcile. */
  reconciliation?: PartitionReconciliation | null;
  /** Its log entries that are not in the ledger yet; absent if the number per partition is unknown. */
  settlement_lag?: number | null;
  /** Reason why its settlement is stuck. */
  settlement_stuck?: string | null;
}

/** Partition with its nodes and repairs. */
export interface PartitionDetail {
  /** Its number. */
  partition: number;
  /** Its readiness. */
  status: ReadinessStatus;
  /** Its entries that the ledger refused. */
  refused: number;
  /** Its entries that wait for refused ones. */
  waiting: number;
  /** The last entry that is in the ledger. */
  settled: number;
  /** Fields of the engine's state, as texts. */
  engine: Record<string, string>;
  /** The nodes that report to it. */
  nodes: NodeSighting[];
  /** The last repairs in the ledger, newest first. */
  repairs: RepairRecord[];
  /** Withheld units in the ledger. */
  withheld: Withheld[];
  /** Reason of a status other than ready. */
  reason?: string | null;
  /** Differences between engine and ledger; absent if this process does not reconcile. */
  reconciliation?: PartitionReconciliation | null;
  /** Its log entries that are not in the ledger yet; absent if the number per partition is unknown. */
  settlement_lag?: number | null;
  /** Reason why its settlement is stuck. */
  settlement_stuck?: string | null;
}

/** A partition that is not ready. */
export interface PartitionReadiness {
  /** Number of the partition. */
  partition: number;
  /**
   * degraded: something that some grants need is missing, or memory for new ones, while all else works; not_ready:
   * nothing is served.
   */
  status: ReadinessStatus;
  /** Reason of the status. */
  reason: string;
}

/** Result of comparing engine and ledger. */
export interface PartitionReconciliation {
  /** Number of differences, by kind. */
  differences: Record<string, number>;
  passed_at?: string | null;
  ran_at?: string | null;
}

/** All partitions, as the node that answers sees them. */
export interface Partitions {
  /** The partitions. */
  partitions: Partition[];
  /** Claims and commands that wait for the engine. */
  queue_length: number;
  /** Log entries that are not in the ledger yet. */
  settlement_lag: number;
  /** Whether partitions of this engine may lose entries, and can be repaired and resumed. */
  repairable: boolean;
  /** Overdue maintenance that the node retries. */
  upkeep_stuck?: string | null;
}

/** Result of a payment report. */
export interface Payment {
  /** Outcome of the payment. */
  outcome: PaymentOutcome;
  /** The order. */
  order: Order;
}

/** Reported payment and its outcome. */
export interface PaymentRecord {
  /** Reference of the payment service. */
  reference: string;
  /** `payment`. */
  object: ObjectKind;
  /** The order. */
  order: string;
  /** Outcome of the payment. */
  outcome: PaymentRecordOutcome;
  /** Time of the decision. */
  created_at: string;
  /** Its money; absent if the amount of a refused report could not be read. */
  amount?: Money | null;
  /** Problem of a refused report. */
  problem?: string | null;
  user?: string | null;
}

/** A payment that arrived for an order. */
export interface PaymentReport {
  /** Order that it pays. */
  order: string;
  /**
   * The payment service's reference of the payment. A report with the same reference is a replay: the money of the
   * first report counts, and other money is not recorded. A further payment of the order is refunded. A reference pays
   * one order: for another order it is refused.
   */
  reference: string;
  /**
   * Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
   * `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not change.
   */
  amount: Money;
  /**
   * Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
   * reported a little later. Default: now.
   */
  paid_at?: string | null;
  /** User who paid. If the order is another user's, the report is refused and nothing is recorded. */
  user?: string | null;
}

/** A user's queue entry. */
export interface Place {
  /** State of the entry: it waits, or its result. */
  state: PlaceState;
  /** Number of the entry. Entries are decided in this order. */
  place: number;
  /** Upper bound of the entries before this one; absent once it is decided. */
  ahead?: number | null;
  /** The claimed share, if one was granted. */
  claim?: Claim | null;
  /** The order, if units were granted. */
  order?: Order | null;
}

/** Posting on one of a user's accounts. */
export interface Posting {
  /** Kind of posting. */
  kind: PostingKind;
  /** The user's account with the posting. */
  account: UserAccount;
  /** Amount; negative for a debit. */
  amount: Money;
  /** Time of the posting. */
  at: string;
  campaign?: string | null;
  order?: string | null;
  /** Reference of the payment service; for a deposit and its reversal the deposit's id. */
  reference?: string | null;
}

/** Refusal by the service. Unknown fields are ignored. */
export interface Problem {
  /** Type of the problem: a path of the service with a page about the remedy. See `kind`. */
  type: ProblemType;
  /** Title; the same for all problems of a type. */
  title: string;
  /** The HTTP status. */
  status: number;
  /** Details of this occurrence. */
  detail?: string | null;
  /**
   * Known wrong fields and parameters; for `bad-request` and `invalid`. For a batch with the mode `all`, the refused
   * campaigns.
   */
  errors?: FieldError[];
  /** Id of the campaign or order that has the reference; for `reference-taken`. */
  existing_id?: string | null;
  /** Units of this user; for `limit-reached`. */
  held?: number | null;
  /** Maximum units per user; for `limit-reached`. */
  limit?: number | null;
  /** Offered levels; for `ack-unavailable`. */
  offered?: AckLevel[];
  /** Outcome; for claims. */
  outcome?: RefusedOutcome | null;
  /** Remaining units, fewer than requested; for `sold-out`. */
  remaining?: number | null;
  /** Id of the request. Log lines of the service contain it. */
  request_id?: string | null;
  /** Scope that the token must have; for `forbidden`. */
  scope?: string | null;
  starts_at?: string | null;
  /** Exceeded limits; for status 429. */
  "violated-policies"?: string[];
}

/** An entry in quarantine. */
export interface QuarantinedEntry {
  /** Its partition and position, such as `0-17`. */
  entry: string;
  /** Its partition. */
  partition: number;
  /** Its position in the partition's log. */
  seq: number;
  /** The campaign of the entry. */
  campaign: string;
  /** Its text in the log. */
  event: string;
  /** Time of the refusal; for a waiting entry the time of the decision. */
  at: string;
  /** Reason why it was not settled. */
  reason: string;
  /** Whether the entry is a grant that is being discarded. */
  discarding: boolean;
  /** Position of the entry that it waits for; absent if it was refused. */
  waits_for?: number | null;
}

/** Readiness to grant. */
export interface Readiness {
  /** ready; degraded: something is missing or a partition grants nothing; not_ready: no partition grants. */
  status: ReadinessStatus;
  /** Claims and commands that wait for the engine. */
  queue_length: number;
  /** Log entries that are not yet in the ledger. */
  settlement_lag: number;
  /**
   * Campaigns that repairs took out of service, if any: the first 20. Their claims are refused, and all others are
   * served.
   */
  campaigns_out_of_service?: string[] | null;
  /**
   * Seconds by which the clock that opens and ends campaigns is ahead of this machine's. Absent if they differ by one
   * second or less.
   */
  clock_offset_seconds?: number | null;
  /** Partitions that are not ready. */
  partitions?: PartitionReadiness[] | null;
  /** Quarantined entries, if any. The ledger lacks them until they are settled. */
  quarantined_entries?: SetAside | null;
  /** Reason for a status other than ready. */
  reason?: string | null;
  /** Reason why settlement is stuck. Absent if it is not. Grants continue during that time, up to a limit. */
  settlement_stuck?: string | null;
  /**
   * Overdue work that is retried, if any: campaigns that are not open, queues that are not decided, packets that are
   * claimed but not closed.
   */
  upkeep_stuck?: string | null;
}

/** Result of reconciling a partition with the ledger. */
export interface Reconciled {
  /** Time of its start. */
  ran_at: string;
  /** Whether all live campaigns were compared. False if that takes longer than five seconds. */
  complete: boolean;
  /** Campaigns compared completely. */
  campaigns: number;
  /** Rows compared. */
  rows: number;
  /** Number of differences, by kind. Each was found twice, with a pause between. */
  differences: Record<string, number>;
  /** The first hundred differences, one line each. */
  examples: string[];
}

/** Recorded event, with the content that endpoints receive. */
export interface RecordedEvent {
  /** Its id: the `webhook-id` of its deliveries. */
  id: string;
  /** Its type. */
  type: WebhookEventType;
  /** Time of the decision. */
  timestamp: string;
  /** Details. Fields may be added. */
  data: Record<string, unknown>;
}

/** A red packet. */
export interface RedPacket {
  /** Its id. */
  id: string;
  /** `red_packet`. */
  object: ObjectKind;
  /** The sender. */
  sender: string;
  /** Title that users see. */
  title: string;
  /** Total money of all shares. */
  total: Money;
  /** Number of shares. */
  shares: number;
  /** Rule that splits the total into shares. */
  split: SplitRule;
  /** Acknowledgement level of grants. */
  ack: AckLevel;
  /** Users who may see the claimed shares. */
  draws: Draws;
  /** Look of the envelope on the pages. */
  cover: Cover;
  /** Whether claims wait in a queue. */
  waiting_room: boolean;
  /** Requirements of a claim. */
  requirements: Requirement[];
  /** Money of the claimed shares. */
  claimed: Money;
  /** Money of the shares that can still be claimed. */
  remaining: Money;
  /** Money refunded to the sender. */
  refunded: Money;
  /** Money of the shares that repairs withhold. It goes back to the sender at the close. */
  withheld: Money;
  /** The SHA-256 over split, id, currency and seed. */
  commitment: string;
  /** Time of its creation. */
  created_at: string;
  /** Time of the last change of phase, stock, settings or details. */
  updated_at: string;
  /** Its counters. */
  state: State;
  archived_at?: string | null;
  /** Users who may claim; absent for all users. */
  audience?: AudienceKind | null;
  /** The client seed, which the sender added. */
  client_seed?: string | null;
  /** The largest share, once all are claimed or the packet is closed. */
  luckiest?: Claim | null;
  /** Metadata of the shop. Absent unless the caller may read it. */
  metadata?: Record<string, string>;
  /** The shop's own number. Absent unless the caller may read the metadata. */
  reference?: string | null;
  /** Seed of all shares. Disclosed once it gives no user an advantage. */
  seed?: string | null;
  /** The server seed, disclosed together with the seed. */
  server_seed?: string | null;
  /** Hash of the server seed. */
  server_seed_hash?: string | null;
}

/** Result of one red packet of a batch. */
export interface RedPacketResult {
  /** Idempotency key of the red packet. */
  idempotency_key: string;
  /** Result of the creation. */
  result: CreationResult;
  /** Reason of a refusal. */
  problem?: Problem | null;
  /** The red packet, unless it was refused. */
  red_packet?: RedPacket | null;
}

/** Result of settling an entry again. */
export interface Redriven {
  /** The entry. */
  entry: string;
  /** Whether it is settled now. */
  settled: boolean;
}

/** Refund that was paid to the buyer of an order. */
export interface Refund {
  /** Reference of the payment service. */
  reference: string;
  /** `refund`. */
  object: ObjectKind;
  /** The order. */
  order: string;
  /** The buyer. */
  user: string;
  /** Its money. */
  amount: Money;
  /** Time of its posting. */
  created_at: string;
  /** Whether the refund was reversed. Its money is due again, or was refunded under another reference. */
  reversed?: boolean;
}

/** Reversal of a recorded refund: its money is due to the buyer again. */
export interface RefundReversal {
  /** Reference of the refund. */
  reference: string;
  /** `refund_reversal`. */
  object: ObjectKind;
  /** The order. */
  order: string;
  /** The buyer. */
  user: string;
  /** Money of the refund. */
  amount: Money;
  /** Time of the reversal. */
  created_at: string;
}

/** Refunds of an order: due and paid. */
export interface Refunds {
  /** The order. */
  order: string;
  /** Total that ever became due in the sale's currency. */
  due: Money;
  /** Amount refunded so far. */
  refunded: Money;
  /** Whether the amounts include all changes from before the request. If not, read them again later. */
  settled: boolean;
  /** The same in other currencies of payments. */
  other_currencies?: OwedMoney[];
}

/** Result of releasing withheld units. */
export interface Released {
  /** Units that can be claimed again. */
  units: number;
}

/** Result of a repair. */
export interface Repair {
  /** Whether entries were lost, and whether the partition is repaired. */
  result: RepairResult;
  /** Campaigns examined. */
  campaigns: number;
  /** Rows that the engine had lost and that were restored. */
  restored: number;
  /** Entries appended because neither the log nor the ledger had them. */
  appended: number;
  /** Lost entries with unknown content. */
  unnamed: number;
  /** Withheld units. */
  withheld: number;
  /** Campaigns taken out of service because the ledger cannot read them. */
  out_of_service: number;
  /** Conflicts with the ledger that the repair cannot resolve, one line each. */
  conflicts: string[];
}

/** Repair in the ledger. */
export interface RepairRecord {
  /** Epoch under which the partition continues. */
  epoch: string;
  /** Time of its start. */
  at: string;
  /** Number of lost entries that some node had observed. */
  lost: number;
  /** Number of lost entries with unknown content. */
  unnamed: number;
  /** Reason of the halt. */
  reason: string;
  /** The last entry of the log after the repair; absent until the repair ends. */
  upto?: number | null;
}

/** Result of ending a halt. */
export interface Resumed {
  /** False if the partition was not halted. */
  resumed: boolean;
}

/** A reversal of a deposit, or of a part of it. */
export interface Reversal {
  /** The deposit. */
  deposit: string;
  /** `reversal`. */
  object: ObjectKind;
  /** The user whose account was debited. */
  user: string;
  /** Its money. */
  amount: Money;
  /** Time of the reversal. */
  created_at: string;
}

/** A flash sale. */
export interface Sale {
  /** Its id. */
  id: string;
  /** `sale`. */
  object: ObjectKind;
  /** The seller. */
  seller: string;
  /** Title that users see. */
  title: string;
  /** Total units. */
  stock: number;
  /** Maximum units per user. */
  per_user_limit: number;
  /** The price of one unit. */
  unit_price: Money;
  /** Time for which an unpaid order keeps its units. */
  hold_seconds: number;
  /** Acknowledgement level of grants. */
  ack: AckLevel;
  /** Admission permits per remaining unit, in percent; 0 for no limit. */
  admission_percent: number;
  /** Payments that pay an order although they differ from its price. */
  payment_policy: PaymentPolicy;
  /** Whether claims wait in a queue. */
  waiting_room: boolean;
  /** Requirements of a claim. */
  requirements: Requirement[];
  /** Time of its creation. */
  created_at: string;
  /** Time of the last change of phase, stock, settings or details. */
  updated_at: string;
  /** Its counters. */
  state: State;
  archived_at?: string | null;
  /** Users who may claim; absent for all users. */
  audience?: AudienceKind | null;
  /** Description of the product. */
  description?: string | null;
  /** URLs of further pictures of the product. */
  gallery?: string[];
  /** URL of a picture of the product. */
  image_url?: string | null;
  /** Price of one unit before the discount. */
  list_price?: Money | null;
  /** Metadata of the shop. Absent unless the caller may read it. */
  metadata?: Record<string, string>;
  /** The tolerance of the policy `accept_with_tolerance`. */
  payment_tolerance?: Money | null;
  product_id?: string | null;
  /** The shop's own number. Absent unless the caller may read the metadata. */
  reference?: string | null;
}

/** Changes of a sale: its stock, its terms and its description. Absent fields do not change. */
export interface SaleChange {
  /**
   * Users admitted to a decision at a time for each 100 units that are left: 100 to 10,000, or 0 for no limit. Nodes
   * follow within seconds.
   */
  admission_percent?: number | null;
  /** Description of the product; null removes it. */
  description?: string | null;
  /** New end: not in the past, and only before the sale ends. */
  ends_at?: string | null;
  /** Further pictures of the product, at most 8; none or null removes them. */
  gallery?: string[] | null;
  /** Image of the product; null removes it. */
  image_url?: string | null;
  /** Price of one unit before the discount: above the unit price, in the sale's currency; null removes it. */
  list_price?: Money | null;
  /** Units that one user may have: 1 up to the stock. A user with more units keeps them. */
  per_user_limit?: number | null;
  /** The seller's id of the product; null removes it. */
  product_id?: string | null;
  /**
   * New start: not in the past, and only until the sale has opened. A sale of up to a million units can move it until
   * it has sold some.
   */
  starts_at?: string | null;
  /** Total units for sale, units of users included. At least the units that users have, and at least the limit. */
  stock?: number | null;
  /** Title that users see. */
  title?: string | null;
  /**
   * Price of one unit, in the sale's currency, for orders from then on. Earlier orders keep their price. If the sale
   * accepts more than its price, the price is at least 1. With a `payment_tolerance`, the price is above it.
   */
  unit_price?: Money | null;
}

/** Result of one sale of a batch. */
export interface SaleResult {
  /** Idempotency key of the sale. */
  idempotency_key: string;
  /** Result of the creation. */
  result: CreationResult;
  /** Reason of a refusal. */
  problem?: Problem | null;
  /** The sale, unless it was refused. */
  sale?: Sale | null;
}

/** Hash of the server seed of a future red packet. */
export interface ServerSeed {
  /** Id of the red packet. It must be sent within a day. */
  id: string;
  /** SHA-256 over the id and the server seed. */
  server_seed_hash: string;
}

/** The signed-in user. */
export interface Session {
  /** The user. */
  user: string;
  /** Scopes of the token. */
  scopes: string[];
  /** Time when the session ends. */
  expires_at: string;
}

/** Quarantined entries of all partitions. */
export interface SetAside {
  /** Entries that the ledger refused. */
  refused: number;
  /** Entries that wait for refused ones. */
  waiting: number;
}

/** Rule that splits a total into shares. */
export interface SplitRule {
  /** Name of the rule. */
  rule: SplitRuleName;
  /** The largest share, in minor units; `normal` needs it, the others have none. */
  max?: number | null;
  /** The smallest share, in minor units; default 1. Not for `equal`. */
  min?: number | null;
}

/** A campaign's numbers. Always supply = granted + remaining + returned + withheld. */
export interface State {
  /** Phase of the campaign. */
  phase: Phase;
  /** Total shares or units. */
  supply: number;
  /** Shares or units that users have. */
  granted: number;
  /** Shares or units that can still be claimed. */
  remaining: number;
  /** Shares or units returned at the close. */
  returned: number;
  /** Units that repairs withhold, because a user may have been granted them. They are returned at the close. */
  withheld: number;
  /** The first instant at which claims are accepted. */
  starts_at: string;
  /** The first instant at which they no longer are. */
  ends_at: string;
  /** The server's time. */
  now: string;
}

/** Statistics of one second. */
export interface Stats {
  /** Number of the record; consecutive. */
  number: number;
  /** End of the second. */
  at: string;
  /** Answered claims. */
  claims_per_s: number;
  /** Answered claims by outcome. Outcomes with no claim are absent. */
  outcomes_per_s: Record<string, number>;
  /** Log entries that are not in the ledger yet. */
  settlement_lag_entries: number;
  /** Claims and commands that wait for the engine. */
  queue_length: number;
  /** Queue entries in the queues that the node decides. */
  queue_entries: number;
  /** Fraction of claims that passed the gate and reached the engine; absent if there were none. */
  gate_pass_ratio?: number | null;
  /** Latency of claims; absent if there were none. */
  latency_ms?: ClaimLatency | null;
}

/** Statistics of the last minutes of a node, or those after an earlier answer. */
export interface StatsList {
  /** Random id of the process that sampled them, drawn at its start. Numbers of another process do not apply. */
  process: string;
  /** Earliest first. */
  stats: Stats[];
}

/** Snapshot event of Stripe. Further fields are ignored. */
export interface StripeWebhookEvent {
  /** Kind of the event. Others than payments and refunds are acknowledged. */
  type: string;
  /** Seconds since 1970. */
  created: number;
  /** Whether it is of the live mode. */
  livemode: boolean;
  /** The object in `object`. Its `metadata.qiang-order` is the id of the order. */
  data: Record<string, unknown>;
}

/** Money that an operator moved from one user's account to another's. */
export interface Transfer {
  /** The operator's reference. */
  reference: string;
  /** `transfer`. */
  object: ObjectKind;
  /** The user whose account was debited. */
  user: string;
  /** The user whose account was credited. */
  to: string;
  /** Its money. */
  amount: Money;
  /** Time of its posting. */
  created_at: string;
}

/** Endpoint that receives webhook events, and its delivery status. */
export interface Webhook {
  /** Its id. */
  id: string;
  /** URL to which events are posted. */
  url: string;
  /** Types of events to deliver; empty for all types. */
  types: WebhookEventType[];
  /** Campaigns whose events are delivered; empty for all campaigns. */
  campaigns: string[];
  /** Time of its creation. */
  created_at: string;
  /** Delivery status. */
  status: WebhookStatus;
  /** Upper bound of undelivered events. */
  behind: number;
  /** Events that failed, or follow a failed event of their order, and wait for a retry. */
  waiting: number;
  /** Failed attempts since then. */
  attempts: number;
  disabled_at?: string | null;
  failing_since?: string | null;
  /** Error of the last failed attempt. */
  last_error?: string | null;
  managed_by?: string | null;
  owner?: string | null;
  retry_at?: string | null;
  secret?: string | null;
}

/** Changes of a webhook. Absent fields do not change. */
export interface WebhookChange {
  /** Campaigns of events that it receives, at most 100; empty for all campaigns. */
  campaigns?: string[] | null;
  /**
   * Whether events are delivered. An endpoint that is enabled again receives the events since it was disabled, as far
   * as they are kept.
   */
  enabled?: boolean | null;
  /** Sender or seller of the campaigns of events that it receives; null for all. */
  owner?: string | null;
  /** Types of events that it receives; empty for all types. */
  types?: WebhookEventType[] | null;
  /**
   * New URL of the endpoint: `https:` with a host on the public internet. Events that wait for a retry are due at once.
   */
  url?: string | null;
}

/** Attempt to deliver an event to a webhook. */
export interface WebhookDelivery {
  /** Its id. */
  id: string;
  /** Id of the event. */
  event: string;
  /** Type of the event. */
  type: WebhookEventType;
  /** Campaign of the event. */
  campaign: string;
  /** Time of the attempt. */
  attempted_at: string;
  /** Milliseconds from connecting to the end of the answer. */
  duration_ms: number;
  /** Number of the attempt at this event, from 1. */
  attempt: number;
  /** State of the event after the attempt. */
  state: WebhookDeliveryState;
  /** Error of a failed attempt. */
  error?: string | null;
  next_attempt_at?: string | null;
  order?: string | null;
  /** First characters of the answer's body, at most 256. */
  response_body?: string | null;
  /** Status of the endpoint's answer; absent if it did not answer. */
  response_status?: number | null;
}

/** A settled change. */
export interface WebhookEvent {
  type: string;
  /** Time of the decision. */
  timestamp: string;
  /** Details of the event. Fields may be added. */
  data: WebhookEventData;
}

/** Details of the event. Fields may be added. */
export interface WebhookEventData {
  amount?: Money;
  campaign?: string;
  /** stock, terms, paused or resumed. */
  change?: string;
  kind?: string;
  number?: number;
  order?: string;
  owner?: string;
  payment?: string;
  quantity?: number;
  reference?: string;
  refunded?: Money;
  returned?: number;
  user?: string;
}

/** Events to deliver once more: one, or all that were given up. */
export interface WebhookRedelivery {
  /** Id of an event that the log has an attempt at. */
  event?: string | null;
  /** All events that were given up from this time on, unless a later attempt succeeded. */
  given_up_since?: string | null;
}

/** Events to deliver again. */
export interface WebhookRedrive {
  /**
   * Start of the events to deliver, by time of decision, as far as events are kept. Default: those not delivered yet.
   */
  since?: string | null;
}

/** A change of the secret. */
export interface WebhookRotation {
  /** Seconds during which events are also signed with the previous secret; default a day, at most 30 days. */
  overlap_seconds?: number | null;
}

/** Result of a test delivery. */
export interface WebhookTest {
  /** Whether the endpoint answered 2xx in time. */
  delivered: boolean;
  /** Error of a failed delivery. */
  error?: string | null;
}

/** Notification of WeChat Pay. Further fields are ignored. */
export interface WechatPayNotification {
  /** Kind of the notification. Others than payments and refunds are acknowledged. */
  event_type: string;
  /** The encrypted transaction or refund. `attach` of a transaction is the id of the order. */
  resource: Record<string, unknown>;
}

/** Withdrawal from an account. */
export interface Withdrawal {
  /** Reference of the payment service. */
  reference: string;
  /** `withdrawal`. */
  object: ObjectKind;
  /** The user whose account was debited. */
  user: string;
  /** Its money. */
  amount: Money;
  /** Time of its posting. */
  created_at: string;
}

/** Units of a campaign that a repair has withheld. */
export interface Withheld {
  /** The repair's epoch. */
  epoch: string;
  /** The campaign. */
  campaign: string;
  /** Number of units. */
  units: number;
  /** Value in minor units, for shares. */
  amount_minor: number;
  released_at?: string | null;
}

/** Page of a list. */
export interface Page<T> {
  data: T[];
  /** Cursor of the next page; absent on the last one. */
  next?: string | null;
  /** Whether everything decided before the request is in the list. Absent if it does not depend on settlement. */
  settled?: boolean | null;
}

/** Filters of `listClaims`. */
export interface ListClaimsQuery {
  /** Items after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listUserOrders`. */
export interface ListUserOrdersQuery {
  /** Orders in this state. */
  state?: OrderState;
  /** Orders from this time on. */
  created_after?: string;
  /** Orders from before this time. */
  created_before?: string;
  /** Orders after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listPostings`. */
export interface ListPostingsQuery {
  /** Postings of this kind. */
  kind?: PostingKind;
  /** Postings after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listDeposits`. */
export interface ListDepositsQuery {
  /** Those of this user. Default: all that the caller sees. */
  user?: string;
  /** Those with this reference of the payment service. */
  reference?: string;
  /** Those from this time on. */
  created_after?: string;
  /** Those from before this time. */
  created_before?: string;
  /** Those after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listEvents`. */
export interface ListEventsQuery {
  /** Items after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listActions`. */
export interface ListActionsQuery {
  /**
   * Object of the change: the id of a campaign, order or webhook, or the user who owns the account. `the service`
   * stands for partitions, quarantine and audits. Default: all objects.
   */
  subject?: string;
  /** Kind of the changes. Not together with `subject`. */
  action?: ActionKind;
  /** `refused`: payment reports that were refused. Not together with `subject`. */
  outcome?: string;
  /** `oldest` (the default) or `newest` first. Not together with `subject`. */
  order?: string;
  /** Actions after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listAllOrders`. */
export interface ListAllOrdersQuery {
  /** Orders of this sale. Its seller sees all of them. */
  campaign?: string;
  /** Orders of this buyer. Default: all that the caller sees. */
  user?: string;
  /**
   * Orders with this reference in their metadata, by id, as far as the caller may read the metadata. Not together with
   * other filters.
   */
  reference?: string;
  /** Orders in this state. */
  state?: OrderState;
  /** Orders from this time on. */
  created_after?: string;
  /** Orders from before this time. */
  created_before?: string;
  /** Orders after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listPayments`. */
export interface ListPaymentsQuery {
  /** Payments for orders of this buyer. Default: all that the caller sees. */
  user?: string;
  /** Payments with this outcome. */
  outcome?: string;
  /** Payments with this reference of the payment service. */
  reference?: string;
  /** Payments from this time on. */
  created_after?: string;
  /** Payments from before this time. */
  created_before?: string;
  /** Payments after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listQuarantine`. */
export interface ListQuarantineQuery {
  /** Entries of this partition only. */
  partition?: number;
  /** Entries after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listRedPackets`. */
export interface ListRedPacketsQuery {
  /** Campaigns of this sender or seller. Default: the caller; another user needs the scope `read:any`. */
  owner?: string;
  /** Campaigns of all users; needs the scope `read:any`. */
  all?: boolean;
  /** Sales of this product, which are its rounds, ordered by start. Without it, the order is by id. */
  product_id?: string;
  /** Campaigns with this reference in their metadata, by id. Not together with `product_id`, `open` or `order`. */
  reference?: string;
  /** draft, scheduled, live, paused, ended or closed. */
  phase?: Phase;
  /**
   * Only sales that every user may buy in, of all sellers: without an audience, and with `phase` `scheduled` or `live`.
   * Needs no scope. A page may have fewer sales than `limit` and still a `next`.
   */
  open?: boolean;
  /** Includes archived campaigns. */
  archived?: boolean;
  /** Campaigns that were created from this time on. */
  created_after?: string;
  /** Campaigns that were created before this time. */
  created_before?: string;
  /** `oldest` (the default) or `newest` first, by id; rounds of a product are ordered by start. */
  order?: string;
  /** Campaigns after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 50, at most 100. */
  limit?: number;
}

/** Filters of `listShares`. */
export interface ListSharesQuery {
  /** Only grants with this number or a higher one. */
  from_number?: number;
  /** Items after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listRefunds`. */
export interface ListRefundsQuery {
  /** Those of this user. Default: all that the caller sees. */
  user?: string;
  /** Those with this reference of the payment service. */
  reference?: string;
  /** Those from this time on. */
  created_after?: string;
  /** Those from before this time. */
  created_before?: string;
  /** Those after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listOwedOrders`. */
export interface ListOwedOrdersQuery {
  /** Orders of sales of this seller. Default: the caller; another seller needs the scope `read:any`. */
  owner?: string;
  /** Orders of all sellers' sales; needs the scope `read:any`. */
  all?: boolean;
  /** Orders after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many orders, each with all its currencies; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listSales`. */
export interface ListSalesQuery {
  /** Campaigns of this sender or seller. Default: the caller; another user needs the scope `read:any`. */
  owner?: string;
  /** Campaigns of all users; needs the scope `read:any`. */
  all?: boolean;
  /** Sales of this product, which are its rounds, ordered by start. Without it, the order is by id. */
  product_id?: string;
  /** Campaigns with this reference in their metadata, by id. Not together with `product_id`, `open` or `order`. */
  reference?: string;
  /** draft, scheduled, live, paused, ended or closed. */
  phase?: Phase;
  /**
   * Only sales that every user may buy in, of all sellers: without an audience, and with `phase` `scheduled` or `live`.
   * Needs no scope. A page may have fewer sales than `limit` and still a `next`.
   */
  open?: boolean;
  /** Includes archived campaigns. */
  archived?: boolean;
  /** Campaigns that were created from this time on. */
  created_after?: string;
  /** Campaigns that were created before this time. */
  created_before?: string;
  /** `oldest` (the default) or `newest` first, by id; rounds of a product are ordered by start. */
  order?: string;
  /** Campaigns after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 50, at most 100. */
  limit?: number;
}

/** Filters of `listOrders`. */
export interface ListOrdersQuery {
  /** Only grants with this number or a higher one. */
  from_number?: number;
  /** Items after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `readStats`. */
export interface ReadStatsQuery {
  /**
   * Number of the newest record that the caller has; `Last-Event-ID` takes precedence. A number that this process has
   * not reached counts as 0.
   */
  after?: number;
}

/** Filters of `listDeliveries`. */
export interface ListDeliveriesQuery {
  /** Attempts at the event with this id, which is its `webhook-id`. Not together with `order`. */
  event?: string;
  /** Attempts at events of this order. */
  order?: string;
  /** Attempts that left their event in this state. */
  state?: OrderState;
  /** Attempts after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}

/** Filters of `listWithdrawals`. */
export interface ListWithdrawalsQuery {
  /** Those of this user. Default: all that the caller sees. */
  user?: string;
  /** Those with this reference of the payment service. */
  reference?: string;
  /** Those from this time on. */
  created_after?: string;
  /** Those from before this time. */
  created_before?: string;
  /** Those after this cursor: `next` of the page before. */
  after?: string;
  /** At most this many; default 100, at most 1000. */
  limit?: number;
}
