//! Changes of a sale, and their effects in the engine and the ledger.

use qiang::Backend;
use qiang_core::{
    book::{CampaignAction, Claim, Command, SaleCorrection},
    campaign::{Phase, SaleSettingsChange, Tally},
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::{OrderState, ReturnPart},
    payment::ReceivedMoney,
    ports::{EngineError, Payout, RefundBalance},
};
use qiang_testkit::campaign::{Target, currency};

const NEW_STOCK: u64 = 7;
const NEW_PRICE: i64 = 777;
const EXTENSION_MS: i64 = 600_000;
/// Price of the order.
const PRICE: i64 = 100 * UNITS as i64;
/// Units of the order.
pub(super) const UNITS: u32 = 3;

/// A change of a sale with one order, of a scheduled sale, or of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Pay,
    Cancel,
    CancelPart,
    ExtendHold,
    Return,
    ReturnPart,
    Pause,
    Resume,
    Start,
    Close,
    Stock,
    Terms,
    StockAndTerms,
    CorrectStock,
    CorrectTerms,
    Refund,
    Enter,
}

pub(super) const ALL: [Does; 17] = [
    Does::Pay,
    Does::Cancel,
    Does::CancelPart,
    Does::ExtendHold,
    Does::Return,
    Does::ReturnPart,
    Does::Pause,
    Does::Resume,
    Does::Start,
    Does::Close,
    Does::Stock,
    Does::Terms,
    Does::StockAndTerms,
    Does::CorrectStock,
    Does::CorrectTerms,
    Does::Refund,
    Does::Enter,
];

/// Changes that wait for the ledger at every level of their sale.
pub(super) const KEPT_BY_THE_LEDGER: [Does; 6] = [
    Does::Start,
    Does::Stock,
    Does::Terms,
    Does::StockAndTerms,
    Does::CorrectStock,
    Does::CorrectTerms,
];

/// Change of the terms of a sale.
fn new_terms() -> SaleSettingsChange {
    SaleSettingsChange {
        unit_price_minor: Some(NEW_PRICE),
        ..SaleSettingsChange::default()
    }
}

/// One unit of the order.
fn one_unit() -> Option<ReturnPart> {
    Some(ReturnPart {
        quantity: 1,
        key: IdempotencyKey::new("part").unwrap(),
    })
}

impl Does {
    /// The change that must come first.
    fn before(self) -> Option<Self> {
        match self {
            Self::Return | Self::ReturnPart => Some(Self::Pay),
            Self::Resume => Some(Self::Pause),
            Self::Refund => Some(Self::Return),
            _ => None,
        }
    }

    /// All changes that must come first, in order.
    pub(super) fn all_before(self) -> Vec<Self> {
        let mut all: Vec<_> = std::iter::successors(self.before(), |does| does.before()).collect();
        all.reverse();
        all
    }

    /// The command; `None` for a refund and a queue entry.
    pub(super) fn command(self, sale: Sale) -> Option<Command> {
        let (campaign, order) = (sale.target.id, sale.order());
        let act = |action| Command::Act { campaign, action };
        let correct = |correction| Command::Correct {
            campaign,
            correction: Box::new(correction),
        };
        Some(match self {
            Self::Pay => Command::Pay {
                order,
                payment: PaymentRef::new(&format!("paid-{campaign}")).unwrap(),
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            },
            Self::Cancel => Command::Cancel { order, part: None },
            Self::CancelPart => Command::Cancel {
                order,
                part: one_unit(),
            },
            Self::ExtendHold => Command::ExtendHold {
                order,
                extension_ms: EXTENSION_MS,
            },
            Self::Return => Command::Return { order, part: None },
            Self::ReturnPart => Command::Return {
                order,
                part: one_unit(),
            },
            Self::Pause => act(CampaignAction::Pause),
            Self::Resume => act(CampaignAction::Resume),
            Self::Start => act(CampaignAction::Start),
            Self::Close => act(CampaignAction::Close),
            Self::Stock => Command::SetStock {
                campaign,
                stock: NEW_STOCK,
            },
            Self::Terms => Command::SetTerms {
                campaign,
                change: new_terms(),
            },
            Self::StockAndTerms => Command::SetSale {
                campaign,
                stock: NEW_STOCK,
                change: new_terms(),
            },
            Self::CorrectStock => correct(SaleCorrection::Stock {
                expected: sale.compared.supply,
                stock: NEW_STOCK,
            }),
            Self::CorrectTerms => correct(SaleCorrection::Terms {
                expected: sale.compared.terms.unwrap(),
                change: new_terms(),
            }),
            Self::Refund | Self::Enter => return None,
        })
    }

