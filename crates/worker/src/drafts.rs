//! Opens drafts: campaigns that are in the ledger, and that no engine has opened yet.
//!
//! A crash between a campaign's funding and its opening leaves one behind, and so does a request that was cut off
//! there. Most campaigns that the ledger has as drafts are open: they are drafts there until their first entry is
//! settled. So the ledger is asked for ids, and for a campaign with its shares only where the engine does not have it.

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

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often drafts are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Drafts that one run looks at.
const DRAFTS_MAX: u32 = 256;
/// So many of them are opened at a time.
const AT_ONCE_MAX: usize = 16;
/// How long one may take.
const OPEN_MAX: Duration = Duration::from_secs(60);
/// When one is read again that could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Drafts that could not be read and are remembered for so long. Further ones are read again at every look.
const UNREADABLE_MAX: usize = 10_000;

/// Why not all drafts are open.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The ledger did not list them, or did not read one.
    #[error("drafts cannot be read: {0}")]
    Ledger(LedgerError),
    /// The engine did not open one.
    #[error("campaign {0} is not opened: {1}")]
    Engine(CampaignId, EngineError),
    /// The engine says that it has opened one, and does not have it, or not all of it.
    #[error("campaign {0} was opened, and the engine does not have it as the ledger has")]
    NotThere(CampaignId),
    /// One did not come to an end.
    #[error("campaign {0} takes longer than {OPEN_MAX:?} to open")]
    Late(CampaignId),
}

/// What one look at a draft found.
enum Looked {
    /// The engine has it already.
    Open,
    /// The engine has it now.
    Opened,
    /// The ledger has it, and cannot read it.
    Unreadable(LedgerError),
}

/// Opens drafts in an engine.
pub struct DraftOpener {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
    /// Behind which draft the next run goes on: those that cannot be opened hold up no others.
    after: Option<CampaignId>,
    /// Those that could not be read, and when.
    unreadable: BTreeMap<CampaignId, Instant>,
}

/// What a run has come to.
struct Run {
    drafts: usize,
    /// How many of them were opened.
    opened: usize,
    failed: Option<DraftError>,
}

impl DraftOpener {
    /// When it looks for drafts.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Opens what is a draft in this ledger, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self {
            ledger,
            engine,
            after: None,
            unreadable: BTreeMap::new(),
        }
    }

    /// Campaigns that the ledger has as drafts.
    ///
    /// # Errors
    /// When the ledger does not answer.
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

    /// Opens every draft that can be opened, and returns how many the ledger had. Each that it opens is read back: all
    /// its parts are there, and their numbers add up to what the ledger has funded.
    ///
    /// # Errors
    /// When the ledger does not answer, or the first campaign that the engine has not opened; the others are open. One
    /// that cannot be read is no error: it is logged.
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

    /// The first drafts, or those behind this one.
    async fn page(&self, after: Option<CampaignId>) -> Result<Vec<CampaignId>, DraftError> {
        let found = self.ledger.drafts(after, DRAFTS_MAX).await;
        found.map_err(DraftError::Ledger)
    }

    /// Opens those of one page.
    async fn open_some(&mut self) -> Result<Run, DraftError> {
        let after = self.after.take();
        let page = self.page(after).await?;
        self.after = next_page(&page);
        self.unreadable
            .retain(|_, since| since.elapsed() < AGAIN_AFTER);
        let asks =
            |id: &CampaignId| !self.engine.has_opened(*id) && !self.unreadable.contains_key(id);
        let waiting: Vec<_> = page.iter().copied().filter(asks).collect();
        let mut waiting = waiting.into_iter();
        let mut run = Run {
            drafts: page.len(),
            opened: 0,
            failed: None,
        };
        // Dropped, it ends what is under way.
        let mut opening = JoinSet::new();
        loop {
            let room = AT_ONCE_MAX - opening.len();
            for id in waiting.by_ref().take(room) {
                let (ledger, engine) = (Arc::clone(&self.ledger), Arc::clone(&self.engine));
                opening.spawn(async move {
                    let looked = timeout(OPEN_MAX, look(&*ledger, &*engine, id)).await;
                    (id, looked.unwrap_or(Err(DraftError::Late(id))))
                });
            }
            match opening.join_next().await {
                None => return Ok(run),
                Some(Ok((_, Ok(Looked::Open)))) => {}
                Some(Ok((_, Ok(Looked::Opened)))) => run.opened += 1,
                Some(Ok((id, Ok(Looked::Unreadable(error))))) => self.skip(id, &error),
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
            "a campaign cannot be read from the ledger and is not opened: it is read again in ten minutes"
        );
        if self.unreadable.len() < UNREADABLE_MAX {
            self.unreadable.insert(campaign, Instant::now());
        }
    }
}

/// Behind which draft the next page begins, if there may be one.
fn next_page(page: &[CampaignId]) -> Option<CampaignId> {
    page.last()
        .copied()
        .filter(|_| page.len() == DRAFTS_MAX as usize)
}

/// Opens a draft that the engine does not have.
async fn look(
    ledger: &dyn Ledger,
    engine: &dyn Engine,
    id: CampaignId,
) -> Result<Looked, DraftError> {
    match engine.tally(id).await {
        Ok(Some(tally)) if tally.conserves() => return Ok(Looked::Open),
        Ok(_) => {}
        // An engine that reads from the same rows says no more than that it cannot.
        Err(error) => match ledger.campaign(id).await {
            Err(damaged @ LedgerError::Damaged { .. }) => return Ok(Looked::Unreadable(damaged)),
            _ => return Err(DraftError::Engine(id, error)),
        },
    }
    match ledger.setup(id).await {
        Ok(Some(setup)) => open(engine, setup).await,
        // Only a ledger that was put in the place of another one has it no more.
        Ok(None) => Err(DraftError::NotThere(id)),
        Err(error @ LedgerError::Unavailable { .. }) => Err(DraftError::Ledger(error)),
        Err(error) => Ok(Looked::Unreadable(error)),
    }
}

async fn open(engine: &dyn Engine, setup: Setup) -> Result<Looked, DraftError> {
    let (id, funded_minor) = (setup.campaign.id, setup.campaign.funded_minor());
    let failed = |error| DraftError::Engine(id, error);
    let command = Command::Open(Box::new(setup));
    engine.submit(command).await.map_err(failed)?;
    let tally = engine.tally(id).await.map_err(failed)?;
    // A repair may withhold some of it; a sale's stock may have been changed since.
    let is_whole = |tally: &Tally| tally.conserves() && tally.funded_minor <= funded_minor;
    match tally.is_some_and(|tally| is_whole(&tally)) {
        true => Ok(Looked::Opened),
        false => Err(DraftError::NotThere(id)),
    }
}

impl Reconciler for DraftOpener {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.open_some().await {
            Ok(Run {
                failed: Some(error),
                ..
            })
            | Err(error) => Err(Stuck(error.to_string())),
            // Many were left behind: the others need not wait.
            Ok(run) if run.opened > 0 && self.after.is_some() => Ok(Next::Again),
            Ok(_) => Ok(Next::Wait),
        }
    }
}
