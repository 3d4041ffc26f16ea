//! Restarts: everything answered is still there, settled or not.

use qiang_core::{
    book::{CampaignAction, PaymentOutcome, Refusal},
    campaign::Phase,
    order::OrderState,
    ports::EngineError,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, Target, red_packet, sale};

/// Repeated restarts between concurrent claims: the stock is granted exactly, and no user gets two grants.
pub async fn a_restart_in_the_middle_loses_nothing(case: &mut Scenario) {
    let packet = case
        .open(red_packet(9_999, 60, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = case.open(sale(60).limit(2)).await;
    for round in 0..4 {
        for target in [packet, sale] {
            // Half of the users claimed in the round before.
            let user = |n: i32| format!("u{}", n + round * 10);
            let claims = (0..20).map(|n| target.keyed(&user(n), 1, "k"));
            case.claim_all(claims.collect()).await;
        }
        let before = (case.tally(packet.id).await, case.tally(sale.id).await);
        let logs = case.logs().await;
        case.restart().await;
        let after = (case.tally(packet.id).await, case.tally(sale.id).await);
        assert_eq!(before, after);
        assert_eq!(case.logs().await, logs);
    }
    assert_eq!(case.tally(packet.id).await.granted, 50);
    case.at(OPENS.plus_millis(OPEN_MS)).await;
    case.restart().await;
    assert_eq!(case.tally(packet.id).await.phase, Phase::Closed);
}

/// Grants, keys and payments get the same answers after a restart.
pub async fn replays_survive_a_restart(case: &mut Scenario) {
    let packet = case
        .open(red_packet(1_000, 10, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = case.open(sale(10).limit(5)).await;
    let share = case.granted(packet.one("a")).await;
    let order = case.granted(sale.keyed("a", 2, "k")).await;
    case.granted(sale.keyed("a", 1, "other")).await;
    let paid = case.pay(case.nth(sale, 2), "p").await;
    let due = case.pay(case.nth(sale, 2), "q").await;
    for _ in 0..2 {
        case.restart().await;
        assert_eq!(case.replayed(packet.one("a")).await, share);
        assert_eq!(case.replayed(sale.keyed("a", 2, "k")).await, order);
        let reused = Err(EngineError::Refused(Refusal::KeyReused));
        assert_eq!(case.try_claim(sale.keyed("a", 1, "k")).await, reused);
        assert_eq!(case.pay(case.nth(sale, 2), "p").await.0, paid.0);
        assert_eq!(case.pay(case.nth(sale, 2), "q").await, due);
        assert_eq!(due.0, PaymentOutcome::RefundDue);
    }
    // The draws of a lazy packet continue after each restart.
    for n in 0..9 {
        case.granted(packet.one(&format!("u{n}"))).await;
        case.restart().await;
    }
    assert_eq!(case.tally(packet.id).await.remaining_minor, 0);
}

/// Holds, pauses and windows continue after a restart.
pub async fn holds_and_windows_survive_a_restart(case: &mut Scenario) {
    let held = case.open(sale(10)).await;
    let paused = case.open(sale(10)).await;
    for user in ["a", "b", "c"] {
        case.granted(held.one(user)).await;
    }
    case.try_cancel(case.nth(held, 1)).await.unwrap();
    case.pay(case.nth(held, 2), "p").await;
    case.act(paused.id, CampaignAction::Pause).await;
    case.restart().await;
    assert_eq!(case.outcome(paused.one("a")).await, "paused");
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.restart().await;
    for (n, expected) in (1..).zip([OrderState::Cancelled, OrderState::Paid, OrderState::Expired]) {
        let view = case.order(case.nth(held, n)).await.unwrap();
        assert_eq!(view.grant.order.map(|order| order.state), Some(expected));
    }
    case.act(paused.id, CampaignAction::Resume).await;
    case.restart().await;
    case.granted(paused.one("a")).await;
    case.set_clock(OPENS.plus_millis(OPEN_MS));
    case.restart().await;
    case.tick().await;
    for target in [held, paused] {
        assert_eq!(case.tally(target.id).await.phase, Phase::Closed);
        assert_eq!(case.outcome(target.one("late")).await, "ended");
    }
    case.restart().await;
    assert_eq!(case.tally(held.id).await.returned, 9);
}

/// The service goes down with answers in flight. Answered users keep their grants, the others can retry, and the sums
/// hold.
pub async fn a_restart_with_answers_under_way_keeps_what_was_answered(case: &mut Scenario) {
    case.answers_may_be_lost();
    let target = case.open(sale(1_000).limit(2)).await;
    for round in 0..3 {
        let claim = |n: i32| target.keyed(&format!("u{}", round * 200 + n), 1, "k");
        let ask = |n: i32| case.engine().claim(claim(n));
        let tickets: Vec<_> = (0..200).map(ask).collect();
        case.restart().await;
        for (n, ticket) in (0..).zip(tickets) {
            let answered = ticket.await;
            let now = case.claim(claim(n)).await;
            if let Ok(before) = answered {
                let grant = before.outcome.grant().copied();
                let replay = qiang_core::outcome::Outcome::AlreadyGranted(grant.expect("granted"));
                assert_eq!(now, replay);
            }
        }
        assert_eq!(
            case.tally(target.id).await.granted,
            200 * (round as u64 + 1)
        );
    }
}

/// A campaign that was entered and, because of a crash, not opened is opened later.
pub async fn drafts_survive_a_restart(case: &mut Scenario) {
    let setup = case
        .enter(red_packet(
            1_000,
            10,
            SplitRule::Normal { min: 1, max: 500 },
        ))
        .await;
    case.restart().await;
    assert_eq!(
        case.ledger().drafts(None, 9).await,
        Ok(vec![setup.campaign.id])
    );
    let kept = case.ledger().setup(setup.campaign.id).await;
    assert_eq!(kept, Ok(Some(setup.clone())));
    let target = Target::of(&setup);
    assert_eq!(case.outcome(target.one("a")).await, "unknown_campaign");
    case.open_entered(&setup).await;
    case.granted(target.one("a")).await;
    case.restart().await;
    case.replayed(target.one("a")).await;
    case.settle().await;
    assert_eq!(case.ledger().drafts(None, 9).await, Ok(Vec::new()));
}
