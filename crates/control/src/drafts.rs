//! Opens drafts: campaigns that are in the ledger, and that no engine has opened yet.
//!
//! A crash between a campaign's funding and its opening leaves one behind, and so does a request that was cut off
//! there.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::Command,
    campaign::Tally,
    id::CampaignId,
    ports::{Engine, EngineError, Ledger, LedgerError},
};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often drafts are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why not all drafts are open.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The ledger did not list them.
    #[error("drafts cannot be listed: {0}")]
    Ledger(LedgerError),
    /// The engine did not open one.
    #[error("campaign {0} is not opened: {1}")]
    Engine(CampaignId, EngineError),
    /// The engine says that it has opened one, and does not have it, or not all of it.
    #[error("campaign {0} was opened, and the engine does not have it as the ledger has")]
    NotThere(CampaignId),
}

/// Opens drafts in an engine.
pub struct DraftOpener {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
}

impl DraftOpener {
    /// When it looks for drafts.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Opens what is a draft in this ledger, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self { ledger, engine }
    }

    /// Opens every draft that can be opened, and returns how many there were. Each is read back: all its parts are
    /// there, and their numbers add up to what the ledger has funded.
    ///
    /// # Errors
    /// When the ledger does not answer, or the first campaign that the engine has not opened; the others are open.
    pub async fn open_all(&self) -> Result<usize, DraftError> {
        let drafts = self.ledger.drafts().await.map_err(DraftError::Ledger)?;
        let count = drafts.len();
        let mut failed = None;
        for setup in drafts {
            let id = setup.campaign.id;
            let funded_minor = setup.campaign.funded_minor();
            if let Err(error) = self
                .open(id, funded_minor, Command::Open(Box::new(setup)))
                .await
            {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(count), Err)
    }
}

impl DraftOpener {
    async fn open(
        &self,
        id: CampaignId,
        funded_minor: i64,
        command: Command,
    ) -> Result<(), DraftError> {
        let failed = |error| DraftError::Engine(id, error);
        self.engine.submit(command).await.map_err(failed)?;
        let tally = self.engine.tally(id).await.map_err(failed)?;
        // A repair may withhold some of it; a sale's stock may have been changed since.
        let is_whole = |tally: &Tally| tally.conserves() && tally.funded_minor <= funded_minor;
        match tally.is_some_and(|tally| is_whole(&tally)) {
            true => Ok(()),
            false => Err(DraftError::NotThere(id)),
        }
    }
}

impl Reconciler for DraftOpener {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.open_all().await {
            Ok(_) => Ok(Next::Wait),
            Err(error) => Err(Stuck(error.to_string())),
        }
    }
}
