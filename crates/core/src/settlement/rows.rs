//! The rows that settlement reads and writes.

use crate::{
    campaign::{CampaignKind, Phase, Terms},
    event::Seq,
    id::CampaignId,
    money::Currency,
    order::OrderState,
    rows::{Contradiction, Value, columns, phase_of},
    time::Timestamp,
};

/// A share that goes to a user. It must be free, and have no amount or this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareGrant<'a> {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// Its number.
    pub number: i64,
    /// Whose it is now.
    pub user: &'a str,
    /// Minor units.
    pub amount: i64,
    /// When it was granted, in milliseconds.
    pub at: i64,
}

impl<'a> ShareGrant<'a> {
    /// The columns `campaign`, `number`, `user`, `amount` and `granted_at`.
    pub fn columns(&self) -> [Value<'a>; 5] {
        columns!(self; campaign, number, user, amount, at)
    }
}

/// An order that the ledger does not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder<'a> {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// Its number.
    pub number: i64,
    /// The buyer.
    pub user: &'a str,
    /// Units.
    pub quantity: i64,
    /// Its price in minor units.
    pub amount: i64,
    /// Where it stands after these entries.
    pub state: OrderState,
    /// Units that returns of parts have returned.
    pub returned_in_parts: i64,
    /// Whether its sale lets a user have one unit.
    pub one_per_user: bool,
    /// When it was granted, in milliseconds.
    pub granted_at: i64,
    /// Until when its units are held, in milliseconds.
    pub hold_until: i64,
    /// When it came to its state, in milliseconds.
    pub updated_at: i64,
    /// The key of the claim, if it had one.
    pub key: Option<&'a str>,
}

impl<'a> NewOrder<'a> {
    /// The columns of `orders`, in the order of the fields.
    pub fn columns(&self) -> [Value<'a>; 12] {
        columns!(self; campaign, number, user, quantity, amount, state, one_per_user, granted_at,
            hold_until, updated_at, key, returned_in_parts)
    }
}

/// An order that moves to another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderChange {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// Its number.
    pub number: i64,
    /// The new state.
    pub state: OrderState,
    /// Units that returns of parts have returned.
    pub returned_in_parts: i64,
    /// When it moved last, in milliseconds; `None` if it stays in its state.
    pub at: Option<i64>,
}

impl OrderChange {
    /// The columns `campaign`, `number`, `state`, `updated_at`, null if it stays, and `returned_in_parts`.
    pub fn columns(&self) -> [Value<'static>; 5] {
        columns!(self; campaign, number, state, at, returned_in_parts)
    }
}

/// A return of some units of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnRow<'a> {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// The order's number.
    pub number: i64,
    /// Its key.
    pub key: &'a str,
    /// Units.
    pub quantity: i64,
    /// Minor units that are owed for them.
    pub amount: i64,
    /// When, in milliseconds.
    pub at: i64,
}

impl<'a> ReturnRow<'a> {
    /// The columns of `order_returns`, in the order of the fields.
    pub fn columns(&self) -> [Value<'a>; 6] {
        columns!(self; campaign, number, key, quantity, amount, at)
    }
}

/// A campaign, or the partition's part of one, that has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedPart {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// When it was closed, in milliseconds.
    pub at: i64,
}

/// A payment that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentRow<'a> {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// The order's number.
    pub number: i64,
    /// The payment's reference.
    pub payment: &'a str,
    /// What it came to: `paid`, `reinstated` or `refund_due`.
    pub outcome: &'static str,
    /// The minor units that arrived.
    pub amount: i64,
    /// When, in milliseconds.
    pub at: i64,
    /// The currency of another amount than the order's price; none if the price arrived.
    pub currency: Option<&'static str>,
}

impl<'a> PaymentRow<'a> {
    /// The columns of `payments`, in the order of the fields.
    pub fn columns(&self) -> [Value<'a>; 7] {
        columns!(self; campaign, number, payment, outcome, amount, at, currency)
    }
}

/// What is added to the counts of a campaign, or of a part of one, and what it changes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CampaignChange {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// Its new phase, if that changes.
    pub phase: Option<Phase>,
    /// Over how many partitions it is spread, if a part of it is opened. A campaign is spread once, while it is a
    /// draft, and every part says the same.
    pub parts: Option<i64>,
    /// Units that users got, less those that they gave back.
    pub granted: i64,
    /// Units that went back to the owner.
    pub returned: i64,
    /// Minor units that went back to the owner.
    pub refunded: i64,
    /// Units that came to the stock, less those that were taken out of it. A part has none of its own: where units of
    /// the stock are is the engine's affair.
    pub supply: i64,
    /// The last change of the terms, if there is one. It counts if the ledger has no later one.
    pub terms: Option<TermsRow>,
    /// Time of the last entry that changed phase, stock or terms, in milliseconds; `None` if counts alone change.
    pub updated_at: Option<i64>,
}

impl CampaignChange {
    /// A change of nothing but the phase.
    pub fn to_phase(campaign: i64, phase: Phase) -> Self {
        Self {
            phase: Some(phase),
            ..Self::nothing(campaign)
        }
    }

