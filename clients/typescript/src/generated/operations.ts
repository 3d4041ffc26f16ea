// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

import type { Pager } from "../pager.js";
import type {
  Account,
  Action,
  Audit,
  CampaignAudience,
  Claim,
  ClockReading,
  ClockStep,
  Deposit,
  GrantTimeline,
  Invitation,
  ListActionsQuery,
  ListAllOrdersQuery,
  ListClaimsQuery,
  ListDeliveriesQuery,
  ListDepositsQuery,
  ListEventsQuery,
  ListOrdersQuery,
  ListOwedOrdersQuery,
  ListPaymentsQuery,
  ListPostingsQuery,
  ListQuarantineQuery,
  ListRedPacketsQuery,
  ListRefundsQuery,
  ListSalesQuery,
  ListSharesQuery,
  ListUserOrdersQuery,
  ListWithdrawalsQuery,
  ListedRedPacket,
  Metadata,
  MetadataChange,
  NewCancellation,
  NewDeposit,
  NewHoldExtension,
  NewInvitation,
  NewOrderCancellations,
  NewPayment,
  NewRedPacket,
  NewRedPackets,
  NewRefund,
  NewReturn,
  NewReversal,
  NewSale,
  NewSales,
  NewTransfer,
  NewWebhook,
  NewWithdrawal,
  NotificationReceipt,
  Order,
  OrderCancellations,
  OwedOrder,
  Page,
  PartitionDetail,
  Partitions,
  Payment,
  PaymentRecord,
  PaymentReport,
  Place,
  Posting,
  QuarantinedEntry,
  ReadStatsQuery,
  Reconciled,
  RecordedEvent,
  RedPacket,
  RedPacketResult,
  Redriven,
  Refund,
  RefundReversal,
  Refunds,
  Released,
  Repair,
  Resumed,
  Reversal,
  Sale,
  SaleChange,
  SaleResult,
  ServerSeed,
  Session,
  State,
  StatsList,
  StripeWebhookEvent,
  Transfer,
  Webhook,
  WebhookChange,
  WebhookDelivery,
  WebhookRedelivery,
  WebhookRedrive,
  WebhookRotation,
  WebhookTest,
  WechatPayNotification,
  Withdrawal,
} from "./types.js";

const part = encodeURIComponent;

/** Request of one operation. */
export interface Call {
  method: string;
  path: string;
  query?: object;
  body?: unknown;
  /** Whether the request has an idempotency key. */
  keyed?: boolean;
  /** Whether the last page has a cursor, too: later entries follow it. */
  endless?: boolean;
  /** Headers beside those of all requests. */
  headers?: Record<string, string>;
}

/** The operations of the document. */
export abstract class Operations {
  /** Carries a request out, and repeats it until an answer decides it. */
  protected abstract json<T>(call: Call): Promise<T>;

  /** Reads a list page by page. */
  protected abstract pages<T>(call: Call): Pager<T>;

  /**
   * Balances of a user.
   *
   * Users see their own account. Other accounts need the scope `read:any`.
   */
  getAccount(user: string): Promise<Account> {
    return this.json({ method: "GET", path: `/v1/accounts/${part(user)}` });
  }

  /**
   * Shares of red packets that a user has, newest first.
   *
   * Users see their own. Other users' shares need the scope `read:any`.
   */
  listClaims(user: string, query: ListClaimsQuery = {}): Pager<Claim> {
    return this.pages({ method: "GET", path: `/v1/accounts/${part(user)}/claims`, query });
  }

  /**
   * Records a deposit: money from outside for a user's account.
   *
   * Needs a token with the scope `deposit`.
   */
  makeDeposit(user: string, body: NewDeposit): Promise<Deposit> {
    return this.json({ method: "POST", path: `/v1/accounts/${part(user)}/deposits`, body, keyed: true });
  }

  /**
   * A deposit.
   *
   * Users see their own. Other users' deposits need the scope `deposit` or `read:any`.
   */
  getDeposit(user: string, depositId: string): Promise<Deposit> {
    return this.json({ method: "GET", path: `/v1/accounts/${part(user)}/deposits/${part(depositId)}` });
  }

  /**
   * Reverses a deposit out of the user's account, which must hold the money: an amount, or all that is left of it.
   *
   * A request without an amount reverses what is left, and a repetition changes nothing. One with an amount needs an
   * `Idempotency-Key`: the same key again changes nothing, and another key reverses the amount once more.
   */
  reverseDeposit(user: string, depositId: string, body?: NewReversal): Promise<Reversal> {
    return this.json({
      method: "POST",
      path: `/v1/accounts/${part(user)}/deposits/${part(depositId)}/reversal`,
      body,
      keyed: true,
    });
  }

