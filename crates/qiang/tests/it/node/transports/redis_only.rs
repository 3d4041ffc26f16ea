//! Tests of the transports on Redis alone: they leave no keys in Redis, and touch no keys of others.

use std::time::Duration;

use qiang_core::{event::PartitionId, ports::EventLog as _};
use qiang_redis::{
    LogTransportKind, RedisEngine, RedisOptions, TransportOptions, remove_transports,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
    conformance::transport::{Fixture, TransportSubject, run},
};

use crate::node::ledgers::InFile;
use crate::node::transports::on_redis::{Ends, List, Stream};

const SOON: Duration = Duration::from_secs(10);
/// Records of one entry each, in both partitions together: more than two reads of the transport return.
const SINGLES: u32 = 700;

/// Retention for entries that must be trimmed soon.
const BRIEF: Duration = Duration::from_secs(1);
/// Retention longer than any case.
const LONG: Duration = Duration::from_secs(3_600);

/// Makes claims one after another, so that each makes its own record.
async fn claim_singly<S: TransportSubject>(fixture: &mut Fixture<S>) {
    let sale = fixture.open(sale(10_000)).await;
    for n in 0..SINGLES {
        fixture.claim(sale, n..n + 1).await;
    }
}

#[test]
fn what_a_dead_worker_moved_goes_back_in_order() {
    run(false, async |fixture: &mut Fixture<List>| {
        claim_singly(fixture).await;
        let dying = fixture.worker("dying").await;
        for partition in fixture.partitions() {
            fixture.take_some(&*dying, partition, 100).await;
        }
        drop(dying);
        let heir = fixture.worker("heir").await;
        fixture.settle_all(&*heir).await;
        fixture.assert_nothing_refilled(&*heir);
    });
}

/// A recreated group continues after the ledger's position. It repeats no settled entry and skips no other entry.
#[test]
fn a_group_is_made_anew_from_the_right_position() {
    run(false, async |fixture: &mut Fixture<Stream>| {
        claim_singly(fixture).await;
        let worker = fixture.worker("w").await;
        for partition in fixture.partitions() {
            let run = fixture.take_some(&*worker, partition, 50).await;
            let settled = fixture.ledger().settle(partition, &run).await;
            assert_eq!(settled, Ok(50));
        }
        fixture.subject.lose_transport().await;
        let after = fixture.worker("after").await;
        worker.release_ownership().await;
        for partition in fixture.partitions() {
            fixture.take_some(&*after, partition, usize::MAX).await;
            let pending = fixture.subject.pending(partition);
            let left = fixture.head(partition).await - 50;
            assert_eq!(pending, i64::try_from(left).expect("a small number"));
        }
        fixture.settle_all(&*after).await;
        fixture.assert_nothing_refilled(&*after);
    });
}

#[test]
fn many_pending_records_of_a_dead_worker_come_in_order() {
    run(false, async |fixture: &mut Fixture<Stream>| {
        claim_singly(fixture).await;
        let dying = fixture.worker("dying").await;
        for partition in fixture.partitions() {
            fixture.take_some(&*dying, partition, usize::MAX).await;
        }
        drop(dying);
        for partition in fixture.partitions() {
            let pending = fixture.subject.pending(partition);
            assert!(pending > 256, "only {pending} records are pending");
        }
        let heir = fixture.worker("heir").await;
        fixture.settle_all(&*heir).await;
        fixture.assert_nothing_refilled(&*heir);
        for partition in fixture.partitions() {
            assert_eq!(fixture.subject.pending(partition), 0);
        }
    });
}

