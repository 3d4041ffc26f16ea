//! Clocks that jump. No grant, unit or money may be lost, doubled or stuck because of a jump.

use qiang_core::{
    book::CampaignAction, campaign::Phase, order::OrderState, split::SplitRule, time::Timestamp,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, red_packet, sale};

/// Claims, payments and cancellations while the clock jumps forwards and backwards. The auditor checks the sums.
pub async fn a_clock_that_jumps_breaks_nothing(case: &mut Scenario) {
    let packet = case
        .open(red_packet(10_000, 50, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = case.open(sale(30).limit(3)).await;
    let minutes = [0, 5, -1, 0, 59, 1, 30, -60, 2, 58, 3, 3, 1];
    for (step, minute) in (0_u32..).zip(minutes) {
        case.at(OPENS.plus_millis(minute * 60_000)).await;
        for n in 0..3 {
            let user = format!("u{}", (step + n) % 7);
            case.claim(packet.one(&user)).await;
            case.claim(sale.keyed(&user, 1 + n % 2, &format!("k{step}")))
                .await;
        }
        let order = case.nth(sale, 1 + step as usize);
        if case.order(order).await.is_some() {
            if step % 2 == 0 {
                case.pay(order, "p").await;
            } else {
                // An order that is no longer held refuses the cancellation. A refusal is valid here.
                drop(case.try_cancel(order).await);
            }
        }
        for target in [packet, sale] {
            assert!(case.tally(target.id).await.conserves());
        }
    }
    // Long after all windows and holds, no order is held and no unit is in stock.
    case.at(OPENS.plus_millis(100 * OPEN_MS)).await;
    for target in [packet, sale] {
        let tally = case.tally(target.id).await;
        assert_eq!((tally.phase, tally.remaining), (Phase::Closed, 0));
    }
    for n in 1.. {
        let Some(view) = case.order(case.nth(sale, n)).await else {
            break;
        };
        let state = view.grant.order.map(|order| order.state);
        assert_ne!(state, Some(OrderState::Held), "order {n}");
    }
}

/// Special times: an hour that a night in Europe has twice, a leap day, the end of 32-bit seconds, a calendar's last
/// second. Windows and holds cross them as usual.
pub async fn days_of_the_calendar_are_ordinary(case: &mut Scenario) {
    for millis in [
        1_824_944_400_000,   // 2027-10-31T01:00:00Z
        1_835_395_200_000,   // 2028-02-29T00:00:00Z
        2_147_483_648_000,   // 2038-01-19T03:14:08Z
        253_370_764_798_000, // 9998-12-31T23:59:58Z
    ] {
        let moment = Timestamp::from_millis(millis);
        let opens = moment.plus_millis(-1_000);
        let sale = case.open(sale(3).window(opens, 2_000)).await;
        case.at(opens.plus_millis(-1)).await;
        assert_eq!(case.outcome(sale.one("early")).await, "not_started");
        for (now, user) in [(opens, "a"), (moment, "b"), (moment.plus_millis(999), "c")] {
            case.at(now).await;
            case.granted(sale.one(user)).await;
        }
        case.pay(case.nth(sale, 1), "p").await;
        case.at(moment.plus_millis(1_000)).await;
        assert_eq!(case.outcome(sale.one("late")).await, "ended");
        case.at(moment.plus_millis(999 + HOLD_MS)).await;
        let tally = case.tally(sale.id).await;
        assert_eq!((tally.phase, tally.granted), (Phase::Closed, 1));
    }
}

/// A closed campaign has been refunded. No change of the clock reopens it.
pub async fn closed_stays_closed_when_the_clock_goes_back(case: &mut Scenario) {
    let packet = case.open(red_packet(100, 10, SplitRule::Equal)).await;
    let early = case
        .open(sale(5).window(OPENS.plus_millis(HOLD_MS), OPEN_MS))
        .await;
    case.granted(packet.one("a")).await;
    case.act(early.id, CampaignAction::Close).await;
    case.at(OPENS.plus_millis(OPEN_MS)).await;
    for back in [
        OPENS,
        OPENS.plus_millis(-OPEN_MS),
        OPENS.plus_millis(HOLD_MS),
    ] {
        case.at(back).await;
        assert_eq!(case.outcome(packet.one("b")).await, "ended");
        // The campaign was closed before it started and will never start. So the answer is the same before and after
        // the start.
        assert_eq!(case.outcome(early.one("b")).await, "ended");
        assert_eq!(case.tally(packet.id).await.refunded_minor, 90);
        case.replayed(packet.one("a")).await;
    }
}

/// A grant is replayed at any time of the clock: before the start, and again in the window. No hold expires during
/// these jumps.
pub async fn a_holder_has_the_grant_whatever_the_clock_says(case: &mut Scenario) {
    let before = OPENS.plus_millis(-1);
    let packet = case
        .open(red_packet(10_000, 50, SplitRule::Lazy { min: 1 }))
        .await;
    let single = case.open(sale(30)).await;
    let several = case.open(sale(30).limit(3)).await;
    let claims = |n: usize| {
        let user = format!("u{n}");
        [
            packet.one(&user),
            single.one(&user),
            several.keyed(&user, 1, "k"),
        ]
    };
    for target in [packet, single, several] {
        case.set_clock(before);
        assert_eq!(case.outcome(target.one("new")).await, "not_started");
    }
    for round in 0..3 {
        case.set_clock(OPENS);
        for claim in claims(round) {
            case.granted(claim).await;
        }
        for now in [before, OPENS, OPENS.plus_millis(-OPEN_MS), before] {
            case.set_clock(now);
            for claim in (0..=round).flat_map(claims) {
                case.replayed(claim).await;
            }
        }
    }
}

/// A clock that was ahead for a moment dates one grant only. A clock set back a little dates no grant backwards.
pub async fn a_grant_in_a_glitch_dates_no_later_ones(case: &mut Scenario) {
    let packet = case.open(red_packet(100, 10, SplitRule::Equal)).await;
    let sale = case.open(sale(10).limit(3)).await;
    let minutes = |minutes: i64| OPENS.plus_millis(minutes * 60_000);
    // The clock, and the date of the grant. All orders are one user's, so they are in one shard.
    let steps = [(30, 30), (2, 2), (1, 2)];
    let mut orders = Vec::new();
    for (n, (now, dated)) in (0..).zip(steps) {
        case.set_clock(minutes(now));
        let grant = case.granted(sale.keyed("u", 1, &format!("k{n}"))).await;
        assert_eq!(grant.granted_at, minutes(dated), "{now}");
        orders.push(sale.order(grant.number));
    }
    for (name, now) in [("ahead", 30), ("a", 2)] {
        case.set_clock(minutes(now));
        let grant = case.granted(packet.one(name)).await;
        assert_eq!(grant.granted_at, minutes(now), "{name}");
    }
    // Holds end in the order of numbers: orders after the one dated ahead wait until that one is cancelled.
    let over = minutes(2).plus_millis(HOLD_MS);
    case.at(over).await;
    drop(case.try_cancel(orders[0]).await);
    case.at(over).await;
    for order in &orders[1..] {
        let view = case.order(*order).await;
        let state = view.and_then(|view| view.grant.order);
        assert_eq!(state.map(|order| order.state), Some(OrderState::Expired));
    }
}
