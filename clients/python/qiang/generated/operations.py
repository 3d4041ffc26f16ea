"""The operations of the document.

Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.
"""

from __future__ import annotations

from datetime import datetime

from ..call import Caller
from ..pager import Page, Pager
from .enums import (
    ActionKind,
    OrderState,
    Phase,
    PostingKind,
)
from .models import (
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
    PartitionDetail,
    Partitions,
    Payment,
    PaymentRecord,
    PaymentReport,
    Place,
    Posting,
    QuarantinedEntry,
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
)


class Operations(Caller):
    """The operations of the document."""

    def get_account(self, user: str) -> Account:
        """Balances of a user.

        Users see their own account. Other accounts need the scope `read:any`.
        """
        return self._json("GET", f"/v1/accounts/{self._part(user)}", Account)

    def list_claims(self, user: str, *, after: str | None = None, limit: int | None = None) -> Pager[Claim]:
        """Shares of red packets that a user has, newest first.

        Users see their own. Other users' shares need the scope `read:any`.
        """
        return self._pages(f"/v1/accounts/{self._part(user)}/claims", Claim, query={"limit": limit}, after=after)

    def make_deposit(self, user: str, body: NewDeposit) -> Deposit:
        """Records a deposit: money from outside for a user's account.

        Needs a token with the scope `deposit`.
        """
        return self._json("POST", f"/v1/accounts/{self._part(user)}/deposits", Deposit, body=body, keyed=True)

    def get_deposit(self, user: str, deposit_id: str) -> Deposit:
        """A deposit.

        Users see their own. Other users' deposits need the scope `deposit` or `read:any`.
        """
        return self._json("GET", f"/v1/accounts/{self._part(user)}/deposits/{self._part(deposit_id)}", Deposit)

    def reverse_deposit(self, user: str, deposit_id: str, body: NewReversal | None = None) -> Reversal:
        """Reverses a deposit out of the user's account, which must hold the money: an amount, or all that is left of
        it.

        A request without an amount reverses what is left, and a repetition changes nothing. One with an amount needs an
        `Idempotency-Key`: the same key again changes nothing, and another key reverses the amount once more.
        """
        return self._json(
            "POST",
            f"/v1/accounts/{self._part(user)}/deposits/{self._part(deposit_id)}/reversal",
            Reversal,
            body=body,
            keyed=True,
        )

    def list_user_orders(
        self,
        user: str,
        *,
        state: OrderState | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Order]:
        """Orders of a user, newest first.

        Users see their own. Other users' orders need the scope `read:any`.
        """
        return self._pages(
            f"/v1/accounts/{self._part(user)}/orders",
            Order,
            query={
                "state": state,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )

    def list_postings(
        self,
        user: str,
        *,
        kind: PostingKind | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Posting]:
        """Postings of a user's accounts, newest first.

        Users see their own. Other users' postings need the scope `read:any`.
        """
        return self._pages(
            f"/v1/accounts/{self._part(user)}/postings",
            Posting,
            query={"kind": kind, "limit": limit},
            after=after,
        )

    def make_transfer(self, user: str, body: NewTransfer) -> Transfer:
        """Moves available money from one user's account to another's, such as that of a seller who has left.

        Both users see the posting `transfer` in their accounts. Refunds that are due do not move. Later payments and
        returns of the first user's campaigns still change the first account, and returns may overdraw it. The reference
        makes repetition safe.
        """
        return self._json("POST", f"/v1/accounts/{self._part(user)}/transfers", Transfer, body=body, keyed=True)

    def make_withdrawal(self, user: str, body: NewWithdrawal) -> Withdrawal:
        """Records a withdrawal. The account's balance must cover it.

        Post the withdrawal first, and pay the money out once it is posted. The reference makes repetition safe.
        """
        return self._json("POST", f"/v1/accounts/{self._part(user)}/withdrawals", Withdrawal, body=body, keyed=True)

    def list_audits(self) -> Page[Audit]:
        """The last audits of this node, without their findings.

        Needs a token with the scope `admin`.
        """
        return self._page("GET", "/v1/audits", Audit)

    def start_audit(self) -> Audit:
        """Audits everything that this node works on: proves each invariant again from the rows.

        The rows are read as of one moment, while the service runs. One audit runs at a time; during it, this returns
        the running one. This node keeps its last eight audits until it stops; other nodes do not have them.
        """
        return self._json("POST", "/v1/audits", Audit)

    def get_audit(self, audit_id: str) -> Audit:
        """An audit of this node: its status and its findings, with the first violations.

        Needs a token with the scope `admin`.
        """
        return self._json("GET", f"/v1/audits/{self._part(audit_id)}", Audit)

    def archive_campaign(self, campaign_id: str) -> State:
        """Archives a closed campaign: lists leave it out, unless a filter includes it. Idempotent.

        Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
        """
        return self._json("POST", f"/v1/campaigns/{self._part(campaign_id)}/archive", State, keyed=True)

    def get_audience(self, campaign_id: str) -> CampaignAudience:
        """Audience of a campaign, with the names of users.

        Owners see those of their own campaigns. Other campaigns need the scope `read:any`.
        """
        return self._json("GET", f"/v1/campaigns/{self._part(campaign_id)}/audience", CampaignAudience)

    def close_campaign(self, campaign_id: str) -> State:
        """Ends a campaign now and returns what is left. Idempotent.

        Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
        """
        return self._json("POST", f"/v1/campaigns/{self._part(campaign_id)}/close", State, keyed=True)

    def get_grant_timeline(self, campaign_id: str) -> GrantTimeline:
        """Grants of a campaign over its whole life.

        A campaign with more than 512 grants has 512 evenly spaced ones, with the last one. Its curve of grants is exact
        at these points; the share of paid orders is an estimate. The rows are read by key, and a node answers from
        memory for five seconds. Owners see those of their own campaigns.
        """
        return self._json("GET", f"/v1/campaigns/{self._part(campaign_id)}/grant-timeline", GrantTimeline)

    def sign_invitation(self, campaign_id: str, body: NewInvitation | None = None) -> Invitation:
        """Signs an invitation.

        An invitation is valid for any number of users, and for this campaign only.
        """
        return self._json("POST", f"/v1/campaigns/{self._part(campaign_id)}/invitations", Invitation, body=body)

    def get_campaign_metadata(self, campaign_id: str) -> Metadata:
        """Metadata of a campaign.

        Its seller or sender reads it; others need the scope `read:any`.
        """
        return self._json("GET", f"/v1/campaigns/{self._part(campaign_id)}/metadata", Metadata)

    def change_campaign_metadata(self, campaign_id: str, body: MetadataChange) -> Metadata:
        """Changes the metadata of a campaign. Users do not see it.

        Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
        """
        return self._json("PATCH", f"/v1/campaigns/{self._part(campaign_id)}/metadata", Metadata, body=body, keyed=True)

    def pause_campaign(self, campaign_id: str) -> State:
        """Pauses a campaign, which stops its grants. Idempotent. A campaign that is paused before its start grants
        nothing at its start.

        A pause stops claims only. Holds of unpaid orders continue: users can pay and cancel during the pause, and an
        unpaid order expires at its `hold_until`. The window does not move: at `ends_at` a paused campaign closes for
        good.
        """
        return self._json("POST", f"/v1/campaigns/{self._part(campaign_id)}/pause", State, keyed=True)

    def get_place(self, campaign_id: str) -> Place:
        """The caller's queue entry in a campaign, or its result.

        With `Accept: text/event-stream` it is a stream: an event `place` at once and after progress, an event `result`
        at the end. A stream without a result ended at its time limit, or because the service stops: connect again. The
        result of an entry can be read for `queue.result_ttl_ms`.
        """
        return self._json("GET", f"/v1/campaigns/{self._part(campaign_id)}/queue-entry", Place)

    def resume_campaign(self, campaign_id: str) -> State:
        """Resumes a paused campaign. Idempotent. Before its start it is scheduled again.

        Needs a token with one of the scopes `send`, `campaigns:write:any`, `campaigns:write`.
        """
        return self._json("POST", f"/v1/campaigns/{self._part(campaign_id)}/resume", State, keyed=True)

    def get_campaign_state(self, campaign_id: str) -> State:
        """A campaign's present numbers. No token is needed, and caches may keep them for a second.

        The entity tag covers everything except `now`. An answer 304 has the server's time in `Date`.
        """
        return self._json("GET", f"/v1/campaigns/{self._part(campaign_id)}/state", State)

    def list_deposits(
        self,
        *,
        user: str | None = None,
        reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Deposit]:
        """Deposits, newest first.

        Users see their own. With the scope `deposit` or `read:any` the list has those of all users.
        """
        return self._pages(
            "/v1/deposits",
            Deposit,
            query={
                "user": user,
                "reference": reference,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )

    def list_events(self, *, after: str | None = None, limit: int | None = None) -> Pager[RecordedEvent]:
        """Events of settled changes, in the order in which endpoints receive them.

        Events are recorded while an endpoint subscribes to them, and kept for `webhooks.event_ttl_ms`. `id` is the
        `webhook-id` of the deliveries, and the other fields are their body. `next` is present on each page: later
        events follow it, and none is skipped.
        """
        return self._pages("/v1/events", RecordedEvent, query={"limit": limit}, after=after, endless=True)

    def list_actions(
        self,
        *,
        subject: str | None = None,
        action: ActionKind | None = None,
        outcome: str | None = None,
        order: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Action]:
        """Changes with their actors: of one subject, or of all.

        Needs a token with the scope `read:any`.
        """
        return self._pages(
            "/v1/operation-log",
            Action,
            query={"subject": subject, "action": action, "outcome": outcome, "order": order, "limit": limit},
            after=after,
        )

    def list_all_orders(
        self,
        *,
        campaign: str | None = None,
        user: str | None = None,
        reference: str | None = None,
        state: OrderState | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Order]:
        """Orders, newest first.

        Users see their own, and sellers those of their own sale `campaign`. With the scope `read:any` the list has the
        orders of all users. With `state` and without `user`, a page may have fewer orders than `limit`, or none, and
        still a `next`. Orders with a `reference` are listed by id: those of the caller's own sales or, with `read:any`,
        of all.
        """
        return self._pages(
            "/v1/orders",
            Order,
            query={
                "campaign": campaign,
                "user": user,
                "reference": reference,
                "state": state,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )

    def get_order(self, order_id: str) -> Order:
        """An order.

        Buyers see their own orders, sellers those of their sales. Other orders need the scope `read:any`.
        """
        return self._json("GET", f"/v1/orders/{self._part(order_id)}", Order)

    def cancel_order(self, order_id: str, body: NewCancellation | None = None) -> Order:
        """Cancels a held order: some of its units, or all.

        The units are for sale again, and free the buyer's limit. An order of which some units are cancelled stays
        `held` with the other ones: its `quantity` and its `amount` fall, and a payment of the new amount pays it. If no
        unit is left, the order is `cancelled`. A request without a quantity cancels the order, and a repetition changes
        nothing. One with a quantity needs an `Idempotency-Key`: the same key again changes nothing, and another key
        cancels as many units again. Buyers may cancel their own orders. Sellers cancel orders of their own sales with
        the scope `campaigns:write`; other orders need `admin`. An order that costs nothing is paid from the start: it
        is returned, and no refund is due.
        """
        return self._json("POST", f"/v1/orders/{self._part(order_id)}/cancellation", Order, body=body, keyed=True)

    def extend_hold(self, order_id: str, body: NewHoldExtension) -> Order:
        """Extends the hold of a held order, once.

        Use it while a payment service still decides about a payment. The order keeps its units until the new
        `hold_until`, and a payment until then pays it. The buyer sees the new end, and webhooks get
        `order.hold_extended`. The extension is at most the hold of the sale. An extended order can be paid and
        cancelled like any other one. A sale that has ended or closed keeps its held orders, and their holds can be
        extended too. The same extension again changes nothing and is answered with the order, also once it is paid.
        Another extension of the same order is refused. Sellers extend holds of their own sales with the scope
        `campaigns:write`; other orders need `admin`.
        """
        return self._json("POST", f"/v1/orders/{self._part(order_id)}/hold-extension", Order, body=body, keyed=True)

    def get_order_metadata(self, order_id: str) -> Metadata:
        """Metadata of an order.

        The seller of its sale reads it; others need the scope `read:any`. The buyer does not see it.
        """
        return self._json("GET", f"/v1/orders/{self._part(order_id)}/metadata", Metadata)

    def change_order_metadata(self, order_id: str, body: MetadataChange) -> Metadata:
        """Changes the metadata of an order. The buyer does not see it.

        The seller of its sale may do this, and others with the scope `campaigns:write:any`.
        """
        return self._json("PATCH", f"/v1/orders/{self._part(order_id)}/metadata", Metadata, body=body, keyed=True)

    def pay_order(self, order_id: str, body: NewPayment) -> Payment:
        """Records a payment that arrived. The payment service calls this.

        The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
        currency is answered `refund_due`: it is refunded, and the order does not change. An order that costs nothing is
        paid when it is granted and needs no report; a report of 0 is answered `paid` and changes nothing. The money of
        a refused report is not recorded. The service logs and counts the report, and lists it in the operation log and
        under its reference. It refuses an unknown order, and an order of another user than `user`. It refuses a
        reference that was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an
        invalid currency, and a `paid_at` in the future or before the order. It refuses money that it would refund if
        the order has reached its limit of payments with a refund due.
        """
        return self._json("POST", f"/v1/orders/{self._part(order_id)}/payment", Payment, body=body, keyed=True)

    def get_refunds(self, order_id: str) -> Refunds:
        """Refunds due to the buyer of an order, and refunds paid.

        Buyers see their own, and sellers those of their sales. Other users need the scope `read:any`.
        """
        return self._json("GET", f"/v1/orders/{self._part(order_id)}/refunds", Refunds)

    def refund_order(self, order_id: str, body: NewRefund) -> Refund:
        """Records that a refund due for an order was paid to its buyer, in whole or in part.

        Refunds are due for payments that did not pay the order, as they arrived, and for what paid units that were
        returned. The caller posts a refund after the money was paid back outside. The reference makes repetition safe.
        """
        return self._json("POST", f"/v1/orders/{self._part(order_id)}/refunds", Refund, body=body, keyed=True)

    def reverse_refund(self, order_id: str, reference: str) -> RefundReversal:
        """Reverses a recorded refund: its money is due to the buyer again.

        For a refund that the payment service did not carry out or returned, or that was recorded by mistake. The whole
        refund is reversed, once, and it stays in the lists with `reversed`. A further refund of the order needs another
        reference: the reference of a reversed refund still names that one. The buyer sees the refund due again.
        """
        return self._json(
            "POST",
            f"/v1/orders/{self._part(order_id)}/refunds/{self._part(reference)}/reversal",
            RefundReversal,
            keyed=True,
        )

    def return_order(self, order_id: str, body: NewReturn | None = None) -> Order:
        """Returns a paid order: some of its units, or all that are left.

        The units are for sale again, and a refund is due to the buyer. It is the returned fraction of what paid the
        order, rounded down over all returns so far. So all returns together refund what paid it. The seller may return
        an order at any time with the scope `campaigns:write`, and other users with `admin`. Buyers need no scope within
        the return period, which starts at the grant. A request without a quantity returns what is left, and a
        repetition changes nothing. One with a quantity needs an `Idempotency-Key`: the same key again changes nothing,
        and another key returns as many units again.
        """
        return self._json("POST", f"/v1/orders/{self._part(order_id)}/return", Order, body=body, keyed=True)

    def list_partitions(self) -> Partitions:
        """All partitions with their readiness and lag, as this node sees them.

        Each partition is test-written at most once a second.
        """
        return self._json("GET", "/v1/partitions", Partitions)

    def get_partition(self, partition: int) -> PartitionDetail:
        """A partition with its nodes, repairs and withheld units.

        Needs a token with the scope `admin`.
        """
        return self._json("GET", f"/v1/partitions/{self._part(partition)}", PartitionDetail)

    def reconcile_partition(self, partition: int) -> Reconciled:
        """Compares the live campaigns of a partition with the ledger at once, and reports the differences. Nothing is
        changed.

        Nodes on Redis do this continuously: `reconciliation` of a partition has their findings.
        """
        return self._json("POST", f"/v1/partitions/{self._part(partition)}/reconcile", Reconciled, keyed=True)

    def release_withheld(self, partition: int) -> Released:
        """Releases the units that repairs have withheld in a partition.

        Use it only if the users who had received them shall not get them.
        """
        return self._json("POST", f"/v1/partitions/{self._part(partition)}/release-withheld", Released, keyed=True)

    def repair_partition(self, partition: int) -> Repair:
        """Repairs a partition after data loss, without waiting for missing node reports.

        If nothing was lost, nothing is done. Nodes repair automatically, unless they are configured not to.
        """
        return self._json("POST", f"/v1/partitions/{self._part(partition)}/repair", Repair, keyed=True)

    def resume_partition(self, partition: int) -> Resumed:
        """Ends the halt of a partition without a repair.

        This accepts the loss: a user whose answer was lost does not get it back. Repair the partition instead if the
        ledger is available.
        """
        return self._json("POST", f"/v1/partitions/{self._part(partition)}/resume", Resumed, keyed=True)

    def list_payments(
        self,
        *,
        user: str | None = None,
        outcome: str | None = None,
        reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[PaymentRecord]:
        """Recorded payments, newest first.

        Users see payments for their own orders. With the scope `pay` or `read:any` the list has those of all users.
        Refused reports are in the operation log. With `outcome` and neither `user` nor `reference`, a page may have
        fewer payments than `limit`, or none, and still a `next`.
        """
        return self._pages(
            "/v1/payments",
            PaymentRecord,
            query={
                "user": user,
                "outcome": outcome,
                "reference": reference,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )

    def report_payment(self, body: PaymentReport) -> Payment:
        """Records a payment that arrived: with a token, or signed as Standard Webhooks specifies.

        The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
        currency is answered `refund_due`: it is refunded, and the order does not change. The money of a refused report
        is not recorded. The service logs and counts the report, and lists it in the operation log and under its
        reference. It refuses an unknown order, and an order of another user than `user`. It refuses a reference that
        was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an invalid currency,
        and a `paid_at` in the future or before the order. It refuses money that it would refund if the order has
        reached its limit of payments with a refund due. The signature covers `webhook-id`, `webhook-timestamp`
        (seconds) and the body, joined by dots. It is HMAC-SHA256 with a secret that the installation and the payment
        service share. A signature that is too old is refused.
        """
        return self._json("POST", "/v1/payments", Payment, body=body, keyed=True)

    def get_payment(self, reference: str) -> PaymentRecord:
        """Outcome of a payment.

        Buyers see those of their orders, sellers those of their sales. Other payments need the scope `pay` or
        `read:any`. With `read:any` the newest refused report is found, if no payment with the reference was recorded.
        """
        return self._json("GET", f"/v1/payments/{self._part(reference)}", PaymentRecord)

    def receive_stripe_event(self, account: str, body: StripeWebhookEvent) -> NotificationReceipt:
        """Records payments and refunds that an event of Stripe reports.

        The signature is the authentication: HMAC-SHA256 with a secret of the account's webhook endpoint. Another
        signature is refused with 401, and so is an unknown account. An event is acknowledged once its reports are
        recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. Stripe then
        repeats it.
        """
        return self._json(
            "POST",
            f"/v1/providers/stripe/{self._part(account)}/notifications",
            NotificationReceipt,
            body=body,
        )

    def receive_wechat_notification(self, account: str, body: WechatPayNotification) -> None:
        """Records payments and refunds that a notification of WeChat Pay reports.

        The signature is the authentication: RSA-SHA256 by a configured certificate or public key of the platform.
        Another signature is refused with 401, and so is an unknown account. A notification is acknowledged with 204
        once its reports are recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse
        it. The problem then also has `code` and `message`, and WeChat Pay repeats the notification.
        """
        self._nothing("POST", f"/v1/providers/wechat/{self._part(account)}/notifications", body=body)

    def list_quarantine(
        self,
        *,
        partition: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[QuarantinedEntry]:
        """Quarantined entries: refused by the ledger, or waiting for a refused one.

        Needs a token with the scope `admin`.
        """
        return self._pages(
            "/v1/quarantine",
            QuarantinedEntry,
            query={"partition": partition, "limit": limit},
            after=after,
        )

    def get_quarantined_entry(self, entry: str) -> QuarantinedEntry:
        """An entry in quarantine, with the reason why the ledger refused it.

        Needs a token with the scope `admin`.
        """
        return self._json("GET", f"/v1/quarantine/{self._part(entry)}", QuarantinedEntry)

    def redrive_entry(self, entry: str) -> Redriven:
        """Settles a quarantined entry after its cause was removed.

        If it is refused again, or waits for another entry, it stays in quarantine. A repetition with the same key gets
        the first answer, or `settled` if that was lost and the entry is settled since.
        """
        return self._json("POST", f"/v1/quarantine/{self._part(entry)}/redrive", Redriven, keyed=True)

    def list_red_packets(
        self,
        *,
        owner: str | None = None,
        all: bool | None = None,
        product_id: str | None = None,
        reference: str | None = None,
        phase: Phase | None = None,
        open: bool | None = None,
        archived: bool | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        order: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[ListedRedPacket]:
        """Red packets of the caller.

        Red packets of other senders need the scope `read:any`.
        """
        return self._pages(
            "/v1/red-packets",
            ListedRedPacket,
            query={
                "owner": owner,
                "all": all,
                "product_id": product_id,
                "reference": reference,
                "phase": phase,
                "open": open,
                "archived": archived,
                "created_after": created_after,
                "created_before": created_before,
                "order": order,
                "limit": limit,
            },
            after=after,
        )

    def create_red_packet(self, body: NewRedPacket) -> RedPacket:
        """Sends a red packet from the caller's account.

        Needs a token with the scope `send`.
        """
        return self._json("POST", "/v1/red-packets", RedPacket, body=body, keyed=True)

    def create_red_packets(self, body: NewRedPackets) -> Page[RedPacketResult]:
        """Sends red packets from the caller's account, each as `createRedPacket` does.

        Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
        example for lack of money, the others are not affected; with the mode `all`, the whole request is refused with
        that problem, its `errors` name the refused packets, and none is sent. An invalid field always refuses the whole
        request before anything is done. Repeat the request after a lost answer: created packets are replayed, and the
        others are created.
        """
        return self._page("POST", "/v1/red-packets/batch", RedPacketResult, body=body)

    def create_server_seed(self) -> ServerSeed:
        """Commits the service to a server seed of a red packet, before it knows the client seed.

        Needs a token with the scope `send`.
        """
        return self._json("POST", "/v1/red-packets/server-seeds", ServerSeed)

    def get_red_packet(self, red_packet_id: str) -> RedPacket:
        """A red packet: its commitment and its state. No token is needed: a user who has the link sees the packet
        before signing in. `luckiest` is only for users who may see the draws.

        The entity tag covers everything that the caller may see, except `now`. An answer 304 has the server's time in
        `Date`.
        """
        return self._json("GET", f"/v1/red-packets/{self._part(red_packet_id)}", RedPacket)

    def list_shares(
        self,
        red_packet_id: str,
        *,
        from_number: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Claim]:
        """Shares that were granted.

        Needs a token with the scope `read:any`.
        """
        return self._pages(
            f"/v1/red-packets/{self._part(red_packet_id)}/claims",
            Claim,
            query={"from_number": from_number, "limit": limit},
            after=after,
        )

    def list_refunds(
        self,
        *,
        user: str | None = None,
        reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Refund]:
        """Refunds that were paid, newest first.

        Buyers see their own. With the scope `pay` or `read:any` the list has those of all users.
        """
        return self._pages(
            "/v1/refunds",
            Refund,
            query={
                "user": user,
                "reference": reference,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )

    def list_owed_orders(
        self,
        *,
        owner: str | None = None,
        all: bool | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[OwedOrder]:
        """Orders with a refund due, ordered by sale.

        Callers see those of their own sales. Those of other sellers need the scope `read:any`.
        """
        return self._pages(
            "/v1/refunds-due",
            OwedOrder,
            query={"owner": owner, "all": all, "limit": limit},
            after=after,
        )

    def list_sales(
        self,
        *,
        owner: str | None = None,
        all: bool | None = None,
        product_id: str | None = None,
        reference: str | None = None,
        phase: Phase | None = None,
        open: bool | None = None,
        archived: bool | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        order: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Sale]:
        """Sales of the caller.

        Sales of other sellers need the scope `read:any`. With `open`, any user lists the sales of all sellers that
        every user may buy in.
        """
        return self._pages(
            "/v1/sales",
            Sale,
            query={
                "owner": owner,
                "all": all,
                "product_id": product_id,
                "reference": reference,
                "phase": phase,
                "open": open,
                "archived": archived,
                "created_after": created_after,
                "created_before": created_before,
                "order": order,
                "limit": limit,
            },
            after=after,
        )

    def create_sale(self, body: NewSale) -> Sale:
        """Opens a sale.

        Needs a token with one of the scopes `campaigns:write`, `campaigns:write:any`.
        """
        return self._json("POST", "/v1/sales", Sale, body=body, keyed=True)

    def create_sales(self, body: NewSales) -> Page[SaleResult]:
        """Opens sales, each as `createSale` does.

        Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
        example because another campaign has its id, the others are not affected; with the mode `all`, the whole request
        is refused with that problem, its `errors` name the refused sales, and none is created. An invalid field, or a
        seller for whom the token may not act, always refuses the whole request before anything is done. Repeat the
        request after a lost answer: created sales are replayed, and the others are created.
        """
        return self._page("POST", "/v1/sales/batch", SaleResult, body=body)

    def get_sale(self, sale_id: str) -> Sale:
        """A sale and its state. No token is needed: a user who has the link sees the sale before signing in.

        The entity tag covers everything except `now`. It is strong for callers who may change the sale, and serves as
        `If-Match` there; it is weak while the engine's primary or the ledger's latest rows cannot be read. An answer
        304 has the server's time in `Date`.
        """
        return self._json("GET", f"/v1/sales/{self._part(sale_id)}", Sale)

    def change_sale(self, sale_id: str, body: SaleChange) -> Sale:
        """Changes a sale.

        Stock, window, limit, price and admission can change until the sale is over, all in one step. If one of them is
        refused, nothing changes. Title, product, description and image can change at any time. Fields that already have
        the value do not change. With `If-Match`, the sale changes only if nothing that this operation changes was
        changed since it was read. Its `ETag` is strong if the caller may change it. Such a request changes the stock
        alone, the texts alone, or window, limit, price and admission.
        """
        return self._json("PATCH", f"/v1/sales/{self._part(sale_id)}", Sale, body=body, keyed=True)

    def list_orders(
        self,
        sale_id: str,
        *,
        from_number: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Order]:
        """Orders of a sale with their states. Sellers see those of their own sales.

        Needs a token with the scope `read:any`.
        """
        return self._pages(
            f"/v1/sales/{self._part(sale_id)}/orders",
            Order,
            query={"from_number": from_number, "limit": limit},
            after=after,
        )

    def cancel_orders(self, sale_id: str, body: NewOrderCancellations | None = None) -> OrderCancellations:
        """Cancels the held orders of a sale that match a filter, in parts.

        The units of a cancelled order are for sale again, unless the sale is closed, and free the buyer's limit. Pause
        or close the sale first if they must not be sold. Each buyer sees the order `cancelled`, and the shop's webhooks
        get `order.cancelled`. A buyer who pays a cancelled order is owed the money. One request cancels up to `limit`
        orders, the newest first. Repeat it with `after` from `next` until there is no `next`. A part may have no order
        and still a `next`. An order that is paid, or expires, at the same moment does not change: `refusals` counts
        them by reason. The operation log lists the orders of each part under the sale. The parts of a sale per minute
        are limited, apart from its changes. Sellers cancel held orders of their own sales with `campaigns:write`. A
        repetition with the same key cancels the same orders, even if the first request broke off between two of them.
        """
        return self._json(
            "POST",
            f"/v1/sales/{self._part(sale_id)}/orders/cancel",
            OrderCancellations,
            body=body,
            keyed=True,
        )

    def start_sale(self, sale_id: str) -> State:
        """Starts a scheduled sale now: its window begins at this moment, and its end stays. A live sale does not
        change.

        Waiting users can claim at once. A start that was announced for later is over: tell the users who planned with
        it. Resume a paused sale first.
        """
        return self._json("POST", f"/v1/sales/{self._part(sale_id)}/start", State, keyed=True)

    def end_session(self) -> None:
        """Ends the browser's session. The token stays valid until it expires or is revoked.

        Needs no token.
        """
        self._nothing("DELETE", "/v1/session")

    def get_session(self) -> Session:
        """The signed-in user, by a session or a token.

        Needs a token, of any scope.
        """
        return self._json("GET", "/v1/session", Session)

    def begin_session(self) -> Session:
        """Exchanges a token for a session: a cookie that the browser sends instead of the token.

        The cookie lasts as long as the token. With the cookie, requests that change something are accepted from pages
        of the same origin only.
        """
        return self._json("POST", "/v1/session", Session)

    def read_stats(self, *, after: int | None = None) -> StatsList:
        """Statistics of this node for each of the last 300 seconds: claims by outcome, latency, and settlement lag.

        The node samples them once a second, for all readers. With `Accept: text/event-stream` it is a stream: an event
        `stats` with such a body at once and then once a second. A stream ends after a while, or because the service
        stops: connect again, as browsers do automatically. `/metrics` has the same counters, since the start.
        """
        return self._json("GET", "/v1/stats", StatsList, query={"after": after})

    def advance_test_clock(self, body: ClockStep) -> ClockReading:
        """Moves the clock of a service for development forward.

        Holds, windows and retention follow within a second, as if the time had passed. The clock never moves back; a
        restart with `--dev` keeps it. Tokens expire by it, too. Only `qiang serve --dev` on the embedded engine has
        such a clock.
        """
        return self._json("POST", "/v1/test-clock/advance", ClockReading, body=body, keyed=True)

    def list_webhooks(self) -> Page[Webhook]:
        """Webhooks and their status: the caller's own ones, and with the scope `admin` all.

        Needs a token with the scope `campaigns:write`.
        """
        return self._page("GET", "/v1/webhooks", Webhook)

    def create_webhook(self, body: NewWebhook) -> Webhook:
        """Creates a webhook: an endpoint that receives events.

        It receives every event that is settled from then on and fits its filter, at least once. Events of one order
        arrive in order. The answer has the secret that signs the requests. A seller's webhook receives the events of
        the seller's own campaigns alone, and the seller manages it. A seller may have 5 webhooks.
        """
        return self._json("POST", "/v1/webhooks", Webhook, body=body, keyed=True)

    def delete_webhook(self, webhook_id: str) -> None:
        """Deletes a webhook. Requests may still arrive for 5 seconds and `webhooks.timeout_ms`.

        Needs a token with one of the scopes `campaigns:write`, `admin`.
        """
        self._nothing("DELETE", f"/v1/webhooks/{self._part(webhook_id)}", keyed=True)

    def get_webhook(self, webhook_id: str) -> Webhook:
        """A webhook and its status.

        Needs a token with one of the scopes `campaigns:write`, `admin`.
        """
        return self._json("GET", f"/v1/webhooks/{self._part(webhook_id)}", Webhook)

    def change_webhook(self, webhook_id: str, body: WebhookChange) -> Webhook:
        """Changes a webhook.

        The change applies to deliveries from then on, also to events that wait for a retry. Requests as before may
        still arrive for 5 seconds and `webhooks.timeout_ms`. The secret has an operation of its own. Changes, tests and
        repeated deliveries of one webhook have a limit per minute.
        """
        return self._json("PATCH", f"/v1/webhooks/{self._part(webhook_id)}", Webhook, body=body, keyed=True)

    def list_deliveries(
        self,
        webhook_id: str,
        *,
        event: str | None = None,
        order: str | None = None,
        state: OrderState | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[WebhookDelivery]:
        """Attempts to deliver events to a webhook, newest first.

        The log has every attempt of the last `webhooks.attempt_ttl_ms`, also of events that were delivered. The state
        of an event is that of its last attempt. `response_body` has the first characters of the endpoint's answer. Test
        events are not logged.
        """
        return self._pages(
            f"/v1/webhooks/{self._part(webhook_id)}/deliveries",
            WebhookDelivery,
            query={"event": event, "order": order, "state": state, "limit": limit},
            after=after,
        )

    def redeliver_events(self, webhook_id: str, body: WebhookRedelivery) -> Webhook:
        """Delivers one event once more, or all events that were given up.

        The events are due at once, even if the webhook is disabled. An event that is sent again may come after later
        events of its order. At most 500 events of a webhook wait at a time: repeat the request, with another key, for
        the rest. A repetition with the same key acts only if the first request was not carried out.
        """
        return self._json("POST", f"/v1/webhooks/{self._part(webhook_id)}/redeliver", Webhook, body=body, keyed=True)

    def redrive_webhook(self, webhook_id: str, body: WebhookRedrive | None = None) -> Webhook:
        """Makes an endpoint's next attempt due at once, even if it is disabled.

        With `since`, events that were decided from then on are delivered again. A repetition with the same key acts
        only if the first request was not carried out.
        """
        return self._json("POST", f"/v1/webhooks/{self._part(webhook_id)}/redrive", Webhook, body=body, keyed=True)

    def rotate_secret(self, webhook_id: str, body: WebhookRotation | None = None) -> Webhook:
        """Gives a webhook a fresh secret. For a while, events are also signed with the previous one.

        Needs a token with one of the scopes `campaigns:write`, `admin`.
        """
        return self._json("POST", f"/v1/webhooks/{self._part(webhook_id)}/secret", Webhook, body=body, keyed=True)

    def test_webhook(self, webhook_id: str) -> WebhookTest:
        """Sends a `webhook.test` to an endpoint at once, and reports the result.

        A repetition with the same key sends nothing. If the first answer was lost before it was stored, it sends the
        same event again, with the same `webhook-id`.
        """
        return self._json("POST", f"/v1/webhooks/{self._part(webhook_id)}/test", WebhookTest, keyed=True)

    def list_withdrawals(
        self,
        *,
        user: str | None = None,
        reference: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pager[Withdrawal]:
        """Withdrawals, newest first.

        Users see their own. With the scope `withdraw` or `read:any` the list has those of all users.
        """
        return self._pages(
            "/v1/withdrawals",
            Withdrawal,
            query={
                "user": user,
                "reference": reference,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
            },
            after=after,
        )
