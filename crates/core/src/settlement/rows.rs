//! Rows that settlement reads and writes.

use crate::{
    campaign::{CampaignKind, Phase, SaleSettings},
    event::Seq,
    id::CampaignId,
    money::Currency,
    order::{OrderState, PartKind},
    rows::{Contradiction, Value, columns, phase_of},
    time::Timestamp,
};

/// Share that a user receives. It must be free, and its amount must be unset or the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareGrant<'a> {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the share.
    pub number: i64,
    /// User that receives it.
    pub user: &'a str,
    /// Minor units.
    pub amount: i64,
    /// Time of the grant, in milliseconds.
    pub at: i64,
}

impl<'a> ShareGrant<'a> {
    /// Columns `campaign`, `number`, `user`, `amount` and `granted_at`.
    pub fn columns(&self) -> [Value<'a>; 5] {
        columns!(self; campaign, number, user, amount, at)
    }
}

/// An order that the ledger does not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder<'a> {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the order.
    pub number: i64,
    /// Buyer.
    pub user: &'a str,
    /// Units.
    pub quantity: i64,
    /// Price in minor units.
    pub amount: i64,
    /// State after these entries.
    pub state: OrderState,
    /// Units of partial returns.
    pub returned_in_parts: i64,
    /// Units of partial cancellations. Units and price are without them.
    pub cancelled_in_parts: i64,
    /// Whether the limit of its sale is one unit per user.
    pub one_per_user: bool,
    /// Time of the grant, in milliseconds.
    pub granted_at: i64,
    /// End of the hold, in milliseconds, with its extension.
    pub hold_until: i64,
    /// Milliseconds by which the hold was extended.
    pub extension_ms: i64,
    /// Time of the last change of state, in milliseconds.
    pub updated_at: i64,
    /// Idempotency key of the claim, if it had one.
    pub key: Option<&'a str>,
}

impl<'a> NewOrder<'a> {
    /// Columns of `orders`, in the order of the table.
    pub fn columns(&self) -> [Value<'a>; 14] {
        columns!(self; campaign, number, user, quantity, amount, state, one_per_user, granted_at,
            hold_until, updated_at, key, returned_in_parts, cancelled_in_parts, extension_ms)
    }
}

/// Changed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderChange {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the order.
    pub number: i64,
    /// State after these entries.
    pub state: OrderState,
    /// Units of partial returns.
    pub returned_in_parts: i64,
    /// Units, without cancelled ones.
    pub quantity: i64,
    /// Price of these units, in minor units.
    pub amount: i64,
    /// Units of partial cancellations.
    pub cancelled_in_parts: i64,
    /// Milliseconds by which these entries extend the hold; 0 if they do not.
    pub extension_ms: i64,
    /// Time of the last change of state, in milliseconds; `None` if the state is unchanged.
    pub at: Option<i64>,
}

impl OrderChange {
    /// Columns `campaign`, `number`, `state`, `updated_at`, null if unchanged, `returned_in_parts`, `quantity`,
    /// `amount`, `cancelled_in_parts` and `extension_ms`.
    pub fn columns(&self) -> [Value<'static>; 9] {
        columns!(self; campaign, number, state, at, returned_in_parts, quantity, amount, cancelled_in_parts,
            extension_ms)
    }
}

/// Partial cancellation or return of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnRow<'a> {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the order.
    pub number: i64,
    /// Key of this part.
    pub key: &'a str,
    /// Units.
    pub quantity: i64,
    /// Minor units of the refund due; 0 for a cancellation.
    pub amount: i64,
    /// Time, in milliseconds.
    pub at: i64,
    /// Whether the units were cancelled or returned.
    pub kind: PartKind,
}

impl<'a> ReturnRow<'a> {
    /// Columns of `order_returns`, in the order of the fields.
    pub fn columns(&self) -> [Value<'a>; 7] {
        let kind = self.kind.name();
        let [a, b, c, d, e, f]: [Value<'a>; 6] =
            columns!(self; campaign, number, key, quantity, amount, at);
        [a, b, c, d, e, f, kind.into()]
    }
}

/// Closed campaign, or closed part in this partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedPart {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Time of the close, in milliseconds.
    pub at: i64,
}

