//! Redis stores the highest position that the ledger ever had. This distinguishes a deleted log from a ledger that was
//! set back. Only a deleted log is repaired automatically.

use qiang_core::ports::{QuarantineStore as _, SettlementStore as _};

use super::{
    log_gap::{Fault, is_log_gap},
    *,
};

impl World {
    /// Redis' highest position of the ledger, for the partition with this tag.
    fn position_of(&self, tag: &str) -> u64 {
        let key = format!("{}:{{{tag}}}:partition", self.harness.options.prefix);
        let reply = self.server().call(&["HGET", &key, "ledger_position"]);
        reply.unwrap().text().unwrap().parse().unwrap()
    }

    /// Partitions with entries, and their tags.
    fn used(&self) -> Vec<(&'static str, PartitionId)> {
        let all = TAGS.into_iter().zip((0..).map(PartitionId));
        blocking(|| {
            all.filter(|(tag, _)| self.end_of(self.server(), tag) > 0)
                .collect()
        })
    }

    fn delete_logs(&self) {
        blocking(|| {
            for tag in TAGS {
                self.server().call(&["DEL", &self.log_of(tag)]).unwrap();
            }
        });
    }

    /// Checks that an empty ledger finds missing entries and no partition halts.
    async fn check_set_back(&self) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        let old = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
        let node = &self.harness.nodes[1];
        for (_, partition) in self.used() {
            let found = settle_once(node, &old, partition, ENTRIES_MAX).await;
            assert!(is_log_gap(&found), "{found:?}");
            assert_eq!(node.halt_log_gap(partition).await, Ok(()));
            assert_eq!(node.has_lost(partition).await, Ok(false));
            assert_eq!(node.state(partition), PartitionHealth::Open);
        }
        assert_eq!(blocking(|| TAGS.map(|tag| self.repairs_of(tag))), [0, 0]);
        old.close();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_that_was_set_back_halts_nothing() {
    let world = World::unbroken(false).await;
    let answers = world.grant(0, CLAIMS).await;
    world.settle().await;
    world.check_set_back().await;
    world.harness.replay(&answers).await;
    world.check().await;
}

/// At `maxmemory`, settled entries leave the log at once. The same step stores the position.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_position_is_kept_at_maxmemory() {
    let world = World::unbroken(false).await;
    let answers = world.grant(0, CLAIMS).await;
    let limit = |bytes: &str| {
        let words = ["CONFIG", "SET", "maxmemory", bytes];
        blocking(|| world.server().call(&words).unwrap());
    };
    limit("1");
    let written = blocking(|| world.server().call(&["SET", "any", "value"]));
    assert!(written.is_err(), "{written:?}");
    world.settle().await;
    for (tag, partition) in world.used() {
        let settled = world.ledger.settled(partition).await.unwrap();
        assert_eq!(blocking(|| world.position_of(tag)), settled);
        let left = blocking(|| world.server().call(&["XLEN", &world.log_of(tag)]).unwrap());
        assert_eq!(left.integer(), Some(0));
    }
    limit("0");
    world.check_set_back().await;
    world.harness.replay(&answers).await;
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_position_is_not_past_the_log() {
    let world = World::unbroken(false).await;
    world.grant(0, CLAIMS).await;
    world.settle().await;
    for (tag, partition) in world.used() {
        let end = blocking(|| world.end_of(world.server(), tag));
        let node = &world.harness.nodes[0];
        node.release(partition, end + 1_000).await.unwrap();
        assert_eq!(blocking(|| world.position_of(tag)), end);
        node.release(partition, end - 1).await.unwrap();
        assert_eq!(blocking(|| world.position_of(tag)), end);
    }
}

/// A process that finds a gap but does not repair halts nothing. If it repairs later, the gap belongs to an old epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_gap_halts_only_where_it_is_to_be_repaired() {
    let world = World::unbroken(false).await;
    let answers = world.grant(0, CLAIMS).await;
    let positions = world.ledger.positions().await.unwrap();
    let other = crate::redis_faults::harness::node(&world.harness.options, &positions).await;
    let broken = world.break_logs(Fault::DeleteLog).await;
    let partitions = || {
        broken
            .iter()
            .map(|(tag, _)| PartitionId(tag[1..].parse().unwrap()))
    };
    for partition in partitions() {
        let found = settle_once(&other, &*world.ledger, partition, ENTRIES_MAX).await;
        assert!(is_log_gap(&found), "{found:?}");
        assert_eq!(other.has_lost(partition).await, Ok(false));
        assert_eq!(other.state(partition), PartitionHealth::Open);
    }
    let repairs = || blocking(|| TAGS.map(|tag| world.repairs_of(tag)));
    assert_eq!(repairs(), [0, 0]);
    // Another process finds the gap, and repairs.
    let settling = world.settling();
    world.repaired_again(&broken).await;
    wait_for("the other node", || {
        partitions().all(|it| other.state(it) == PartitionHealth::Open)
    })
    .await;
    let before = repairs();
    for partition in partitions() {
        assert_eq!(other.halt_log_gap(partition).await, Ok(()));
        assert_eq!(other.has_lost(partition).await, Ok(false));
    }
    assert_eq!(repairs(), before);
    settling.abort();
    drop(settling.await);
    other.abort();
    world.harness.replay(&answers).await;
    world.check().await;
    world.check_complete().await;
}

/// Entries appended by a repair are deleted before they are settled. Before settlement finds that, a failover loses
/// more entries, and the partition halts because of them. The ledger was not set back, so the repair trusts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_gap_in_a_partition_that_has_lost_entries_is_repaired() {
    let world = World::unbroken(false).await;
    let mut answers = world.grant(0, CLAIMS).await;
    let broken = world.break_logs(Fault::DeleteLog).await;
    for (tag, _) in &broken {
        let partition = PartitionId(tag[1..].parse().unwrap());
        let node = &world.harness.nodes[1];
        let found = settle_once(node, &*world.ledger, partition, ENTRIES_MAX).await;
        assert!(is_log_gap(&found), "{found:?}");
    }
    world.repaired_again(&broken).await;
    world.delete_logs();
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    answers.extend(world.grant(CLAIMS, 2 * CLAIMS).await);
    let broken = broken.iter().map(|(tag, repairs)| (*tag, repairs + 1));
    let broken: Vec<_> = broken.collect();
    world.fail_over();
    world.repaired_again(&broken).await;
    world.harness.replay(&answers).await;
    world.check().await;
    let quarantined = world.ledger.list_quarantined(None, 10).await.unwrap();
    assert!(quarantined.is_empty(), "{quarantined:?}");
    world.close().await;
}
