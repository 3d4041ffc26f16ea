//! The task host, by tokio's paused clock, which advances only while every task sleeps.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use qiang_worker::host::{Host, NextRun, ReconcileError, Reconciler, Schedule};
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(20);
const SCHEDULE: Schedule = Schedule {
    interval: INTERVAL,
    rest: REST,
    backoff_min: BACKOFF_MIN,
    backoff_max: BACKOFF_MAX,
};

/// Reconciler with a set result that records the times of its runs.
#[derive(Clone)]
struct Recorder {
    result: Arc<Mutex<Result<NextRun, ReconcileError>>>,
    runs: Arc<Mutex<Vec<Instant>>>,
    /// Duration of a run.
    takes: Duration,
}

impl Recorder {
    fn new() -> Self {
        Self {
            result: Arc::new(Mutex::new(Ok(NextRun::Wait))),
            runs: Arc::default(),
            takes: Duration::ZERO,
        }
    }

    fn ends(&self, result: Result<NextRun, ReconcileError>) {
        *self.result.lock().unwrap() = result;
    }

    fn runs(&self) -> usize {
        self.runs.lock().unwrap().len()
    }

    /// Pauses between the runs since the last call.
    fn pauses(&self) -> Vec<Duration> {
        let mut runs = self.runs.lock().unwrap();
        let pauses = runs.windows(2).map(|pair| pair[1] - pair[0]).collect();
        runs.clear();
        pauses
    }
}

impl Reconciler for Recorder {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        self.runs.lock().unwrap().push(Instant::now());
        sleep(self.takes).await;
        let result = self.result.lock().unwrap().clone();
        assert_ne!(result, Err(ReconcileError("a panic".to_owned())));
        result
    }
}

fn seconds(pauses: &[Duration]) -> Vec<u64> {
    pauses.iter().map(Duration::as_secs).collect()
}

#[tokio::test(start_paused = true)]
async fn reconcilers_run_on_a_timer_and_on_a_signal() {
    let (host, recorder) = (Host::new("test"), Recorder::new());
    let waker = host.start("one", SCHEDULE, recorder.clone());
    sleep(Duration::from_secs(40)).await;
    assert_eq!(seconds(&recorder.pauses()), [11, 11, 11]);
    sleep(Duration::from_secs(6)).await; // there was a run at 44 s, and its rest is over
    assert_eq!(recorder.runs(), 1);
    waker.wake();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(recorder.runs(), 2, "a signal is enough");
    waker.wake();
    sleep(REST / 2).await;
    assert_eq!(recorder.runs(), 2, "it rests first");
    sleep(REST).await;
    assert_eq!(recorder.runs(), 3, "the signal is not lost");
    sleep(REST).await;
    host.wake();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(recorder.runs(), 4, "a signal reaches all");
    host.stop().await;
    sleep(INTERVAL * 10).await;
    assert_eq!(recorder.runs(), 4);
}

#[tokio::test(start_paused = true)]
async fn more_to_do_is_done_at_once() {
    let (host, mut recorder) = (Host::new("test"), Recorder::new());
    recorder.takes = Duration::from_secs(1);
    recorder.ends(Ok(NextRun::Again));
    host.start("one", SCHEDULE, recorder.clone());
    sleep(Duration::from_millis(3_500)).await;
    assert_eq!(seconds(&recorder.pauses()), [1, 1, 1]);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_after_growing_pauses_and_hold_up_no_other() {
    let (host, failing, well) = (Host::new("test"), Recorder::new(), Recorder::new());
    failing.ends(Err(ReconcileError("no disk".to_owned())));
    let wakers = [
        host.start("one", SCHEDULE, failing.clone()),
        host.start("two", SCHEDULE, well.clone()),
    ];
    for _ in 0..75 {
        sleep(Duration::from_secs(1)).await;
        for waker in &wakers {
            waker.wake(); // does not shorten a pause
        }
    }
    assert_eq!(host.stuck().unwrap(), "one: no disk");
    assert_eq!(seconds(&failing.pauses()), [2, 4, 8, 16, 20, 20]);
    assert!(well.runs() > 30);
    failing.ends(Ok(NextRun::Wait));
    sleep(BACKOFF_MAX).await;
    assert_eq!(host.stuck(), None);
    failing.pauses();
    failing.ends(Err(ReconcileError("no disk".to_owned())));
    sleep(Duration::from_secs(30)).await;
    let pauses = failing.pauses();
    assert_eq!(seconds(&pauses)[..2], [2, 4], "the pauses start again");
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_the_run_and_aborting_does_not() {
    let mut recorder = Recorder::new();
    recorder.takes = INTERVAL;
    for (abort, takes) in [(false, INTERVAL - REST), (true, Duration::ZERO)] {
        let host = Host::new("test");
        host.start("one", SCHEDULE, recorder.clone());
        sleep(REST).await;
        let began = Instant::now();
        if abort {
            host.abort();
        }
        host.stop().await;
        assert_eq!(began.elapsed(), takes);
        sleep(INTERVAL * 10).await;
        assert_eq!(recorder.runs(), 1);
        recorder.pauses();
    }
    let host = Host::new("test");
    host.start("one", SCHEDULE, recorder.clone());
    sleep(REST).await;
    drop(host);
    sleep(INTERVAL * 10).await;
    assert_eq!(
        recorder.runs(),
        1,
        "a dropped host finishes its run and ends"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_is_noticed() {
    let (host, recorder) = (Host::new("test"), Recorder::new());
    recorder.ends(Err(ReconcileError("a panic".to_owned())));
    host.start("one", SCHEDULE, recorder.clone());
    sleep(REST).await;
    assert_eq!(host.stuck().unwrap(), "one: its task has failed; restart");
    host.stop().await;
}
