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

/// SIGTERM, SIGINT and SIGHUP, which end the process no more once this is made. What comes before it is looked at is
/// not lost.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn register() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits to be asked to stop. Calls `reload` at every SIGHUP until then.
    pub(crate) async fn stop(&mut self, reload: impl Fn()) -> Stop {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Stop::Terminate,
                _ = self.interrupt.recv() => return Stop::Interrupt,
                _ = self.hangup.recv() => reload(),
            }
        }
    }

    /// Waits for so long, or to be asked to stop once more. Nothing is read again any more.
    pub(crate) async fn stop_or(&mut self, wait_max: Duration) {
        let reload = || tracing::warn!("SIGHUP: nothing is read again, because the process stops");
        // Either way it is over.
        drop(tokio::time::timeout(wait_max, self.stop(reload)).await);
    }
}
