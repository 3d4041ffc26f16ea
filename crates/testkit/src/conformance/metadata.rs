//! Metadata of campaigns, orders and deposits in the ledger.

use futures_util::future::join_all;
use qiang_core::{
    campaign::Details,
    id::{OrderId, ShopReference},
    metadata::{METADATA_NAMES_MAX, Metadata, MetadataChange, MetadataObject, MetadataSubject},
    ports::{ActionKind, Creation, LedgerError, MetadataResult, ReferenceQuery, WholeCreation},
};
use uuid::Uuid;

use super::{Scenario, actions::action};
use crate::campaign::{id, sale, user};

fn change(values: &[(&str, Option<&str>)]) -> MetadataChange {
    let parsed = |(name, value): &(&str, Option<&str>)| {
        let value = value.map(|value| value.parse().expect("a value"));
        (name.parse().expect("a name"), value)
    };
    MetadataChange {
        values: values.iter().map(parsed).collect(),
        ..MetadataChange::default()
    }
}

fn named(reference: &str) -> ShopReference {
    ShopReference::new(reference).expect("well-formed")
}

fn metadata(reference: Option<&str>, values: &[(&str, &str)]) -> Metadata {
    let values: Vec<_> = values.iter().map(|(name, it)| (*name, Some(*it))).collect();
    let change = MetadataChange {
        reference: reference.map(|reference| Some(named(reference))),
        ..change(&values)
    };
    change.apply(Metadata::default()).expect("few names")
}

/// Metadata of a new object is stored once, changed name by name, and found by its reference, also after a restart.
pub async fn metadata_is_kept_and_found_by_its_reference(case: &mut Scenario) {
    let campaign = id(1);
    let order = OrderId {
        campaign,
        number: 7,
    };
    let subjects = [
        MetadataSubject::Campaign(campaign),
        MetadataSubject::Order(order),
        MetadataSubject::Deposit(Uuid::from_u128(9)),
        MetadataSubject::Campaign(id(2)),
    ];
    let [sale, order, deposit, other] = subjects;
    let none = Metadata::default();
    let first = metadata(Some("PO-1"), &[("shop", "上海'\"\\"), ("batch", "3")]);
    let ledger = case.ledger();
    assert_eq!(ledger.metadata(&subjects).await, Ok(vec![none.clone(); 4]));
    for again in [&first, &metadata(Some("PO-2"), &[("late", "retry")])] {
        assert_eq!(
            ledger.add_metadata(sale, &user("shop"), again).await,
            Ok(())
        );
    }
    let invoice = metadata(Some("PO-1"), &[("invoice", "17")]);
    assert_eq!(
        ledger.add_metadata(order, &user("shop"), &invoice).await,
        Ok(())
    );
    let alone = metadata(Some("PO-1"), &[]);
    assert_eq!(
        ledger.add_metadata(other, &user("shop"), &alone).await,
        Ok(())
    );
    let all = Ok(vec![first, invoice, none.clone(), alone]);
    assert_eq!(ledger.metadata(&subjects).await, all);

    let by = action(1, ActionKind::Change, "sale");
    let changed = change(&[("shop", None), ("batch", Some("4")), ("new", Some("x"))]);
    let after = metadata(Some("PO-1"), &[("batch", "4"), ("new", "x")]);
    let made = ledger
        .change_metadata(sale, &user("shop"), (&changed, None), (&by, None))
        .await;
    assert_eq!(made, Ok(MetadataResult::Changed(after.clone())));
    let recorded = ledger.actions("sale", None, 9).await;
    assert_eq!(recorded, Ok(vec![by]));
    let moved = MetadataChange {
        reference: Some(Some(named("PO-9"))),
        ..MetadataChange::default()
    };
    let by = action(2, ActionKind::Change, "deposit");
    let moved = ledger
        .change_metadata(deposit, &user("shop"), (&moved, None), (&by, None))
        .await;
    let found = metadata(Some("PO-9"), &[]);
    assert_eq!(moved, Ok(MetadataResult::Changed(found)));
    let cleared = MetadataChange {
        reference: Some(None),
        ..MetadataChange::default()
    };
    let by = action(3, ActionKind::Change, "deposit");
    let cleared = ledger
        .change_metadata(deposit, &user("shop"), (&cleared, None), (&by, None))
        .await;
    assert_eq!(cleared, Ok(MetadataResult::Changed(none.clone())));
    // A late retry of the creation brings nothing back.
    let late = metadata(Some("PO-9"), &[("late", "retry")]);
    let again = ledger.add_metadata(deposit, &user("shop"), &late).await;
    assert_eq!(again, Ok(()));
    assert_eq!(ledger.metadata(&[deposit]).await, Ok(vec![none]));

    case.restart().await;
    let ledger = case.ledger();
    assert_eq!(ledger.metadata(&[sale]).await, Ok(vec![after]));
    let with = async |object, reference, after: Option<&str>, limit| {
        let mut query = ReferenceQuery {
            object,
            owner: None,
            reference: named(reference),
            after: after.map(str::to_owned),
            limit,
        };
        let all = ledger.with_reference(&query).await;
        query.owner = Some(user("shop"));
        assert_eq!(ledger.with_reference(&query).await, all);
        query.owner = Some(user("other"));
        assert_eq!(ledger.with_reference(&query).await, Ok(Vec::new()));
        all.expect("the ledger answers")
    };
    let ids = [sale.id(), other.id()];
    let campaigns = MetadataObject::Campaign;
    assert_eq!(with(campaigns, "PO-1", None, 9).await, ids);
    assert_eq!(with(campaigns, "PO-1", None, 1).await, ids[..1]);
    assert_eq!(with(campaigns, "PO-1", Some(&ids[0]), 9).await, ids[1..]);
    let orders = with(MetadataObject::Order, "PO-1", None, 9).await;
    assert_eq!(orders, [order.id()]);
    for (object, reference) in [(campaigns, "po-1"), (MetadataObject::Deposit, "PO-9")] {
        let found = with(object, reference, None, 9).await;
        assert!(found.is_empty(), "{reference}: {found:?}");
    }
}

