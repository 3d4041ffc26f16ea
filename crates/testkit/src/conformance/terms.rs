//! Window, limit and price of a sale, changed while it is live.

use qiang_core::{
    admission::{AdmissionBound, AdmissionRatio},
    book::{
        CampaignAction, Command,
        PaymentOutcome::{Paid, RefundDue, Reinstated},
        Refusal,
    },
    campaign::{CampaignError, Phase, SaleSettingsChange, Tally},
    event::{Entry, Event},
    outcome::Outcome,
    split::SplitRule,
    time::Timestamp,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, red_packet, sale};

fn starts_at(at: Timestamp) -> SaleSettingsChange {
    SaleSettingsChange {
        starts_at: Some(at),
        ..SaleSettingsChange::default()
    }
}

fn ends_at(at: Timestamp) -> SaleSettingsChange {
    SaleSettingsChange {
        ends_at: Some(at),
        ..SaleSettingsChange::default()
    }
}

fn limit(units: u32) -> SaleSettingsChange {
    SaleSettingsChange {
        per_user_limit: Some(units),
        ..SaleSettingsChange::default()
    }
}

fn price(minor: i64) -> SaleSettingsChange {
    SaleSettingsChange {
        unit_price_minor: Some(minor),
        ..SaleSettingsChange::default()
    }
}

/// Whether a start was refused because the sale has opened.
fn has_opened(refused: &Result<Tally, Refusal>) -> bool {
    *refused == Err(Refusal::Rules(CampaignError::HasOpened))
}

/// A sale opens and ends at the milliseconds of its moved window, not of the one that it was created with. The rest is
/// returned at the new end. Orders are dated and expire as before.
pub async fn the_window_is_moved_and_ends_at_its_moment(case: &mut Scenario) {
    let at = |millis: i64| OPENS.plus_millis(millis);
    let hour = 3_600_000;
    for (moved, end) in [(hour, 3 * hour), (4 * hour, 5 * hour), (4 * hour, 9 * hour)] {
        case.set_clock(OPENS.plus_millis(-1));
        let later = sale(10).hold_ms(HOLD_MS).window(at(2 * hour), 4 * hour);
        let target = case.open(later).await;
        case.set_terms(target.id, starts_at(at(moved)))
            .await
            .unwrap();
        let changed = case.set_terms(target.id, ends_at(at(end))).await.unwrap();
        let window = changed.terms.unwrap().window;
        assert_eq!((window.starts_at(), window.ends_at()), (at(moved), at(end)));
        case.set_clock(at(moved - 1));
        let early = Outcome::NotStarted {
            starts_at: at(moved),
        };
        assert_eq!(case.claim(target.one("a")).await, early);
        case.set_clock(at(moved));
        let grant = case.granted(target.one("a")).await;
        assert_eq!(grant.granted_at, at(moved));
        let refused = case.set_terms(target.id, starts_at(at(moved + 1))).await;
        assert!(has_opened(&refused), "{refused:?}");
        case.restart().await;
        assert_eq!(case.replayed(target.one("a")).await.granted_at, at(moved));
        case.at(at(moved + HOLD_MS - 1)).await;
        assert_eq!(case.tally(target.id).await.granted, 1);
        case.at(at(moved + HOLD_MS)).await;
        assert_eq!(case.tally(target.id).await.granted, 0);
        case.at(at(end - 1)).await;
        case.granted(target.one("b")).await;
        case.set_clock(at(end));
        assert_eq!(case.outcome(target.one("c")).await, "ended");
        let late = case.set_terms(target.id, ends_at(at(end + 1))).await;
        assert!(matches!(late, Err(Refusal::Phase(_))), "{late:?}");
        case.at(at(end)).await;
        let tally = case.tally(target.id).await;
        assert_eq!(
            (tally.phase, tally.granted, tally.returned),
            (Phase::Closed, 1, 9)
        );
        case.settle().await;
    }
}

