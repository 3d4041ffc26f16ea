//! Concurrent settlement, conflicts of locks, and entries that contradict the ledger.

use std::{sync::Arc, time::Duration};

use crate::common::{
    Databases, Postgres, Server, WAIT_MAX, audit::audit, history::History, open, until,
};
use qiang_core::{
    book::Setup,
    campaign::Phase,
    event::{Entry, Event, PartitionId},
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    payment::{PaymentOutcome, ReceivedMoney},
    ports::{KeyUse, Ledger, LedgerError},
    split::SplitRule,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, currency, red_packet, sale, user},
};
use uuid::Uuid;

async fn ledger(url: &str) -> Arc<dyn Ledger> {
    open(url, ManualClock::new(OPENS)).await
}

/// Four workers, each with a ledger of its own, settle the same log in overlapping runs.
async fn several_workers_settle_one_partition_once<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let history = Arc::new(History::of(3, 400));
    history.enter(&ledger(&url).await).await;
    let mut workers = Vec::new();
    for worker in 0..4_usize {
        let (ledger, history) = (ledger(&url).await, Arc::clone(&history));
        workers.push(tokio::spawn(async move {
            loop {
                let settled = ledger.settled(history.partition).await.unwrap();
                let from = (settled as usize).saturating_sub(7 * worker);
                let to = (settled as usize + 20 + 9 * worker).min(history.log.len());
                let position = ledger
                    .settle(history.partition, &history.log[from..to])
                    .await
                    .unwrap();
                assert!(position >= to as u64);
                if position == history.head() {
                    return;
                }
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    history.check(&ledger(&url).await).await;
    audit::<S>(&url).await;
}

/// Four partitions with the same users and the same seller are settled at the same time.
async fn partitions_with_the_same_users_are_settled_at_once<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let histories: Vec<_> = (0..4)
        .map(|partition| Arc::new(History::of(partition, 300)))
        .collect();
    for history in &histories {
        history.enter(&ledger(&url).await).await;
    }
    let mut workers = Vec::new();
    for history in &histories {
        let (ledger, history) = (ledger(&url).await, Arc::clone(history));
        workers.push(tokio::spawn(
            async move { history.settle(&ledger, 40).await },
        ));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    for history in &histories {
        history.check(&ledger(&url).await).await;
    }
    audit::<S>(&url).await;
}

/// Another transaction locks rows in the opposite order: the database rolls back the settlement, and it is retried.
async fn a_deadlock_is_tried_again<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let history = History::of(0, 60);
    history.enter(&ledger).await;
    let lucky = history.lucky();
    let (first, last) = (&lucky[0], &lucky[lucky.len() - 1]);
    for (name, n) in [(first, 1_000), (last, 1_001)] {
        let money = Money::new(1, currency());
        let id = Uuid::from_u128(n);
        ledger.deposit(id, &user(name), money).await.unwrap();
    }
    let lock =
        |name: &str| format!("UPDATE accounts SET balance = balance + 0 WHERE owner = '{name}'");
    let mut stranger = S::stranger(&url).await;
    S::has(&mut stranger, &lock(last)).await;
    let settling = tokio::spawn({
        let (ledger, log) = (Arc::clone(&ledger), history.log.clone());
        async move { ledger.settle(PartitionId(0), &log).await }
    });
    until("settlement to wait", async || S::waiting(&url).await > 0).await;
    S::has(&mut stranger, &lock(first)).await;
    assert_eq!(ledger.settled(PartitionId(0)).await, Ok(0));
    S::has(&mut stranger, "COMMIT").await;
    assert_eq!(settling.await.unwrap(), Ok(history.head()));
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

/// Entries of other partitions that contradict the settled ones: each is refused and leaves no trace.
async fn what_contradicts_the_books_is_refused<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let packet = red_packet(1_000, 10, SplitRule::Equal).setup(1);
    let (one_each, many_each) = (sale(5).setup(2), sale(5).limit(5).setup(3));
    let money = Money::new(1_000, currency());
    ledger
        .deposit(Uuid::from_u128(1), &user(OWNER), money)
        .await
        .unwrap();
    for setup in [&packet, &one_each, &many_each] {
        ledger.create(setup).await.unwrap();
    }
    let entry = |setup: &Setup, seq: u64, event: Event| Entry {
        seq,
        at: OPENS,
        campaign: setup.campaign.id,
        event,
    };
    let granted = |number: u32, name: &str, quantity: u32, amount_minor: i64| Event::Granted {
        number,
        user: user(name),
        quantity,
        amount_minor,
        key: None,
    };
    let payment = |name: &str| PaymentRef::new(name).unwrap();
    let paid = |number: u32, name: &str| Event::Paid {
        number,
        payment: payment(name),
        received: ReceivedMoney::Price,
    };
    let sound = [
        entry(&packet, 1, granted(1, "ann", 1, 100)),
        entry(&one_each, 2, granted(1, "ann", 1, 100)),
        entry(&many_each, 3, granted(1, "ann", 3, 300)),
        entry(&many_each, 4, paid(1, "first")),
    ];
    assert_eq!(ledger.settle(PartitionId(0), &sound).await, Ok(4));
    let closed = |returned, refunded_minor| Event::Closed {
        returned,
        refunded_minor,
    };
    let unknown = sale(1).setup(9);
    let untrue: [(&str, Vec<Entry>); 16] = [
        (
            "a share that is gone",
            vec![entry(&packet, 1, granted(1, "ben", 1, 100))],
        ),
        (
            "another amount",
            vec![entry(&packet, 1, granted(2, "ben", 1, 99))],
        ),
        (
            "a share that never was",
            vec![entry(&packet, 1, granted(11, "ben", 1, 100))],
        ),
        (
            "a second share of a user",
            vec![entry(&packet, 1, granted(2, "ann", 1, 100))],
        ),
        (
            "the same share twice",
            vec![
                entry(&packet, 1, granted(2, "ben", 1, 100)),
                entry(&packet, 2, granted(2, "cleo", 1, 100)),
            ],
        ),
        (
            "an order that is there",
            vec![entry(&one_each, 1, granted(1, "ben", 1, 100))],
        ),
        (
            "the same order twice",
            vec![
                entry(&one_each, 1, granted(2, "ben", 1, 100)),
                entry(&one_each, 2, granted(2, "cleo", 1, 100)),
            ],
        ),
        (
            "a second order of a user",
            vec![entry(&one_each, 1, granted(2, "ann", 1, 100))],
        ),
        (
            "a second order of a user, returned at once",
            vec![
                entry(&one_each, 1, granted(2, "ben", 1, 100)),
                entry(&one_each, 2, granted(3, "ben", 1, 100)),
                entry(&one_each, 3, Event::Cancelled { number: 2 }),
            ],
        ),
        (
            "more than there is",
            vec![entry(&many_each, 1, granted(2, "ben", 3, 300))],
        ),
        (
            "an order that is paid twice",
            vec![entry(&many_each, 1, paid(1, "second"))],
        ),
        ("a payment that came before", {
            let due = Event::RefundDue {
                number: 1,
                payment: payment("first"),
                received: ReceivedMoney::Price,
            };
            vec![entry(&many_each, 1, due)]
        }),
        (
            "an order that never was",
            vec![entry(&many_each, 1, Event::Expired { number: 7 })],
        ),
        (
            "a refund above the escrow",
            vec![entry(&packet, 1, closed(9, 901))],
        ),
        (
            "returns above the supply",
            vec![entry(&one_each, 1, closed(5, 0))],
        ),
        (
            "an unknown campaign",
            vec![entry(&unknown, 1, Event::Opened { parts: 1 })],
        ),
    ];
    for (partition, (what, entries)) in (1..).map(PartitionId).zip(untrue) {
        let settled = ledger.settle(partition, &entries).await;
        assert!(
            matches!(settled, Err(LedgerError::Damaged { .. })),
            "{what}: {settled:?}"
        );
        assert_eq!(ledger.settled(partition).await, Ok(0), "{what}");
        audit::<S>(&url).await;
    }
    assert_eq!(ledger.positions().await, Ok(vec![(PartitionId(0), 4)]));
    let record = |setup: &Setup| {
        let (ledger, id) = (Arc::clone(&ledger), setup.campaign.id);
        async move { ledger.campaign(id).await.unwrap().unwrap().granted }
    };
    let granted = [
        record(&packet).await,
        record(&one_each).await,
        record(&many_each).await,
    ];
    assert_eq!(granted, [1, 1, 3]);
}

/// In one run, a user cancels an order and gets another one, and a late payment changes which order has the units. The
/// state at the end of the run counts.
async fn one_run_may_pass_an_order_from_one_to_the_next<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let setup = sale(5).setup(1);
    ledger.create(&setup).await.unwrap();
    let entry = |seq: u64, event: Event| Entry {
        seq,
        at: OPENS.plus_millis(seq as i64),
        campaign: setup.campaign.id,
        event,
    };
    let granted = |number: u32| Event::Granted {
        number,
        user: user("ann"),
        quantity: 1,
        amount_minor: 100,
        key: None,
    };
    let payment = PaymentRef::new("late").unwrap();
    let log = [
        entry(1, Event::Opened { parts: 1 }),
        entry(2, granted(1)),
        entry(3, Event::Expired { number: 1 }),
        entry(4, granted(2)),
        // The ledger has the first two orders here; the rest comes in one run.
        entry(5, Event::Cancelled { number: 2 }),
        entry(6, granted(3)),
        entry(7, Event::Cancelled { number: 3 }),
        entry(
            8,
            Event::payment_recorded(1, payment, PaymentOutcome::Reinstated.into()),
        ),
    ];
    for (run, settled) in [(&log[..4], 4), (&log[4..], 8)] {
        assert_eq!(ledger.settle(PartitionId(0), run).await, Ok(settled));
        audit::<S>(&url).await;
    }
    let record = ledger.campaign(setup.campaign.id).await.unwrap().unwrap();
    assert_eq!((record.granted, record.returned), (1, 0));
    let states = "SELECT count(*) FROM orders \
                  WHERE number = 1 AND state = 'paid' OR number > 1 AND state = 'cancelled'";
    assert_eq!(S::count(&url, states).await, 3);
}

/// Two shards of a campaign change at the same time. Neither transaction sees the other one's commit when it writes its
/// own shard. The campaign's phase still follows from both shards.
async fn parts_that_change_at_once_are_both_seen<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let setup = sale(1).setup(1);
    ledger.create(&setup).await.unwrap();
    let settle = |partition: u16, seq: u64, event: Event| {
        let (at, campaign) = (OPENS, setup.campaign.id);
        let entry = Entry {
            seq,
            at,
            campaign,
            event,
        };
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move { ledger.settle(PartitionId(partition), &[entry]).await })
    };
    for partition in [0, 1] {
        let opened = settle(partition, 1, Event::Opened { parts: 2 }).await;
        assert_eq!(opened.unwrap(), Ok(1));
    }
    let granted = Event::Granted {
        number: 1,
        user: user("ann"),
        quantity: 1,
        amount_minor: 100,
        key: None,
    };
    let paused = settle(1, 2, Event::Paused).await;
    assert_eq!(
        (settle(0, 2, granted).await.unwrap(), paused.unwrap()),
        (Ok(2), Ok(2))
    );
    let paused = settle(0, 3, Event::Paused).await;
    let again = settle(1, 3, Event::Paused).await;
    assert_eq!((paused.unwrap(), again.unwrap()), (Ok(3), Ok(3)));
    let closed = Event::Closed {
        returned: 0,
        refunded_minor: 0,
    };
    let rounds = [
        (Event::Resumed, Phase::Scheduled),
        (Event::Paused, Phase::Paused),
        (Event::Resumed, Phase::Scheduled),
        (Event::Ended, Phase::Ended),
        (closed, Phase::Closed),
    ];
    let mut stranger = S::stranger(&url).await;
    for (seq, (event, phase)) in (4..).zip(rounds) {
        // Both have written their shard and wait for the campaign's row.
        S::has(&mut stranger, "UPDATE campaigns SET owner = owner").await;
        let both = [0, 1].map(|partition| settle(partition, seq, event.clone()));
        until("both to wait", async || S::waiting(&url).await == 2).await;
        S::has(&mut stranger, "COMMIT; BEGIN").await;
        for settled in both {
            assert_eq!(settled.await.unwrap(), Ok(seq));
        }
        let record = ledger.campaign(setup.campaign.id).await.unwrap().unwrap();
        assert_eq!(record.phase, phase, "after {event:?} of both parts");
    }
    audit::<S>(&url).await;
}