  /**
   * Orders of a user, newest first.
   *
   * Users see their own. Other users' orders need the scope `read:any`.
   */
  listUserOrders(user: string, query: ListUserOrdersQuery = {}): Pager<Order> {
    return this.pages({ method: "GET", path: `/v1/accounts/${part(user)}/orders`, query });
  }

  /**
   * Postings of a user's accounts, newest first.
   *
   * Users see their own. Other users' postings need the scope `read:any`.
   */
  listPostings(user: string, query: ListPostingsQuery = {}): Pager<Posting> {
    return this.pages({ method: "GET", path: `/v1/accounts/${part(user)}/postings`, query });
  }

  /**
   * Moves available money from one user's account to another's, such as that of a seller who has left.
   *
   * Both users see the posting `transfer` in their accounts. Refunds that are due do not move. Later payments and
   * returns of the first user's campaigns still change the first account, and returns may overdraw it. The reference
   * makes repetition safe.
   */
  makeTransfer(user: string, body: NewTransfer): Promise<Transfer> {
    return this.json({ method: "POST", path: `/v1/accounts/${part(user)}/transfers`, body, keyed: true });
  }

  /**
   * Records a withdrawal. The account's balance must cover it.
   *
   * Post the withdrawal first, and pay the money out once it is posted. The reference makes repetition safe.
   */
  makeWithdrawal(user: string, body: NewWithdrawal): Promise<Withdrawal> {
    return this.json({ method: "POST", path: `/v1/accounts/${part(user)}/withdrawals`, body, keyed: true });
  }

  /**
   * The last audits of this node, without their findings.
   *
   * Needs a token with the scope `admin`.
   */
  listAudits(): Promise<Page<Audit>> {
    return this.json({ method: "GET", path: "/v1/audits" });
  }

  /**
   * Audits everything that this node works on: proves each invariant again from the rows.
   *
   * The rows are read as of one moment, while the service runs. One audit runs at a time; during it, this returns the
   * running one. This node keeps its last eight audits until it stops; other nodes do not have them.
   */
  startAudit(): Promise<Audit> {
    return this.json({ method: "POST", path: "/v1/audits" });
  }

  /**
   * An audit of this node: its status and its findings, with the first violations.
   *
   * Needs a token with the scope `admin`.
   */
  getAudit(auditId: string): Promise<Audit> {
    return this.json({ method: "GET", path: `/v1/audits/${part(auditId)}` });
  }

  /**
   * Archives a closed campaign: lists leave it out, unless a filter includes it. Idempotent.
   *
   * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
   */
  archiveCampaign(campaignId: string): Promise<State> {
    return this.json({ method: "POST", path: `/v1/campaigns/${part(campaignId)}/archive`, keyed: true });
  }

  /**
   * Audience of a campaign, with the names of users.
   *
   * Owners see those of their own campaigns. Other campaigns need the scope `read:any`.
   */
  getAudience(campaignId: string): Promise<CampaignAudience> {
    return this.json({ method: "GET", path: `/v1/campaigns/${part(campaignId)}/audience` });
  }

  /**
   * Ends a campaign now and returns what is left. Idempotent.
   *
   * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
   */
  closeCampaign(campaignId: string): Promise<State> {
    return this.json({ method: "POST", path: `/v1/campaigns/${part(campaignId)}/close`, keyed: true });
  }

  /**
   * Grants of a campaign over its whole life.
   *
   * A campaign with more than 512 grants has 512 evenly spaced ones, with the last one. Its curve of grants is exact at
   * these points; the share of paid orders is an estimate. The rows are read by key, and a node answers from memory for
   * five seconds. Owners see those of their own campaigns.
   */
  getGrantTimeline(campaignId: string): Promise<GrantTimeline> {
    return this.json({ method: "GET", path: `/v1/campaigns/${part(campaignId)}/grant-timeline` });
  }

  /**
   * Signs an invitation.
   *
   * An invitation is valid for any number of users, and for this campaign only.
   */
  signInvitation(campaignId: string, body?: NewInvitation): Promise<Invitation> {
    return this.json({ method: "POST", path: `/v1/campaigns/${part(campaignId)}/invitations`, body });
  }

  /**
   * Metadata of a campaign.
   *
   * Its seller or sender reads it; others need the scope `read:any`.
   */
  getCampaignMetadata(campaignId: string): Promise<Metadata> {
    return this.json({ method: "GET", path: `/v1/campaigns/${part(campaignId)}/metadata` });
  }

  /**
   * Changes the metadata of a campaign. Users do not see it.
   *
   * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
   */
  changeCampaignMetadata(campaignId: string, body: MetadataChange): Promise<Metadata> {
    return this.json({ method: "PATCH", path: `/v1/campaigns/${part(campaignId)}/metadata`, body, keyed: true });
  }