/// A raised limit lets users have more, and a lowered one takes no units. An order from a time with limit one is
/// reinstated next to another order.
pub async fn the_limit_is_raised_and_lowered(case: &mut Scenario) {
    let target = case.open(sale(20)).await;
    case.granted(target.one("late")).await;
    let first = case.nth(target, 1);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.granted(target.one("late")).await;
    case.granted(target.one("a")).await;
    assert_eq!(case.outcome(target.one("a")).await, "already_granted");
    case.set_terms(target.id, limit(3)).await.unwrap();
    case.granted(target.keyed("a", 2, "k")).await;
    let full = Outcome::LimitReached { limit: 3, held: 3 };
    assert_eq!(case.claim(target.keyed("a", 1, "l")).await, full);
    assert_eq!(case.pay(first, "p").await.0, Reinstated);
    case.settle().await;
    case.restart().await;
    case.set_terms(target.id, limit(2)).await.unwrap();
    let full = Outcome::LimitReached { limit: 2, held: 3 };
    assert_eq!(case.claim(target.keyed("a", 1, "l")).await, full);
    case.granted(target.keyed("b", 2, "k")).await;
    let full = Outcome::LimitReached { limit: 2, held: 2 };
    assert_eq!(case.claim(target.keyed("b", 1, "l")).await, full);
    assert_eq!(case.claim(target.keyed("late", 1, "l")).await, full);
    // The limit falls to one: the answer to a user with units is the user's grant, whichever order it is.
    case.set_terms(target.id, limit(1)).await.unwrap();
    assert_eq!(case.outcome(target.one("a")).await, "already_granted");
    case.granted(target.one("c")).await;
    case.restart().await;
    assert_eq!(case.outcome(target.one("c")).await, "already_granted");
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.terms.unwrap().per_user_limit), (8, 1));
    case.settle().await;
    let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
    assert_eq!(record.campaign.per_user_limit(), 1);
}

/// An order costs its price at the grant. Its payment, its return and its refund use that price, even if the
/// price changes later.
pub async fn orders_keep_the_price_at_which_they_were_granted(case: &mut Scenario) {
    let target = case
        .open(sale(10).price(100).limit(3).owner("seller"))
        .await;
    let cost = async |case: &mut Scenario, name: &str, units: u32| {
        case.granted(target.keyed(name, units, "k"))
            .await
            .amount_minor
    };
    assert_eq!(cost(case, "a", 1).await, 100);
    case.set_terms(target.id, price(250)).await.unwrap();
    assert_eq!(cost(case, "b", 2).await, 500);
    assert_eq!(
        case.replayed(target.keyed("a", 1, "k")).await.amount_minor,
        100
    );
    case.restart().await;
    case.set_terms(target.id, price(0)).await.unwrap();
    assert_eq!(cost(case, "c", 3).await, 0);
    case.set_terms(target.id, price(70)).await.unwrap();
    assert_eq!(cost(case, "d", 1).await, 70);
    for n in 1..=3 {
        assert_eq!(case.pay(case.nth(target, n), "p").await.0, Paid, "{n}");
    }
    case.settle().await;
    assert_eq!(case.balance("seller").await, (600, 0));
    assert_eq!(case.pay(case.nth(target, 2), "q").await.0, RefundDue);
    case.try_return(case.nth(target, 1)).await.unwrap();
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.set_terms(target.id, price(9_999)).await.unwrap();
    assert_eq!(case.pay(case.nth(target, 4), "p").await.0, Reinstated);
    case.restart().await;
    case.settle().await;
    assert_eq!(case.balance("seller").await, (570, 0));
    assert_eq!(case.balance("a").await, (0, 100));
    assert_eq!(case.balance("b").await, (0, 500));
    let view = case.order(case.nth(target, 4)).await.unwrap();
    assert_eq!(view.grant.amount_minor, 70);
}