/// Concurrent changes of different names keep each other's values, and the number of names is bounded.
pub async fn names_of_metadata_are_changed_each_for_itself(case: &mut Scenario) {
    let subject = MetadataSubject::Campaign(id(1));
    let ledger = case.ledger();
    let changes = (1..=METADATA_NAMES_MAX).map(|n| async move {
        let by = action(n as u128, ActionKind::Change, "all");
        let name = format!("name-{n}");
        let change = change(&[(&name, Some("x"))]);
        ledger
            .change_metadata(subject, &user("shop"), (&change, None), (&by, None))
            .await
    });
    for changed in join_all(changes).await {
        let is_changed = matches!(changed, Ok(MetadataResult::Changed(_)));
        assert!(is_changed, "{changed:?}");
    }
    let held = ledger
        .metadata(&[subject])
        .await
        .expect("the ledger answers");
    assert_eq!(held[0].values.len(), METADATA_NAMES_MAX);
    // Two changes at once that each fit alone: one of them is refused.
    let twice = MetadataSubject::Campaign(id(2));
    let names = |at: usize| {
        let names: Vec<String> = (0..METADATA_NAMES_MAX)
            .map(|n| format!("n{}", at + n))
            .collect();
        let all: Vec<_> = names.iter().map(|name| (&**name, Some("x"))).collect();
        change(&all)
    };
    let (first, second) = (names(0), names(METADATA_NAMES_MAX));
    let by = [900, 901].map(|n| action(n, ActionKind::Change, "two"));
    let shop = user("shop");
    let both = [(&first, &by[0]), (&second, &by[1])];
    let both =
        both.map(|(change, by)| ledger.change_metadata(twice, &shop, (change, None), (by, None)));
    let made = join_all(both).await.into_iter();
    let made: Vec<bool> = made
        .map(|made| {
            matches!(
                made.expect("the ledger answers"),
                MetadataResult::Changed(_)
            )
        })
        .collect();
    assert!(made == [true, false] || made == [false, true], "{made:?}");
    let by = action(1_000, ActionKind::Change, "all");
    let one_more = change(&[("one-more", Some("x"))]);
    let refused = ledger
        .change_metadata(subject, &user("shop"), (&one_more, None), (&by, None))
        .await;
    assert_eq!(refused, Ok(MetadataResult::TooManyNames));
    let instead = change(&[("one-more", Some("x")), ("name-1", None)]);
    let made = ledger
        .change_metadata(subject, &user("shop"), (&instead, None), (&by, None))
        .await;
    let is_changed = matches!(made, Ok(MetadataResult::Changed(_)));
    assert!(is_changed, "{made:?}");
    let recorded = ledger.actions("all", None, 100).await;
    let recorded = recorded.expect("the ledger answers").len();
    assert_eq!(recorded, METADATA_NAMES_MAX + 1, "a refusal is no action");
}

