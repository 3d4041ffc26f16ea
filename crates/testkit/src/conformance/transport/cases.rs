//! The cases for transports.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use qiang_core::{ports::Taken, split::SplitRule};

use super::{
    Bench, TransportSubject,
    bench::{CARRY_MAX, LIMIT, SHORT, SOON},
};
use crate::campaign::{red_packet, sale};

/// More than any case grants.
const STOCK: u32 = 10_000;

/// Where nobody claimed, nothing comes, and a worker may say that nothing is settled.
pub async fn nothing_comes_of_an_empty_log<S: TransportSubject>(bench: &mut Bench<S>) {
    let worker = bench.worker("w").await;
    assert_eq!(worker.partitions(), bench.partitions());
    for partition in bench.partitions() {
        for _ in 0..2 {
            let taken = worker.take(partition, 0, LIMIT, SHORT).await;
            assert_eq!(taken, Ok(Taken::Nothing));
            assert_eq!(worker.done(partition, 0).await, Ok(()));
        }
    }
}

/// Runs follow each other, whatever their size.
pub async fn entries_come_in_order_and_settled_ones_never_again<S: TransportSubject>(
    bench: &mut Bench<S>,
) {
    let packet = bench
        .open(red_packet(90_000, 300, SplitRule::DoubleAverage { min: 1 }))
        .await;
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(packet, 0..320).await;
    bench.crowd(sale, 0..100).await;
    let worker = bench.worker("w").await;
    for partition in bench.partitions() {
        let head = bench.head(partition).await;
        assert!(head > 100, "both partitions have a part: {head}");
        while bench.settled(partition).await < head {
            let run = bench.take_some(&*worker, partition, 7).await;
            let settled = bench.ledger().settle(partition, &run).await;
            let done = worker.done(partition, settled.expect("it settles")).await;
            assert_eq!(done, Ok(()));
        }
        let taken = worker.take(partition, head, LIMIT, SHORT).await;
        assert_eq!(taken, Ok(Taken::Nothing));
        let status = worker.status(partition);
        assert_eq!((status.waiting, status.unreadable), (0, 0));
        assert_eq!(status.stuck, None);
    }
    bench.all_was_brought(&*worker);
}

/// A worker that took and could not settle takes the same again.
pub async fn what_is_not_done_comes_again<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..50).await;
    let worker = bench.worker("w").await;
    for partition in bench.partitions() {
        let first = bench.take_some(&*worker, partition, 5).await;
        let again = bench.take_some(&*worker, partition, 5).await;
        assert_eq!(first, again);
        let more = bench.take(&*worker, partition).await;
        assert_eq!(first[..], more[..5]);
        assert!(worker.status(partition).waiting > 5);
    }
    bench.all_was_brought(&*worker);
    worker.leave().await;
}

/// A worker dies after it took: before the ledger's commit in one partition, after it and before it said so in the
/// other, and in the middle of a run.
pub async fn what_a_dead_worker_took_comes_to_another<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..300).await;
    let [before, after] = bench.partitions()[..] else {
        panic!("two partitions");
    };
    let dying = bench.worker("dying").await;
    bench.take(&*dying, before).await;
    let run = bench.take(&*dying, after).await;
    let half = &run[..run.len() / 2];
    bench
        .ledger()
        .settle(after, half)
        .await
        .expect("it settles");
    drop(dying);
    let heir = bench.worker("heir").await;
    let began = Instant::now();
    for partition in [before, after] {
        let wait_max = S::TAKEOVER_MAX + SOON;
        let taken = bench.try_take(&*heir, partition, LIMIT, wait_max).await;
        let run = taken.expect("a worker takes");
        assert!(!run.is_empty(), "the heir got nothing of {partition:?}");
    }
    let took = began.elapsed();
    assert!(
        took < 2 * S::TAKEOVER_MAX + SOON,
        "the takeover took {took:?}"
    );
    bench.carry_all(&*heir).await;
    bench.all_was_brought(&*heir);
}

/// A farewell saves the wait for a lease to lapse; what was taken and not done is not lost by it.
pub async fn a_worker_that_leaves_is_followed_at_once<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..50).await;
    let (first, second) = (bench.worker("first").await, bench.worker("second").await);
    for partition in bench.partitions() {
        bench.take(&*first, partition).await;
        let taken = bench.try_take(&*second, partition, LIMIT, SHORT).await;
        assert_eq!(taken, Ok(Vec::new()), "one worker has a partition");
    }
    first.leave().await;
    for partition in bench.partitions() {
        bench.take(&*second, partition).await;
    }
    bench.carry_all(&*second).await;
    bench.all_was_brought(&*second);
}

