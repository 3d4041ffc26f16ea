//! Signals that control a process.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Kind of request to stop a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// By SIGTERM: from a process manager or an operator.
    Terminate,
    /// By SIGINT: from a keyboard.
    Interrupt,
}

/// Request to a process that does not stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// By SIGHUP: read the configuration again.
    Reload,
    /// By SIGUSR1: run all periodic work once, immediately.
    Reconcile,
}

impl SignalRequest {
    /// Logs that the request is ignored, and why.
    pub(crate) fn decline(self, why: &str) {
        match self {
            Self::Reload => tracing::warn!("SIGHUP: nothing is read again, because {why}"),
            Self::Reconcile => tracing::warn!("SIGUSR1: nothing is reconciled, because {why}"),
        }
    }
}

/// Handlers of SIGTERM, SIGINT, SIGHUP and SIGUSR1. While they are registered, these signals do not end the process.
/// Signals that arrive before the first wait are kept.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl Signals {
    pub(crate) fn register() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for a request to stop. Calls `obey` with every other request until then.
    pub(crate) async fn stop(&mut self, obey: impl Fn(SignalRequest)) -> StopSignal {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return StopSignal::Terminate,
                _ = self.interrupt.recv() => return StopSignal::Interrupt,
                _ = self.hangup.recv() => obey(SignalRequest::Reload),
                _ = self.user.recv() => obey(SignalRequest::Reconcile),
            }
        }
    }

    /// Waits for `wait_max`, or for another request to stop. Declines all other requests.
    pub(crate) async fn stop_or(&mut self, wait_max: Duration) {
        let decline = |request: SignalRequest| request.decline("the process stops");
        // Both results end the wait.
        drop(tokio::time::timeout(wait_max, self.stop(decline)).await);
    }
}
