//! What is particular to the transports on Redis: nothing is left behind in it, and nothing of others is touched.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::PartitionId,
    ports::{Taken, Transport},
};
use qiang_redis::{RedisTransport, TransportKind, TransportOptions, remove_transports};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
    conformance::transport::{Bench, TransportSubject, run},
};

use crate::{
    ledgers::InFile,
    on_redis::{Ends, List, Stream},
};

const SOON: Duration = Duration::from_secs(10);
/// Records of one entry each, in both partitions together: more than two reads of the transport bring.
const SINGLES: u32 = 700;

/// Claims one after the other make a record each.
async fn claim_singly<S: TransportSubject>(bench: &mut Bench<S>) {
    let sale = bench.open(sale(10_000)).await;
    for n in 0..SINGLES {
        bench.crowd(sale, n..n + 1).await;
    }
}

#[test]
fn what_a_dead_worker_moved_goes_back_in_order() {
    run(false, async |bench: &mut Bench<List>| {
        claim_singly(bench).await;
        let dying = bench.worker("dying").await;
        for partition in bench.partitions() {
            bench.take_some(&*dying, partition, 100).await;
        }
        drop(dying);
        let heir = bench.worker("heir").await;
        bench.carry_all(&*heir).await;
        bench.all_was_brought(&*heir);
    });
}

/// It goes on behind the ledger's position: what is settled need not come again, and nothing is left out.
#[test]
fn a_group_is_made_anew_from_the_right_position() {
    run(false, async |bench: &mut Bench<Stream>| {
        claim_singly(bench).await;
        let worker = bench.worker("w").await;
        for partition in bench.partitions() {
            let run = bench.take_some(&*worker, partition, 50).await;
            let settled = bench.ledger().settle(partition, &run).await;
            assert_eq!(settled, Ok(50));
        }
        bench.subject.lose_carrier().await;
        let after = bench.worker("after").await;
        worker.leave().await;
        for partition in bench.partitions() {
            bench.take_some(&*after, partition, usize::MAX).await;
            let pending = bench.subject.pending(partition);
            let left = bench.head(partition).await - 50;
            assert_eq!(pending, i64::try_from(left).expect("a small number"));
        }
        bench.carry_all(&*after).await;
        bench.all_was_brought(&*after);
    });
}

#[test]
fn many_pending_records_of_a_dead_worker_come_in_order() {
    run(false, async |bench: &mut Bench<Stream>| {
        claim_singly(bench).await;
        let dying = bench.worker("dying").await;
        for partition in bench.partitions() {
            bench.take_some(&*dying, partition, usize::MAX).await;
        }
        drop(dying);
        for partition in bench.partitions() {
            let pending = bench.subject.pending(partition);
            assert!(pending > 256, "only {pending} records are pending");
        }
        let heir = bench.worker("heir").await;
        bench.carry_all(&*heir).await;
        bench.all_was_brought(&*heir);
        for partition in bench.partitions() {
            assert_eq!(bench.subject.pending(partition), 0);
        }
    });
}