  /**
   * Pauses a campaign, which stops its grants. Idempotent. A campaign that is paused before its start grants nothing at
   * its start.
   *
   * A pause stops claims only. Holds of unpaid orders continue: users can pay and cancel during the pause, and an
   * unpaid order expires at its `hold_until`. The window does not move: at `ends_at` a paused campaign closes for good.
   */
  pauseCampaign(campaignId: string): Promise<State> {
    return this.json({ method: "POST", path: `/v1/campaigns/${part(campaignId)}/pause`, keyed: true });
  }

  /**
   * The caller's queue entry in a campaign, or its result.
   *
   * With `Accept: text/event-stream` it is a stream: an event `place` at once and after progress, an event `result` at
   * the end. A stream without a result ended at its time limit, or because the service stops: connect again. The result
   * of an entry can be read for `queue.result_ttl_ms`.
   */
  getPlace(campaignId: string): Promise<Place> {
    return this.json({ method: "GET", path: `/v1/campaigns/${part(campaignId)}/queue-entry` });
  }

  /**
   * Resumes a paused campaign. Idempotent. Before its start it is scheduled again.
   *
   * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
   */
  resumeCampaign(campaignId: string): Promise<State> {
    return this.json({ method: "POST", path: `/v1/campaigns/${part(campaignId)}/resume`, keyed: true });
  }

  /**
   * A campaign's present numbers. No token is needed, and caches may keep them for a second.
   *
   * The entity tag covers everything except `now`. An answer 304 has the server's time in `Date`.
   */
  getCampaignState(campaignId: string): Promise<State> {
    return this.json({ method: "GET", path: `/v1/campaigns/${part(campaignId)}/state` });
  }

  /**
   * Deposits, newest first.
   *
   * Users see their own. With the scope `deposit` or `read:any` the list has those of all users.
   */
  listDeposits(query: ListDepositsQuery = {}): Pager<Deposit> {
    return this.pages({ method: "GET", path: "/v1/deposits", query });
  }

  /**
   * Events of settled changes, in the order in which endpoints receive them.
   *
   * Events are recorded while an endpoint subscribes to them, and kept for `webhooks.event_ttl_ms`. `id` is the
   * `webhook-id` of the deliveries, and the other fields are their body. `next` is present on each page: later events
   * follow it, and none is skipped.
   */
  listEvents(query: ListEventsQuery = {}): Pager<RecordedEvent> {
    return this.pages({ method: "GET", path: "/v1/events", query, endless: true });
  }

  /**
   * Changes with their actors: of one subject, or of all.
   *
   * Needs a token with the scope `read:any`.
   */
  listActions(query: ListActionsQuery = {}): Pager<Action> {
    return this.pages({ method: "GET", path: "/v1/operation-log", query });
  }

  /**
   * Orders, newest first.
   *
   * Users see their own, and sellers those of their own sale `campaign`. With the scope `read:any` the list has the
   * orders of all users. With `state` and without `user`, a page may have fewer orders than `limit`, or none, and still
   * a `next`. Orders with a `reference` are listed by id: those of the caller's own sales or, with `read:any`, of all.
   */
  listAllOrders(query: ListAllOrdersQuery = {}): Pager<Order> {
    return this.pages({ method: "GET", path: "/v1/orders", query });
  }

  /**
   * An order.
   *
   * Buyers see their own orders, sellers those of their sales. Other orders need the scope `read:any`.
   */
  getOrder(orderId: string): Promise<Order> {
    return this.json({ method: "GET", path: `/v1/orders/${part(orderId)}` });
  }

  /**
   * Cancels a held order: some of its units, or all.
   *
   * The units are for sale again, and free the buyer's limit. An order of which some units are cancelled stays `held`
   * with the other ones: its `quantity` and its `amount` fall, and a payment of the new amount pays it. If no unit is
   * left, the order is `cancelled`. A request without a quantity cancels the order, and a repetition changes nothing.
   * One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another key cancels as many
   * units again. Buyers may cancel their own orders. Sellers cancel orders of their own sales with the scope
   * `campaigns:write`; other orders need `admin`. An order that costs nothing is paid from the start: it is returned,
   * and no refund is due.
   */
  cancelOrder(orderId: string, body?: NewCancellation): Promise<Order> {
    return this.json({ method: "POST", path: `/v1/orders/${part(orderId)}/cancellation`, body, keyed: true });
  }

