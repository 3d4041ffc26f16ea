//! What a ledger keeps that loses requests and replies.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use qiang_core::{
    event::{Entry, Seq},
    ports::LedgerError,
};
use qiang_testkit::simulation::Rows;

use super::broken;

/// What a ledger has, and what becomes of its requests.
pub(crate) struct Kept {
    pub(crate) rows: Arc<Mutex<Rows>>,
    /// For each request, and how long it is under way.
    pub(crate) weather: Box<dyn FnMut() -> (Weather, Duration) + Send>,
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

    /// Settles, unless the request is lost.
    pub(crate) fn take(&mut self, entries: &[Entry], weather: Weather) -> Result<Seq, LedgerError> {
        match weather {
            Weather::RequestLost => Err(broken()),
            Weather::Fine | Weather::ReplyLost => self.rows.lock().unwrap().settle(entries),
        }
    }

    /// Reads, unless request or reply is lost.
    pub(crate) fn read<T>(&mut self, read: impl FnOnce(&Rows) -> T) -> Result<T, LedgerError> {
        match self.receive().0 {
            Weather::Fine => Ok(read(&self.rows.lock().unwrap())),
            Weather::RequestLost | Weather::ReplyLost => Err(broken()),
        }
    }
}

pub(crate) fn reply(weather: Weather, last: Seq) -> Result<Seq, LedgerError> {
    match weather {
        Weather::ReplyLost => Err(broken()),
        Weather::Fine | Weather::RequestLost => Ok(last),
    }
}
