//! Red packets: shares that add up to the total, one per user, and a refund of the rest to the sender.

use qiang_core::{book::CampaignAction, campaign::Phase, outcome::Outcome, split::SplitRule};

use super::Scenario;
use crate::campaign::{OPEN_MS, OPENS, red_packet, sale};

/// One split of each rule.
const RULES: [SplitRule; 4] = [
    SplitRule::Lazy { min: 3 },
    SplitRule::Equal,
    SplitRule::Normal { min: 3, max: 400 },
    SplitRule::DoubleAverage { min: 3 },
];

/// Claimed one after another, the shares add up to the total, and the next user gets none.
pub async fn every_rule_hands_out_its_total(case: &mut Scenario) {
    for (seed, rule) in (1..).zip(RULES) {
        let builder = red_packet(2_003, 20, rule).seed(seed);
        let planned = {
            let setup = builder.setup(0);
            let qiang_core::campaign::Rules::RedPacket(packet) = setup.campaign.rules else {
                unreachable!("a red packet was built")
            };
            packet.split.shares(&packet.seed)
        };
        let target = case.open(builder).await;
        // A share keeps its number. A spread campaign grants shares in another order.
        let mut shares = std::collections::BTreeMap::new();
        for n in 0..20 {
            let grant = case.granted(target.one(&format!("u{n}"))).await;
            shares.insert(grant.number, grant.amount_minor);
        }
        let amounts: Vec<i64> = shares.into_values().collect();
        assert_eq!(
            amounts, planned,
            "{rule:?}: the shares follow from the seed"
        );
        assert_eq!(amounts.iter().sum::<i64>(), 2_003);
        let gone = Outcome::SoldOut { remaining: 0 };
        assert_eq!(case.claim(target.one("late")).await, gone);
        assert_eq!(case.tally(target.id).await.remaining_minor, 0);
    }
}

/// The same with concurrent users.
pub async fn every_rule_hands_out_its_total_to_concurrent_users(case: &mut Scenario) {
    for (n, rule) in (1..).zip(RULES) {
        let target = case.open(red_packet(20_003, 200, rule).seed(n)).await;
        let claims = (0..600).map(|n| target.one(&format!("u{}", n % 300)));
        let outcomes = case.claim_all(claims.collect()).await;
        let granted = |outcome: &Outcome| match outcome {
            Outcome::Granted(grant) => Some(grant.amount_minor),
            _ => None,
        };
        let amounts: Vec<i64> = outcomes.iter().filter_map(granted).collect();
        assert_eq!(amounts.len(), 200, "{rule:?}");
        assert_eq!(amounts.iter().sum::<i64>(), 20_003, "{rule:?}");
    }
}

/// A user with a share gets the same share again, while the packet is open and after its close.
pub async fn a_user_has_one_share_and_the_same_one(case: &mut Scenario) {
    for rule in RULES {
        let target = case.open(red_packet(1_000, 10, rule)).await;
        let grant = case.granted(target.one("a")).await;
        case.granted(target.one("b")).await;
        assert_eq!(case.replayed(target.one("a")).await, grant);
        case.act(target.id, CampaignAction::Close).await;
        assert_eq!(case.replayed(target.one("a")).await, grant);
    }
}

/// At the end, unclaimed shares are refunded to the sender. The users keep the rest.
pub async fn what_nobody_took_is_refunded(case: &mut Scenario) {
    let mut paid_out = 0;
    for rule in RULES {
        let target = case.open(red_packet(1_000, 10, rule).owner("sender")).await;
        for user in ["a", "b", "c"] {
            paid_out += case.granted(target.one(user)).await.amount_minor;
        }
    }
    case.at(OPENS.plus_millis(OPEN_MS)).await;
    case.settle().await;
    assert_eq!(case.balance("sender").await, (4_000 - paid_out, 0));
    let mut received = 0;
    for user in ["a", "b", "c"] {
        received += case.balance(user).await.0;
    }
    assert_eq!(received, paid_out);
}

