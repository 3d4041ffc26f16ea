//! Subjects without type parameters: a case is compiled once instead of once per engine, log and ledger.

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use qiang_core::ports::{Engine, EventLog, Ledger};

use super::Subject;
use crate::ManualClock;

/// Future of a case or a start.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Starts a subject that uses this clock.
pub(super) type Start<T> = fn(Arc<ManualClock>) -> Boxed<'static, Box<T>>;

/// [`Subject`] of any type.
#[async_trait]
pub(super) trait AnySubject: Send + Sync {
    fn engine(&self) -> &dyn Engine;

    fn ledger(&self) -> &dyn Ledger;

    fn log(&self) -> &dyn EventLog;

    fn settles(&self) -> bool;

    async fn restart(self: Box<Self>) -> Box<dyn AnySubject>;

    async fn down(self: Box<Self>, while_down: Box<dyn FnOnce() + Send>) -> Box<dyn AnySubject>;

    async fn stop(self: Box<Self>);
}

#[async_trait]
impl<S: Subject> AnySubject for S {
    fn engine(&self) -> &dyn Engine {
        Subject::engine(self)
    }

    fn ledger(&self) -> &dyn Ledger {
        Subject::ledger(self)
    }

    fn log(&self) -> &dyn EventLog {
        Subject::log(self)
    }

    fn settles(&self) -> bool {
        Subject::settles(self)
    }

    async fn restart(self: Box<Self>) -> Box<dyn AnySubject> {
        Box::new(Subject::restart(*self).await)
    }

    async fn down(self: Box<Self>, while_down: Box<dyn FnOnce() + Send>) -> Box<dyn AnySubject> {
        Box::new(Subject::down(*self, while_down).await)
    }

    async fn stop(self: Box<Self>) {
        Subject::stop(*self).await;
    }
}

pub(super) fn start<S: Subject>(clock: Arc<ManualClock>) -> Boxed<'static, Box<dyn AnySubject>> {
    Box::pin(async { Box::new(S::start(clock).await) as Box<dyn AnySubject> })
}
