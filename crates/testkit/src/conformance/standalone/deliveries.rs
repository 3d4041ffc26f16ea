//! Deliveries to webhook endpoints in the ledger: waiting events and the log of attempts.

use qiang_core::{
    id::OrderId,
    ports::{Action, ActionKind},
    time::Timestamp,
    webhook::{
        AttemptQuery, AttemptState, DeliveryAttempt, DeliveryProgress, DeliveryReport, EventType,
        Filter, Redelivery, RetryState, WaitingEvent, WebhookChange, WebhookEvent, WebhookRecord,
    },
};
use uuid::Uuid;

use super::{Fixture, webhooks};
use crate::campaign::{OPENS, sale, user};

/// Id of the endpoint of these cases, and holder of its lease.
const WEBHOOK: Uuid = Uuid::from_u64_pair(0, 1);
const HOLDER: Uuid = Uuid::from_u64_pair(1, 1);

/// Adds an endpoint, settles orders, and leases the endpoint. Returns the events of the orders.
async fn orders(case: &mut Fixture, count: usize) -> Vec<WebhookEvent> {
    webhooks::add_endpoint(case, 1).await;
    let sale = case.open(&sale(20)).await;
    for n in 0..count {
        case.later(10);
        case.granted(sale.units(&case.somebody(0, n), 1));
    }
    case.settle_all(0).await;
    lease(case).await;
    let events = webhooks::events(case).await.into_iter();
    events
        .filter(|event| event.subject().is_some_and(|it| it.number.is_some()))
        .collect()
}

async fn lease(case: &Fixture) {
    let until = OPENS.plus_millis(1_000_000);
    let leased = case.ledger().lease_webhook(WEBHOOK, HOLDER, OPENS, until);
    assert!(leased.await.unwrap().is_some());
}

async fn record(case: &Fixture, report: &DeliveryReport) -> bool {
    let until = OPENS.plus_millis(1_000_000);
    let recorded = (case.ledger()).record_deliveries(WEBHOOK, HOLDER, until, report);
    recorded.await.unwrap()
}

async fn endpoint(case: &Fixture) -> WebhookRecord {
    let records = case.ledger().webhooks().await.unwrap();
    let mut records = records.into_iter();
    records.find(|it| it.webhook.id == WEBHOOK).unwrap()
}

fn retry(event: &WebhookEvent, attempts: u32, retry_at: Option<i64>) -> RetryState {
    RetryState {
        place: event.place,
        attempts,
        failing_since: (attempts > 0).then_some(OPENS),
        retry_at: retry_at.map(Timestamp::from_millis),
    }
}

/// An attempt at an event, `n` ms after the opening.
fn attempt(event: &WebhookEvent, n: i64, state: AttemptState) -> DeliveryAttempt {
    let at = OPENS.plus_millis(n);
    let is_delivered = state == AttemptState::Delivered;
    DeliveryAttempt {
        id: DeliveryAttempt::id_at(at, &[7; 10]),
        place: event.place,
        event: event.id.clone(),
        kind: event.kind,
        subject: event.subject().unwrap(),
        at,
        duration_ms: 12,
        attempt: 1,
        status: Some(if is_delivered { 200 } else { 503 }),
        body: (!is_delivered).then(|| "no 商品".to_owned()),
        error: (!is_delivered).then(|| "status 503".to_owned()),
        state,
        next_at: (state == AttemptState::Failed).then(|| at.plus_millis(1_000)),
    }
}

fn progress(place: i64) -> DeliveryProgress {
    DeliveryProgress {
        place,
        ..DeliveryProgress::default()
    }
}

