//! The task of one partition.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{Health, Options, Shown, Signal, StepError, StepResult, settle_once, settle_via};

pub(super) struct Worker {
    partition: PartitionId,
    log: Arc<dyn EventLog>,
    ledger: Arc<dyn Ledger>,
    options: Arc<Options>,
    shown: Arc<Mutex<Shown>>,
    signal: watch::Receiver<Signal>,
    /// Whether the log still has to be told what it may forget: somebody may have died before saying it.
    unreleased: bool,
    /// Failures since the last success.
    failures: u32,
}

/// What to do after a step.
enum Next {
    /// There is more.
    GoOn,
    /// Wait for a signal, and at most for the poll interval.
    Wait,
    /// Try again after a while, signal or not.
    TryAgain(Duration),
    /// Do nothing before the log is repaired.
    Halt,
}

impl Worker {
    pub(super) fn new(
        partition: PartitionId,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
        options: Arc<Options>,
        shown: Arc<Mutex<Shown>>,
        signal: watch::Receiver<Signal>,
    ) -> Self {
        Self {
            partition,
            log,
            ledger,
            options,
            shown,
            signal,
            unreleased: true,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            // What is signalled from here on is about the next step.
            let seen = *self.signal.borrow_and_update();
            if seen.stop {
                return;
            }
            let goes_on = match self.step().await {
                Next::GoOn => true,
                Next::Wait => {
                    self.until(self.options.rest, |_| false).await
                        && self
                            .until(self.options.poll_interval, |now| now.wakes > seen.wakes)
                            .await
                }
                Next::TryAgain(pause) => self.until(pause, |_| false).await,
                Next::Halt => self.until_resumed(seen.resumes).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// One step, and what it makes of the partition's health.
    async fn step(&mut self) -> Next {
        let limit = self.options.entries_max;
        let (log, ledger) = (&*self.log, &*self.ledger);
        let carried = match &self.options.transport {
            Some(transport) => {
                let wait_max = self.options.poll_interval;
                settle_via(&**transport, log, ledger, self.partition, limit, wait_max).await
            }
            None => settle_once(log, ledger, self.partition, limit).await,
        };
        match carried {
            Ok(carried) => {
                self.show(carried.head, carried.settled);
                match self.release(&carried).await {
                    Err(error) => return Next::TryAgain(self.fail(&error)),
                    Ok(()) => self.well(),
                }
                if carried.entries >= limit {
                    Next::GoOn
                } else {
                    Next::Wait
                }
            }
            Err(StepError::RolledBack { settled, head }) => {
                self.show(head, settled);
                self.halt(settled, head);
                Next::Halt
            }
            Err(error) => Next::TryAgain(self.fail(&error)),
        }
    }

    /// Sees to it that the log knows what it may forget.
    async fn release(&mut self, carried: &StepResult) -> Result<(), StepError> {
        let released = if self.unreleased && carried.entries == 0 {
            match &self.options.transport {
                Some(transport) => transport.done(self.partition, carried.settled).await,
                None => self.log.release(self.partition, carried.settled).await,
            }
        } else {
            carried.released.clone()
        };
        self.unreleased = released.is_err();
        released.map_err(StepError::Log)
    }

    fn show(&self, head: Seq, settled: Seq) {
        let mut shown = self.shown.lock();
        shown.position.head = head;
        shown.position.settled = settled;
    }

    fn enter(&self, health: Health) -> Health {
        std::mem::replace(&mut self.shown.lock().health, health)
    }

    fn well(&mut self) {
        self.failures = 0;
        if self.enter(Health::Well) != Health::Well {
            tracing::warn!(partition = self.partition.0, "settling again");
        }
    }

    /// Notes a failure, and tells how long to wait.
    fn fail(&mut self, error: &StepError) -> Duration {
        let reason = error.chain();
        if self.enter(Health::Failing(reason.clone())) == Health::Well {
            tracing::error!(partition = self.partition.0, reason, "settlement is stuck");
        }
        let doublings = self.failures.min(u32::BITS - 1);
        self.failures += 1;
        let pause = self.options.backoff_min.saturating_mul(1 << doublings);
        pause.min(self.options.backoff_max)
    }

    fn halt(&mut self, settled: Seq, head: Seq) {
        let reason = StepError::RolledBack { settled, head }.chain();
        self.enter(Health::Halted(reason));
        tracing::error!(
            partition = self.partition.0,
            settled,
            head,
            "the log has lost entries: nothing of it is settled before it is repaired"
        );
        (self.options.on_rollback)(self.partition, settled, head);
    }

    /// Waits until the time is over, or until what was signalled is `enough`; tells whether to go on at all.
    async fn until(&mut self, wait_max: Duration, enough: impl Fn(&Signal) -> bool) -> bool {
        let over = Instant::now() + wait_max;
        let heard = self.signal.wait_for(|signal| signal.stop || enough(signal));
        match timeout_at(over, heard).await {
            Ok(Ok(signal)) => !signal.stop,
            Ok(Err(_)) => false, // nobody is there any more who could stop it
            Err(_) => true,
        }
    }

    async fn until_resumed(&mut self, resumes: u64) -> bool {
        let heard = self
            .signal
            .wait_for(|signal| signal.stop || signal.resumes > resumes);
        heard.await.is_ok_and(|signal| !signal.stop)
    }
}