/// A call that waits for a position returns once another process or its own one has settled it.
async fn a_waiter_hears_of_what_others_settle<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let (waiting, settling) = (ledger(&url).await, ledger(&url).await);
    let history = History::of(5, 20);
    history.enter(&settling).await;
    for (by, upto) in [(&settling, 10), (&waiting, 20)] {
        let waiters: Vec<_> = (0..50)
            .map(|_| {
                let (ledger, partition) = (Arc::clone(&waiting), history.partition);
                tokio::spawn(async move { ledger.await_settled(partition, upto, WAIT_MAX).await })
            })
            .collect();
        let early = waiting
            .await_settled(history.partition, upto, Duration::from_millis(50))
            .await;
        assert_eq!(early, Ok(false));
        by.settle(history.partition, &history.log[..upto as usize])
            .await
            .unwrap();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), Ok(true));
        }
    }
}

/// The same deposit, key and campaign from many concurrent callers are entered once.
async fn what_many_enter_at_once_is_entered_once<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledgers = [ledger(&url).await, ledger(&url).await];
    let setup = red_packet(700, 7, SplitRule::Lazy { min: 1 }).setup(1);
    let money = Money::new(1_000, currency());
    let tasks: Vec<_> = (0..24_u128)
        .map(|n| {
            let (ledger, setup) = (Arc::clone(&ledgers[n as usize % 2]), setup.clone());
            tokio::spawn(async move {
                ledger
                    .deposit(Uuid::from_u128(1), &user(OWNER), money)
                    .await
                    .unwrap();
                ledger.create(&setup).await.unwrap();
                let key = IdempotencyKey::new("k").unwrap();
                ledger
                    .bind_key(&KeyUse::new("scope", key, [1; 32]), Uuid::from_u128(n))
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut bound = Vec::new();
    for task in tasks {
        bound.push(task.await.unwrap());
    }
    assert_eq!(bound.iter().filter(|binding| binding.fresh).count(), 1);
    assert!(bound.iter().all(|binding| binding.id == bound[0].id));
    let balances = ledgers[0].balances(&user(OWNER)).await.unwrap();
    assert_eq!(balances[0].available.minor, 300);
    audit::<S>(&url).await;
}

/// A close with no remaining amount locks the escrow but does not write it.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_to_which_nothing_is_added_is_not_written() {
    let server = Postgres::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let packet = red_packet(100, 1, SplitRule::Equal).setup(1);
    let money = Money::new(100, currency());
    ledger
        .deposit(Uuid::from_u128(1), &user(OWNER), money)
        .await
        .unwrap();
    ledger.create(&packet).await.unwrap();
    let entry = |seq: u64, event: Event| Entry {
        seq,
        at: OPENS,
        campaign: packet.campaign.id,
        event,
    };
    let granted = Event::Granted {
        number: 1,
        user: user("ann"),
        quantity: 1,
        amount_minor: 100,
        key: None,
    };
    let closed = Event::Closed {
        returned: 0,
        refunded_minor: 0,
    };
    let log = [
        entry(1, Event::Opened { parts: 1 }),
        entry(2, granted),
        entry(3, closed),
    ];
    let written = "SELECT xmin::text::bigint FROM accounts WHERE purpose = 'escrow'";
    assert_eq!(ledger.settle(PartitionId(0), &log[..2]).await, Ok(2));
    let before = Postgres::count(&url, written).await;
    assert_eq!(ledger.settle(PartitionId(0), &log).await, Ok(3));
    assert_eq!(Postgres::count(&url, written).await, before);
    audit::<Postgres>(&url).await;
}

crate::on_each_server! {
    several_workers_settle_one_partition_once,
    partitions_with_the_same_users_are_settled_at_once,
    a_deadlock_is_tried_again,
    what_contradicts_the_books_is_refused,
    one_run_may_pass_an_order_from_one_to_the_next,
    parts_that_change_at_once_are_both_seen,
    a_waiter_hears_of_what_others_settle,
    what_many_enter_at_once_is_entered_once,
}
