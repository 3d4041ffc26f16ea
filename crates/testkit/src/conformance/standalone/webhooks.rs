//! Webhook events in the ledger, and each endpoint's progress.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    book::CampaignAction,
    event::Event,
    id::{CampaignId, IdempotencyKey, PaymentRef},
    money::Money,
    ports::{Action, ActionKind, KeyUse, Payout},
    split::SplitRule,
    time::Timestamp,
    webhook::{
        DeliveryProgress, EventType, Filter, WEBHOOKS_MAX, Webhook, WebhookChange, WebhookEvent,
        WebhookRecord,
    },
};
use uuid::Uuid;

use super::{Fixture, fixture::PARTS};
use crate::campaign::{HOLD_MS, OPENS, currency, red_packet, sale, user};

const ALL: usize = PARTS as usize;
/// More events than any case records.
const EVENTS_MAX: u32 = 1_000;

fn webhook(n: u64, filter: Filter) -> Webhook {
    Webhook {
        id: Uuid::from_u64_pair(0, n),
        url: format!("https://hooks.example/{n}"),
        secret: "whsec_c2VjcmV0IG9mIGFuIGVuZHBvaW50IGluIGEgdGVzdA==".to_owned(),
        previous_secret: None,
        filter,
        managed_by: None,
        created_at: OPENS,
    }
}

async fn add(case: &Fixture, n: u64, filter: Filter) -> Webhook {
    let webhook = webhook(n, filter);
    for _ in 0..2 {
        assert_eq!(case.ledger().add_webhook(&webhook, None).await, Ok(true));
    }
    webhook
}

pub(super) async fn add_endpoint(case: &Fixture, n: u64) {
    add(case, n, Filter::default()).await;
}

pub(super) async fn events(case: &Fixture) -> Vec<WebhookEvent> {
    case.ledger().webhook_events(0, EVENTS_MAX).await.unwrap()
}

async fn record(case: &Fixture, id: Uuid) -> WebhookRecord {
    let records = case.ledger().webhooks().await.unwrap();
    let mut records = records.into_iter();
    records.find(|record| record.webhook.id == id).unwrap()
}

/// Partition and position of an entry, from the id of its event.
fn entry_of(event: &WebhookEvent) -> (u16, u64) {
    let mut words = event.id.strip_prefix("evt_").unwrap().split('_');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    (number() as u16, number())
}

