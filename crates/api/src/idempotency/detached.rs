//! Requests that continue when their client disconnects: those under idempotency keys, and changes in steps.
//!
//! One request of a key runs at a time; retries wait for it. The number of running requests is bounded. They end before
//! the engine is closed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::response::Response;
use parking_lot::Mutex;
use qiang_core::ports::KeyUse;
use qiang_wire::problem::ProblemKind;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout_at},
};

use crate::http::{problem::ApiProblem, request_id::RequestId};

/// Keys whose requests may run at once. Others are refused as overload.
const RUNS_MAX: u32 = 1_024;
/// Time that a retry waits for the first request before it is answered 503.
const RETRY_WAITS: Duration = Duration::from_secs(5);

/// Scope and key.
type Name = (String, String);

/// The keys whose requests run in this process.
pub(crate) struct Detached {
    room: Arc<Semaphore>,
    retry_waits: Duration,
    /// Each with a receiver that ends with the request.
    under_way: Arc<Mutex<HashMap<Name, watch::Receiver<()>>>>,
}

impl Default for Detached {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(RUNS_MAX as usize)),
            retry_waits: RETRY_WAITS,
            under_way: Arc::default(),
        }
    }
}

impl Detached {
    /// Runs the request of a key in a task of its own. If one of the same key runs, it waits for that first.
    ///
    /// # Errors
    /// `uncertain` if the earlier request takes too long, `overloaded` if too many run, `internal` if this one panics.
    pub(crate) async fn run<F: Future<Output = Result<Response, ApiProblem>> + Send + 'static>(
        &self,
        used: KeyUse,
        work: impl FnOnce(KeyUse) -> F,
    ) -> Result<Response, ApiProblem> {
        let turn = self.turn(&used).await?;
        in_task(turn, work(used)).await
    }

    /// Runs a request without a key in a task of its own.
    ///
    /// # Errors
    /// `overloaded` if too many run, `internal` if it panics.
    pub(crate) async fn run_unkeyed(
        &self,
        work: impl Future<Output = Result<Response, ApiProblem>> + Send + 'static,
    ) -> Result<Response, ApiProblem> {
        in_task(self.room()?, work).await
    }

    fn room(&self) -> Result<OwnedSemaphorePermit, ApiProblem> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        room.map_err(|_| ProblemKind::Overloaded.into())
    }

    async fn turn(&self, used: &KeyUse) -> Result<Turn, ApiProblem> {
        let name = (used.scope.clone(), used.key.as_str().to_owned());
        let until = Instant::now() + self.retry_waits;
        loop {
            let mut earlier = match self.enter(&name)? {
                Ok(turn) => return Ok(turn),
                Err(earlier) => earlier,
            };
            // The wait ends with an error, because the sender was dropped.
            if timeout_at(until, earlier.changed()).await.is_err() {
                let detail = "an earlier request with this key is being carried out";
                return Err(ApiProblem::new(ProblemKind::Uncertain, detail));
            }
        }
    }

    fn enter(&self, name: &Name) -> Result<Result<Turn, watch::Receiver<()>>, ApiProblem> {
        let mut under_way = self.under_way.lock();
        if let Some(earlier) = under_way.get(name) {
            return Ok(Err(earlier.clone()));
        }
        let room = self.room()?;
        let (ends, end) = watch::channel(());
        under_way.insert(name.clone(), end);
        Ok(Ok(Turn {
            under_way: Arc::clone(&self.under_way),
            name: name.clone(),
            _ends: ends,
            _room: room,
        }))
    }

    /// Waits until no request runs, at most until this time. No request starts from then on.
    pub(crate) async fn finish(&self, until: Instant) {
        let ended = timeout_at(until, self.room.acquire_many(RUNS_MAX)).await;
        // No request starts in between, because all permits are in use.
        self.room.close();
        if ended.is_err() {
            tracing::warn!("requests still run at the stop; retries look for their effect");
        }
    }
}