#[test]
fn what_another_group_has_not_dealt_with_stays_in_the_log() {
    run(false, async |fixture: &mut Fixture<Stream>| {
        let partition = fixture.partitions()[0];
        let log = fixture.subject.ends().key(partition, "log");
        let ends = fixture.subject.ends();
        ends.call(&["XGROUP", "CREATE", &log, "others", "0"]);
        claim_singly(fixture).await;
        let call = |words: &[&str]| fixture.subject.ends().call(words);
        let worker = fixture.worker("w").await;
        let first = async || {
            let left = fixture.subject.log().read(partition, 0, usize::MAX).await;
            left.expect("the log is read")
                .first()
                .map(|entry| entry.seq)
        };
        fixture.settle_all(&*worker).await;
        assert_eq!(first().await, Some(1), "the other group has read nothing");
        let read = [
            "XREADGROUP",
            "GROUP",
            "others",
            "o",
            "COUNT",
            "30",
            "STREAMS",
        ];
        call(&[&read[..], &[&log, ">"]].concat());
        let settled = fixture.settled(partition).await;
        assert_eq!(worker.ack(partition, settled).await, Ok(()));
        assert_eq!(
            first().await,
            Some(1),
            "the other group has acknowledged nothing"
        );
        let ids: Vec<String> = (1..=20).map(|seq| format!("{seq}-0")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        call(&[&["XACK", &log, "others"], &ids[..]].concat());
        assert_eq!(worker.ack(partition, settled).await, Ok(()));
        assert_eq!(
            first().await,
            Some(21),
            "the other group has acknowledged the first 20"
        );
        call(&["XGROUP", "DESTROY", &log, "others"]);
        assert_eq!(worker.ack(partition, settled).await, Ok(()));
        assert_eq!(first().await, None);
    });
}

/// The log keeps settled entries for the configured time, within the configured bytes. If Redis has no memory
/// left, it keeps none of them.
#[test]
fn what_is_settled_is_kept_for_a_while() {
    run(true, async |fixture: &mut Fixture<Stream>| {
        claim_singly(fixture).await;
        let worker = fixture.worker("w").await;
        fixture.settle_all(&*worker).await;
        worker.release_ownership().await;
        let partition = fixture.partitions()[0];
        let settled = fixture.settled(partition).await;
        let ends = fixture.subject.ends();
        let log = ends.key(partition, "log");
        let left = || u64::try_from(ends.number(&["XLEN", &log])).expect("a count");
        assert_eq!(left(), settled, "records of one entry each");
        let bytes = ends.number(&["MEMORY", "USAGE", &log]);
        let bytes = u64::try_from(bytes).expect("a size");

        let engine = async |retain, retain_bytes| {
            let options = RedisOptions {
                retain,
                retain_bytes: retain_bytes * u64::from(ends.options.partitions),
                ..ends.options.clone()
            };
            let engine = RedisEngine::connect(options, &[]).await;
            engine.unwrap_or_else(|error| panic!("{error:?}"))
        };
        let keeps = engine(LONG, 2 * bytes).await;
        assert_eq!(keeps.release(partition, settled).await, Ok(()));
        assert_eq!(left(), settled);
        let half = engine(LONG, bytes / 2).await;
        assert_eq!(half.release(partition, settled).await, Ok(()));
        assert!(
            (settled / 4..=settled * 3 / 4).contains(&left()),
            "{} of {settled}",
            left()
        );

        // The ledger is set back. Entries after its position are unsettled again, and their retention starts anew.
        let back = settled - left() / 2;
        let brief = engine(BRIEF, 2 * bytes).await;
        assert_eq!(brief.release(partition, back).await, Ok(()));
        tokio::time::sleep(BRIEF).await;
        assert_eq!(brief.release(partition, settled).await, Ok(()));
        assert_eq!(left(), settled - back, "these were settled again just now");
        tokio::time::sleep(BRIEF).await;
        assert_eq!(brief.release(partition, settled).await, Ok(()));
        assert_eq!(left(), 0);

        let sale = fixture.open(sale(10_000)).await;
        fixture.claim(sale, 0..50).await;
        let worker = fixture.worker("w").await;
        fixture.settle_all(&*worker).await;
        worker.release_ownership().await;
        let ends = fixture.subject.ends();
        let left = || ends.number(&["XLEN", &log]);
        assert!(left() > 0);
        ends.call(&["CONFIG", "SET", "maxmemory", "1"]);
        let settled = fixture.settled(partition).await;
        assert_eq!(keeps.release(partition, settled).await, Ok(()));
        assert_eq!(left(), 0, "grants need the memory");
        ends.call(&["CONFIG", "SET", "maxmemory", "0"]);
        for engine in [keeps, half, brief] {
            engine.close().await;
        }
    });
}

#[test]
fn a_list_is_empty_when_all_is_settled() {
    run(false, async |fixture: &mut Fixture<List>| {
        claim_singly(fixture).await;
        let worker = fixture.worker("w").await;
        let partition = fixture.partitions()[0];
        fixture.take_some(&*worker, partition, 100).await;
        let length = |key: &str| fixture.subject.ends().number(&["LLEN", key]);
        let (queue, doing, dead) = (
            fixture.subject.ends().key(partition, "queue"),
            fixture.subject.ends().key(partition, "doing"),
            fixture.subject.ends().key(partition, "dead"),
        );
        assert!(length(&queue) > 100 && length(&doing) >= 100);
        fixture.settle_all(&*worker).await;
        assert_eq!((length(&queue), length(&doing), length(&dead)), (0, 0, 0));
    });
}

/// A slow worker has lost its lease. It moves no records, and nothing is lost.
#[test]
fn a_worker_without_its_lease_moves_nothing() {
    run(false, async |fixture: &mut Fixture<List>| {
        claim_singly(fixture).await;
        let (slow, fast) = (fixture.worker("slow").await, fixture.worker("fast").await);
        let partition = fixture.partitions()[0];
        let lease = fixture.subject.ends().key(partition, "lease");
        fixture.take_some(&*slow, partition, 10).await;
        fixture.subject.ends().call(&["DEL", &lease]);
        let run = fixture.take_some(&*fast, partition, 150).await;
        let settled = fixture.ledger().settle(partition, &run).await;
        let acked = fast.ack(partition, settled.expect("it settles")).await;
        assert_eq!(acked, Ok(()));
        let doing = fixture.subject.ends().key(partition, "doing");
        let before = fixture.subject.ends().number(&["LLEN", &doing]);
        // The slow worker still believes that it owns the partition.
        let taken = fixture
            .try_take(&*slow, partition, 10, Duration::ZERO)
            .await;
        assert!(taken.is_ok());
        assert_eq!(fixture.subject.ends().number(&["LLEN", &doing]), before);
        fixture.settle_all(&*fast).await;
    });
}

/// Keys of one transport do not grow without bound while another transport is used.
#[test]
fn another_transport_takes_over_where_the_last_one_stopped() {
    run(false, async |fixture: &mut Fixture<List>| {
        let sale = fixture.open(sale(10_000)).await;
        fixture.claim(sale, 0..100).await;
        let ends = fixture.subject.ends();
        let list = fixture.worker("list").await;
        let partition = fixture.partitions()[0];
        let (queue, log) = (ends.key(partition, "queue"), ends.key(partition, "log"));
        fixture.take_some(&*list, partition, 10).await;
        list.release_ownership().await;

        let transport_options = TransportOptions::new(LogTransportKind::Stream, "stream");
        let stream = ends.worker(transport_options);
        fixture.settle_all(&*stream).await;
        fixture.claim(sale, 100..200).await;
        assert_eq!(
            ends.number(&["EXISTS", &queue]),
            0,
            "no consumer would empty it"
        );
        fixture.settle_all(&*stream).await;
        stream.release_ownership().await;

        remove_transports(&ends.options)
            .await
            .expect("Redis answers");
        let groups = ends.number(&["EVAL", GROUPS, "1", &log]);
        assert_eq!(groups, 0, "the group would prevent trimming of the log");
    });
}

const GROUPS: &str = "return #redis.call('XINFO', 'GROUPS', KEYS[1])";

/// An emptied Redis has no partitions. Each attempt reports it, and the attempts are not a tight loop.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lost_everything_is_no_empty_log() {
    let ends = Ends::start::<InFile>(ManualClock::new(OPENS), true).await;
    let worker = Stream::<InFile>::worker_on(&ends, "w");
    let partition = PartitionId(0);
    let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
    assert_eq!(taken, Ok(Vec::new()));
    ends.call(&["FLUSHALL"]);
    ends.call(&["CONFIG", "RESETSTAT"]);
    for _ in 0..3 {
        let taken = worker.take(partition, 7, 10, SOON).await;
        assert!(taken.is_err(), "{taken:?}");
    }
    let stuck = worker.status(partition).stuck;
    assert!(stuck.is_some_and(|why| why.contains("lost")));
    let calls = ends.number(&["EVAL", CALLS, "0"]);
    assert!(calls < 60, "{calls} commands for three attempts");
    assert_eq!(ends.book.ledger().settled(partition).await, Ok(0));
    ends.stop().await;
}