/// Waiting events are recorded with the position, by the holder of the lease alone, and survive a restart.
pub async fn waiting_events_are_recorded_with_the_position(case: &mut Fixture) {
    let events = orders(case, 4).await;
    let last = events[3].place;
    let waiting = [
        retry(&events[0], 1, Some(5_000)),
        retry(&events[2], 0, None),
    ];
    let report = DeliveryReport {
        waiting: waiting.to_vec(),
        attempts: vec![attempt(&events[0], 1, AttemptState::Failed)],
        ..DeliveryReport::from(progress(last))
    };
    let (other, until) = (Uuid::from_u64_pair(1, 2), OPENS.plus_millis(1));
    let refused = (case.ledger()).record_deliveries(WEBHOOK, other, until, &report);
    assert_eq!(refused.await, Ok(false));
    assert_eq!(case.ledger().waiting_events(WEBHOOK).await, Ok(vec![]));
    assert_eq!(log(case, &all()).await, []);
    assert!(record(case, &report).await);
    case.restart().await;
    let joined = |event: &WebhookEvent, retry: RetryState| WaitingEvent {
        event: event.clone(),
        retry,
    };
    let expected = vec![
        joined(&events[0], waiting[0]),
        joined(&events[2], waiting[1]),
    ];
    assert_eq!(case.ledger().waiting_events(WEBHOOK).await, Ok(expected));
    let found = endpoint(case).await;
    assert_eq!(found.progress.place, last);
    let first = Some(Timestamp::from_millis(5_000));
    assert_eq!((found.waiting, found.waiting_until), (2, first));
    assert_eq!((found.behind(), found.next_attempt()), (2, first));

    // One event changes, and the other one is finished.
    let changed = retry(&events[0], 2, Some(9_000));
    let report = DeliveryReport {
        waiting: vec![changed],
        finished: vec![events[2].place],
        ..DeliveryReport::from(progress(last))
    };
    assert!(record(case, &report).await);
    let left = case.ledger().waiting_events(WEBHOOK).await;
    assert_eq!(left, Ok(vec![joined(&events[0], changed)]));

    // A redrive makes it due. One of earlier events drops it, because it is read again.
    let redriven = case.ledger().redrive_webhook(WEBHOOK, None, None).await;
    assert_eq!(redriven, Ok(true));
    assert!(!record(case, &report).await, "a redrive ends the lease");
    let left = case.ledger().waiting_events(WEBHOOK).await.unwrap();
    assert_eq!(left[0].retry, RetryState::at_once(events[0].place));
    let since = Some(events[1].at);
    let redriven = case.ledger().redrive_webhook(WEBHOOK, since, None).await;
    assert_eq!(redriven, Ok(true));
    assert_eq!(
        endpoint(case).await.waiting,
        1,
        "the event is before that time"
    );
    let redriven = case.ledger().redrive_webhook(WEBHOOK, Some(OPENS), None);
    assert_eq!(redriven.await, Ok(true));
    assert_eq!(endpoint(case).await.waiting, 0);
}

/// An event that waits for a retry is kept at any age. Once the endpoint is disabled, it is forgotten with its retry.
pub async fn waiting_events_are_not_forgotten(case: &mut Fixture) {
    let events = orders(case, 3).await;
    let last = events[2].place;
    let mut report = DeliveryReport {
        waiting: vec![retry(&events[1], 1, Some(5_000))],
        ..DeliveryReport::from(progress(last))
    };
    assert!(record(case, &report).await);
    let after = events[2].at.plus_millis(1);
    let ledger = case.ledger();
    while ledger.forget_webhook_events(after, 99).await.unwrap() > 0 {}
    let left = webhooks::events(case).await;
    let places: Vec<_> = left.iter().map(|event| event.place).collect();
    assert_eq!(places, [events[1].place, last]);
    report.progress.disabled_at = Some(after);
    assert!(record(case, &report).await);
    while ledger.forget_webhook_events(after, 99).await.unwrap() > 0 {}
    assert_eq!(webhooks::events(case).await, []);
    assert_eq!(endpoint(case).await.waiting, 0);
    // A deleted endpoint leaves no waiting events.
    assert_eq!(ledger.delete_webhook(WEBHOOK, None).await, Ok(true));
    assert_eq!(ledger.waiting_events(WEBHOOK).await, Ok(vec![]));
}

fn all() -> AttemptQuery {
    AttemptQuery {
        webhook: WEBHOOK,
        event: None,
        order: None,
        state: None,
        before: None,
        limit: 100,
    }
}

async fn log(case: &Fixture, query: &AttemptQuery) -> Vec<DeliveryAttempt> {
    case.ledger().delivery_attempts(query).await.unwrap()
}

