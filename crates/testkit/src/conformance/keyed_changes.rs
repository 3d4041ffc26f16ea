//! Changes under idempotency keys: log and ledger say which were carried out.

use futures_util::future::join_all;
use qiang_core::{
    book::{CampaignAction, Command, SaleCorrection},
    campaign::{Details, DetailsChange, SaleSettingsChange},
    event::Event,
    id::IdempotencyKey,
    ports::{ActionKind, KeyState, KeyUse, first_id_at},
};
use uuid::Uuid;

use super::{Scenario, actions::action};
use crate::campaign::{OPENS, id, sale};

impl Scenario {
    /// Names of the entries about the sale in the log that has the change, up to the change; `None` if no log has it.
    async fn entries_up_to_change(&self, id: Uuid) -> Option<Vec<&'static str>> {
        let mut found = None;
        for log in self.logs().await {
            let is_it = |event: &Event| matches!(event, Event::ChangeMade { id: it } if *it == id);
            let mut places = log
                .iter()
                .enumerate()
                .filter(|(_, entry)| is_it(&entry.event));
            if let Some((place, made)) = places.next() {
                assert!(
                    places.next().is_none() && found.is_none(),
                    "{id} is logged twice"
                );
                let before = log[..=place]
                    .iter()
                    .filter(|it| it.campaign == made.campaign);
                found = Some(before.map(|entry| entry.event.name()).collect());
            }
        }
        found
    }

    async fn is_made(&self, id: Uuid) -> bool {
        self.ledger().is_change_made(id).await.unwrap()
    }
}

/// The step that carries out a change logs its id after it, also if nothing changes. A refused change logs none. The
/// ledger has the ids with the changes.
pub async fn a_change_is_logged_with_the_id_of_its_key(case: &mut Scenario) {
    let campaign = case.open(sale(100)).await.id;
    case.at(OPENS).await;
    let act = |action| Command::Act { campaign, action };
    let terms = |price| Command::SetTerms {
        campaign,
        change: SaleSettingsChange {
            unit_price_minor: Some(price),
            ..SaleSettingsChange::default()
        },
    };
    let stock = |stock| Command::SetStock { campaign, stock };
    let correct = |expected, stock| Command::Correct {
        campaign,
        correction: Box::new(SaleCorrection::Stock { expected, stock }),
    };
    let changes = [
        (act(CampaignAction::Pause), Some("paused")),
        (act(CampaignAction::Pause), None),
        (act(CampaignAction::Resume), Some("resumed")),
        (stock(90), Some("stock_changed")),
        (stock(90), None),
        (terms(7), Some("terms_changed")),
        (terms(7), None),
        (correct(90, 80), Some("stock_changed")),
    ];
    let mut made = Vec::new();
    for (n, (command, name)) in (1..).zip(changes) {
        let id = Uuid::from_u128(n);
        let before = made.last().copied();
        assert!(case.submit(command.keyed(id)).await.is_ok());
        let entries = case.entries_up_to_change(id).await.unwrap();
        let others = match before {
            Some(before) => case.entries_up_to_change(before).await.unwrap().len(),
            None => 1,
        };
        let last = name.into_iter().chain(["change_made"]);
        assert_eq!(entries[others..], last.collect::<Vec<_>>(), "{n}");
        made.push(id);
    }
    let refused = Uuid::from_u128(100);
    for command in [stock(0), correct(90, 70)] {
        assert!(case.submit(command.keyed(refused)).await.is_err());
        assert_eq!(case.entries_up_to_change(refused).await, None);
    }
    case.settle().await;
    for restarts in 0..2 {
        for id in &made {
            assert!(case.is_made(*id).await, "{id} after {restarts}");
        }
        assert!(!case.is_made(refused).await);
        case.restart().await;
    }
}

