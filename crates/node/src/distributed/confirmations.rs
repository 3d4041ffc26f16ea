//! Bounds of claims and commands that wait for the ledger's confirmation.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Claims that wait for the ledger at a time; more are refused as overload before they are decided.
const WAITING_MAX: usize = 8_192;
/// The same of commands, so that claims leave room for payments.
const COMMANDS_MAX: usize = 4_096;

pub(super) struct Confirmations {
    claims: Arc<Semaphore>,
    commands: Arc<Semaphore>,
}

impl Confirmations {
    pub(super) fn new() -> Self {
        Self {
            claims: Arc::new(Semaphore::new(WAITING_MAX)),
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }

    /// Takes up room for a claim that may have to wait; none if there is none. It ends with what is returned.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.claims).try_acquire_owned().ok()
    }

    /// The same for a command.
    pub(super) fn enter_command(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.commands).try_acquire_owned().ok()
    }
}
