//! Random histories of a few campaigns, to compare engines with the book.

use proptest::prelude::*;
use qiang_core::{
    admission::AdmissionBound,
    book::{CampaignAction, Claim, Command, Setup},
    campaign::SaleSettingsChange,
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    order::ReturnPart,
    payment::{PaymentPolicy, ReceivedMoney},
    split::SplitRule,
};

use crate::campaign::{Builder, OPENS, Target, currency, red_packet, sale};

const MINUTE_MS: i64 = 60_000;

/// Campaigns of every history. A history may or may not open each of them.
#[must_use]
pub fn setups() -> Vec<Setup> {
    let minutes = |n: i64| OPENS.plus_millis(n * MINUTE_MS);
    let builders = [
        sale(7).hold_ms(2 * MINUTE_MS),
        sale(12).limit(4).hold_ms(MINUTE_MS),
        sale(9)
            .limit(3)
            .hold_ms(MINUTE_MS)
            .window(minutes(3), 9 * MINUTE_MS),
        red_packet(1_000, 5, SplitRule::Lazy { min: 2 }),
        red_packet(1_000, 8, SplitRule::DoubleAverage { min: 2 }).window(minutes(2), 5 * MINUTE_MS),
        sale(8).limit(3).price(0).hold_ms(MINUTE_MS),
    ];
    let numbered = (1..).zip(builders);
    let setup = |(n, builder): (u64, Builder)| {
        let setup = builder.setup(n);
        let price = setup.campaign.rules.sale().map(|sale| sale.unit_price());
        match price.is_some_and(|price| price.minor > 0) {
            true => builder.payment_policy(PaymentPolicy::AcceptOver).setup(n),
            false => setup,
        }
    };
    numbered.map(setup).collect()
}

/// One command of a batch. There are few campaigns, users, orders, keys and payments, so that commands often conflict.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields of the command, as small numbers")]
pub enum CommandDraft {
    Claim {
        campaign: usize,
        mistaken: bool,
        user: u8,
        quantity: u32,
        key: Option<u8>,
    },
    Pay {
        campaign: usize,
        number: u32,
        payment: u8,
        paid_at: Option<i64>,
        received: ReceivedMoney,
        cancelled: u32,
    },
    ExtendHold {
        campaign: usize,
        number: u32,
        extension_ms: i64,
    },
    Cancel {
        campaign: usize,
        number: u32,
        part: Option<(u32, u8)>,
    },
    Act {
        campaign: usize,
        action: CampaignAction,
    },
    Return {
        campaign: usize,
        number: u32,
        part: Option<(u32, u8)>,
    },
    SetStock {
        campaign: usize,
        stock: u32,
    },
    SetTerms {
        campaign: usize,
        change: SaleSettingsChange,
    },
}

/// Changes of terms, with instants this many milliseconds after [`OPENS`]. Most change one term only.
pub fn terms_change(instants: std::ops::Range<i64>) -> impl Strategy<Value = SaleSettingsChange> {
    let instant = move || {
        let millis = instants.clone();
        prop::option::weighted(0.4, millis.prop_map(|millis| OPENS.plus_millis(millis)))
    };
    let (limit, price) = (prop::option::of(0..6_u32), prop::option::of(-1..4_i64));
    let percent = prop::option::weighted(0.3, prop::sample::select(vec![0, 100, 150, 300]));
    (instant(), instant(), limit, price, percent).prop_map(
        |(starts_at, ends_at, per_user_limit, price, percent)| SaleSettingsChange {
            starts_at,
            ends_at,
            per_user_limit,
            // One minor unit is never the price, so a payment of it becomes a refund due.
            unit_price_minor: price.map(|minor: i64| minor + i64::from(minor == 1) * 3),
            admission: percent.and_then(|percent| AdmissionBound::from_percent(percent).ok()),
        },
    )
}

