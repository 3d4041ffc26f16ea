//! Stock of sales: no oversell, and no unsold unit while a user wants one.

use std::collections::BTreeSet;

use qiang_core::{
    admission::AdmissionRatio,
    book::{CampaignAction, PaymentOutcome, Refusal},
    campaign::{CampaignError, STOCK_MAX},
    outcome::Outcome,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{red_packet, sale};

/// More users than units: all units are granted, each to another user.
pub async fn concurrent_claims_get_the_stock_and_no_more(case: &mut Scenario) {
    let target = case.open(sale(100)).await;
    let claims = (0..1_000).map(|n| target.one(&format!("u{n}"))).collect();
    let outcomes = case.claim_all(claims).await;
    let numbers: BTreeSet<_> = outcomes
        .iter()
        .filter_map(Outcome::grant)
        .map(|g| g.number)
        .collect();
    assert_eq!(numbers.len(), 100);
    let sold_out = Outcome::SoldOut { remaining: 0 };
    assert_eq!(outcomes.iter().filter(|o| **o == sold_out).count(), 900);
    assert_eq!(case.tally(target.id).await.remaining, 0);
}

/// Quantities from 1 to 4 and a limit of 6: the limit holds for each user. Claims of single units continue until the
/// end, so the whole stock is granted.
pub async fn concurrent_quantities_get_the_stock_and_no_more(case: &mut Scenario) {
    let target = case.open(sale(201).limit(6)).await;
    let claim = |n: u32| {
        let (user, key) = (format!("u{}", n % 60), format!("k{n}"));
        target.keyed(&user, 1 + n % 4, &key)
    };
    let outcomes = case.claim_all((0..600).map(claim).collect()).await;
    let taken: u32 = outcomes
        .iter()
        .filter_map(Outcome::grant)
        .map(|g| g.quantity)
        .sum();
    let left = case.tally(target.id).await.remaining;
    assert_eq!(u64::from(taken) + left, 201);
    let rest = (0..60).map(|n| target.keyed(&format!("late{n}"), 1, "k"));
    let outcomes = case.claim_all(rest.collect()).await;
    let granted = outcomes.iter().filter(|o| o.name() == "granted").count();
    assert_eq!(granted as u64, left.min(60));
}

/// Off-by-one: the last unit is granted and the next claim is refused, also for a stock of one.
pub async fn the_last_unit_is_sold_once(case: &mut Scenario) {
    for stock in 1..=3 {
        let target = case.open(sale(stock)).await;
        for n in 0..stock {
            assert_eq!(case.tally(target.id).await.remaining, u64::from(stock - n));
            case.granted(target.one(&format!("u{n}"))).await;
        }
        let sold_out = Outcome::SoldOut { remaining: 0 };
        assert_eq!(case.claim(target.one("late")).await, sold_out);
    }
    let target = case.open(sale(4).limit(4)).await;
    case.granted(target.units("all", 4)).await;
    assert_eq!(case.tally(target.id).await.remaining, 0);
    assert_eq!(case.outcome(target.one("late")).await, "sold_out");
}

/// A claim of two units when one is left gets none, and the sale is not sold out for other users.
pub async fn asking_for_too_much_is_no_ones_loss(case: &mut Scenario) {
    let target = case.open(sale(3).limit(3)).await;
    case.granted(target.units("a", 2)).await;
    for _ in 0..3 {
        let short = Outcome::SoldOut { remaining: 1 };
        assert_eq!(case.claim(target.units("b", 2)).await, short);
    }
    assert_eq!(
        case.engine()
            .try_gate_outcome(&target.one("c"))
            .filter(|o| o.name() == "sold_out"),
        None
    );
    case.granted(target.one("c")).await;
    let gone = Outcome::SoldOut { remaining: 0 };
    assert_eq!(case.claim(target.one("b")).await, gone);
}

/// With an admission ratio, exactly as many users are granted as there are units, also of units restocked later. All
/// other users get `sold_out`. The ratio is the one that the sale was entered with.
pub async fn who_is_held_back_gets_what_comes_back(case: &mut Scenario) {
    for percent in [100, 300, 0] {
        let ratio = AdmissionRatio::from_percent(percent).unwrap();
        let target = case.open(sale(20).admission(ratio)).await;
        let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.campaign.admission(), ratio);
        let mut cancelled = 0;
        for units in [20, 7, 1] {
            let crowd = (0..400).map(|n| target.one(&format!("u{units}-{n}")));
            let outcomes = case.claim_all(crowd.collect()).await;
            let count = |name: &str| outcomes.iter().filter(|o| o.name() == name).count();
            assert_eq!((count("granted"), count("sold_out")), (units, 400 - units));
            let next = if units == 20 { 7 } else { 1 };
            for n in cancelled..cancelled + next {
                case.try_cancel(case.nth(target, n + 1)).await.unwrap();
            }
            cancelled += next;
        }
        case.restart().await;
        case.granted(target.one("again")).await;
    }
}