/// Nothing is refunded a moment before the packet's end. At the end, everything unclaimed is refunded once, including a
/// remainder of the split. This holds also if the engine stops between the close and the refund.
pub async fn a_packet_is_refunded_at_its_end_and_once(case: &mut Scenario) {
    const DAY_MS: i64 = 24 * 3_600_000;
    let mut paid_out = 0;
    for rule in RULES {
        // 1,003 is not a multiple of 10.
        let total = 1_000 + 3 * i64::from(rule != SplitRule::Equal);
        let builder = red_packet(total, 10, rule).owner("sender");
        let target = case.open(builder.window(OPENS, DAY_MS)).await;
        for user in ["a", "b", "c"] {
            paid_out += case.granted(target.one(user)).await.amount_minor;
        }
    }
    case.at(OPENS.plus_millis(DAY_MS - 1)).await;
    case.settle().await;
    assert_eq!(case.balance("sender").await, (0, 0));
    case.at(OPENS.plus_millis(DAY_MS)).await;
    for _ in 0..3 {
        case.restart().await;
        case.settle().await;
        assert_eq!(case.balance("sender").await, (4_009 - paid_out, 0));
        case.at(OPENS.plus_millis(2 * DAY_MS)).await;
    }
}

/// The smallest packets: one share of the whole total, and a total of one minor unit.
pub async fn a_single_share_is_the_whole_packet(case: &mut Scenario) {
    for (total, rule) in [
        (1, SplitRule::Equal),
        (1, SplitRule::Lazy { min: 1 }),
        (99, SplitRule::DoubleAverage { min: 1 }),
        (99, SplitRule::Normal { min: 1, max: 99 }),
    ] {
        let target = case.open(red_packet(total, 1, rule)).await;
        assert_eq!(case.granted(target.one("a")).await.amount_minor, total);
        assert_eq!(case.outcome(target.one("b")).await, "sold_out");
    }
}

/// A fully claimed packet is listed until it is closed: it closes once, with nothing to refund.
pub async fn a_claimed_packet_is_found_until_it_is_closed(case: &mut Scenario) {
    let sold = case.open(sale(1)).await;
    case.granted(sold.one("a")).await;
    for rule in [SplitRule::Equal, SplitRule::Lazy { min: 1 }] {
        let packet = case.open(red_packet(100, 3, rule)).await;
        for name in ["a", "b", "c"] {
            case.settle().await;
            assert_eq!(case.ledger().claimed_packets(None, 9).await, Ok(Vec::new()));
            case.granted(packet.one(name)).await;
        }
        case.settle().await;
        let found = Ok(vec![packet.id]);
        assert_eq!(case.ledger().claimed_packets(None, 9).await, found);
        assert_eq!(case.ledger().claimed_packets(None, 0).await, Ok(Vec::new()));
        for _ in 0..2 {
            let tally = case.act(packet.id, CampaignAction::Close).await;
            let left = (tally.returned, tally.remaining, tally.refunded_minor);
            assert_eq!((tally.phase, left), (Phase::Closed, (0, 0, 0)));
        }
        case.settle().await;
        assert_eq!(case.ledger().claimed_packets(None, 9).await, Ok(Vec::new()));
        let record = case.ledger().campaign(packet.id).await.unwrap().unwrap();
        assert_eq!((record.phase, record.granted), (Phase::Closed, 3));
        assert_eq!(case.claim(packet.one("d")).await, Outcome::Ended);
        let again = case.claim(packet.one("a")).await;
        assert!(matches!(again, Outcome::AlreadyGranted(_)), "{again:?}");
    }
    // Page by page, in the order of creation.
    let mut all = Vec::new();
    for _ in 0..3 {
        let packet = case.open(red_packet(100, 1, SplitRule::Equal)).await;
        case.granted(packet.one("a")).await;
        all.push(packet.id);
    }
    case.settle().await;
    let mut after = None;
    for packet in all {
        let page = case.ledger().claimed_packets(after, 1).await;
        assert_eq!(page, Ok(vec![packet]));
        after = Some(packet);
    }
    assert_eq!(
        case.ledger().claimed_packets(after, 9).await,
        Ok(Vec::new())
    );
}