/// Each settled entry gives one event, in the order of its log, with its details. A close gives its event when the last
/// shard has closed. Repeated settlement adds no events.
pub async fn what_is_settled_is_told_once_and_in_order(case: &mut Fixture) {
    add(case, 1, Filter::default()).await;
    let sale = case.open(&sale(30).limit(3)).await;
    let packet = red_packet(900, 9, SplitRule::Equal).owner("sender");
    let packet = case.open(&packet).await;
    let (mut orders, mut shares) = (Vec::new(), 0);
    for part in 0..ALL {
        for n in 0..4 {
            let claim = sale.units(&case.somebody(part, n), 1);
            orders.push(case.granted(claim).order_id());
        }
        case.granted(packet.one(&case.somebody(part, 0)));
        shares += 1;
    }
    for (n, order) in orders.iter().enumerate() {
        match n % 4 {
            0 => case.pay(*order, &format!("pay{n}")),
            1 => {
                case.pay(*order, &format!("pay{n}"));
                case.pay(*order, &format!("twice{n}"));
            }
            2 => case.cancel(*order),
            _ => {}
        }
    }
    case.later(HOLD_MS + 1);
    case.act(packet.id, CampaignAction::Close);
    case.act(sale.id, CampaignAction::Close);
    for part in [2, 0, 1] {
        let half = case.log(part).len() as u64 / 2;
        case.settle(part, half, 0).await;
    }
    case.restart().await;
    for part in [1, 2] {
        case.settle_all(part).await;
    }
    let is_close = |event: &&WebhookEvent| event.kind == EventType::CampaignClosed;
    let told = events(case).await;
    assert_eq!(told.iter().filter(is_close).count(), 0);
    case.settle_all(0).await;
    let told = events(case).await;
    case.settle(0, case.log(0).len() as u64, 5).await;
    assert_eq!(events(case).await, told);

    // Events are in the order of places, which have no gap. Each occurs once, and those of a partition are in the order
    // of its log.
    assert!((1..).zip(&told).all(|(place, event)| event.place == place));
    let ids: BTreeSet<_> = told.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), told.len());
    let mut last = BTreeMap::new();
    for event in &told {
        let (partition, seq) = entry_of(event);
        assert!(last.insert(partition, seq) < Some(seq), "{event:?}");
    }
    // All events of the logs are there, with their details.
    let of = |kind: EventType| told.iter().filter(move |event| event.kind == kind);
    for (kind, count) in [
        (EventType::OrderHeld, 4 * ALL),
        (EventType::OrderPaid, 2 * ALL),
        (EventType::OrderRefundDue, ALL),
        (EventType::OrderCancelled, ALL),
        (EventType::OrderExpired, ALL),
        (EventType::ShareGranted, shares),
        (EventType::CampaignClosed, 2),
    ] {
        assert_eq!(of(kind).count(), count, "{kind}");
    }
    for part in 0..ALL {
        for entry in case.log(part) {
            let Event::Granted { user, number, .. } = &entry.event else {
                continue;
            };
            let place = (case.partition(part).0, entry.seq);
            let event = told.iter().find(|event| entry_of(event) == place).unwrap();
            let data = event.data.as_ref().unwrap();
            assert_eq!(event.at, entry.at);
            assert_eq!(data.campaign, entry.campaign);
            assert_eq!(data.user.as_deref(), Some(user.as_str()));
            assert_eq!(data.number, Some(i64::from(*number)));
        }
    }
    let paid = of(EventType::OrderPaid).map(|event| event.data.as_ref().unwrap());
    let paid: BTreeSet<_> = paid.map(|data| data.payment.clone().unwrap()).collect();
    assert!(paid.contains("pay0") && paid.contains("pay1"), "{paid:?}");
    let closed = |id: CampaignId| {
        let closed = of(EventType::CampaignClosed).map(|event| event.data.as_ref().unwrap());
        let mut closed = closed.filter(|data| data.campaign == id);
        let data = closed.next().unwrap();
        (data.quantity, data.amount_minor, data.owner.clone())
    };
    assert_eq!(closed(packet.id), (6, 600, "sender".to_owned()));
    assert_eq!(closed(sale.id).0, 30 - 2 * ALL as i64);
}

/// An event that no endpoint wants is not recorded.
pub async fn what_no_webhook_wants_is_not_kept(case: &mut Fixture) {
    let first = case.open(&sale(9).owner("shop")).await;
    let second = case.open(&sale(9).owner("shop")).await;
    let third = case.open(&sale(9).owner("other")).await;
    let grant = |case: &mut Fixture, n: usize| {
        for target in [&first, &second, &third] {
            case.granted(target.units(&case.somebody(0, n), 1));
        }
    };
    grant(case, 0);
    case.settle_all(0).await;
    assert_eq!(events(case).await, []);
    let one = Filter {
        campaigns: vec![second.id],
        ..Filter::default()
    };
    add(case, 1, one.clone()).await;
    grant(case, 1);
    case.settle_all(0).await;
    let told = events(case).await;
    let campaigns = |told: &[WebhookEvent]| -> Vec<CampaignId> {
        let data = told.iter().map(|event| event.data.as_ref().unwrap());
        data.map(|data| data.campaign).collect()
    };
    assert_eq!(campaigns(&told), [second.id]);
    assert!(one.fits(&told[0]));
    let theirs = Filter {
        owner: Some(user("other")),
        ..Filter::default()
    };
    assert!(!theirs.fits(&told[0]));
    let other = add(case, 2, theirs).await;
    // The endpoint starts after all existing events.
    assert_eq!(record(case, other.id).await.progress.place, told[0].place);
    grant(case, 2);
    case.settle_all(0).await;
    let told = events(case).await;
    assert_eq!(campaigns(&told), [second.id, second.id, third.id]);
    for n in 1..=2 {
        let id = Uuid::from_u64_pair(0, n);
        assert_eq!(case.ledger().delete_webhook(id, None).await, Ok(true));
        assert_eq!(case.ledger().delete_webhook(id, None).await, Ok(false));
    }
    grant(case, 3);
    case.settle_all(0).await;
    assert_eq!(events(case).await.len(), 3);
}

