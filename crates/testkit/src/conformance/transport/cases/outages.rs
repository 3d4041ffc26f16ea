//! Cases in which a server, a ledger or a transport fails.

use super::*;

/// Every server is killed after a worker took entries and before it settled them.
pub async fn servers_may_die_and_come_back<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..200).await;
    let worker = fixture.worker("w").await;
    let [one, other] = fixture.partitions()[..] else {
        panic!("two partitions");
    };
    let run = fixture.take_some(&*worker, one, 20).await;
    fixture.take_some(&*worker, other, 20).await;
    fixture.subject.kill_servers().await;
    let settled = fixture
        .ledger()
        .settle(one, &run)
        .await
        .expect("it settles");
    let began = Instant::now();
    assert!(worker.ack(one, settled).await.is_err(), "Redis is down");
    assert!(worker.ack(other, 0).await.is_err(), "Redis is still down");
    assert!(worker.status(other).stuck.is_some());
    assert!(
        began.elapsed() < SOON,
        "the failures took {:?}",
        began.elapsed()
    );
    fixture.subject.start_servers().await;
    fixture.claim(sale, 200..300).await;
    fixture.settle_all(&*worker).await;
    let until = Instant::now() + SETTLE_MAX;
    while worker.status(other).stuck.is_some() {
        assert!(Instant::now() < until, "the worker does not recover");
        drop(fixture.step(&*worker, other, SHORT).await);
    }
}

/// Servers are killed and restarted while a worker settles and users claim.
pub async fn a_worker_outlives_its_servers_while_claims_go_on<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let packet = fixture
        .open(red_packet(
            900_000,
            900,
            SplitRule::DoubleAverage { min: 1 },
        ))
        .await;
    let worker = fixture.worker("w").await;
    let over = AtomicBool::new(false);
    let settle = async {
        while !over.load(Ordering::Relaxed) {
            for partition in fixture.partitions() {
                if fixture.step(&*worker, partition, SHORT).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    };
    let claim = async {
        fixture.claim(packet, 0..300).await;
        futures_util::future::join(fixture.claim(packet, 300..600), async {
            fixture.subject.kill_servers().await;
            fixture.subject.start_servers().await;
        })
        .await;
        fixture.claim(packet, 300..900).await;
        over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join(settle, claim).await;
    fixture.settle_all(&*worker).await;
    worker.release_ownership().await;
}

/// The ledger fails over to an older copy or is restored from a dump. Its lost entries are settled again from the log,
/// unchanged. This works for the worker that had settled them and for another one, during grants.
pub async fn a_ledger_that_is_set_back_is_filled_up_again<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let split = SplitRule::DoubleAverage { min: 1 };
    let packet = fixture.open(red_packet(90_000, 900, split)).await;
    let sale = fixture.open(sale(STOCK)).await;
    let worker = fixture.worker("w").await;
    fixture.claim(packet, 0..300).await;
    fixture.claim(sale, 0..300).await;
    fixture.settle_all(&*worker).await;
    fixture.subject.dump_ledger("early").await;
    for start in (300..900).step_by(100) {
        fixture.claim(packet, start..start + 100).await;
        fixture.claim(sale, start..start + 100).await;
        fixture.settle_all(&*worker).await;
    }
    let settled = async |fixture: &Fixture<S>| {
        let mut positions = Vec::new();
        for partition in fixture.partitions() {
            positions.push(fixture.settled(partition).await);
        }
        positions
    };
    let before = settled(fixture).await;
    fixture.subject.restore_ledger("early").await;
    let back = settled(fixture).await;
    assert!(back.iter().zip(&before).all(|(back, before)| back < before));
    fixture.claim(sale, 900..1_000).await;
    fixture.settle_all(&*worker).await;
    worker.release_ownership().await;

    fixture.subject.restore_ledger("early").await;
    assert_eq!(settled(fixture).await, back);
    let heir = fixture.worker("heir").await;
    fixture.claim(sale, 1_000..1_100).await;
    fixture.settle_all(&*heir).await;
    heir.release_ownership().await;
}

/// Entries that the log no longer has are not skipped. The worker reports which are missing and how to continue.
pub async fn a_ledger_that_is_set_back_too_far_is_said<S: TransportSubject>(
    fixture: &mut Fixture<S>,
) {
    let sale = fixture.open(sale(STOCK)).await;
    let worker = fixture.worker("w").await;
    fixture.claim(sale, 0..50).await;
    fixture.settle_all(&*worker).await;
    fixture.subject.dump_ledger("old").await;
    let positions = async |fixture: &Fixture<S>| {
        let [one, other] = fixture.partitions()[..] else {
            panic!("two partitions");
        };
        [
            (one, fixture.settled(one).await),
            (other, fixture.settled(other).await),
        ]
    };
    let kept = positions(fixture).await;
    fixture.claim(sale, 50..100).await;
    fixture.settle_all(&*worker).await;
    let lost = positions(fixture).await;
    fixture.subject.dump_ledger("new").await;
    fixture.subject.forget_settled().await;
    fixture.claim(sale, 100..150).await;
    fixture.subject.restore_ledger("old").await;
    for ((partition, kept), (_, lost)) in kept.into_iter().zip(lost) {
        let (first, last) = (kept + 1, lost);
        let gone = Err(LedgerError::LogGone { first, last });
        let until = Instant::now() + SETTLE_MAX;
        while worker.take(partition, kept, LIMIT, SHORT).await != gone {
            assert!(Instant::now() < until, "{:?}", worker.status(partition));
        }
        let stuck = worker.status(partition).stuck.expect("a reason");
        let says = format!("entries {first} to {last} are gone from the log: run `qiang reconcile");
        assert!(stuck.contains(&says), "{stuck}");
    }
    // With a copy that has these entries, the worker continues automatically.
    fixture.subject.restore_ledger("new").await;
    fixture.settle_all(&*worker).await;
    worker.release_ownership().await;
}

/// Records sent before a rebuild of the partition belong to a lost history. They are dropped, and the entries of the
/// new history are taken.
pub async fn what_is_of_another_epoch_is_dropped<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    let worker = fixture.worker("w").await;
    fixture.settle_all(&*worker).await;
    let brought = fixture.subject.bring_stale(sale.id).await;
    for partition in fixture.partitions() {
        let after = fixture.settled(partition).await;
        let taken = worker.take(partition, after, LIMIT, SHORT).await;
        assert_eq!(taken, Ok(Vec::new()), "{brought}");
    }
    fixture.claim(sale, 0..50).await;
    fixture.settle_all(&*worker).await;
    for partition in fixture.partitions() {
        let status = worker.status(partition);
        assert_eq!(
            (status.unreadable, status.unacknowledged),
            (0, 0),
            "{status:?}"
        );
    }
    worker.release_ownership().await;
}

