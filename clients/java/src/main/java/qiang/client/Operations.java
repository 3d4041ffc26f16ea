// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client;

import java.util.List;
import qiang.client.model.Account;
import qiang.client.model.Action;
import qiang.client.model.Audit;
import qiang.client.model.CampaignAudience;
import qiang.client.model.Claim;
import qiang.client.model.ClockReading;
import qiang.client.model.ClockStep;
import qiang.client.model.Deposit;
import qiang.client.model.GrantTimeline;
import qiang.client.model.Invitation;
import qiang.client.model.ListActionsQuery;
import qiang.client.model.ListAllOrdersQuery;
import qiang.client.model.ListClaimsQuery;
import qiang.client.model.ListDeliveriesQuery;
import qiang.client.model.ListDepositsQuery;
import qiang.client.model.ListEventsQuery;
import qiang.client.model.ListOrdersQuery;
import qiang.client.model.ListOwedOrdersQuery;
import qiang.client.model.ListPaymentsQuery;
import qiang.client.model.ListPostingsQuery;
import qiang.client.model.ListQuarantineQuery;
import qiang.client.model.ListRedPacketsQuery;
import qiang.client.model.ListRefundsQuery;
import qiang.client.model.ListSalesQuery;
import qiang.client.model.ListSharesQuery;
import qiang.client.model.ListUserOrdersQuery;
import qiang.client.model.ListWithdrawalsQuery;
import qiang.client.model.ListedRedPacket;
import qiang.client.model.Metadata;
import qiang.client.model.MetadataChange;
import qiang.client.model.NewCancellation;
import qiang.client.model.NewDeposit;
import qiang.client.model.NewHoldExtension;
import qiang.client.model.NewInvitation;
import qiang.client.model.NewOrderCancellations;
import qiang.client.model.NewPayment;
import qiang.client.model.NewRedPacket;
import qiang.client.model.NewRedPackets;
import qiang.client.model.NewRefund;
import qiang.client.model.NewReturn;
import qiang.client.model.NewReversal;
import qiang.client.model.NewSale;
import qiang.client.model.NewSales;
import qiang.client.model.NewTransfer;
import qiang.client.model.NewWebhook;
import qiang.client.model.NewWithdrawal;
import qiang.client.model.NotificationReceipt;
import qiang.client.model.Order;
import qiang.client.model.OrderCancellations;
import qiang.client.model.OwedOrder;
import qiang.client.model.PartitionDetail;
import qiang.client.model.Partitions;
import qiang.client.model.Payment;
import qiang.client.model.PaymentRecord;
import qiang.client.model.PaymentReport;
import qiang.client.model.Place;
import qiang.client.model.Posting;
import qiang.client.model.QuarantinedEntry;
import qiang.client.model.ReadStatsQuery;
import qiang.client.model.Reconciled;
import qiang.client.model.RecordedEvent;
import qiang.client.model.RedPacket;
import qiang.client.model.RedPacketResult;
import qiang.client.model.Redriven;
import qiang.client.model.Refund;
import qiang.client.model.RefundReversal;
import qiang.client.model.Refunds;
import qiang.client.model.Released;
import qiang.client.model.Repair;
import qiang.client.model.Resumed;
import qiang.client.model.Reversal;
import qiang.client.model.Sale;
import qiang.client.model.SaleChange;
import qiang.client.model.SaleResult;
import qiang.client.model.ServerSeed;
import qiang.client.model.Session;
import qiang.client.model.State;
import qiang.client.model.StatsList;
import qiang.client.model.StripeWebhookEvent;
import qiang.client.model.Transfer;
import qiang.client.model.Webhook;
import qiang.client.model.WebhookChange;
import qiang.client.model.WebhookDelivery;
import qiang.client.model.WebhookRedelivery;
import qiang.client.model.WebhookRedrive;
import qiang.client.model.WebhookRotation;
import qiang.client.model.WebhookTest;
import qiang.client.model.WechatPayNotification;
import qiang.client.model.Withdrawal;

/** The operations of the document. */
public abstract class Operations {
    Operations() {}

    /** Carries a request out, and repeats it until an answer decides it. */
    abstract <T> T json(Call call, Class<T> answer);

    /** The same for a page of a list. */
    abstract <T> Page<T> page(Call call, Class<T> item);

    /** Pages of a list, read one after another. An endless list ends with an empty page. */
    abstract <T> Pager<T> pages(Call call, Class<T> item, boolean endless);

    /** Part of a path. */
    static String part(Object value) {
        return Call.encoded(String.valueOf(value));
    }

    /**
     * Balances of a user.
     *
     * Users see their own account. Other accounts need the scope `read:any`.
     */
    public Account getAccount(String user) {
        return json(new Call("GET", "/v1/accounts/" + part(user)), Account.class);
    }