/// A refund gives an event if an endpoint may want it, in the transaction that posts the refund. Repeated requests give
/// no further events.
pub async fn refunds_are_told_once(case: &mut Fixture) {
    let theirs = Filter {
        owner: Some(user("shop")),
        ..Filter::default()
    };
    let mut orders = Vec::new();
    for owner in ["shop", "other"] {
        let target = case.open(&sale(9).owner(owner)).await;
        let (claim, buyer) = (target.units(&case.somebody(0, 0), 1), case.somebody(0, 0));
        orders.push((case.granted(claim).order_id(), buyer));
    }
    for (order, _) in &orders {
        case.pay(*order, "once");
        case.pay(*order, "twice");
    }
    case.settle_all(0).await;
    let refund = |order, name: &str, minor| Payout::Refund {
        order,
        reference: PaymentRef::new(name).unwrap(),
        amount: Money::new(minor, currency()),
    };
    let ((ours, buyer), (others, _)) = (orders[0].clone(), orders[1].clone());
    let part = case.ledger().pay_out(&refund(ours, "early", 10)).await;
    assert!(part.unwrap().fresh);
    assert_eq!(events(case).await, [], "no endpoint wanted the event");
    add(case, 1, theirs).await;
    for fresh in [true, false] {
        let paid_out = case.ledger().pay_out(&refund(ours, "r-1", 60)).await;
        assert_eq!(paid_out.unwrap().fresh, fresh);
        let paid_out = case.ledger().pay_out(&refund(others, "r-2", 60)).await;
        assert_eq!(paid_out.unwrap().fresh, fresh);
        case.restart().await;
    }
    for refused in [refund(ours, "r-1", 10), refund(ours, "r-3", 31)] {
        assert!(case.ledger().pay_out(&refused).await.is_err());
    }
    let used = KeyUse {
        scope: "refunds".to_owned(),
        key: IdempotencyKey::new("k").unwrap(),
        fingerprint: [7; 32],
    };
    let (id, rest) = (Uuid::from_u64_pair(3, 1), refund(ours, "r-4", 30));
    for _ in 0..2 {
        let paid_out = case.ledger().pay_out_under(&used, id, &rest, None).await;
        paid_out.unwrap();
    }

    let told = events(case).await;
    let of = |event: &WebhookEvent| {
        let data = event.data.clone().unwrap();
        assert_eq!(
            (event.kind, data.campaign),
            (EventType::OrderRefunded, ours.campaign)
        );
        assert_eq!(data.number, Some(i64::from(ours.number)));
        assert_eq!(data.user.as_deref(), Some(buyer.as_str()));
        (event.place, data.amount_minor, data.payment.unwrap())
    };
    let told: Vec<_> = told.iter().map(of).collect();
    assert_eq!(told, [(1, 60, "r-1".to_owned()), (2, 30, "r-4".to_owned())]);
    let ids: BTreeSet<_> = events(case)
        .await
        .into_iter()
        .map(|event| event.id)
        .collect();
    assert!(
        ids.len() == 2 && ids.iter().all(|id| id.starts_with("evt_direct_")),
        "{ids:?}"
    );
}

