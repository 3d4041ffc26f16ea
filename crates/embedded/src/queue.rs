//! Bounded queue between the callers and the writer thread.
//!
//! Callers push single tasks and never wait. The writer takes all waiting tasks at once by exchanging buffers; that
//! makes the batches. An idle engine waits for no further task.
//!
//! After a large batch, the writer waits a bounded time until most of its callers have sent their next task. A commit
//! costs the same for one task as for a hundred. With two cores, each unneeded commit takes time from the callers.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use qiang_core::ports::EngineError;

/// Wait of the writer per expected task: slightly more than two cores need for a claim over HTTP. Slower callers are
/// not worth the wait.
const GATHER_PER_TASK: Duration = Duration::from_micros(25);
/// Maximum wait for all expected tasks.
const GATHER_MAX: Duration = Duration::from_millis(2);
/// Maximum tasks worth waiting for: above it, the cost of a commit per task is small enough.
const WORTHWHILE_MAX: usize = 256;

/// Reason why a task was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    Full,
    /// The queue is halted until [`Queue::resume`].
    Halted,
    Closed,
}

impl From<PushError> for EngineError {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Full => Self::Overloaded,
            PushError::Halted => Self::unavailable("the writer has stopped"),
            PushError::Closed => Self::Stopping,
        }
    }
}

/// Result of [`Queue::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeResult {
    Tasks,
    /// No task arrived within the wait.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

#[derive(Debug)]
struct QueueContent<T> {
    tasks: Vec<T>,
    closed: bool,
    aborted: bool,
    halted: bool,
    /// Number of tasks that wakes the waiting writer; 0 while it does not wait.
    wake_at: usize,
}

/// Bounded queue with many producers and one consumer.
#[derive(Debug)]
pub(crate) struct TaskQueue<T> {
    inner: Mutex<QueueContent<T>>,
    filled: Condvar,
    tasks_max: usize,
}

impl<T> TaskQueue<T> {
    pub(crate) fn new(tasks_max: usize) -> Self {
        let inner = QueueContent {
            tasks: Vec::new(),
            closed: false,
            aborted: false,
            halted: false,
            wake_at: 0,
        };
        Self {
            inner: Mutex::new(inner),
            filled: Condvar::new(),
            tasks_max,
        }
    }

    /// Adds a task, or returns it with the reason.
    pub(crate) fn push(&self, task: T) -> Result<(), (PushError, T)> {
        self.push_up_to(self.tasks_max, task)
    }

    /// Adds a task of lower priority: only while the queue is less than half full.
    pub(crate) fn push_aside(&self, task: T) -> Result<(), (PushError, T)> {
        self.push_up_to(self.tasks_max / 2, task)
    }

    /// Adds a task for which the consumer waits, even if the queue is full.
    pub(crate) fn push_beyond(&self, task: T) -> Result<(), (PushError, T)> {
        self.push_up_to(usize::MAX, task)
    }

