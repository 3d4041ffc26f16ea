//! Campaigns in one line, the same ones every time.

use qiang_core::{
    admission::AdmissionRatio,
    book::{Claim, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, RedPacket, Requirements, Rules, Sale},
    id::{CampaignId, IdempotencyKey, OrderId, UserId},
    money::{Currency, Money},
    payment::PaymentPolicy,
    split::{Seed, Split, SplitRule},
    time::{Timestamp, Window},
};
use uuid::Uuid;

/// When the built campaigns open, by default: an instant in 2027.
pub const OPENS: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// How long they stay open, by default: an hour.
pub const OPEN_MS: i64 = 3_600_000;
/// How long a sale holds unpaid orders, by default: a minute.
pub const HOLD_MS: i64 = 60_000;
/// Who sends the packets and sells the stock.
pub const OWNER: &str = "owner";

/// The currency of all built campaigns.
///
/// # Panics
/// Never: the code is ISO 4217's.
#[must_use]
pub fn currency() -> Currency {
    "CNY".parse().expect("CNY is a currency")
}

/// The `n`-th campaign id.
///
/// # Panics
/// Never: the version is put in.
#[must_use]
pub fn id(n: u64) -> CampaignId {
    let bits = (0x7_u128 << 76) | (0x2_u128 << 62) | (u128::from(n) << 80);
    CampaignId::new(Uuid::from_u128(bits)).expect("the version is 7")
}

/// A user.
///
/// # Panics
/// When the name is none.
#[must_use]
pub fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user's name in a test is well-formed")
}

/// A red packet of `total` minor units in `count` shares.
///
/// # Panics
/// When no such split is possible.
#[must_use]
pub fn red_packet(total: i64, count: u32, rule: SplitRule) -> Builder {
    let split = Split::new(total, count, rule).expect("a split in a test is possible");
    Builder::new(Draft::RedPacket(split))
}

/// A sale of `stock` units, one a user, 100 minor units each.
#[must_use]
pub fn sale(stock: u32) -> Builder {
    Builder::new(Draft::Sale {
        stock: stock.into(),
        limit: 1,
        price: 100,
        hold_ms: HOLD_MS,
        admission: Some(AdmissionRatio::DEFAULT),
    })
}

#[derive(Debug, Clone)]
enum Draft {
    RedPacket(Split),
    Sale {
        stock: u64,
        limit: u32,
        price: i64,
        hold_ms: i64,
        admission: Option<AdmissionRatio>,
    },
}

/// A campaign in the making.
#[derive(Debug, Clone)]
pub struct Builder {
    draft: Draft,
    owner: String,
    opens: Timestamp,
    ends: Timestamp,
    ack: AckLevel,
    seed: [u8; 32],
    payment_policy: PaymentPolicy,
}

impl Builder {
    fn new(draft: Draft) -> Self {
        Self {
            draft,
            owner: OWNER.to_owned(),
            opens: OPENS,
            ends: OPENS.plus_millis(OPEN_MS),
            ack: AckLevel::Memory,
            seed: [7; 32],
            payment_policy: PaymentPolicy::default(),
        }
    }

    /// Units for sale, where they are more than 32 bits have; for sales.
    #[must_use]
    pub fn stock(mut self, units: u64) -> Self {
        if let Draft::Sale { stock, .. } = &mut self.draft {
            *stock = units;
        }
        self
    }

    /// Units that one user may have; for sales.
    #[must_use]
    pub fn limit(mut self, units: u32) -> Self {
        if let Draft::Sale { limit, .. } = &mut self.draft {
            *limit = units;
        }
        self
    }

    /// The price of a unit in minor units; for sales.
    #[must_use]
    pub fn price(mut self, minor: i64) -> Self {
        if let Draft::Sale { price, .. } = &mut self.draft {
            *price = minor;
        }
        self
    }

    /// How long unpaid orders keep their units; for sales.
    #[must_use]
    pub fn hold_ms(mut self, millis: i64) -> Self {
        if let Draft::Sale { hold_ms, .. } = &mut self.draft {
            *hold_ms = millis;
        }
        self
    }

