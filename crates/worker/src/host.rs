//! Task host: runs each reconciler in its own task, on a timer and on signals.
//!
//! A reconciler repairs drift, and may run any number of times. After a failure it runs again, with growing pauses, and
//! delays no other reconciler. Each change between healthy and stuck is logged once.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

/// A task that runs repeatedly and repairs drift.
pub trait Reconciler: Send + 'static {
    /// Performs one run. It may be repeated, and may be cancelled at any await, without harm.
    ///
    /// # Errors
    /// The reason why it could not do all its work.
    fn reconcile(&mut self) -> impl Future<Output = Result<NextRun, ReconcileError>> + Send;
}

/// When a reconciler runs again after a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRun {
    /// At once, because there is more to do.
    Again,
    /// After a signal, or after the interval.
    Wait,
}

/// Reason why a reconciler makes no progress. The host runs it again automatically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileError(pub String);

/// Timing of a reconciler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Maximum wait for a signal; then it runs without one.
    pub interval: Duration,
    /// Minimum pause, during which signals do not start a run.
    pub rest: Duration,
    /// First pause after a failure. Each further failure doubles it.
    pub backoff_min: Duration,
    /// Maximum pause after failures.
    pub backoff_max: Duration,
}

impl Schedule {
    /// Schedule that runs after every interval, also after failures.
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self {
            interval,
            rest: Duration::ZERO,
            backoff_min: interval,
            backoff_max: interval,
        }
    }
}

/// Signal to a reconciler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WakeSignal {
    /// Count of wake calls. It grows when there may be work.
    wakes: u64,
    stop: bool,
}

/// Runs reconcilers. If it is dropped, each reconciler finishes its run; [`Host::stop`] waits for that.
pub struct Host {
    /// Purpose of its reconcilers, for the log.
    purpose: &'static str,
    tasks: Mutex<Vec<ReconcilerTask>>,
}

/// Wakes one reconciler.
#[derive(Debug, Clone)]
pub struct Waker(Weak<watch::Sender<WakeSignal>>);

impl Waker {
    /// Wakes the reconciler, because there may be work. It is cheap, and may be called any number of times.
    pub fn wake(&self) {
        if let Some(signal) = self.0.upgrade() {
            signal.send_modify(|signal| signal.wakes += 1);
        }
    }
}

struct ReconcilerTask {
    name: String,
    /// Ends the task when it is dropped.
    signal: Arc<watch::Sender<WakeSignal>>,
    stuck: Arc<Mutex<Option<ReconcileError>>>,
    handle: JoinHandle<()>,
}

impl ReconcilerTask {
    /// Reason why it makes no progress, if it is stuck.
    fn stuck(&self) -> Option<String> {
        let stuck = self.stuck.lock();
        let ReconcileError(why) = stuck.as_ref()?;
        Some(format!("{}: {why}", self.name))
    }

    /// Message if its task has ended without a stop signal.
    fn failed(&self) -> Option<String> {
        let failed = || format!("{}: its task has failed; restart", self.name);
        self.handle.is_finished().then(failed)
    }
}

impl Host {
    /// Creates a host without reconcilers.
    #[must_use]
    pub fn new(purpose: &'static str) -> Self {
        Self {
            purpose,
            tasks: Mutex::default(),
        }
    }

    /// Starts a reconciler at once. Needs a tokio runtime.
    pub fn start(&self, name: &str, schedule: Schedule, reconciler: impl Reconciler) -> Waker {
        let signal = Arc::new(watch::Sender::new(WakeSignal::default()));
        let waker = Waker(Arc::downgrade(&signal));
        let stuck = Arc::<Mutex<Option<ReconcileError>>>::default();
        let runner = Runner {
            purpose: self.purpose,
            name: name.to_owned(),
            schedule,
            reconciler,
            signal: signal.subscribe(),
            stuck: Arc::clone(&stuck),
            failures: 0,
        };
        self.tasks.lock().push(ReconcilerTask {
            name: name.to_owned(),
            signal,
            stuck,
            handle: tokio::spawn(runner.run()),
        });
        waker
    }