/// One step of a history.
#[derive(Debug, Clone)]
pub enum Transition {
    /// An engine opens the campaign at this index.
    Open(usize),
    /// Commands that arrive together.
    Batch(Vec<CommandDraft>),
    /// Moves the clock by this many milliseconds.
    Wait(i64),
    /// The engine stops and starts again.
    Restart,
}

fn campaign() -> impl Strategy<Value = usize> {
    0..setups().len()
}

fn claim() -> impl Strategy<Value = CommandDraft> {
    let mistaken = prop::bool::weighted(0.05);
    let key = prop::option::of(0..3_u8);
    (campaign(), mistaken, 0..6_u8, 1..4_u32, key).prop_map(
        |(campaign, mistaken, user, quantity, key)| CommandDraft::Claim {
            campaign,
            mistaken,
            user,
            // Most claims of a packet, or of the sale with limit one, are for one unit.
            quantity: if matches!(campaign, 0 | 3 | 4) {
                1.max(quantity - 1)
            } else {
                quantity
            },
            key,
        },
    )
}

/// Usually the price, sometimes another amount or currency. The sales accept more than the price.
pub(crate) fn received() -> impl Strategy<Value = ReceivedMoney> {
    let other = |minor, code: &str| {
        Just(ReceivedMoney::Other(Money::new(
            minor,
            code.parse().expect("a currency"),
        )))
    };
    prop_oneof![
        8 => Just(ReceivedMoney::Price),
        1 => other(1, "CNY"),
        1 => (1_000_001..1_000_009_i64).prop_map(|minor| {
            let currency = "CNY".parse().expect("a currency");
            ReceivedMoney::Accepted(Money::new(minor, currency))
        }),
        1 => other(9_007_199_254_740_991, "EUR"),
    ]
}

/// Cancelled units that a payment's price was compared without. Most orders have none.
pub(crate) fn cancelled() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(2)]
}

/// Money that the sales accept, and that is above the price of every order.
pub(crate) fn enough() -> ReceivedMoney {
    ReceivedMoney::Accepted(Money::new(1_000_000, currency()))
}

/// Extension of a hold: usually within the hold of each sale, sometimes above some or all, and rarely none.
pub(crate) fn extension_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(MINUTE_MS / 2),
        2 => Just(MINUTE_MS),
        1 => Just(2 * MINUTE_MS),
        1 => Just(2 * MINUTE_MS + 1),
        1 => Just(0),
    ]
}

fn part_of(part: Option<(u32, u8)>) -> Option<ReturnPart> {
    part.map(|(quantity, key)| ReturnPart {
        quantity,
        key: IdempotencyKey::new(&format!("r{key}")).expect("well-formed"),
    })
}

/// Cancelled or returned units with a key, or `None` for all that are left. There are few keys, so that keys repeat.
pub(crate) fn part() -> impl Strategy<Value = Option<(u32, u8)>> {
    prop::option::weighted(0.7, (1..3_u32, 0..3_u8))
}

fn step() -> impl Strategy<Value = CommandDraft> {
    let action = prop_oneof![
        3 => Just(CampaignAction::Pause),
        5 => Just(CampaignAction::Resume),
        1 => Just(CampaignAction::Start),
        1 => Just(CampaignAction::Close),
    ];
    prop_oneof![
        12 => claim(),
        4 => (campaign(), 1..8_u32, 0..3_u8, prop::option::of(-MINUTE_MS..10 * MINUTE_MS), received(), cancelled())
            .prop_map(|(campaign, number, payment, paid_at, received, cancelled)| CommandDraft::Pay {
                campaign,
                number,
                payment,
                paid_at,
                // The sale that starts at price 0 never accepts another amount, even after its price changes.
                received: match (campaign, received) {
                    (5, ReceivedMoney::Accepted(money)) => ReceivedMoney::Other(money),
                    (1 | 2, ReceivedMoney::Price) if cancelled > 0 => enough(),
                    (_, received) => received,
                },
                cancelled,
            }),
        5 => (campaign(), 1..8_u32, part())
            .prop_map(|(campaign, number, part)| CommandDraft::Cancel { campaign, number, part }),
        4 => (campaign(), 1..8_u32, part())
            .prop_map(|(campaign, number, part)| CommandDraft::Return { campaign, number, part }),
        3 => (campaign(), 1..8_u32, extension_ms()).prop_map(|(campaign, number, extension_ms)| {
            CommandDraft::ExtendHold { campaign, number, extension_ms }
        }),
        1 => (campaign(), action).prop_map(|(campaign, action)| CommandDraft::Act { campaign, action }),
        2 => (campaign(), 0..16_u32)
            .prop_map(|(campaign, stock)| CommandDraft::SetStock { campaign, stock }),
        2 => (campaign(), terms_change(-MINUTE_MS..30 * MINUTE_MS))
            .prop_map(|(campaign, change)| CommandDraft::SetTerms { campaign, change }),
    ]
}

