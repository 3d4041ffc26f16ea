//! A campaign: what is handed out, under which rules, and its life.

mod phase;

use std::{fmt, str::FromStr};

use crate::{
    id::{CampaignId, UserId},
    money::{AMOUNT_MINOR_MAX, Currency, Money},
    split::{Seed, Split, SplitRule},
    time::{Timestamp, Window},
};

pub use self::phase::{Phase, Transition, TransitionError};

/// The largest stock of a sale, in units; it keeps every sum far inside 64 bits and a book inside memory.
pub const STOCK_MAX: u32 = 100_000_000;
/// The longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 200;
/// The longest hold of an unpaid order: 30 days.
pub const HOLD_MS_MAX: i64 = 30 * 24 * 3_600_000;

/// How much a grant survives before it is acknowledged, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AckLevel {
    /// A crash of a service node.
    Memory,
    /// The loss of a primary, when the failover picks an acknowledging replica.
    Replica,
    /// kill -9 and power loss.
    Fsync,
    /// The loss of the engine altogether: the ledger has it.
    Ledger,
}

impl AckLevel {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replica => "replica",
            Self::Fsync => "fsync",
            Self::Ledger => "ledger",
        }
    }
}

impl fmt::Display for AckLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names nothing known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {expected}")]
pub struct WordError {
    /// The word that was given.
    pub word: String,
    /// The words that are known.
    pub expected: &'static str,
}

impl FromStr for AckLevel {
    type Err = WordError;
    fn from_str(word: &str) -> Result<Self, WordError> {
        [Self::Memory, Self::Replica, Self::Fsync, Self::Ledger]
            .into_iter()
            .find(|level| level.name() == word)
            .ok_or_else(|| WordError {
                word: word.to_owned(),
                expected: "memory, replica, fsync, ledger",
            })
    }
}

/// Which of the two things a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CampaignKind {
    /// A sum split into random shares, one a user.
    RedPacket,
    /// Limited stock, sold by the unit.
    Sale,
}

impl CampaignKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RedPacket => "red_packet",
            Self::Sale => "sale",
        }
    }
}

/// Why a campaign cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// Title empty or too long.
    #[error("a title is 1 to {TITLE_CHARS_MAX} characters")]
    Title,
    /// A title that breaks lines or terminals; databases differ in which of these they take.
    #[error("a title has no control characters, such as a line break or NUL")]
    TitleControl,
    /// Stock out of range.
    #[error("a sale's stock is 1 to {STOCK_MAX} units")]
    Stock,
    /// Limit out of range.
    #[error("a sale's per-user limit is 1 up to its stock")]
    Limit,
    /// Hold out of range.
    #[error("a hold is 1 ms up to 30 days")]
    Hold,
    /// Price negative, or the whole stock's price does not fit.
    #[error(
        "a unit price is 0 or more, and the price of the whole stock must fit in 64 bits of minor units"
    )]
    Price,
}

/// A red packet's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedPacket {
    /// Total, count and splitting rule; already known to be possible.
    pub split: Split,
    /// The currency of the total.
    pub currency: Currency,
    /// What the shares are drawn from. Secret until the packet closes; its commitment is public.
    pub seed: Seed,
}

/// A flash sale's rules. Made by [`Sale::new`], which keeps the numbers sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sale {
    stock: u32,
    per_user_limit: u32,
    unit_price: Money,
    hold_ms: i64,
}

impl Sale {
    /// A sale of `stock` units at `unit_price`, at most `per_user_limit` a user, unpaid orders held `hold_ms`.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn new(
        stock: u32,
        per_user_limit: u32,
        unit_price: Money,
        hold_ms: i64,
    ) -> Result<Self, CampaignError> {
        if !(1..=STOCK_MAX).contains(&stock) {
            return Err(CampaignError::Stock);
        }
        if !(1..=stock).contains(&per_user_limit) {
            return Err(CampaignError::Limit);
        }
        let whole = unit_price
            .checked_mul(stock)
            .map_or(i64::MAX, |price| price.minor);
        if unit_price.minor < 0 || whole > AMOUNT_MINOR_MAX {
            return Err(CampaignError::Price);
        }
        if !(1..=HOLD_MS_MAX).contains(&hold_ms) {
            return Err(CampaignError::Hold);
        }
        Ok(Self {
            stock,
            per_user_limit,
            unit_price,
            hold_ms,
        })
    }

    /// Units for sale.
    #[must_use]
    pub fn stock(&self) -> u32 {
        self.stock
    }

    /// Units that one user may have.
    #[must_use]
    pub fn per_user_limit(&self) -> u32 {
        self.per_user_limit
    }

    /// The price of one unit.
    #[must_use]
    pub fn unit_price(&self) -> Money {
        self.unit_price
    }

    /// How long an unpaid order keeps its units, in milliseconds.
    #[must_use]
    pub fn hold_ms(&self) -> i64 {
        self.hold_ms
    }
}

/// The rules of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// A red packet's.
    RedPacket(RedPacket),
    /// A flash sale's.
    Sale(Sale),
}

impl Rules {
    /// A red packet's, if it is one.
    #[must_use]
    pub fn red_packet(&self) -> Option<&RedPacket> {
        match self {
            Self::RedPacket(packet) => Some(packet),
            Self::Sale(_) => None,
        }
    }

