//! Corrections of sales by reconciliation, as compare-and-set.

use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply, SaleCorrection},
    campaign::{CampaignError, SaleSettings, SaleSettingsChange, Tally},
    id::CampaignId,
    ports::EngineError,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{red_packet, sale};

fn price(minor: i64) -> SaleSettingsChange {
    SaleSettingsChange {
        unit_price_minor: Some(minor),
        ..SaleSettingsChange::default()
    }
}

fn stock(expected: u64, stock: u64) -> SaleCorrection {
    SaleCorrection::Stock { expected, stock }
}

/// Corrects a sale as reconciliation does, and returns the tally or the refusal.
async fn correct(
    case: &mut Scenario,
    campaign: CampaignId,
    correction: SaleCorrection,
) -> Result<Tally, Refusal> {
    let correction = Box::new(correction);
    let command = Command::Correct {
        campaign,
        correction,
    };
    match case.submit(command).await {
        Ok(Reply::Acted(tally)) => Ok(tally),
        Err(EngineError::Refused(refusal)) => Err(refusal),
        other => panic!("a correction got the reply {other:?}"),
    }
}

/// A correction sets stock and terms under the same rules as any other change. The result survives a restart.
pub async fn a_correction_is_made_if_the_sale_is_as_compared(case: &mut Scenario) {
    let target = case.open(sale(10).limit(2).price(500)).await;
    case.granted(target.one("a")).await;
    let id = target.id;
    let before = case.tally(id).await.terms.unwrap();
    let corrected = correct(case, id, stock(10, 12)).await.unwrap();
    assert_eq!((corrected.supply, corrected.remaining), (12, 11));
    let terms = |expected, change| SaleCorrection::Terms { expected, change };
    let corrected = correct(case, id, terms(before, price(700))).await.unwrap();
    let after = SaleSettings {
        unit_price_minor: 700,
        ..before
    };
    assert_eq!(corrected.terms, Some(after));
    let none = correct(case, id, stock(12, 0)).await;
    assert_eq!(none, Err(Refusal::Rules(CampaignError::Stock)));
    correct(case, id, terms(after, price(800))).await.unwrap();
    case.restart().await;
    let tally = case.tally(id).await;
    assert_eq!(
        (tally.supply, tally.terms.unwrap().unit_price_minor),
        (12, 800)
    );
    case.settle().await;
    let closed = case.act(id, CampaignAction::Close).await;
    assert_eq!((closed.granted, closed.returned), (1, 11));
    let refused = correct(case, id, stock(12, 13)).await;
    assert!(matches!(refused, Err(Refusal::Phase(_))), "{refused:?}");
    case.settle().await;
}

/// Another operator changes stock or terms between comparison and correction. That change stays, even if it sets the
/// same values as the correction.
pub async fn a_correction_does_not_overwrite_another_change(case: &mut Scenario) {
    let target = case.open(sale(10).limit(2).price(500)).await;
    let id = target.id;
    let before = case.tally(id).await.terms.unwrap();
    let changed = Err(Refusal::Changed);
    case.set_stock(id, 11).await.unwrap();
    assert_eq!(correct(case, id, stock(10, 12)).await, changed);
    assert_eq!(correct(case, id, stock(10, 11)).await, changed);
    assert_eq!(case.tally(id).await.supply, 11);
    case.set_terms(id, price(600)).await.unwrap();
    let changes = [
        price(700),
        price(600),
        SaleSettingsChange {
            per_user_limit: Some(1),
            ..SaleSettingsChange::default()
        },
    ];
    for change in changes {
        let expected = before;
        let terms = SaleCorrection::Terms { expected, change };
        assert_eq!(correct(case, id, terms).await, changed);
    }
    let terms = case.tally(id).await.terms.unwrap();
    assert_eq!((terms.unit_price_minor, terms.per_user_limit), (600, 2));
    // A change of the terms does not prevent a correction of the stock.
    correct(case, id, stock(11, 12)).await.unwrap();
    case.restart().await;
    assert_eq!(correct(case, id, stock(11, 13)).await, changed);
    assert_eq!(case.tally(id).await.supply, 12);
    let packet = case.open(red_packet(100, 5, SplitRule::Equal)).await;
    let refused = correct(case, packet.id, stock(5, 6)).await;
    assert_eq!(refused, Err(Refusal::UnknownCampaign));
    case.settle().await;
}
