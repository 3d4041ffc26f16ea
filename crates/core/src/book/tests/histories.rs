//! Random histories: the invariants hold at every step, for all commands in any order.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::order::ReturnPart;

#[derive(Debug, Clone)]
enum Step {
    Claim {
        campaign: usize,
        user: u8,
        quantity: u32,
        key: Option<u8>,
    },
    Pay {
        campaign: usize,
        number: u32,
        payment: u8,
        paid_at: Option<i64>,
    },
    Cancel {
        campaign: usize,
        number: u32,
        part: Option<(u32, u8)>,
    },
    ExtendHold {
        campaign: usize,
        number: u32,
        extension_ms: i64,
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
    Act {
        campaign: usize,
        action: CampaignAction,
    },
    Jump {
        millis: i64,
    },
    Tick,
}

fn setups() -> Vec<Setup> {
    vec![
        packet(1, 500, 12, SplitRule::DoubleAverage { min: 1 }),
        packet(2, 500, 12, SplitRule::Lazy { min: 1 }),
        sale(3, 9, 1),
        sale(4, 20, 4),
    ]
}

/// Money that pays an order now, and its cancelled units.
fn price_of(view: Option<OrderView>) -> (ReceivedMoney, u32) {
    let grant = view.map(|view| view.grant);
    let order = grant.and_then(|grant| grant.order);
    match (grant, order.map_or(0, |order| order.cancelled_quantity)) {
        (Some(grant), cancelled @ 1..) => {
            let price = Money::new(grant.amount_minor, "CNY".parse().unwrap());
            (ReceivedMoney::Accepted(price), cancelled)
        }
        _ => (ReceivedMoney::Price, 0),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let campaign = 0_usize..4;
    let action = prop_oneof![
        3 => Just(CampaignAction::Pause),
        3 => Just(CampaignAction::Resume),
        1 => Just(CampaignAction::Start),
        1 => Just(CampaignAction::Close),
    ];
    prop_oneof![
        12 => (campaign.clone(), 0_u8..20, 1_u32..4, proptest::option::of(0_u8..4))
            .prop_map(|(campaign, user, quantity, key)| Step::Claim { campaign, user, quantity, key }),
        4 => (2_usize..4, 1_u32..12, 0_u8..3, proptest::option::of(START - HOLD..START + HOLD * 9))
            .prop_map(|(campaign, number, payment, paid_at)| Step::Pay { campaign, number, payment, paid_at }),
        4 => (2_usize..4, 1_u32..12, proptest::option::of((1_u32..3, 0_u8..4)))
            .prop_map(|(campaign, number, part)| Step::Cancel { campaign, number, part }),
        3 => (2_usize..4, 1_u32..12, proptest::option::of((1_u32..3, 0_u8..4)))
            .prop_map(|(campaign, number, part)| Step::Return { campaign, number, part }),
        3 => (2_usize..4, 1_u32..12, prop_oneof![5 => 1..=HOLD, 1 => Just(HOLD), 1 => -1..=0_i64])
            .prop_map(|(campaign, number, extension_ms)| Step::ExtendHold { campaign, number, extension_ms }),
        1 => (campaign.clone(), 0..16_u32).prop_map(|(campaign, stock)| Step::SetStock { campaign, stock }),
        1 => (campaign.clone(), proptest::option::of(-HOLD..HOLD * 9), proptest::option::of(0..6_u32), -1..90_i64)
            .prop_map(|(campaign, ends, per_user_limit, price)| Step::SetTerms {
                campaign,
                change: SaleSettingsChange {
                    starts_at: None,
                    ends_at: ends.map(|millis| Timestamp::from_millis(millis.max(0))),
                    per_user_limit,
                    unit_price_minor: (price < 40).then_some(price),
                    ..SaleSettingsChange::default()
                },
            }),
        1 => (campaign, action).prop_map(|(campaign, action)| Step::Act { campaign, action }),
        2 => (-HOLD..HOLD * 2).prop_map(|millis| Step::Jump { millis }),
        2 => Just(Step::Tick),
    ]
}

proptest! {
    // After each step, `Fixture` checks that counters add up and that a replay of the log gives the same book.
    #[test]
    fn nothing_is_given_twice_or_lost(steps in proptest::collection::vec(step(), 1..150)) {
        let setups = setups();
        let mut fixture = Fixture::with(&setups);
        let mut grants: HashMap<(usize, u32), u8> = HashMap::new();
        let mut meanings: HashMap<(usize, u8, String), u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Claim { campaign, user, quantity, key } => {
                    let setup = &setups[campaign];
                    let quantity = if setup.campaign.kind() == CampaignKind::RedPacket { 1 } else { quantity };
                    let key = key.map(|key| format!("k{key}"));
                    let outcome = fixture.claim_with(setup, &format!("u{user}"), quantity, key.as_deref());
                    let is_granted = matches!(outcome, Ok(Outcome::Granted(_)));
                    if let (Ok(Some(grant)), Some(key)) = (outcome.as_ref().map(Outcome::grant), key.clone()) {
                        let meant = *meanings.entry((campaign, user, key)).or_insert(grant.number);
                        prop_assert_eq!(meant, grant.number, "a key names two orders");
                    }
                    match outcome {
                        Ok(Outcome::Granted(grant)) => {
                            let before = grants.insert((campaign, grant.number), user);
                            prop_assert_eq!(before, None, "a number was granted twice");
                        }
                        Ok(Outcome::AlreadyGranted(grant)) => {
                            prop_assert_eq!(grants.get(&(campaign, grant.number)), Some(&user));
                        }
                        _ => {}
                    }
                    let now = Timestamp::from_millis(fixture.now);
                    let terms = fixture.book.tally(now, setup.campaign.id).and_then(|tally| tally.terms);
                    let limit = terms.map_or(1, |terms| terms.per_user_limit);
                    let mine = grants.iter().filter(|(at, owner)| at.0 == campaign && **owner == user);
                    let held: u32 = mine.map(|((_, number), _)| units_kept(&fixture, setup, *number)).sum();
                    prop_assert!(!is_granted || held <= limit, "a user has {held} of {limit}");
                }
                Step::Pay { campaign, number, payment, paid_at } => {
                    let order = fixture.order(&setups[campaign], number);
                    let payment = PaymentRef::new(&format!("p{payment}")).unwrap();
                    let (received, cancelled) = price_of(fixture.book.order(order));
                    let paid_at = paid_at.map(at);
                    let pay = Command::Pay { order, payment, paid_at, received, cancelled };
                    let first = fixture.apply(pay.clone());
                    let again = fixture.apply(pay);
                    prop_assert_eq!(first, again, "a payment's replay differs");
                }
                Step::Cancel { campaign, number, part } => {
                    let order = fixture.order(&setups[campaign], number);
                    let part = part.map(|(quantity, key)| ReturnPart {
                        quantity,
                        key: IdempotencyKey::new(&format!("r{key}")).unwrap(),
                    });
                    let command = Command::Cancel { order, part };
                    let first = fixture.apply(command.clone());
                    let again = fixture.apply(command);
                    prop_assert_eq!(first, again, "a cancellation's replay differs");
                }
                Step::ExtendHold { campaign, number, extension_ms } => {
                    let order = fixture.order(&setups[campaign], number);
                    let command = Command::ExtendHold { order, extension_ms };
                    let first = fixture.apply(command.clone());
                    let again = fixture.apply(command);
                    prop_assert_eq!(first, again, "an extension's replay differs");
                }
                Step::Return { campaign, number, part } => {
                    let order = fixture.order(&setups[campaign], number);
                    let part = part.map(|(quantity, key)| ReturnPart {
                        quantity,
                        key: IdempotencyKey::new(&format!("r{key}")).unwrap(),
                    });
                    let command = Command::Return { order, part };
                    let first = fixture.apply(command.clone());
                    let again = fixture.apply(command);
                    prop_assert_eq!(first, again, "a return's replay differs");
                }
                Step::SetStock { campaign, stock } => {
                    let campaign = setups[campaign].campaign.id;
                    let stock = stock.into();
                    drop(fixture.apply(Command::SetStock { campaign, stock }));
                }
                Step::SetTerms { campaign, change } => {
                    let campaign = setups[campaign].campaign.id;
                    drop(fixture.apply(Command::SetTerms { campaign, change }));
                }
                Step::Act { campaign, action } => drop(fixture.act(&setups[campaign], action)),
                Step::Jump { millis } => fixture.now = (fixture.now + millis).max(0),
                Step::Tick => {
                    for setup in &setups {
                        for events_max in [1, 3, 1_000] {
                            recall::excerpt_ticks_as_the_book_does(&fixture, setup, events_max);
                        }
                    }
                    fixture.tick();
                }
            }
        }
    }
}

fn units_kept(fixture: &Fixture, setup: &Setup, number: u32) -> u32 {
    match fixture.book.order(fixture.order(setup, number)) {
        None => 1, // a share
        Some(view)
            if view
                .grant
                .order
                .is_some_and(|order| order.state.keeps_units()) =>
        {
            view.grant.quantity - view.grant.order.map_or(0, |order| order.returned_quantity)
        }
        Some(_) => 0,
    }
}
