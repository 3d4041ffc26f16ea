//! The task host: runs reconcilers, each in a task of its own, on a timer and on a signal.
//!
//! A reconciler makes the world a little more as it should be, and may be run as often as one likes. One that fails is
//! run again after a pause that grows, and holds up no other. Every change from well to stuck and back is logged once.

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

/// Something that has to be done again and again.
pub trait Reconciler: Send + 'static {
    /// One run. Repeating it is harmless, and so is breaking it off where it waits.
    ///
    /// # Errors
    /// Why it could not do all that it should.
    fn reconcile(&mut self) -> impl Future<Output = Result<Next, Stuck>> + Send;
}

/// When to run a reconciler again that has done what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to do.
    Again,
    /// After a signal, or when the interval is over.
    Wait,
}

/// Why a reconciler does not get on. It is run again by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck(pub String);

/// When to run a reconciler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// How long it waits for a signal before it runs by itself.
    pub interval: Duration,
    /// How long it waits in any case before it listens for signals.
    pub rest: Duration,
    /// The first pause after a failure; each further one doubles it.
    pub backoff_min: Duration,
    /// The longest pause after failures.
    pub backoff_max: Duration,
}

impl Schedule {
    /// Runs after every interval, and as often when it fails.
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

/// What a reconciler is signalled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Signal {
    /// Grows when there may be something to do.
    wakes: u64,
    stop: bool,
}

/// Runs some reconcilers. Dropped, it lets each finish its run; [`Host::stop`] waits for that.
pub struct Host {
    /// What its reconcilers do, for the log.
    purpose: &'static str,
    tasks: Mutex<Vec<Task>>,
}

/// Wakes one reconciler.
#[derive(Debug, Clone)]
pub struct Waker(Weak<watch::Sender<Signal>>);

impl Waker {
    /// Says that there may be something to do for it. Cheap, and may be said as often as one likes.
    pub fn wake(&self) {
        if let Some(signal) = self.0.upgrade() {
            signal.send_modify(|signal| signal.wakes += 1);
        }
    }
}

struct Task {
    name: String,
    /// The task ends when this is dropped.
    signal: Arc<watch::Sender<Signal>>,
    stuck: Arc<Mutex<Option<Stuck>>>,
    handle: JoinHandle<()>,
}

impl Task {
    /// Why it does not get on, if so.
    fn stuck(&self) -> Option<String> {
        let stuck = self.stuck.lock();
        let Stuck(why) = stuck.as_ref()?;
        Some(format!("{}: {why}", self.name))
    }

    /// That it has ended without being asked to, if so.
    fn failed(&self) -> Option<String> {
        let failed = || format!("{}: its task has failed; restart", self.name);
        self.handle.is_finished().then(failed)
    }
}

impl Host {
    /// A host without reconcilers.
    #[must_use]
    pub fn new(purpose: &'static str) -> Self {
        Self {
            purpose,
            tasks: Mutex::default(),
        }
    }

    /// Starts a reconciler, at once. Needs a tokio runtime around it.
    pub fn start(&self, name: &str, schedule: Schedule, reconciler: impl Reconciler) -> Waker {
        let signal = Arc::new(watch::Sender::new(Signal::default()));
        let waker = Waker(Arc::downgrade(&signal));
        let stuck = Arc::<Mutex<Option<Stuck>>>::default();
        let runner = Runner {
            purpose: self.purpose,
            name: name.to_owned(),
            schedule,
            reconciler,
            signal: signal.subscribe(),
            stuck: Arc::clone(&stuck),
            failures: 0,
        };
        self.tasks.lock().push(Task {
            name: name.to_owned(),
            signal,
            stuck,
            handle: tokio::spawn(runner.run()),
        });
        waker
    }

    /// Says to all reconcilers that there may be something to do for them.
    pub fn wake(&self) {
        for task in self.tasks.lock().iter() {
            task.signal.send_modify(|signal| signal.wakes += 1);
        }
    }

    /// Which reconciler is stuck and why, if one is.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let tasks = self.tasks.lock();
        let stuck = tasks.iter().find_map(Task::stuck);
        stuck.or_else(|| tasks.iter().find_map(Task::failed))
    }

    /// Whether and why the reconciler of this name is stuck.
    #[must_use]
    pub fn stuck_one(&self, name: &str) -> Option<String> {
        let tasks = self.tasks.lock();
        let task = tasks.iter().find(|task| task.name == name)?;
        task.stuck().or_else(|| task.failed())
    }

    /// Lets every reconciler finish its run, starts no other, and waits for the ends.
    pub async fn stop(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in &tasks {
            task.signal.send_modify(|signal| signal.stop = true);
        }
        for task in tasks {
            // A panic has been reported by its hook.
            drop(task.handle.await);
        }
    }

    /// Breaks every run off where it waits.
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
    signal: watch::Receiver<Signal>,
    stuck: Arc<Mutex<Option<Stuck>>>,
    /// Failures since the last success.
    failures: u32,
}

impl<R: Reconciler> Runner<R> {
    async fn run(mut self) {
        loop {
            // What is signalled from here on is about the next run.
            let seen = *self.signal.borrow_and_update();
            if seen.stop {
                return;
            }
            let result = self.reconciler.reconcile().await;
            self.show(result.as_ref().err());
            let goes_on = match result {
                Ok(Next::Again) => true,
                Ok(Next::Wait) => {
                    let Schedule { rest, interval, .. } = self.schedule;
                    self.wait(rest, |_| false).await
                        && self.wait(interval, |now| now.wakes > seen.wakes).await
                }
                Err(Stuck(_)) => {
                    let pause = self.pause();
                    self.wait(pause, |_| false).await
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Shows how the last run ended, and logs a change.
    fn show(&mut self, stuck: Option<&Stuck>) {
        let (purpose, name) = (self.purpose, &self.name);
        let before = std::mem::replace(&mut *self.stuck.lock(), stuck.cloned());
        match (before, stuck) {
            (Some(_), None) => tracing::warn!(purpose, name, "a reconciler gets on again"),
            (None, Some(Stuck(reason))) => {
                tracing::error!(purpose, name, reason, "a reconciler is stuck");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        if stuck.is_none() {
            self.failures = 0;
        }
    }

    /// How long to wait after one more failure.
    fn pause(&mut self) -> Duration {
        let doublings = self.failures.min(u32::BITS - 1);
        self.failures += 1;
        let pause = self.schedule.backoff_min.saturating_mul(1 << doublings);
        pause.min(self.schedule.backoff_max)
    }

    /// Waits until the time is over, or until what was signalled is `enough`; tells whether to go on at all.
    async fn wait(&mut self, wait_max: Duration, enough: impl Fn(&Signal) -> bool) -> bool {
        let over = Instant::now() + wait_max;
        let signalled = self.signal.wait_for(|signal| signal.stop || enough(signal));
        match timeout_at(over, signalled).await {
            Ok(Ok(signal)) => !signal.stop,
            Ok(Err(_)) => false, // the host is gone: nobody could stop it any more
            Err(_) => true,
        }
    }
}