/// An impossible change is refused and changes nothing. A repeated change counts once, and all named terms change
/// together.
pub async fn a_change_is_refused_or_made_once(case: &mut Scenario) {
    let target = case.open(sale(5).limit(2)).await;
    let id = target.id;
    let now = OPENS.plus_millis(1_000);
    case.at(now).await;
    case.granted(target.one("a")).await;
    let before = case.logs().await;
    let refused = case.set_terms(id, starts_at(now.plus_millis(1))).await;
    assert!(has_opened(&refused), "{refused:?}");
    for (change, error) in [
        (ends_at(now), CampaignError::InThePast),
        (ends_at(OPENS), CampaignError::InThePast),
        (
            ends_at(Timestamp::MAX.plus_millis(1)),
            CampaignError::Window,
        ),
        (limit(0), CampaignError::Limit),
        (limit(6), CampaignError::Limit),
        (price(-1), CampaignError::Price),
        (price(i64::MAX / 5), CampaignError::Price),
    ] {
        let refused = case.set_terms(id, change).await;
        assert_eq!(refused, Err(Refusal::Rules(error)), "{change:?}");
    }
    case.set_terms(id, SaleSettingsChange::default())
        .await
        .unwrap();
    case.set_terms(id, starts_at(OPENS)).await.unwrap();
    assert_eq!(case.logs().await, before);
    let all = SaleSettingsChange {
        starts_at: None,
        ends_at: Some(now.plus_millis(5_000)),
        per_user_limit: Some(5),
        unit_price_minor: Some(7),
        admission: AdmissionBound::from_percent(300).ok(),
    };
    let tally = case.set_terms(id, all).await.unwrap();
    let entries = case.logs().await;
    let count = |logs: &[Vec<_>]| logs.iter().map(Vec::len).sum::<usize>();
    let parts = entries.iter().filter(|log| !log.is_empty()).count();
    assert!(count(&entries) > count(&before) && count(&entries) <= count(&before) + parts);
    assert_eq!(case.set_terms(id, all).await, Ok(tally));
    assert_eq!(case.logs().await, entries);
    case.act(id, CampaignAction::Pause).await;
    case.set_terms(id, price(8)).await.unwrap();
    case.at(now.plus_millis(5_000)).await;
    let closed = case.tally(id).await;
    assert_eq!(closed.phase, Phase::Closed);
    let late = case.set_terms(id, price(9)).await;
    assert!(matches!(late, Err(Refusal::Phase(_))), "{late:?}");
    assert_eq!(case.set_terms(id, price(8)).await, Ok(closed));
    let packet = red_packet(100, 5, SplitRule::Equal).window(now, OPEN_MS);
    let packet = case.open(packet).await;
    let refused = case.set_terms(packet.id, limit(2)).await;
    assert_eq!(refused, Err(Refusal::UnknownCampaign));
}

/// Number of changes of a sale. Shards of a spread sale also record units that move between them.
fn changes_in(logs: &[Vec<Entry>]) -> usize {
    let is_change = |entry: &&Entry| {
        matches!(
            entry.event,
            Event::StockChanged { .. } | Event::TermsChanged { .. }
        )
    };
    logs.iter().flatten().filter(is_change).count()
}

