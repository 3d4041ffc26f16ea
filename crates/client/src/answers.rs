//! The bodies of answers. What fields they have beside these is ignored.

use crate::{
    bodies::bodies,
    ids::{CampaignId, Id, IdempotencyKey, OrderId, UserId, WebhookId},
    problem::Problem,
    requests::SplitRule,
    values::{Money, Timestamp, WebhookSecret},
    words::{
        AckLevel, AudienceKind, CreationResult, Draws, OrderState, PaymentOutcome, PaymentPolicy,
        Phase, PlaceState, PostingKind, Requirement, UserAccount, WebhookEventType, WebhookStatus,
    },
};

bodies! {
    /// A campaign's numbers. Always supply = granted + remaining + returned + withheld.
    State {
        /// Where it is in its life.
        phase: Phase,
        /// Shares or units there ever were.
        supply: u64,
        /// Those that users have.
        granted: u64,
        /// Those that can still be had.
        remaining: u64,
        /// Those that went back at the close.
        returned: u64,
        /// Those that repairs withhold, because a user may have been granted them. They go back at the close.
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
        /// Who sells.
        seller: UserId,
        /// What people see.
        title: String,
        /// The seller's id of the product.
        #[serde(skip_serializing_if = "Option::is_none")]
        product_id: Option<Id>,
        /// What it is, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Where its picture is.
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<String>,
        /// Units there are in all.
        stock: u64,
        /// Units that one user may have.
        per_user_limit: u32,
        /// The price of one unit.
        unit_price: Money,
        /// How long an unpaid order keeps its units.
        hold_seconds: u32,
        /// What a grant survives.
        ack: AckLevel,
        /// Users on their way to a decision for each unit that is left, in percent; 0: all.
        admission_percent: u32,
        /// Which payments pay an order, beside its price.
        payment_policy: PaymentPolicy,
        /// The tolerance of [`PaymentPolicy::AcceptWithTolerance`].
        #[serde(skip_serializing_if = "Option::is_none")]
        payment_tolerance: Option<Money>,
        /// Whether claims wait in line.
        waiting_room: bool,
        /// What a claim needs.
        requirements: Vec<Requirement>,
        /// Who may take part; none: everybody.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// When it was created.
        created_at: Timestamp,
        /// When phase, stock, terms or details last changed.
        updated_at: Timestamp,
        /// Since when lists do not show it unless asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// Its numbers.
        state: State,
    }
    /// What a service promises of a red packet that is to be sent.
    Promise {
        /// The id to send it with, within a day.
        id: CampaignId,
        /// The SHA-256 over the id and the service's part of the seed.
        promise: String,
    }
    /// A red packet.
    RedPacket {
        /// Its id.
        id: CampaignId,
        /// Who sends it.
        sender: UserId,
        /// What people see.
        title: String,
        /// What is shared out.
        total: Money,
        /// How many shares.
        shares: u32,
        /// How the total becomes shares.
        split: SplitRule,
        /// What a grant survives.
        ack: AckLevel,
        /// Who may see the draws.
        draws: Draws,
        /// Whether claims wait in line.
        waiting_room: bool,
        /// What a claim needs.
        requirements: Vec<Requirement>,
        /// Who may take part; none: everybody.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// What users have.
        claimed: Money,
        /// What can still be had.
        remaining: Money,
        /// What went back to the sender.
        refunded: Money,
        /// Money of the shares that repairs withhold. It goes back to the sender at the close.
        withheld: Money,
        /// The SHA-256 over split, id, currency and seed.
        commitment: String,
        /// 2; 1 for packets of earlier releases, whose commitments bind neither id nor currency.
        commitment_version: u8,
        /// What the sender has added to the seed.
        #[serde(skip_serializing_if = "Option::is_none")]
        entropy: Option<String>,
        /// What binds the service to its part of the seed.
        #[serde(skip_serializing_if = "Option::is_none")]
        promise: Option<String>,
        /// The service's part of the seed, shown with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// What the shares are drawn from, once nobody gains by knowing it.
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<String>,
        /// The largest share, once all are claimed or the packet is closed.
        #[serde(skip_serializing_if = "Option::is_none")]
        luckiest: Option<Share>,
        /// When it was created.
        created_at: Timestamp,
        /// When phase, stock, terms or details last changed.
        updated_at: Timestamp,
        /// Since when lists do not show it unless asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// Its numbers.
        state: State,
    }
    /// A red packet in a list.
    ListedRedPacket {
        /// Its id.
        id: CampaignId,
        /// Who sends it.
        sender: UserId,
        /// What people see.
        title: String,
        /// What is shared out.
        total: Money,
        /// How many shares.
        shares: u32,
        /// How the total becomes shares.
        split: SplitRule,
        /// When it was created.
        created_at: Timestamp,
        /// When phase, stock, terms or details last changed.
        updated_at: Timestamp,
        /// Since when lists do not show it unless asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Timestamp>,
        /// Its numbers, as settled.
        state: State,
    }
    /// One share that was claimed.
    Share {
        /// The grant's number, from 1.
        number: u32,
        /// Who has it.
        user: UserId,
        /// How much.
        amount: Money,
        /// When it was granted.
        granted_at: Timestamp,
    }
    /// A grant, and for a sale its order. A repeated claim gets the same one.
    Grant {
        /// The campaign that granted.
        campaign: CampaignId,
        /// Its number in its campaign, from 1.
        number: u32,
        /// The order's id; sales only.
        #[serde(skip_serializing_if = "Option::is_none")]
        order: Option<OrderId>,
        /// Units; 1 for a share.
        quantity: u32,
        /// The share's money, or the order's price.
        amount: Money,
        /// When it was decided.
        granted_at: Timestamp,
        /// Where the order is in its life; sales only.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<OrderState>,
        /// When the hold of an unpaid order ends; sales only.
        #[serde(skip_serializing_if = "Option::is_none")]
        hold_until: Option<Timestamp>,
        /// What the grant survives.
        #[serde(skip_serializing_if = "Option::is_none")]
        ack: Option<AckLevel>,
    }
    /// An order: whose it is, and the grant.
    Order {
        /// The buyer.
        user: UserId,
        /// Payments that are owed back.
        refunds_due: u32,
        /// The grant.
        #[serde(flatten)]
        grant: Grant,
    }
    /// What became of a payment.
    Payment {
        /// What.
        outcome: PaymentOutcome,
        /// The order.
        order: Order,
    }
    /// Where a user stands in line.
    Place {
        /// It waits, or what became of it.
        state: PlaceState,
        /// The order of entry.
        place: u64,
        /// While it waits: how many are before it, at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        ahead: Option<u64>,
        /// What was granted.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
    }
    /// What a user has.
    Account {
        /// Whose it is.
        user: UserId,
        /// One for each currency.
        balances: Vec<Balance>,
        /// Whether everything granted before the request is in it. If not, ask again.
        settled: bool,
    }
    /// What a user has in one currency.
    Balance {
        /// What can be spent.
        available: Money,
        /// Payments that are owed back.
        refunds_due: Money,
    }
    /// A deposit that was made.
    Deposit {
        /// Its id.
        id: Id,
        /// Whose account it went to.
        user: UserId,
        /// How much.
        amount: Money,
    }
    /// What became of one red packet of several.
    RedPacketResult {
        /// Its key.
        idempotency_key: IdempotencyKey,
        /// What became of it.
        result: CreationResult,
        /// It, unless it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        red_packet: Option<RedPacket>,
        /// Why it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    }
    /// A share that a user has.
    Claim {
        /// The red packet.
        campaign: CampaignId,
        /// The grant's number, from 1.
        number: u32,
        /// How much.
        amount: Money,
        /// When it was granted.
        granted_at: Timestamp,
    }
    /// An order of a user.
    UserOrder {
        /// Its id.
        order: OrderId,
        /// The sale.
        campaign: CampaignId,
        /// What people see of the sale.
        title: String,
        /// Units.
        quantity: u32,
        /// The price of all units.
        amount: Money,
        /// Where it is in its life.
        state: OrderState,
        /// When it was granted.
        granted_at: Timestamp,
    }
    /// An order of a sale.
    ListedOrder {
        /// Its id.
        order: OrderId,
        /// Its number, from 1.
        number: u32,
        /// The buyer.
        user: UserId,
        /// Units.
        quantity: u32,
        /// The price of all units.
        amount: Money,
        /// Where it is in its life.
        state: OrderState,
        /// When it was granted.
        granted_at: Timestamp,
    }
    /// Money that came into one of a user's accounts, or went out of it.
    Posting {
        /// Why.
        kind: PostingKind,
        /// In which of the two accounts.
        account: UserAccount,
        /// What came. What went is below 0.
        amount: Money,
        /// The campaign that it was for.
        #[serde(skip_serializing_if = "Option::is_none")]
        campaign: Option<CampaignId>,
        /// The order that it was for.
        #[serde(skip_serializing_if = "Option::is_none")]
        order: Option<OrderId>,
        /// The payment service's name for it; of a deposit and its reversal the deposit's id.
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// When.
        at: Timestamp,
    }
    /// A deposit, and whether it was taken back.
    DepositRecord {
        /// Its id.
        id: Id,
        /// Whose account it went to.
        user: UserId,
        /// How much.
        amount: Money,
        /// When.
        at: Timestamp,
        /// Whether it was taken back.
        reversed: bool,
    }
    /// A payment that arrived, and what became of it.
    PaymentRecord {
        /// The payment service's name for it.
        reference: String,
        /// The order.
        order: OrderId,
        /// The buyer.
        user: UserId,
        /// What became of it.
        outcome: PaymentOutcome,
        /// How much.
        amount: Money,
        /// When it was decided.
        at: Timestamp,
    }
    /// A deposit that was taken back.
    Reversal {
        /// The deposit.
        deposit: Id,
        /// From whose account.
        user: UserId,
        /// How much.
        amount: Money,
    }
    /// Money that was paid out of an account.
    Withdrawal {
        /// The payment service's name for it.
        reference: String,
        /// Out of whose account.
        user: UserId,
        /// How much.
        amount: Money,
    }
    /// A payment that was paid back.
    Refund {
        /// The payment service's name for it.
        reference: String,
        /// For which order.
        order: OrderId,
        /// How much.
        amount: Money,
    }
    /// What is owed to the buyer of an order, and what was paid back.
    Refunds {
        /// For which order.
        order: OrderId,
        /// All that ever was owed in the sale's currency.
        due: Money,
        /// What of it was paid back.
        refunded: Money,
        /// The same in other currencies that payments came in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        other_currencies: Vec<OwedMoney>,
        /// Whether everything that happened before the request is in it. If not, ask again.
        settled: bool,
    }
    /// What is owed for an order in one currency.
    OwedMoney {
        /// All that ever was owed.
        due: Money,
        /// What of it was paid back.
        refunded: Money,
    }
    /// An order that something is still owed for in one currency.
    OwedOrder {
        /// The order.
        order: OrderId,
        /// The buyer.
        user: UserId,
        /// All that ever was owed.
        due: Money,
        /// What of it was paid back.
        refunded: Money,
        /// What is still owed.
        left: Money,
    }
    /// An invitation to a campaign. Whoever holds it may take part.
    Invitation {
        /// What a claim shows.
        invitation: String,
        /// The first instant at which it is not valid any more.
        expires_at: Timestamp,
    }
    /// Users who may take part in a campaign.
    CampaignAudience {
        /// How they are told from others; none where it is for everybody.
        #[serde(skip_serializing_if = "Option::is_none")]
        audience: Option<AudienceKind>,
        /// The users whom it names.
        #[serde(skip_serializing_if = "Option::is_none")]
        users: Option<Vec<String>>,
    }
    /// An endpoint that is told what was settled, and how it stands.
    Webhook {
        /// Its id.
        id: WebhookId,
        /// Where events are posted.
        url: String,
        /// Events of these types alone; of all if there are none.
        types: Vec<WebhookEventType>,
        /// Events of these campaigns alone; of all if there are none.
        campaigns: Vec<CampaignId>,
        /// Events of campaigns of this sender or seller alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<UserId>,
        /// When it was made.
        created_at: Timestamp,
        /// How it stands.
        status: WebhookStatus,
        /// Events that it may have to be told yet.
        behind: u64,
        /// Since when nothing gets through.
        #[serde(skip_serializing_if = "Option::is_none")]
        failing_since: Option<Timestamp>,
        /// Attempts that have failed since then.
        attempts: u32,
        /// What the last failure was.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_error: Option<String>,
        /// When it is tried again.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// Since when it is not tried any more.
        #[serde(skip_serializing_if = "Option::is_none")]
        disabled_at: Option<Timestamp>,
        /// What requests are signed with, where it was just made.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<WebhookSecret>,
    }
    /// What came of the test of an endpoint.
    WebhookTest {
        /// Whether it has answered 2xx in time.
        delivered: bool,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
}
