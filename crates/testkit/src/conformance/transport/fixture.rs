//! Tools of a case for transports: a subject, and a record of all commands and of all entries that workers took.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, Reply},
    event::{Entry, PartitionId, Seq},
    money::Money,
    ports::{Ledger, LedgerError},
};
use uuid::Uuid;

use super::{TransportSubject, Worker};
use crate::{
    ManualClock,
    auditor::{Exchange, History, assert_sound},
    campaign::{Builder, Target, currency},
    conformance::settled,
};

/// Time limit to settle everything, on a busy machine.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(60);
/// Time that a worker waits for entries that exist.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// Time that a worker waits if there are no entries.
pub(super) const SHORT: Duration = Duration::from_millis(100);
/// Maximum entries of one transaction.
pub(super) const LIMIT: usize = 512;
/// Pause after a failure.
const REST: Duration = Duration::from_millis(20);

/// Entries that workers took, by partition and position.
type Logs = BTreeMap<PartitionId, BTreeMap<Seq, Entry>>;

/// Transport under test, with a record.
pub struct Fixture<S> {
    /// The subject.
    pub subject: S,
    history: Mutex<History>,
    taken: Mutex<Logs>,
    ids: u64,
}

impl<S: TransportSubject> Fixture<S> {
    pub(super) async fn start(clock: Arc<ManualClock>, own: bool) -> Self {
        let fixture = Self {
            subject: S::start(clock, own).await,
            history: Mutex::default(),
            taken: Mutex::default(),
            ids: 0,
        };
        // The worker exists before all claims, because it selects the transport.
        let early = fixture.worker("early").await;
        for partition in fixture.partitions() {
            let taken = fixture.try_take(&*early, partition, LIMIT, SHORT).await;
            assert_eq!(taken, Ok(Vec::new()));
        }
        early.release_ownership().await;
        fixture
    }

    /// Creates another worker.
    pub async fn worker(&self, name: &str) -> Arc<dyn Worker> {
        self.subject.worker(name).await
    }

    /// Enters a campaign in the ledger, with the money that its owner needs, and opens it.
    pub async fn open(&mut self, builder: Builder) -> Target {
        self.ids += 1;
        let setup = builder.setup(self.ids);
        let minor = setup.campaign.funded_minor();
        let mut history = std::mem::take(&mut *self.history.lock().expect("no panic"));
        if minor > 0 {
            let owner = setup.campaign.owner.clone();
            let id = Uuid::from_u128(u128::from(self.ids));
            let amount = Money::new(minor, currency());
            let deposited = self.ledger().deposit(id, &owner, amount).await;
            deposited.expect("a deposit is taken");
            history.deposits.push((owner, minor));
        }
        let created = self.ledger().create(&setup).await;
        created.expect("the campaign is entered");
        let command = Command::Open(Box::new(setup.clone()));
        let reply = self.subject.engine().submit(command).await;
        assert_eq!(reply, Ok(Reply::Opened));
        history.setups.push(setup.clone());
        *self.history.lock().expect("no panic") = history;
        Target::of(&setup)
    }

    /// Claims for all these users concurrently.
    pub async fn claim(&self, target: Target, users: std::ops::Range<u32>) {
        let claims: Vec<_> = users.map(|n| target.one(&format!("u{n}"))).collect();
        let engine = self.subject.engine();
        let tickets: Vec<_> = claims.iter().map(|c| engine.claim(c.clone())).collect();
        for (claim, ticket) in claims.into_iter().zip(tickets) {
            let outcome = ticket.await.map(|claimed| claimed.outcome);
            let mut history = self.history.lock().expect("no panic");
            history.exchanges.push(Exchange::Claim(claim, outcome));
        }
    }

    /// The ledger.
    pub fn ledger(&self) -> &dyn Ledger {
        self.subject.ledger()
    }