  /**
   * Extends the hold of a held order, once.
   *
   * Use it while a payment service still decides about a payment. The order keeps its units until the new `hold_until`,
   * and a payment until then pays it. The buyer sees the new end, and webhooks get `order.hold_extended`. The extension
   * is at most the hold of the sale. An extended order can be paid and cancelled like any other one. A sale that has
   * ended or closed keeps its held orders, and their holds can be extended too. The same extension again changes
   * nothing and is answered with the order, also once it is paid. Another extension of the same order is refused.
   * Sellers extend holds of their own sales with the scope `campaigns:write`; other orders need `admin`.
   */
  extendHold(orderId: string, body: NewHoldExtension): Promise<Order> {
    return this.json({ method: "POST", path: `/v1/orders/${part(orderId)}/hold-extension`, body, keyed: true });
  }

  /**
   * Metadata of an order.
   *
   * The seller of its sale reads it; others need the scope `read:any`. The buyer does not see it.
   */
  getOrderMetadata(orderId: string): Promise<Metadata> {
    return this.json({ method: "GET", path: `/v1/orders/${part(orderId)}/metadata` });
  }

  /**
   * Changes the metadata of an order. The buyer does not see it.
   *
   * The seller of its sale may do this, and others with the scope `campaigns:write:any`.
   */
  changeOrderMetadata(orderId: string, body: MetadataChange): Promise<Metadata> {
    return this.json({ method: "PATCH", path: `/v1/orders/${part(orderId)}/metadata`, body, keyed: true });
  }

  /**
   * Records a payment that arrived. The payment service calls this.
   *
   * The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
   * currency is answered `refund_due`: it is refunded, and the order does not change. An order that costs nothing is
   * paid when it is granted and needs no report; a report of 0 is answered `paid` and changes nothing. The money of a
   * refused report is not recorded. The service logs and counts the report, and lists it in the operation log and under
   * its reference. It refuses an unknown order, and an order of another user than `user`. It refuses a reference that
   * was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an invalid currency, and
   * a `paid_at` in the future or before the order. It refuses money that it would refund if the order has reached its
   * limit of payments with a refund due.
   */
  payOrder(orderId: string, body: NewPayment): Promise<Payment> {
    return this.json({ method: "POST", path: `/v1/orders/${part(orderId)}/payment`, body, keyed: true });
  }

  /**
   * Refunds due to the buyer of an order, and refunds paid.
   *
   * Buyers see their own, and sellers those of their sales. Other users need the scope `read:any`.
   */
  getRefunds(orderId: string): Promise<Refunds> {
    return this.json({ method: "GET", path: `/v1/orders/${part(orderId)}/refunds` });
  }

  /**
   * Records that a refund due for an order was paid to its buyer, in whole or in part.
   *
   * Refunds are due for payments that did not pay the order, as they arrived, and for what paid units that were
   * returned. The caller posts a refund after the money was paid back outside. The reference makes repetition safe.
   */
  refundOrder(orderId: string, body: NewRefund): Promise<Refund> {
    return this.json({ method: "POST", path: `/v1/orders/${part(orderId)}/refunds`, body, keyed: true });
  }

  /**
   * Reverses a recorded refund: its money is due to the buyer again.
   *
   * For a refund that the payment service did not carry out or returned, or that was recorded by mistake. The whole
   * refund is reversed, once, and it stays in the lists with `reversed`. A further refund of the order needs another
   * reference: the reference of a reversed refund still names that one. The buyer sees the refund due again.
   */
  reverseRefund(orderId: string, reference: string): Promise<RefundReversal> {
    return this.json({
      method: "POST",
      path: `/v1/orders/${part(orderId)}/refunds/${part(reference)}/reversal`,
      keyed: true,
    });
  }

  /**
   * Returns a paid order: some of its units, or all that are left.
   *
   * The units are for sale again, and a refund is due to the buyer. It is the returned fraction of what paid the order,
   * rounded down over all returns so far. So all returns together refund what paid it. The seller may return an order
   * at any time with the scope `campaigns:write`, and other users with `admin`. Buyers need no scope within the return
   * period, which starts at the grant. A request without a quantity returns what is left, and a repetition changes
   * nothing. One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another key
   * returns as many units again.
   */
  returnOrder(orderId: string, body?: NewReturn): Promise<Order> {
    return this.json({ method: "POST", path: `/v1/orders/${part(orderId)}/return`, body, keyed: true });
  }

  /**
   * All partitions with their readiness and lag, as this node sees them.
   *
   * Each partition is test-written at most once a second.
   */
  listPartitions(): Promise<Partitions> {
    return this.json({ method: "GET", path: "/v1/partitions" });
  }

  /**
   * A partition with its nodes, repairs and withheld units.
   *
   * Needs a token with the scope `admin`.
   */
  getPartition(partition: number): Promise<PartitionDetail> {
    return this.json({ method: "GET", path: `/v1/partitions/${part(partition)}` });
  }

