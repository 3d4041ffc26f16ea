//! Cases for transports.

mod outages;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use qiang_core::{ports::LedgerError, split::SplitRule};

pub use self::outages::*;
use super::{
    Fixture, TransportSubject, Worker,
    fixture::{LIMIT, SETTLE_MAX, SHORT, SOON},
};
use crate::campaign::{red_packet, sale};

/// More units than any case grants.
const STOCK: u32 = 10_000;

/// Without claims, no entries arrive, and a worker may acknowledge position 0.
pub async fn nothing_comes_of_an_empty_log<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        for _ in 0..2 {
            let taken = worker.take(partition, 0, LIMIT, SHORT).await;
            assert_eq!(taken, Ok(Vec::new()));
            assert_eq!(worker.ack(partition, 0).await, Ok(()));
        }
    }
}

/// Runs of any size follow each other.
pub async fn entries_come_in_order_and_settled_ones_never_again<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let packet = fixture
        .open(red_packet(90_000, 300, SplitRule::DoubleAverage { min: 1 }))
        .await;
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(packet, 0..320).await;
    fixture.claim(sale, 0..100).await;
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        let head = fixture.head(partition).await;
        assert!(head > 100, "both partitions have a shard: {head}");
        while fixture.settled(partition).await < head {
            let run = fixture.take_some(&*worker, partition, 7).await;
            let settled = fixture.ledger().settle(partition, &run).await;
            let acked = worker.ack(partition, settled.expect("it settles")).await;
            assert_eq!(acked, Ok(()));
        }
        let taken = worker.take(partition, head, LIMIT, SHORT).await;
        assert_eq!(taken, Ok(Vec::new()));
        let status = worker.status(partition);
        assert_eq!((status.waiting, status.unreadable), (0, 0));
        assert_eq!(status.stuck, None);
    }
    fixture.assert_nothing_refilled(&*worker);
}

/// A worker that took entries and could not settle takes the same entries again.
pub async fn what_is_not_acknowledged_comes_again<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..50).await;
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        let first = fixture.take_some(&*worker, partition, 5).await;
        let again = fixture.take_some(&*worker, partition, 5).await;
        assert_eq!(first, again);
        let more = fixture.take(&*worker, partition).await;
        assert_eq!(first[..], more[..5]);
        assert!(worker.status(partition).waiting > 5);
    }
    fixture.assert_nothing_refilled(&*worker);
    worker.release_ownership().await;
}

/// A worker dies after it took entries. In one partition it dies before the ledger's commit, in the other between
/// commit and acknowledgement, in the middle of a run.
pub async fn what_a_dead_worker_took_comes_to_another<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..300).await;
    let [before, after] = fixture.partitions()[..] else {
        panic!("two partitions");
    };
    let dying = fixture.worker("dying").await;
    fixture.take(&*dying, before).await;
    let run = fixture.take(&*dying, after).await;
    let half = &run[..run.len() / 2];
    fixture
        .ledger()
        .settle(after, half)
        .await
        .expect("it settles");
    drop(dying);
    let heir = fixture.worker("heir").await;
    let began = Instant::now();
    for partition in [before, after] {
        let wait_max = S::TAKEOVER_MAX + SOON;
        let taken = fixture.try_take(&*heir, partition, LIMIT, wait_max).await;
        let run = taken.expect("a worker takes");
        assert!(
            !run.is_empty(),
            "the next worker got no entries of {partition:?}"
        );
    }
    let took = began.elapsed();
    assert!(
        took < 2 * S::TAKEOVER_MAX + SOON,
        "the takeover took {took:?}"
    );
    fixture.settle_all(&*heir).await;
    fixture.assert_nothing_refilled(&*heir);
}

/// A worker that releases its partitions saves the next one the wait for the lease to expire. Entries that it took and
/// did not acknowledge are not lost.
pub async fn a_worker_that_releases_its_partitions_is_followed_at_once<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..50).await;
    let (first, second) = (
        fixture.worker("first").await,
        fixture.worker("second").await,
    );
    for partition in fixture.partitions() {
        fixture.take(&*first, partition).await;
        let taken = fixture.try_take(&*second, partition, LIMIT, SHORT).await;
        assert_eq!(
            taken,
            Ok(Vec::new()),
            "only one worker takes entries of a partition"
        );
    }
    first.release_ownership().await;
    for partition in fixture.partitions() {
        fixture.take(&*second, partition).await;
    }
    fixture.settle_all(&*second).await;
    fixture.assert_nothing_refilled(&*second);
}

