//! What was answered is still there after a restart, settled or not.

use qiang_core::{
    book::{CampaignAction, PaymentOutcome, Refusal},
    campaign::Phase,
    order::OrderState,
    ports::EngineError,
    split::SplitRule,
};

use super::{Stage, Subject};
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, Target, red_packet, sale};

/// In the middle of a rush and again and again: the stock ends where it ends, and nobody has two.
pub async fn a_restart_in_the_middle_loses_nothing<S: Subject>(stage: &mut Stage<S>) {
    let packet = stage
        .open(red_packet(9_999, 60, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = stage.open(sale(60).limit(2)).await;
    for round in 0..4 {
        for target in [packet, sale] {
            // Half of them were here before.
            let user = |n: i32| format!("u{}", n + round * 10);
            let claims = (0..20).map(|n| target.keyed(&user(n), 1, "k"));
            stage.crowd(claims.collect()).await;
        }
        let before = (stage.tally(packet.id).await, stage.tally(sale.id).await);
        let logs = stage.logs().await;
        stage.restart().await;
        let after = (stage.tally(packet.id).await, stage.tally(sale.id).await);
        assert_eq!(before, after);
        assert_eq!(stage.logs().await, logs);
    }
    assert_eq!(stage.tally(packet.id).await.granted, 50);
    stage.at(OPENS.plus_millis(OPEN_MS)).await;
    stage.restart().await;
    assert_eq!(stage.tally(packet.id).await.phase, Phase::Closed);
}

/// Grants, keys and payments are answered after a restart as before.
pub async fn replays_survive_a_restart<S: Subject>(stage: &mut Stage<S>) {
    let packet = stage
        .open(red_packet(1_000, 10, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = stage.open(sale(10).limit(5)).await;
    let share = stage.granted(packet.one("a")).await;
    let order = stage.granted(sale.keyed("a", 2, "k")).await;
    stage.granted(sale.keyed("a", 1, "other")).await;
    let paid = stage.pay(stage.nth(sale, 2), "p").await;
    let due = stage.pay(stage.nth(sale, 2), "q").await;
    for _ in 0..2 {
        stage.restart().await;
        assert_eq!(stage.replayed(packet.one("a")).await, share);
        assert_eq!(stage.replayed(sale.keyed("a", 2, "k")).await, order);
        let reused = Err(EngineError::Refused(Refusal::KeyReused));
        assert_eq!(stage.try_claim(sale.keyed("a", 1, "k")).await, reused);
        assert_eq!(stage.pay(stage.nth(sale, 2), "p").await.0, paid.0);
        assert_eq!(stage.pay(stage.nth(sale, 2), "q").await, due);
        assert_eq!(due.0, PaymentOutcome::RefundDue);
    }
    // The draws of a lazy packet go on where they were.
    for n in 0..9 {
        stage.granted(packet.one(&format!("u{n}"))).await;
        stage.restart().await;
    }
    assert_eq!(stage.tally(packet.id).await.remaining_minor, 0);
}

/// What was under way by the clock goes on: holds, pauses, windows.
pub async fn holds_and_windows_survive_a_restart<S: Subject>(stage: &mut Stage<S>) {
    let held = stage.open(sale(10)).await;
    let paused = stage.open(sale(10)).await;
    for user in ["a", "b", "c"] {
        stage.granted(held.one(user)).await;
    }
    stage
        .try_cancel(stage.nth(held, 1))
        .await
        .expect("a gives back");
    stage.pay(stage.nth(held, 2), "p").await;
    stage.act(paused.id, CampaignAction::Pause).await;
    stage.restart().await;
    assert_eq!(stage.outcome(paused.one("a")).await, "paused");
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    stage.restart().await;
    for (n, expected) in (1..).zip([OrderState::Cancelled, OrderState::Paid, OrderState::Expired]) {
        let view = stage.order(stage.nth(held, n)).await.expect("it is known");
        assert_eq!(view.grant.order.map(|order| order.state), Some(expected));
    }
    stage.act(paused.id, CampaignAction::Resume).await;
    stage.restart().await;
    stage.granted(paused.one("a")).await;
    stage.set_clock(OPENS.plus_millis(OPEN_MS));
    stage.restart().await;
    stage.tick().await;
    for target in [held, paused] {
        assert_eq!(stage.tally(target.id).await.phase, Phase::Closed);
        assert_eq!(stage.outcome(target.one("late")).await, "ended");
    }
    stage.restart().await;
    assert_eq!(stage.tally(held.id).await.returned, 9);
}

/// Down with answers under way: whoever was answered has it, whoever was not can ask again, and the sums hold.
pub async fn a_restart_with_answers_under_way_keeps_what_was_answered<S: Subject>(
    stage: &mut Stage<S>,
) {
    stage.answers_may_be_lost();
    let target = stage.open(sale(1_000).limit(2)).await;
    for round in 0..3 {
        let claim = |n: i32| target.keyed(&format!("u{}", round * 200 + n), 1, "k");
        let ask = |n: i32| stage.engine().claim(claim(n));
        let tickets: Vec<_> = (0..200).map(ask).collect();
        stage.restart().await;
        for (n, ticket) in (0..).zip(tickets) {
            let answered = ticket.await;
            let now = stage.claim(claim(n)).await;
            if let Ok(before) = answered {
                let grant = before.outcome.grant().copied();
                let replay = qiang_core::outcome::Outcome::AlreadyGranted(grant.expect("granted"));
                assert_eq!(now, replay);
            }
        }
        assert_eq!(
            stage.tally(target.id).await.granted,
            200 * (round as u32 + 1)
        );
    }
}

/// A campaign that was entered, and never opened because of a crash, is opened later.
pub async fn drafts_survive_a_restart<S: Subject>(stage: &mut Stage<S>) {
    let setup = stage
        .enter(red_packet(
            1_000,
            10,
            SplitRule::Normal { min: 1, max: 500 },
        ))
        .await;
    stage.restart().await;
    assert_eq!(stage.ledger().drafts().await, Ok(vec![setup.clone()]));
    let target = Target::of(&setup);
    assert_eq!(stage.outcome(target.one("a")).await, "unknown_campaign");
    stage.take_up(&setup).await;
    stage.granted(target.one("a")).await;
    stage.restart().await;
    stage.replayed(target.one("a")).await;
    stage.settle().await;
    assert_eq!(stage.ledger().drafts().await, Ok(Vec::new()));
}