/// Stock and terms change together, in one step: with a raised limit that needs the raised stock, and lowered together.
/// If one is refused, neither changes.
pub async fn stock_and_terms_change_in_one_step(case: &mut Scenario) {
    let target = case.open(sale(10).limit(2)).await;
    let id = target.id;
    case.granted(target.keyed("a", 2, "k")).await;
    let both = |tally: &Tally| (tally.supply, tally.terms.map(|terms| terms.per_user_limit));
    let raised = case.set_sale(id, 30, limit(25)).await.unwrap();
    assert_eq!(both(&raised), (30, Some(25)));
    case.granted(target.keyed("b", 20, "k")).await;
    let changes = changes_in(&case.logs().await);
    let again = case.set_sale(id, 30, limit(25)).await.unwrap();
    assert_eq!((both(&again), again.granted), (both(&raised), 22));
    for (stock, change, refusal) in [
        (30, limit(31), Refusal::Rules(CampaignError::Limit)),
        (40, limit(0), Refusal::Rules(CampaignError::Limit)),
        (0, limit(5), Refusal::Rules(CampaignError::Stock)),
        (40, price(-1), Refusal::Rules(CampaignError::Price)),
        (40, ends_at(OPENS), Refusal::Rules(CampaignError::InThePast)),
        (21, limit(5), Refusal::StockGranted { least: 22 }),
    ] {
        let refused = case.set_sale(id, stock, change).await;
        assert_eq!(refused, Err(refusal), "{stock} {change:?}");
    }
    let after = case.tally(id).await;
    assert_eq!((both(&after), after.granted), (both(&raised), 22));
    assert_eq!(changes_in(&case.logs().await), changes);
    let lowered = case.set_sale(id, 24, limit(3)).await.unwrap();
    assert_eq!(both(&lowered), (24, Some(3)));
    case.restart().await;
    assert_eq!(both(&case.tally(id).await), (24, Some(3)));
    case.granted(target.keyed("c", 2, "k")).await;
    assert_eq!(case.outcome(target.keyed("d", 1, "k")).await, "sold_out");
    case.settle().await;
    let record = case.ledger().campaign(id).await.unwrap().unwrap();
    assert_eq!(record.campaign.supply(), 24);
    assert_eq!(record.campaign.per_user_limit(), 3);
    case.act(id, CampaignAction::Close).await;
    let closed = case.set_sale(id, 24, limit(3)).await;
    assert!(closed.is_ok(), "{closed:?}");
    let late = case.set_sale(id, 25, limit(3)).await;
    assert!(matches!(late, Err(Refusal::Phase(_))), "{late:?}");
}

/// The start of an opened sale moves until it has granted units, even if these were cancelled since. A sale that may be
/// spread keeps its start once it has opened.
pub async fn the_start_of_an_opened_sale_moves_until_it_sells(case: &mut Scenario) {
    let target = case.open(sale(10)).await;
    let id = target.id;
    let at = |millis: i64| OPENS.plus_millis(millis);
    case.set_clock(at(10));
    case.act(id, CampaignAction::Pause).await;
    let past = case.set_terms(id, starts_at(at(9))).await;
    if has_opened(&past) {
        // It is spread: its shards may have granted.
        let moved = case.set_terms(id, starts_at(at(50))).await;
        assert!(has_opened(&moved), "{moved:?}");
        let resumed = case.act(id, CampaignAction::Resume).await;
        assert_eq!(resumed.phase, Phase::Live);
        case.granted(target.one("a")).await;
        return case.settle().await;
    }
    assert_eq!(past, Err(Refusal::Rules(CampaignError::InThePast)));
    let moved = case.set_terms(id, starts_at(at(50))).await.unwrap();
    assert_eq!(moved.terms.unwrap().window.starts_at(), at(50));
    case.restart().await;
    let resumed = case.act(id, CampaignAction::Resume).await;
    assert_eq!(resumed.phase, Phase::Scheduled);
    let early = Outcome::NotStarted { starts_at: at(50) };
    assert_eq!(case.claim(target.one("a")).await, early);
    case.set_clock(at(50));
    case.granted(target.one("a")).await;
    case.try_cancel(case.nth(target, 1)).await.unwrap();
    case.act(id, CampaignAction::Pause).await;
    let late = case.set_terms(id, starts_at(at(90))).await;
    assert!(has_opened(&late), "{late:?}");
    case.settle().await;
}

