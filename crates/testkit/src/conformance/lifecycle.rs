//! The window, the operator's actions, and the close.

use qiang_core::{
    book::{CampaignAction, Claim, Command, Refusal},
    campaign::{Phase, Transition, TransitionError},
    order::OrderState,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, Target, red_packet, sale};

/// The window includes its first millisecond and excludes its end.
pub async fn the_window_includes_its_start_and_excludes_its_end(case: &mut Scenario) {
    let packet = red_packet(1_000, 10, SplitRule::DoubleAverage { min: 1 });
    let targets = [case.open(packet).await, case.open(sale(10)).await];
    let ends = OPENS.plus_millis(OPEN_MS);
    let edges = [
        (OPENS.plus_millis(-1), "not_started"),
        (OPENS, "granted"),
        (ends.plus_millis(-1), "granted"),
        (ends, "ended"),
        (ends.plus_millis(1), "ended"),
    ];
    for (n, (now, expected)) in (0..).zip(edges) {
        for target in targets {
            // The clock is set without a tick: the outcome depends on the time only.
            case.set_clock(now);
            assert_eq!(case.outcome(target.one(&format!("u{n}"))).await, expected);
        }
    }
}

/// A pause refuses all users without a grant. After a resume the campaign continues where it stopped.
pub async fn a_pause_stops_and_a_resumption_goes_on(case: &mut Scenario) {
    let packet = case.open(red_packet(1_000, 10, SplitRule::Equal)).await;
    let sale = case.open(sale(10)).await;
    for target in [packet, sale] {
        let grant = case.granted(target.one("a")).await;
        assert_eq!(
            case.act(target.id, CampaignAction::Pause).await.phase,
            Phase::Paused
        );
        assert_eq!(case.outcome(target.one("b")).await, "paused");
        assert_eq!(case.replayed(target.one("a")).await.number, grant.number);
        assert_eq!(
            case.act(target.id, CampaignAction::Resume).await.phase,
            Phase::Live
        );
        assert_ne!(case.granted(target.one("b")).await.number, grant.number);
    }
    // A held order can be paid or cancelled during a pause, and holds continue to run.
    case.act(sale.id, CampaignAction::Pause).await;
    case.pay(case.nth(sale, 1), "p").await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(case.tally(sale.id).await.granted, 1);
    case.pay(case.nth(sale, 2), "late").await;
    assert_eq!(case.tally(sale.id).await.granted, 2);
}

/// A hold ends at its moment while its own sale is paused. Its units are for sale again after the resumption.
pub async fn a_hold_expires_while_its_sale_is_paused(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    for user in ["a", "b"] {
        case.granted(target.one(user)).await;
    }
    case.act(target.id, CampaignAction::Pause).await;
    case.pay(case.nth(target, 2), "p").await;
    let ends = OPENS.plus_millis(HOLD_MS);
    let steps = [
        (ends.plus_millis(-1), OrderState::Held, (2, 0)),
        (ends, OrderState::Expired, (1, 1)),
    ];
    for (now, expected, units) in steps {
        case.at(now).await;
        let view = case.order(case.nth(target, 1)).await.unwrap();
        assert_eq!(view.grant.order.unwrap().state, expected);
        let tally = case.tally(target.id).await;
        assert_eq!(tally.phase, Phase::Paused);
        assert_eq!((tally.granted, tally.remaining), units);
        assert_eq!(case.outcome(target.one("c")).await, "paused");
    }
    case.act(target.id, CampaignAction::Resume).await;
    case.granted(target.one("c")).await;
    assert_eq!(case.outcome(target.one("d")).await, "sold_out");
    case.settle().await;
}