  /**
   * Compares the live campaigns of a partition with the ledger at once, and reports the differences. Nothing is
   * changed.
   *
   * Nodes on Redis do this continuously: `reconciliation` of a partition has their findings.
   */
  reconcilePartition(partition: number): Promise<Reconciled> {
    return this.json({ method: "POST", path: `/v1/partitions/${part(partition)}/reconcile`, keyed: true });
  }

  /**
   * Releases the units that repairs have withheld in a partition.
   *
   * Use it only if the users who had received them shall not get them.
   */
  releaseWithheld(partition: number): Promise<Released> {
    return this.json({ method: "POST", path: `/v1/partitions/${part(partition)}/release-withheld`, keyed: true });
  }

  /**
   * Repairs a partition after data loss, without waiting for missing node reports.
   *
   * If nothing was lost, nothing is done. Nodes repair automatically, unless they are configured not to.
   */
  repairPartition(partition: number): Promise<Repair> {
    return this.json({ method: "POST", path: `/v1/partitions/${part(partition)}/repair`, keyed: true });
  }

  /**
   * Ends the halt of a partition without a repair.
   *
   * This accepts the loss: a user whose answer was lost does not get it back. Repair the partition instead if the
   * ledger is available.
   */
  resumePartition(partition: number): Promise<Resumed> {
    return this.json({ method: "POST", path: `/v1/partitions/${part(partition)}/resume`, keyed: true });
  }

  /**
   * Recorded payments, newest first.
   *
   * Users see payments for their own orders. With the scope `pay` or `read:any` the list has those of all users.
   * Refused reports are in the operation log. With `outcome` and neither `user` nor `reference`, a page may have fewer
   * payments than `limit`, or none, and still a `next`.
   */
  listPayments(query: ListPaymentsQuery = {}): Pager<PaymentRecord> {
    return this.pages({ method: "GET", path: "/v1/payments", query });
  }

  /**
   * Records a payment that arrived: with a token, or signed as Standard Webhooks specifies.
   *
   * The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
   * currency is answered `refund_due`: it is refunded, and the order does not change. The money of a refused report is
   * not recorded. The service logs and counts the report, and lists it in the operation log and under its reference. It
   * refuses an unknown order, and an order of another user than `user`. It refuses a reference that was reported for
   * another order. It refuses an amount below 1 or above 2^53-1 minor units, an invalid currency, and a `paid_at` in
   * the future or before the order. It refuses money that it would refund if the order has reached its limit of
   * payments with a refund due. The signature covers `webhook-id`, `webhook-timestamp` (seconds) and the body, joined
   * by dots. It is HMAC-SHA256 with a secret that the installation and the payment service share. A signature that is
   * too old is refused.
   */
  reportPayment(body: PaymentReport): Promise<Payment> {
    return this.json({ method: "POST", path: "/v1/payments", body, keyed: true });
  }

  /**
   * Outcome of a payment.
   *
   * Buyers see those of their orders, sellers those of their sales. Other payments need the scope `pay` or `read:any`.
   * With `read:any` the newest refused report is found, if no payment with the reference was recorded.
   */
  getPayment(reference: string): Promise<PaymentRecord> {
    return this.json({ method: "GET", path: `/v1/payments/${part(reference)}` });
  }

  /**
   * Records payments and refunds that an event of Stripe reports.
   *
   * The signature is the authentication: HMAC-SHA256 with a secret of the account's webhook endpoint. Another signature
   * is refused with 401, and so is an unknown account. An event is acknowledged once its reports are recorded. It is
   * refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. Stripe then repeats it.
   */
  receiveStripeEvent(account: string, body: StripeWebhookEvent): Promise<NotificationReceipt> {
    return this.json({ method: "POST", path: `/v1/providers/stripe/${part(account)}/notifications`, body });
  }

  /**
   * Records payments and refunds that a notification of WeChat Pay reports.
   *
   * The signature is the authentication: RSA-SHA256 by a configured certificate or public key of the platform. Another
   * signature is refused with 401, and so is an unknown account. A notification is acknowledged with 204 once its
   * reports are recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. The
   * problem then also has `code` and `message`, and WeChat Pay repeats the notification.
   */
  receiveWechatNotification(account: string, body: WechatPayNotification): Promise<void> {
    return this.json({ method: "POST", path: `/v1/providers/wechat/${part(account)}/notifications`, body });
  }

  /**
   * Quarantined entries: refused by the ledger, or waiting for a refused one.
   *
   * Needs a token with the scope `admin`.
   */
  listQuarantine(query: ListQuarantineQuery = {}): Pager<QuarantinedEntry> {
    return this.pages({ method: "GET", path: "/v1/quarantine", query });
  }

