//! Audiences of campaigns as the ledger stores them, and who has a share of a packet.

use std::cmp::Reverse;

use qiang_core::{
    book::Setup,
    campaign::Details,
    ports::{GrantRecord, LedgerError},
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{red_packet, sale, user};

async fn create_for(case: &Scenario, setup: &Setup, audience: &str) -> Result<(), LedgerError> {
    let ledger = case.ledger();
    ledger
        .create_with(setup, &Details::default(), Some(audience))
        .await
}

/// An audience is stored in one transaction with its campaign, and only the first time.
pub async fn an_audience_is_kept_with_its_campaign(case: &mut Scenario) {
    let kept = "{\"draws\":\"sender\",\"users\":[\"甲\",\"\u{1f9e7}\"]}";
    let n = case.next_id();
    let packet = red_packet(1_000, 5, SplitRule::Equal)
        .owner("sender")
        .setup(n);
    let id = packet.campaign.id;
    let refused = create_for(case, &packet, kept).await;
    assert!(matches!(
        refused,
        Err(LedgerError::InsufficientFunds { .. })
    ));
    assert_eq!(case.ledger().audience(id).await, Ok(None));

    case.deposit("sender", 1_000).await;
    let n = case.next_id();
    for setup in [packet, sale(3).setup(n)] {
        let id = setup.campaign.id;
        for rules in [kept, "{}"] {
            assert_eq!(create_for(case, &setup, rules).await, Ok(()));
            assert_eq!(case.ledger().create(&setup).await, Ok(()));
            let found = case.ledger().audience(id).await;
            assert_eq!(found, Ok(Some(kept.to_owned())));
        }
        case.entered(&setup);
        case.open_entered(&setup).await;
    }
    // A campaign that was created for all users stays open to all.
    let open = case.enter(sale(3)).await;
    assert_eq!(create_for(case, &open, kept).await, Ok(()));
    assert_eq!(case.ledger().audience(open.campaign.id).await, Ok(None));
    case.open_entered(&open).await;
}

/// Once a share is settled, the ledger knows its user and the user with the largest share.
pub async fn the_luckiest_has_the_largest_share(case: &mut Scenario) {
    let rules = [
        SplitRule::Lazy { min: 1 },
        SplitRule::DoubleAverage { min: 1 },
        SplitRule::Equal,
    ];
    for rule in rules {
        let target = case.open(red_packet(1_000, 5, rule)).await;
        assert_eq!(case.ledger().luckiest(target.id).await, Ok(None));
        for name in ["a", "b", "c", "d"] {
            case.granted(target.one(name)).await;
        }
        case.settle().await;
        let grants = case.ledger().grants(target.id, 0, 9).await.unwrap();
        let largest = |grant: &&GrantRecord| {
            let earliest = Reverse((grant.granted_at, grant.number));
            (grant.amount_minor, earliest)
        };
        let expected = grants.iter().max_by_key(largest).cloned();
        assert!(expected.is_some());
        assert_eq!(case.ledger().luckiest(target.id).await, Ok(expected));
        // A share of another packet does not count for this one.
        let other = case.open(red_packet(100, 1, rule)).await;
        case.granted(other.one("e")).await;
        case.settle().await;
        assert_eq!(
            case.ledger().has_share(other.id, &user("e")).await,
            Ok(true)
        );
        for (name, has) in [("a", true), ("d", true), ("e", false)] {
            let found = case.ledger().has_share(target.id, &user(name)).await;
            assert_eq!(found, Ok(has), "{name}");
        }
    }
}