/// A campaign that is paused before its start grants nothing at its start, and is scheduled again by a resume.
pub async fn a_scheduled_campaign_is_paused_and_resumed(case: &mut Scenario) {
    let starts = OPENS.plus_millis(1_000);
    let packet = red_packet(1_000, 10, SplitRule::Equal).window(starts, OPEN_MS);
    let packet = case.open(packet).await;
    let sale = case.open(sale(10).window(starts, OPEN_MS)).await;
    for target in [packet, sale] {
        case.set_clock(OPENS);
        let paused = case.act(target.id, CampaignAction::Pause).await;
        assert_eq!(paused.phase, Phase::Paused);
        assert_eq!(case.outcome(target.one("a")).await, "paused");
        case.restart().await;
        case.set_clock(starts);
        assert_eq!(case.outcome(target.one("a")).await, "paused");
        case.set_clock(starts.plus_millis(-1));
        for _ in 0..2 {
            let resumed = case.act(target.id, CampaignAction::Resume).await;
            assert_eq!(resumed.phase, Phase::Scheduled);
        }
        assert_eq!(case.outcome(target.one("a")).await, "not_started");
        case.set_clock(starts);
        case.granted(target.one("a")).await;
        case.act(target.id, CampaignAction::Pause).await;
        case.act(target.id, CampaignAction::Resume).await;
        case.granted(target.one("b")).await;
    }
    case.settle().await;
}

/// A scheduled sale starts at the moment of the command, and keeps its end. A packet has no terms.
pub async fn a_scheduled_sale_is_started_once(case: &mut Scenario) {
    let starts = OPENS.plus_millis(OPEN_MS);
    let target = case.open(sale(10).window(starts, OPEN_MS)).await;
    let now = OPENS.plus_millis(5);
    case.set_clock(now);
    let started = case.act(target.id, CampaignAction::Start).await;
    let window = started.terms.unwrap().window;
    assert_eq!((started.phase, window.starts_at()), (Phase::Live, now));
    assert_eq!(window.ends_at(), starts.plus_millis(OPEN_MS));
    let grant = case.granted(target.one("a")).await;
    assert_eq!(grant.granted_at, now);
    case.set_clock(now.plus_millis(1));
    let entries = case.logs().await;
    let again = case.act(target.id, CampaignAction::Start).await;
    assert_eq!(again.terms, started.terms);
    assert_eq!(case.logs().await, entries);
    case.restart().await;
    case.granted(target.one("b")).await;
    case.settle().await;
    let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
    assert_eq!(record.campaign.window, window);
    let packet = red_packet(100, 5, SplitRule::Equal).window(starts, OPEN_MS);
    let packet = case.open(packet).await;
    let refused = case.try_act(packet.id, CampaignAction::Start).await;
    assert_eq!(refused, Err(Refusal::UnknownCampaign));
}

/// A retry of the operator's command is a replay.
pub async fn acting_again_changes_nothing(case: &mut Scenario) {
    let target = case.open(red_packet(1_000, 10, SplitRule::Equal)).await;
    for (action, phase) in [
        (CampaignAction::Pause, Phase::Paused),
        (CampaignAction::Resume, Phase::Live),
        (CampaignAction::Close, Phase::Closed),
    ] {
        let first = case.act(target.id, action).await;
        let entries = case.logs().await;
        assert_eq!(first.phase, phase);
        assert_eq!(case.act(target.id, action).await, first);
        assert_eq!(case.logs().await, entries);
    }
}

/// An action that the phase does not allow is refused and changes nothing.
pub async fn acting_against_the_phase_is_refused(case: &mut Scenario) {
    let refused = |from, transition| Err(Refusal::Phase(TransitionError { from, transition }));
    let target = case
        .open(sale(10).window(OPENS.plus_millis(10), OPEN_MS))
        .await;
    let id = target.id;
    case.act(id, CampaignAction::Pause).await;
    let paused = case.try_act(id, CampaignAction::Start).await;
    assert_eq!(paused, refused(Phase::Paused, Transition::Start));
    case.act(id, CampaignAction::Close).await;
    let late = case.try_act(id, CampaignAction::Start).await;
    assert_eq!(late, refused(Phase::Closed, Transition::Start));
    let late = case.try_act(id, CampaignAction::Pause).await;
    assert_eq!(late, refused(Phase::Closed, Transition::Pause));
    let late = case.try_act(id, CampaignAction::Resume).await;
    assert_eq!(late, refused(Phase::Closed, Transition::Resume));
    let unknown = Target::of(&sale(5).setup(1_000_000)).id;
    for action in [
        CampaignAction::Pause,
        CampaignAction::Resume,
        CampaignAction::Start,
        CampaignAction::Close,
    ] {
        let refusal = Refusal::UnknownCampaign;
        assert_eq!(case.try_act(unknown, action).await, Err(refusal));
    }
}

