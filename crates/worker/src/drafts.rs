//! Opens drafts: campaigns that are in the ledger, and that no engine has opened yet.
//!
//! A crash between a campaign's funding and its opening leaves a draft, and so does a request that is cut off there.
//! Most drafts in the ledger are open campaigns whose first entry is not settled yet. So the opener lists only ids. It
//! reads a campaign with its shares only if the engine does not have it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use qiang_core::{
    book::{Command, Setup},
    campaign::Tally,
    id::CampaignId,
    ports::{Engine, EngineError, Ledger, LedgerError},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for drafts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum drafts per run.
const DRAFTS_MAX: u32 = 256;
/// Maximum drafts that are opened concurrently.
const AT_ONCE_MAX: usize = 16;
/// Time limit for one draft.
const OPEN_MAX: Duration = Duration::from_secs(60);
/// Pause before an unreadable draft is read again.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Maximum unreadable drafts that are remembered. Further ones are read again at every run.
const UNREADABLE_MAX: usize = 10_000;

/// Reason why not all drafts are open.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The ledger did not list the drafts, or could not read one.
    #[error("cannot read drafts: {0}")]
    Ledger(LedgerError),
    /// The engine did not open one.
    #[error("cannot open campaign {0}: {1}")]
    Engine(CampaignId, EngineError),
    /// The engine reported success, and does not have the campaign, or not all of it.
    #[error("engine and ledger differ about campaign {0} after it was opened")]
    NotThere(CampaignId),
    /// Opening one exceeded the time limit.
    #[error("cannot open campaign {0} within {OPEN_MAX:?}")]
    Late(CampaignId),
}

/// Result of looking at one draft.
enum DraftStatus {
    /// The engine already had it.
    Open,
    /// The engine has opened it.
    Opened,
    /// The ledger has it, but cannot read it.
    Unreadable(LedgerError),
}

/// Opens drafts in an engine.
pub struct DraftOpener {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
    /// Draft after which the next run continues, so drafts that cannot be opened delay no others.
    after: Option<CampaignId>,
    /// Drafts that could not be read, with the time of the attempt.
    unreadable: BTreeMap<CampaignId, Instant>,
}

/// Result of a run.
struct DraftRun {
    drafts: usize,
    /// Drafts that this run opened.
    opened: usize,
    failed: Option<DraftError>,
}

impl DraftOpener {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates an opener for the drafts of this ledger, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self {
            ledger,
            engine,
            after: None,
            unreadable: BTreeMap::new(),
        }
    }

    /// Drafts in the ledger.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn found(&self) -> Result<Vec<CampaignId>, DraftError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(after).await?;
            after = next_page(&page);
            all.extend(page);
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Opens every draft that can be opened, and returns the number of drafts in the ledger. Each opened draft is read
    /// back: all its parts must be there, and their counts must add up to the funded amount.
    ///
    /// # Errors
    /// If the ledger does not answer, or the first campaign that the engine has not opened; the others are open. A
    /// draft that cannot be read is logged, and is no error.
    pub async fn open_all(&mut self) -> Result<usize, DraftError> {
        let (mut count, mut failed) = (0, None);
        self.after = None;
        loop {
            let run = self.open_some().await?;
            count += run.drafts;
            failed = failed.or(run.failed);
            if self.after.is_none() {
                return failed.map_or(Ok(count), Err);
            }
        }
    }

    /// The first drafts, or the drafts after this one.
    async fn page(&self, after: Option<CampaignId>) -> Result<Vec<CampaignId>, DraftError> {
        let found = self.ledger.drafts(after, DRAFTS_MAX).await;
        found.map_err(DraftError::Ledger)
    }

    /// Opens the drafts of one page.
    async fn open_some(&mut self) -> Result<DraftRun, DraftError> {
        let after = self.after.take();
        let page = self.page(after).await?;
        self.after = next_page(&page);
        self.unreadable
            .retain(|_, since| since.elapsed() < AGAIN_AFTER);
        let asks =
            |id: &CampaignId| !self.engine.has_opened(*id) && !self.unreadable.contains_key(id);
        let waiting: Vec<_> = page.iter().copied().filter(asks).collect();
        let mut waiting = waiting.into_iter();
        let mut run = DraftRun {
            drafts: page.len(),
            opened: 0,
            failed: None,
        };
        // Dropping this set cancels the tasks in flight.
        let mut opening = JoinSet::new();
        loop {
            let room = AT_ONCE_MAX - opening.len();
            for id in waiting.by_ref().take(room) {
                let (ledger, engine) = (Arc::clone(&self.ledger), Arc::clone(&self.engine));
                opening.spawn(async move {
                    let looked = timeout(OPEN_MAX, read_status(&*ledger, &*engine, id)).await;
                    (id, looked.unwrap_or(Err(DraftError::Late(id))))
                });
            }
            match opening.join_next().await {
                None => return Ok(run),
                Some(Ok((_, Ok(DraftStatus::Open)))) => {}
                Some(Ok((_, Ok(DraftStatus::Opened)))) => run.opened += 1,
                Some(Ok((id, Ok(DraftStatus::Unreadable(error))))) => self.skip(id, &error),
                Some(Ok((_, Err(error)))) => {
                    run.failed.get_or_insert(error);
                }
                Some(Err(failed)) => std::panic::resume_unwind(failed.into_panic()),
            }
        }
    }

    fn skip(&mut self, campaign: CampaignId, error: &LedgerError) {
        tracing::error!(
            %campaign,
            reason = %error,
            "cannot read a draft from the ledger, its campaign is not opened; next attempt in ten minutes"
        );
        if self.unreadable.len() < UNREADABLE_MAX {
            self.unreadable.insert(campaign, Instant::now());
        }
    }
}

