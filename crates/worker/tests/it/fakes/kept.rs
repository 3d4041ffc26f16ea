//! Rows of a fake ledger that loses requests and replies.

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

/// Rows of a ledger, and the fate of its requests.
pub(crate) struct Kept {
    pub(crate) rows: Arc<Mutex<Rows>>,
    /// Fate and duration of each request.
    pub(crate) weather: Box<dyn FnMut() -> (Weather, Duration) + Send>,
}

/// Fate of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fine,
    RequestLost,
    ReplyLost,
}

impl Kept {
    /// Draws fate and duration of a request.
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
