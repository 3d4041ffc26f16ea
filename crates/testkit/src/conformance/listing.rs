//! Campaigns as users see them: details, lists, the archive.

use qiang_core::{
    book::{CampaignAction, Setup},
    campaign::{Campaign, CampaignKind, Cover, Details, DetailsChange, Phase, SaleSettingsChange},
    event::Event,
    id::CampaignId,
    outcome::Grant,
    ports::{CampaignQuery, CampaignRecord, GrantTimes, TimeRange},
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{Builder, OPEN_MS, OPENS, Target, id, red_packet, sale, user};

/// Query of all sales that are not archived, by opening time.
const SALES: CampaignQuery = CampaignQuery {
    kind: CampaignKind::Sale,
    owner: None,
    product_id: None,
    newest_first: false,
    phase: None,
    now: OPENS,
    created: TimeRange {
        from: None,
        before: None,
    },
    archived: false,
    after: None,
    until: None,
    limit: 100,
};

fn of_product(product: &str) -> Details {
    Details {
        product_id: Some(product.parse().unwrap()),
        ..Details::default()
    }
}

async fn enter(case: &mut Scenario, builder: Builder, details: &Details) -> CampaignId {
    let setup = builder.setup(case.next_id());
    case.ledger()
        .create_with(&setup, details, None)
        .await
        .unwrap();
    case.entered(&setup);
    case.open_entered(&setup).await;
    setup.campaign.id
}

async fn record(case: &Scenario, id: CampaignId) -> CampaignRecord {
    case.ledger().campaign(id).await.unwrap().unwrap()
}

async fn list(case: &Scenario, query: &CampaignQuery) -> Vec<CampaignId> {
    let records = case.ledger().list(query).await.unwrap();
    let ids = records.iter().map(|record| record.campaign.id);
    ids.collect()
}

/// The ledger dates the last change of phase, stock, terms and details of a campaign. Grants do not change the date.
pub async fn last_change_is_dated(case: &mut Scenario) {
    let target = case.open(sale(20)).await;
    case.settle().await;
    let before = record(case, target.id).await;
    assert!(before.updated_at >= before.campaign.created_at);
    let mut last = before.updated_at;
    for step in 1..=4 {
        let now = OPENS.plus_millis(step * 1_000);
        case.at(now).await;
        let claim = target.one(&format!("u{step}"));
        case.claim_all(vec![claim]).await;
        case.settle().await;
        assert_eq!(record(case, target.id).await.updated_at, last, "a grant");
        match step {
            1 => drop(case.set_stock(target.id, 30).await.unwrap()),
            2 => {
                let change = SaleSettingsChange {
                    unit_price_minor: Some(9),
                    ..SaleSettingsChange::default()
                };
                case.set_terms(target.id, change).await.unwrap();
            }
            3 => drop(case.act(target.id, CampaignAction::Pause).await),
            _ => drop(case.act(target.id, CampaignAction::Close).await),
        }
        case.settle().await;
        let decided = case.logs().await.concat().into_iter();
        let decided = decided.filter(|entry| {
            let is_other = matches!(
                entry.event,
                Event::Granted { .. }
                    | Event::TransferredOut { .. }
                    | Event::TransferredIn { .. }
                    | Event::TransferReturned { .. }
            );
            entry.campaign == target.id && !is_other
        });
        let decided = decided.map(|entry| entry.at).max().unwrap();
        let updated_at = record(case, target.id).await.updated_at;
        assert_eq!(updated_at, decided, "step {step}");
        assert!(updated_at > last, "step {step}");
        last = updated_at;
        if step == 3 {
            let action = CampaignAction::Resume;
            case.act(target.id, action).await;
            case.settle().await;
            last = record(case, target.id).await.updated_at;
        }
    }
    let change = DetailsChange {
        description: Some(Some("New".parse().unwrap())),
        ..DetailsChange::default()
    };
    let now = OPENS.plus_millis(5_000);
    case.at(now).await;
    case.ledger()
        .describe(target.id, &change, None, None)
        .await
        .unwrap();
    let described = record(case, target.id).await.updated_at;
    assert_eq!(described, now, "details");
    // The list shows the same date.
    let listed = case.ledger().list(&SALES).await.unwrap();
    let listed = listed.iter().find(|it| it.campaign.id == target.id);
    assert_eq!(listed.map(|it| it.updated_at), Some(described));
    let archived = OPENS.plus_millis(6_000);
    for millis in [6_000, 7_000] {
        // It is archived once.
        case.at(OPENS.plus_millis(millis)).await;
        assert_eq!(case.ledger().archive(target.id, None).await, Ok(true));
        assert_eq!(record(case, target.id).await.updated_at, archived);
    }
}

/// The largest details are entered with the campaign, once, and can be changed field by field. The campaign stays the
/// same.
pub async fn details_are_entered_and_changed(case: &mut Scenario) {
    let whole = Details {
        product_id: Some("p".repeat(128).parse().unwrap()),
        description: Some("字\n".repeat(2_048).parse().unwrap()),
        image_url: Some(("/".to_owned() + &"a".repeat(2_047)).parse().unwrap()),
        gallery: Some(
            ["/b.png", "https://cdn.example/c.png"]
                .join("\n")
                .parse()
                .unwrap(),
        ),
        list_price_minor: Some(9_007_199_254_740_991),
        cover: Some(Cover::Wedding),
    };
    let id_of = enter(case, sale(5), &whole).await;
    let entered = record(case, id_of).await;
    assert_eq!(entered.details, whole);
    // Entered again: the ledger has it already.
    let again = Setup {
        campaign: entered.campaign.clone(),
        shares: Vec::new(),
    };
    case.ledger().create(&again).await.unwrap();
    assert_eq!(record(case, id_of).await.details, whole);

    let target = Target {
        id: id_of,
        kind: CampaignKind::Sale,
    };
    case.granted(target.one("a")).await;
    case.settle().await;
    let change = DetailsChange {
        title: Some("题".repeat(1_024)),
        description: Some(None),
        ..DetailsChange::default()
    };
    for _ in 0..2 {
        case.ledger()
            .describe(id_of, &change, None, None)
            .await
            .unwrap();
        let changed = record(case, id_of).await;
        assert_eq!(Some(&changed.campaign.title), change.title.as_ref());
        let details = Details {
            description: None,
            ..whole.clone()
        };
        assert_eq!((changed.granted, changed.details), (1, details));
        let title = entered.campaign.title.clone();
        let campaign = Campaign {
            title,
            ..changed.campaign
        };
        assert_eq!(campaign, entered.campaign);
    }
    let back = DetailsChange {
        title: Some(entered.campaign.title.clone()),
        product_id: Some(Some("it's+%_\\".parse().unwrap())),
        image_url: Some(None),
        gallery: Some(None),
        list_price_minor: Some(None),
        ..DetailsChange::default()
    };
    case.ledger()
        .describe(id_of, &back, None, None)
        .await
        .unwrap();
    case.ledger()
        .describe(id(9_999), &back, None, None)
        .await
        .unwrap();
    case.restart().await;
    let details = Details {
        cover: whole.cover,
        ..of_product("it's+%_\\")
    };
    assert_eq!(record(case, id_of).await.details, details);
    case.granted(target.one("b")).await;
}

/// Times of grants are read by their numbers. Only a payment that pays an order is its payment.
pub async fn times_of_grants_are_read_by_number(case: &mut Scenario) {
    let sold = case.open(sale(9)).await;
    let shared = case.open(red_packet(100, 5, SplitRule::Equal)).await;
    // A spread campaign leaves out numbers.
    let (mut orders, mut shares) = (Vec::new(), Vec::new());
    for (n, user) in ["a", "b", "c"].into_iter().enumerate() {
        case.at(OPENS.plus_millis(1_000 * n as i64)).await;
        orders.push(case.granted(sold.one(user)).await);
        shares.push(case.granted(shared.one(user)).await);
    }
    let paid = OPENS.plus_millis(5_000);
    case.at(paid).await;
    let order = case.nth(sold, 2);
    case.pay(order, "p").await;
    case.at(OPENS.plus_millis(7_000)).await;
    case.pay(order, "q").await;
    case.settle().await;
    let times = |grant: &Grant, paid_at| GrantTimes {
        number: grant.number,
        granted_at: grant.granted_at,
        paid_at,
    };
    let read = async |id, numbers: &[u32]| {
        let times = case.ledger().grant_times(id, numbers.to_vec()).await;
        times.unwrap()
    };
    let mut expected = [
        times(&orders[0], None),
        times(&orders[1], Some(paid)),
        times(&orders[2], None),
    ];
    expected.sort_by_key(|times| times.number);
    let all: Vec<_> = (1..=20).chain([9_999]).collect();
    assert_eq!(read(sold.id, &all).await, expected);
    let second = times(&orders[1], Some(paid));
    assert_eq!(read(sold.id, &[second.number]).await, [second]);
    assert!(read(sold.id, &[]).await.is_empty());
    // Two shares have no user.
    let mut expected = [&shares[0], &shares[2]].map(|share| times(share, None));
    expected.sort_by_key(|times| times.number);
    let without = |number: &u32| *number != shares[1].number;
    let others: Vec<_> = (1..=20).filter(without).collect();
    assert_eq!(read(shared.id, &others).await, expected);
    assert!(read(id(9_999), &[1]).await.is_empty());
}

/// Lists contain one kind, of one owner or all, in pages, by ascending or descending id. Rounds of a product are by
/// start.
pub async fn lists_come_in_pages_and_in_order(case: &mut Scenario) {
    let starting = |seconds: i64| sale(5).window(OPENS.plus_millis(1_000 * seconds), OPEN_MS);
    let mut ann = Vec::new();
    for (seconds, product) in [(5, "p"), (4, "p"), (3, "p"), (2, "P"), (1, "x")] {
        let builder = starting(seconds).owner("ann");
        ann.push(enter(case, builder, &of_product(product)).await);
    }
    let details = of_product("p");
    let bob = enter(case, starting(3).owner("bob"), &details).await;
    let packet = red_packet(100, 5, SplitRule::Equal).owner("ann");
    let packet = case.open(packet).await.id;
    case.settle().await;

    let all = [&ann[..], &[bob]].concat();
    let own = CampaignQuery {
        owner: Some(user("ann")),
        ..SALES
    };
    assert_eq!(list(case, &SALES).await, all);
    assert_eq!(list(case, &own).await, ann);
    let packets = CampaignQuery {
        kind: CampaignKind::RedPacket,
        ..own.clone()
    };
    assert_eq!(list(case, &packets).await, [packet]);
    let rounds = CampaignQuery {
        product_id: Some("p".parse().unwrap()),
        ..SALES
    };
    // If two start at once, the older one is first.
    let by_start = [ann[2], bob, ann[1], ann[0]];
    let own_rounds = CampaignQuery {
        owner: Some(user("ann")),
        ..rounds.clone()
    };
    let of_own = [ann[2], ann[1], ann[0]];
    let newest = |query: &CampaignQuery| CampaignQuery {
        newest_first: true,
        ..query.clone()
    };
    let back = |ids: &[CampaignId]| ids.iter().rev().copied().collect::<Vec<_>>();
    assert_eq!(list(case, &newest(&packets)).await, [packet]);
    let whole: [(&CampaignQuery, &[CampaignId]); 6] = [
        (&SALES, &all),
        (&own, &ann),
        (&newest(&SALES), &back(&all)),
        (&newest(&own), &back(&ann)),
        (&rounds, &by_start),
        (&own_rounds, &of_own),
    ];
    for (query, expected) in whole {
        for limit in 1..=4_u32 {
            let mut query = CampaignQuery {
                limit,
                ..query.clone()
            };
            let mut found = Vec::new();
            loop {
                let page = list(case, &query).await;
                assert!(page.len() <= limit as usize);
                query.after = page.last().copied();
                if query.after.is_none() {
                    break;
                }
                found.extend(page);
            }
            assert_eq!(found, expected, "{query:?}");
        }
    }
    for (product, count) in [("P", 1), ("%", 0), ("_", 0)] {
        let query = CampaignQuery {
            product_id: Some(product.parse().unwrap()),
            ..SALES
        };
        assert_eq!(list(case, &query).await.len(), count, "{product}");
    }

    let in_phase = async |case: &Scenario, phase: Phase, millis: i64| {
        let query = CampaignQuery {
            phase: Some(phase),
            now: OPENS.plus_millis(millis),
            ..SALES
        };
        list(case, &query).await
    };
    assert_eq!(in_phase(case, Phase::Scheduled, 0).await, all);
    assert_eq!(in_phase(case, Phase::Scheduled, 3_999).await, ann[..2]);
    assert_eq!(in_phase(case, Phase::Live, 2_000).await, ann[3..]);
    assert_eq!(
        in_phase(case, Phase::Ended, OPEN_MS + 2_999).await,
        ann[3..]
    );
    case.at(OPENS.plus_millis(1_500)).await;
    case.act(ann[4], CampaignAction::Pause).await;
    case.settle().await;
    assert_eq!(in_phase(case, Phase::Paused, 1_500).await, ann[4..]);
    assert_eq!(in_phase(case, Phase::Live, 2_000).await, ann[3..4]);
    assert_eq!(
        in_phase(case, Phase::Ended, OPEN_MS + 1_000).await,
        ann[4..]
    );
    case.enter(sale(1)).await;
    assert_eq!(in_phase(case, Phase::Draft, 0).await.len(), 1);
    assert_eq!(in_phase(case, Phase::Closed, 0).await, []);
}

/// A closed campaign can be archived, once. Lists then show it only on request. Nothing else changes.
pub async fn what_is_closed_is_archived(case: &mut Scenario) {
    let (gone, stays) = (case.open(sale(5)).await, case.open(sale(5)).await);
    case.granted(gone.one("a")).await;
    case.settle().await;
    assert_eq!(case.ledger().archive(gone.id, None).await, Ok(false));
    assert_eq!(case.ledger().archive(id(9_999), None).await, Ok(false));
    case.act(gone.id, CampaignAction::Close).await;
    case.settle().await;
    let before = record(case, gone.id).await;
    assert_eq!(before.archived_at, None);
    assert_eq!(list(case, &SALES).await, [gone.id, stays.id]);
    let mut since = None;
    for seconds in [5, 6] {
        case.at(OPENS.plus_millis(1_000 * seconds)).await;
        assert_eq!(case.ledger().archive(gone.id, None).await, Ok(true));
        let archived = record(case, gone.id).await;
        since = since.or(archived.archived_at);
        let expected = CampaignRecord {
            archived_at: since,
            updated_at: before.updated_at.max(since.unwrap_or_default()),
            ..before.clone()
        };
        assert_eq!(archived, expected);
    }
    assert!(since.is_some());
    assert_eq!(list(case, &SALES).await, [stays.id]);
    let archived = CampaignQuery {
        archived: true,
        ..SALES
    };
    assert_eq!(list(case, &archived).await, [gone.id, stays.id]);
    let closed = CampaignQuery {
        phase: Some(Phase::Closed),
        ..archived
    };
    assert_eq!(list(case, &closed).await, [gone.id]);
    case.replayed(gone.one("a")).await;
}

/// Lists of campaigns begin and end with a range of creation times, and end before an id.
pub async fn campaigns_are_listed_by_their_creation(case: &mut Scenario) {
    let mut made = Vec::new();
    for (n, name) in ["ann", "bob", "ann", "ann", "bob", "ann"]
        .into_iter()
        .enumerate()
    {
        let mut setup = sale(9).owner(name).setup(case.next_id());
        setup.campaign.created_at = OPENS.plus_millis(n as i64 / 2);
        let details = of_product("p");
        let ledger = case.ledger();
        ledger.create_with(&setup, &details, None).await.unwrap();
        case.entered(&setup);
        made.push((setup.campaign.id, name, setup.campaign.created_at));
    }
    let bounds = [None, Some(0), Some(1), Some(2)];
    let bounds = bounds.map(|millis| millis.map(|millis| OPENS.plus_millis(millis)));
    let mut seen = 0;
    for (from, before) in bounds.iter().flat_map(|from| bounds.map(|it| (*from, it))) {
        let created = TimeRange { from, before };
        for owner in [None, Some("ann")] {
            for (newest_first, product, until) in [
                (false, None, None),
                (true, None, None),
                (false, None, Some(4)),
                (true, None, Some(1)),
                (false, Some("p"), Some(1)),
            ] {
                let until: Option<CampaignId> = until.map(|n: usize| made[n].0);
                let query = CampaignQuery {
                    owner: owner.map(user),
                    product_id: product.map(|product| product.parse().unwrap()),
                    newest_first,
                    created,
                    until,
                    ..SALES
                };
                let is_before_end = |id: CampaignId| match until {
                    Some(until) if product.is_none() && newest_first => id > until,
                    Some(until) if product.is_none() => id < until,
                    _ => true,
                };
                let mut expected: Vec<_> = made
                    .iter()
                    .filter(|(id, name, at)| {
                        owner.is_none_or(|owner| owner == *name)
                            && created.contains(*at)
                            && is_before_end(*id)
                    })
                    .map(|it| it.0)
                    .collect();
                if newest_first {
                    expected.reverse();
                }
                seen += expected.len();
                assert_eq!(list(case, &query).await, expected, "{query:?}");
            }
        }
    }
    assert!(seen > 100, "{seen}");
}
