//! Restatements of campaigns' rows.

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::{Phase, SaleSettingsChange},
    event::Seq,
    id::UserId,
    ports::{Action, ActionKind, CampaignRecord, Restatement},
    reconcile::CampaignFacts,
};
use uuid::Uuid;

use super::Fixture;
use crate::campaign::{OPENS, Target, sale};

async fn record(case: &Fixture, sale: Target) -> CampaignRecord {
    let found = case.ledger().campaign(sale.id).await;
    found.unwrap().unwrap()
}

fn restatement(
    case: &Fixture,
    sale: Target,
    settled: (Seq, Seq),
    (seen, becomes): (CampaignFacts, CampaignFacts),
) -> Restatement {
    let at = OPENS.plus_millis(5_000);
    Restatement {
        campaign: sale.id,
        partition: case.partition(0),
        settled,
        seen,
        becomes,
        action: Action {
            id: Uuid::from_u128(0x0001_7000_8000_0000_0000_0000 | u128::from(settled.1)),
            at,
            actor: UserId::new("ann").unwrap(),
            kind: ActionKind::Change,
            subject: sale.id.to_string(),
            request_id: String::new(),
            detail: "{}".to_owned(),
        },
    }
}

/// A row is restated if it is unchanged since it was read and the position of its partition is in the expected range.
/// The action is recorded with the restatement, and only then.
pub async fn a_row_is_restated_if_it_is_as_it_was_seen(case: &mut Fixture) {
    let sale = case.open(&sale(10).limit(2)).await;
    for part in 0..3 {
        case.settle_all(part).await;
    }
    let before = record(case, sale).await;
    let seen = before.facts();
    let becomes = CampaignFacts {
        phase: Phase::Paused,
        supply: Some(12),
        unit_price_minor: Some(77),
        hold_ms: 1_234,
        admission: Some(None.into()),
        ..seen
    };
    let other = CampaignFacts {
        supply: Some(11),
        ..seen
    };
    let position = case.settled(0).await;
    let late = (position + 1, position + 9);
    for (settled, seen) in [((0, position), other), (late, seen)] {
        let refused = restatement(case, sale, settled, (seen, becomes));
        assert_eq!(case.ledger().restate(&refused).await, Ok(false));
    }
    assert_eq!(record(case, sale).await, before);
    let subject = sale.id.to_string();
    let listed = async |case: &Fixture| case.ledger().actions(&subject, None, 10).await.unwrap();
    assert_eq!(listed(case).await, []);

    let asked = restatement(case, sale, (position, position + 3), (seen, becomes));
    assert_eq!(case.ledger().restate(&asked).await, Ok(true));
    let after = record(case, sale).await;
    assert_eq!(after.facts(), becomes);
    assert_eq!(after.updated_at, asked.action.at);
    assert_eq!(listed(case).await, std::slice::from_ref(&asked.action));
    // The row has changed since it was read.
    assert_eq!(case.ledger().restate(&asked).await, Ok(false));
    let back = restatement(case, sale, (position, position + 4), (becomes, seen));
    assert_eq!(case.ledger().restate(&back).await, Ok(true));
    assert_eq!(record(case, sale).await.facts(), seen);
    assert_eq!(listed(case).await.len(), 2);

    // Entries settled later apply to the restated row.
    case.act(sale.id, CampaignAction::Pause);
    let stock = 15;
    let campaign = sale.id;
    case.play(Command::SetStock { campaign, stock });
    for part in 0..3 {
        case.settle_all(part).await;
    }
    let after = record(case, sale).await;
    assert_eq!((after.phase, after.campaign.supply()), (Phase::Paused, 15));
    case.compare().await;
}

/// Changed terms are restated in the sale's row and in the list of its terms, so that the next change is settled after
/// them.
pub async fn restated_terms_are_those_of_the_same_revision(case: &mut Fixture) {
    let sale = case.open(&sale(10).limit(2)).await;
    let campaign = sale.id;
    let change = |price| SaleSettingsChange {
        unit_price_minor: Some(price),
        ..SaleSettingsChange::default()
    };
    case.play(Command::SetTerms {
        campaign,
        change: change(300),
    });
    for part in 0..3 {
        case.settle_all(part).await;
    }
    let seen = record(case, sale).await.facts();
    assert!(seen.terms_revision > 0);
    let becomes = CampaignFacts {
        unit_price_minor: Some(1),
        per_user_limit: 1,
        ..seen
    };
    let position = case.settled(0).await;
    let there = restatement(case, sale, (position, position), (seen, becomes));
    assert_eq!(case.ledger().restate(&there).await, Ok(true));
    assert_eq!(record(case, sale).await.facts(), becomes);
    let back = restatement(case, sale, (position, position + 1), (becomes, seen));
    assert_eq!(case.ledger().restate(&back).await, Ok(true));
    case.play(Command::SetTerms {
        campaign,
        change: change(400),
    });
    for part in 0..3 {
        case.settle_all(part).await;
    }
    case.compare().await;
}