    /// Whether an engine has the change.
    pub(super) async fn is_kept(self, backend: &Backend, sale: Sale) -> Result<bool, EngineError> {
        let engine = &backend.ports.engine;
        if self == Self::Enter {
            let entry = queued(sale.target);
            let room = &backend.ports.waiting_room;
            let standing = room.standing(entry.campaign, &entry.user).await?;
            return Ok(standing.is_some());
        }
        if self == Self::Refund {
            let ledger = &backend.ports.ledger;
            let owed = ledger.owed(sale.order()).await;
            let owed = owed.map_err(|error| EngineError::unavailable(error.to_string()))?;
            let is_paid =
                |it: &RefundBalance| it.refunded_minor == PRICE && it.outstanding().minor == 0;
            // A late retry finds the refund, and pays nothing again.
            let again = ledger.pay_out(&refund(sale)).await;
            let is_replayed = again.is_ok_and(|again| !again.fresh && again.amount.minor == PRICE);
            return Ok(is_replayed && owed.iter().any(is_paid));
        }
        let order = engine.order(sale.order()).await?;
        let order = order.and_then(|view| view.grant.order);
        let state = order.map(|order| order.state);
        let Some(tally) = engine.tally(sale.target.id).await? else {
            return Ok(false);
        };
        let has_stock = tally.supply == NEW_STOCK;
        let has_terms = tally.terms.is_some_and(|terms| new_terms().is_in(&terms));
        Ok(match self {
            Self::Pay => state == Some(OrderState::Paid),
            Self::Cancel => state == Some(OrderState::Cancelled),
            Self::CancelPart => order.is_some_and(|order| order.cancelled_quantity == 1),
            Self::ExtendHold => order.is_some_and(|order| order.extension_ms == EXTENSION_MS),
            Self::Return => state == Some(OrderState::Returned),
            Self::ReturnPart => order.is_some_and(|order| order.returned_quantity == 1),
            Self::Pause => tally.phase == Phase::Paused,
            Self::Resume => tally.phase == Phase::Live && state == Some(OrderState::Held),
            Self::Start => tally.phase == Phase::Live,
            Self::Close => tally.phase == Phase::Closed,
            Self::Stock | Self::CorrectStock => has_stock,
            Self::Terms | Self::CorrectTerms => has_terms,
            Self::StockAndTerms => has_stock && has_terms,
            Self::Refund | Self::Enter => unreachable!("it is not a command"),
        })
    }
}

/// Refund of the whole price of a returned order. A retry has the same reference.
pub(super) fn refund(sale: Sale) -> Payout {
    Payout::Refund {
        order: sale.order(),
        reference: PaymentRef::new(&format!("refunded-{}", sale.target.id)).unwrap(),
        amount: Money::new(PRICE, currency()),
    }
}

/// Claim of a user who waits in the queue.
pub(super) fn queued(target: Target) -> Claim {
    target.keyed("bob", 1, "waits")
}

/// A sale with its order.
#[derive(Clone, Copy)]
pub(super) struct Sale {
    pub(super) target: Target,
    /// Number of the order, which a shard of a spread sale gives; 1 for a scheduled sale, which has no order.
    pub(super) number: u32,
    /// Counters that a correction was compared with.
    pub(super) compared: Tally,
}

impl Sale {
    pub(super) fn order(self) -> OrderId {
        self.target.order(self.number)
    }
}
