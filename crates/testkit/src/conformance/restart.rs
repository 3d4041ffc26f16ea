//! What was answered is still there after a restart, settled or not.

use qiang_core::{
    book::{CampaignAction, PaymentOutcome, Refusal},
    campaign::Phase,
    order::OrderState,
    ports::EngineError,
    split::SplitRule,
};

use super::{Scenario, Subject};
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, Target, red_packet, sale};

/// Repeated restarts between concurrent claims: the stock is granted exactly, and no user has two.
pub async fn a_restart_in_the_middle_loses_nothing<S: Subject>(scenario: &mut Scenario<S>) {
    let packet = scenario
        .open(red_packet(9_999, 60, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = scenario.open(sale(60).limit(2)).await;
    for round in 0..4 {
        for target in [packet, sale] {
            // Half of them were here before.
            let user = |n: i32| format!("u{}", n + round * 10);
            let claims = (0..20).map(|n| target.keyed(&user(n), 1, "k"));
            scenario.claim_all(claims.collect()).await;
        }
        let before = (
            scenario.tally(packet.id).await,
            scenario.tally(sale.id).await,
        );
        let logs = scenario.logs().await;
        scenario.restart().await;
        let after = (
            scenario.tally(packet.id).await,
            scenario.tally(sale.id).await,
        );
        assert_eq!(before, after);
        assert_eq!(scenario.logs().await, logs);
    }
    assert_eq!(scenario.tally(packet.id).await.granted, 50);
    scenario.at(OPENS.plus_millis(OPEN_MS)).await;
    scenario.restart().await;
    assert_eq!(scenario.tally(packet.id).await.phase, Phase::Closed);
}

/// Grants, keys and payments are answered after a restart as before.
pub async fn replays_survive_a_restart<S: Subject>(scenario: &mut Scenario<S>) {
    let packet = scenario
        .open(red_packet(1_000, 10, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = scenario.open(sale(10).limit(5)).await;
    let share = scenario.granted(packet.one("a")).await;
    let order = scenario.granted(sale.keyed("a", 2, "k")).await;
    scenario.granted(sale.keyed("a", 1, "other")).await;
    let paid = scenario.pay(scenario.nth(sale, 2), "p").await;
    let due = scenario.pay(scenario.nth(sale, 2), "q").await;
    for _ in 0..2 {
        scenario.restart().await;
        assert_eq!(scenario.replayed(packet.one("a")).await, share);
        assert_eq!(scenario.replayed(sale.keyed("a", 2, "k")).await, order);
        let reused = Err(EngineError::Refused(Refusal::KeyReused));
        assert_eq!(scenario.try_claim(sale.keyed("a", 1, "k")).await, reused);
        assert_eq!(scenario.pay(scenario.nth(sale, 2), "p").await.0, paid.0);
        assert_eq!(scenario.pay(scenario.nth(sale, 2), "q").await, due);
        assert_eq!(due.0, PaymentOutcome::RefundDue);
    }
    // The draws of a lazy packet go on where they were.
    for n in 0..9 {
        scenario.granted(packet.one(&format!("u{n}"))).await;
        scenario.restart().await;
    }
    assert_eq!(scenario.tally(packet.id).await.remaining_minor, 0);
}

/// What was under way by the clock goes on: holds, pauses, windows.
pub async fn holds_and_windows_survive_a_restart<S: Subject>(scenario: &mut Scenario<S>) {
    let held = scenario.open(sale(10)).await;
    let paused = scenario.open(sale(10)).await;
    for user in ["a", "b", "c"] {
        scenario.granted(held.one(user)).await;
    }
    scenario
        .try_cancel(scenario.nth(held, 1))
        .await
        .expect("a gives back");
    scenario.pay(scenario.nth(held, 2), "p").await;
    scenario.act(paused.id, CampaignAction::Pause).await;
    scenario.restart().await;
    assert_eq!(scenario.outcome(paused.one("a")).await, "paused");
    scenario.at(OPENS.plus_millis(HOLD_MS)).await;
    scenario.restart().await;
    for (n, expected) in (1..).zip([OrderState::Cancelled, OrderState::Paid, OrderState::Expired]) {
        let view = scenario
            .order(scenario.nth(held, n))
            .await
            .expect("it is known");
        assert_eq!(view.grant.order.map(|order| order.state), Some(expected));
    }
    scenario.act(paused.id, CampaignAction::Resume).await;
    scenario.restart().await;
    scenario.granted(paused.one("a")).await;
    scenario.set_clock(OPENS.plus_millis(OPEN_MS));
    scenario.restart().await;
    scenario.tick().await;
    for target in [held, paused] {
        assert_eq!(scenario.tally(target.id).await.phase, Phase::Closed);
        assert_eq!(scenario.outcome(target.one("late")).await, "ended");
    }
    scenario.restart().await;
    assert_eq!(scenario.tally(held.id).await.returned, 9);
}

/// Down with answers under way: whoever was answered has it, whoever was not can ask again, and the sums hold.
pub async fn a_restart_with_answers_under_way_keeps_what_was_answered<S: Subject>(
    scenario: &mut Scenario<S>,
) {
    scenario.answers_may_be_lost();
    let target = scenario.open(sale(1_000).limit(2)).await;
    for round in 0..3 {
        let claim = |n: i32| target.keyed(&format!("u{}", round * 200 + n), 1, "k");
        let ask = |n: i32| scenario.engine().claim(claim(n));
        let tickets: Vec<_> = (0..200).map(ask).collect();
        scenario.restart().await;
        for (n, ticket) in (0..).zip(tickets) {
            let answered = ticket.await;
            let now = scenario.claim(claim(n)).await;
            if let Ok(before) = answered {
                let grant = before.outcome.grant().copied();
                let replay = qiang_core::outcome::Outcome::AlreadyGranted(grant.expect("granted"));
                assert_eq!(now, replay);
            }
        }
        assert_eq!(
            scenario.tally(target.id).await.granted,
            200 * (round as u32 + 1)
        );
    }
}

/// A campaign that was entered, and never opened because of a crash, is opened later.
pub async fn drafts_survive_a_restart<S: Subject>(scenario: &mut Scenario<S>) {
    let setup = scenario
        .enter(red_packet(
            1_000,
            10,
            SplitRule::Normal { min: 1, max: 500 },
        ))
        .await;
    scenario.restart().await;
    assert_eq!(scenario.ledger().drafts().await, Ok(vec![setup.clone()]));
    let target = Target::of(&setup);
    assert_eq!(scenario.outcome(target.one("a")).await, "unknown_campaign");
    scenario.open_entered(&setup).await;
    scenario.granted(target.one("a")).await;
    scenario.restart().await;
    scenario.replayed(target.one("a")).await;
    scenario.settle().await;
    assert_eq!(scenario.ledger().drafts().await, Ok(Vec::new()));
}
