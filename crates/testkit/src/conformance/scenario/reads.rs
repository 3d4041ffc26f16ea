//! Methods of a case that read campaigns, orders and logs, and settle them.

use std::time::{Duration, Instant};

use qiang_core::{
    book::OrderView,
    campaign::Tally,
    event::Entry,
    id::{CampaignId, OrderId},
    ports::{Engine, EngineError, PendingReply},
};

use super::Scenario;
use crate::conformance::CASE_MAX;

/// Entries read from a log at a time.
const READ_MAX: usize = 1_000;
/// Maximum wait until replicas have all entries of a log, and the time between two reads.
const KEPT_AFTER_MAX: Duration = Duration::from_secs(10);
const READ_AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Scenario {
    /// Answer to a read. If the subject settles and evicts campaigns automatically, a read that is refused as
    /// unavailable is repeated: the ledger may lack the last entries of a campaign that was evicted in part.
    async fn read<T: Unpin>(&self, read: impl Fn(&dyn Engine) -> PendingReply<T>) -> T {
        let until = Instant::now() + KEPT_AFTER_MAX;
        loop {
            match read(self.engine()).await {
                Err(EngineError::Unavailable { .. })
                    if self.subject().settles() && Instant::now() < until =>
                {
                    tokio::time::sleep(READ_AGAIN_AFTER).await;
                }
                answer => return answer.unwrap(),
            }
        }
    }

    /// A campaign's numbers.
    pub async fn tally(&self, id: CampaignId) -> Tally {
        let tally = self.read(|engine| engine.tally(id)).await.unwrap();
        assert!(tally.conserves(), "{tally:?}");
        tally
    }

    /// An order.
    pub async fn order(&self, order: OrderId) -> Option<OrderView> {
        self.read(|engine| engine.order(order)).await
    }

    /// All entries of all partitions, read in runs.
    pub async fn logs(&self) -> Vec<Vec<Entry>> {
        let mut logs = Vec::new();
        for partition in self.log().partitions() {
            let until = Instant::now() + KEPT_AFTER_MAX;
            // The head is read before the entries, because an engine may append due entries at any time.
            let head = self.log().head(partition).await.unwrap();
            let mut log: Vec<Entry> = Vec::new();
            loop {
                let after = log.last().map_or(0, |entry| entry.seq);
                let run = self.log().read(partition, after, READ_MAX).await.unwrap();
                if !run.is_empty() {
                    log.extend(run);
                } else if after >= head {
                    break;
                } else {
                    // Replicas do not have the rest yet.
                    assert!(Instant::now() < until, "{partition:?}: {after} of {head}");
                    tokio::time::sleep(READ_AGAIN_AFTER).await;
                }
            }
            logs.push(log);
        }
        logs
    }

    /// Settles everything in the ledger. If the subject settles automatically, waits until it has.
    pub async fn settle(&self) {
        if self.subject().settles() {
            return self.all_settled().await;
        }
        for (partition, log) in self.log().partitions().into_iter().zip(self.logs().await) {
            let head = log.last().map_or(0, |entry| entry.seq);
            loop {
                let settled = self.ledger().settled(partition).await.unwrap();
                if settled >= head {
                    break;
                }
                let run = &log[settled as usize..];
                let run = &run[..run.len().min(READ_MAX)];
                self.ledger().settle(partition, run).await.unwrap();
            }
        }
    }

    async fn all_settled(&self) {
        for partition in self.log().partitions() {
            let head = self.log().head(partition).await.unwrap();
            let settled = self.ledger().await_settled(partition, head, CASE_MAX).await;
            assert_eq!(settled, Ok(true), "{partition:?}");
        }
    }

    /// Settles the logs, and reads them and the tallies of all campaigns. Engines append due entries automatically, so
    /// this is repeated until no entry was appended during a pass.
    pub(super) async fn read_at_rest(&mut self) {
        let mut before = self.logs().await;
        loop {
            self.settle().await;
            let mut tallies = Vec::new();
            for setup in &self.history.setups {
                let id = setup.campaign.id;
                let tally = self.read(|engine| engine.tally(id)).await;
                tallies.extend(tally.map(|tally| (id, tally)));
            }
            let logs = self.logs().await;
            if logs == before {
                (self.history.logs, self.history.tallies) = (logs, tallies);
                return;
            }
            before = logs;
        }
    }
}
