//! Bodies of answers. Unknown fields are ignored.

mod audits;
mod operation_log;
mod order_cancellations;
mod partitions;
mod quarantine;
mod stats;
mod webhooks;

pub use self::{
    audits::{AuditCheck, AuditReport, NodeAudit},
    operation_log::Action,
    order_cancellations::{CancellationRefusals, OrderCancellations},
    partitions::{
        NodeSighting, Partition, PartitionDetail, PartitionReconciliation, Partitions, Reconciled,
        Released, Repair, RepairRecord, Resumed, Withheld,
    },
    quarantine::{QuarantinedEntry, Redriven},
    stats::{ClaimLatency, Stats},
    webhooks::{RecordedEvent, Webhook, WebhookDelivery, WebhookTest},
};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    bodies::bodies,
    ids::{CampaignId, ClaimId, Id, IdempotencyKey, OrderId, UserId},
    problem::Problem,
    values::{Money, Timestamp},
    words::{
        AckLevel, AudienceKind, Cover, CreationResult, Draws, ObjectKind, OrderState,
        PaymentOutcome, PaymentPolicy, PaymentRecordOutcome, Phase, PlaceState, PostingKind,
        Requirement, SplitRuleName, UserAccount,
    },
};

bodies! {
    /// Newly settled shares since the last event.
    NewDraws {
        /// The shares, ordered by number.
        claims: Vec<Claim>,
        /// Whether shares are missing before these. The list of shares has them.
        #[serde(default)]
        gap: bool,
    }
    /// A campaign's numbers. Always supply = granted + remaining + returned + withheld.
    State {
        /// Phase of the campaign.
        phase: Phase,
        /// Total shares or units.
        supply: u64,
        /// Shares or units that users have.
        granted: u64,
        /// Shares or units that can still be claimed.
        remaining: u64,
        /// Shares or units returned at the close.
        returned: u64,
        /// Units that repairs withhold, because a user may have been granted them. They are returned at the close.
        withheld: u64,
        /// The first instant at which claims are accepted.
        starts_at: Timestamp,
        /// The first instant at which they no longer are.
        ends_at: Timestamp,
        /// The server's time.
        now: Timestamp,
    }
    /// A flash sale.
    Sale {
        /// Its id.
        id: CampaignId,
        /// `sale`.
        object: ObjectKind,
        /// The seller.
        seller: UserId,
        /// Title that users see.
        title: String,
        /// The seller's id of the product.
        #[serde(skip_serializing_if = "Option::is_none")]
        product_id: Option<Id>,
        /// Description of the product.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// URL of a picture of the product.
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<String>,
        /// URLs of further pictures of the product.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gallery: Vec<String>,
        /// Price of one unit before the discount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        list_price: Option<Money>,
        /// Total units.
        stock: u64,
        /// Maximum units per user.
        per_user_limit: u32,
        /// The price of one unit.
        unit_price: Money,
        /// Time for which an unpaid order keeps its units.
        hold_seconds: u32,
        /// Acknowledgement level of grants.
        ack: AckLevel,
        /// Admission permits per remaining unit, in percent; 0 for no limit.
        admission_percent: u32,
        /// Payments that pay an order although they differ from its price.
        payment_policy: PaymentPolicy,
        /// The tolerance of the policy `accept_with_tolerance`.
        #[serde(skip_serializing_if = "Option::is_none")]
        payment_tolerance: Option<Money>,
        /// Whether claims wait in a queue.
        waiting_room: bool,
        /// Requirements of a claim.
        requirements: Vec<Requirement>,
        /// Users who may claim; absent for all users.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// Time of its creation.
        created_at: Timestamp,
        /// Time of the last change of phase, stock, settings or details.
        updated_at: Timestamp,
        /// Time of its archiving. Lists show archived campaigns only on request.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// The shop's own number. Absent unless the caller may read the metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Metadata of the shop. Absent unless the caller may read it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Its counters.
        state: State,
    }
    /// Hash of the server seed of a future red packet.
    ServerSeed {
        /// Id of the red packet. It must be sent within a day.
        id: CampaignId,
        /// SHA-256 over the id and the server seed.
        server_seed_hash: String,
    }
    /// A red packet.
    RedPacket {
        /// Its id.
        id: CampaignId,
        /// `red_packet`.
        object: ObjectKind,
        /// The sender.
        sender: UserId,
        /// Title that users see.
        title: String,
        /// Total money of all shares.
        total: Money,
        /// Number of shares.
        shares: u32,
        /// Rule that splits the total into shares.
        split: SplitRule,
        /// Acknowledgement level of grants.
        ack: AckLevel,
        /// Users who may see the claimed shares.
        draws: Draws,
        /// Look of the envelope on the pages.
        cover: Cover,
        /// Whether claims wait in a queue.
        waiting_room: bool,
        /// Requirements of a claim.
        requirements: Vec<Requirement>,
        /// Users who may claim; absent for all users.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// Money of the claimed shares.
        claimed: Money,
        /// Money of the shares that can still be claimed.
        remaining: Money,
        /// Money refunded to the sender.
        refunded: Money,
        /// Money of the shares that repairs withhold. It goes back to the sender at the close.
        withheld: Money,
        /// The SHA-256 over split, id, currency and seed.
        commitment: String,
        /// The client seed, which the sender added.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_seed: Option<String>,
        /// Hash of the server seed.
        #[serde(skip_serializing_if = "Option::is_none")]
        server_seed_hash: Option<String>,
        /// The server seed, disclosed together with the seed.
        #[serde(skip_serializing_if = "Option::is_none")]
        server_seed: Option<String>,
        /// Seed of all shares. Disclosed once it gives no user an advantage.
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<String>,
        /// The largest share, once all are claimed or the packet is closed.
        #[serde(skip_serializing_if = "Option::is_none")]
        luckiest: Option<Claim>,
        /// Time of its creation.
        created_at: Timestamp,
        /// Time of the last change of phase, stock, settings or details.
        updated_at: Timestamp,
        /// Time of its archiving. Lists show archived campaigns only on request.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// The shop's own number. Absent unless the caller may read the metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Metadata of the shop. Absent unless the caller may read it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Its counters.
        state: State,
    }
    /// A red packet in a list.
    ListedRedPacket {
        /// Its id.
        id: CampaignId,
        /// `red_packet`.
        object: ObjectKind,
        /// The sender.
        sender: UserId,
        /// Title that users see.
        title: String,
        /// Total money of all shares.
        total: Money,
        /// Number of shares.
        shares: u32,
        /// Rule that splits the total into shares.
        split: SplitRule,
        /// Look of the envelope on the pages.
        cover: Cover,
        /// Time of its creation.
        created_at: Timestamp,
        /// Time of the last change of phase, stock, settings or details.
        updated_at: Timestamp,
        /// Time of its archiving. Lists show archived campaigns only on request.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// The shop's own number. Absent unless the caller may read the metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Metadata of the shop. Absent unless the caller may read it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Its counters, as settled.
        state: State,
    }
    /// Share of a red packet that a user has. A repeated claim gets the same one.
    Claim {
        /// Its id: that of its red packet, and its number.
        id: ClaimId,
        /// `claim`.
        object: ObjectKind,
        /// The red packet.
        campaign: CampaignId,
        /// Its number in the red packet, from 1.
        number: u32,
        /// The user who has it.
        user: UserId,
        /// Its money.
        amount: Money,
        /// Time of the decision.
        created_at: Timestamp,
        /// Acknowledgement level that it has reached. Only in the answer to a claim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ack: Option<AckLevel>,
    }
    /// Order of a sale. A repeated claim gets the same one.
    Order {
        /// Its id: that of its sale, and its number.
        id: OrderId,
        /// `order`.
        object: ObjectKind,
        /// The sale.
        campaign: CampaignId,
        /// Its number in the sale, from 1.
        number: u32,
        /// The buyer.
        user: UserId,
        /// Number of units that were granted.
        quantity: u32,
        /// Units that were returned after the order was paid.
        returned_quantity: u32,
        /// Units cancelled while the order was held. `quantity` and `amount` are without them.
        cancelled_quantity: u32,
        /// The price of all granted units.
        amount: Money,
        /// Its state.
        state: OrderState,
        /// When the hold of an unpaid order ends. Absent in lists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_until: Option<Timestamp>,
        /// Seconds by which the seller extended the hold: `hold_until` includes them. Absent if the hold was not
        /// extended, and in lists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_extension_seconds: Option<u32>,
        /// Number of its payments with a refund due. Absent in lists and in the answer to a claim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refundable_payments: Option<u32>,
        /// Title of the sale. Only in lists of several sales' orders.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The shop's own number. Only in lists, for callers who may read the metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Metadata of the shop. Only in lists, for callers who may read it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Time of the decision.
        created_at: Timestamp,
        /// Acknowledgement level that it has reached. Only in the answer to a claim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ack: Option<AckLevel>,
    }
    /// Grants of a campaign over its whole life, each with its number and its times.
    GrantTimeline {
        /// The campaign.
        campaign: CampaignId,
        /// Highest number that a grant may have: of an order so far, or the number of shares.
        last_number: u32,
        /// Whether only evenly spaced grants are listed, because there are more.
        sampled: bool,
        /// The grants, ordered by number.
        points: Vec<GrantPoint>,
        /// Whether all grants from before the request are included. If not, read it again later.
        settled: bool,
    }
    /// Grant of a timeline.
    GrantPoint {
        /// Its number, which counts the grants up to this one, unless numbers were skipped.
        number: u32,
        /// Time of the decision.
        created_at: Timestamp,
        /// Time of the payment that paid the order; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paid_at: Option<Timestamp>,
    }
    /// Metadata of a campaign or an order.
    Metadata {
        /// Id of the campaign or the order.
        id: Id,
        /// `sale`, `red_packet` or `order`.
        object: ObjectKind,
        /// The shop's own number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Whether no other object of this kind and owner can have the reference as a unique one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unique_reference: bool,
        /// Texts of the shop by name.
        #[serde(default)]
        metadata: BTreeMap<String, String>,
    }
    /// Result of a payment report.
    Payment {
        /// Outcome of the payment.
        outcome: PaymentOutcome,
        /// The order.
        order: Order,
    }
    /// Receipt of a payment service's notification.
    NotificationReceipt {
        /// Reports of payments and refunds that are recorded, by this notification or an earlier one.
        recorded: u32,
        /// Reason why a notification without reports is acknowledged.
        #[serde(skip_serializing_if = "Option::is_none")]
        ignored: Option<String>,
    }
    /// A user's queue entry.
    Place {
        /// State of the entry: it waits, or its result.
        state: PlaceState,
        /// Number of the entry. Entries are decided in this order.
        place: u64,
        /// Upper bound of the entries before this one; absent once it is decided.
        #[serde(skip_serializing_if = "Option::is_none")]
        ahead: Option<u64>,
        /// The claimed share, if one was granted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<Claim>,
        /// The order, if units were granted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<Order>,
    }
    /// Account of a user.
    Account {
        /// The user.
        user: UserId,
        /// Balances, one per currency.
        balances: Vec<Balance>,
        /// Whether the balances include all grants from before the request. If not, read them again later.
        settled: bool,
    }
    /// Balance of a user in one currency.
    Balance {
        /// Money that the user can spend.
        available: Money,
        /// Total of refunds due.
        refunds_due: Money,
    }
    /// A deposit that was made, and how much of it was reversed.
    Deposit {
        /// Its id.
        id: Id,
        /// `deposit`.
        object: ObjectKind,
        /// The user whose account was credited.
        user: UserId,
        /// Its money.
        amount: Money,
        /// Reference of the payment service; absent if it was made without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Metadata of the shop. Absent unless the caller may read it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// Time of the deposit.
        created_at: Timestamp,
        /// Whether all of it was reversed.
        reversed: bool,
        /// Reversed amount.
        reversed_amount: Money,
    }
    /// Clock of a service for development.
    ClockReading {
        /// The time of the service.
        now: Timestamp,
        /// Seconds by which requests have moved it.
        advanced_seconds: u64,
    }
    /// Result of one red packet of a batch.
    RedPacketResult {
        /// Idempotency key of the red packet.
        idempotency_key: IdempotencyKey,
        /// Result of the creation.
        result: CreationResult,
        /// The red packet, unless it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        red_packet: Option<RedPacket>,
        /// Reason of a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    }
    /// Result of one sale of a batch.
    SaleResult {
        /// Idempotency key of the sale.
        idempotency_key: IdempotencyKey,
        /// Result of the creation.
        result: CreationResult,
        /// The sale, unless it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        sale: Option<Sale>,
        /// Reason of a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    }
    /// Posting on one of a user's accounts.
    Posting {
        /// Kind of posting.
        kind: PostingKind,
        /// The user's account with the posting.
        account: UserAccount,
        /// Amount; negative for a debit.
        amount: Money,
        /// The campaign that caused the posting.
        #[serde(skip_serializing_if = "Option::is_none")]
        campaign: Option<CampaignId>,
        /// The order that caused the posting.
        #[serde(skip_serializing_if = "Option::is_none")]
        order: Option<OrderId>,
        /// Reference of the payment service; for a deposit and its reversal the deposit's id.
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Time of the posting.
        at: Timestamp,
    }
    /// Reported payment and its outcome.
    PaymentRecord {
        /// Reference of the payment service.
        reference: String,
        /// `payment`.
        object: ObjectKind,
        /// The order.
        order: OrderId,
        /// The buyer; absent if the report was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<UserId>,
        /// Outcome of the payment.
        outcome: PaymentRecordOutcome,
        /// Its money; absent if the amount of a refused report could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        amount: Option<Money>,
        /// Time of the decision.
        created_at: Timestamp,
        /// Problem of a refused report.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    }
    /// A reversal of a deposit, or of a part of it.
    Reversal {
        /// The deposit.
        deposit: Id,
        /// `reversal`.
        object: ObjectKind,
        /// The user whose account was debited.
        user: UserId,
        /// Its money.
        amount: Money,
        /// Time of the reversal.
        created_at: Timestamp,
    }
    /// Withdrawal from an account.
    Withdrawal {
        /// Reference of the payment service.
        reference: String,
        /// `withdrawal`.
        object: ObjectKind,
        /// The user whose account was debited.
        user: UserId,
        /// Its money.
        amount: Money,
        /// Time of its posting.
        created_at: Timestamp,
    }
    /// Refund that was paid to the buyer of an order.
    Refund {
        /// Reference of the payment service.
        reference: String,
        /// `refund`.
        object: ObjectKind,
        /// The order.
        order: OrderId,
        /// The buyer.
        user: UserId,
        /// Its money.
        amount: Money,
        /// Time of its posting.
        created_at: Timestamp,
        /// Whether the refund was reversed. Its money is due again, or was refunded under another reference.
        #[serde(default)]
        reversed: bool,
    }
    /// Money that an operator moved from one user's account to another's.
    Transfer {
        /// The operator's reference.
        reference: String,
        /// `transfer`.
        object: ObjectKind,
        /// The user whose account was debited.
        user: UserId,
        /// The user whose account was credited.
        to: UserId,
        /// Its money.
        amount: Money,
        /// Time of its posting.
        created_at: Timestamp,
    }
    /// Reversal of a recorded refund: its money is due to the buyer again.
    RefundReversal {
        /// Reference of the refund.
        reference: String,
        /// `refund_reversal`.
        object: ObjectKind,
        /// The order.
        order: OrderId,
        /// The buyer.
        user: UserId,
        /// Money of the refund.
        amount: Money,
        /// Time of the reversal.
        created_at: Timestamp,
    }
    /// Refunds of an order: due and paid.
    Refunds {
        /// The order.
        order: OrderId,
        /// Total that ever became due in the sale's currency.
        due: Money,
        /// Amount refunded so far.
        refunded: Money,
        /// The same in other currencies of payments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        other_currencies: Vec<OwedMoney>,
        /// Whether the amounts include all changes from before the request. If not, read them again later.
        settled: bool,
    }
    /// Refunds of an order in one currency.
    OwedMoney {
        /// Total that ever became due.
        due: Money,
        /// Amount refunded so far.
        refunded: Money,
    }
    /// Order with an unpaid refund in one currency.
    OwedOrder {
        /// The order.
        order: OrderId,
        /// The buyer.
        user: UserId,
        /// Total that ever became due.
        due: Money,
        /// Amount refunded so far.
        refunded: Money,
        /// Amount still due.
        outstanding: Money,
    }
    /// Invitation to a campaign. It admits any user who presents it.
    Invitation {
        /// Text that a claim must present.
        invitation: String,
        /// Time from which it is invalid.
        expires_at: Timestamp,
    }
    /// Users who may claim of a campaign.
    CampaignAudience {
        /// Condition that users must meet; absent if all users may claim.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// The named users, for an audience of named users.
        #[serde(skip_serializing_if = "Option::is_none")]
        users: Option<Vec<String>>,
    }
}

impl Place {
    /// Whether the entry was granted a claim or an order.
    pub fn is_granted(&self) -> bool {
        self.claim.is_some() || self.order.is_some()
    }
}

/// Rule that splits a total into shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SplitRule {
    /// Name of the rule.
    pub rule: SplitRuleName,
    /// The smallest share, in minor units; default 1. Not for `equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest share, in minor units; `normal` needs it, the others have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}
