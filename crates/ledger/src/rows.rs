//! Rows as they pass between the logic and the dialects.

use qiang_core::{
    campaign::{Campaign, CampaignKind, Phase, RedPacket, Rules, Sale},
    id::{CampaignId, UserId},
    money::{Currency, Money},
    order::OrderState,
    ports::{CampaignRecord, GrantRecord},
    split::{SPLIT_VERSION, Seed, Split, SplitRule, commit},
    time::{Timestamp, Window},
};

use crate::error::{StoreError, contradiction};

/// The owner of the account that stands for everything outside Qiang.
pub(crate) const OUTSIDE: &str = "outside";
/// The source of postings that follow from no log entry.
pub(crate) const DIRECT: i64 = -1;

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Purpose {
    User,
    RefundsDue,
    Escrow,
    Outside,
}

impl Purpose {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::RefundsDue => "refunds_due",
            Self::Escrow => "escrow",
            Self::Outside => "outside",
        }
    }

    /// Whether many transactions at once move such an account. Those are moved last, and by their ids, so that each
    /// is held for as short as can be.
    pub(crate) fn is_hot(self) -> bool {
        matches!(self, Self::Escrow | Self::Outside)
    }
}

/// What an account is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AccountKey<'a> {
    pub(crate) owner: &'a str,
    pub(crate) purpose: Purpose,
    pub(crate) currency: Currency,
}

impl<'a> AccountKey<'a> {
    /// The columns `owner`, `purpose` and `currency`.
    pub(crate) fn columns(&self) -> (&'a str, &'static str, &'static str) {
        (self.owner, self.purpose.name(), self.currency.code())
    }
}

/// An account as it is found.
#[derive(Debug)]
pub(crate) struct AccountRow {
    pub(crate) id: i64,
    pub(crate) owner: String,
    pub(crate) purpose: String,
    pub(crate) currency: String,
    pub(crate) balance: i64,
}

impl AccountRow {
    /// As [`AccountKey::columns`].
    pub(crate) fn key(&self) -> (&str, &str, &str) {
        (&self.owner, &self.purpose, &self.currency)
    }
}

/// A movement of money: `amount`, always positive, from the account `debit` to the account `credit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostingRow {
    pub(crate) source: i64,
    pub(crate) seq: i64,
    pub(crate) kind: &'static str,
    pub(crate) debit: i64,
    pub(crate) credit: i64,
    pub(crate) amount: i64,
    pub(crate) campaign: Option<i64>,
    pub(crate) number: Option<i64>,
    pub(crate) at: i64,
}

/// A share that goes to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShareGrant<'a> {
    pub(crate) campaign: i64,
    pub(crate) number: i64,
    pub(crate) user: &'a str,
    pub(crate) amount: i64,
    pub(crate) at: i64,
}

/// An order that was not there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewOrder<'a> {
    pub(crate) campaign: i64,
    pub(crate) number: i64,
    pub(crate) user: &'a str,
    pub(crate) quantity: i64,
    pub(crate) amount: i64,
    pub(crate) state: OrderState,
    pub(crate) one_per_user: bool,
    pub(crate) granted_at: i64,
    pub(crate) hold_until: i64,
    pub(crate) updated_at: i64,
}

/// An order that moves to another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderChange {
    pub(crate) campaign: i64,
    pub(crate) number: i64,
    pub(crate) state: OrderState,
    pub(crate) at: i64,
}

/// A payment that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaymentRow<'a> {
    pub(crate) campaign: i64,
    pub(crate) number: i64,
    pub(crate) payment: &'a str,
    pub(crate) outcome: &'static str,
    pub(crate) amount: i64,
    pub(crate) at: i64,
}

