//! Limits per user, and idempotency keys.

use std::collections::BTreeSet;

use qiang_core::{
    book::Refusal,
    outcome::{Grant, Outcome},
    ports::EngineError,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{red_packet, sale};

/// Concurrent claims of one user.
const CLAIMS: usize = 1_000;

/// Checks that one claim was granted and all others got the same grant.
fn one_grant(outcomes: &[Outcome]) -> Grant {
    let granted = |outcome: &&Outcome| matches!(outcome, Outcome::Granted(_));
    assert_eq!(outcomes.iter().filter(granted).count(), 1);
    let grants: Vec<_> = outcomes.iter().filter_map(Outcome::grant).collect();
    assert_eq!(grants.len(), outcomes.len(), "all have a grant");
    assert!(
        grants.iter().all(|grant| *grant == grants[0]),
        "all have the same grant"
    );
    *grants[0]
}

/// A thousand claims of one user, for both kinds: one grant and 999 replays.
pub async fn a_thousand_claims_of_one_user_are_one_grant(case: &mut Scenario) {
    let packet = case
        .open(red_packet(5_000, 50, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = case.open(sale(50)).await;
    for target in [packet, sale] {
        let outcomes = case.claim_all(vec![target.one("u"); CLAIMS]).await;
        one_grant(&outcomes);
        assert_eq!(case.tally(target.id).await.remaining, 49);
    }
}

/// The same with a limit that allows more: one key gives one order.
pub async fn a_thousand_claims_under_one_key_are_one_order(case: &mut Scenario) {
    let target = case.open(sale(50).limit(50)).await;
    let outcomes = case
        .claim_all(vec![target.keyed("u", 3, "k"); CLAIMS])
        .await;
    assert_eq!(one_grant(&outcomes).quantity, 3);
    assert_eq!(case.tally(target.id).await.remaining, 47);
}

/// Orders of one user add up to the limit, under any keys.
pub async fn several_orders_of_one_user_reach_the_limit_and_no_further(case: &mut Scenario) {
    let target = case.open(sale(100).limit(5)).await;
    for key in ["a", "b"] {
        case.granted(target.keyed("u", 2, key)).await;
    }
    let full = Outcome::LimitReached { limit: 5, held: 4 };
    assert_eq!(case.claim(target.keyed("u", 2, "c")).await, full);
    case.granted(target.keyed("u", 1, "c")).await;
    let full = Outcome::LimitReached { limit: 5, held: 5 };
    assert_eq!(case.claim(target.one("u")).await, full);

    // Concurrent claims too: of 40 single units, exactly as many are granted as the limit allows.
    let claims = (0..40)
        .map(|n| target.keyed("v", 1, &format!("k{n}")))
        .collect();
    let outcomes = case.claim_all(claims).await;
    let numbers: BTreeSet<_> = outcomes
        .iter()
        .filter_map(Outcome::grant)
        .map(|g| g.number)
        .collect();
    assert_eq!(numbers.len(), 5);
    let refused = outcomes
        .iter()
        .filter(|o| o.name() == "limit_reached")
        .count();
    assert_eq!(refused, 35);
}

/// A key identifies one order. The same request replays it; another quantity is refused and takes no units.
pub async fn a_key_replays_its_order_and_no_other(case: &mut Scenario) {
    let target = case.open(sale(100).limit(10)).await;
    let first = case.granted(target.keyed("u", 2, "a")).await;
    let second = case.granted(target.keyed("u", 3, "b")).await;
    assert_eq!(case.replayed(target.keyed("u", 2, "a")).await, first);
    assert_eq!(case.replayed(target.keyed("u", 3, "b")).await, second);
    let reused = Err(EngineError::Refused(Refusal::KeyReused));
    assert_eq!(case.try_claim(target.keyed("u", 3, "a")).await, reused);
    // Without a key, every claim is a new order, up to the limit.
    for _ in 0..2 {
        case.granted(target.units("u", 2)).await;
    }
    assert_eq!(case.tally(target.id).await.granted, 9);

    // A key still identifies its order after the order was cancelled.
    let cancelled = case.try_cancel(case.nth(target, 1)).await;
    let replayed = case.replayed(target.keyed("u", 2, "a")).await;
    assert_eq!(cancelled.map(|view| view.grant), Ok(replayed));
    assert_eq!(case.tally(target.id).await.granted, 7);
}

/// Keys belong to a user and a campaign.
pub async fn a_key_means_nothing_to_another_user_or_campaign(case: &mut Scenario) {
    let one = case.open(sale(10).limit(5)).await;
    let other = case.open(sale(10).limit(5)).await;
    for target in [one, other] {
        for user in ["u", "v"] {
            case.granted(target.keyed(user, 1, "k")).await;
        }
    }
}

/// If the limit is one, the user is the key: without a key the grant is the same. Shares are never returned, so any key
/// replays the share.
pub async fn a_limit_of_one_needs_no_key(case: &mut Scenario) {
    let packet = case.open(red_packet(100, 5, SplitRule::Equal)).await;
    let sale = case.open(sale(5)).await;
    for target in [packet, sale] {
        let grant = case.granted(target.keyed("u", 1, "a")).await;
        for claim in [target.keyed("u", 1, "a"), target.one("u")] {
            assert_eq!(case.replayed(claim).await, grant);
        }
        if target.id == packet.id {
            assert_eq!(case.replayed(target.keyed("u", 1, "b")).await, grant);
        }
        assert_eq!(case.outcome(target.units("v", 2)).await, "limit_reached");
        case.granted(target.one("v")).await;
    }
}

/// A key that was answered with an order means that order for good, also if the limit is one. Another key is refused
/// while the order has its units, and may buy after the order returned them.
pub async fn a_second_key_never_buys_what_it_was_answered_with(case: &mut Scenario) {
    let target = case.open(sale(5)).await;
    let first = case.granted(target.keyed("u", 1, "a")).await;
    let answer = case.claim(target.keyed("u", 1, "b")).await;
    case.try_cancel(first.order_id()).await.unwrap();
    let again = case.claim(target.keyed("u", 1, "b")).await;
    if let Some(answered) = answer.grant() {
        let number = again.grant().map(|grant| grant.number);
        assert_eq!(
            number,
            Some(answered.number),
            "the key now means another order"
        );
    }
    assert_eq!(answer, Outcome::LimitReached { limit: 1, held: 1 });
    let second = again.grant().copied().expect("it was refused before");
    for _ in 0..2 {
        let replayed = case.replayed(target.keyed("u", 1, "a")).await;
        assert_eq!(replayed.number, first.number);
        assert_eq!(case.replayed(target.keyed("u", 1, "b")).await, second);
        assert_eq!(case.replayed(target.one("u")).await, second);
        assert_eq!(
            case.outcome(target.keyed("u", 1, "c")).await,
            "limit_reached"
        );
        case.restart().await;
    }
    // An order that was granted without a key.
    let first = case.granted(target.one("v")).await;
    assert_eq!(
        case.outcome(target.keyed("v", 1, "k")).await,
        "limit_reached"
    );
    assert_eq!(case.replayed(target.one("v")).await, first);
    case.try_cancel(first.order_id()).await.unwrap();
    let second = case.granted(target.keyed("v", 1, "k")).await;
    assert_eq!(case.replayed(target.keyed("v", 1, "k")).await, second);
}
