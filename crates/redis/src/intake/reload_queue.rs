//! Reloads of campaigns that this node requests, and their ledger.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{CampaignRecord, EngineError, Ledger},
};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};

use crate::intake::settled_reads::SettledReads;

/// Campaigns that one node reloads at a time into one partition.
const RECALLS_MAX: usize = 4;
/// Maximum claims that wait for reloads; further ones are refused as overload.
const WAITING_MAX: usize = 16_384;

/// Maximum campaigns that are reloaded or looked up.
const CAMPAIGNS_MAX: usize = 16_384;

/// Purpose of a reload. It determines whether a campaign is reloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReloadNeed {
    /// A claim, a read, or a campaign's change: a closed, evicted campaign is not reloaded, and the ledger answers. No
    /// campaign is reloaded at `maxmemory`.
    Any,
    /// A payment, a cancellation, a return, or a due step: it is reloaded, at `maxmemory` within a budget in bytes.
    Owed,
    /// The repair of another shard: it is reloaded.
    Repair,
}

/// A campaign, and the purpose of its reload. An owed reload must not share the refusal of another.
pub(crate) type Wanted = (CampaignId, ReloadNeed);

/// Result of a reload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReloadResult {
    /// Redis has the campaign.
    Here,
    /// It was closed and evicted, and the ledger has all of it. It was not reloaded.
    Settled(Arc<CampaignRecord>),
    /// It is unknown: neither Redis has it, nor a ledger that has all entries of what was evicted.
    Unknown,
}

/// Result of a reload, once known.
type Outcome = Option<Result<ReloadResult, EngineError>>;

/// Reloads on this node.
pub(crate) struct ReloadQueue {
    /// Unset if campaigns are never evicted.
    ledger: OnceLock<Arc<dyn Ledger>>,
    /// One per partition.
    at_a_time: Vec<Semaphore>,
    /// Reads that answer claims and reads of evicted campaigns.
    pub(crate) settled: SettledReads,
    /// Sends requests to the task that reloads.
    asked: mpsc::UnboundedSender<Wanted>,
    to_do: Mutex<Option<mpsc::UnboundedReceiver<Wanted>>>,
    waiting: Mutex<ReloadWaiters>,
}

#[derive(Default)]
struct ReloadWaiters {
    /// No task reloads any longer.
    is_over: bool,
    claims: usize,
    /// Each with the sender to its waiting callers.
    campaigns: HashMap<Wanted, watch::Sender<Outcome>>,
}

impl ReloadQueue {
    pub(crate) fn new(partitions: usize) -> Self {
        let some = || Semaphore::new(RECALLS_MAX);
        let (asked, to_do) = mpsc::unbounded_channel();
        Self {
            asked,
            to_do: Mutex::new(Some(to_do)),
            ledger: OnceLock::new(),
            settled: SettledReads::default(),
            at_a_time: std::iter::repeat_with(some).take(partitions).collect(),
            waiting: Mutex::default(),
        }
    }

