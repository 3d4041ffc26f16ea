//! Bodies of requests. The service's OpenAPI document states their limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CampaignId, Id, IdempotencyKey, UserId},
    tickets::GrabTicket,
    values::{Money, Timestamp},
    words::{AckLevel, Cover, Draws, PaymentPolicy, Requirement, SplitRuleName, WebhookEventType},
};
use qiang_wire::answers::SplitRule;

/// Users who may claim. Exactly one condition applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Audience {
    /// The user is named here.
    Users(Vec<UserId>),
    /// The user presents an invitation; always `true`. See [`crate::Client::sign_invitation`].
    Invitation(bool),
    /// The user enters this passphrase.
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
            /// Body with the required fields. The service applies its defaults for all others.
            #[must_use]
            pub fn with_defaults($($field: $type),*) -> Self {
                Self { $($field,)* $($option: None,)* }
            }
        }
    )* };
}

requests! {
    /// Sale to create.
    NewSale {
        /// Title that users see.
        title: String,
        /// Units for sale.
        stock: u64,
        /// The price of one unit.
        unit_price: Money,
        ;
        /// Id of the campaign: a random UUID of version 7, at most a day old. Default: the service creates one.
        id: CampaignId,
        /// Seller; default: the caller.
        seller: UserId,
        /// Maximum units per user; default 1.
        per_user_limit: u32,
        /// Seconds for which an unpaid order keeps its units; default 900.
        hold_seconds: u32,
        /// Start; default: now.
        starts_at: Timestamp,
        /// End; default: 24 hours after the start.
        ends_at: Timestamp,
        /// Acknowledgement level of grants.
        ack: AckLevel,
        /// Admission permits per remaining unit, in percent.
        admission_percent: u32,
        /// Payments that pay an order although they differ from its price; default: none.
        payment_policy: PaymentPolicy,
        /// The tolerance of [`PaymentPolicy::AcceptWithTolerance`].
        payment_tolerance: Money,
        /// Whether claims wait in a queue; default: no.
        waiting_room: bool,
        /// Requirements of a claim; default: none.
        requirements: Vec<Requirement>,
        /// Users who may claim; default: all users.
        audience: Audience,
        /// The seller's id of the product.
        product_id: Id,
        /// Description of the product.
        description: String,
        /// URL of a picture of the product.
        image_url: String,
        /// URLs of further pictures of the product, at most 8.
        gallery: Vec<String>,
        /// Price of one unit before the discount, above its price.
        list_price: Money,
        /// The shop's own number of the campaign. Users do not see it.
        reference: String,
        /// Whether the reference is unique among the owner's unique ones; default: no.
        unique_reference: bool,
        /// Up to 20 texts of the shop by name. Users do not see them.
        metadata: BTreeMap<String, String>,
    }
    /// Red packet to send from the caller's account.
    NewRedPacket {
        /// Title that users see.
        title: String,
        /// Money to debit and split.
        total: Money,
        /// Number of shares.
        shares: u32,
        /// Rule that splits the total into shares.
        split: SplitRule,
        ;
        /// Id of the campaign: a random UUID of version 7, at most a day old. Default: the service creates one.
        id: CampaignId,
        /// Hash of the server seed for this `id`; see [`crate::Client::create_server_seed`].
        server_seed_hash: String,
        /// Client seed: 32 random bytes of the sender, as 64 hexadecimal digits. All users will see them.
        client_seed: String,
        /// Start; default: now.
        starts_at: Timestamp,
        /// End, when unclaimed money is refunded; default: set by the service.
        ends_at: Timestamp,
        /// Acknowledgement level of grants.
        ack: AckLevel,
        /// Whether claims wait in a queue; default: no.
        waiting_room: bool,
        /// Requirements of a claim; default: none.
        requirements: Vec<Requirement>,
        /// Users who may claim; default: all users.
        audience: Audience,
        /// Users who may see the claimed shares; default: all users.
        draws: Draws,
        /// Look of the envelope on the pages; default: `classic`.
        cover: Cover,
        /// The shop's own number of the campaign. Users do not see it.
        reference: String,
        /// Whether the reference is unique among the owner's unique ones; default: no.
        unique_reference: bool,
        /// Up to 20 texts of the shop by name. Users do not see them.
        metadata: BTreeMap<String, String>,
    }
    /// Red packet of a batch.
    KeyedRedPacket {
        /// Idempotency key of the red packet, valid alone and in any batch.
        idempotency_key: IdempotencyKey,
        /// The red packet.
        red_packet: NewRedPacket,
        ;
    }
    /// Sale of a batch.
    KeyedSale {
        /// Idempotency key of the sale, valid alone and in any batch.
        idempotency_key: IdempotencyKey,
        /// The sale.
        sale: NewSale,
        ;
    }
    /// Changes of a sale. Fields that are `None` stay as they are.
    SaleChange {
        ;
        /// New total of units.
        stock: u64,
        /// New start.
        starts_at: Timestamp,
        /// New end.
        ends_at: Timestamp,
        /// New maximum units per user.
        per_user_limit: u32,
        /// New price of one unit, for later orders.
        unit_price: Money,
        /// New number of admission permits per 100 remaining units; 0 for no limit.
        admission_percent: u32,
        /// New title.
        title: String,
        /// New product id of the seller; `Some(None)` removes it.
        product_id: Option<Id>,
        /// New description; `Some(None)` removes it.
        description: Option<String>,
        /// New URL of a picture; `Some(None)` removes it.
        image_url: Option<String>,
        /// New URLs of further pictures; none removes them.
        gallery: Vec<String>,
        /// New price before the discount; `Some(None)` removes it.
        list_price: Option<Money>,
    }
    /// Change of the metadata of a campaign or an order. Fields and names that are absent stay as they are.
    MetadataChange {
        ;
        /// New number of the shop; `Some(None)` removes it.
        reference: Option<String>,
        /// Whether the reference, which the change has too, is unique; default: as before.
        unique_reference: bool,
        /// New values by name; `None` removes a name.
        metadata: BTreeMap<String, Option<String>>,
    }
    /// Payment or refund to report.
    NewPayment {
        /// Reference of the payment service. A report with the same reference is a replay.
        reference: String,
        /// Its money.
        amount: Money,
        ;
        /// Time of the payment; payments only. A payment within the hold pays the order even if it is reported slightly
        /// later.
        paid_at: Timestamp,
        /// Payer; payments only. If the order has another buyer, the service answers `user-mismatch`.
        user: UserId,
    }
    /// Endpoint for webhook events.
    NewWebhook {
        /// URL to which events are posted; it must be `https:`.
        url: String,
        ;
        /// Types of events to deliver; default: all.
        types: Vec<WebhookEventType>,
        /// Campaigns whose events are delivered; default: all.
        campaigns: Vec<CampaignId>,
        /// Sender or seller whose campaigns' events are delivered.
        owner: UserId,
    }
    /// Changes of a webhook. Fields that are `None` stay as they are.
    WebhookChange {
        ;
        /// New URL. Events that wait for a retry are due at once.
        url: String,
        /// New types of events to deliver; empty for all types.
        types: Vec<WebhookEventType>,
        /// New campaigns whose events are delivered; empty for all campaigns.
        campaigns: Vec<CampaignId>,
        /// New sender or seller whose campaigns' events are delivered; `Some(None)` for all.
        owner: Option<UserId>,
        /// Whether events are delivered.
        enabled: bool,
    }
    /// Claim of a share, with what the red packet requires.
    NewClaim {
        ;
        /// Invitation, if the audience needs one.
        invitation: String,
        /// Passphrase, if the audience needs one.
        passphrase: String,
        /// Ticket from an earlier call. Without it the client gets one if the red packet requires it.
        #[serde(skip)]
        ticket: GrabTicket,
    }
    /// Held orders of a sale to cancel. Without a filter these are all of them.
    HeldOrders {
        ;
        /// Only orders of this buyer.
        user: UserId,
        /// Only orders from this time on.
        created_after: Timestamp,
        /// Only orders from before this time.
        created_before: Timestamp,
        /// Only orders after this cursor: `next` of the part before.
        after: String,
        /// Maximum number of orders, up to 500; default 100.
        limit: u32,
    }
    /// Order of units of a sale.
    NewOrder {
        /// Number of units, at least 1.
        quantity: u32,
        ;
        /// Invitation, if the audience needs one.
        invitation: String,
        /// Passphrase, if the audience needs one.
        passphrase: String,
        /// Ticket from an earlier call. Without it the client gets one if the sale requires it.
        #[serde(skip)]
        ticket: GrabTicket,
    }
}

impl NewSale {
    /// Sale with this stock and this price per unit.
    #[must_use]
    pub fn new(title: impl Into<String>, stock: u64, unit_price: Money) -> Self {
        Self::with_defaults(title.into(), stock, unit_price)
    }
}

impl NewRedPacket {
    /// Red packet that splits a total into this many shares by a rule.
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
    /// Endpoint for all events.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self::with_defaults(url.into())
    }
}

impl NewOrder {
    /// Order of this many units.
    #[must_use]
    pub fn units(quantity: u32) -> Self {
        Self::with_defaults(quantity)
    }
}