/// Counts commands on streams only: nodes send other commands for their presence all the time.
const CALLS: &str = "local all = 0
    for calls in string.gmatch(redis.call('INFO', 'commandstats'), 'cmdstat_x[^:]*:calls=(%d+)') do
      all = all + tonumber(calls)
    end
    return all";

/// A record that a log cannot contain blocks its partition, and the worker reports it. The other partition continues.
#[test]
fn a_record_of_the_log_that_cannot_be_read_is_said() {
    let transport_kinds = [LogTransportKind::Stream, LogTransportKind::List];
    for transport_kind in transport_kinds {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let ends = Ends::start::<InFile>(ManualClock::new(OPENS), false).await;
            let worker = ends.worker(TransportOptions::new(transport_kind, "w"));
            let partition = PartitionId(0);
            let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
            assert_eq!(taken, Ok(Vec::new()));
            let log = ends.key(partition, "log");
            ends.call(&["XADD", &log, "1-0", "c", "nobody"]);
            ends.call(&["HSET", &ends.key(partition, "partition"), "seq", "1"]);
            if transport_kind == LogTransportKind::List {
                // The bad record is not in the list, so the entry might count as settled.
                let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
                assert_eq!(taken, Ok(Vec::new()));
            }
            for _ in 0..2 {
                let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
                let error = taken.expect_err("the record cannot be read").to_string();
                assert!(error.contains("record 1-0"), "{error}");
            }
            let other = worker.take(PartitionId(1), 0, 10, Duration::ZERO).await;
            assert_eq!(other, Ok(Vec::new()));
            worker.release_ownership().await;
            ends.stop().await;
        });
    }
}