/// Received payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentRow<'a> {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the order.
    pub number: i64,
    /// Reference of the payment.
    pub payment: &'a str,
    /// Outcome: `paid`, `reinstated` or `refund_due`.
    pub outcome: &'static str,
    /// Received minor units.
    pub amount: i64,
    /// Time, in milliseconds.
    pub at: i64,
    /// Currency of the received amount; `None` if it is the order's price.
    pub currency: Option<&'static str>,
}

impl<'a> PaymentRow<'a> {
    /// Columns of `payments`, in the order of the fields.
    pub fn columns(&self) -> [Value<'a>; 7] {
        columns!(self; campaign, number, payment, outcome, amount, at, currency)
    }
}

/// Changes of a campaign, or of a part of one: increments of its counts, and new values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CampaignChange {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// New phase, if it changes.
    pub phase: Option<Phase>,
    /// Number of partitions over which it is spread, if a part of it is opened. This number is set once, in the draft,
    /// and is the same for every part.
    pub parts: Option<i64>,
    /// Granted units minus restocked units.
    pub granted: i64,
    /// Units that went back to the owner.
    pub returned: i64,
    /// Minor units that went back to the owner.
    pub refunded: i64,
    /// Change of the stock in units. It is 0 for a part, because only the engine knows where units of the stock are.
    pub supply: i64,
    /// Last change of the terms, if there is one. The ledger ignores it if it has a later one.
    pub terms: Option<SaleSettingsRow>,
    /// Time of the last entry that changed phase, stock or terms, in milliseconds. `None` if only counts change.
    pub updated_at: Option<i64>,
}

impl CampaignChange {
    /// Creates a change of the phase only.
    pub fn to_phase(campaign: i64, phase: Phase) -> Self {
        Self {
            phase: Some(phase),
            ..Self::nothing(campaign)
        }
    }

    /// Columns `ref`, `phase` and `parts`; increments of `granted`, `returned`, `refunded` and `supply`;
    /// `terms_revision`, `starts_at`, `ends_at`, `per_user_limit`, `unit_price` and `admission`, null if unchanged;
    /// `updated_at`, null if unchanged.
    pub fn columns(&self) -> [Value<'static>; 14] {
        let own: [Value<'static>; 7] =
            columns!(self; campaign, phase, parts, granted, returned, refunded, supply);
        let [a, b, c, d, e, f, g] = own;
        let of = |field: fn(&SaleSettingsRow) -> i64| self.terms.as_ref().map(field).into();
        [
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            of(|terms| terms.revision),
            of(|terms| terms.starts_at),
            of(|terms| terms.ends_at),
            of(|terms| terms.per_user_limit),
            of(|terms| terms.unit_price),
            of(|terms| terms.admission),
            self.updated_at.into(),
        ]
    }

    /// Records the time of an entry that changes what users see of the campaign apart from its counts.
    pub(super) fn update(&mut self, at: Timestamp) {
        self.updated_at = self.updated_at.max(Some(at.as_millis()));
    }

    pub(super) fn change_terms(&mut self, row: SaleSettingsRow) {
        if self
            .terms
            .is_none_or(|before| before.revision <= row.revision)
        {
            self.terms = Some(row);
        }
    }

    /// Creates an empty change.
    #[must_use]
    pub fn nothing(campaign: i64) -> Self {
        Self {
            campaign,
            ..Self::default()
        }
    }

    pub(super) fn changes_something(&self) -> bool {
        *self != Self::nothing(self.campaign)
    }
}

/// New terms of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleSettingsRow {
    /// `ref` of the sale.
    pub campaign: i64,
    /// Revision. The highest one is in force.
    pub revision: i64,
    /// Time, in milliseconds.
    pub at: i64,
    /// First millisecond of the window.
    pub starts_at: i64,
    /// First millisecond after the window.
    pub ends_at: i64,
    /// Maximum units per user.
    pub per_user_limit: i64,
    /// Price of one unit in minor units.
    pub unit_price: i64,
    /// Admission permits per remaining unit, in percent.
    pub admission: i64,
}

impl SaleSettingsRow {
    pub(super) fn from_campaign(
        campaign: i64,
        revision: Seq,
        at: Timestamp,
        terms: &SaleSettings,
    ) -> Self {
        Self {
            campaign,
            revision: revision as i64, // a place in a log
            at: at.as_millis(),
            starts_at: terms.window.starts_at().as_millis(),
            ends_at: terms.window.ends_at().as_millis(),
            per_user_limit: terms.per_user_limit.into(),
            unit_price: terms.unit_price_minor,
            admission: terms.admission.percent().into(),
        }
    }