/// What is added to a campaign's numbers, and the phase that it gets, if it gets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CampaignChange {
    pub(crate) campaign: i64,
    pub(crate) phase: Option<Phase>,
    /// Over how many partitions it is spread; nothing is changed where it is not.
    pub(crate) parts: Option<i64>,
    pub(crate) granted: i64,
    pub(crate) returned: i64,
    pub(crate) refunded: i64,
}

impl CampaignChange {
    pub(crate) fn nothing(campaign: i64) -> Self {
        Self {
            campaign,
            phase: None,
            parts: None,
            granted: 0,
            returned: 0,
            refunded: 0,
        }
    }

    pub(crate) fn changes_something(&self) -> bool {
        *self != Self::nothing(self.campaign)
    }
}

/// The same for the part that one partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartChange {
    pub(crate) campaign: i64,
    pub(crate) phase: Option<Phase>,
    pub(crate) granted: i64,
    pub(crate) returned: i64,
    pub(crate) refunded: i64,
}

/// The columns of a [`KnownCampaign`]: ref, id, kind, owner, currency, per_user_limit, hold_ms, parts, phase, and the
/// phase of the partition's own part.
pub(crate) type KnownCampaignColumns = (
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
);

/// What settlement has to know of a campaign.
#[derive(Debug)]
pub(crate) struct KnownCampaign {
    pub(crate) r: i64,
    pub(crate) id: CampaignId,
    /// The id in writing: who owns the escrow.
    pub(crate) name: String,
    pub(crate) kind: CampaignKind,
    pub(crate) owner: String,
    pub(crate) currency: Currency,
    pub(crate) one_per_user: bool,
    pub(crate) hold_ms: i64,
    pub(crate) parts: i64,
    pub(crate) phase: Phase,
    /// Where the part of the partition that is settled stands, if the campaign is spread and the part has opened.
    pub(crate) part: Option<Phase>,
}

impl KnownCampaign {
    pub(crate) fn of(row: KnownCampaignColumns) -> sqlx::Result<Self> {
        let (r, name, kind, owner, currency, per_user_limit, hold_ms, parts, phase, part) = row;
        let bad = |what: &str| bad(&format!("campaign {name} has a bad {what}"));
        Ok(Self {
            r,
            id: name.parse().map_err(|_| bad("id"))?,
            kind: kind_of(&kind).ok_or_else(|| bad("kind"))?,
            owner,
            currency: currency.parse().map_err(|_| bad("currency"))?,
            one_per_user: per_user_limit == 1,
            hold_ms: hold_ms.unwrap_or(0),
            parts,
            phase: phase_of(&phase).ok_or_else(|| bad("phase"))?,
            part: part
                .map(|part| phase_of(&part).ok_or_else(|| bad("part")))
                .transpose()?,
            name,
        })
    }
}

/// What settlement has to know of an order.
#[derive(Debug)]
pub(crate) struct KnownOrder {
    pub(crate) campaign: i64,
    pub(crate) number: i64,
    pub(crate) user: String,
    pub(crate) quantity: i64,
    pub(crate) amount: i64,
    pub(crate) state: OrderState,
}

impl KnownOrder {
    pub(crate) fn of(row: (i64, i64, String, i64, i64, String)) -> sqlx::Result<Self> {
        let (campaign, number, user, quantity, amount, state) = row;
        let states = [
            OrderState::Held,
            OrderState::Paid,
            OrderState::Cancelled,
            OrderState::Expired,
        ];
        let state = states.into_iter().find(|known| known.name() == state);
        let state =
            state.ok_or_else(|| bad(&format!("order {number} of #{campaign} has a bad state")))?;
        Ok(Self {
            campaign,
            number,
            user,
            quantity,
            amount,
            state,
        })
    }
}

/// An entry that is to be set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsideRow {
    pub(crate) seq: i64,
    pub(crate) campaign: String,
    pub(crate) entry: String,
    pub(crate) reason: String,
    pub(crate) waits_for: Option<i64>,
    pub(crate) at: i64,
}