/// The group, list or queue disappears while entries are in flight, as after a restart of the server without data.
pub async fn a_transport_that_is_lost_is_made_anew<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..100).await;
    let worker = fixture.worker("w").await;
    for partition in fixture.partitions() {
        fixture.take_some(&*worker, partition, 10).await;
        assert!(
            fixture
                .step(&*worker, partition, SOON)
                .await
                .expect("it settles")
        );
    }
    fixture.claim(sale, 100..200).await;
    fixture.subject.lose_transport().await;
    fixture.claim(sale, 200..300).await;
    fixture.settle_all(&*worker).await;
    fixture.claim(sale, 300..400).await;
    fixture.settle_all(&*worker).await;
    let remade = fixture
        .partitions()
        .into_iter()
        .map(|p| worker.status(p).remade);
    assert!(remade.min() >= Some(1), "no worker has noticed the loss");
    worker.release_ownership().await;
}

/// An unreadable record is skipped, and the entries that it may have carried are read from the log.
pub async fn what_cannot_be_read_holds_up_nothing<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(STOCK)).await;
    fixture.claim(sale, 0..100).await;
    let worker = fixture.worker("w").await;
    fixture.settle_all(&*worker).await;
    let spoilt = fixture.subject.spoil().await;
    fixture.claim(sale, 100..200).await;
    fixture.settle_all(&*worker).await;
    for partition in fixture.partitions() {
        let status = worker.status(partition);
        assert_eq!(status.unreadable, u64::from(spoilt), "{status:?}");
        assert_eq!(status.stuck, None);
    }
    worker.release_ownership().await;
}