/// Two workers race over all partitions while the crowd claims.
pub async fn workers_at_once_settle_everything_once<S: TransportSubject>(bench: &mut Bench<S>) {
    let packet = bench
        .open(red_packet(
            900_000,
            900,
            SplitRule::DoubleAverage { min: 1 },
        ))
        .await;
    let (one, two) = (bench.worker("one").await, bench.worker("two").await);
    let over = AtomicBool::new(false);
    let work = async |worker: &dyn qiang_core::ports::Transport| {
        while !over.load(Ordering::Relaxed) {
            for partition in bench.partitions() {
                // Another worker may have settled meanwhile: then the ledger takes nothing twice, or refuses a gap.
                drop(
                    bench
                        .step(worker, partition, Duration::from_millis(5))
                        .await,
                );
            }
        }
    };
    let claim = async {
        for start in (0..900).step_by(100) {
            bench.crowd(packet, start..start + 100).await;
        }
        let until = Instant::now() + CARRY_MAX;
        for partition in bench.partitions() {
            let head = bench.head(partition).await;
            while bench.settled(partition).await < head {
                assert!(Instant::now() < until, "the workers do not settle");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join3(work(&*one), work(&*two), claim).await;
    one.leave().await;
    two.leave().await;
}

/// What the ledger has already is not handed out, however it got there.
pub async fn entries_settled_by_somebody_else_are_passed_over<S: TransportSubject>(
    bench: &mut Bench<S>,
) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..100).await;
    let worker = bench.worker("w").await;
    for partition in bench.partitions() {
        let run = bench.take(&*worker, partition).await;
        let part = &run[..run.len() / 3];
        bench
            .ledger()
            .settle(partition, part)
            .await
            .expect("it settles");
        let rest = bench.take(&*worker, partition).await;
        assert_eq!(rest[0].seq, part.len() as u64 + 1);
    }
    worker.leave().await;
}

/// While a worker waits, another one settles, and the log forgets what is settled: that is no gap, and no damage.
pub async fn a_position_may_grow_old_while_a_worker_waits<S: TransportSubject>(
    bench: &mut Bench<S>,
) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..50).await;
    let (first, second) = (bench.worker("first").await, bench.worker("second").await);
    let mut positions = Vec::new();
    for partition in bench.partitions() {
        bench.take_some(&*first, partition, 5).await;
        positions.push((partition, bench.settled(partition).await));
    }
    bench.carry_all(&*first).await;
    first.leave().await;
    bench.crowd(sale, 50..100).await;
    for (partition, old) in positions {
        let taken = second.take(partition, old, LIMIT, SOON).await;
        assert_eq!(taken, Ok(Taken::Nothing));
        assert!(!bench.take(&*second, partition).await.is_empty());
    }
    bench.carry_all(&*second).await;
    bench.all_was_brought(&*second);
}

/// Nothing is lost when a worker is stopped while it waits, at the moment when something comes.
pub async fn a_take_may_be_dropped_at_any_time<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    let worker = bench.worker("w").await;
    bench.carry_all(&*worker).await;
    for round in 0..10 {
        let claims = bench.crowd(sale, round * 10..round * 10 + 10);
        let partition = bench.partitions()[round as usize % 2];
        let take = bench.try_take(&*worker, partition, LIMIT, SOON);
        let brief = Duration::from_millis(u64::from(round % 5));
        let dropped = tokio::time::timeout(brief, take);
        drop(futures_util::future::join(claims, dropped).await);
    }
    bench.carry_all(&*worker).await;
    bench.all_was_brought(&*worker);
}

/// One claim at a time makes records of one entry; a transaction is to take many of them.
pub async fn small_records_come_in_large_runs<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    for n in 0..200 {
        bench.crowd(sale, n..n + 1).await;
    }
    let worker = bench.worker("w").await;
    let mut runs = 0;
    for partition in bench.partitions() {
        let until = Instant::now() + CARRY_MAX;
        let head = bench.head(partition).await;
        while bench.settled(partition).await < head {
            assert!(Instant::now() < until, "not all is carried");
            let step = bench.step(&*worker, partition, SOON).await;
            runs += usize::from(step.expect("it settles"));
        }
    }
    assert!(runs <= 20, "{runs} runs for 200 records");
    bench.all_was_brought(&*worker);
}