    /// The columns `ref`, `phase` and `parts`, what is added to `granted`, `returned`, `refunded` and `supply`, and
    /// the terms: `terms_revision`, `starts_at`, `ends_at`, `per_user_limit`, `unit_price` and `admission`, null if
    /// they stay; then `updated_at`, null if it stays.
    pub fn columns(&self) -> [Value<'static>; 14] {
        let own: [Value<'static>; 7] =
            columns!(self; campaign, phase, parts, granted, returned, refunded, supply);
        let [a, b, c, d, e, f, g] = own;
        let of = |field: fn(&TermsRow) -> i64| self.terms.as_ref().map(field).into();
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

    /// Notes the time of an entry that changes what users see of the campaign beside its counts.
    pub(super) fn update(&mut self, at: Timestamp) {
        self.updated_at = self.updated_at.max(Some(at.as_millis()));
    }

    pub(super) fn change_terms(&mut self, row: TermsRow) {
        if self
            .terms
            .is_none_or(|before| before.revision <= row.revision)
        {
            self.terms = Some(row);
        }
    }

    /// A change of nothing.
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

/// Terms that a sale has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermsRow {
    /// The sale's `ref`.
    pub campaign: i64,
    /// Which of its changes it is; the highest counts.
    pub revision: i64,
    /// When, in milliseconds.
    pub at: i64,
    /// The first millisecond of the window.
    pub starts_at: i64,
    /// The first millisecond after the window.
    pub ends_at: i64,
    /// Units that one user may have.
    pub per_user_limit: i64,
    /// The price of one unit in minor units.
    pub unit_price: i64,
    /// Users on their way for each unit that is left, in percent.
    pub admission: i64,
}

impl TermsRow {
    pub(super) fn of(campaign: i64, revision: Seq, at: Timestamp, terms: &Terms) -> Self {
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

    /// The columns of `sale_terms`, in the order of the fields.
    pub fn columns(&self) -> [Value<'static>; 8] {
        columns!(self; campaign, revision, at, starts_at, ends_at, per_user_limit, unit_price, admission)
    }
}

/// The columns of a [`KnownCampaign`]: ref, id, kind, owner, currency, whether a user may and could at all
/// times have one unit (1, else 0), hold_ms, parts, phase, the phase of the partition's own part, and whether a webhook
/// may want its events (1, else 0).
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

/// What settlement has to know of a campaign.
#[derive(Debug, Clone)]
pub struct KnownCampaign {
    /// Its `ref`: what rows of other tables know it by.
    pub campaign_ref: i64,
    /// Its id.
    pub id: CampaignId,
    /// The id in writing: who owns the escrow.
    pub name: String,
    /// What it is.
    pub kind: CampaignKind,
    /// Who gets payments and refunds.
    pub owner: String,
    /// The currency of its amounts.
    pub currency: Currency,
    /// Whether a user may have one unit, and could at all times.
    pub one_per_user: bool,
    /// How long orders hold their units, in milliseconds.
    pub hold_ms: i64,
    /// Over how many partitions it is spread; 1 if it is not.
    pub parts: i64,
    /// Where it stands.
    pub phase: Phase,
    /// Where the part of the partition that is settled stands, if the campaign is spread and the part has opened.
    pub part: Option<Phase>,
    /// Whether a webhook may want its events.
    pub watched: bool,
}

impl KnownCampaign {
    /// Reads the columns.
    ///
    /// # Errors
    /// When one holds what was never written.
    pub fn of(columns: KnownCampaignColumns) -> Result<Self, Contradiction> {
        let (campaign_ref, name, kind, owner, currency, once, hold_ms, parts, phase, part, watched) =
            columns;
        let bad = |what: &str| Contradiction::new(format!("campaign {name} has a bad {what}"));
        let part = part.map(|part| phase_of(&part).ok_or_else(|| bad("part")));
        Ok(Self {
            campaign_ref,
            id: name.parse().map_err(|_| bad("id"))?,
            kind: CampaignKind::of_name(&kind).ok_or_else(|| bad("kind"))?,
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

/// The columns of a [`KnownOrder`]: campaign, number, user, quantity, amount, state, units that returns of parts have
/// returned, and the amount that paid it, null if no payment did.
pub type KnownOrderColumns = (i64, i64, String, i64, i64, String, i64, Option<i64>);

/// What settlement has to know of an order.
#[derive(Debug, Clone)]
pub struct KnownOrder {
    /// The campaign's `ref`.
    pub campaign: i64,
    /// Its number.
    pub number: i64,
    /// The buyer.
    pub user: String,
    /// Units.
    pub quantity: i64,
    /// Its price in minor units.
    pub amount: i64,
    /// Where it stands.
    pub state: OrderState,
    /// Units that returns of parts have returned.
    pub returned_in_parts: i64,
    /// Minor units that paid it; `None` if no payment did.
    pub paid_minor: Option<i64>,
}

impl KnownOrder {
    /// Reads the columns.
    ///
    /// # Errors
    /// When one holds what was never written.
    pub fn of(columns: KnownOrderColumns) -> Result<Self, Contradiction> {
        let (campaign, number, user, quantity, amount, state, returned_in_parts, paid_minor) =
            columns;
        let state = OrderState::of_name(&state).ok_or_else(|| {
            Contradiction::new(format!("order {number} of #{campaign} has a bad state"))
        })?;
        Ok(Self {
            campaign,
            number,
            user,
            quantity,
            amount,
            state,
            returned_in_parts,
            paid_minor,
        })
    }
}