/// Two workers settle all partitions concurrently while users claim.
pub async fn workers_at_once_settle_everything_once<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let packet = fixture
        .open(red_packet(
            900_000,
            900,
            SplitRule::DoubleAverage { min: 1 },
        ))
        .await;
    let (one, two) = (fixture.worker("one").await, fixture.worker("two").await);
    let over = AtomicBool::new(false);
    let work = async |worker: &dyn Worker| {
        while !over.load(Ordering::Relaxed) {
            for partition in fixture.partitions() {
                // If the other worker has settled these entries, the ledger ignores them or refuses a gap.
                drop(
                    fixture
                        .step(worker, partition, Duration::from_millis(5))
                        .await,
                );
            }
        }
    };
    let claim = async {
        for start in (0..900).step_by(100) {
            fixture.claim(packet, start..start + 100).await;
        }
        let until = Instant::now() + SETTLE_MAX;
        for partition in fixture.partitions() {
            let head = fixture.head(partition).await;
            while fixture.settled(partition).await < head {
                assert!(
                    Instant::now() < until,
                    "the workers have not settled all entries in time"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join3(work(&*one), work(&*two), claim).await;
    one.release_ownership().await;
    two.release_ownership().await;
}

/// Entries that are already in the ledger are not taken again, whichever worker settled them.
pub async fn entries_settled_by_another_worker_are_passed_over<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..100).await;
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        let run = fixture.take(&*worker, partition).await;
        let part = &run[..run.len() / 3];
        fixture
            .ledger()
            .settle(partition, part)
            .await
            .expect("it settles");
        let rest = fixture.take(&*worker, partition).await;
        assert_eq!(rest[0].seq, part.len() as u64 + 1);
    }
    worker.release_ownership().await;
}

/// While a worker waits, another one settles, and the log drops settled entries. The first worker reports neither a gap
/// nor damage.
pub async fn a_position_may_grow_old_while_a_worker_waits<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..50).await;
    let (first, second) = (
        fixture.worker("first").await,
        fixture.worker("second").await,
    );
    let mut positions = Vec::new();
    for partition in fixture.partitions() {
        fixture.take_some(&*first, partition, 5).await;
        positions.push((partition, fixture.settled(partition).await));
    }
    fixture.settle_all(&*first).await;
    first.release_ownership().await;
    fixture.claim(sale, 50..100).await;
    for (partition, old) in positions {
        let taken = second.take(partition, old, LIMIT, SOON).await;
        assert_eq!(taken, Ok(Vec::new()));
        assert!(!fixture.take(&*second, partition).await.is_empty());
    }
    fixture.settle_all(&*second).await;
    fixture.assert_nothing_refilled(&*second);
}

/// A worker that is stopped during a wait, just when entries arrive, loses no entry.
pub async fn a_take_may_be_dropped_at_any_time<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    let worker = fixture.worker("w").await;
    fixture.settle_all(&*worker).await;
    for round in 0..10 {
        let claims = fixture.claim(sale, round * 10..round * 10 + 10);
        let partition = fixture.partitions()[round as usize % 2];
        let take = fixture.try_take(&*worker, partition, LIMIT, SOON);
        let brief = Duration::from_millis(u64::from(round % 5));
        let dropped = tokio::time::timeout(brief, take);
        drop(futures_util::future::join(claims, dropped).await);
    }
    fixture.settle_all(&*worker).await;
    fixture.assert_nothing_refilled(&*worker);
}

/// Single claims make records of one entry. One transaction should settle many records.
pub async fn small_records_come_in_large_runs<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    for n in 0..200 {
        fixture.claim(sale, n..n + 1).await;
    }
    let worker = fixture.worker("w").await;
    let mut runs = 0;
    for partition in fixture.partitions() {
        let until = Instant::now() + SETTLE_MAX;
        let head = fixture.head(partition).await;
        while fixture.settled(partition).await < head {
            assert!(
                Instant::now() < until,
                "not all entries are settled in time"
            );
            let step = fixture.step(&*worker, partition, SOON).await;
            runs += usize::from(step.expect("it settles"));
        }
    }
    assert!(runs <= 20, "{runs} runs for 200 records");
    fixture.assert_nothing_refilled(&*worker);
}

/// The log drops settled entries, so that its size stays bounded, and no other entries.
pub async fn settled_entries_are_forgotten_and_no_others<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    for start in (0..200).step_by(20) {
        fixture.claim(sale, start..start + 20).await;
    }
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        let run = fixture.take_some(&*worker, partition, 40).await;
        let log = fixture.subject.log();
        let left = log.read(partition, 0, usize::MAX).await;
        assert_eq!(
            left.expect("the log is read")[0].seq,
            1,
            "nothing is settled"
        );
        let settled = fixture.ledger().settle(partition, &run).await;
        let settled = settled.expect("it settles");
        assert_eq!(worker.ack(partition, settled).await, Ok(()));
        let left = log.read(partition, 0, usize::MAX).await;
        let left = left.expect("the log is read");
        assert!((2..=settled + 1).contains(&left[0].seq), "{}", left[0].seq);
        assert_eq!(
            left.last().map(|entry| entry.seq),
            Some(fixture.head(partition).await)
        );
    }
    fixture.settle_all(&*worker).await;
    for partition in fixture.partitions() {
        let left = fixture.subject.log().read(partition, 0, usize::MAX).await;
        assert_eq!(left, Ok(Vec::new()), "all entries are settled");
    }
}