    /// Wakes all reconcilers, because there may be work for them.
    pub fn wake(&self) {
        for task in self.tasks.lock().iter() {
            task.signal.send_modify(|signal| signal.wakes += 1);
        }
    }

    /// Name and reason of a stuck reconciler, if there is one.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let tasks = self.tasks.lock();
        let stuck = tasks.iter().find_map(ReconcilerTask::stuck);
        stuck.or_else(|| tasks.iter().find_map(ReconcilerTask::failed))
    }

    /// Reason why the reconciler of this name is stuck, if it is.
    #[must_use]
    pub fn stuck_one(&self, name: &str) -> Option<String> {
        let tasks = self.tasks.lock();
        let task = tasks.iter().find(|task| task.name == name)?;
        task.stuck().or_else(|| task.failed())
    }

    /// Lets every reconciler finish its run, starts no other run, and waits until all tasks end.
    pub async fn stop(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in &tasks {
            task.signal.send_modify(|signal| signal.stop = true);
        }
        for task in tasks {
            // The panic hook has reported a panic.
            drop(task.handle.await);
        }
    }

    /// Cancels every run at its next await.
    pub fn abort(&self) {
        for task in self.tasks.lock().drain(..) {
            task.handle.abort();
        }
    }
}

/// The task of one reconciler.
struct Runner<R> {
    purpose: &'static str,
    name: String,
    schedule: Schedule,
    reconciler: R,
    signal: watch::Receiver<WakeSignal>,
    stuck: Arc<Mutex<Option<ReconcileError>>>,
    /// Failures since the last success.
    failures: u32,
}

impl<R: Reconciler> Runner<R> {
    async fn run(mut self) {
        loop {
            // Signals from here on concern the next run.
            let seen = *self.signal.borrow_and_update();
            if seen.stop {
                return;
            }
            let result = self.reconciler.reconcile().await;
            self.show(result.as_ref().err());
            let goes_on = match result {
                Ok(NextRun::Again) => true,
                Ok(NextRun::Wait) => {
                    let Schedule { rest, interval, .. } = self.schedule;
                    self.wait(rest, |_| false).await
                        && self.wait(interval, |now| now.wakes > seen.wakes).await
                }
                Err(ReconcileError(_)) => {
                    let pause = self.pause();
                    self.wait(pause, |_| false).await
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Stores the result of the last run, and logs a change.
    fn show(&mut self, stuck: Option<&ReconcileError>) {
        let (purpose, name) = (self.purpose, &self.name);
        let before = std::mem::replace(&mut *self.stuck.lock(), stuck.cloned());
        match (before, stuck) {
            (Some(_), None) => tracing::warn!(purpose, name, "reconciler recovered"),
            (None, Some(ReconcileError(reason))) => {
                tracing::error!(purpose, name, reason, "a reconciler is stuck");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        if stuck.is_none() {
            self.failures = 0;
        }
    }

    /// Pause after one more failure.
    fn pause(&mut self) -> Duration {
        let doublings = self.failures.min(u32::BITS - 1);
        self.failures += 1;
        let pause = self.schedule.backoff_min.saturating_mul(1 << doublings);
        pause.min(self.schedule.backoff_max)
    }

    /// Waits until the time is over, or until the signal is `enough`. Returns false if the reconciler must stop.
    async fn wait(&mut self, wait_max: Duration, enough: impl Fn(&WakeSignal) -> bool) -> bool {
        let over = Instant::now() + wait_max;
        let signalled = self.signal.wait_for(|signal| signal.stop || enough(signal));
        match timeout_at(over, signalled).await {
            Ok(Ok(signal)) => !signal.stop,
            Ok(Err(_)) => false, // the host is dropped, so no call could stop the reconciler later
            Err(_) => true,
        }
    }
}
