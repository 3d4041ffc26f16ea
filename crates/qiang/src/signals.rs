//! The signals that a process is run by.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a process was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// By SIGTERM: by whoever runs it.
    Terminate,
    /// By SIGINT: at a keyboard.
    Interrupt,
}

/// What a process is asked for that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// By SIGHUP: to read its configuration again.
    Reload,
    /// By SIGUSR1: to do at once what it does from time to time.
    Reconcile,
}

impl Request {
    /// Says that nothing of it is done, and why.
    pub(crate) fn decline(self, why: &str) {
        match self {
            Self::Reload => tracing::warn!("SIGHUP: nothing is read again, because {why}"),
            Self::Reconcile => tracing::warn!("SIGUSR1: nothing is reconciled, because {why}"),
        }
    }
}

/// SIGTERM, SIGINT, SIGHUP and SIGUSR1, which end the process no more once this is made. What comes before it is looked
/// at is not lost.
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

    /// Waits to be asked to stop. Calls `obey` at every other request until then.
    pub(crate) async fn stop(&mut self, obey: impl Fn(Request)) -> Stop {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Stop::Terminate,
                _ = self.interrupt.recv() => return Stop::Interrupt,
                _ = self.hangup.recv() => obey(Request::Reload),
                _ = self.user.recv() => obey(Request::Reconcile),
            }
        }
    }

    /// Waits for so long, or to be asked to stop once more. Nothing else is obeyed any more.
    pub(crate) async fn stop_or(&mut self, wait_max: Duration) {
        let decline = |request: Request| request.decline("the process stops");
        // Either way it is over.
        drop(tokio::time::timeout(wait_max, self.stop(decline)).await);
    }
}