/// Runs a request in a task that has its permit, and returns its answer.
async fn in_task(
    permit: impl Send + 'static,
    work: impl Future<Output = Result<Response, ApiProblem>> + Send + 'static,
) -> Result<Response, ApiProblem> {
    let id = RequestId::current();
    let task = tokio::spawn(async move {
        let _permit = permit;
        match id {
            Some(id) => {
                let (answered, id) = id.scope(work).await;
                (answered, id.replays())
            }
            None => (work.await, false),
        }
    });
    let (answered, replays) = task
        .await
        .map_err(|error| ApiProblem::internal(format!("a command failed: {error}")))?;
    if replays {
        RequestId::mark_replay();
    }
    answered
}

/// Permit to run the request of a key. It ends when it is dropped, also after a panic.
struct Turn {
    under_way: Arc<Mutex<HashMap<Name, watch::Receiver<()>>>>,
    name: Name,
    _ends: watch::Sender<()>,
    _room: OwnedSemaphorePermit,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.under_way.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use qiang_core::id::IdempotencyKey;
    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    fn used(key: &str) -> KeyUse {
        KeyUse::new("a POST /x", IdempotencyKey::new(key).unwrap(), [0; 32])
    }

    async fn nothing(_: KeyUse) -> Result<Response, ApiProblem> {
        Ok(().into_response())
    }

    async fn broken(_: KeyUse) -> Result<Response, ApiProblem> {
        panic!("as planned")
    }

    #[tokio::test]
    async fn a_request_continues_when_its_client_is_gone_and_a_retry_waits_for_it() {
        let detached = Arc::new(Detached::default());
        let (go, gone) = oneshot::channel::<()>();
        let (did, done) = oneshot::channel();
        let first = detached.run(used("k"), |_| async move {
            drop(gone.await);
            did.send(()).unwrap();
            Ok(().into_response())
        });
        // Polled once, then dropped as a closed connection drops it.
        assert!(timeout(Duration::ZERO, first).await.is_err());
        let again = {
            let detached = Arc::clone(&detached);
            tokio::spawn(async move { detached.run(used("k"), nothing).await })
        };
        // Another key does not wait.
        detached.run(used("l"), nothing).await.unwrap();
        assert!(!again.is_finished());
        go.send(()).unwrap();
        again.await.unwrap().unwrap();
        done.await.unwrap();
        assert!(detached.under_way.lock().is_empty());
    }

    #[tokio::test]
    async fn a_retry_waits_no_longer_than_it_may() {
        let detached = Detached {
            retry_waits: Duration::from_millis(10),
            ..Detached::default()
        };
        let first = detached.run(used("k"), |_| std::future::pending());
        assert!(timeout(Duration::ZERO, first).await.is_err());
        let answered = detached.run(used("k"), nothing).await;
        assert!(answered.unwrap_err().is(ProblemKind::Uncertain));
        detached
            .finish(Instant::now() + Duration::from_millis(10))
            .await;
        let late = detached.run(used("l"), nothing).await;
        assert!(late.unwrap_err().is(ProblemKind::Overloaded));
    }

    #[tokio::test]
    async fn a_request_without_a_key_continues_when_its_client_is_gone() {
        let detached = Detached::default();
        let (go, gone) = oneshot::channel::<()>();
        let (did, done) = oneshot::channel();
        let request = detached.run_unkeyed(async move {
            drop(gone.await);
            did.send(()).unwrap();
            Ok(().into_response())
        });
        assert!(timeout(Duration::ZERO, request).await.is_err());
        go.send(()).unwrap();
        done.await.unwrap();
        detached.finish(Instant::now()).await;
        let late = detached.run_unkeyed(async { Ok(().into_response()) }).await;
        assert!(late.unwrap_err().is(ProblemKind::Overloaded));
    }

    #[tokio::test]
    async fn a_panic_lets_the_next_request_of_the_key_run() {
        let detached = Detached::default();
        let first = detached.run(used("k"), broken);
        let waits = detached.run(used("k"), nothing);
        let (first, waits) = tokio::join!(first, waits);
        assert!(first.unwrap_err().is(ProblemKind::Internal));
        waits.unwrap();
        detached.finish(Instant::now()).await;
        assert!(detached.under_way.lock().is_empty());
    }
}