  /**
   * An entry in quarantine, with the reason why the ledger refused it.
   *
   * Needs a token with the scope `admin`.
   */
  getQuarantinedEntry(entry: string): Promise<QuarantinedEntry> {
    return this.json({ method: "GET", path: `/v1/quarantine/${part(entry)}` });
  }

  /**
   * Settles a quarantined entry after its cause was removed.
   *
   * If it is refused again, or waits for another entry, it stays in quarantine. A repetition with the same key gets the
   * first answer, or `settled` if that was lost and the entry is settled since.
   */
  redriveEntry(entry: string): Promise<Redriven> {
    return this.json({ method: "POST", path: `/v1/quarantine/${part(entry)}/redrive`, keyed: true });
  }

  /**
   * Red packets of the caller.
   *
   * Red packets of other senders need the scope `read:any`.
   */
  listRedPackets(query: ListRedPacketsQuery = {}): Pager<ListedRedPacket> {
    return this.pages({ method: "GET", path: "/v1/red-packets", query });
  }

  /**
   * Sends a red packet from the caller's account.
   *
   * Needs a token with the scope `send`.
   */
  createRedPacket(body: NewRedPacket): Promise<RedPacket> {
    return this.json({ method: "POST", path: "/v1/red-packets", body, keyed: true });
  }

  /**
   * Sends red packets from the caller's account, each as `createRedPacket` does.
   *
   * Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
   * example for lack of money, the others are not affected; with the mode `all`, the whole request is refused with that
   * problem, its `errors` name the refused packets, and none is sent. An invalid field always refuses the whole request
   * before anything is done. Repeat the request after a lost answer: created packets are replayed, and the others are
   * created.
   */
  createRedPackets(body: NewRedPackets): Promise<Page<RedPacketResult>> {
    return this.json({ method: "POST", path: "/v1/red-packets/batch", body });
  }

  /**
   * Commits the service to a server seed of a red packet, before it knows the client seed.
   *
   * Needs a token with the scope `send`.
   */
  createServerSeed(): Promise<ServerSeed> {
    return this.json({ method: "POST", path: "/v1/red-packets/server-seeds" });
  }

  /**
   * A red packet: its commitment and its state. No token is needed: a user who has the link sees the packet before
   * signing in. `luckiest` is only for users who may see the draws.
   *
   * The entity tag covers everything that the caller may see, except `now`. An answer 304 has the server's time in
   * `Date`.
   */
  getRedPacket(redPacketId: string): Promise<RedPacket> {
    return this.json({ method: "GET", path: `/v1/red-packets/${part(redPacketId)}` });
  }

  /**
   * Shares that were granted.
   *
   * Needs a token with the scope `read:any`.
   */
  listShares(redPacketId: string, query: ListSharesQuery = {}): Pager<Claim> {
    return this.pages({ method: "GET", path: `/v1/red-packets/${part(redPacketId)}/claims`, query });
  }

  /**
   * Refunds that were paid, newest first.
   *
   * Buyers see their own. With the scope `pay` or `read:any` the list has those of all users.
   */
  listRefunds(query: ListRefundsQuery = {}): Pager<Refund> {
    return this.pages({ method: "GET", path: "/v1/refunds", query });
  }

  /**
   * Orders with a refund due, ordered by sale.
   *
   * Callers see those of their own sales. Those of other sellers need the scope `read:any`.
   */
  listOwedOrders(query: ListOwedOrdersQuery = {}): Pager<OwedOrder> {
    return this.pages({ method: "GET", path: "/v1/refunds-due", query });
  }

  /**
   * Sales of the caller.
   *
   * Sales of other sellers need the scope `read:any`. With `open`, any user lists the sales of all sellers that every
   * user may buy in.
   */
  listSales(query: ListSalesQuery = {}): Pager<Sale> {
    return this.pages({ method: "GET", path: "/v1/sales", query });
  }

  /**
   * Opens a sale.
   *
   * Needs a token with one of the scopes `campaigns:write`, `campaigns:write:any`.
   */
  createSale(body: NewSale): Promise<Sale> {
    return this.json({ method: "POST", path: "/v1/sales", body, keyed: true });
  }

  /**
   * Opens sales, each as `createSale` does.
   *
   * Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
   * example because another campaign has its id, the others are not affected; with the mode `all`, the whole request is
   * refused with that problem, its `errors` name the refused sales, and none is created. An invalid field, or a seller
   * for whom the token may not act, always refuses the whole request before anything is done. Repeat the request after
   * a lost answer: created sales are replayed, and the others are created.
   */
  createSales(body: NewSales): Promise<Page<SaleResult>> {
    return this.json({ method: "POST", path: "/v1/sales/batch", body });
  }