/// A description records its id in its own transaction. The records are purged after their keys.
pub async fn a_description_is_recorded_with_the_id_of_its_key(case: &mut Scenario) {
    let campaign = case.open(sale(10)).await.id;
    let later = OPENS.plus_millis(1_000);
    let (old, new) = (first_id_at(OPENS), first_id_at(later));
    for id in [old, new] {
        let change = DetailsChange {
            product_id: Some(None),
            ..DetailsChange::default()
        };
        assert!(!case.is_made(id).await);
        let described = case.ledger().describe(campaign, &change, None, Some(id));
        described.await.unwrap();
    }
    case.restart().await;
    assert!(case.is_made(old).await && case.is_made(new).await);
    assert_eq!(case.ledger().purge_keys(OPENS, 10).await, Ok(0));
    assert!(case.is_made(old).await);
    assert_eq!(case.ledger().purge_keys(later, 10).await, Ok(0));
    assert!(!case.is_made(old).await && case.is_made(new).await);
}

/// One of several changes that expect the same details is made. The others change nothing and record no action.
pub async fn a_description_is_changed_once_if_it_is_as_expected(case: &mut Scenario) {
    let campaign = case.open(sale(10)).await.id;
    let subject = campaign.to_string();
    let ledger = case.ledger();
    let first = ledger.campaign(campaign).await.unwrap().unwrap();
    let (title, mut details) = (first.campaign.title, first.details);
    for round in 0..3_u32 {
        let changes = (0..8_u32).map(|n| {
            let (expected, subject) = ((title.as_str(), &details), &subject);
            async move {
                let by = action(u128::from(round * 8 + n + 1), ActionKind::Change, subject);
                // One change is of the description, the next one of the product.
                let mut change = DetailsChange::default();
                match n % 2 {
                    0 => change.description = Some(format!("text {round}-{n}").parse().ok()),
                    _ => change.product_id = Some(format!("p-{round}-{n}").parse().ok()),
                }
                let by = (Some(&by), None);
                let made = ledger.describe_if(campaign, expected, &change, by);
                made.await.unwrap()
            }
        });
        let made = join_all(changes).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        let after = ledger.campaign(campaign).await.unwrap().unwrap();
        assert_ne!(after.details, details);
        details = after.details;
        let recorded = ledger.actions(&subject, None, 100).await.unwrap();
        assert_eq!(recorded.len() as u32, round + 1);
    }
    let change = DetailsChange::default();
    let with_pictures = Details {
        gallery: "https://shop.example/side.jpg".parse().ok(),
        ..details.clone()
    };
    let with_list_price = Details {
        list_price_minor: Some(900),
        ..details.clone()
    };
    for (unlike, expected) in [
        (campaign, (title.as_str(), &with_pictures)),
        (campaign, (title.as_str(), &with_list_price)),
        (campaign, ("another title", &details)),
        (id(9_999), (title.as_str(), &details)),
    ] {
        let made = ledger.describe_if(unlike, expected, &change, (None, None));
        assert_eq!(made.await, Ok(false));
    }
}

/// One of several retries of a key gets it. A key with an answer stays bound.
pub async fn a_key_is_bound_anew_by_one_retry(case: &mut Scenario) {
    let key = IdempotencyKey::new("k").unwrap();
    let used = KeyUse::new("a PATCH /x", key, [1; 32]);
    let id = Uuid::from_u128;
    assert_eq!(
        case.ledger().begin_key(&used, id(1)).await,
        Ok(KeyState::Fresh)
    );
    let (first, second) = (
        case.ledger().rebind_key(&used, id(1), id(2)),
        case.ledger().rebind_key(&used, id(1), id(3)),
    );
    let (first, second) = futures_util::future::join(first, second).await;
    assert_eq!(u8::from(first.unwrap()) + u8::from(second.unwrap()), 1);
    case.restart().await;
    let bound = case.ledger().bound_key(&used).await.unwrap().unwrap();
    assert!(bound == id(2) || bound == id(3));
    case.ledger()
        .answer_key(&used, bound, "done")
        .await
        .unwrap();
    let answered = case.ledger().rebind_key(&used, bound, id(4));
    assert_eq!(answered.await, Ok(false));
    assert_eq!(case.ledger().bound_key(&used).await, Ok(Some(bound)));
}
