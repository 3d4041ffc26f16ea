//! A random history is cut: the engine has one prefix, the ledger another, and nodes some answers after both.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{super::*, at};
use crate::{
    book::{Book, CampaignAction, Claim, Command, OrderView, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, Phase, RedPacket, Requirements, Rules, Sale},
    event::{Entry, Event},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    money::Money,
    order::{OrderState, ReturnPart},
    payment::ReceivedMoney,
    split::{Seed, Split, SplitRule},
    time::Window,
};

const START: i64 = 1_000_000;
const HOLD: i64 = 60_000;

fn setup(rules: Rules) -> Setup {
    let campaign = Campaign {
        id: super::id(),
        owner: UserId::new("owner").unwrap(),
        title: "test".to_owned(),
        window: Window::new(at(START), at(1_000 * START)).unwrap(),
        ack: AckLevel::Memory,
        requirements: Requirements::default(),
        payment_policy: crate::payment::PaymentPolicy::default(),
        created_at: at(0),
        rules,
    };
    Setup {
        shares: campaign.shares(),
        campaign,
    }
}

fn packet(rule: SplitRule) -> Setup {
    setup(Rules::RedPacket(RedPacket::new(
        Split::new(700, 12, rule).unwrap(),
        "CNY".parse().unwrap(),
        Seed::from_bytes([7; 32]),
    )))
}

fn sale(stock: u32, limit: u32) -> Setup {
    let price = Money::new(250, "CNY".parse().unwrap());
    setup(Rules::Sale(
        Sale::new(stock.into(), limit, price, HOLD).unwrap(),
    ))
}

#[derive(Debug, Clone)]
enum Step {
    Claim { user: u8, quantity: u32 },
    Pay { number: u32 },
    Cancel { number: u32, part: Option<u32> },
    Wait { millis: i64 },
    Return { number: u32, part: Option<u32> },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..20, 1_u32..4).prop_map(|(user, quantity)| Step::Claim { user, quantity }),
        2 => (1_u32..12).prop_map(|number| Step::Pay { number }),
        2 => (1_u32..12, prop::option::of(1_u32..3))
            .prop_map(|(number, part)| Step::Cancel { number, part }),
        1 => (0..HOLD * 2).prop_map(|millis| Step::Wait { millis }),
        2 => (1_u32..12, prop::option::of(1_u32..4))
            .prop_map(|(number, part)| Step::Return { number, part }),
        1 => Just(Step::Close),
    ]
}

/// Log of a history.
fn history(setup: &Setup, steps: &[Step]) -> Vec<Entry> {
    let (mut book, mut log, mut now) = (Book::new(), Vec::new(), START);
    let campaign = setup.campaign.id;
    let opened = Command::Open(Box::new(setup.clone()));
    book.apply(at(now), &opened, &mut log).unwrap();
    for step in steps {
        let order = |number| OrderId { campaign, number };
        match step {
            Step::Claim { user, quantity } => {
                let kind = setup.campaign.kind();
                let claim = Claim {
                    campaign,
                    kind,
                    user: UserId::new(&format!("u{user}")).unwrap(),
                    quantity: if kind == CampaignKind::Sale {
                        *quantity
                    } else {
                        1
                    },
                    key: None,
                };
                book.claim(at(now), &claim, &mut log).unwrap();
            }
            Step::Pay { number } => {
                let payment = PaymentRef::new(&format!("p{now}")).unwrap();
                let order = order(*number);
                let (received, cancelled) = price_of(book.order(order));
                drop(book.apply(
                    at(now),
                    &Command::Pay {
                        order,
                        payment,
                        paid_at: None,
                        received,
                        cancelled,
                    },
                    &mut log,
                ));
            }
            Step::Cancel { number, part } => {
                let order = order(*number);
                let part = part.map(|quantity| ReturnPart {
                    quantity,
                    key: IdempotencyKey::new(&format!("c{}", log.len())).unwrap(),
                });
                drop(book.apply(at(now), &Command::Cancel { order, part }, &mut log));
            }
            Step::Return { number, part } => {
                let order = order(*number);
                // Each return has its own key.
                let part = part.map(|quantity| ReturnPart {
                    quantity,
                    key: IdempotencyKey::new(&format!("k{}", log.len())).unwrap(),
                });
                drop(book.apply(at(now), &Command::Return { order, part }, &mut log));
            }
            Step::Close => {
                drop(book.apply(
                    at(now),
                    &Command::Act {
                        campaign,
                        action: CampaignAction::Close,
                    },
                    &mut log,
                ));
            }
            Step::Wait { millis } => {
                now += millis;
                let tick = Command::Tick { events_max: 99 };
                book.apply(at(now), &tick, &mut log).unwrap();
            }
        }
    }
    log
}

