//! Reads of the log: the result is the same at once, in runs of any length, slowly, and after the log was trimmed.

use std::{collections::HashMap, time::Duration};

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::EventLog as _,
    split::SplitRule,
};
use qiang_redis::RedisEngine;
use qiang_testkit::campaign::{red_packet, sale};

use crate::redis_faults::harness::{Harness, SHORT_PAUSE, name, open_now, patient, shared};

const CLAIMS: usize = 1_500;
const STOCK: u32 = 50_000;
const EVERYTHING: usize = 1_000_000;

/// The log after an entry, read in runs of these lengths in turn.
async fn in_runs(
    node: &RedisEngine,
    partition: PartitionId,
    mut after: Seq,
    lengths: &[usize],
) -> Vec<Entry> {
    let mut log = Vec::new();
    for length in lengths.iter().cycle() {
        let run = node.read(partition, after, *length).await.unwrap();
        let Some(last) = run.last() else { break };
        assert!(run.len() <= *length);
        after = last.seq;
        log.extend(run);
    }
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_any_length_are_the_log() {
    let mut harness = Harness::new(patient(shared().url())).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let on_sale = harness.open(open_now(sale(STOCK)).limit(STOCK)).await;
    let packet = harness
        .open(open_now(red_packet(10_000_000, STOCK, split)))
        .await;
    let made = move |n: usize| {
        Some(match n % 3 {
            0 => on_sale.one(&name(n % 7)),
            1 => on_sale.keyed(&name(n), 2, "key"),
            _ => packet.one(&name(n)),
        })
    };
    let load = harness.start(made, SHORT_PAUSE / 10);
    // One reader stalls in the middle of the log, and one keeps up.
    let mut stalled: Vec<(PartitionId, Vec<Entry>)> = Vec::new();
    for partition in harness.nodes[0].partitions() {
        load.more(CLAIMS).await;
        stalled.push((
            partition,
            harness.nodes[1].read(partition, 0, 333).await.unwrap(),
        ));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    load.more(CLAIMS).await;
    load.stop().await;
    harness.audit().await;

    for (partition, mut begun) in stalled {
        let node = &harness.nodes[0];
        let head = node.head(partition).await.unwrap();
        let whole = node.read(partition, 0, EVERYTHING).await.unwrap();
        let places: Vec<Seq> = whole.iter().map(|entry| entry.seq).collect();
        assert_eq!(places, (1..=head).collect::<Vec<_>>());
        assert!(head > CLAIMS as Seq / 2, "{head}");
        for lengths in [&[1_000][..], &[7, 64, 1, 513], &[100, 3]] {
            assert!(
                in_runs(node, partition, 0, lengths).await == whole,
                "{lengths:?}"
            );
        }
        let after = begun.last().map_or(0, |entry| entry.seq);
        begun.extend(in_runs(&harness.nodes[1], partition, after, &[500]).await);
        assert!(begun == whole, "the stalled reader got another log");

        // Settled entries may be removed at any position, also in the middle of a record. No others are removed.
        for settled in [1, head / 3, head / 2 + 1, head - 1, head] {
            node.release(partition, settled).await.unwrap();
            let rest = in_runs(node, partition, settled, &[97]).await;
            assert!(
                rest == whole[settled as usize..],
                "after {settled} of {head}"
            );
            assert!(
                harness.nodes[1]
                    .read(partition, settled, EVERYTHING)
                    .await
                    .unwrap()
                    == rest
            );
        }
        assert_eq!(node.head(partition).await, Ok(head));
    }
}

/// Settlement that keeps up often reaches the end of the log while grants continue. That does not count as a loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_at_the_end_stops_nothing() {
    let mut harness = Harness::new(patient(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let load = harness.start(move |n| Some(target.one(&name(n))), SHORT_PAUSE / 10);
    let mut ends = 0;
    let mut after = HashMap::new();
    while ends < CLAIMS || load.size() < CLAIMS {
        for node in &harness.nodes {
            for partition in node.partitions() {
                let after = after.entry(partition).or_insert(0);
                let run = node.read(partition, *after, EVERYTHING).await.unwrap();
                ends += usize::from(run.is_empty());
                *after = run.last().map_or(*after, |entry| entry.seq);
            }
        }
    }
    load.stop().await;
    assert_eq!(harness.record.errors(), 0);
    harness.audit().await;
}