    /// A flash sale's, if it is one.
    #[must_use]
    pub fn sale(&self) -> Option<&Sale> {
        match self {
            Self::RedPacket(_) => None,
            Self::Sale(sale) => Some(sale),
        }
    }
}

/// A campaign as it was created. What became of it stands in the log and the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    /// Its id.
    pub id: CampaignId,
    /// The sender of the packet, or the seller.
    pub owner: UserId,
    /// What people see.
    pub title: String,
    /// When claims are accepted.
    pub window: Window,
    /// The acknowledgement level asked for.
    pub ack: AckLevel,
    /// When it was created.
    pub created_at: Timestamp,
    /// What is handed out, and how.
    pub rules: Rules,
}

impl Campaign {
    /// Checks what no field's type can.
    ///
    /// # Errors
    /// [`CampaignError::Title`], [`CampaignError::TitleControl`].
    pub fn check(&self) -> Result<(), CampaignError> {
        let chars = self.title.chars().count();
        if !(1..=TITLE_CHARS_MAX).contains(&chars) {
            Err(CampaignError::Title)
        } else if self.title.chars().any(char::is_control) {
            Err(CampaignError::TitleControl)
        } else {
            Ok(())
        }
    }

    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> CampaignKind {
        match self.rules {
            Rules::RedPacket(_) => CampaignKind::RedPacket,
            Rules::Sale(_) => CampaignKind::Sale,
        }
    }

    /// Shares or units to hand out.
    #[must_use]
    pub fn supply(&self) -> u32 {
        match &self.rules {
            Rules::RedPacket(packet) => packet.split.count(),
            Rules::Sale(sale) => sale.stock,
        }
    }

    /// Money in escrow when it opens, in minor units: the packet's total; nothing for a sale.
    #[must_use]
    pub fn funded_minor(&self) -> i64 {
        match &self.rules {
            Rules::RedPacket(packet) => packet.split.total(),
            Rules::Sale(_) => 0,
        }
    }

    /// Units that one user may have; 1 for a red packet.
    #[must_use]
    pub fn per_user_limit(&self) -> u32 {
        match &self.rules {
            Rules::RedPacket(_) => 1,
            Rules::Sale(sale) => sale.per_user_limit,
        }
    }

    /// The currency of its amounts.
    #[must_use]
    pub fn currency(&self) -> Currency {
        match &self.rules {
            Rules::RedPacket(packet) => packet.currency,
            Rules::Sale(sale) => sale.unit_price.currency,
        }
    }

    /// The amounts of a packet's shares, in the order in which they are handed out; empty for sales and for
    /// lazy packets, whose amounts are drawn at the claim.
    #[must_use]
    pub fn shares(&self) -> Vec<i64> {
        match &self.rules {
            Rules::RedPacket(packet) if !matches!(packet.split.rule(), SplitRule::Lazy { .. }) => {
                packet.split.shares(&packet.seed)
            }
            _ => Vec::new(),
        }
    }
}

/// A campaign's numbers at one moment. Always `supply = granted + remaining + returned` and
/// `funded = claimed + money_remaining + refunded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Where the campaign stands.
    pub phase: Phase,
    /// Shares or units there ever were.
    pub supply: u32,
    /// Shares or units that users have: shares granted, orders held and paid.
    pub granted: u32,
    /// Shares or units that can still be had.
    pub remaining: u32,
    /// Shares or units that went back to the owner at the close.
    pub returned: u32,
    /// Minor units put into escrow; 0 for a sale.
    pub funded_minor: i64,
    /// Minor units granted from escrow.
    pub claimed_minor: i64,
    /// Minor units in escrow.
    pub remaining_minor: i64,
    /// Minor units that went back to the sender.
    pub refunded_minor: i64,
    /// Grants ever made, those later cancelled or expired included.
    pub grants: u32,
}

impl Tally {
    /// Whether nothing was created or lost (invariant 3).
    #[must_use]
    pub fn conserves(&self) -> bool {
        let units = u64::from(self.granted) + u64::from(self.remaining) + u64::from(self.returned);
        let money = self
            .claimed_minor
            .checked_add(self.remaining_minor)
            .and_then(|m| m.checked_add(self.refunded_minor));
        units == u64::from(self.supply) && money == Some(self.funded_minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sale_refuses_impossible_numbers() {
        let cny = |minor| Money::new(minor, "CNY".parse().unwrap());
        assert!(Sale::new(100, 1, cny(0), 1).is_ok());
        assert_eq!(Sale::new(0, 1, cny(1), 1), Err(CampaignError::Stock));
        assert_eq!(
            Sale::new(STOCK_MAX + 1, 1, cny(1), 1),
            Err(CampaignError::Stock)
        );
        assert_eq!(Sale::new(10, 11, cny(1), 1), Err(CampaignError::Limit));
        assert_eq!(Sale::new(10, 0, cny(1), 1), Err(CampaignError::Limit));
        assert_eq!(Sale::new(10, 1, cny(-1), 1), Err(CampaignError::Price));
        assert_eq!(
            Sale::new(10, 1, cny(i64::MAX / 2), 1),
            Err(CampaignError::Price)
        );
        assert_eq!(Sale::new(10, 1, cny(1), 0), Err(CampaignError::Hold));
    }
}
