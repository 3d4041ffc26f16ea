//! A scripted log and a scripted ledger that record their calls.

mod money;

mod webhooks;

mod repairs;

#[allow(dead_code, reason = "only a simulation makes one")]
pub(crate) mod kept;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    campaign::{Details, DetailsChange},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, UserId},
    metadata::{Metadata, MetadataChange, MetadataSubject},
    ports::{
        Action, AudienceStore, CampaignQuery, CampaignRecord, CampaignStore, Discard, EventLog,
        GrantRecord, GrantTimes, LedgerError, MetadataResult, MetadataStore, QuarantineCount,
        QuarantineStore, QuarantinedEntry, ReferenceQuery, RepairAttempt, SettlementStore,
        WaitingRoomStore,
    },
};
use qiang_testkit::{
    campaign::{OPENS, id},
    simulation::Rows,
};
use tokio::{sync::Semaphore, time::Instant};
use uuid::Uuid;

pub(crate) fn entry(seq: Seq) -> Entry {
    Entry {
        seq,
        at: OPENS,
        campaign: id(1),
        event: Event::Paused,
    }
}

pub(crate) fn broken() -> LedgerError {
    LedgerError::Unavailable {
        reason: "a planted failure".to_owned(),
    }
}

fn page_behind(mut ids: Vec<CampaignId>, after: Option<CampaignId>, limit: u32) -> Vec<CampaignId> {
    let before = |after| ids.iter().position(|id| *id == after);
    ids.drain(..after.and_then(before).map_or(0, |at| at + 1));
    ids.truncate(limit as usize);
    ids
}

/// One partition of the log.
#[derive(Default)]
struct Part {
    head: Seq,
    /// Number of reads of its head.
    looked: u64,
    released: Vec<Seq>,
}

/// A log of generated entries.
pub(crate) struct FakeLog {
    parts: Mutex<BTreeMap<PartitionId, Part>>,
    /// Error of `head` and `read`, if set.
    pub(crate) lost: Mutex<Option<LedgerError>>,
    /// Number of `release` calls that still fail.
    pub(crate) releases_fail: Mutex<u32>,
    /// Partitions whose head is never answered.
    pub(crate) silent: Mutex<Vec<PartitionId>>,
    /// Last entry that replicas have in all partitions, if they lack some.
    pub(crate) replicated: Mutex<Option<Seq>>,
    /// Last entry that was trimmed by hand.
    pub(crate) trimmed_to: Mutex<Seq>,
    /// Recorded gaps.
    pub(crate) gaps: Mutex<Vec<(PartitionId, Seq, Seq)>>,
}

impl FakeLog {
    pub(crate) fn new(partitions: &[u16]) -> Arc<Self> {
        let parts = partitions
            .iter()
            .map(|n| (PartitionId(*n), Part::default()));
        Arc::new(Self {
            parts: Mutex::new(parts.collect()),
            lost: Mutex::new(None),
            releases_fail: Mutex::new(0),
            silent: Mutex::default(),
            replicated: Mutex::default(),
            trimmed_to: Mutex::default(),
            gaps: Mutex::default(),
        })
    }

    pub(crate) fn ends_at(&self, partition: u16, head: Seq) {
        let mut parts = self.parts.lock().unwrap();
        parts.get_mut(&PartitionId(partition)).unwrap().head = head;
    }

    pub(crate) fn looked(&self, partition: u16) -> u64 {
        self.parts.lock().unwrap()[&PartitionId(partition)].looked
    }

    pub(crate) fn released(&self, partition: u16) -> Vec<Seq> {
        let parts = self.parts.lock().unwrap();
        parts[&PartitionId(partition)].released.clone()
    }