/// The log forgets what is settled, so that it does not grow for ever; and nothing else.
pub async fn settled_entries_are_forgotten_and_no_others<S: TransportSubject>(
    bench: &mut Bench<S>,
) {
    let sale = bench.open(sale(STOCK)).await;
    for start in (0..200).step_by(20) {
        bench.crowd(sale, start..start + 20).await;
    }
    let worker = bench.worker("w").await;
    for partition in bench.partitions() {
        let run = bench.take_some(&*worker, partition, 40).await;
        let log = bench.subject.log();
        let left = log.read(partition, 0, usize::MAX).await;
        assert_eq!(
            left.expect("the log is read")[0].seq,
            1,
            "nothing is settled"
        );
        let settled = bench.ledger().settle(partition, &run).await;
        let settled = settled.expect("it settles");
        assert_eq!(worker.done(partition, settled).await, Ok(()));
        let left = log.read(partition, 0, usize::MAX).await;
        let left = left.expect("the log is read");
        assert!((2..=settled + 1).contains(&left[0].seq), "{}", left[0].seq);
        assert_eq!(
            left.last().map(|entry| entry.seq),
            Some(bench.head(partition).await)
        );
    }
    bench.carry_all(&*worker).await;
    for partition in bench.partitions() {
        let left = bench.subject.log().read(partition, 0, usize::MAX).await;
        assert_eq!(left, Ok(Vec::new()), "all is settled");
    }
}

/// Every server is killed after a worker has taken and before it has settled.
pub async fn servers_may_die_and_come_back<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..200).await;
    let worker = bench.worker("w").await;
    let [one, other] = bench.partitions()[..] else {
        panic!("two partitions");
    };
    let run = bench.take_some(&*worker, one, 20).await;
    bench.take_some(&*worker, other, 20).await;
    bench.subject.kill_servers().await;
    let settled = bench.ledger().settle(one, &run).await.expect("it settles");
    let began = Instant::now();
    assert!(worker.done(one, settled).await.is_err(), "nobody was told");
    assert!(worker.done(other, 0).await.is_err(), "nor now");
    assert!(worker.status(other).stuck.is_some());
    assert!(
        began.elapsed() < SOON,
        "an answer came: {:?}",
        began.elapsed()
    );
    bench.subject.start_servers().await;
    bench.crowd(sale, 200..300).await;
    bench.carry_all(&*worker).await;
    let until = Instant::now() + CARRY_MAX;
    while worker.status(other).stuck.is_some() {
        assert!(Instant::now() < until, "it does not recover");
        drop(bench.step(&*worker, other, SHORT).await);
    }
}

/// The servers are killed and come back while workers carry and the crowd claims.
pub async fn a_worker_outlives_its_servers_while_claims_go_on<S: TransportSubject>(
    bench: &mut Bench<S>,
) {
    let packet = bench
        .open(red_packet(
            900_000,
            900,
            SplitRule::DoubleAverage { min: 1 },
        ))
        .await;
    let worker = bench.worker("w").await;
    let over = AtomicBool::new(false);
    let carry = async {
        while !over.load(Ordering::Relaxed) {
            for partition in bench.partitions() {
                if bench.step(&*worker, partition, SHORT).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    };
    let claim = async {
        bench.crowd(packet, 0..300).await;
        futures_util::future::join(bench.crowd(packet, 300..600), async {
            bench.subject.kill_servers().await;
            bench.subject.start_servers().await;
        })
        .await;
        bench.crowd(packet, 300..900).await;
        over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join(carry, claim).await;
    bench.carry_all(&*worker).await;
    worker.leave().await;
}

/// The group, list or queue disappears while entries are under way, as after a server that came back empty.
pub async fn a_carrier_that_is_lost_is_made_anew<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..100).await;
    let worker = bench.worker("w").await;
    for partition in bench.partitions() {
        bench.take_some(&*worker, partition, 10).await;
        assert!(
            bench
                .step(&*worker, partition, SOON)
                .await
                .expect("it settles")
        );
    }
    bench.crowd(sale, 100..200).await;
    bench.subject.lose_carrier().await;
    bench.crowd(sale, 200..300).await;
    bench.carry_all(&*worker).await;
    bench.crowd(sale, 300..400).await;
    bench.carry_all(&*worker).await;
    let remade = bench
        .partitions()
        .into_iter()
        .map(|p| worker.status(p).remade);
    assert!(remade.min() >= Some(1), "nobody has noticed");
    worker.leave().await;
}

/// Something that cannot be read is put aside, and what it may have stood for is read from the log.
pub async fn what_cannot_be_read_holds_up_nothing<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(STOCK)).await;
    bench.crowd(sale, 0..100).await;
    let worker = bench.worker("w").await;
    bench.carry_all(&*worker).await;
    let spoilt = bench.subject.spoil().await;
    bench.crowd(sale, 100..200).await;
    bench.carry_all(&*worker).await;
    for partition in bench.partitions() {
        let status = worker.status(partition);
        assert_eq!(status.unreadable, u64::from(spoilt), "{status:?}");
        assert_eq!(status.stuck, None);
    }
    worker.leave().await;
}