    /// Columns of `sale_terms`, in the order of the fields.
    pub fn columns(&self) -> [Value<'static>; 8] {
        columns!(self; campaign, revision, at, starts_at, ends_at, per_user_limit, unit_price, admission)
    }
}

/// Columns of a [`KnownCampaign`]: ref, id, kind, owner, currency, one_per_user (0 or 1), hold_ms, parts, phase, phase
/// of the partition's own part, and watched (0 or 1).
pub type KnownCampaignColumns = (
    i64,
    String,
    String,
    String,
    String,
    i64,
    Option<i64>,
    i64,
    String,
    Option<String>,
    i64,
);

/// Data of a campaign that settlement needs.
#[derive(Debug, Clone)]
pub struct KnownCampaign {
    /// `ref`, by which rows of other tables refer to it.
    pub campaign_ref: i64,
    /// Id.
    pub id: CampaignId,
    /// Text of the id. It owns the escrow account.
    pub name: String,
    /// Kind of the campaign.
    pub kind: CampaignKind,
    /// Owner, who receives payments and refunds.
    pub owner: String,
    /// Currency of its amounts.
    pub currency: Currency,
    /// Whether the limit is one unit per user, and always was.
    pub one_per_user: bool,
    /// Hold of its orders, in milliseconds.
    pub hold_ms: i64,
    /// Number of partitions over which it is spread; 1 if it is not.
    pub parts: i64,
    /// Recorded phase.
    pub phase: Phase,
    /// Phase of this partition's part, if the campaign is spread and the part has opened.
    pub part: Option<Phase>,
    /// Whether a webhook may want its events.
    pub watched: bool,
}

impl KnownCampaign {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: KnownCampaignColumns) -> Result<Self, Contradiction> {
        let (campaign_ref, name, kind, owner, currency, once, hold_ms, parts, phase, part, watched) =
            columns;
        let bad = |what: &str| Contradiction::new(format!("campaign {name} has a bad {what}"));
        let part = part.map(|part| phase_of(&part).ok_or_else(|| bad("part")));
        Ok(Self {
            campaign_ref,
            id: name.parse().map_err(|_| bad("id"))?,
            kind: CampaignKind::from_name(&kind).ok_or_else(|| bad("kind"))?,
            owner,
            currency: currency.parse().map_err(|_| bad("currency"))?,
            one_per_user: once == 1,
            hold_ms: hold_ms.unwrap_or(0),
            parts,
            phase: phase_of(&phase).ok_or_else(|| bad("phase"))?,
            part: part.transpose()?,
            watched: watched == 1,
            name,
        })
    }
}

/// Columns of a [`KnownOrder`]: campaign, number, user, quantity, amount, state, units of partial returns, units of
/// partial cancellations, milliseconds by which the hold was extended, and the paid amount, or null.
pub type KnownOrderColumns = (
    i64,
    i64,
    String,
    i64,
    i64,
    String,
    i64,
    i64,
    i64,
    Option<i64>,
);

/// Data of an order that settlement needs.
#[derive(Debug, Clone)]
pub struct KnownOrder {
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the order.
    pub number: i64,
    /// Buyer.
    pub user: String,
    /// Units.
    pub quantity: i64,
    /// Price in minor units.
    pub amount: i64,
    /// State of the order.
    pub state: OrderState,
    /// Units of partial returns.
    pub returned_in_parts: i64,
    /// Units of partial cancellations.
    pub cancelled_in_parts: i64,
    /// Milliseconds by which the hold was extended.
    pub extension_ms: i64,
    /// Minor units that paid it; `None` if it is not paid.
    pub paid_minor: Option<i64>,
}

impl KnownOrder {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: KnownOrderColumns) -> Result<Self, Contradiction> {
        let (campaign, number, user, quantity, amount, state, returned, cancelled, extension, paid) =
            columns;
        let state = OrderState::from_name(&state).ok_or_else(|| {
            Contradiction::new(format!("order {number} of #{campaign} has a bad state"))
        })?;
        Ok(Self {
            campaign,
            number,
            user,
            quantity,
            amount,
            state,
            returned_in_parts: returned,
            cancelled_in_parts: cancelled,
            extension_ms: extension,
            paid_minor: paid,
        })
    }
}