/// A close returns what is left, to the last minor unit, once.
pub async fn a_close_returns_what_is_left_exactly_once(case: &mut Scenario) {
    let packet = red_packet(1_001, 10, SplitRule::Lazy { min: 1 }).owner("sender");
    let packet = case.open(packet).await;
    let sale = case.open(sale(10).hold_ms(2 * OPEN_MS)).await;
    let mut claimed = 0;
    for user in ["a", "b", "c"] {
        claimed += case.granted(packet.one(user)).await.amount_minor;
        case.granted(sale.one(user)).await;
    }
    for _ in 0..3 {
        for target in [packet, sale] {
            let tally = case.act(target.id, CampaignAction::Close).await;
            assert_eq!((tally.granted, tally.remaining, tally.returned), (3, 0, 7));
            assert_eq!(case.outcome(target.one("late")).await, "ended");
            let replayed = case.replayed(target.one("a")).await.order_id();
            assert_eq!(replayed, case.nth(target, 1));
        }
        case.at(OPENS.plus_millis(OPEN_MS)).await;
    }
    let tally = case.tally(packet.id).await;
    assert_eq!(tally.refunded_minor, 1_001 - claimed);
    case.settle().await;
    assert_eq!(case.balance("sender").await, (1_001 - claimed, 0));
}

/// A close during claims: each unit is either granted or returned.
pub async fn a_close_among_claims_loses_no_unit(case: &mut Scenario) {
    for round in 0..5 {
        let packet = case.open(red_packet(4_000, 40, SplitRule::Equal)).await;
        let sale = case.open(sale(40)).await;
        for target in [packet, sale] {
            let claims: Vec<_> = (0..30)
                .map(|n| target.one(&format!("r{round}-u{n}")))
                .collect();
            let (campaign, action) = (target.id, CampaignAction::Close);
            // All claims are in flight before the first is answered.
            let asked = |claim: &Claim| case.engine().claim(claim.clone());
            let mut pending: Vec<_> = claims[..15].iter().map(asked).collect();
            let closing = case.engine().submit(Command::Act { campaign, action });
            pending.extend(claims[15..].iter().map(asked));
            assert!(closing.await.is_ok());
            let mut granted = 0;
            for (claim, pending) in claims.into_iter().zip(pending) {
                let outcome = match pending.await {
                    Ok(claimed) => claimed.outcome,
                    // The engine was busy and refused: claim again.
                    Err(_) => case.engine().claim(claim.clone()).await.unwrap().outcome,
                };
                granted += u64::from(outcome.grant().is_some());
                case.record_claim(claim, Ok(outcome));
            }
            case.act(campaign, action).await;
            let tally = case.tally(target.id).await;
            assert_eq!((tally.phase, tally.remaining), (Phase::Closed, 0));
            assert_eq!((tally.granted, tally.returned), (granted, 40 - granted));
        }
    }
}

/// The end of the window closes campaigns without an operator, also paused and untouched ones.
pub async fn the_end_of_the_window_closes(case: &mut Scenario) {
    let mut targets = Vec::new();
    for _ in 0..2 {
        targets.push(case.open(red_packet(1_000, 10, SplitRule::Equal)).await);
        targets.push(case.open(sale(10).hold_ms(2 * OPEN_MS)).await);
    }
    for target in &targets[..2] {
        case.granted(target.one("a")).await;
        case.act(target.id, CampaignAction::Pause).await;
    }
    case.at(OPENS.plus_millis(OPEN_MS)).await;
    for (target, granted) in targets.into_iter().zip([1, 1, 0, 0]) {
        let tally = case.tally(target.id).await;
        assert_eq!(tally.phase, Phase::Closed);
        assert_eq!((tally.granted, tally.returned), (granted, 10 - granted));
    }
    case.settle().await;
    assert_eq!(case.balance("owner").await, (1_900, 0));
}

/// Orders outlive the close. Units that return after it do not return to the stock but to the owner.
pub async fn units_given_back_after_the_close_are_the_owners(case: &mut Scenario) {
    let target = case.open(sale(10)).await;
    for user in ["a", "b", "c"] {
        case.granted(target.one(user)).await;
    }
    case.act(target.id, CampaignAction::Close).await;
    case.pay(case.nth(target, 1), "p").await;
    case.try_cancel(case.nth(target, 2)).await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining, tally.returned), (2, 0, 8));
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining, tally.returned), (1, 0, 9));
    assert_eq!(case.outcome(target.one("d")).await, "ended");
}