    /// Waits until few enough campaigns of this home are being reloaded.
    pub(crate) async fn permit(&self, home: PartitionId) -> Option<SemaphorePermit<'_>> {
        self.at_a_time[usize::from(home.0)].acquire().await.ok()
    }

    /// Sets the ledger that has evicted campaigns. Only the first call counts.
    pub(crate) fn read_from(&self, ledger: Arc<dyn Ledger>) {
        drop(self.ledger.set(ledger));
    }

    pub(crate) fn ledger(&self) -> Option<&Arc<dyn Ledger>> {
        self.ledger.get()
    }

    /// Counts waiting claims; false if there are too many.
    pub(crate) fn enter_claims(&self, count: usize) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.claims + count <= WAITING_MAX;
        waiting.claims += if has_room { count } else { 0 };
        has_room
    }

    pub(crate) fn leave_claims(&self, count: usize) {
        self.waiting.lock().claims -= count;
    }

    /// Result of a reload, and whether this call requested it. Fails if too many reloads run, or if no task reloads any
    /// longer.
    pub(crate) fn join(
        &self,
        wanted: Wanted,
    ) -> Result<(watch::Receiver<Outcome>, bool), EngineError> {
        let mut waiting = self.waiting.lock();
        if waiting.is_over {
            return Err(EngineError::Stopping);
        }
        let campaigns = &mut waiting.campaigns;
        if let Some(outcome) = campaigns.get(&wanted) {
            return Ok((outcome.subscribe(), false));
        }
        if campaigns.len() >= CAMPAIGNS_MAX {
            return Err(EngineError::Overloaded);
        }
        if self.asked.send(wanted).is_err() {
            return Err(EngineError::Stopping);
        }
        let (outcome, waits) = watch::channel(None);
        campaigns.insert(wanted, outcome);
        Ok((waits, true))
    }

    /// Requests, for the task that reloads.
    pub(crate) fn take_asked(&self) -> Option<mpsc::UnboundedReceiver<Wanted>> {
        self.to_do.lock().take()
    }

    /// Starts a reload for all callers that wait for it.
    pub(crate) fn begin(&self, wanted: Wanted) -> ReloadGuard<'_> {
        ReloadGuard {
            recalls: self,
            wanted,
            outcome: Err(EngineError::Stopping),
        }
    }

    /// Stops all reloads, and notifies all waiting callers.
    pub(crate) fn stop(&self) {
        self.settled.stop();
        let mut waiting = self.waiting.lock();
        waiting.is_over = true;
        waiting.campaigns.clear();
    }
}

/// A running reload. Its drop sends the outcome to all waiting callers, in any case.
pub(crate) struct ReloadGuard<'a> {
    recalls: &'a ReloadQueue,
    wanted: Wanted,
    /// Initially the error of an abandoned reload.
    pub(crate) outcome: Result<ReloadResult, EngineError>,
}

impl Drop for ReloadGuard<'_> {
    fn drop(&mut self) {
        let waits = self.recalls.waiting.lock().campaigns.remove(&self.wanted);
        if let Some(waits) = waits {
            waits.send_replace(Some(self.outcome.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> Wanted {
        (qiang_testkit::campaign::id(n), ReloadNeed::Any)
    }

    #[test]
    fn a_campaign_is_brought_back_for_all_who_wait() {
        let recalls = ReloadQueue::new(1);
        let mut asked = recalls.take_asked().unwrap();
        let waits = [1, 1, 2].map(|n| recalls.join(id(n)).unwrap());
        assert_eq!(
            waits.each_ref().map(|(_, begins)| *begins),
            [true, false, true]
        );
        for n in [1, 2] {
            assert_eq!(asked.try_recv(), Ok(id(n)));
        }
        assert!(asked.try_recv().is_err());
        recalls.begin(id(1)).outcome = Ok(ReloadResult::Here);
        let outcomes = waits
            .each_ref()
            .map(|(outcome, _)| outcome.borrow().clone());
        let here = || Some(Ok(ReloadResult::Here));
        assert_eq!(outcomes, [here(), here(), None]);
        assert!(recalls.join(id(1)).unwrap().1, "it may have left again");
        let owed = (id(1).0, ReloadNeed::Owed);
        assert!(recalls.join(owed).unwrap().1, "another need has its own");
        drop(asked);
        let joined = recalls.join(id(3)).map(drop);
        assert_eq!(joined, Err(EngineError::Stopping), "no task reloads");
    }

    #[test]
    fn nobody_waits_for_what_was_given_up() {
        let recalls = ReloadQueue::new(1);
        let _asked = recalls.take_asked();
        let outcome = |n: u64| recalls.join(id(n)).unwrap();
        let (panicked, _) = outcome(1);
        drop(recalls.begin(id(1)));
        let stopping = Err(EngineError::Stopping);
        assert_eq!(*panicked.borrow(), Some(stopping));
        let (again, begins) = outcome(1);
        assert!(begins, "a later caller starts another reload");

        let late = recalls.begin(id(1));
        recalls.stop();
        assert!(again.has_changed().is_err(), "no answer can come");
        drop(late);
        let joined = recalls.join(id(2)).map(drop);
        assert_eq!(joined, Err(EngineError::Stopping));
    }
}
