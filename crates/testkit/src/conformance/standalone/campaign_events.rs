//! Webhook events about a campaign itself.

use qiang_core::{book::CampaignAction, webhook::EventType};

use super::{
    Fixture,
    fixture::PARTS,
    webhooks::{add_endpoint, events},
};
use crate::campaign::sale;

const ALL: usize = PARTS as usize;

/// A spread campaign gives one event for its opening, each change of its phase, its last unit, and its close.
pub async fn campaign_events_are_recorded_once(case: &mut Fixture) {
    add_endpoint(case, 1).await;
    let sale = case.open(&sale(30).limit(10)).await;
    let told = async |case: &Fixture| {
        let events = events(case).await.into_iter();
        let events = events.filter(|event| event.subject().is_some_and(|it| it.number.is_none()));
        let events = events.map(|event| (event.kind, event.data.unwrap().payment));
        events.collect::<Vec<_>>()
    };
    let mut expected: Vec<(EventType, Option<String>)> = Vec::new();
    let changed = |word: &str| (EventType::CampaignChanged, Some(word.to_owned()));
    // The last part reports it, or the first one that pauses.
    let steps = [
        (None, (EventType::CampaignOpened, None), 2),
        (Some(CampaignAction::Pause), changed("paused"), 0),
        (Some(CampaignAction::Resume), changed("resumed"), 2),
    ];
    for (action, event, reporter) in steps {
        if let Some(action) = action {
            case.act(sale.id, action);
        }
        for (nth, part) in [2, 0, 1].into_iter().enumerate() {
            case.settle_all(part).await;
            if nth == reporter {
                expected.push(event.clone());
            }
            assert_eq!(told(case).await, expected, "{action:?} of {nth} parts");
        }
    }
    for part in 0..ALL {
        case.granted(sale.units(&case.somebody(part, 0), 10));
    }
    for part in [1, 2, 0] {
        assert_eq!(told(case).await, expected);
        case.settle_all(part).await;
    }
    expected.push((EventType::CampaignSoldOut, None));
    assert_eq!(told(case).await, expected);
    case.act(sale.id, CampaignAction::Close);
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    expected.push((EventType::CampaignClosed, None));
    assert_eq!(told(case).await, expected);
}