/// A seller raises the stock of a sold-out sale and lowers it to the granted units. The next claims are granted or
/// refused accordingly, and no granted unit is removed. The close returns what is left of the last stock.
pub async fn the_stock_is_changed_while_a_sale_is_live(case: &mut Scenario) {
    let target = case.open(sale(30)).await;
    let claims = (0..30).map(|n| target.one(&format!("u{n}"))).collect();
    case.claim_all(claims).await;
    assert_eq!(case.outcome(target.one("late")).await, "sold_out");
    let tally = case.set_stock(target.id, 34).await.unwrap();
    assert_eq!((tally.supply, tally.remaining), (34, 4));
    // Repeated, as by a client that lost the answer.
    assert_eq!(case.set_stock(target.id, 34).await, Ok(tally));
    case.granted(target.one("late")).await;
    let least = Err(Refusal::StockGranted { least: 31 });
    assert_eq!(case.set_stock(target.id, 30).await, least);
    let tally = case.set_stock(target.id, 31).await.unwrap();
    assert_eq!((tally.supply, tally.remaining), (31, 0));
    assert_eq!(case.outcome(target.one("later")).await, "sold_out");
    // A restocked unit can be removed from the stock, and then no order can get it.
    case.try_cancel(case.nth(target, 1)).await.unwrap();
    assert_eq!(case.set_stock(target.id, 30).await.unwrap().remaining, 0);
    case.set_stock(target.id, 50).await.unwrap();
    case.restart().await;
    assert_eq!(case.tally(target.id).await.remaining, 20);
    case.settle().await;
    case.restart().await;
    case.granted(target.one("later")).await;
    let closed = case.act(target.id, CampaignAction::Close).await;
    assert_eq!(
        (closed.supply, closed.granted, closed.returned),
        (50, 31, 19)
    );
    let refused = case.set_stock(target.id, 51).await;
    assert!(matches!(refused, Err(Refusal::Phase(_))), "{refused:?}");
    let packet = case.open(red_packet(100, 5, SplitRule::Equal)).await;
    let refused = case.set_stock(packet.id, 6).await;
    assert_eq!(refused, Err(Refusal::UnknownCampaign));
}

/// With the largest stock, every count is exact to the unit: granted, left, restocked, removed, and returned at the
/// close. This holds in the engine and in the ledger. Half of these units do not fit in 32 bits.
pub async fn the_largest_stock_is_counted_to_the_unit(case: &mut Scenario) {
    const BIG: u32 = 1 << 31;
    const TWO: u64 = 2 * BIG as u64;
    let target = case
        .open(sale(1).stock(STOCK_MAX).limit(BIG).price(1))
        .await;
    case.granted(target.one("a")).await;
    assert_eq!(case.tally(target.id).await.remaining, STOCK_MAX - 1);
    for (n, user) in [(2, "b"), (3, "c")] {
        let grant = case.granted(target.units(user, BIG)).await;
        assert_eq!((grant.quantity, grant.amount_minor), (BIG, BIG.into()));
        assert_eq!(case.outcome(target.one(user)).await, "limit_reached");
        let (paid, _) = case.pay(case.nth(target, n), user).await;
        assert_eq!(paid, PaymentOutcome::Paid);
    }
    case.try_cancel(case.nth(target, 1)).await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (TWO, STOCK_MAX - TWO));

    let lower = case.set_stock(target.id, STOCK_MAX - 1).await.unwrap();
    assert_eq!(lower.remaining, STOCK_MAX - 1 - TWO);
    let least = Err(Refusal::StockGranted { least: TWO });
    assert_eq!(case.set_stock(target.id, TWO - 1).await, least);
    let above = Err(Refusal::Rules(CampaignError::Stock));
    for stock in [STOCK_MAX + 1, STOCK_MAX + 2, u64::MAX] {
        assert_eq!(case.set_stock(target.id, stock).await, above);
    }
    let sold = case.set_stock(target.id, TWO).await.unwrap();
    assert_eq!((sold.supply, sold.remaining), (TWO, 0));
    assert_eq!(case.outcome(target.one("d")).await, "sold_out");
    let raised = case.set_stock(target.id, STOCK_MAX).await.unwrap();
    assert_eq!(
        (raised.supply, raised.remaining),
        (STOCK_MAX, STOCK_MAX - TWO)
    );
    case.granted(target.one("d")).await;

    case.restart().await;
    assert_eq!(case.tally(target.id).await.remaining, STOCK_MAX - TWO - 1);
    case.settle().await;
    let closed = case.act(target.id, CampaignAction::Close).await;
    assert_eq!(closed.returned, STOCK_MAX - TWO - 1);
    case.settle().await;
    let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
    assert_eq!(record.campaign.supply(), STOCK_MAX);
    assert_eq!(
        (record.granted, record.returned),
        (TWO + 1, closed.returned)
    );

    // The price of the whole stock has the same maximum.
    let dear = case.open(sale(5).price(2)).await;
    let price = Err(Refusal::Rules(CampaignError::Price));
    assert_eq!(case.set_stock(dear.id, STOCK_MAX / 2 + 1).await, price);
    let most = case.set_stock(dear.id, STOCK_MAX / 2).await.unwrap();
    assert_eq!(most.remaining, STOCK_MAX / 2);
}