    fn well(&self) -> Result<(), LedgerError> {
        self.lost.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl EventLog for FakeLog {
    fn partitions(&self) -> Vec<PartitionId> {
        self.parts.lock().unwrap().keys().copied().collect()
    }

    async fn epoch(&self, _partition: PartitionId) -> Result<String, LedgerError> {
        Ok(String::new())
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        self.well()?;
        if self.silent.lock().unwrap().contains(&partition) {
            std::future::pending::<()>().await;
        }
        let mut parts = self.parts.lock().unwrap();
        let part = parts.get_mut(&partition).unwrap();
        part.looked += 1;
        Ok(part.head)
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        self.well()?;
        let head = self.parts.lock().unwrap()[&partition].head;
        let end = self.replicated.lock().unwrap().unwrap_or(head).min(head);
        let after = after.max(*self.trimmed_to.lock().unwrap());
        Ok((after + 1..=end).take(limit).map(entry).collect())
    }

    fn note_log_gap(&self, partition: PartitionId, first: Seq, last: Seq) {
        self.gaps.lock().unwrap().push((partition, first, last));
    }

    fn awaits_replicas(&self, partition: PartitionId) -> bool {
        let head = self.parts.lock().unwrap()[&partition].head;
        self.replicated
            .lock()
            .unwrap()
            .is_some_and(|end| end < head)
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        let mut fail = self.releases_fail.lock().unwrap();
        if *fail > 0 {
            *fail -= 1;
            return Err(broken());
        }
        let mut parts = self.parts.lock().unwrap();
        parts.get_mut(&partition).unwrap().released.push(upto);
        Ok(())
    }
}

/// A ledger that only settles.
pub(crate) struct FakeLedger {
    settled: Mutex<BTreeMap<PartitionId, Seq>>,
    /// Partitions that it refuses to settle.
    pub(crate) refused: Mutex<Vec<PartitionId>>,
    /// Attempts to settle: partition, number of entries, and time.
    pub(crate) attempts: Mutex<Vec<(PartitionId, usize, Instant)>>,
    /// Entries that it refuses, in any run.
    pub(crate) poison: Mutex<Vec<Seq>>,
    /// Quarantined entries.
    pub(crate) aside: Mutex<Vec<Seq>>,
    /// Number of further quarantined entries that it reports.
    pub(crate) aside_before: Mutex<u64>,
    /// Whether quarantining an entry fails.
    pub(crate) aside_fails: Mutex<bool>,
    /// Time until it answers with its positions. They are those of the start of the call.
    pub(crate) positions_take: Mutex<Duration>,
    /// Number of reads of a campaign with its shares.
    pub(crate) setups_read: AtomicUsize,
    /// Campaigns whose reads fail.
    pub(crate) unreadable: Mutex<Vec<CampaignId>>,
    /// Drafts that it reports.
    pub(crate) drafts: Mutex<Result<Vec<Setup>, LedgerError>>,
    /// Claimed packets that it reports.
    pub(crate) claimed: Mutex<Result<Vec<CampaignId>, LedgerError>>,
    /// Permits of settlements; each needs one.
    pub(crate) permits: Semaphore,
    /// Rows with lost requests and replies; `None` for a ledger without rows.
    pub(crate) kept: Mutex<Option<kept::Kept>>,
}

impl FakeLedger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            settled: Mutex::default(),
            refused: Mutex::default(),
            attempts: Mutex::default(),
            poison: Mutex::default(),
            aside: Mutex::default(),
            aside_before: Mutex::default(),
            aside_fails: Mutex::default(),
            positions_take: Mutex::default(),
            setups_read: AtomicUsize::new(0),
            unreadable: Mutex::default(),
            drafts: Mutex::new(Ok(Vec::new())),
            claimed: Mutex::new(Ok(Vec::new())),
            permits: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            kept: Mutex::default(),
        })
    }

    pub(crate) fn at(&self, partition: u16) -> Seq {
        let settled = self.settled.lock().unwrap();
        settled.get(&PartitionId(partition)).copied().unwrap_or(0)
    }

    /// Reads the rows; `None` for a ledger without rows.
    fn kept_rows<T>(&self, read: impl FnOnce(&Rows) -> T) -> Option<Result<T, LedgerError>> {
        let mut kept = self.kept.lock().unwrap();
        kept.as_mut().map(|kept| kept.read(read))
    }

    pub(crate) fn put(&self, partition: u16, seq: Seq) {
        let mut settled = self.settled.lock().unwrap();
        settled.insert(PartitionId(partition), seq);
    }
}