    /// Which amounts beside the price pay an order; for sales.
    #[must_use]
    pub fn payment_policy(mut self, policy: PaymentPolicy) -> Self {
        self.payment_policy = policy;
        self
    }

    /// How many users it admits for each unit that is left; none for all; for sales.
    #[must_use]
    pub fn admission(mut self, ratio: Option<AdmissionRatio>) -> Self {
        if let Draft::Sale { admission, .. } = &mut self.draft {
            *admission = ratio;
        }
        self
    }

    /// Who sends or sells.
    #[must_use]
    pub fn owner(mut self, name: &str) -> Self {
        name.clone_into(&mut self.owner);
        self
    }

    /// When claims are accepted: from `opens` on, for `open_ms`.
    #[must_use]
    pub fn window(mut self, opens: Timestamp, open_ms: i64) -> Self {
        (self.opens, self.ends) = (opens, opens.plus_millis(open_ms));
        self
    }

    /// The acknowledgement level asked for; the weakest if none is.
    #[must_use]
    pub fn ack(mut self, level: AckLevel) -> Self {
        self.ack = level;
        self
    }

    /// What a packet's shares are drawn from.
    #[must_use]
    pub fn seed(mut self, byte: u8) -> Self {
        self.seed = [byte; 32];
        self
    }

    /// The campaign under the `n`-th id, as an engine takes it up.
    ///
    /// # Panics
    /// When the numbers make no campaign.
    #[must_use]
    pub fn setup(&self, n: u64) -> Setup {
        let rules = match self.draft {
            Draft::RedPacket(split) => Rules::RedPacket(RedPacket::new(
                split,
                currency(),
                Seed::from_bytes(self.seed),
            )),
            Draft::Sale {
                stock,
                limit,
                price,
                hold_ms,
                admission,
            } => {
                let price = Money::new(price, currency());
                let sale = Sale::new(stock, limit, price, hold_ms);
                let sale = sale.expect("a sale in a test is possible");
                Rules::Sale(sale.with_admission(admission))
            }
        };
        let campaign = Campaign {
            id: id(n),
            owner: user(&self.owner),
            title: format!("campaign {n}"),
            window: Window::new(self.opens, self.ends).expect("a window in a test is possible"),
            ack: self.ack,
            requirements: Requirements::default(),
            payment_policy: self.payment_policy,
            created_at: OPENS.plus_millis(-1),
            rules,
        };
        let shares = campaign.shares();
        Setup { campaign, shares }
    }
}

/// A campaign to be claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: CampaignId,
    /// What it is claimed as.
    pub kind: CampaignKind,
}

impl Target {
    /// The target that a setup makes.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        Self {
            id: setup.campaign.id,
            kind: setup.campaign.kind(),
        }
    }

    /// The same campaign claimed as the other kind.
    #[must_use]
    pub fn mistaken(self) -> Self {
        let kind = match self.kind {
            CampaignKind::RedPacket => CampaignKind::Sale,
            CampaignKind::Sale => CampaignKind::RedPacket,
        };
        Self { kind, ..self }
    }

    /// A claim to one share or unit, without a key.
    #[must_use]
    pub fn one(self, name: &str) -> Claim {
        self.units(name, 1)
    }

    /// A claim to some units, without a key.
    #[must_use]
    pub fn units(self, name: &str, quantity: u32) -> Claim {
        Claim {
            campaign: self.id,
            kind: self.kind,
            user: user(name),
            quantity,
            key: None,
        }
    }

    /// A claim to some units under an idempotency key.
    ///
    /// # Panics
    /// When the key is none.
    #[must_use]
    pub fn keyed(self, name: &str, quantity: u32, key: &str) -> Claim {
        let key = IdempotencyKey::new(key).expect("a key in a test is well-formed");
        Claim {
            key: Some(key),
            ..self.units(name, quantity)
        }
    }

    /// The order with this number.
    #[must_use]
    pub fn order(self, number: u32) -> OrderId {
        OrderId {
            campaign: self.id,
            number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_sort_by_their_number() {
        let ids: Vec<_> = (0..300).map(id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
}