    /**
     * Shares of red packets that a user has, newest first.
     *
     * Users see their own. Other users' shares need the scope `read:any`.
     */
    public Pager<Claim> listClaims(String user) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/claims"), Claim.class, false);
    }

    /**
     * Shares of red packets that a user has, newest first.
     *
     * Users see their own. Other users' shares need the scope `read:any`.
     */
    public Pager<Claim> listClaims(String user, ListClaimsQuery query) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/claims").query(query), Claim.class, false);
    }

    /**
     * Records a deposit: money from outside for a user's account.
     *
     * Needs a token with the scope `deposit`.
     */
    public Deposit makeDeposit(String user, NewDeposit body) {
        return json(new Call("POST", "/v1/accounts/" + part(user) + "/deposits").keyed().body(body), Deposit.class);
    }

    /**
     * A deposit.
     *
     * Users see their own. Other users' deposits need the scope `deposit` or `read:any`.
     */
    public Deposit getDeposit(String user, String depositId) {
        return json(new Call("GET", "/v1/accounts/" + part(user) + "/deposits/" + part(depositId)), Deposit.class);
    }

    /**
     * Reverses a deposit out of the user's account, which must hold the money: an amount, or all that is left of it.
     *
     * A request without an amount reverses what is left, and a repetition changes nothing. One with an amount needs an
     * `Idempotency-Key`: the same key again changes nothing, and another key reverses the amount once more.
     */
    public Reversal reverseDeposit(String user, String depositId) {
        Call call = new Call("POST", "/v1/accounts/" + part(user) + "/deposits/" + part(depositId) + "/reversal")
                .keyed();
        return json(call, Reversal.class);
    }

    /**
     * Reverses a deposit out of the user's account, which must hold the money: an amount, or all that is left of it.
     *
     * A request without an amount reverses what is left, and a repetition changes nothing. One with an amount needs an
     * `Idempotency-Key`: the same key again changes nothing, and another key reverses the amount once more.
     */
    public Reversal reverseDeposit(String user, String depositId, NewReversal body) {
        Call call = new Call("POST", "/v1/accounts/" + part(user) + "/deposits/" + part(depositId) + "/reversal")
                .keyed()
                .body(body);
        return json(call, Reversal.class);
    }

    /**
     * Orders of a user, newest first.
     *
     * Users see their own. Other users' orders need the scope `read:any`.
     */
    public Pager<Order> listUserOrders(String user) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/orders"), Order.class, false);
    }

    /**
     * Orders of a user, newest first.
     *
     * Users see their own. Other users' orders need the scope `read:any`.
     */
    public Pager<Order> listUserOrders(String user, ListUserOrdersQuery query) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/orders").query(query), Order.class, false);
    }

    /**
     * Postings of a user's accounts, newest first.
     *
     * Users see their own. Other users' postings need the scope `read:any`.
     */
    public Pager<Posting> listPostings(String user) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/postings"), Posting.class, false);
    }

    /**
     * Postings of a user's accounts, newest first.
     *
     * Users see their own. Other users' postings need the scope `read:any`.
     */
    public Pager<Posting> listPostings(String user, ListPostingsQuery query) {
        return pages(new Call("GET", "/v1/accounts/" + part(user) + "/postings").query(query), Posting.class, false);
    }

    /**
     * Moves available money from one user's account to another's, such as that of a seller who has left.
     *
     * Both users see the posting `transfer` in their accounts. Refunds that are due do not move. Later payments and
     * returns of the first user's campaigns still change the first account, and returns may overdraw it. The reference
     * makes repetition safe.
     */
    public Transfer makeTransfer(String user, NewTransfer body) {
        return json(new Call("POST", "/v1/accounts/" + part(user) + "/transfers").keyed().body(body), Transfer.class);
    }

    /**
     * Records a withdrawal. The account's balance must cover it.
     *
     * Post the withdrawal first, and pay the money out once it is posted. The reference makes repetition safe.
     */
    public Withdrawal makeWithdrawal(String user, NewWithdrawal body) {
        Call call = new Call("POST", "/v1/accounts/" + part(user) + "/withdrawals")
                .keyed()
                .body(body);
        return json(call, Withdrawal.class);
    }

    /**
     * The last audits of this node, without their findings.
     *
     * Needs a token with the scope `admin`.
     */
    public Page<Audit> listAudits() {
        return page(new Call("GET", "/v1/audits"), Audit.class);
    }

    /**
     * Audits everything that this node works on: proves each invariant again from the rows.
     *
     * The rows are read as of one moment, while the service runs. One audit runs at a time; during it, this returns the
     * running one. This node keeps its last eight audits until it stops; other nodes do not have them.
     */
    public Audit startAudit() {
        return json(new Call("POST", "/v1/audits"), Audit.class);
    }

    /**
     * An audit of this node: its status and its findings, with the first violations.
     *
     * Needs a token with the scope `admin`.
     */
    public Audit getAudit(String auditId) {
        return json(new Call("GET", "/v1/audits/" + part(auditId)), Audit.class);
    }

    /**
     * Archives a closed campaign: lists leave it out, unless a filter includes it. Idempotent.
     *
     * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
     */
    public State archiveCampaign(String campaignId) {
        return json(new Call("POST", "/v1/campaigns/" + part(campaignId) + "/archive").keyed(), State.class);
    }

    /**
     * Audience of a campaign, with the names of users.
     *
     * Owners see those of their own campaigns. Other campaigns need the scope `read:any`.
     */
    public CampaignAudience getAudience(String campaignId) {
        return json(new Call("GET", "/v1/campaigns/" + part(campaignId) + "/audience"), CampaignAudience.class);
    }

    /**
     * Ends a campaign now and returns what is left. Idempotent.
     *
     * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
     */
    public State closeCampaign(String campaignId) {
        return json(new Call("POST", "/v1/campaigns/" + part(campaignId) + "/close").keyed(), State.class);
    }

    /**
     * Grants of a campaign over its whole life.
     *
     * A campaign with more than 512 grants has 512 evenly spaced ones, with the last one. Its curve of grants is exact
     * at these points; the share of paid orders is an estimate. The rows are read by key, and a node answers from
     * memory for five seconds. Owners see those of their own campaigns.
     */
    public GrantTimeline getGrantTimeline(String campaignId) {
        return json(new Call("GET", "/v1/campaigns/" + part(campaignId) + "/grant-timeline"), GrantTimeline.class);
    }

    /**
     * Signs an invitation.
     *
     * An invitation is valid for any number of users, and for this campaign only.
     */
    public Invitation signInvitation(String campaignId) {
        return json(new Call("POST", "/v1/campaigns/" + part(campaignId) + "/invitations"), Invitation.class);
    }

    /**
     * Signs an invitation.
     *
     * An invitation is valid for any number of users, and for this campaign only.
     */
    public Invitation signInvitation(String campaignId, NewInvitation body) {
        Call call = new Call("POST", "/v1/campaigns/" + part(campaignId) + "/invitations")
                .body(body);
        return json(call, Invitation.class);
    }

    /**
     * Metadata of a campaign.
     *
     * Its seller or sender reads it; others need the scope `read:any`.
     */
    public Metadata getCampaignMetadata(String campaignId) {
        return json(new Call("GET", "/v1/campaigns/" + part(campaignId) + "/metadata"), Metadata.class);
    }

    /**
     * Changes the metadata of a campaign. Users do not see it.
     *
     * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
     */
    public Metadata changeCampaignMetadata(String campaignId, MetadataChange body) {
        Call call = new Call("PATCH", "/v1/campaigns/" + part(campaignId) + "/metadata")
                .keyed()
                .body(body);
        return json(call, Metadata.class);
    }

    /**
     * Pauses a campaign, which stops its grants. Idempotent. A campaign that is paused before its start grants nothing
     * at its start.
     *
     * A pause stops claims only. Holds of unpaid orders continue: users can pay and cancel during the pause, and an
     * unpaid order expires at its `hold_until`. The window does not move: at `ends_at` a paused campaign closes for
     * good.
     */
    public State pauseCampaign(String campaignId) {
        return json(new Call("POST", "/v1/campaigns/" + part(campaignId) + "/pause").keyed(), State.class);
    }

    /**
     * The caller's queue entry in a campaign, or its result.
     *
     * With `Accept: text/event-stream` it is a stream: an event `place` at once and after progress, an event `result`
     * at the end. A stream without a result ended at its time limit, or because the service stops: connect again. The
     * result of an entry can be read for `queue.result_ttl_ms`.
     */
    public Place getPlace(String campaignId) {
        return json(new Call("GET", "/v1/campaigns/" + part(campaignId) + "/queue-entry"), Place.class);
    }

    /**
     * Resumes a paused campaign. Idempotent. Before its start it is scheduled again.
     *
     * Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
     */
    public State resumeCampaign(String campaignId) {
        return json(new Call("POST", "/v1/campaigns/" + part(campaignId) + "/resume").keyed(), State.class);
    }

    /**
     * A campaign's present numbers. No token is needed, and caches may keep them for a second.
     *
     * The entity tag covers everything except `now`. An answer 304 has the server's time in `Date`.
     */
    public State getCampaignState(String campaignId) {
        return json(new Call("GET", "/v1/campaigns/" + part(campaignId) + "/state"), State.class);
    }

    /**
     * Deposits, newest first.
     *
     * Users see their own. With the scope `deposit` or `read:any` the list has those of all users.
     */
    public Pager<Deposit> listDeposits() {
        return pages(new Call("GET", "/v1/deposits"), Deposit.class, false);
    }

    /**
     * Deposits, newest first.
     *
     * Users see their own. With the scope `deposit` or `read:any` the list has those of all users.
     */
    public Pager<Deposit> listDeposits(ListDepositsQuery query) {
        return pages(new Call("GET", "/v1/deposits").query(query), Deposit.class, false);
    }

    /**
     * Events of settled changes, in the order in which endpoints receive them.
     *
     * Events are recorded while an endpoint subscribes to them, and kept for `webhooks.event_ttl_ms`. `id` is the
     * `webhook-id` of the deliveries, and the other fields are their body. `next` is present on each page: later events
     * follow it, and none is skipped.
     */
    public Pager<RecordedEvent> listEvents() {
        return pages(new Call("GET", "/v1/events"), RecordedEvent.class, true);
    }

    /**
     * Events of settled changes, in the order in which endpoints receive them.
     *
     * Events are recorded while an endpoint subscribes to them, and kept for `webhooks.event_ttl_ms`. `id` is the
     * `webhook-id` of the deliveries, and the other fields are their body. `next` is present on each page: later events
     * follow it, and none is skipped.
     */
    public Pager<RecordedEvent> listEvents(ListEventsQuery query) {
        return pages(new Call("GET", "/v1/events").query(query), RecordedEvent.class, true);
    }

    /**
     * Changes with their actors: of one subject, or of all.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Action> listActions() {
        return pages(new Call("GET", "/v1/operation-log"), Action.class, false);
    }

    /**
     * Changes with their actors: of one subject, or of all.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Action> listActions(ListActionsQuery query) {
        return pages(new Call("GET", "/v1/operation-log").query(query), Action.class, false);
    }

    /**
     * Orders, newest first.
     *
     * Users see their own, and sellers those of their own sale `campaign`. With the scope `read:any` the list has the
     * orders of all users. With `state` and without `user`, a page may have fewer orders than `limit`, or none, and
     * still a `next`. Orders with a `reference` are listed by id: those of the caller's own sales or, with `read:any`,
     * of all.
     */
    public Pager<Order> listAllOrders() {
        return pages(new Call("GET", "/v1/orders"), Order.class, false);
    }

    /**
     * Orders, newest first.
     *
     * Users see their own, and sellers those of their own sale `campaign`. With the scope `read:any` the list has the
     * orders of all users. With `state` and without `user`, a page may have fewer orders than `limit`, or none, and
     * still a `next`. Orders with a `reference` are listed by id: those of the caller's own sales or, with `read:any`,
     * of all.
     */
    public Pager<Order> listAllOrders(ListAllOrdersQuery query) {
        return pages(new Call("GET", "/v1/orders").query(query), Order.class, false);
    }

    /**
     * An order.
     *
     * Buyers see their own orders, sellers those of their sales. Other orders need the scope `read:any`.
     */
    public Order getOrder(String orderId) {
        return json(new Call("GET", "/v1/orders/" + part(orderId)), Order.class);
    }

    /**
     * Cancels a held order: some of its units, or all.
     *
     * The units are for sale again, and free the buyer's limit. An order of which some units are cancelled stays `held`
     * with the other ones: its `quantity` and its `amount` fall, and a payment of the new amount pays it. If no unit is
     * left, the order is `cancelled`. A request without a quantity cancels the order, and a repetition changes nothing.
     * One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another key cancels as
     * many units again. Buyers may cancel their own orders. Sellers cancel orders of their own sales with the scope
     * `campaigns:write`; other orders need `admin`. An order that costs nothing is paid from the start: it is returned,
     * and no refund is due.
     */
    public Order cancelOrder(String orderId) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/cancellation").keyed(), Order.class);
    }

    /**
     * Cancels a held order: some of its units, or all.
     *
     * The units are for sale again, and free the buyer's limit. An order of which some units are cancelled stays `held`
     * with the other ones: its `quantity` and its `amount` fall, and a payment of the new amount pays it. If no unit is
     * left, the order is `cancelled`. A request without a quantity cancels the order, and a repetition changes nothing.
     * One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another key cancels as
     * many units again. Buyers may cancel their own orders. Sellers cancel orders of their own sales with the scope
     * `campaigns:write`; other orders need `admin`. An order that costs nothing is paid from the start: it is returned,
     * and no refund is due.
     */
    public Order cancelOrder(String orderId, NewCancellation body) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/cancellation").keyed().body(body), Order.class);
    }

    /**
     * Extends the hold of a held order, once.
     *
     * Use it while a payment service still decides about a payment. The order keeps its units until the new
     * `hold_until`, and a payment until then pays it. The buyer sees the new end, and webhooks get
     * `order.hold_extended`. The extension is at most the hold of the sale. An extended order can be paid and cancelled
     * like any other one. A sale that has ended or closed keeps its held orders, and their holds can be extended too.
     * The same extension again changes nothing and is answered with the order, also once it is paid. Another extension
     * of the same order is refused. Sellers extend holds of their own sales with the scope `campaigns:write`; other
     * orders need `admin`.
     */
    public Order extendHold(String orderId, NewHoldExtension body) {
        Call call = new Call("POST", "/v1/orders/" + part(orderId) + "/hold-extension")
                .keyed()
                .body(body);
        return json(call, Order.class);
    }

    /**
     * Metadata of an order.
     *
     * The seller of its sale reads it; others need the scope `read:any`. The buyer does not see it.
     */
    public Metadata getOrderMetadata(String orderId) {
        return json(new Call("GET", "/v1/orders/" + part(orderId) + "/metadata"), Metadata.class);
    }

    /**
     * Changes the metadata of an order. The buyer does not see it.
     *
     * The seller of its sale may do this, and others with the scope `campaigns:write:any`.
     */
    public Metadata changeOrderMetadata(String orderId, MetadataChange body) {
        return json(new Call("PATCH", "/v1/orders/" + part(orderId) + "/metadata").keyed().body(body), Metadata.class);
    }

    /**
     * Records a payment that arrived. The payment service calls this.
     *
     * The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
     * currency is answered `refund_due`: it is refunded, and the order does not change. An order that costs nothing is
     * paid when it is granted and needs no report; a report of 0 is answered `paid` and changes nothing. The money of a
     * refused report is not recorded. The service logs and counts the report, and lists it in the operation log and
     * under its reference. It refuses an unknown order, and an order of another user than `user`. It refuses a
     * reference that was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an
     * invalid currency, and a `paid_at` in the future or before the order. It refuses money that it would refund if the
     * order has reached its limit of payments with a refund due.
     */
    public Payment payOrder(String orderId, NewPayment body) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/payment").keyed().body(body), Payment.class);
    }

    /**
     * Refunds due to the buyer of an order, and refunds paid.
     *
     * Buyers see their own, and sellers those of their sales. Other users need the scope `read:any`.
     */
    public Refunds getRefunds(String orderId) {
        return json(new Call("GET", "/v1/orders/" + part(orderId) + "/refunds"), Refunds.class);
    }

    /**
     * Records that a refund due for an order was paid to its buyer, in whole or in part.
     *
     * Refunds are due for payments that did not pay the order, as they arrived, and for what paid units that were
     * returned. The caller posts a refund after the money was paid back outside. The reference makes repetition safe.
     */
    public Refund refundOrder(String orderId, NewRefund body) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/refunds").keyed().body(body), Refund.class);
    }

    /**
     * Reverses a recorded refund: its money is due to the buyer again.
     *
     * For a refund that the payment service did not carry out or returned, or that was recorded by mistake. The whole
     * refund is reversed, once, and it stays in the lists with `reversed`. A further refund of the order needs another
     * reference: the reference of a reversed refund still names that one. The buyer sees the refund due again.
     */
    public RefundReversal reverseRefund(String orderId, String reference) {
        Call call = new Call("POST", "/v1/orders/" + part(orderId) + "/refunds/" + part(reference) + "/reversal")
                .keyed();
        return json(call, RefundReversal.class);
    }

    /**
     * Returns a paid order: some of its units, or all that are left.
     *
     * The units are for sale again, and a refund is due to the buyer. It is the returned fraction of what paid the
     * order, rounded down over all returns so far. So all returns together refund what paid it. The seller may return
     * an order at any time with the scope `campaigns:write`, and other users with `admin`. Buyers need no scope within
     * the return period, which starts at the grant. A request without a quantity returns what is left, and a repetition
     * changes nothing. One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another
     * key returns as many units again.
     */
    public Order returnOrder(String orderId) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/return").keyed(), Order.class);
    }

    /**
     * Returns a paid order: some of its units, or all that are left.
     *
     * The units are for sale again, and a refund is due to the buyer. It is the returned fraction of what paid the
     * order, rounded down over all returns so far. So all returns together refund what paid it. The seller may return
     * an order at any time with the scope `campaigns:write`, and other users with `admin`. Buyers need no scope within
     * the return period, which starts at the grant. A request without a quantity returns what is left, and a repetition
     * changes nothing. One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another
     * key returns as many units again.
     */
    public Order returnOrder(String orderId, NewReturn body) {
        return json(new Call("POST", "/v1/orders/" + part(orderId) + "/return").keyed().body(body), Order.class);
    }

    /**
     * All partitions with their readiness and lag, as this node sees them.
     *
     * Each partition is test-written at most once a second.
     */
    public Partitions listPartitions() {
        return json(new Call("GET", "/v1/partitions"), Partitions.class);
    }

    /**
     * A partition with its nodes, repairs and withheld units.
     *
     * Needs a token with the scope `admin`.
     */
    public PartitionDetail getPartition(long partition) {
        return json(new Call("GET", "/v1/partitions/" + part(partition)), PartitionDetail.class);
    }

    /**
     * Compares the live campaigns of a partition with the ledger at once, and reports the differences. Nothing is
     * changed.
     *
     * Nodes on Redis do this continuously: `reconciliation` of a partition has their findings.
     */
    public Reconciled reconcilePartition(long partition) {
        return json(new Call("POST", "/v1/partitions/" + part(partition) + "/reconcile").keyed(), Reconciled.class);
    }

    /**
     * Releases the units that repairs have withheld in a partition.
     *
     * Use it only if the users who had received them shall not get them.
     */
    public Released releaseWithheld(long partition) {
        Call call = new Call("POST", "/v1/partitions/" + part(partition) + "/release-withheld")
                .keyed();
        return json(call, Released.class);
    }

    /**
     * Repairs a partition after data loss, without waiting for missing node reports.
     *
     * If nothing was lost, nothing is done. Nodes repair automatically, unless they are configured not to.
     */
    public Repair repairPartition(long partition) {
        return json(new Call("POST", "/v1/partitions/" + part(partition) + "/repair").keyed(), Repair.class);
    }

    /**
     * Ends the halt of a partition without a repair.
     *
     * This accepts the loss: a user whose answer was lost does not get it back. Repair the partition instead if the
     * ledger is available.
     */
    public Resumed resumePartition(long partition) {
        return json(new Call("POST", "/v1/partitions/" + part(partition) + "/resume").keyed(), Resumed.class);
    }

    /**
     * Recorded payments, newest first.
     *
     * Users see payments for their own orders. With the scope `pay` or `read:any` the list has those of all users.
     * Refused reports are in the operation log. With `outcome` and neither `user` nor `reference`, a page may have
     * fewer payments than `limit`, or none, and still a `next`.
     */
    public Pager<PaymentRecord> listPayments() {
        return pages(new Call("GET", "/v1/payments"), PaymentRecord.class, false);
    }

    /**
     * Recorded payments, newest first.
     *
     * Users see payments for their own orders. With the scope `pay` or `read:any` the list has those of all users.
     * Refused reports are in the operation log. With `outcome` and neither `user` nor `reference`, a page may have
     * fewer payments than `limit`, or none, and still a `next`.
     */
    public Pager<PaymentRecord> listPayments(ListPaymentsQuery query) {
        return pages(new Call("GET", "/v1/payments").query(query), PaymentRecord.class, false);
    }

    /**
     * Records a payment that arrived: with a token, or signed as Standard Webhooks specifies.
     *
     * The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
     * currency is answered `refund_due`: it is refunded, and the order does not change. The money of a refused report
     * is not recorded. The service logs and counts the report, and lists it in the operation log and under its
     * reference. It refuses an unknown order, and an order of another user than `user`. It refuses a reference that was
     * reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an invalid currency, and a
     * `paid_at` in the future or before the order. It refuses money that it would refund if the order has reached its
     * limit of payments with a refund due. The signature covers `webhook-id`, `webhook-timestamp` (seconds) and the
     * body, joined by dots. It is HMAC-SHA256 with a secret that the installation and the payment service share. A
     * signature that is too old is refused.
     */
    public Payment reportPayment(PaymentReport body) {
        return json(new Call("POST", "/v1/payments").keyed().body(body), Payment.class);
    }

    /**
     * Outcome of a payment.
     *
     * Buyers see those of their orders, sellers those of their sales. Other payments need the scope `pay` or
     * `read:any`. With `read:any` the newest refused report is found, if no payment with the reference was recorded.
     */
    public PaymentRecord getPayment(String reference) {
        return json(new Call("GET", "/v1/payments/" + part(reference)), PaymentRecord.class);
    }

    /**
     * Records payments and refunds that an event of Stripe reports.
     *
     * The signature is the authentication: HMAC-SHA256 with a secret of the account's webhook endpoint. Another
     * signature is refused with 401, and so is an unknown account. An event is acknowledged once its reports are
     * recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. Stripe then
     * repeats it.
     */
    public NotificationReceipt receiveStripeEvent(String account, StripeWebhookEvent body) {
        Call call = new Call("POST", "/v1/providers/stripe/" + part(account) + "/notifications")
                .body(body);
        return json(call, NotificationReceipt.class);
    }

    /**
     * Records payments and refunds that a notification of WeChat Pay reports.
     *
     * The signature is the authentication: RSA-SHA256 by a configured certificate or public key of the platform.
     * Another signature is refused with 401, and so is an unknown account. A notification is acknowledged with 204 once
     * its reports are recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it.
     * The problem then also has `code` and `message`, and WeChat Pay repeats the notification.
     */
    public void receiveWechatNotification(String account, WechatPayNotification body) {
        json(new Call("POST", "/v1/providers/wechat/" + part(account) + "/notifications").body(body), Void.class);
    }

    /**
     * Quarantined entries: refused by the ledger, or waiting for a refused one.
     *
     * Needs a token with the scope `admin`.
     */
    public Pager<QuarantinedEntry> listQuarantine() {
        return pages(new Call("GET", "/v1/quarantine"), QuarantinedEntry.class, false);
    }

    /**
     * Quarantined entries: refused by the ledger, or waiting for a refused one.
     *
     * Needs a token with the scope `admin`.
     */
    public Pager<QuarantinedEntry> listQuarantine(ListQuarantineQuery query) {
        return pages(new Call("GET", "/v1/quarantine").query(query), QuarantinedEntry.class, false);
    }

    /**
     * An entry in quarantine, with the reason why the ledger refused it.
     *
     * Needs a token with the scope `admin`.
     */
    public QuarantinedEntry getQuarantinedEntry(String entry) {
        return json(new Call("GET", "/v1/quarantine/" + part(entry)), QuarantinedEntry.class);
    }

    /**
     * Settles a quarantined entry after its cause was removed.
     *
     * If it is refused again, or waits for another entry, it stays in quarantine. A repetition with the same key gets
     * the first answer, or `settled` if that was lost and the entry is settled since.
     */
    public Redriven redriveEntry(String entry) {
        return json(new Call("POST", "/v1/quarantine/" + part(entry) + "/redrive").keyed(), Redriven.class);
    }

    /**
     * Red packets of the caller.
     *
     * Red packets of other senders need the scope `read:any`.
     */
    public Pager<ListedRedPacket> listRedPackets() {
        return pages(new Call("GET", "/v1/red-packets"), ListedRedPacket.class, false);
    }

    /**
     * Red packets of the caller.
     *
     * Red packets of other senders need the scope `read:any`.
     */
    public Pager<ListedRedPacket> listRedPackets(ListRedPacketsQuery query) {
        return pages(new Call("GET", "/v1/red-packets").query(query), ListedRedPacket.class, false);
    }

    /**
     * Sends a red packet from the caller's account.
     *
     * Needs a token with the scope `send`.
     */
    public RedPacket createRedPacket(NewRedPacket body) {
        return json(new Call("POST", "/v1/red-packets").keyed().body(body), RedPacket.class);
    }

    /**
     * Sends red packets from the caller's account, each as `createRedPacket` does.
     *
     * Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
     * example for lack of money, the others are not affected; with the mode `all`, the whole request is refused with
     * that problem, its `errors` name the refused packets, and none is sent. An invalid field always refuses the whole
     * request before anything is done. Repeat the request after a lost answer: created packets are replayed, and the
     * others are created.
     */
    public Page<RedPacketResult> createRedPackets(NewRedPackets body) {
        return page(new Call("POST", "/v1/red-packets/batch").body(body), RedPacketResult.class);
    }

    /**
     * Commits the service to a server seed of a red packet, before it knows the client seed.
     *
     * Needs a token with the scope `send`.
     */
    public ServerSeed createServerSeed() {
        return json(new Call("POST", "/v1/red-packets/server-seeds"), ServerSeed.class);
    }

    /**
     * A red packet: its commitment and its state. No token is needed: a user who has the link sees the packet before
     * signing in. `luckiest` is only for users who may see the draws.
     *
     * The entity tag covers everything that the caller may see, except `now`. An answer 304 has the server's time in
     * `Date`.
     */
    public RedPacket getRedPacket(String redPacketId) {
        return json(new Call("GET", "/v1/red-packets/" + part(redPacketId)), RedPacket.class);
    }

    /**
     * Shares that were granted.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Claim> listShares(String redPacketId) {
        return pages(new Call("GET", "/v1/red-packets/" + part(redPacketId) + "/claims"), Claim.class, false);
    }

    /**
     * Shares that were granted.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Claim> listShares(String redPacketId, ListSharesQuery query) {
        Call call = new Call("GET", "/v1/red-packets/" + part(redPacketId) + "/claims")
                .query(query);
        return pages(call, Claim.class, false);
    }

    /**
     * Refunds that were paid, newest first.
     *
     * Buyers see their own. With the scope `pay` or `read:any` the list has those of all users.
     */
    public Pager<Refund> listRefunds() {
        return pages(new Call("GET", "/v1/refunds"), Refund.class, false);
    }

    /**
     * Refunds that were paid, newest first.
     *
     * Buyers see their own. With the scope `pay` or `read:any` the list has those of all users.
     */
    public Pager<Refund> listRefunds(ListRefundsQuery query) {
        return pages(new Call("GET", "/v1/refunds").query(query), Refund.class, false);
    }

    /**
     * Orders with a refund due, ordered by sale.
     *
     * Callers see those of their own sales. Those of other sellers need the scope `read:any`.
     */
    public Pager<OwedOrder> listOwedOrders() {
        return pages(new Call("GET", "/v1/refunds-due"), OwedOrder.class, false);
    }

    /**
     * Orders with a refund due, ordered by sale.
     *
     * Callers see those of their own sales. Those of other sellers need the scope `read:any`.
     */
    public Pager<OwedOrder> listOwedOrders(ListOwedOrdersQuery query) {
        return pages(new Call("GET", "/v1/refunds-due").query(query), OwedOrder.class, false);
    }

    /**
     * Sales of the caller.
     *
     * Sales of other sellers need the scope `read:any`. With `open`, any user lists the sales of all sellers that every
     * user may buy in.
     */
    public Pager<Sale> listSales() {
        return pages(new Call("GET", "/v1/sales"), Sale.class, false);
    }

    /**
     * Sales of the caller.
     *
     * Sales of other sellers need the scope `read:any`. With `open`, any user lists the sales of all sellers that every
     * user may buy in.
     */
    public Pager<Sale> listSales(ListSalesQuery query) {
        return pages(new Call("GET", "/v1/sales").query(query), Sale.class, false);
    }

    /**
     * Opens a sale.
     *
     * Needs a token with one of the scopes `campaigns:write`, `campaigns:write:any`.
     */
    public Sale createSale(NewSale body) {
        return json(new Call("POST", "/v1/sales").keyed().body(body), Sale.class);
    }

    /**
     * Opens sales, each as `createSale` does.
     *
     * Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
     * example because another campaign has its id, the others are not affected; with the mode `all`, the whole request
     * is refused with that problem, its `errors` name the refused sales, and none is created. An invalid field, or a
     * seller for whom the token may not act, always refuses the whole request before anything is done. Repeat the
     * request after a lost answer: created sales are replayed, and the others are created.
     */
    public Page<SaleResult> createSales(NewSales body) {
        return page(new Call("POST", "/v1/sales/batch").body(body), SaleResult.class);
    }

    /**
     * A sale and its state. No token is needed: a user who has the link sees the sale before signing in.
     *
     * The entity tag covers everything except `now`. It is strong for callers who may change the sale, and serves as
     * `If-Match` there; it is weak while the engine's primary or the ledger's latest rows cannot be read. An answer 304
     * has the server's time in `Date`.
     */
    public Sale getSale(String saleId) {
        return json(new Call("GET", "/v1/sales/" + part(saleId)), Sale.class);
    }

    /**
     * Changes a sale.
     *
     * Stock, window, limit, price and admission can change until the sale is over, all in one step. If one of them is
     * refused, nothing changes. Title, product, description and image can change at any time. Fields that already have
     * the value do not change. With `If-Match`, the sale changes only if nothing that this operation changes was
     * changed since it was read. Its `ETag` is strong if the caller may change it. Such a request changes the stock
     * alone, the texts alone, or window, limit, price and admission.
     */
    public Sale changeSale(String saleId, SaleChange body) {
        return json(new Call("PATCH", "/v1/sales/" + part(saleId)).keyed().body(body), Sale.class);
    }

    /**
     * Orders of a sale with their states. Sellers see those of their own sales.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Order> listOrders(String saleId) {
        return pages(new Call("GET", "/v1/sales/" + part(saleId) + "/orders"), Order.class, false);
    }

    /**
     * Orders of a sale with their states. Sellers see those of their own sales.
     *
     * Needs a token with the scope `read:any`.
     */
    public Pager<Order> listOrders(String saleId, ListOrdersQuery query) {
        return pages(new Call("GET", "/v1/sales/" + part(saleId) + "/orders").query(query), Order.class, false);
    }

    /**
     * Cancels the held orders of a sale that match a filter, in parts.
     *
     * The units of a cancelled order are for sale again, unless the sale is closed, and free the buyer's limit. Pause
     * or close the sale first if they must not be sold. Each buyer sees the order `cancelled`, and the shop's webhooks
     * get `order.cancelled`. A buyer who pays a cancelled order is owed the money. One request cancels up to `limit`
     * orders, the newest first. Repeat it with `after` from `next` until there is no `next`. A part may have no order
     * and still a `next`. An order that is paid, or expires, at the same moment does not change: `refusals` counts them
     * by reason. The operation log lists the orders of each part under the sale. The parts of a sale per minute are
     * limited, apart from its changes. Sellers cancel held orders of their own sales with `campaigns:write`. A
     * repetition with the same key cancels the same orders, even if the first request broke off between two of them.
     */
    public OrderCancellations cancelOrders(String saleId) {
        return json(new Call("POST", "/v1/sales/" + part(saleId) + "/orders/cancel").keyed(), OrderCancellations.class);
    }

    /**
     * Cancels the held orders of a sale that match a filter, in parts.
     *
     * The units of a cancelled order are for sale again, unless the sale is closed, and free the buyer's limit. Pause
     * or close the sale first if they must not be sold. Each buyer sees the order `cancelled`, and the shop's webhooks
     * get `order.cancelled`. A buyer who pays a cancelled order is owed the money. One request cancels up to `limit`
     * orders, the newest first. Repeat it with `after` from `next` until there is no `next`. A part may have no order
     * and still a `next`. An order that is paid, or expires, at the same moment does not change: `refusals` counts them
     * by reason. The operation log lists the orders of each part under the sale. The parts of a sale per minute are
     * limited, apart from its changes. Sellers cancel held orders of their own sales with `campaigns:write`. A
     * repetition with the same key cancels the same orders, even if the first request broke off between two of them.
     */
    public OrderCancellations cancelOrders(String saleId, NewOrderCancellations body) {
        Call call = new Call("POST", "/v1/sales/" + part(saleId) + "/orders/cancel")
                .keyed()
                .body(body);
        return json(call, OrderCancellations.class);
    }

    /**
     * Starts a scheduled sale now: its window begins at this moment, and its end stays. A live sale does not change.
     *
     * Waiting users can claim at once. A start that was announced for later is over: tell the users who planned with
     * it. Resume a paused sale first.
     */
    public State startSale(String saleId) {
        return json(new Call("POST", "/v1/sales/" + part(saleId) + "/start").keyed(), State.class);
    }

    /**
     * Ends the browser's session. The token stays valid until it expires or is revoked.
     *
     * Needs no token.
     */
    public void endSession() {
        json(new Call("DELETE", "/v1/session"), Void.class);
    }

    /**
     * The signed-in user, by a session or a token.
     *
     * Needs a token, of any scope.
     */
    public Session getSession() {
        return json(new Call("GET", "/v1/session"), Session.class);
    }

    /**
     * Exchanges a token for a session: a cookie that the browser sends instead of the token.
     *
     * The cookie lasts as long as the token. With the cookie, requests that change something are accepted from pages of
     * the same origin only.
     */
    public Session beginSession() {
        return json(new Call("POST", "/v1/session"), Session.class);
    }

    /**
     * Statistics of this node for each of the last 300 seconds: claims by outcome, latency, and settlement lag.
     *
     * The node samples them once a second, for all readers. With `Accept: text/event-stream` it is a stream: an event
     * `stats` with such a body at once and then once a second. A stream ends after a while, or because the service
     * stops: connect again, as browsers do automatically. `/metrics` has the same counters, since the start.
     */
    public StatsList readStats() {
        return json(new Call("GET", "/v1/stats"), StatsList.class);
    }

    /**
     * Statistics of this node for each of the last 300 seconds: claims by outcome, latency, and settlement lag.
     *
     * The node samples them once a second, for all readers. With `Accept: text/event-stream` it is a stream: an event
     * `stats` with such a body at once and then once a second. A stream ends after a while, or because the service
     * stops: connect again, as browsers do automatically. `/metrics` has the same counters, since the start.
     */
    public StatsList readStats(ReadStatsQuery query) {
        return json(new Call("GET", "/v1/stats").query(query), StatsList.class);
    }

    /**
     * Moves the clock of a service for development forward.
     *
     * Holds, windows and retention follow within a second, as if the time had passed. The clock never moves back; a
     * restart with `--dev` keeps it. Tokens expire by it, too. Only `qiang serve --dev` on the embedded engine has such
     * a clock.
     */
    public ClockReading advanceTestClock(ClockStep body) {
        return json(new Call("POST", "/v1/test-clock/advance").keyed().body(body), ClockReading.class);
    }

    /**
     * Webhooks and their status: the caller's own ones, and with the scope `admin` all.
     *
     * Needs a token with the scope `campaigns:write`.
     */
    public Page<Webhook> listWebhooks() {
        return page(new Call("GET", "/v1/webhooks"), Webhook.class);
    }

    /**
     * Creates a webhook: an endpoint that receives events.
     *
     * It receives every event that is settled from then on and fits its filter, at least once. Events of one order
     * arrive in order. The answer has the secret that signs the requests. A seller's webhook receives the events of the
     * seller's own campaigns alone, and the seller manages it. A seller may have 5 webhooks.
     */
    public Webhook createWebhook(NewWebhook body) {
        return json(new Call("POST", "/v1/webhooks").keyed().body(body), Webhook.class);
    }

    /**
     * Deletes a webhook. Requests may still arrive for 5 seconds and `webhooks.timeout_ms`.
     *
     * Needs a token with one of the scopes `campaigns:write`, `admin`.
     */
    public void deleteWebhook(String webhookId) {
        json(new Call("DELETE", "/v1/webhooks/" + part(webhookId)).keyed(), Void.class);
    }

    /**
     * A webhook and its status.
     *
     * Needs a token with one of the scopes `campaigns:write`, `admin`.
     */
    public Webhook getWebhook(String webhookId) {
        return json(new Call("GET", "/v1/webhooks/" + part(webhookId)), Webhook.class);
    }

    /**
     * Changes a webhook.
     *
     * The change applies to deliveries from then on, also to events that wait for a retry. Requests as before may still
     * arrive for 5 seconds and `webhooks.timeout_ms`. The secret has an operation of its own. Changes, tests and
     * repeated deliveries of one webhook have a limit per minute.
     */
    public Webhook changeWebhook(String webhookId, WebhookChange body) {
        return json(new Call("PATCH", "/v1/webhooks/" + part(webhookId)).keyed().body(body), Webhook.class);
    }

    /**
     * Attempts to deliver events to a webhook, newest first.
     *
     * The log has every attempt of the last `webhooks.attempt_ttl_ms`, also of events that were delivered. The state of
     * an event is that of its last attempt. `response_body` has the first characters of the endpoint's answer. Test
     * events are not logged.
     */
    public Pager<WebhookDelivery> listDeliveries(String webhookId) {
        return pages(new Call("GET", "/v1/webhooks/" + part(webhookId) + "/deliveries"), WebhookDelivery.class, false);
    }

    /**
     * Attempts to deliver events to a webhook, newest first.
     *
     * The log has every attempt of the last `webhooks.attempt_ttl_ms`, also of events that were delivered. The state of
     * an event is that of its last attempt. `response_body` has the first characters of the endpoint's answer. Test
     * events are not logged.
     */
    public Pager<WebhookDelivery> listDeliveries(String webhookId, ListDeliveriesQuery query) {
        Call call = new Call("GET", "/v1/webhooks/" + part(webhookId) + "/deliveries")
                .query(query);
        return pages(call, WebhookDelivery.class, false);
    }

    /**
     * Delivers one event once more, or all events that were given up.
     *
     * The events are due at once, even if the webhook is disabled. An event that is sent again may come after later
     * events of its order. At most 500 events of a webhook wait at a time: repeat the request, with another key, for
     * the rest. A repetition with the same key acts only if the first request was not carried out.
     */
    public Webhook redeliverEvents(String webhookId, WebhookRedelivery body) {
        Call call = new Call("POST", "/v1/webhooks/" + part(webhookId) + "/redeliver")
                .keyed()
                .body(body);
        return json(call, Webhook.class);
    }

    /**
     * Makes an endpoint's next attempt due at once, even if it is disabled.
     *
     * With `since`, events that were decided from then on are delivered again. A repetition with the same key acts only
     * if the first request was not carried out.
     */
    public Webhook redriveWebhook(String webhookId) {
        return json(new Call("POST", "/v1/webhooks/" + part(webhookId) + "/redrive").keyed(), Webhook.class);
    }

    /**
     * Makes an endpoint's next attempt due at once, even if it is disabled.
     *
     * With `since`, events that were decided from then on are delivered again. A repetition with the same key acts only
     * if the first request was not carried out.
     */
    public Webhook redriveWebhook(String webhookId, WebhookRedrive body) {
        return json(new Call("POST", "/v1/webhooks/" + part(webhookId) + "/redrive").keyed().body(body), Webhook.class);
    }

    /**
     * Gives a webhook a fresh secret. For a while, events are also signed with the previous one.
     *
     * Needs a token with one of the scopes `campaigns:write`, `admin`.
     */
    public Webhook rotateSecret(String webhookId) {
        return json(new Call("POST", "/v1/webhooks/" + part(webhookId) + "/secret").keyed(), Webhook.class);
    }

    /**
     * Gives a webhook a fresh secret. For a while, events are also signed with the previous one.
     *
     * Needs a token with one of the scopes `campaigns:write`, `admin`.
     */
    public Webhook rotateSecret(String webhookId, WebhookRotation body) {
        return json(new Call("POST", "/v1/webhooks/" + part(webhookId) + "/secret").keyed().body(body), Webhook.class);
    }

    /**
     * Sends a `webhook.test` to an endpoint at once, and reports the result.
     *
     * A repetition with the same key sends nothing. If the first answer was lost before it was stored, it sends the
     * same event again, with the same `webhook-id`.
     */
    public WebhookTest testWebhook(String webhookId) {
        return json(new Call("POST", "/v1/webhooks/" + part(webhookId) + "/test").keyed(), WebhookTest.class);
    }

    /**
     * Withdrawals, newest first.
     *
     * Users see their own. With the scope `withdraw` or `read:any` the list has those of all users.
     */
    public Pager<Withdrawal> listWithdrawals() {
        return pages(new Call("GET", "/v1/withdrawals"), Withdrawal.class, false);
    }

    /**
     * Withdrawals, newest first.
     *
     * Users see their own. With the scope `withdraw` or `read:any` the list has those of all users.
     */
    public Pager<Withdrawal> listWithdrawals(ListWithdrawalsQuery query) {
        return pages(new Call("GET", "/v1/withdrawals").query(query), Withdrawal.class, false);
    }
}
