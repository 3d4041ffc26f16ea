//! Clocks jump. Nothing may be lost, doubled or stuck because of it.

use qiang_core::{book::CampaignAction, campaign::Phase, order::OrderState, split::SplitRule};

use super::{Scenario, Subject};
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, red_packet, sale};

/// Claims, payments and cancellations while the clock goes to and fro; the auditor does the sums.
pub async fn a_clock_that_jumps_breaks_nothing<S: Subject>(scenario: &mut Scenario<S>) {
    let packet = scenario
        .open(red_packet(10_000, 50, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = scenario.open(sale(30).limit(3)).await;
    let minutes = [0, 5, -1, 0, 59, 1, 30, -60, 2, 58, 3, 3, 1];
    for (step, minute) in (0_u32..).zip(minutes) {
        scenario.at(OPENS.plus_millis(minute * 60_000)).await;
        for n in 0..3 {
            let user = format!("u{}", (step + n) % 7);
            scenario.claim(packet.one(&user)).await;
            scenario
                .claim(sale.keyed(&user, 1 + n % 2, &format!("k{step}")))
                .await;
        }
        let order = scenario.nth(sale, 1 + step as usize);
        if scenario.order(order).await.is_some() {
            if step % 2 == 0 {
                scenario.pay(order, "p").await;
            } else {
                // Refused where it is no longer held: that is an answer too.
                drop(scenario.try_cancel(order).await);
            }
        }
        for target in [packet, sale] {
            assert!(scenario.tally(target.id).await.conserves());
        }
    }
    // Far beyond everything no order is left waiting, and nothing in stock.
    scenario.at(OPENS.plus_millis(100 * OPEN_MS)).await;
    for target in [packet, sale] {
        let tally = scenario.tally(target.id).await;
        assert_eq!((tally.phase, tally.remaining), (Phase::Closed, 0));
    }
    for n in 1.. {
        let Some(view) = scenario.order(scenario.nth(sale, n)).await else {
            break;
        };
        let state = view.grant.order.map(|order| order.state);
        assert_ne!(state, Some(OrderState::Held), "order {n}");
    }
}

/// What is closed has been refunded. No clock opens it again.
pub async fn closed_stays_closed_when_the_clock_goes_back<S: Subject>(scenario: &mut Scenario<S>) {
    let packet = scenario.open(red_packet(100, 10, SplitRule::Equal)).await;
    let early = scenario
        .open(sale(5).window(OPENS.plus_millis(HOLD_MS), OPEN_MS))
        .await;
    scenario.granted(packet.one("a")).await;
    scenario.act(early.id, CampaignAction::Close).await;
    scenario.at(OPENS.plus_millis(OPEN_MS)).await;
    for back in [
        OPENS,
        OPENS.plus_millis(-OPEN_MS),
        OPENS.plus_millis(HOLD_MS),
    ] {
        scenario.at(back).await;
        assert_eq!(scenario.outcome(packet.one("b")).await, "ended");
        // Closed before it ever started: it will not, so that is the answer on both sides of the start.
        assert_eq!(scenario.outcome(early.one("b")).await, "ended");
        assert_eq!(scenario.tally(packet.id).await.refunded_minor, 90);
        scenario.replayed(packet.one("a")).await;
    }
}
