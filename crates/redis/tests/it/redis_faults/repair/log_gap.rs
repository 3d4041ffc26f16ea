//! Unsettled entries are deleted manually from a partition's log. The partition notices and repairs this automatically,
//! every acknowledged grant reaches the ledger, and no unit is withheld.

use qiang_core::ports::{LedgerError, QuarantineStore as _, SettlementStore as _};
use qiang_worker::settlement::{StepError, StepResult};

use super::*;

/// Orders that are paid before the fault.
const PAID: usize = 20;

/// Damage to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// `DEL` of the stream.
    DeleteLog,
    /// `XTRIM` of the older half of the unsettled entries.
    TrimHalf,
    /// `XDEL` of a record with others on both sides.
    DeleteRecord,
}

const FAULTS: [Fault; 3] = [Fault::DeleteLog, Fault::TrimHalf, Fault::DeleteRecord];

impl World {
    pub(super) async fn unbroken(is_spread: bool) -> Self {
        let mut options = options(String::new());
        options.call_timeout = Duration::from_secs(10);
        options.claim_timeout = Duration::from_secs(20);
        if is_spread {
            options.shard_supply_min = 1_000;
        }
        Self::with(options).await
    }

    pub(super) fn log_of(&self, tag: &str) -> String {
        format!("{}:{{{tag}}}:log", self.harness.options.prefix)
    }

    /// Number of finished repairs of a partition.
    pub(super) fn repairs_of(&self, tag: &str) -> i64 {
        let key = format!("{}:{{{tag}}}:repairs", self.harness.options.prefix);
        let reply = self.server().call(&["LLEN", &key]).unwrap();
        reply.integer().unwrap()
    }

    /// Partitions with unsettled entries, and the ledger's positions.
    async fn unsettled(&self) -> Vec<(&'static str, u64)> {
        let mut unsettled = Vec::new();
        for (tag, partition) in TAGS.into_iter().zip((0..).map(PartitionId)) {
            let settled = self.ledger.settled(partition).await.unwrap();
            if blocking(|| self.end_of(self.server(), tag)) > settled {
                unsettled.push((tag, settled));
            }
        }
        unsettled
    }

    /// Damages every log with unsettled entries. Returns the partitions with their numbers of repairs.
    pub(super) async fn break_logs(&self, fault: Fault) -> Vec<(&'static str, i64)> {
        let unsettled = self.unsettled().await;
        assert!(!unsettled.is_empty());
        blocking(|| {
            let broken = unsettled.iter().map(|(tag, settled)| {
                let repairs = self.repairs_of(tag);
                self.break_log(tag, *settled, fault);
                (*tag, repairs)
            });
            broken.collect()
        })
    }

    fn break_log(&self, tag: &str, settled: u64, fault: Fault) {
        let log = self.log_of(tag);
        let call = |words: &[&str]| self.server().call(words).unwrap().integer();
        let changed = match fault {
            Fault::DeleteLog => call(&["DEL", &log]),
            Fault::TrimHalf => {
                let end = self.end_of(self.server(), tag);
                let middle = settled + (end - settled).div_ceil(2) + 1;
                call(&["XTRIM", &log, "MINID", &format!("{middle}-0")])
            }
            Fault::DeleteRecord => {
                let from = format!("{}-0", settled + 1);
                let range = ["XRANGE", &log, &from, "+", "COUNT", "3"];
                let records = self.server().call(&range).unwrap();
                let records = records.array();
                assert_eq!(records.len(), 3, "too few records");
                let id = records[1].array()[0].text().unwrap().to_owned();
                call(&["XDEL", &log, &id])
            }
        };
        assert!(changed > Some(0), "{fault:?} of {log}: {changed:?}");
    }

    /// Waits until each partition has been repaired once more and grants again.
    pub(super) async fn repaired_again(&self, broken: &[(&str, i64)]) {
        wait_for("the repair", || {
            let mut all = broken.iter();
            blocking(|| all.all(|(tag, repairs)| self.repairs_of(tag) > *repairs)) && self.is_open()
        })
        .await;
    }

    /// Whether all nodes consider all partitions open.
    fn is_open(&self) -> bool {
        let open = |node: &RedisEngine| {
            let mut all = node.partitions().into_iter();
            all.all(|partition| node.state(partition) == PartitionHealth::Open)
        };
        self.harness.nodes.iter().all(open)
    }

    /// Checks that no entry is in quarantine and no unit is withheld.
    pub(super) async fn check_complete(&self) {
        let withheld = [self.sale, self.packet].map(|target| self.withheld(target));
        assert_eq!(withheld, [0, 0]);
        let quarantined = self.ledger.list_quarantined(None, 10).await.unwrap();
        assert!(quarantined.is_empty(), "{quarantined:?}");
    }
}