/// An entry that is set quarantine, as it is listed: partition, place, entry, reason, what it waits for, when.
pub(crate) type AsideColumns = (i64, i64, String, String, Option<i64>, i64);

/// A grant as it is listed: number, user, quantity, amount, when.
pub(crate) type GrantRow = (i64, String, i64, i64, i64);

/// A grant as the port tells it.
pub(crate) fn grant_of(
    (number, user, quantity, amount, at): GrantRow,
) -> Result<GrantRecord, StoreError> {
    let damaged = |what: &str| StoreError::damaged(format!("grant {number} has a bad {what}"));
    Ok(GrantRecord {
        number: number.try_into().map_err(|_| damaged("number"))?,
        user: UserId::new(&user).map_err(|_| damaged("user"))?,
        quantity: quantity.try_into().map_err(|_| damaged("quantity"))?,
        amount_minor: amount,
        granted_at: Timestamp::from_millis(at),
    })
}

/// A campaign's columns as they are.
#[derive(Debug)]
pub(crate) struct CampaignRow {
    pub(crate) r: i64,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) owner: String,
    pub(crate) title: String,
    pub(crate) currency: String,
    pub(crate) ack: String,
    pub(crate) starts_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) created_at: i64,
    pub(crate) supply: i64,
    pub(crate) per_user_limit: i64,
    pub(crate) total: Option<i64>,
    pub(crate) split_rule: Option<String>,
    pub(crate) split_min: Option<i64>,
    pub(crate) split_max: Option<i64>,
    pub(crate) split_version: Option<i64>,
    pub(crate) seed: Option<Vec<u8>>,
    pub(crate) unit_price: Option<i64>,
    pub(crate) hold_ms: Option<i64>,
    pub(crate) phase: String,
    pub(crate) granted: i64,
    pub(crate) returned: i64,
    pub(crate) refunded: i64,
}

/// Reads a [`CampaignRow`] from a row of either database.
macro_rules! campaign_row {
    ($row:expr) => {
        $crate::rows::campaign_row!(
            $row; r id kind owner title currency ack starts_at ends_at created_at supply per_user_limit total
            split_rule split_min split_max split_version seed unit_price hold_ms phase granted returned refunded
        )
    };
    ($row:expr; r $($column:ident)*) => {{
        use sqlx::Row as _;
        let row = $row;
        Ok($crate::rows::CampaignRow {
            r: row.try_get("ref")?,
            $($column: row.try_get(stringify!($column))?,)*
        })
    }};
}
pub(crate) use campaign_row;

impl CampaignRow {
    /// The campaign as the port tells it.
    pub(crate) fn record(self) -> Result<CampaignRecord, StoreError> {
        let bad =
            |what: &str| StoreError::damaged(format!("campaign {} has a bad {what}", self.id));
        let currency: Currency = self.currency.parse().map_err(|_| bad("currency"))?;
        let kind = kind_of(&self.kind).ok_or_else(|| bad("kind"))?;
        let supply = self.supply.try_into().map_err(|_| bad("supply"))?;
        let rules = match kind {
            CampaignKind::RedPacket => Rules::RedPacket(self.packet(supply, currency)?),
            CampaignKind::Sale => {
                let limit = self.per_user_limit.try_into().map_err(|_| bad("limit"))?;
                let price = self.unit_price.ok_or_else(|| bad("price"))?;
                let hold_ms = self.hold_ms.ok_or_else(|| bad("hold"))?;
                let sale = Sale::new(supply, limit, Money::new(price, currency), hold_ms);
                Rules::Sale(sale.map_err(|_| bad("sale"))?)
            }
        };
        let (starts_at, ends_at) = (self.starts_at, self.ends_at);
        let window = Window::new(
            Timestamp::from_millis(starts_at),
            Timestamp::from_millis(ends_at),
        );
        Ok(CampaignRecord {
            campaign: Campaign {
                id: self.id.parse().map_err(|_| bad("id"))?,
                owner: UserId::new(&self.owner).map_err(|_| bad("owner"))?,
                window: window.map_err(|_| bad("window"))?,
                ack: self.ack.parse().map_err(|_| bad("acknowledgement level"))?,
                created_at: Timestamp::from_millis(self.created_at),
                rules,
                title: self.title.clone(),
            },
            phase: phase_of(&self.phase).ok_or_else(|| bad("phase"))?,
            granted: self
                .granted
                .try_into()
                .map_err(|_| bad("count of grants"))?,
            returned: self
                .returned
                .try_into()
                .map_err(|_| bad("count of returns"))?,
            refunded_minor: self.refunded,
        })
    }