/// Possible next transitions.
pub fn transition() -> impl Strategy<Value = Transition> {
    let wait = prop_oneof![
        8 => 0..2 * MINUTE_MS,
        2 => Just(MINUTE_MS),
        2 => -4 * MINUTE_MS..0,
        1 => 3 * MINUTE_MS..30 * MINUTE_MS,
    ];
    prop_oneof![
        6 => campaign().prop_map(Transition::Open),
        20 => prop::collection::vec(step(), 1..12).prop_map(Transition::Batch),
        5 => wait.prop_map(Transition::Wait),
        2 => Just(Transition::Restart),
    ]
    .boxed()
}

/// Request to an engine or a book.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "one for each method that takes it")]
pub enum Request {
    Claim(Claim),
    Command(Command),
}

impl From<Claim> for Request {
    fn from(claim: Claim) -> Self {
        Self::Claim(claim)
    }
}

impl From<Command> for Request {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl CommandDraft {
    /// The request, with its target looked up by campaign index.
    ///
    /// # Panics
    /// Never: all its texts are well-formed.
    #[must_use]
    pub fn request(&self, target: impl Fn(usize) -> Target) -> Request {
        Request::Command(match *self {
            Self::Claim {
                campaign,
                mistaken,
                user,
                quantity,
                key,
            } => {
                let target = target(campaign);
                let target = if mistaken { target.mistaken() } else { target };
                let name = format!("u{user}");
                return Request::Claim(match key {
                    Some(key) => target.keyed(&name, quantity, &format!("k{key}")),
                    None => target.units(&name, quantity),
                });
            }
            Self::Pay {
                campaign,
                number,
                payment,
                paid_at,
                received,
                cancelled,
            } => Command::Pay {
                order: target(campaign).order(number),
                payment: PaymentRef::new(&format!("p{payment}")).expect("well-formed"),
                paid_at: paid_at.map(|millis| OPENS.plus_millis(millis)),
                received,
                cancelled,
            },
            Self::Cancel {
                campaign,
                number,
                part,
            } => Command::Cancel {
                order: target(campaign).order(number),
                part: part_of(part),
            },
            Self::ExtendHold {
                campaign,
                number,
                extension_ms,
            } => Command::ExtendHold {
                order: target(campaign).order(number),
                extension_ms,
            },
            Self::Act { campaign, action } => Command::Act {
                campaign: target(campaign).id,
                action,
            },
            Self::Return {
                campaign,
                number,
                part,
            } => Command::Return {
                order: target(campaign).order(number),
                part: part_of(part),
            },
            Self::SetStock { campaign, stock } => Command::SetStock {
                campaign: target(campaign).id,
                stock: stock.into(),
            },
            Self::SetTerms { campaign, change } => Command::SetTerms {
                campaign: target(campaign).id,
                change,
            },
        })
    }
}

/// The request of a draft, with campaign indexes of `setups`.
#[must_use]
pub fn request(setups: &[Setup], draft: CommandDraft) -> Request {
    draft.request(|campaign| Target::of(&setups[campaign]))
}
