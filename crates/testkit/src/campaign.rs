//! Builders of campaigns. The same input always gives the same campaign.

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

/// Default opening time of built campaigns: an instant in 2027.
pub const OPENS: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Default duration of their window: an hour.
pub const OPEN_MS: i64 = 3_600_000;
/// Default hold of a sale: a minute.
pub const HOLD_MS: i64 = 60_000;
/// Default sender of red packets and seller of sales.
pub const OWNER: &str = "owner";

/// The currency of all built campaigns.
///
/// # Panics
/// Never: ISO 4217 contains the code.
#[must_use]
pub fn currency() -> Currency {
    "CNY".parse().expect("CNY is a currency")
}

/// The `n`-th campaign id.
///
/// # Panics
/// Never: the bits contain the version.
#[must_use]
pub fn id(n: u64) -> CampaignId {
    let bits = (0x7_u128 << 76) | (0x2_u128 << 62) | (u128::from(n) << 80);
    CampaignId::new(Uuid::from_u128(bits)).expect("the version is 7")
}

/// A user.
///
/// # Panics
/// If the name is not well-formed.
#[must_use]
pub fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user's name in a test is well-formed")
}

/// A red packet of `total` minor units in `count` shares.
///
/// # Panics
/// If no such split is possible.
#[must_use]
pub fn red_packet(total: i64, count: u32, rule: SplitRule) -> Builder {
    let split = Split::new(total, count, rule).expect("a split in a test is possible");
    Builder::new(Draft::RedPacket(split))
}

/// A sale of `stock` units at 100 minor units each, at most one per user.
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

/// Builder of a campaign.
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

    /// Sets the units for sale, also above 32 bits; for sales.
    #[must_use]
    pub fn stock(mut self, units: u64) -> Self {
        if let Draft::Sale { stock, .. } = &mut self.draft {
            *stock = units;
        }
        self
    }

    /// Sets the maximum units per user; for sales.
    #[must_use]
    pub fn limit(mut self, units: u32) -> Self {
        if let Draft::Sale { limit, .. } = &mut self.draft {
            *limit = units;
        }
        self
    }

    /// Sets the price of a unit in minor units; for sales.
    #[must_use]
    pub fn price(mut self, minor: i64) -> Self {
        if let Draft::Sale { price, .. } = &mut self.draft {
            *price = minor;
        }
        self
    }

    /// Sets the hold of unpaid orders; for sales.
    #[must_use]
    pub fn hold_ms(mut self, millis: i64) -> Self {
        if let Draft::Sale { hold_ms, .. } = &mut self.draft {
            *hold_ms = millis;
        }
        self
    }

    /// Sets the policy that says which amounts other than the price pay an order; for sales.
    #[must_use]
    pub fn payment_policy(mut self, policy: PaymentPolicy) -> Self {
        self.payment_policy = policy;
        self
    }

    /// Sets how many users are admitted per unit left; `None` admits all; for sales.
    #[must_use]
    pub fn admission(mut self, ratio: Option<AdmissionRatio>) -> Self {
        if let Draft::Sale { admission, .. } = &mut self.draft {
            *admission = ratio;
        }
        self
    }

    /// Sets the sender or seller.
    #[must_use]
    pub fn owner(mut self, name: &str) -> Self {
        name.clone_into(&mut self.owner);
        self
    }

    /// Sets the window: claims are accepted from `opens` on, for `open_ms`.
    #[must_use]
    pub fn window(mut self, opens: Timestamp, open_ms: i64) -> Self {
        (self.opens, self.ends) = (opens, opens.plus_millis(open_ms));
        self
    }

    /// Sets the required acknowledgement level. The default is the weakest.
    #[must_use]
    pub fn ack(mut self, level: AckLevel) -> Self {
        self.ack = level;
        self
    }

    /// Sets the seed of a packet's shares.
    #[must_use]
    pub fn seed(mut self, byte: u8) -> Self {
        self.seed = [byte; 32];
        self
    }

    /// The campaign with the `n`-th id, as an engine opens it.
    ///
    /// # Panics
    /// If the values do not form a valid campaign.
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

/// A campaign as the target of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: CampaignId,
    /// Kind that its claims name.
    pub kind: CampaignKind,
}

impl Target {
    /// Target of a setup.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        Self {
            id: setup.campaign.id,
            kind: setup.campaign.kind(),
        }
    }

    /// The same campaign, claimed as the other kind.
    #[must_use]
    pub fn mistaken(self) -> Self {
        let kind = match self.kind {
            CampaignKind::RedPacket => CampaignKind::Sale,
            CampaignKind::Sale => CampaignKind::RedPacket,
        };
        Self { kind, ..self }
    }

    /// A claim of one share or unit, without a key.
    #[must_use]
    pub fn one(self, name: &str) -> Claim {
        self.units(name, 1)
    }

    /// A claim of some units, without a key.
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

    /// A claim of some units under an idempotency key.
    ///
    /// # Panics
    /// If the key is not well-formed.
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
