//! The bodies of requests. What limits there are, the service's OpenAPI document says.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CampaignId, Id, IdempotencyKey, UserId},
    tickets::GrabTicket,
    values::{Money, Timestamp},
    words::{AckLevel, Draws, PaymentPolicy, Requirement, SplitRuleName, WebhookEventType},
};

/// Who may take part: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Audience {
    /// These users and nobody else.
    Users(Vec<UserId>),
    /// Whoever shows an invitation; always `true`. See [`crate::Client::sign_invitation`].
    Invitation(bool),
    /// Whoever says this.
    Passphrase(String),
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* ;
        $($(#[$option_doc:meta])* $option:ident: $option_type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            $($(#[$option_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $option: Option<$option_type>,)*
        }

        impl $name {
            /// With what must be given; everything else is as the service has it.
            #[must_use]
            pub fn with_defaults($($field: $type),*) -> Self {
                Self { $($field,)* $($option: None,)* }
            }
        }
    )* };
}

requests! {
    /// A sale to open.
    NewSale {
        /// What people see.
        title: String,
        /// Units for sale.
        stock: u64,
        /// The price of one unit.
        unit_price: Money,
        ;
        /// The campaign's id: a UUID of version 7, made within a day, at random. Default: the service makes one.
        id: CampaignId,
        /// Who sells; default: the caller.
        seller: UserId,
        /// Units that one user may have; default 1.
        per_user_limit: u32,
        /// How long an unpaid order keeps its units; default 900.
        hold_seconds: u32,
        /// Default: now.
        starts_at: Timestamp,
        /// Default: 24 hours after the start.
        ends_at: Timestamp,
        /// What a grant survives before it is acknowledged.
        ack: AckLevel,
        /// Users on their way to a decision for each unit that is left, in percent.
        admission_percent: u32,
        /// Which payments pay an order, beside its price; default: none.
        payment_policy: PaymentPolicy,
        /// The tolerance of [`PaymentPolicy::AcceptWithTolerance`].
        payment_tolerance: Money,
        /// Whether claims wait in line; default: no.
        waiting_room: bool,
        /// What a claim needs; default: nothing.
        requirements: Vec<Requirement>,
        /// Who may take part; default: everybody.
        audience: Audience,
        /// The seller's id of the product.
        product_id: Id,
        /// What it is, in words.
        description: String,
        /// Where its picture is.
        image_url: String,
    }
    /// A red packet to send from the caller's account.
    NewRedPacket {
        /// What people see.
        title: String,
        /// What is taken from the account and shared out.
        total: Money,
        /// How many shares.
        shares: u32,
        /// How the total becomes shares.
        split: SplitRule,
        ;
        /// The campaign's id: a UUID of version 7, made within a day, at random. Default: the service makes one.
        id: CampaignId,
        /// What the service has promised for this `id`; see [`crate::Client::promise_red_packet`].
        promise: String,
        /// 32 random bytes of the sender's, as 64 hexadecimal digits. Everybody will see them.
        entropy: String,
        /// Default: now.
        starts_at: Timestamp,
        /// When what nobody took goes back; default: as the service has it.
        ends_at: Timestamp,
        /// What a grant survives before it is acknowledged.
        ack: AckLevel,
        /// Whether claims wait in line; default: no.
        waiting_room: bool,
        /// What a claim needs; default: nothing.
        requirements: Vec<Requirement>,
        /// Who may take part; default: everybody.
        audience: Audience,
        /// Who may see the draws; default: everybody.
        draws: Draws,
    }
    /// A red packet of several that are sent together.
    KeyedRedPacket {
        /// The key that it is sent under, alone or with others.
        idempotency_key: IdempotencyKey,
        /// The packet.
        red_packet: NewRedPacket,
        ;
    }
    /// What to change about a sale. What is none stays.
    SaleChange {
        ;
        /// Units for sale in all.
        stock: u64,
        /// When it opens.
        starts_at: Timestamp,
        /// When it ends.
        ends_at: Timestamp,
        /// Units that one user may have.
        per_user_limit: u32,
        /// The price of one unit for orders from then on.
        unit_price: Money,
        /// Users that are admitted to a decision at a time for each 100 units that are left; 0 for no bound.
        admission_percent: u32,
        /// What people see.
        title: String,
        /// The seller's id of the product; `Some(None)` takes it away.
        product_id: Option<Id>,
        /// What it is, in words; `Some(None)` takes it away.
        description: Option<String>,
        /// Where its picture is; `Some(None)` takes it away.
        image_url: Option<String>,
    }
    /// A payment that arrived, or was paid back.
    NewPayment {
        /// The payment service's name for it. The same again is a replay.
        reference: String,
        /// What was paid.
        amount: Money,
        ;
        /// When it was paid, of payments alone: what was paid in time for the hold pays the order, also a little later.
        paid_at: Timestamp,
        /// Who paid, of payments alone: refused with `user-mismatch` if the order is another user's.
        user: UserId,
    }
    /// An endpoint to be told what is settled.
    NewWebhook {
        /// Where events are posted: an `https:` URL.
        url: String,
        ;
        /// Events of these types alone; default: all.
        types: Vec<WebhookEventType>,
        /// Events of these campaigns alone; default: all.
        campaigns: Vec<CampaignId>,
        /// Events of campaigns of this sender or seller alone.
        owner: UserId,
    }
    /// What to claim of a red packet: a share, and what it asks for.
    NewClaim {
        ;
        /// Where it is by invitation.
        invitation: String,
        /// Where it is by passphrase.
        passphrase: String,
        /// A ticket that was got before. Without it the client gets one where one is needed.
        #[serde(skip)]
        ticket: GrabTicket,
    }
    /// What to order of a sale.
    NewOrder {
        /// Units, at least 1.
        quantity: u32,
        ;
        /// Where it is by invitation.
        invitation: String,
        /// Where it is by passphrase.
        passphrase: String,
        /// A ticket that was got before. Without it the client gets one where one is needed.
        #[serde(skip)]
        ticket: GrabTicket,
    }
}

impl NewSale {
    /// A sale of so many units at this price each.
    #[must_use]
    pub fn new(title: impl Into<String>, stock: u64, unit_price: Money) -> Self {
        Self::with_defaults(title.into(), stock, unit_price)
    }
}

impl NewRedPacket {
    /// A total that is shared out among so many by a rule.
    #[must_use]
    pub fn new(title: impl Into<String>, total: Money, shares: u32, rule: SplitRuleName) -> Self {
        let split = SplitRule {
            rule,
            min: None,
            max: None,
        };
        Self::with_defaults(title.into(), total, shares, split)
    }
}

impl NewWebhook {
    /// An endpoint that is told everything.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self::with_defaults(url.into())
    }
}

impl NewOrder {
    /// So many units.
    #[must_use]
    pub fn units(quantity: u32) -> Self {
        Self::with_defaults(quantity)
    }
}

/// How a total becomes shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRule {
    /// The rule.
    pub rule: SplitRuleName,
    /// The smallest share, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest share, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}