    /// The partitions.
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.subject.log().partitions()
    }

    /// Checks that the transport carried everything and nothing was read from the log.
    pub fn assert_nothing_refilled(&self, worker: &dyn Worker) {
        for partition in self.partitions() {
            let status = worker.status(partition);
            assert_eq!(status.refilled, 0, "{partition:?}: {status:?}");
        }
    }

    /// The settled position of a partition.
    pub async fn settled(&self, partition: PartitionId) -> Seq {
        let settled = self.ledger().settled(partition).await;
        settled.expect("the ledger returns its position")
    }

    /// Head of a partition's log.
    pub async fn head(&self, partition: PartitionId) -> Seq {
        let head = self.subject.log().head(partition).await;
        head.expect("the log returns its head")
    }

    /// Takes entries and checks them.
    pub async fn try_take(
        &self,
        worker: &dyn Worker,
        partition: PartitionId,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError> {
        let after = self.settled(partition).await;
        let began = Instant::now();
        let run = worker.take(partition, after, limit, wait_max).await?;
        let took = began.elapsed();
        assert!(
            took < wait_max + SOON,
            "a take of {wait_max:?} took {took:?}"
        );
        assert!(run.len() <= limit, "{} entries of {limit}", run.len());
        let mut logs = self.taken.lock().expect("no panic");
        let log = logs.entry(partition).or_default();
        for (place, entry) in (after + 1..).zip(&run) {
            assert_eq!(entry.seq, place, "runs follow the position");
            let known = log.entry(place).or_insert_with(|| entry.clone());
            assert_eq!(known, entry, "an entry is the same every time");
        }
        Ok(run)
    }

    /// Takes entries, and requires at least one.
    pub async fn take(&self, worker: &dyn Worker, partition: PartitionId) -> Vec<Entry> {
        self.take_some(worker, partition, LIMIT).await
    }

    /// Takes up to `limit` entries, and requires at least one.
    pub async fn take_some(
        &self,
        worker: &dyn Worker,
        partition: PartitionId,
        limit: usize,
    ) -> Vec<Entry> {
        let taken = self.try_take(worker, partition, limit, SOON).await;
        let run = taken.expect("a worker takes");
        assert!(!run.is_empty(), "no entries of partition {}", partition.0);
        run
    }

    /// Takes, settles and acknowledges once. Returns whether entries arrived.
    pub async fn step(
        &self,
        worker: &dyn Worker,
        partition: PartitionId,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let run = self.try_take(worker, partition, LIMIT, wait_max).await?;
        if run.is_empty() {
            return Ok(false);
        }
        let settled = self.ledger().settle(partition, &run).await?;
        worker.ack(partition, settled).await?;
        Ok(true)
    }

    /// Settles until the ledger has all entries that the logs have now. Failures are retried.
    pub async fn settle_all(&self, worker: &dyn Worker) {
        let until = Instant::now() + SETTLE_MAX;
        for partition in self.partitions() {
            let head = self.head(partition).await;
            let mut last = String::new();
            while self.settled(partition).await < head {
                assert!(
                    Instant::now() < until,
                    "not all entries are settled in time: {last}"
                );
                match self.step(worker, partition, SHORT).await {
                    Ok(_) => {}
                    Err(error) => {
                        last = error.to_string();
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        }
    }

    /// Settles the rest, audits the history, and compares the ledger with it.
    pub(super) async fn finish(self) {
        let worker = self.worker("last").await;
        self.settle_all(&*worker).await;
        worker.release_ownership().await;
        drop(worker);
        let mut history = self.history.into_inner().expect("no panic");
        history.logs = self
            .taken
            .into_inner()
            .expect("no panic")
            .into_values()
            .map(|log| log.into_values().collect())
            .collect();
        history.complete = history.exchanges.iter().all(Exchange::is_answered);
        for setup in history.setups.clone() {
            let id = setup.campaign.id;
            let tally = self.subject.engine().tally(id).await;
            let tally = tally.expect("the engine returns a tally");
            history.tallies.extend(tally.map(|tally| (id, tally)));
        }
        let books = assert_sound(&history);
        settled::compare(self.subject.ledger(), &books).await;
        self.subject.stop().await;
    }
}