/// One of several changes that expect the same metadata is made. The others change nothing and record no action.
pub async fn metadata_is_changed_once_if_it_is_as_expected(case: &mut Scenario) {
    let subject = MetadataSubject::Campaign(id(1));
    let (ledger, shop) = (case.ledger(), user("shop"));
    let mut before = Metadata::default();
    for round in 0..3_u32 {
        let changes = (0..8_u32).map(|n| {
            let before = &before;
            let shop = &shop;
            async move {
                let by = action(u128::from(round * 8 + n + 1), ActionKind::Change, "sale");
                let value = format!("{round}-{n}");
                let change = change(&[("by", Some(&value))]);
                let change = (&change, Some(before));
                ledger
                    .change_metadata(subject, shop, change, (&by, None))
                    .await
            }
        });
        let results = join_all(changes).await;
        let made = results.iter().filter_map(|result| match result {
            Ok(MetadataResult::Changed(after)) => Some(after.clone()),
            Ok(MetadataResult::Differs) => None,
            other => panic!("a change got the result {other:?}"),
        });
        let made: Vec<_> = made.collect();
        assert_eq!(made.len(), 1, "{results:?}");
        assert_eq!(ledger.metadata(&[subject]).await, Ok(made.clone()));
        before = made[0].clone();
        let recorded = ledger.actions("sale", None, 100).await;
        assert_eq!(
            recorded.expect("the ledger answers").len() as u32,
            round + 1
        );
    }
}

/// Metadata that has only this unique reference.
fn unique(reference: &str) -> Metadata {
    Metadata {
        is_unique: true,
        ..metadata(Some(reference), &[])
    }
}

fn sale_with(id: u64, owner: &str, metadata: &Metadata) -> Creation {
    Creation {
        used: None,
        setup: sale(5).owner(owner).setup(id),
        details: Details::default(),
        metadata: metadata.clone(),
        audience: None,
        waiting_room: false,
        by: None,
        opens: false,
    }
}