/// Only the holder of the lease records an endpoint's progress. A redrive ends the lease and resets the progress.
pub async fn one_holder_moves_the_place(case: &mut Fixture) {
    let webhook = add(case, 1, Filter::default()).await;
    let sale = case.open(&sale(20)).await;
    let mut times = Vec::new();
    for n in 0..5 {
        case.later(10);
        case.granted(sale.units(&case.somebody(0, n), 1));
        times.push(case.log(0).last().unwrap().at);
    }
    case.settle_all(0).await;
    let (id, ledger) = (webhook.id, case.ledger());
    let [one, other] = [Uuid::from_u64_pair(1, 1), Uuid::from_u64_pair(1, 2)];
    let now = times[4];
    let until = now.plus_millis(1_000);
    let leased = ledger.lease_webhook(id, one, now, until).await.unwrap();
    let leased = leased.unwrap();
    assert_eq!((&leased.webhook, leased.last_place), (&webhook, 5));
    assert!(leased.is_due(now));
    let failing = DeliveryProgress {
        place: 3,
        failing_since: Some(times[1]),
        attempts: 2,
        retry_at: Some(until),
        last_error: Some("status 500".to_owned()),
        disabled_at: None,
    };
    assert_eq!(
        ledger.record_webhook(id, one, until, &failing).await,
        Ok(true)
    );
    assert_eq!(
        ledger.record_webhook(id, other, until, &failing).await,
        Ok(false)
    );
    assert_eq!(record(case, id).await.progress, failing);
    // The lease of the other holder may succeed or fail here. Exactly one holder records progress.
    let taken = ledger.lease_webhook(id, other, now, until).await.unwrap();
    let first = ledger
        .record_webhook(id, one, until, &failing)
        .await
        .unwrap();
    let second = ledger
        .record_webhook(id, other, until, &failing)
        .await
        .unwrap();
    assert_eq!((first, second), (taken.is_none(), taken.is_some()));
    let late = until.plus_millis(1);
    let taken = ledger
        .lease_webhook(id, other, late, late.plus_millis(1_000))
        .await;
    assert!(taken.unwrap().is_some(), "an expired lease can be taken");
    assert_eq!(
        ledger.record_webhook(id, one, until, &failing).await,
        Ok(false)
    );

    let disabled = DeliveryProgress {
        disabled_at: Some(late),
        ..failing
    };
    let until = late.plus_millis(1_000);
    assert_eq!(
        ledger.record_webhook(id, other, until, &disabled).await,
        Ok(true)
    );
    assert_eq!(ledger.lease_webhook(id, other, late, until).await, Ok(None));
    assert_eq!(
        ledger.redrive_webhook(id, Some(times[1]), None).await,
        Ok(true)
    );
    assert_eq!(
        ledger.record_webhook(id, other, until, &disabled).await,
        Ok(false)
    );
    let again = DeliveryProgress {
        place: 1,
        ..DeliveryProgress::default()
    };
    assert_eq!(record(case, id).await.progress, again);
    for (since, place) in [
        (None, 1),
        (Some(times[4]), 1),
        (Some(until), 1),
        (Some(OPENS), 0),
    ] {
        assert_eq!(ledger.redrive_webhook(id, since, None).await, Ok(true));
        assert_eq!(record(case, id).await.progress.place, place, "{since:?}");
    }
    assert_eq!(ledger.redrive_webhook(one, None, None).await, Ok(false));

    let fresh = "whsec_YW5vdGhlciBzZWNyZXQgb2YgYW4gZW5kcG9pbnQgaW4gYSB0ZXN0";
    assert_eq!(
        ledger.rotate_webhook(id, fresh, until, None).await,
        Ok(true)
    );
    let rotated = record(case, id).await.webhook;
    let secrets = |now: Timestamp| rotated.secrets(now).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(secrets(late), [fresh.to_owned(), webhook.secret.clone()]);
    assert_eq!(secrets(until), [fresh]);
}

/// Undelivered events of an active endpoint are kept at any age, those of a disabled one for a limited time.
pub async fn events_are_forgotten_once_they_are_told(case: &mut Fixture) {
    let webhook = add(case, 1, Filter::default()).await;
    let sale = case.open(&sale(20)).await;
    for n in 0..4 {
        case.later(10);
        case.granted(sale.units(&case.somebody(0, n), 1));
    }
    case.settle_all(0).await;
    let told = events(case).await;
    let (id, ledger) = (webhook.id, case.ledger());
    let left = async || {
        let left = events(case).await.into_iter();
        left.map(|event| event.place).collect::<Vec<_>>()
    };
    let after = told[3].at.plus_millis(1);
    assert_eq!(ledger.forget_webhook_events(after, 9).await, Ok(0));
    assert_eq!(left().await, [1, 2, 3, 4]);
    let holder = Uuid::from_u64_pair(1, 1);
    let until = after.plus_millis(1_000);
    let leased = ledger.lease_webhook(id, holder, after, until).await;
    let mut progress = leased.unwrap().unwrap().progress;
    progress.place = 3;
    assert_eq!(
        ledger.record_webhook(id, holder, until, &progress).await,
        Ok(true)
    );
    let forgotten = ledger.forget_webhook_events(told[1].at, 9).await;
    assert_eq!((forgotten, left().await), (Ok(1), vec![2, 3, 4]));
    for (count, expected) in [(1, vec![3, 4]), (1, vec![4]), (0, vec![4])] {
        let forgotten = ledger.forget_webhook_events(after, 1).await;
        assert_eq!((forgotten, left().await), (Ok(count), expected));
    }
    progress.disabled_at = Some(after);
    assert_eq!(
        ledger.record_webhook(id, holder, until, &progress).await,
        Ok(true)
    );
    assert_eq!(ledger.forget_webhook_events(told[3].at, 9).await, Ok(0));
    assert_eq!(ledger.forget_webhook_events(after, 9).await, Ok(1));
    assert_eq!(left().await, []);
    // Places continue from the last one.
    case.granted(sale.units(&case.somebody(0, 9), 1));
    case.settle_all(0).await;
    assert_eq!(events(case).await[0].place, 5);
}