#[async_trait]
impl WaitingRoomStore for FakeLedger {
    async fn add_waiting_room(&self, _: CampaignId) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn has_waiting_room(&self, _: CampaignId) -> Result<bool, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl CampaignStore for FakeLedger {
    async fn create_by(
        &self,
        _: &Setup,
        _: &Details,
        _: Option<&str>,
        _: Option<&Action>,
    ) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn describe(
        &self,
        _: CampaignId,
        _: &DetailsChange,
        _: Option<&Action>,
        _: Option<Uuid>,
    ) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn describe_if(
        &self,
        _: CampaignId,
        _: (&str, &Details),
        _: &DetailsChange,
        _: (Option<&Action>, Option<Uuid>),
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn archive(&self, _: CampaignId, _: Option<&Action>) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn list(&self, _: &CampaignQuery) -> Result<Vec<CampaignRecord>, LedgerError> {
        Err(broken())
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        match self.unreadable.lock().unwrap().contains(&id) {
            true => Err(LedgerError::damaged("a planted failure")),
            false => Err(broken()),
        }
    }

    async fn drafts(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        if let Some(drafts) = self.kept_rows(Rows::drafts) {
            return Ok(page_behind(drafts?, after, limit));
        }
        let drafts = self.drafts.lock().unwrap();
        let drafts = drafts.as_ref().map_err(Clone::clone)?;
        let ids: Vec<_> = drafts.iter().map(|setup| setup.campaign.id).collect();
        Ok(page_behind(ids, after, limit))
    }

    async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError> {
        if let Some(setup) = self.kept_rows(|rows| rows.setup(id)) {
            return setup;
        }
        self.setups_read.fetch_add(1, Ordering::Relaxed);
        if self.unreadable.lock().unwrap().contains(&id) {
            return Err(LedgerError::damaged("a planted failure"));
        }
        let drafts = self.drafts.lock().unwrap().clone()?;
        Ok(drafts.into_iter().find(|setup| setup.campaign.id == id))
    }

    async fn claimed_packets(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        if let Some(claimed) = self.kept_rows(Rows::claimed_packets) {
            return Ok(page_behind(claimed?, after, limit));
        }
        let claimed = self.claimed.lock().unwrap().clone()?;
        Ok(page_behind(claimed, after, limit))
    }

    async fn grants(&self, _: CampaignId, _: u32, _: u32) -> Result<Vec<GrantRecord>, LedgerError> {
        Err(broken())
    }

    async fn grant_times(
        &self,
        _: CampaignId,
        _: Vec<u32>,
    ) -> Result<Vec<GrantTimes>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl AudienceStore for FakeLedger {
    async fn audience(&self, _: CampaignId) -> Result<Option<String>, LedgerError> {
        Err(broken())
    }

    async fn has_share(&self, _: CampaignId, _: &UserId) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn luckiest(&self, _: CampaignId) -> Result<Option<GrantRecord>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl MetadataStore for FakeLedger {
    async fn add_metadata(
        &self,
        _: MetadataSubject,
        _: &UserId,
        _: &Metadata,
    ) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn change_metadata(
        &self,
        _: MetadataSubject,
        _: &UserId,
        _: (&MetadataChange, Option<&Metadata>),
        _: (&Action, Option<Uuid>),
    ) -> Result<MetadataResult, LedgerError> {
        Err(broken())
    }

    async fn metadata(&self, _: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError> {
        Err(broken())
    }

    async fn with_reference(&self, _: &ReferenceQuery) -> Result<Vec<String>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl SettlementStore for FakeLedger {
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.at(partition.0))
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        let settled = self.settled.lock().unwrap().clone().into_iter().collect();
        let take = *self.positions_take.lock().unwrap();
        tokio::time::sleep(take).await;
        Ok(settled)
    }

    async fn await_settled(
        &self,
        _: PartitionId,
        _: Seq,
        _: Duration,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        let attempt = (partition, entries.len(), Instant::now());
        self.attempts.lock().unwrap().push(attempt);
        let under_way = self.kept.lock().unwrap().as_mut().map(kept::Kept::receive);
        if let Some((weather, takes)) = under_way {
            tokio::time::sleep(takes).await;
            let mut kept = self.kept.lock().unwrap();
            let kept = kept.as_mut().expect("the ledger has rows");
            let last = kept.take(entries, weather)?;
            self.put(partition.0, last);
            return kept::reply(weather, last);
        }
        self.permits.acquire().await.unwrap().forget();
        if self.refused.lock().unwrap().contains(&partition) {
            return Err(broken());
        }
        let poison = self.poison.lock().unwrap().clone();
        if let Some(bad) = entries.iter().find(|entry| poison.contains(&entry.seq)) {
            let reason = format!("entry {} is bad", bad.seq);
            return Err(LedgerError::Damaged { reason });
        }
        let settled = self.at(partition.0);
        let first = entries.first().map(|entry| entry.seq);
        assert_eq!(first, Some(settled + 1), "entries follow the position");
        let last = entries.last().unwrap().seq;
        self.put(partition.0, last);
        Ok(last)
    }

    async fn settle_past(
        &self,
        _: &RepairAttempt,
        _: Seq,
        _: &[Entry],
        _: Seq,
    ) -> Result<Seq, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl QuarantineStore for FakeLedger {
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        let keeps = self.kept.lock().unwrap().is_some();
        if keeps || *self.aside_fails.lock().unwrap() {
            return Err(broken());
        }
        assert_eq!(reason, format!("entry {} is bad", entry.seq));
        assert_eq!(entry.seq, self.at(partition.0) + 1);
        self.aside.lock().unwrap().push(entry.seq);
        self.put(partition.0, entry.seq);
        Ok(entry.seq)
    }

    async fn is_grant_quarantined(
        &self,
        _: PartitionId,
        _: CampaignId,
        _: u32,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn count_quarantined(&self, _: PartitionId) -> Result<QuarantineCount, LedgerError> {
        let before = *self.aside_before.lock().unwrap();
        let refused = self.aside.lock().unwrap().len() as u64 + before;
        Ok(QuarantineCount {
            refused,
            waiting: 0,
        })
    }

    async fn list_quarantined(
        &self,
        _: Option<(PartitionId, Seq)>,
        _: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError> {
        Err(broken())
    }

    async fn redrive(&self, _: PartitionId, _: Seq) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn ask_discard(&self, _: PartitionId, _: Seq) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn is_discarded(&self, _: PartitionId, _: Seq) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn discards(&self, _: u32) -> Result<Vec<Discard>, LedgerError> {
        Err(broken())
    }

    async fn discard(&self, _: PartitionId, _: Seq) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn end_discard(&self, _: PartitionId, _: Seq) -> Result<(), LedgerError> {
        Err(broken())
    }
}