/// Money that pays an order now, and its cancelled units.
fn price_of(view: Option<OrderView>) -> (ReceivedMoney, u32) {
    let grant = view.map(|view| view.grant);
    let cancelled = grant.and_then(|grant| grant.order);
    match (grant, cancelled.map_or(0, |order| order.cancelled_quantity)) {
        (Some(grant), cancelled @ 1..) => {
            let price = Money::new(grant.amount_minor, "CNY".parse().unwrap());
            (ReceivedMoney::Accepted(price), cancelled)
        }
        _ => (ReceivedMoney::Price, 0),
    }
}

fn settled_state(rows: &PartRows, number: u32) -> Option<OrderState> {
    Some(rows.grants.get(&number)?.state)
}

fn rows_after(log: &[Entry]) -> PartRows {
    let mut rows = PartRows::new(Phase::Draft);
    for entry in log {
        rows.apply(entry.at, &entry.event);
    }
    rows
}

fn facts(setup: &Setup, campaign: CampaignId) -> PartFacts {
    let kind = setup.campaign.kind();
    PartFacts {
        campaign,
        kind,
        limit: Some(setup.campaign.per_user_limit()),
        hold_ms: HOLD,
        currency: "CNY".parse().ok(),
        fixed_shares: !setup.shares.is_empty(),
        parts: 1,
        index: 0,
    }
}

/// State of the engine after a prefix of the log.
fn engine_after(setup: &Setup, log: &[Entry]) -> EnginePart {
    let rows = rows_after(log);
    let all = (1..).zip(setup.shares.iter().copied());
    let shares = all.filter(|(number, _)| !rows.grants.contains_key(number));
    EnginePart {
        shares: shares.collect(),
        supply: setup.campaign.supply(),
        funded_minor: setup.campaign.funded_minor(),
        numbered: match setup.campaign.kind() {
            CampaignKind::Sale => rows.grants.len() as u32,
            CampaignKind::RedPacket => 0,
        },
        rows,
    }
}

/// Remainder that went to the owner after a prefix of the log, if the campaign is closed by then.
fn closed(setup: &Setup, log: &[Entry]) -> Option<OwnerReturn> {
    let rows = rows_after(log);
    let gone_back = OwnerReturn {
        units: setup.campaign.supply() - rows.granted(),
        amount_minor: match setup.campaign.kind() {
            CampaignKind::RedPacket => setup.campaign.funded_minor() - rows.amount_minor(),
            CampaignKind::Sale => 0,
        },
    };
    (rows.phase == Phase::Closed).then_some(gone_back)
}