/// A start is moved while users claim: if it moved, no user was granted before the new start.
pub async fn a_start_among_claims_moves_or_is_refused(case: &mut Scenario) {
    for round in 0..5 {
        let now = OPENS.plus_millis(round);
        case.set_clock(now);
        let target = case.open(sale(40)).await;
        let (campaign, change) = (target.id, starts_at(now.plus_millis(1)));
        let claims: Vec<_> = (0..20)
            .map(|n| target.one(&format!("r{round}-u{n}")))
            .collect();
        // All claims are in flight before the change is answered.
        let mut pending: Vec<_> = Vec::new();
        pending.extend(
            claims[..round as usize]
                .iter()
                .map(|claim| case.engine().claim(claim.clone())),
        );
        let moving = case.engine().submit(Command::SetTerms { campaign, change });
        pending.extend(
            claims[round as usize..]
                .iter()
                .map(|claim| case.engine().claim(claim.clone())),
        );
        let moved = moving.await.is_ok();
        for (claim, pending) in claims.into_iter().zip(pending) {
            let outcome = match pending.await {
                Ok(claimed) => claimed.outcome,
                // The engine was busy and refused: claim again.
                Err(_) => case.engine().claim(claim.clone()).await.unwrap().outcome,
            };
            let is_granted = outcome.grant().is_some();
            assert!(!(moved && is_granted), "granted before the moved start");
            case.record_claim(claim, Ok(outcome));
        }
    }
}

/// With an admission ratio, as many users are granted as the current stock and limit allow. The ratio stays until it is
/// changed.
pub async fn who_is_held_back_goes_by_the_present_stock_and_limit(case: &mut Scenario) {
    for percent in [100, 0] {
        let ratio = AdmissionRatio::from_percent(percent).unwrap();
        let target = case.open(sale(20).admission(ratio)).await;
        let crowd = |key: &str, from: usize| {
            let claims = (from..from + 300).map(|n| target.keyed(&format!("u{n}"), 1, key));
            claims.collect::<Vec<_>>()
        };
        let named = |outcomes: &[Outcome], name: &str| {
            let all = outcomes.iter().filter(|outcome| outcome.name() == name);
            all.count()
        };
        let outcomes = case.claim_all(crowd("k", 0)).await;
        assert_eq!(named(&outcomes, "granted"), 20);
        case.set_stock(target.id, 27).await.unwrap();
        let outcomes = case.claim_all(crowd("k", 1_000)).await;
        assert_eq!(named(&outcomes, "granted"), 7);
        assert_eq!(named(&outcomes, "sold_out"), 293);
        // A user with one unit may get another.
        case.set_terms(target.id, limit(2)).await.unwrap();
        case.set_stock(target.id, 40).await.unwrap();
        let outcomes = case.claim_all(crowd("l", 1_000)).await;
        assert_eq!(named(&outcomes, "granted"), 13);
        assert_eq!(named(&outcomes, "limit_reached"), 0);
        case.settle().await;
        case.restart().await;
        let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.campaign.admission(), ratio);
        assert_eq!(record.campaign.per_user_limit(), 2);
        case.set_stock(target.id, 45).await.unwrap();
        let outcomes = case.claim_all(crowd("m", 2_000)).await;
        assert_eq!(named(&outcomes, "granted"), 5);
        // The ratio changes while the sale is live. A repetition appends no entry.
        let change = SaleSettingsChange {
            admission: Some(AdmissionBound::from_percent(percent + 200).unwrap()),
            ..SaleSettingsChange::default()
        };
        let changed = case.set_terms(target.id, change).await.unwrap();
        assert_eq!(Some(changed.terms.unwrap().admission), change.admission);
        let entries = case.logs().await;
        case.set_terms(target.id, change).await.unwrap();
        assert_eq!(case.logs().await, entries);
        case.set_stock(target.id, 50).await.unwrap();
        let outcomes = case.claim_all(crowd("n", 3_000)).await;
        assert_eq!(named(&outcomes, "granted"), 5);
        case.settle().await;
        case.restart().await;
        let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
        let bound = AdmissionBound::from(record.campaign.admission());
        assert_eq!(Some(bound), change.admission);
        let terms = case.tally(target.id).await.terms.unwrap();
        assert_eq!(Some(terms.admission), change.admission);
    }
}