/// Whether settlement has found missing entries in the log.
pub(super) fn is_log_gap(step: &Result<StepResult, StepError>) -> bool {
    matches!(step, Err(StepError::Log(LedgerError::LogGone { .. })))
}

async fn check_gap(fault: Fault, settles_before: bool, is_spread: bool) {
    println!("{fault:?}, settled before: {settles_before}, spread: {is_spread}");
    let world = World::unbroken(is_spread).await;
    let mut answers = world.grant(0, CLAIMS).await;
    if settles_before {
        world.settle().await;
    }
    answers.extend(world.grant(CLAIMS, 2 * CLAIMS).await);
    let mut paid = Vec::new();
    for n in 0..PAID {
        paid.push(world.buy(&format!("payer-{n}")).await);
    }
    for number in &paid {
        world.pay(*number).await;
    }

    let broken = world.break_logs(fault).await;
    let settling = world.settling();
    world.repaired_again(&broken).await;
    world.harness.replay(&answers).await;
    for number in &paid {
        // A repeated payment gets the same reply.
        world.pay(*number).await;
    }
    answers.extend(world.grant(2 * CLAIMS, 3 * CLAIMS).await);
    settling.abort();
    drop(settling.await);
    world.harness.replay(&answers).await;
    world.check().await;
    world.check_complete().await;
    for (target, granted) in [(world.sale, 3 * CLAIMS + PAID), (world.packet, 3 * CLAIMS)] {
        let record = world.ledger.campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.granted as usize, granted);
    }
    // Each payment is posted once.
    let balances = world.ledger.balances(&user(OWNER)).await.unwrap();
    assert_eq!(balances[0].available.minor, PAID as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsettled_log_that_is_deleted_or_trimmed_is_repaired() {
    for fault in FAULTS {
        for settles_before in [false, true] {
            check_gap(fault, settles_before, false).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsettled_logs_of_a_spread_campaign_are_repaired() {
    for fault in FAULTS {
        check_gap(fault, true, true).await;
    }
}

/// The log is deleted while claims are decided and settled, several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_deleted_under_load_loses_no_grant() {
    for is_spread in [false, true] {
        let world = World::unbroken(is_spread).await;
        let targets = [world.sale, world.packet];
        let load = world.harness.start(
            move |n| Some(targets[n % 2].one(&name(n / 2))),
            crate::redis_faults::harness::SHORT_PAUSE,
        );
        let settling = world.settling();
        for _ in 0..3 {
            load.more(CLAIMS).await;
            blocking(|| {
                for tag in TAGS {
                    world.server().call(&["DEL", &world.log_of(tag)]).unwrap();
                }
            });
        }
        load.more(CLAIMS).await;
        let answers = load.stop().await;
        settling.abort();
        drop(settling.await);
        // The last gap may be found only now. The other node learns of its repair later.
        world.settle().await;
        wait_for("all partitions", || world.is_open()).await;
        world.check().await;
        world.check_complete().await;
        world.harness.replay(&answers).await;
        let repairs = blocking(|| TAGS.map(|tag| world.repairs_of(tag)));
        assert!(repairs.iter().sum::<i64>() > 0);
        world.close().await;
    }
}

/// A repair appends entries that the ledger lacks. They are deleted before they are settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_repair_that_are_deleted_are_appended_again() {
    let world = World::unbroken(false).await;
    let answers = world.grant(0, CLAIMS).await;
    for _ in 0..2 {
        let broken = world.break_logs(Fault::DeleteLog).await;
        for (tag, _) in &broken {
            let partition = PartitionId(tag[1..].parse().unwrap());
            let node = &world.harness.nodes[1];
            // One step finds the gap and settles no entry that the repair appends.
            let found = settle_once(node, &*world.ledger, partition, ENTRIES_MAX).await;
            assert!(is_log_gap(&found), "{found:?}");
        }
        world.repaired_again(&broken).await;
    }
    world.harness.replay(&answers).await;
    world.check().await;
    world.check_complete().await;
    world.close().await;
}

/// Settled entries may be deleted: no partition halts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_log_that_is_deleted_halts_nothing() {
    let world = World::unbroken(false).await;
    let mut answers = world.grant(0, CLAIMS).await;
    world.settle().await;
    blocking(|| {
        for tag in TAGS {
            world.server().call(&["DEL", &world.log_of(tag)]).unwrap();
        }
    });
    let settling = world.settling();
    answers.extend(world.grant(CLAIMS, 2 * CLAIMS).await);
    settling.abort();
    drop(settling.await);
    world.harness.replay(&answers).await;
    world.check().await;
    world.check_complete().await;
    assert_eq!(blocking(|| TAGS.map(|tag| world.repairs_of(tag))), [0, 0]);
    world.close().await;
}