  /**
   * A sale and its state. No token is needed: a user who has the link sees the sale before signing in.
   *
   * The entity tag covers everything except `now`. It is strong for callers who may change the sale, and serves as
   * `If-Match` there; it is weak while the engine's primary or the ledger's latest rows cannot be read. An answer 304
   * has the server's time in `Date`.
   */
  getSale(saleId: string): Promise<Sale> {
    return this.json({ method: "GET", path: `/v1/sales/${part(saleId)}` });
  }

  /**
   * Changes a sale.
   *
   * Stock, window, limit, price and admission can change until the sale is over, all in one step. If one of them is
   * refused, nothing changes. Title, product, description and image can change at any time. Fields that already have
   * the value do not change. With `If-Match`, the sale changes only if nothing that this operation changes was changed
   * since it was read. Its `ETag` is strong if the caller may change it. Such a request changes the stock alone, the
   * texts alone, or window, limit, price and admission.
   */
  changeSale(saleId: string, body: SaleChange): Promise<Sale> {
    return this.json({ method: "PATCH", path: `/v1/sales/${part(saleId)}`, body, keyed: true });
  }

  /**
   * Orders of a sale with their states. Sellers see those of their own sales.
   *
   * Needs a token with the scope `read:any`.
   */
  listOrders(saleId: string, query: ListOrdersQuery = {}): Pager<Order> {
    return this.pages({ method: "GET", path: `/v1/sales/${part(saleId)}/orders`, query });
  }

  /**
   * Cancels the held orders of a sale that match a filter, in parts.
   *
   * The units of a cancelled order are for sale again, unless the sale is closed, and free the buyer's limit. Pause or
   * close the sale first if they must not be sold. Each buyer sees the order `cancelled`, and the shop's webhooks get
   * `order.cancelled`. A buyer who pays a cancelled order is owed the money. One request cancels up to `limit` orders,
   * the newest first. Repeat it with `after` from `next` until there is no `next`. A part may have no order and still a
   * `next`. An order that is paid, or expires, at the same moment does not change: `refusals` counts them by reason.
   * The operation log lists the orders of each part under the sale. The parts of a sale per minute are limited, apart
   * from its changes. Sellers cancel held orders of their own sales with `campaigns:write`. A repetition with the same
   * key cancels the same orders, even if the first request broke off between two of them.
   */
  cancelOrders(saleId: string, body?: NewOrderCancellations): Promise<OrderCancellations> {
    return this.json({ method: "POST", path: `/v1/sales/${part(saleId)}/orders/cancel`, body, keyed: true });
  }

  /**
   * Starts a scheduled sale now: its window begins at this moment, and its end stays. A live sale does not change.
   *
   * Waiting users can claim at once. A start that was announced for later is over: tell the users who planned with it.
   * Resume a paused sale first.
   */
  startSale(saleId: string): Promise<State> {
    return this.json({ method: "POST", path: `/v1/sales/${part(saleId)}/start`, keyed: true });
  }

  /**
   * Ends the browser's session. The token stays valid until it expires or is revoked.
   *
   * Needs no token.
   */
  endSession(): Promise<void> {
    return this.json({ method: "DELETE", path: "/v1/session" });
  }

  /**
   * The signed-in user, by a session or a token.
   *
   * Needs a token, of any scope.
   */
  getSession(): Promise<Session> {
    return this.json({ method: "GET", path: "/v1/session" });
  }

  /**
   * Exchanges a token for a session: a cookie that the browser sends instead of the token.
   *
   * The cookie lasts as long as the token. With the cookie, requests that change something are accepted from pages of
   * the same origin only.
   */
  beginSession(): Promise<Session> {
    return this.json({ method: "POST", path: "/v1/session" });
  }

  /**
   * Statistics of this node for each of the last 300 seconds: claims by outcome, latency, and settlement lag.
   *
   * The node samples them once a second, for all readers. With `Accept: text/event-stream` it is a stream: an event
   * `stats` with such a body at once and then once a second. A stream ends after a while, or because the service stops:
   * connect again, as browsers do automatically. `/metrics` has the same counters, since the start.
   */
  readStats(query: ReadStatsQuery = {}): Promise<StatsList> {
    return this.json({ method: "GET", path: "/v1/stats", query });
  }

  /**
   * Moves the clock of a service for development forward.
   *
   * Holds, windows and retention follow within a second, as if the time had passed. The clock never moves back; a
   * restart with `--dev` keeps it. Tokens expire by it, too. Only `qiang serve --dev` on the embedded engine has such a
   * clock.
   */
  advanceTestClock(body: ClockStep): Promise<ClockReading> {
    return this.json({ method: "POST", path: "/v1/test-clock/advance", body, keyed: true });
  }

