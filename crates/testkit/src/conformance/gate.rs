//! The gate answers claims that need no decision from memory, and never with a result that may still be undone.

use qiang_core::{
    book::CampaignAction, event::Event, outcome::Outcome, ports::ProbeResult, split::SplitRule,
};

use super::Scenario;
use crate::campaign::{OPEN_MS, OPENS, Target, red_packet, sale};

/// Through the life of a campaign: if the gate answers a claim, the engine answers the same. `Scenario::claim`
/// compares.
pub async fn the_gate_says_what_a_claim_would(case: &mut Scenario) {
    let packet = red_packet(300, 3, SplitRule::Lazy { min: 1 });
    for builder in [packet, sale(3).limit(2)] {
        case.at(OPENS).await;
        let target = case.open(builder).await;
        for now in [OPENS.plus_millis(-1), OPENS] {
            case.set_clock(now);
            for user in ["a", "a", "b", "c", "d"] {
                case.claim(target.one(user)).await;
                case.claim(target.units(user, 2)).await;
                case.claim(target.keyed(user, 1, "k")).await;
                case.claim(target.mistaken().one(user)).await;
            }
        }
        for action in [
            CampaignAction::Pause,
            CampaignAction::Resume,
            CampaignAction::Close,
        ] {
            case.act(target.id, action).await;
            for user in ["a", "d"] {
                case.claim(target.one(user)).await;
            }
        }
        case.at(OPENS.plus_millis(OPEN_MS)).await;
        case.claim(target.one("a")).await;
    }
    let unknown = Target::of(&sale(5).setup(1_000_000));
    assert_eq!(case.outcome(unknown.one("a")).await, "unknown_campaign");
    // The gate never grants.
    let fresh = case.open(sale(3).window(OPENS, 2 * OPEN_MS)).await;
    for _ in 0..3 {
        assert_eq!(case.engine().try_gate_outcome(&fresh.one("a")), None);
    }
}

/// During concurrent claims, each grant or empty stock that the gate answers is already in the log.
pub async fn the_gate_keeps_to_itself_what_is_not_kept(case: &mut Scenario) {
    const ROUNDS: u32 = 30;
    for round in 0..ROUNDS {
        let target = case.open(sale(20)).await;
        let claims: Vec<_> = (0..20).map(|n| target.one(&format!("u{n}"))).collect();
        let tickets: Vec<_> = claims
            .iter()
            .map(|claim| case.engine().claim(claim.clone()))
            .collect();
        // No reply was awaited yet: the gate answers while the claims are being decided.
        for _ in 0..20 {
            for claim in [&claims[0], &claims[19], &target.one("late")] {
                if let Some(outcome) = case.engine().try_gate_outcome(claim) {
                    in_the_log(case, target, claim.user.as_str(), outcome).await;
                }
            }
            tokio::task::yield_now().await;
        }
        for (claim, ticket) in claims.into_iter().zip(tickets) {
            let claimed = ticket.await.unwrap();
            assert_eq!(claimed.outcome.name(), "granted", "round {round}");
            case.replayed(claim).await;
        }
    }
    case.answers_may_be_lost();
}

async fn in_the_log(case: &Scenario, target: Target, user: &str, outcome: Outcome) {
    let mut granted = 0;
    let mut own = None;
    for entry in case.logs().await.into_iter().flatten() {
        if let Event::Granted {
            number, user: of, ..
        } = &entry.event
            && entry.campaign == target.id
        {
            granted += 1;
            own = own.or((of.as_str() == user).then_some(*number));
        }
    }
    match outcome {
        Outcome::AlreadyGranted(grant) => assert_eq!(own, Some(grant.number)),
        Outcome::SoldOut { .. } => assert_eq!(granted, 20),
        other => panic!("the gate answers {other:?} for a live sale"),
    }
}

/// A probe takes the path of a grant and grants nothing.
pub async fn a_probe_is_answered_and_leaves_no_trace(case: &mut Scenario) {
    let target = case.open(sale(3)).await;
    let before = (case.logs().await, case.tally(target.id).await);
    for _ in 0..3 {
        for partition in case.log().partitions() {
            assert_eq!(case.engine().probe(partition).await, Ok(ProbeResult::Ready));
        }
    }
    assert_eq!((case.logs().await, case.tally(target.id).await), before);
}