/// Attempts are listed newest first, by each filter and in pages, and deleted when they are old.
pub async fn attempts_are_listed_and_forgotten(case: &mut Fixture) {
    let events = orders(case, 3).await;
    let states = [
        (0, AttemptState::Failed),
        (1, AttemptState::Delivered),
        (0, AttemptState::GivenUp),
        (2, AttemptState::Failed),
        (2, AttemptState::Delivered),
    ];
    let attempts: Vec<_> = (1..)
        .zip(states)
        .map(|(n, (event, state))| attempt(&events[event], 10 * n, state))
        .collect();
    let report = DeliveryReport {
        attempts: attempts.clone(),
        ..DeliveryReport::from(progress(events[2].place))
    };
    assert!(record(case, &report).await);
    let check = async |query: AttemptQuery, expected: &[usize]| {
        let expected: Vec<_> = expected.iter().map(|n| attempts[*n].clone()).collect();
        assert_eq!(log(case, &query).await, expected, "{query:?}");
    };
    check(all(), &[4, 3, 2, 1, 0]).await;
    let page = AttemptQuery {
        before: Some(attempts[3].id),
        limit: 2,
        ..all()
    };
    check(page, &[2, 1]).await;
    let of_event = AttemptQuery {
        event: Some(events[0].id.clone()),
        ..all()
    };
    check(of_event.clone(), &[2, 0]).await;
    let failed = AttemptQuery {
        state: Some(AttemptState::Failed),
        ..of_event
    };
    check(failed, &[0]).await;
    let subject = events[2].subject().unwrap();
    let order = OrderId {
        campaign: subject.campaign,
        number: subject.number.unwrap().try_into().unwrap(),
    };
    let of_order = AttemptQuery {
        order: Some(order),
        ..all()
    };
    check(of_order, &[4, 3]).await;
    let delivered = AttemptQuery {
        state: Some(AttemptState::Delivered),
        ..all()
    };
    check(delivered, &[4, 1]).await;
    let elsewhere = AttemptQuery {
        webhook: HOLDER,
        ..all()
    };
    check(elsewhere, &[]).await;

    let ledger = case.ledger();
    let before = OPENS.plus_millis(40);
    assert_eq!(ledger.forget_delivery_attempts(before, 2).await, Ok(2));
    check(all(), &[4, 3, 2]).await;
    assert_eq!(ledger.forget_delivery_attempts(before, 2).await, Ok(1));
    assert_eq!(ledger.forget_delivery_attempts(before, 2).await, Ok(0));
    check(all(), &[4, 3]).await;
}

/// Events that were given up, or one event, wait for a delivery again: once per action.
pub async fn events_are_redelivered(case: &mut Fixture) {
    let events = orders(case, 4).await;
    let states = [
        (0, AttemptState::GivenUp),
        (1, AttemptState::GivenUp),
        (2, AttemptState::GivenUp),
        (2, AttemptState::Delivered),
        (3, AttemptState::Delivered),
    ];
    let attempts = (1..).zip(states);
    let attempts = attempts.map(|(n, (event, state))| attempt(&events[event], 10 * n, state));
    let report = DeliveryReport {
        attempts: attempts.collect(),
        ..DeliveryReport::from(progress(events[3].place))
    };
    assert!(record(case, &report).await);
    let redeliver = async |what: Redelivery, by: Option<&Action>| {
        let ledger = case.ledger();
        ledger.redeliver(WEBHOOK, &what, by).await.unwrap()
    };
    let places = async || {
        let waiting = case.ledger().waiting_events(WEBHOOK).await.unwrap();
        let places = waiting.iter().map(|it| it.event.place);
        places.collect::<Vec<_>>()
    };
    let action = Action {
        id: Uuid::from_u64_pair(9, 1),
        at: OPENS,
        actor: user("olga"),
        kind: ActionKind::Redrive,
        subject: WEBHOOK.to_string(),
        request_id: "r1".to_owned(),
        detail: "{}".to_owned(),
    };
    // The event that was delivered later is not sent again.
    let since = Redelivery::GivenUp(OPENS.plus_millis(15));
    assert_eq!(redeliver(since.clone(), Some(&action)).await, Some(1));
    assert_eq!(places().await, [events[1].place]);
    assert!(!record(case, &report).await, "a redelivery ends the lease");
    lease(case).await;
    let late = Redelivery::GivenUp(OPENS.plus_millis(60_000));
    assert_eq!(redeliver(late, None).await, Some(0));
    let changed = record(case, &progress(events[3].place).into()).await;
    assert!(changed, "without an event, nothing changes");
    let everything = Redelivery::GivenUp(OPENS);
    assert_eq!(redeliver(everything.clone(), Some(&action)).await, Some(0));
    assert_eq!(redeliver(everything, None).await, Some(1));
    assert_eq!(places().await, [events[0].place, events[1].place]);
    let one = Redelivery::Event(events[3].id.clone());
    assert_eq!(redeliver(one.clone(), None).await, Some(1));
    assert_eq!(redeliver(one, None).await, Some(1));
    let expected = [events[0].place, events[1].place, events[3].place];
    assert_eq!(places().await, expected);
    let unknown = Redelivery::Event("evt_0_1_0".to_owned());
    assert_eq!(redeliver(unknown.clone(), None).await, Some(0));
    let none = case.ledger().redeliver(HOLDER, &unknown, None).await;
    assert_eq!(none, Ok(None));
    let found = case.ledger().actions(&WEBHOOK.to_string(), None, 9).await;
    assert_eq!(found, Ok(vec![action]));
}