/// If an owner creates many campaigns at once with the same unique reference, one is created. The others are refused
/// whole, with its id. A campaign of another owner may have the reference, and one for which it is not unique.
pub async fn a_unique_reference_names_one_campaign(case: &mut Scenario) {
    let (po, plain) = (unique("PO-1"), metadata(Some("PO-1"), &[("a", "1")]));
    let asked: Vec<_> = (0..8)
        .map(|_| sale_with(case.next_id(), "shop", &po))
        .collect();
    let ledger = case.ledger();
    let all = join_all(asked.iter().cloned().map(|it| ledger.create_under(it))).await;
    let made: Vec<usize> = (0..8).filter(|n| all[*n].is_ok()).collect();
    assert_eq!(made.len(), 1, "{all:?}");
    let first = &asked[made[0]].setup.campaign;
    let by = first.id.to_string();
    let taken = || LedgerError::ReferenceTaken { by: by.clone() };
    for (asked, created) in asked.iter().zip(&all) {
        let id = asked.setup.campaign.id;
        let stored = ledger.campaign(id).await.expect("the ledger answers");
        assert_eq!(stored.is_some(), created.is_ok());
        let refused = created.as_ref().err();
        assert!(refused.is_none_or(|error| *error == taken()), "{refused:?}");
    }
    case.restart().await;
    let others = [
        sale_with(case.next_id(), "other", &po),
        sale_with(case.next_id(), "shop", &plain),
        sale_with(case.next_id(), "shop", &unique("po-1")),
    ];
    let ledger = case.ledger();
    for other in &others {
        let created = ledger.create_under(other.clone()).await;
        assert_eq!(created.map(|it| it.fresh), Ok(true));
    }
    // In a batch the others are created, or none with this one.
    let new = [unique("PO-2"), po.clone(), unique("PO-2")];
    let batch = new.map(|metadata| sale_with(case.next_id(), "shop", &metadata));
    let second = batch[0].setup.campaign.id.to_string();
    let ledger = case.ledger();
    let refused = WholeCreation::Refused(vec![
        (1, taken()),
        (2, LedgerError::ReferenceTaken { by: second.clone() }),
    ]);
    let whole = ledger.create_whole(batch.to_vec()).await;
    assert_eq!(whole, Ok(refused));
    let each = ledger.create_all(batch.to_vec()).await;
    let each = each.expect("the ledger answers");
    assert!(each[0].is_ok());
    assert_eq!(each[1], Err(taken()));
    assert_eq!(each[2], Err(LedgerError::ReferenceTaken { by: second }));
    let subjects = [&asked[made[0]], &others[1], &batch[0]]
        .map(|it| MetadataSubject::Campaign(it.setup.campaign.id));
    let stored = ledger.metadata(&subjects).await;
    assert_eq!(stored, Ok(vec![po, plain, unique("PO-2")]));
    let created = [
        &asked[made[0]],
        &others[0],
        &others[1],
        &others[2],
        &batch[0],
    ];
    for Creation { setup, .. } in created {
        case.entered(setup);
        case.open_entered(setup).await;
    }
}

/// If a seller gives many orders the same unique reference at once, one gets it. The reference is free once that order
/// has another one.
pub async fn a_unique_reference_moves_between_orders(case: &mut Scenario) {
    let order = |number| {
        MetadataSubject::Order(OrderId {
            campaign: id(1),
            number,
        })
    };
    let (ledger, shop) = (case.ledger(), user("shop"));
    let to = |reference: Option<&str>, is_unique| MetadataChange {
        reference: Some(reference.map(named)),
        is_unique,
        ..MetadataChange::default()
    };
    let set = async |number: u32, change: MetadataChange, by: u128| {
        let by = action(by, ActionKind::Change, "order");
        let change = (&change, None);
        ledger
            .change_metadata(order(number), &shop, change, (&by, None))
            .await
    };
    let po = to(Some("PO-1"), Some(true));
    let all = (1..9).map(|n| set(n, po.clone(), u128::from(n)));
    let all = join_all(all).await;
    let made: Vec<u32> = (1..9).filter(|n| all[*n as usize - 1].is_ok()).collect();
    let [first] = made[..] else {
        panic!("{all:?}");
    };
    let by = order(first).id();
    let refused = all.iter().filter_map(|it| it.as_ref().err());
    for refused in refused {
        assert_eq!(*refused, LedgerError::ReferenceTaken { by: by.clone() });
    }
    let recorded = ledger.actions("order", None, 100).await;
    let recorded = recorded.expect("the ledger answers").len();
    assert_eq!(recorded, 1, "a refusal is no action");
    let second = first % 8 + 1;
    let changed = |metadata| Ok(MetadataResult::Changed(metadata));
    // The same change again is no conflict with itself.
    assert_eq!(set(first, po.clone(), 20).await, changed(unique("PO-1")));
    // A reference that is not unique may be the same, but cannot become unique.
    let plain = set(second, to(Some("PO-1"), None), 21).await;
    assert_eq!(plain, changed(metadata(Some("PO-1"), &[])));
    let taken = Err(LedgerError::ReferenceTaken { by });
    assert_eq!(set(second, po.clone(), 22).await, taken);
    let moved = set(first, to(Some("PO-9"), None), 23).await;
    assert_eq!(moved, changed(unique("PO-9")));
    assert_eq!(set(second, po.clone(), 24).await, changed(unique("PO-1")));
    let removed = set(second, to(None, None), 25).await;
    assert_eq!(removed, changed(Metadata::default()));
    assert_eq!(set(first, po, 26).await, changed(unique("PO-1")));
}
