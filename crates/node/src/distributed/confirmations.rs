//! How many claims wait for the ledger's confirmation.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Claims that wait for the ledger at a time; more are refused as overload before they are decided.
const WAITING_MAX: usize = 8_192;

pub(super) struct Confirmations(Arc<Semaphore>);

impl Confirmations {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(WAITING_MAX)))
    }

    /// Takes up room for a claim that may have to wait; none if there is none. It ends with what is returned.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}
