//! Ledger reads about evicted campaigns, whose answers are kept for a short time.
//!
//! A ledger may be slower than a caller waits. A read that has begun is finished, and a retry finds its answer. Redis
//! is asked each time whether a kept record still counts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    book::OrderView,
    event::{PartitionId, Seq},
    id::{CampaignId, UserId},
    ports::{CampaignRecord, EngineError, SettledRow},
};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

/// Reads of users' rows and of orders that one node runs at a time.
const READS_MAX: usize = 16;
/// Maximum answers that are kept or read. If all are being read, further questions are refused as overload.
const ANSWERS_MAX: usize = 4_096;
/// Maximum campaigns whose records are kept.
const RECORDS_MAX: usize = 256;
/// Time that a record and its answers are kept.
const KEPT: Duration = Duration::from_secs(30);

/// Question about an evicted campaign.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SettledQuestion {
    /// Rows of a user.
    User(UserId),
    /// The grant with this number.
    Order(u32),
}

/// Answer to a [`SettledQuestion`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SettledAnswer {
    /// To `User`.
    Rows(Arc<[SettledRow]>),
    /// To `Order`.
    Order(Option<OrderView>),
}

/// Record of a closed campaign of which the ledger had all entries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedRecord {
    pub(crate) record: Arc<CampaignRecord>,
    /// Entry up to which the ledger was settled before the read, for each partition of the campaign.
    pub(crate) positions: Vec<(PartitionId, Seq)>,
}

/// Answer to a question, once known.
type Outcome = Option<Result<SettledAnswer, EngineError>>;

struct KeptAnswer {
    /// The answer counts only together with it.
    record: Arc<CampaignRecord>,
    outcome: watch::Receiver<Outcome>,
}

#[derive(Default)]
struct KeptAnswers {
    records: HashMap<CampaignId, (CheckedRecord, Instant)>,
    answers: HashMap<(CampaignId, SettledQuestion), KeptAnswer>,
}

impl KeptAnswers {
    fn forget(&mut self, campaign: CampaignId) {
        self.records.remove(&campaign);
        self.answers.retain(|(of, _), _| *of != campaign);
    }

    fn forget_expired(&mut self, now: Instant) {
        let expired = |read_at: Instant| now.duration_since(read_at) >= KEPT;
        let all = self.records.iter();
        let old = all.filter(|(_, (_, read_at))| expired(*read_at));
        for campaign in old.map(|(campaign, _)| *campaign).collect::<Vec<_>>() {
            self.forget(campaign);
        }
    }
}

/// Reads of one node.
pub(crate) struct SettledReads {
    kept: Arc<Mutex<KeptAnswers>>,
    at_a_time: Arc<Semaphore>,
    /// Whether the engine stops.
    is_stopping: watch::Sender<bool>,
}

impl Default for SettledReads {
    fn default() -> Self {
        Self {
            kept: Arc::default(),
            at_a_time: Arc::new(Semaphore::new(READS_MAX)),
            is_stopping: watch::Sender::new(false),
        }
    }
}

impl SettledReads {
    /// The kept record of a campaign. The caller checks in Redis that it still counts.
    pub(crate) fn record(&self, campaign: CampaignId) -> Option<CheckedRecord> {
        let mut kept = self.kept.lock();
        kept.forget_expired(Instant::now());
        kept.records.get(&campaign).map(|(known, _)| known.clone())
    }

    /// Keeps a record that was just read.
    pub(crate) fn keep(&self, known: CheckedRecord) {
        let mut kept = self.kept.lock();
        let campaign = known.record.campaign.id;
        kept.forget(campaign);
        if kept.records.len() >= RECORDS_MAX {
            let oldest = kept.records.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(campaign, _)| *campaign) {
                kept.forget(oldest);
            }
        }
        kept.records.insert(campaign, (known, Instant::now()));
    }

    /// Forgets a record that no longer counts, with its answers.
    pub(crate) fn forget(&self, campaign: CampaignId) {
        self.kept.lock().forget(campaign);
    }

    /// Answer to a question about a campaign. A read that takes longer than `until` still finishes, for later callers.
    /// `late` is the error after the deadline.
    ///
    /// # Errors
    /// If the read fails or is late, too many reads wait, or the engine stops.
    pub(crate) async fn ask<F>(
        &self,
        record: &Arc<CampaignRecord>,
        question: SettledQuestion,
        read: impl FnOnce() -> F,
        (until, late): (Instant, impl FnOnce() -> EngineError),
    ) -> Result<SettledAnswer, EngineError>
    where
        F: Future<Output = Result<SettledAnswer, EngineError>> + Send + 'static,
    {
        let mut outcome = self.join(record, question, read)?;
        let known = tokio::time::timeout_at(until, outcome.wait_for(Option::is_some)).await;
        match known {
            Ok(Ok(known)) => known.clone().unwrap_or(Err(EngineError::Stopping)),
            Ok(Err(_)) => Err(EngineError::Stopping),
            Err(_) => Err(late()),
        }
    }

    fn join<F>(
        &self,
        record: &Arc<CampaignRecord>,
        question: SettledQuestion,
        read: impl FnOnce() -> F,
    ) -> Result<watch::Receiver<Outcome>, EngineError>
    where
        F: Future<Output = Result<SettledAnswer, EngineError>> + Send + 'static,
    {
        let key = (record.campaign.id, question);
        let mut kept = self.kept.lock();
        if let Some(known) = kept.answers.get(&key)
            && Arc::ptr_eq(&known.record, record)
        {
            return Ok(known.outcome.clone());
        }
        if kept.answers.len() >= ANSWERS_MAX {
            kept.answers.retain(|_, it| it.outcome.borrow().is_none());
        }
        if kept.answers.len() >= ANSWERS_MAX {
            return Err(EngineError::Overloaded);
        }
        let (sends, outcome) = watch::channel(None);
        let answer = KeptAnswer {
            record: Arc::clone(record),
            outcome: outcome.clone(),
        };
        kept.answers.insert(key.clone(), answer);
        drop(kept);
        let reading = Reading {
            kept: Arc::clone(&self.kept),
            key,
            outcome: outcome.clone(),
            sends,
        };
        let (read, at_a_time) = (read(), Arc::clone(&self.at_a_time));
        let mut is_stopping = self.is_stopping.subscribe();
        tokio::spawn(async move {
            let answer = async {
                let _permit = at_a_time.acquire().await;
                read.await
            };
            let answer = tokio::select! {
                answer = answer => answer,
                _ = is_stopping.wait_for(|is_stopping| *is_stopping) => Err(EngineError::Stopping),
            };
            reading.sends.send_replace(Some(answer));
        });
        Ok(outcome)
    }

    /// Ends all reads.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }
}