    fn push_up_to(&self, tasks_max: usize, task: T) -> Result<(), (PushError, T)> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err((PushError::Closed, task));
        }
        if inner.halted {
            return Err((PushError::Halted, task));
        }
        if inner.tasks.len() >= tasks_max {
            return Err((PushError::Full, task));
        }
        inner.tasks.push(task);
        if inner.wake_at > 0 && inner.tasks.len() >= inner.wake_at {
            inner.wake_at = 0;
            drop(inner);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Exchanges the waiting tasks for the empty `inbox`. First waits for the `expected` further tasks, at most
    /// [`GATHER_MAX`]. Then waits up to `wait_max` for a first task.
    pub(crate) fn take(
        &self,
        inbox: &mut Vec<T>,
        expected: usize,
        wait_max: Duration,
    ) -> TakeResult {
        debug_assert!(inbox.is_empty(), "the last batch was not finished");
        let mut inner = self.inner.lock();
        let here = inner.tasks.len();
        let worthwhile = (here + expected).min(WORTHWHILE_MAX);
        if expected > 1 && here < worthwhile {
            let gather = GATHER_PER_TASK.saturating_mul((worthwhile - here) as u32);
            self.wait(&mut inner, worthwhile, gather.min(GATHER_MAX).min(wait_max));
        }
        self.wait(&mut inner, 1, wait_max);
        if !inner.tasks.is_empty() {
            std::mem::swap(&mut inner.tasks, inbox);
            TakeResult::Tasks
        } else if inner.closed {
            TakeResult::Closed
        } else {
            TakeResult::Nothing
        }
    }

    fn wait(&self, inner: &mut MutexGuard<'_, QueueContent<T>>, tasks: usize, wait_max: Duration) {
        if inner.tasks.len() < tasks && !inner.closed && !wait_max.is_zero() {
            inner.wake_at = tasks;
            self.filled.wait_for(inner, wait_max);
            inner.wake_at = 0;
        }
    }

    /// Refuses further tasks. Waiting tasks are still taken.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Refuses further tasks and returns the waiting ones.
    pub(crate) fn abort(&self) -> Vec<T> {
        let mut inner = self.inner.lock();
        (inner.closed, inner.aborted) = (true, true);
        self.filled.notify_one();
        std::mem::take(&mut inner.tasks)
    }

    /// Whether work on tasks already taken must stop.
    pub(crate) fn is_aborted(&self) -> bool {
        self.inner.lock().aborted
    }

    /// Refuses further tasks until [`Self::resume`] and returns the waiting ones. No task then waits for a consumer
    /// that is busy otherwise.
    pub(crate) fn halt(&self) -> Vec<T> {
        let mut inner = self.inner.lock();
        inner.halted = true;
        std::mem::take(&mut inner.tasks)
    }

    /// Accepts tasks again.
    pub(crate) fn resume(&self) {
        self.inner.lock().halted = false;
    }

    /// Removes and returns the waiting tasks that `unwanted` selects.
    pub(crate) fn extract(&self, unwanted: impl FnMut(&mut T) -> bool) -> Vec<T> {
        self.inner.lock().tasks.extract_if(.., unwanted).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().tasks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded_and_drains_after_close() {
        let queue = TaskQueue::new(2);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Ok(()));
        assert_eq!(queue.push(3), Err((PushError::Full, 3)));
        assert_eq!(queue.push_aside(3), Err((PushError::Full, 3)));
        queue.close();
        assert_eq!(queue.push(4), Err((PushError::Closed, 4)));
        let mut inbox = Vec::new();
        assert_eq!(queue.take(&mut inbox, 0, Duration::ZERO), TakeResult::Tasks);
        assert_eq!(inbox, [1, 2]);
        inbox.clear();
        assert_eq!(
            queue.take(&mut inbox, 0, Duration::from_secs(9)),
            TakeResult::Closed
        );
    }

    #[test]
    fn nothing_waits_while_it_is_halted() {
        let queue = TaskQueue::new(9);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.halt(), [1]);
        assert_eq!(queue.push(2), Err((PushError::Halted, 2)));
        assert_eq!(queue.push_beyond(2), Err((PushError::Halted, 2)));
        queue.resume();
        assert_eq!((queue.push(3), queue.push(4)), (Ok(()), Ok(())));
        assert_eq!(queue.extract(|task| *task == 3), [3]);
        assert_eq!(queue.halt(), [4]);
        queue.close();
        assert_eq!(queue.push(5), Err((PushError::Closed, 5)));
    }

    #[test]
    fn the_wait_for_expected_tasks_is_bounded() {
        let queue = TaskQueue::new(2);
        assert_eq!(queue.push(1), Ok(()));
        let mut inbox = Vec::new();
        // A wait for all expected tasks would hang here.
        let taken = queue.take(&mut inbox, 4_096, Duration::MAX);
        assert_eq!((taken, &*inbox), (TakeResult::Tasks, &[1][..]));
    }

    #[test]
    fn a_waiting_writer_is_woken() {
        let queue = std::sync::Arc::new(TaskQueue::new(2));
        let producer = std::sync::Arc::clone(&queue);
        let thread = std::thread::spawn(move || producer.push(7));
        let mut inbox = Vec::new();
        assert_eq!(
            queue.take(&mut inbox, 0, Duration::from_secs(60)),
            TakeResult::Tasks
        );
        assert_eq!(inbox, [7]);
        assert!(matches!(thread.join(), Ok(Ok(()))));
    }
}