#[test]
fn what_another_group_has_not_dealt_with_stays_in_the_log() {
    run(false, async |bench: &mut Bench<Stream>| {
        let partition = bench.partitions()[0];
        let log = bench.subject.ends().key(partition, "log");
        let ends = bench.subject.ends();
        ends.call(&["XGROUP", "CREATE", &log, "others", "0"]);
        claim_singly(bench).await;
        let call = |words: &[&str]| bench.subject.ends().call(words);
        let worker = bench.worker("w").await;
        let first = async || {
            let left = bench.subject.log().read(partition, 0, usize::MAX).await;
            left.expect("the log is read")
                .first()
                .map(|entry| entry.seq)
        };
        bench.carry_all(&*worker).await;
        assert_eq!(first().await, Some(1), "it has read nothing");
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
        let settled = bench.settled(partition).await;
        assert_eq!(worker.done(partition, settled).await, Ok(()));
        assert_eq!(first().await, Some(1), "it has dealt with nothing");
        let ids: Vec<String> = (1..=20).map(|seq| format!("{seq}-0")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        call(&[&["XACK", &log, "others"], &ids[..]].concat());
        assert_eq!(worker.done(partition, settled).await, Ok(()));
        assert_eq!(first().await, Some(21), "it has dealt with these");
        call(&["XGROUP", "DESTROY", &log, "others"]);
        assert_eq!(worker.done(partition, settled).await, Ok(()));
        assert_eq!(first().await, None);
    });
}

#[test]
fn a_list_is_empty_when_all_is_settled() {
    run(false, async |bench: &mut Bench<List>| {
        claim_singly(bench).await;
        let worker = bench.worker("w").await;
        let partition = bench.partitions()[0];
        bench.take_some(&*worker, partition, 100).await;
        let length = |key: &str| bench.subject.ends().number(&["LLEN", key]);
        let (queue, doing, dead) = (
            bench.subject.ends().key(partition, "queue"),
            bench.subject.ends().key(partition, "doing"),
            bench.subject.ends().key(partition, "dead"),
        );
        assert!(length(&queue) > 100 && length(&doing) >= 100);
        bench.carry_all(&*worker).await;
        assert_eq!((length(&queue), length(&doing), length(&dead)), (0, 0, 0));
    });
}

/// A worker that is not dead but slow has lost its lease: it moves nothing any more, and nothing is lost.
#[test]
fn a_worker_without_its_lease_moves_nothing() {
    run(false, async |bench: &mut Bench<List>| {
        claim_singly(bench).await;
        let (slow, fast) = (bench.worker("slow").await, bench.worker("fast").await);
        let partition = bench.partitions()[0];
        let lease = bench.subject.ends().key(partition, "lease");
        bench.take_some(&*slow, partition, 10).await;
        bench.subject.ends().call(&["DEL", &lease]);
        let run = bench.take_some(&*fast, partition, 150).await;
        let settled = bench.ledger().settle(partition, &run).await;
        let done = fast.done(partition, settled.expect("it settles")).await;
        assert_eq!(done, Ok(()));
        let doing = bench.subject.ends().key(partition, "doing");
        let before = bench.subject.ends().number(&["LLEN", &doing]);
        // It still believes that the partition is its own, and has nothing left.
        let taken = bench.try_take(&*slow, partition, 10, Duration::ZERO).await;
        assert!(taken.is_ok());
        assert_eq!(bench.subject.ends().number(&["LLEN", &doing]), before);
        bench.carry_all(&*fast).await;
    });
}

/// What one transport leaves behind does not grow for ever under another.
#[test]
fn another_transport_takes_over_where_the_last_one_stopped() {
    run(false, async |bench: &mut Bench<List>| {
        let sale = bench.open(sale(10_000)).await;
        bench.crowd(sale, 0..100).await;
        let ends = bench.subject.ends();
        let list = bench.worker("list").await;
        let partition = bench.partitions()[0];
        let (queue, log) = (ends.key(partition, "queue"), ends.key(partition, "log"));
        bench.take_some(&*list, partition, 10).await;
        list.leave().await;

        let transport_options = TransportOptions::new(TransportKind::Stream, "stream");
        let stream =
            RedisTransport::new(ends.options.clone(), transport_options).expect("a transport");
        bench.carry_all(&stream).await;
        bench.crowd(sale, 100..200).await;
        assert_eq!(ends.number(&["EXISTS", &queue]), 0, "nobody would empty it");
        bench.carry_all(&stream).await;
        stream.leave().await;

        remove_transports(&ends.options)
            .await
            .expect("Redis answers");
        let groups = ends.number(&["EVAL", GROUPS, "1", &log]);
        assert_eq!(groups, 0, "it would keep the log from being trimmed");
    });
}

const GROUPS: &str = "return #redis.call('XINFO', 'GROUPS', KEYS[1])";

/// A Redis that was emptied has no partition any more: that is said, over and over, and not in a tight loop.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lost_everything_is_no_empty_log() {
    let ends = Ends::start::<InFile>(ManualClock::new(OPENS), true).await;
    let worker = Stream::<InFile>::worker_on(&ends, "w");
    let partition = PartitionId(0);
    let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
    assert_eq!(taken, Ok(Taken::Nothing));
    ends.call(&["FLUSHALL"]);
    ends.call(&["CONFIG", "RESETSTAT"]);
    for _ in 0..3 {
        let taken = worker.take(partition, 7, 10, SOON).await;
        assert!(taken.is_err(), "{taken:?}");
    }
    let stuck = worker.status(partition).stuck;
    assert!(stuck.is_some_and(|why| why.contains("lost the state")));
    let calls = ends.number(&["EVAL", CALLS, "0"]);
    assert!(calls < 60, "{calls} commands for three attempts");
    assert_eq!(ends.book.ledger().settled(partition).await, Ok(0));
    ends.stop().await;
}

const CALLS: &str = "local all = 0
    for calls in string.gmatch(redis.call('INFO', 'commandstats'), 'calls=(%d+)') do
      all = all + tonumber(calls)
    end
    return all";

/// A record that a log cannot have holds its partition up, and says so; the other one goes on.
#[test]
fn a_record_of_the_log_that_cannot_be_read_is_said() {
    let carriers = [TransportKind::Stream, TransportKind::List];
    for transport_kind in carriers {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let ends = Ends::start::<InFile>(ManualClock::new(OPENS), false).await;
            let transport_options = TransportOptions::new(transport_kind, "w");
            let worker =
                RedisTransport::new(ends.options.clone(), transport_options).expect("a transport");
            let worker: Arc<dyn Transport> = Arc::new(worker);
            let partition = PartitionId(0);
            let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
            assert_eq!(taken, Ok(Taken::Nothing));
            let log = ends.key(partition, "log");
            ends.call(&["XADD", &log, "1-0", "c", "nobody"]);
            ends.call(&["HSET", &ends.key(partition, "partition"), "seq", "1"]);
            if transport_kind == TransportKind::List {
                // It is not in the list, and might be settled by now.
                let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
                assert_eq!(taken, Ok(Taken::Nothing));
            }
            for _ in 0..2 {
                let taken = worker.take(partition, 0, 10, Duration::ZERO).await;
                let error = taken.expect_err("it cannot be read").to_string();
                assert!(error.contains("record 1-0"), "{error}");
            }
            let other = worker.take(PartitionId(1), 0, 10, Duration::ZERO).await;
            assert_eq!(other, Ok(Taken::Nothing));
            worker.leave().await;
            ends.stop().await;
        });
    }
}