/// Draft after which the next page begins, if there may be one.
fn next_page(page: &[CampaignId]) -> Option<CampaignId> {
    page.last()
        .copied()
        .filter(|_| page.len() == DRAFTS_MAX as usize)
}

/// Opens a draft that the engine does not have.
async fn read_status(
    ledger: &dyn Ledger,
    engine: &dyn Engine,
    id: CampaignId,
) -> Result<DraftStatus, DraftError> {
    match engine.tally(id).await {
        Ok(Some(tally)) if tally.conserves() => return Ok(DraftStatus::Open),
        Ok(_) => {}
        // An engine that reads the same rows reports only that it cannot. The ledger knows the reason.
        Err(error) => match ledger.campaign(id).await {
            Err(damaged @ LedgerError::Damaged { .. }) => {
                return Ok(DraftStatus::Unreadable(damaged));
            }
            _ => return Err(DraftError::Engine(id, error)),
        },
    }
    match ledger.setup(id).await {
        Ok(Some(setup)) => open(engine, setup).await,
        // The ledger listed this draft. Only a ledger that was replaced since can lack it now.
        Ok(None) => Err(DraftError::NotThere(id)),
        Err(error @ LedgerError::Unavailable { .. }) => Err(DraftError::Ledger(error)),
        Err(error) => Ok(DraftStatus::Unreadable(error)),
    }
}

async fn open(engine: &dyn Engine, setup: Setup) -> Result<DraftStatus, DraftError> {
    let (id, funded_minor) = (setup.campaign.id, setup.campaign.funded_minor());
    let failed = |error| DraftError::Engine(id, error);
    let command = Command::Open(Box::new(setup));
    engine.submit(command).await.map_err(failed)?;
    let tally = engine.tally(id).await.map_err(failed)?;
    // A repair may withhold some units, and a sale's stock may have changed since.
    let is_whole = |tally: &Tally| tally.conserves() && tally.funded_minor <= funded_minor;
    match tally.is_some_and(|tally| is_whole(&tally)) {
        true => Ok(DraftStatus::Opened),
        false => Err(DraftError::NotThere(id)),
    }
}

impl Reconciler for DraftOpener {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        match self.open_some().await {
            Ok(DraftRun {
                failed: Some(error),
                ..
            })
            | Err(error) => Err(ReconcileError(error.to_string())),
            // There are further drafts, and they need not wait for the interval.
            Ok(run) if run.opened > 0 && self.after.is_some() => Ok(NextRun::Again),
            Ok(_) => Ok(NextRun::Wait),
        }
    }
}