/// A running read. Its drop forgets a question without an answer, so that the next caller starts another read.
struct Reading {
    kept: Arc<Mutex<KeptAnswers>>,
    key: (CampaignId, SettledQuestion),
    outcome: watch::Receiver<Outcome>,
    sends: watch::Sender<Outcome>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if matches!(&*self.outcome.borrow(), Some(Ok(_))) {
            return;
        }
        let mut kept = self.kept.lock();
        let own = kept.answers.get(&self.key);
        if own.is_some_and(|own| own.outcome.same_channel(&self.outcome)) {
            kept.answers.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::campaign::{Details, Phase};
    use qiang_testkit::campaign::sale;
    use tokio::sync::oneshot;

    use super::*;

    /// Reads of these tests answer at once or never.
    const WITHIN: Duration = Duration::from_millis(100);

    fn record(n: u64) -> Arc<CampaignRecord> {
        let created = CampaignRecord::created(sale(10).setup(n).campaign, Details::default());
        Arc::new(CampaignRecord {
            phase: Phase::Closed,
            ..created
        })
    }

    fn checked(record: &Arc<CampaignRecord>) -> CheckedRecord {
        CheckedRecord {
            record: Arc::clone(record),
            positions: Vec::new(),
        }
    }

    fn late() -> EngineError {
        EngineError::unavailable("late")
    }

    async fn ask(
        reads: &SettledReads,
        record: &Arc<CampaignRecord>,
        number: u32,
        read: impl Future<Output = Result<SettledAnswer, EngineError>> + Send + 'static,
    ) -> Result<SettledAnswer, EngineError> {
        let within = (Instant::now() + WITHIN, late);
        let question = SettledQuestion::Order(number);
        reads.ask(record, question, || read, within).await
    }

    #[tokio::test]
    async fn a_retry_finds_the_answer_of_a_late_read() {
        let reads = SettledReads::default();
        let record = record(1);
        reads.keep(checked(&record));
        let (answers, answer) = oneshot::channel();
        let slow = async { answer.await.unwrap_or_else(|_| Err(late())) };
        assert_eq!(ask(&reads, &record, 1, slow).await, Err(late()));
        answers.send(Ok(SettledAnswer::Order(None))).unwrap();
        let again = async || ask(&reads, &record, 1, async { Err(EngineError::Overloaded) }).await;
        assert_eq!(again().await, Ok(SettledAnswer::Order(None)));
        assert_eq!(again().await, Ok(SettledAnswer::Order(None)), "it is kept");
        reads.kept.lock().forget_expired(Instant::now() + KEPT);
        assert_eq!(reads.record(record.campaign.id), None);
        assert_eq!(again().await, Err(EngineError::Overloaded));
    }

    #[tokio::test]
    async fn an_error_and_an_answer_of_another_record_are_not_kept() {
        let reads = SettledReads::default();
        let (first, second) = (record(1), record(1));
        let none = async || Ok(SettledAnswer::Order(None));
        assert_eq!(
            ask(&reads, &first, 1, async { Err(late()) }).await,
            Err(late())
        );
        assert_eq!(ask(&reads, &first, 1, none()).await, none().await);
        let other = ask(&reads, &second, 1, async { Err(late()) }).await;
        assert_eq!(other, Err(late()));
        reads.stop();
        let never = std::future::pending();
        let stopped = ask(&reads, &first, 2, never).await;
        assert_eq!(stopped, Err(EngineError::Stopping));
    }

    #[tokio::test]
    async fn kept_answers_are_bounded() {
        let reads = SettledReads::default();
        for n in 0..=RECORDS_MAX as u64 {
            reads.keep(checked(&record(n)));
        }
        assert_eq!(reads.kept.lock().records.len(), RECORDS_MAX);
        let record = record(1);
        let mut waiting = Vec::new();
        for number in 0..ANSWERS_MAX as u32 {
            let question = SettledQuestion::Order(number);
            waiting.push(reads.join(&record, question, std::future::pending).unwrap());
        }
        let further = || {
            ask(&reads, &record, u32::MAX, async {
                Ok(SettledAnswer::Order(None))
            })
        };
        assert_eq!(further().await, Err(EngineError::Overloaded));
        reads.stop();
        for mut outcome in waiting {
            assert!(outcome.wait_for(Option::is_some).await.is_ok());
        }
    }
}