  /**
   * Webhooks and their status: the caller's own ones, and with the scope `admin` all.
   *
   * Needs a token with the scope `campaigns:write`.
   */
  listWebhooks(): Promise<Page<Webhook>> {
    return this.json({ method: "GET", path: "/v1/webhooks" });
  }

  /**
   * Creates a webhook: an endpoint that receives events.
   *
   * It receives every event that is settled from then on and fits its filter, at least once. Events of one order arrive
   * in order. The answer has the secret that signs the requests. A seller's webhook receives the events of the seller's
   * own campaigns alone, and the seller manages it. A seller may have 5 webhooks.
   */
  createWebhook(body: NewWebhook): Promise<Webhook> {
    return this.json({ method: "POST", path: "/v1/webhooks", body, keyed: true });
  }

  /**
   * Deletes a webhook. Requests may still arrive for 5 seconds and `webhooks.timeout_ms`.
   *
   * Needs a token with one of the scopes `campaigns:write`, `admin`.
   */
  deleteWebhook(webhookId: string): Promise<void> {
    return this.json({ method: "DELETE", path: `/v1/webhooks/${part(webhookId)}`, keyed: true });
  }

  /**
   * A webhook and its status.
   *
   * Needs a token with one of the scopes `campaigns:write`, `admin`.
   */
  getWebhook(webhookId: string): Promise<Webhook> {
    return this.json({ method: "GET", path: `/v1/webhooks/${part(webhookId)}` });
  }

  /**
   * Changes a webhook.
   *
   * The change applies to deliveries from then on, also to events that wait for a retry. Requests as before may still
   * arrive for 5 seconds and `webhooks.timeout_ms`. The secret has an operation of its own. Changes, tests and repeated
   * deliveries of one webhook have a limit per minute.
   */
  changeWebhook(webhookId: string, body: WebhookChange): Promise<Webhook> {
    return this.json({ method: "PATCH", path: `/v1/webhooks/${part(webhookId)}`, body, keyed: true });
  }

  /**
   * Attempts to deliver events to a webhook, newest first.
   *
   * The log has every attempt of the last `webhooks.attempt_ttl_ms`, also of events that were delivered. The state of
   * an event is that of its last attempt. `response_body` has the first characters of the endpoint's answer. Test
   * events are not logged.
   */
  listDeliveries(webhookId: string, query: ListDeliveriesQuery = {}): Pager<WebhookDelivery> {
    return this.pages({ method: "GET", path: `/v1/webhooks/${part(webhookId)}/deliveries`, query });
  }

  /**
   * Delivers one event once more, or all events that were given up.
   *
   * The events are due at once, even if the webhook is disabled. An event that is sent again may come after later
   * events of its order. At most 500 events of a webhook wait at a time: repeat the request, with another key, for the
   * rest. A repetition with the same key acts only if the first request was not carried out.
   */
  redeliverEvents(webhookId: string, body: WebhookRedelivery): Promise<Webhook> {
    return this.json({ method: "POST", path: `/v1/webhooks/${part(webhookId)}/redeliver`, body, keyed: true });
  }

  /**
   * Makes an endpoint's next attempt due at once, even if it is disabled.
   *
   * With `since`, events that were decided from then on are delivered again. A repetition with the same key acts only
   * if the first request was not carried out.
   */
  redriveWebhook(webhookId: string, body?: WebhookRedrive): Promise<Webhook> {
    return this.json({ method: "POST", path: `/v1/webhooks/${part(webhookId)}/redrive`, body, keyed: true });
  }

  /**
   * Gives a webhook a fresh secret. For a while, events are also signed with the previous one.
   *
   * Needs a token with one of the scopes `campaigns:write`, `admin`.
   */
  rotateSecret(webhookId: string, body?: WebhookRotation): Promise<Webhook> {
    return this.json({ method: "POST", path: `/v1/webhooks/${part(webhookId)}/secret`, body, keyed: true });
  }

  /**
   * Sends a `webhook.test` to an endpoint at once, and reports the result.
   *
   * A repetition with the same key sends nothing. If the first answer was lost before it was stored, it sends the same
   * event again, with the same `webhook-id`.
   */
  testWebhook(webhookId: string): Promise<WebhookTest> {
    return this.json({ method: "POST", path: `/v1/webhooks/${part(webhookId)}/test`, keyed: true });
  }

  /**
   * Withdrawals, newest first.
   *
   * Users see their own. With the scope `withdraw` or `read:any` the list has those of all users.
   */
  listWithdrawals(query: ListWithdrawalsQuery = {}): Pager<Withdrawal> {
    return this.pages({ method: "GET", path: "/v1/withdrawals", query });
  }
}