    fn packet(&self, count: u32, currency: Currency) -> Result<RedPacket, StoreError> {
        let bad =
            |what: &str| StoreError::damaged(format!("campaign {} has a bad {what}", self.id));
        if self.split_version != Some(i64::from(SPLIT_VERSION)) {
            return Err(bad(
                "split version: it was made by another release of the splitting rules",
            ));
        }
        let name = self
            .split_rule
            .as_deref()
            .and_then(|name| name.parse().ok());
        let rule = name
            .and_then(|name| SplitRule::from_parts(name, self.split_min, self.split_max).ok())
            .ok_or_else(|| bad("splitting rule"))?;
        let total = self.total.ok_or_else(|| bad("total"))?;
        let seed = self.seed.as_deref().and_then(|seed| seed.try_into().ok());
        Ok(RedPacket {
            split: Split::new(total, count, rule).map_err(|_| bad("split"))?,
            currency,
            seed: Seed::from_bytes(seed.ok_or_else(|| bad("seed"))?),
        })
    }
}

/// What only one kind of campaign has, as columns.
pub(crate) struct RuleColumns {
    pub(crate) total: Option<i64>,
    pub(crate) split_rule: Option<&'static str>,
    pub(crate) split_min: Option<i64>,
    pub(crate) split_max: Option<i64>,
    pub(crate) split_version: Option<i64>,
    pub(crate) seed: Option<Vec<u8>>,
    pub(crate) commitment: Option<Vec<u8>>,
    pub(crate) unit_price: Option<i64>,
    pub(crate) hold_ms: Option<i64>,
}

impl RuleColumns {
    pub(crate) fn of(campaign: &Campaign) -> Self {
        let (packet, sale) = (campaign.rules.red_packet(), campaign.rules.sale());
        let rule = packet.map(|packet| packet.split.rule().parts());
        let commitment = packet.map(|packet| commit(&packet.seed, &packet.split));
        Self {
            total: packet.map(|packet| packet.split.total()),
            split_rule: rule.map(|(name, ..)| name.as_str()),
            split_min: rule.and_then(|(_, min, _)| min),
            split_max: rule.and_then(|(.., max)| max),
            split_version: packet.map(|_| i64::from(SPLIT_VERSION)),
            seed: packet.map(|packet| packet.seed.as_bytes().to_vec()),
            commitment: commitment.map(|commitment| commitment.as_bytes().to_vec()),
            unit_price: sale.map(|sale| sale.unit_price().minor),
            hold_ms: sale.map(Sale::hold_ms),
        }
    }
}

fn bad(what: &str) -> sqlx::Error {
    contradiction(what.to_owned())
}

fn kind_of(name: &str) -> Option<CampaignKind> {
    [CampaignKind::RedPacket, CampaignKind::Sale]
        .into_iter()
        .find(|kind| kind.name() == name)
}

/// The phase of that name; `live` is none that is written down.
pub(crate) fn phase_of(name: &str) -> Option<Phase> {
    let phases = [
        Phase::Draft,
        Phase::Scheduled,
        Phase::Paused,
        Phase::Ended,
        Phase::Closed,
    ];
    phases.into_iter().find(|phase| phase.name() == name)
}