/// A change applies to the named fields, once per action, and ends the lease.
pub async fn an_endpoint_is_changed(case: &mut Fixture) {
    let events = orders(case, 2).await;
    let mut report = DeliveryReport {
        waiting: vec![retry(&events[0], 3, Some(5_000))],
        ..DeliveryReport::from(progress(events[1].place))
    };
    report.progress.retry_at = Some(OPENS);
    assert!(record(case, &report).await);
    let before = endpoint(case).await;
    let campaign = events[0].subject().unwrap().campaign;
    let change = WebhookChange {
        types: Some(vec![EventType::OrderPaid, EventType::OrderHeld]),
        campaigns: Some(vec![campaign]),
        owner: Some(Some(user("shop"))),
        is_enabled: Some(false),
        ..WebhookChange::default()
    };
    let action = Action {
        id: Uuid::from_u64_pair(9, 2),
        at: OPENS,
        actor: user("olga"),
        kind: ActionKind::Change,
        subject: WEBHOOK.to_string(),
        request_id: "r1".to_owned(),
        detail: "{}".to_owned(),
    };
    let ledger = case.ledger();
    let changed = ledger.change_webhook(WEBHOOK, &change, OPENS, Some(&action));
    assert_eq!(changed.await, Ok(true));
    assert!(!record(case, &report).await, "a change ends the lease");
    let mut expected = before.clone();
    expected.webhook.filter = Filter {
        types: vec![EventType::OrderPaid, EventType::OrderHeld],
        campaigns: vec![campaign],
        owner: Some(user("shop")),
    };
    expected.progress.disabled_at = Some(OPENS);
    assert_eq!(endpoint(case).await, expected);
    // A repeated action changes nothing, even with other values.
    let other = WebhookChange {
        url: Some("https://hooks.example/new".to_owned()),
        owner: Some(None),
        ..WebhookChange::default()
    };
    let repeated = ledger.change_webhook(WEBHOOK, &other, OPENS, Some(&action));
    assert_eq!(repeated.await, Ok(true));
    assert_eq!(endpoint(case).await, expected);
    // With a new URL, waiting events are due, and the pause is over. The endpoint stays disabled.
    let later = OPENS.plus_millis(9);
    let changed = ledger.change_webhook(WEBHOOK, &other, later, None).await;
    assert_eq!(changed, Ok(true));
    let found = endpoint(case).await;
    assert_eq!(found.webhook.url, "https://hooks.example/new");
    assert_eq!(found.webhook.filter.owner, None);
    assert_eq!(found.progress.disabled_at, Some(OPENS));
    let at_once = Some(Timestamp::from_millis(0));
    assert_eq!(
        (found.progress.retry_at, found.waiting_until),
        (None, at_once)
    );
    let enabled = WebhookChange {
        is_enabled: Some(true),
        ..WebhookChange::default()
    };
    let changed = ledger.change_webhook(WEBHOOK, &enabled, later, None).await;
    assert_eq!(changed, Ok(true));
    assert_eq!(endpoint(case).await.progress, progress(events[1].place));
    let missing = ledger.change_webhook(HOLDER, &enabled, later, None).await;
    assert_eq!(missing, Ok(false));
}