/// The number of endpoints is limited, because settlement reads all of them.
pub async fn webhooks_are_bounded(case: &mut Fixture) {
    for n in 1..=WEBHOOKS_MAX as u64 {
        add(case, n, Filter::default()).await;
    }
    let more = webhook(1_000, Filter::default());
    assert_eq!(case.ledger().add_webhook(&more, None).await, Ok(false));
    let records = case.ledger().webhooks().await.unwrap();
    assert_eq!(records.len(), WEBHOOKS_MAX);
    // Each seller has room for a few.
    for (n, seller, expected) in [(6, "ann", 5), (7, "bob", 5)] {
        let mut added = 0;
        for nth in 0..n {
            let mut own = webhook(1_000 * n + nth, Filter::default());
            own.managed_by = Some(user(seller));
            let is_added = case.ledger().add_webhook(&own, None).await;
            added += usize::from(is_added == Ok(true));
        }
        assert_eq!(added, expected, "{seller}");
    }
    let records = case.ledger().webhooks().await.unwrap();
    let of = |seller: &str| {
        let managers = records.iter().map(|it| it.webhook.managed_by.as_ref());
        managers
            .filter(|it| it.is_some_and(|it| it.as_str() == seller))
            .count()
    };
    assert_eq!((of("ann"), of("bob")), (5, 5));
}

/// A change is recorded with its actor, once, and only if it changed anything.
pub async fn changes_name_their_actor(case: &mut Fixture) {
    let (made, ledger) = (webhook(1, Filter::default()), case.ledger());
    let id = made.id;
    let action = |n: u64, kind: ActionKind| Action {
        id: Uuid::from_u64_pair(9, n),
        at: OPENS,
        actor: user("olga"),
        kind,
        subject: id.to_string(),
        request_id: format!("r{n}"),
        detail: "{}".to_owned(),
    };
    let create = [action(1, ActionKind::Create), action(2, ActionKind::Create)];
    for by in &create {
        assert_eq!(ledger.add_webhook(&made, Some(by)).await, Ok(true));
    }
    // A repeated action changes nothing, even with another value.
    let change = action(3, ActionKind::Change);
    for secret in ["whsec_b25l", "whsec_b3RoZXI="] {
        let rotated = ledger.rotate_webhook(id, secret, OPENS, Some(&change));
        assert_eq!(rotated.await, Ok(true));
    }
    assert_eq!(record(case, id).await.webhook.secret, "whsec_b25l");
    let redrive = action(4, ActionKind::Redrive);
    for _ in 0..2 {
        let redriven = ledger.redrive_webhook(id, Some(OPENS), Some(&redrive));
        assert_eq!(redriven.await, Ok(true));
        // Disabled since, which a repeated redrive does not undo.
        let disabled = WebhookChange {
            is_enabled: Some(false),
            ..WebhookChange::default()
        };
        let changed = ledger.change_webhook(id, &disabled, OPENS, None).await;
        assert_eq!(changed, Ok(true));
    }
    let disabled_at = record(case, id).await.progress.disabled_at;
    assert_eq!(disabled_at, Some(OPENS));
    let delete = [action(5, ActionKind::Delete), action(6, ActionKind::Delete)];
    let mut left = [true, false].into_iter();
    for by in &delete {
        let deleted = ledger.delete_webhook(id, Some(by)).await;
        assert_eq!(deleted.ok(), left.next());
    }
    let (late, other) = (
        action(7, ActionKind::Change),
        action(8, ActionKind::Redrive),
    );
    let rotated = ledger.rotate_webhook(id, "whsec_", OPENS, Some(&late));
    assert_eq!(rotated.await, Ok(false));
    let redriven = ledger.redrive_webhook(id, None, Some(&other));
    assert_eq!(redriven.await, Ok(false));
    let [create, _] = create;
    let [delete, _] = delete;
    let found = ledger.actions(&id.to_string(), None, 9).await;
    assert_eq!(found, Ok(vec![create, change, redrive, delete]));
}
