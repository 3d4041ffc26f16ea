//! What a ledger keeps that loses requests and replies.

use std::{sync::Mutex, time::Duration};

use qiang_core::{
    book::Setup,
    event::{Entry, Event, Seq},
    ports::LedgerError,
};

use super::broken;

/// What a ledger has settled, and what becomes of its requests.
pub(crate) struct Kept {
    pub(crate) entries: Vec<Entry>,
    /// For each request, and how long it is under way.
    pub(crate) weather: Box<dyn FnMut() -> (Weather, Duration) + Send>,
    /// It takes entries again that it has: a bug, for a simulation to find.
    pub(crate) settles_twice: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fine,
    RequestLost,
    ReplyLost,
}

impl Kept {
    /// A request is on its way.
    pub(crate) fn receive(&mut self) -> (Weather, Duration) {
        (self.weather)()
    }

    /// As a ledger does: what it has already is passed over, and a gap is refused. A campaign whose opening is settled
    /// is no draft any more.
    pub(crate) fn take(
        &mut self,
        entries: &[Entry],
        weather: Weather,
        drafts: &Mutex<Result<Vec<Setup>, LedgerError>>,
    ) -> Result<Seq, LedgerError> {
        if weather == Weather::RequestLost {
            return Err(broken());
        }
        let settled = self.entries.last().map_or(0, |entry| entry.seq);
        let fresh = qiang_core::settlement::fresh(entries, settled);
        let fresh = fresh.map_err(|error| LedgerError::damaged(error.to_string()))?;
        let again = if self.settles_twice { entries } else { fresh };
        self.entries.extend_from_slice(again);
        let opened = |entry: &&Entry| matches!(entry.event, Event::Opened { .. });
        let opened = fresh.iter().filter(opened).map(|entry| entry.campaign);
        let opened: Vec<_> = opened.collect();
        if let Ok(drafts) = &mut *drafts.lock().unwrap() {
            drafts.retain(|setup| !opened.contains(&setup.campaign.id));
        }
        Ok(settled.max(entries.last().map_or(0, |entry| entry.seq)))
    }
}

pub(crate) fn reply(weather: Weather, last: Seq) -> Result<Seq, LedgerError> {
    match weather {
        Weather::ReplyLost => Err(broken()),
        Weather::Fine | Weather::RequestLost => Ok(last),
    }
}