/// Cuts a history, repairs what is left of it, and checks the result.
///
/// Nodes name the places of grants alone: steps come in any order, and `turn` says in which one.
fn check(
    setup: &Setup,
    log: &[Entry],
    (engine, ledger): (usize, usize),
    kept: &[bool],
    turn: Option<usize>,
) {
    let (engine, ledger) = (engine.min(log.len()).max(1), ledger.min(log.len()).max(1));
    let end = engine.max(ledger);
    let lost: Vec<&Entry> = log[end..].iter().collect();
    let answered = |entry: &Entry| !matches!(entry.event, Event::Expired { .. });
    let mut kept: Vec<Entry> = lost
        .iter()
        .zip(kept.iter().chain(std::iter::repeat(&false)))
        .filter(|(entry, kept)| **kept && answered(entry))
        .map(|(entry, _)| (*entry).clone())
        .collect();
    let unnamed = (lost.len() - kept.len()) as u64;
    if let Some(turn) = turn {
        let count = kept.len().max(1);
        kept.rotate_left(turn % count);
        if turn % 2 == 1 {
            kept.reverse();
        }
        for entry in &mut kept {
            if !matches!(entry.event, Event::Granted { .. }) {
                entry.seq = 0;
            }
        }
    }
    let in_flight = &log[ledger..engine.max(ledger)];
    let settled = rows_after(&log[..end]);
    let repair = Survey {
        facts: facts(setup, setup.campaign.id),
        engine: engine_after(setup, &log[..engine]),
        ledger: rows_after(&log[..ledger]),
        closed: closed(setup, &log[..ledger]),
        ledger_is_ahead: ledger > engine,
        in_flight,
        kept: &kept,
        unnamed,
        accounted: std::collections::BTreeSet::new(),
        skips: None,
        withheld: 0,
        withheld_shares: std::collections::BTreeSet::new(),
        now: at(START),
    }
    .repair();

    // Units and money are conserved, and no unit is sold twice.
    let supply = setup.campaign.supply();
    assert_eq!(repair.supply + repair.withheld.units, supply);
    assert_eq!(
        repair.granted + repair.remaining + repair.returned,
        repair.supply
    );
    assert_eq!(repair.granted, repair.rows.granted());
    let funded = setup.campaign.funded_minor();
    assert_eq!(repair.funded_minor + repair.withheld.amount_minor, funded);
    if !setup.shares.is_empty() {
        let to_come: i64 = repair.shares.iter().map(|(_, amount)| amount).sum();
        assert_eq!(
            to_come + repair.rows.amount_minor() + repair.refunded_minor,
            repair.funded_minor
        );
        assert_eq!(repair.shares.len() as u64, repair.remaining);
    }
    // Every user has at most the limit.
    let mut held: BTreeMap<&UserId, u32> = BTreeMap::new();
    for row in repair
        .rows
        .grants
        .values()
        .filter(|row| row.state.keeps_units())
    {
        *held.entry(&row.user).or_default() += row.units();
    }
    let limit = setup.campaign.per_user_limit();
    assert!(held.values().all(|units| *units <= limit), "{held:?}");
    // Every row that the ledger will have is kept.
    for (number, row) in &settled.grants {
        let now = &repair.rows.grants[number];
        let of = |row: &GrantRow| {
            (
                row.user.clone(),
                row.claimed(),
                row.claimed_minor(),
                row.granted_at,
            )
        };
        assert_eq!(of(now), of(row));
        // Units that were cancelled before stay so. The price follows the units.
        assert!(now.cancelled >= row.cancelled, "{now:?} after {row:?}");
        if setup.campaign.kind() == CampaignKind::Sale {
            assert_eq!(now.amount_minor, 250 * i64::from(now.quantity));
        }
    }
    // Each answer is kept or reported as a conflict. Without unnamed entries there are no conflicts.
    for entry in &kept {
        let Event::Granted { number, user, .. } = &entry.event else {
            continue;
        };
        let is_kept = repair
            .rows
            .grants
            .get(number)
            .is_some_and(|row| row.user == *user);
        let named = repair.conflicts.iter().any(|it| it.number == *number);
        assert!(is_kept || named && unnamed > 0, "{entry:?}");
    }
    // Unnamed entries cannot have granted more than is withheld.
    let taken = lost
        .iter()
        .filter(|lost| !kept.iter().any(|kept| kept.event == lost.event));
    let taken = taken
        .filter(|entry| matches!(entry.event, Event::Granted { .. }))
        .count();
    assert!(repair.remaining == 0 || taken as u64 <= repair.withheld.units);
    // The appended entries lead from the settled state to the rows, and repeat no step of an order.
    let settled_before = settled.clone();
    let mut rows = settled;
    for (at, event) in &repair.append {
        rows.apply(*at, event);
    }
    let states = |rows: &PartRows| -> Vec<_> {
        let rows = rows.grants.iter();
        rows.map(|(number, row)| (*number, row.user.clone(), row.units(), row.state))
            .collect()
    };
    assert_eq!(states(&rows), states(&repair.rows));
    assert_eq!(rows.payments, repair.rows.payments);
    assert_eq!(rows.returns, repair.rows.returns);
    assert_eq!(rows.cancellations, repair.rows.cancellations);
    // The payments that pay orders have the price of their units.
    for (number, row) in &repair.rows.grants {
        let in_parts = (repair.rows)
            .cancellations_of(*number)
            .map(|(_, units)| units);
        assert_eq!(in_parts.sum::<u32>(), row.cancelled, "{row:?}");
        if let Some((_, state)) = repair.rows.paid_by(*number)
            && setup.campaign.kind() == CampaignKind::Sale
        {
            let price = Money::new(row.amount_minor, "CNY".parse().unwrap());
            assert_eq!(state.received.money(price), price, "{row:?}");
            assert_eq!(state.received == ReceivedMoney::Price, row.cancelled == 0);
        }
    }
    // No order has returned more than it had, with any kept answers.
    for (number, row) in &repair.rows.grants {
        assert!(row.returned <= row.quantity, "{row:?}");
        let in_parts = repair.rows.returned_in_parts(*number);
        match row.state {
            OrderState::Returned => assert!(in_parts <= row.quantity, "{row:?}"),
            _ => assert_eq!(in_parts, row.returned, "{row:?}"),
        }
    }
    // A return that was answered is kept, if the order was paid by what is known: in the settled rows, or by a kept
    // answer if no entry is without a name, since the union may have to end orders for such entries.
    for entry in &kept {
        let Event::Returned {
            number,
            part: Some(part),
        } = &entry.event
        else {
            continue;
        };
        let is_paid = |row: &GrantRow| matches!(row.state, OrderState::Paid | OrderState::Returned);
        let is_kept = (repair.rows.returns).contains_key(&(*number, part.key.clone()));
        let was_settled = settled_state(&settled_before, *number) == Some(OrderState::Returned);
        let pays = |it: &Entry| matches!(&it.event, Event::Paid { number: of, .. } if of == number);
        let is_known = unnamed == 0 && kept.iter().any(pays);
        let row = repair.rows.grants.get(number);
        assert!(is_kept || was_settled || !is_known && !row.is_some_and(is_paid));
    }
}

proptest! {
    #[test]
    fn a_cut_history_is_repaired(
        steps in proptest::collection::vec(step(), 1..120),
        which in 0_usize..5,
        engine in 0_usize..100,
        ledger in 0_usize..100,
        kept in proptest::collection::vec(any::<bool>(), 0..100),
        turn in any::<usize>(),
    ) {
        let setup = match which {
            0 => packet(SplitRule::DoubleAverage { min: 1 }),
            1 => packet(SplitRule::Lazy { min: 1 }),
            2 => sale(9, 1),
            3 => sale(20, 4),
            _ => sale(1_000, 4),
        };
        let log = history(&setup, &steps);
        let cut = (engine, ledger);
        check(&setup, &log, cut, &kept, None);
        check(&setup, &log, cut, &kept, Some(turn));
        // If all answers were kept, only expired holds can conflict.
        check(&setup, &log, cut, &vec![true; log.len()], None);
        check(&setup, &log, cut, &vec![true; log.len()], Some(turn));
    }
}
